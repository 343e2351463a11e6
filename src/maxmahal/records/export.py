"""Records for other programs: CSV, JSON and Parquet with a row for each sample of each attack; RobustBench's card."""

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from maxmahal.errors import ArgumentError, did_you_mean
from maxmahal.files import write_atomically, write_text_atomically
from maxmahal.records.statistics import Rate
from maxmahal.records.types import Columns, Evaluation, StageRecords, unique_names
from maxmahal.records.verdict import CLEAN, Trust, give_verdict, right_shares, was_attacked

COSTS = ("iterations", "forward", "backward", "queries")
COLUMNS = {
    **dict.fromkeys(("model", "target", "data", "suite"), "string"),
    "suite_version": "int64",
    **dict.fromkeys(("norm", "epsilon"), "string"),
    **dict.fromkeys(("seed", "sample"), "int64"),
    **dict.fromkeys(("attack", "kind", "threat", "scope", "origin"), "string"),
    "counts": "bool",
    **dict.fromkeys(("label", "clean_prediction", "prediction"), "int64"),
    **dict.fromkeys(("right_before", "broken", "broken_8bit"), "bool"),
    **dict.fromkeys(("right_share", "distortion"), "float64"),
    **dict.fromkeys(COSTS, "int64"),
    **dict.fromkeys(("settings", "model_fingerprint", "data_fingerprint", "device"), "string"),
    **dict.fromkeys(("torch_version", "maxmahal_version"), "string"),
}
"""The columns of every format, in order, with their types in Parquet."""
AUTOATTACK = "autoattack"

_Block = dict[str, list[Any]]
"""The rows of one stage, by column; None where not recorded."""


def write_records(evaluations: Sequence[Evaluation], path: Path, format: str) -> None:
    """Every row of ``evaluations`` in one file; what was not recorded is empty in CSV and null in JSON and Parquet."""
    if format not in FORMATS:
        raise ArgumentError(f"Records cannot be written as '{format}'; {did_you_mean(format, FORMATS)}")
    write = FORMATS[format]
    blocks = (_block(each, stage) for each in evaluations for stage in each.stages if len(stage.columns))
    write_atomically(path, lambda temporary: write(blocks, temporary))


def of_model(evaluations: Sequence[Evaluation], model: str | None) -> list[Evaluation]:
    """Complete evaluations: all of a model by its name, one by its name of ``unique_names``, all if it is None."""
    names = unique_names(evaluations)
    _check_known("model", model, {*names, *(each.name for each in evaluations)})
    return [each for each, name in zip(evaluations, names, strict=True) if model in (None, name, each.name)]


def select(
    evaluations: Sequence[Evaluation],
    model: str | None = None,
    attack: str | None = None,
    broken: bool | None = None,
    sample: int | None = None,
) -> list[Evaluation]:
    """Only these rows, to be written; they do not allow a verdict.

    ``broken`` selects the samples that an attack broke, or did not: samples that were wrong before it are neither. The
    clean images are selected only if ``attack`` names them.
    """
    chosen = of_model(evaluations, model)
    _check_known("attack", attack, {stage.name for each in chosen for stage in each.stages})
    selected = []
    for evaluation in chosen:
        wanted = [stage for stage in evaluation.stages if attack in (None, stage.name)]
        if attack is None and broken is not None:
            wanted = [stage for stage in wanted if stage.name != CLEAN]
        stages = [replace(stage, columns=_rows(stage, broken, sample)) for stage in wanted]
        if kept := tuple(stage for stage in stages if len(stage.columns)):
            selected.append(replace(evaluation, stages=kept))
    return selected


def robustbench_card(evaluation: Evaluation) -> dict[str, Any]:
    """RobustBench's entry for a model, as far as records know it; the author fills in what is null."""
    if not evaluation.finished:
        raise ArgumentError(f"The evaluation of {evaluation.name} is not finished; run it again to continue.")
    if evaluation.comparison:
        raise ArgumentError(
            f"Suite {evaluation.suite} repeats the paper's protocol, which does not measure robustness; "
            "evaluate with autoattack or strict."
        )
    if not was_attacked(evaluation):
        raise ArgumentError(
            f"No counting attack of {evaluation.suite} ran on {evaluation.name}, so there is no robust accuracy for "
            "a card; evaluate with another suite, such as strict."
        )
    verdict = give_verdict(evaluation)
    rounds = f"version {evaluation.suite_version}, seed {evaluation.seed}, {verdict.robust.total} samples"
    return robustbench_entry(
        evaluation.name, evaluation.data, evaluation.epsilon, evaluation.model, clean=verdict.clean,
        autoattack=_autoattack(evaluation), worst=verdict.robust, trust=verdict.trust,
        over=f"suite {evaluation.suite} ({rounds})",
    )  # fmt: skip


def robustbench_entry(
    name: str, data: str, epsilon: str, model: Mapping[str, Any],
    *, clean: Rate, autoattack: Rate | None, worst: Rate, trust: Trust, over: str,
) -> dict[str, Any]:  # fmt: skip
    """The entry of a model with these results: the worst case is ``over`` one or more suites."""
    settings = model.get("settings") or {}
    one_pass = model.get("kind") == "classifier" and not model.get("stochastic")
    standard, lowest = None if autoattack is None else _percent(autoattack), _percent(worst)
    return {
        "link": None,
        "name": name,
        "authors": None,
        # Our runs train on their own data set only.
        "additional_data": False if settings.get("data", {}).get("source") == data else None,
        "number_forward_passes": 1 if one_pass else None,
        "dataset": data,
        "venue": None,
        "architecture": settings.get("model", {}).get("backbone"),
        "eps": epsilon,
        "clean_acc": _percent(clean),
        "reported": None,
        "autoattack_acc": standard,
        "external": None if lowest == standard else lowest,
        "footnote": f"{lowest}% is the worst case per sample over every attack of maxmahal's {over}.",
        "unreliable": {"held": False, "mended": False, "unresolved": True}.get(trust),
    }


