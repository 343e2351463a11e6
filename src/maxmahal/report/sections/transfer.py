"""Images crafted on one model and shown to another: a target that falls to them was never robust (paper Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.statistics import Rate
from maxmahal.records.types import StageRecords
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Group, Subject, make_groups
from maxmahal.report.wording import percent, whole


@dataclass(frozen=True)
class Entry:
    """One substitute against one target."""

    rate: Rate | None
    tip: str
    white_box: bool


@dataclass(frozen=True)
class Matrix:
    """One way of crafting, on every model at hand."""

    title: str
    targets: tuple[Subject, ...]
    rows: tuple[tuple[str, tuple[Entry, ...]], ...]
    """A substitute's name, and how each target takes its images."""


def transfer_section(subjects: Sequence[Subject]) -> Section | None:
    """None where no stage was crafted elsewhere."""
    matrices = [matrix for group in make_groups(subjects) for matrix in _matrices(group)]
    if not matrices:
        return None
    body = render("sections/transfer.html.j2", matrices=matrices)
    return Section("transfer", "Transfer between models", "Transfer", body)


def _matrices(group: Group) -> list[Matrix]:
    found: dict[str, dict[tuple[str, str], StageRecords]] = {}
    for subject in group.subjects:
        for stage in subject.evaluation.stages:
            if stage.kind == "transfer" and len(stage.columns):
                pair = (str(stage.settings.get("source", "")), subject.label)
                found.setdefault(_crafting(stage), {})[pair] = stage
    return [_matrix(group, crafting, stages) for crafting, stages in found.items()]


def _crafting(stage: StageRecords) -> str:
    """The stage's title without the substitute; two substitutes that crafted alike share a matrix."""
    source = str(stage.settings.get("source", ""))
    return stage.title.removesuffix(f" crafted on {source}").replace(source, "…")


def _matrix(group: Group, crafting: str, stages: dict[tuple[str, str], StageRecords]) -> Matrix:
    targets = tuple(each for each in group.subjects if any(target == each.label for _, target in stages))
    sources = list(dict.fromkeys([each.evaluation.name for each in targets] + [source for source, _ in stages]))
    sources = [source for source in sources if any(source == known for known, _ in stages)]
    rows = tuple((source, tuple(_entry(source, each, stages) for each in targets)) for source in sources)
    return Matrix(f"{crafting}: {group.title}", targets, rows)


def _entry(source: str, target: Subject, stages: dict[tuple[str, str], StageRecords]) -> Entry:
    white_box = source == target.evaluation.name
    stage = stages.get((source, target.label))
    if stage is None:
        return Entry(None, f"No images from {source} were shown to {target.label}.", white_box)
    rate = Rate(float(stage.columns.right_share.sum()), len(stage.columns))
    way = "white box" if white_box else f"crafted on {source}"
    over = f"{whole(rate.total)} samples" + (" that were still standing" if stage.scope == "survivors" else "")
    return Entry(rate, f"{target.label}, {way}: {percent(rate.value)} % right over {over}.", white_box)
