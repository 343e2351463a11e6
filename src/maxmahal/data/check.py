"""Check that a data set on this machine is the published one: checksums, counts, class balance."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from maxmahal.data.load import find_loader, resolve_data_dir
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import SPLITS, OfficialFile, Split, way_out
from maxmahal.data.types import ImageData, disagreement
from maxmahal.errors import DataError
from maxmahal.imports import only_named


@dataclass(frozen=True)
class CheckRow:
    """One check and its result."""

    subject: str
    ok: bool
    finding: str


@dataclass(frozen=True)
class CheckReport:
    """All checks of one data set."""

    name: str
    rows: tuple[CheckRow, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(row.ok for row in self.rows)

    @property
    def lines(self) -> tuple[str, ...]:
        """The rows as plain text."""
        return tuple(f"{'ok ' if row.ok else 'BAD'}  {row.subject}: {row.finding}" for row in self.rows)


def check_dataset(name: str, data_dir: Path | str | None = None) -> CheckReport:
    """Verify each file's checksum, then load both splits and verify the number of images, in total and per class.

    The user's own data must load and agree, and every class needs images.
    """
    load = find_loader(name, data_dir)
    source = SOURCES.get(name)
    folder = resolve_data_dir(data_dir)
    rows = [_check_file(name, file, folder) for file in source.files] if source else []
    parts: dict[Split, ImageData] = {}
    for split in SPLITS:
        try:
            with only_named(name):
                parts[split] = load(split)
                for _ in parts[split].blocks():
                    pass  # each image is read
        except DataError as error:
            rows.append(CheckRow(split, False, str(error)))
        else:
            rows += _check_counts(split, parts[split], source.class_counts if source else {})
    if len(parts) == len(SPLITS):
        problem = disagreement(parts["train"], parts["test"])
        rows.append(CheckRow("train and test", problem is None, problem or "same image shape and classes"))
    return CheckReport(name, tuple(rows))


def _check_file(name: str, file: OfficialFile, data_dir: Path) -> CheckRow:
    path = file.find(data_dir)
    if path is None:
        return CheckRow(file.places[0], False, f"missing from {data_dir}; {way_out(name)}")
    subject = path.relative_to(data_dir).as_posix()
    try:
        matches, finding = file.verify(path)
    except DataError as error:
        return CheckRow(subject, False, str(error))
    return CheckRow(subject, matches is not False, f"{finding}; {way_out(name)}" if matches is False else finding)


def _check_counts(split: Split, data: ImageData, expected: Mapping[Split, tuple[int, ...]]) -> list[CheckRow]:
    counts = tuple(torch.bincount(data.labels.cpu(), minlength=data.num_classes).tolist())
    size = "x".join(str(side) for side in data.image_shape)
    total = f"{len(data)} images of {size} in {data.num_classes} classes"
    low, high = min(counts), max(counts)
    balance = f"{low} images in each class" if low == high else f"{low} to {high} images in a class"
    if split in expected:
        wanted = expected[split]
        right = len(data) == sum(wanted)
        rows = [CheckRow(split, right, total if right else f"{total}, but there must be {sum(wanted)}")]
        right = counts == wanted
        return [*rows, CheckRow(f"{split} balance", right, balance if right else f"{balance}: not the official counts")]
    # A test set may lack a class; a classifier cannot learn a class without images.
    empty = [
        class_name for class_name, count in zip(data.class_names, counts, strict=True) if split == "train" and not count
    ]
    finding = f"{balance}; no image of {', '.join(empty)}: add some" if empty else balance
    return [CheckRow(split, True, total), CheckRow(f"{split} balance", not empty, finding)]