def write_robustbench(evaluation: Evaluation, folder: Path) -> Path:
    """The card in RobustBench's folders, DATA/NORM/NAME, where NAME identifies the evaluation; or in a .json file.

    An existing card with other content is not overwritten.
    """
    version, size = f"v{evaluation.suite_version}", f"eps{evaluation.epsilon}"
    rounds = f"seed{evaluation.seed}", f"{evaluation.samples}samples"
    name = ".".join((evaluation.name, evaluation.suite, version, size, *rounds, "json"))
    path = folder.joinpath(*(re.sub(r"[^\w.+-]|^\.", "_", part) for part in (evaluation.data, evaluation.norm, name)))
    if folder.suffix == ".json" and not folder.is_dir():
        path, folder = folder, folder.parent
    text = json.dumps(robustbench_card(evaluation), indent=2, ensure_ascii=False) + "\n"
    if path.exists() and path.read_bytes() != text.encode():
        raise ArgumentError(f"{path} exists already with other content; move it, or export to another folder.")
    write_text_atomically(path, text, within=folder)
    return path


def _autoattack(evaluation: Evaluation) -> Rate | None:
    """The accuracy under AutoAttack alone, without attacks that the diagnostics added; None unless all of it ran."""
    own = [stage for stage in evaluation.stages if stage.origin == "suite" and stage.counts and stage.name != CLEAN]
    if evaluation.suite != AUTOATTACK or any(stage.skipped for stage in own):
        return None
    shares = right_shares(replace(evaluation, stages=(evaluation.stage(CLEAN), *own)))
    return Rate(float(shares.sum()), len(shares))


def _percent(rate: Rate) -> str:
    return f"{100 * rate.count / rate.total:.2f}"


def _block(evaluation: Evaluation, stage: StageRecords) -> _Block:
    columns, versions = stage.columns, evaluation.environment.get("versions", {})
    eight = np.full(len(columns), -1) if columns.broken_8bit is None else columns.broken_8bit
    shared = {
        "model": evaluation.name,
        "attack": stage.name,
        "settings": json.dumps(_plain(stage.settings), sort_keys=True, ensure_ascii=False, default=str),
        "device": evaluation.environment.get("device"),
        "torch_version": versions.get("torch"),
        "maxmahal_version": versions.get("maxmahal"),
    }
    of_evaluation = ("target", "data", "suite", "suite_version", "norm", "epsilon", "seed")
    shared |= {name: getattr(evaluation, name) for name in (*of_evaluation, "model_fingerprint", "data_fingerprint")}
    shared |= {name: getattr(stage, name) for name in ("kind", "threat", "scope", "origin", "counts")}
    rows = {field.name: getattr(columns, field.name) for field in fields(Columns)}
    rows |= {name: np.ma.masked_less(rows[name], 0) for name in COSTS}
    rows["broken_8bit"] = np.ma.masked_array(eight == 1, mask=eight < 0)
    rows |= {name: np.ma.masked_invalid(rows[name]) for name in ("right_share", "distortion")}
    rows |= {name: np.full(len(columns), value, dtype=object) for name, value in shared.items()}
    return {name: rows[name].tolist() for name in COLUMNS}


def _plain(value: Any) -> Any:
    """The same settings, with numbers that JSON does not have (NaN, infinity) as text."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _write_csv(blocks: Iterator[_Block], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for block in blocks:
            texts = {name for name, kind in COLUMNS.items() if kind in ("string", "bool")}
            columns = [map(_csv_field, each) if name in texts else each for name, each in block.items()]
            writer.writerows(zip(*columns, strict=True))


def _write_json(blocks: Iterator[_Block], path: Path) -> None:
    """A list of objects, one per line."""
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    with path.open("w", encoding="utf-8") as stream:
        separator = "["
        for block in blocks:
            for row in zip(*block.values(), strict=True):
                stream.write(f"{separator}\n{encode(dict(zip(COLUMNS, row, strict=True)))}")
                separator = ","
        stream.write("[]\n" if separator == "[" else "\n]\n")


def csv_text(text: str) -> str:
    """A text for a cell: a spreadsheet would compute one that begins like a formula, so it gets an apostrophe."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


@cache  # most rows of a stage have the same texts
def _csv_field(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return csv_text(value) if isinstance(value, str) else value


def _write_parquet(blocks: Iterator[_Block], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ArgumentError(
            "Records as Parquet need the package pyarrow; install it with: pip install 'maxmahal[parquet]'"
        ) from error
    schema = pyarrow.schema(list(COLUMNS.items()))
    with parquet.ParquetWriter(path, schema) as writer:
        for block in blocks:
            writer.write_table(pyarrow.table(block, schema))


FORMATS: dict[str, Callable[[Iterator[_Block], Path], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}


def _check_known(what: str, asked: str | None, known: set[str]) -> None:
    if asked is not None and asked not in known:
        raise ArgumentError(f"The records have no {what} '{asked}'; {did_you_mean(asked, known)}")


def _rows(stage: StageRecords, broken: bool | None, sample: int | None) -> Columns:
    columns = stage.columns
    keep: Bool[np.ndarray, " n"] = np.ones(len(columns), dtype=bool)
    if broken is not None:
        keep &= columns.broken == broken
        if stage.name != CLEAN:
            keep &= columns.right_before
    if sample is not None:
        keep &= columns.sample == sample
    values = {field.name: getattr(columns, field.name) for field in fields(Columns)}
    kept: dict[str, Any] = {name: None if value is None else value[keep] for name, value in values.items()}
    return Columns(**kept)
