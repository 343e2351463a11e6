"""Summaries of evaluations as JSON: made from records, written atomically, checked when read."""

import base64
import json
import math
import shlex
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from maxmahal.data.registry import SOURCES
from maxmahal.files import parse_json, read_text, write_text_atomically
from maxmahal.records.schema import RecordsError
from maxmahal.records.statistics import Rate
from maxmahal.records.types import Columns, Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN, StageVerdict, give_verdict, stands
from paper.summaries.types import StageSummary, Summary

FORMAT = "maxmahal-evaluation-summary-1"
_DIGITS = 4  # of seconds, distances and sums of shares: more would only make differences between files
_IDENTITY = (
    *("name", "data", "suite", "suite_version", "seed", "samples", "norm", "epsilon", "radius"),
    *("model_fingerprint", "data_fingerprint"),
)
_MODEL = ("kind", "parameters", "loss", "backbone", "epoch", "table", "settings", "stochastic", "draws")
_READ = {field.name for field in fields(StageSummary)}
_ENVIRONMENT = ("device", "versions", "started", "commit")


def summarise(evaluation: Evaluation) -> dict[str, Any]:
    """Everything that tables, claims and paired tests need, as a table for JSON; paths of the machine stay out."""
    verdict = give_verdict(evaluation)
    clean = evaluation.stage(CLEAN).columns
    return {
        "format": FORMAT,
        **{name: getattr(evaluation, name) for name in _IDENTITY},
        "data": Path(evaluation.data).name if Path(evaluation.data).is_absolute() else evaluation.data,
        "limited": _is_limited(evaluation),
        "model": {name: evaluation.model[name] for name in _MODEL if name in evaluation.model},
        "environment": {name: evaluation.environment[name] for name in _ENVIRONMENT if name in evaluation.environment},
        "clean": _rate_table(verdict.clean),
        "answered": _answered(clean),
        "robust": _rate_table(verdict.robust),
        "trust": verdict.trust,
        "sentence": verdict.sentence,
        "findings": [
            {"check": each.check, "flagged": each.flagged, "sentence": each.sentence} for each in evaluation.findings
        ],
        "stages": [_stage_table(each, len(clean)) for each in verdict.stages],
        "right": pack(clean.right_share >= 0.5),
        "stands": pack(stands(evaluation)),
        **_near(evaluation.data, clean),
    }


def file_name(name: str, suite: str, *, ball: str = "", limit: int | None = None, seed: int = 0) -> str:
    """Of a published summary: model and suite; threat ("Linf 1/255"), images and attack seed if not the default."""
    within = f"-{ball.replace(' ', '-').replace('/', '-')}" if ball else ""
    size = "" if limit is None else f"-{limit}"
    return f"{name}--{suite}{within}{size}{f'-seed{seed}' if seed else ''}.json"


def write_summary(path: Path, summary: dict[str, Any]) -> None:
    """Sorted keys, one line per value and per entry of a list, atomically: small files, small differences."""
    lines = [f"{_compact(key)}: {_spread(value)}" for key, value in sorted(summary.items())]
    write_text_atomically(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_summary(path: Path) -> Summary:
    """The summary in a file that ``write_summary`` wrote."""
    content = read_object(path, FORMAT)
    try:
        return _from_table(content)
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise RecordsError(
            f"{path} is a damaged summary ({type(error).__name__}: {error}); collect it again from its records."
        ) from error


def read_object(path: Path, wanted: str) -> dict[str, Any]:
    """The JSON object in a file, if it says that it is of the wanted format."""
    try:
        content = parse_json(read_text(path))
    except (OSError, ValueError) as error:
        raise RecordsError(f"{path} cannot be read as JSON ({error}); collect it again.") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != wanted:
        raise RecordsError(f"{path} is not a '{wanted}' (its format is {found!r}); collect it again.")
    return dict(content)


def pack(flags: Bool[np.ndarray, " n"]) -> str:
    """One bit per sample, compressed, as text."""
    return base64.b64encode(zlib.compress(np.packbits(flags).tobytes(), 9)).decode("ascii")


def unpack(text: str, count: int) -> Bool[np.ndarray, " n"]:
    """``pack`` backwards."""
    bits = np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), dtype=np.uint8))
    if not count <= len(bits) < count + 8:
        raise ValueError(f"{len(bits)} bits for {count} samples")
    return bits[:count].astype(bool)


def _is_limited(evaluation: Evaluation) -> bool:
    """Whether fewer images were asked for than there are."""
    source = SOURCES.get(evaluation.data)
    if source is not None and evaluation.samples >= sum(source.class_counts.get("test", ())) > 0:
        return False
    return "--limit" in shlex.split(str(evaluation.environment.get("command", "")))


def _answered(clean: Columns) -> list[int]:
    """Classes of which any image is correct, and all classes."""
    return [len(np.unique(clean.label[clean.right_share >= 0.5])), len(np.unique(clean.label))]


def _near(data: str, clean: Columns) -> dict[str, str]:
    """Which answers are of the right superclass, for data with superclasses."""
    source = SOURCES.get(data)
    if source is None or source.superclasses is None:
        return {}
    groups = np.array(source.superclasses)
    return {"near": pack(groups[clean.label] == groups[clean.clean_prediction])}


def _compact(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _spread(value: object) -> str:
    if not isinstance(value, list) or not any(isinstance(each, dict) for each in value):
        return _compact(value)
    return "[\n " + ",\n ".join(_compact(each) for each in value) + "\n]"


def _stage_table(verdict: StageVerdict, samples: int) -> dict[str, Any]:
    stage = verdict.stage
    distance, error = (stage.mean_distortion, _error(stage)) if stage.is_minimum_norm else (None, None)
    on_all = stage.name != CLEAN and len(stage.columns) == samples
    return {
        "name": stage.name,
        "title": stage.title,
        "kind": stage.kind,
        "threat": stage.threat,
        "scope": stage.scope,
        "origin": stage.origin,
        "counts": stage.counts,
        "skipped": stage.skipped,
        "source": str(stage.settings.get("source", "")) if stage.kind == "transfer" else "",
        "samples": len(stage.columns),
        "accuracy": None if verdict.accuracy is None else _rate_table(verdict.accuracy),
        "cumulative": verdict.cumulative,
        "broke": verdict.broke,
        "distortion": None if distance is None else round(distance, _DIGITS),
        "seconds": round(stage.rating.seconds, _DIGITS),
        "forward": stage.rating.forward,
        "backward": stage.rating.backward,
        "queries": stage.rating.queries,
        **({"distortion_error": round(error, 2 * _DIGITS)} if error is not None else {}),
        **({"right": pack(stage.columns.right_share >= 0.5)} if on_all else {}),
    }


def _error(stage: StageRecords) -> float | None:
    """The standard error of ``mean_distortion``; a single image has none."""
    columns = stage.columns
    moved = columns.distortion[columns.broken & columns.right_before & np.isfinite(columns.distortion)]
    return float(moved.std(ddof=1)) / math.sqrt(len(moved)) if len(moved) > 1 else None


def _rate_table(rate: Rate) -> list[float | int]:
    """Count and total; the count of a stochastic model need not be whole."""
    return [int(rate.count) if float(rate.count).is_integer() else round(rate.count, _DIGITS), rate.total]


def _rate(table: list[float | int]) -> Rate:
    count, total = table
    return Rate(float(count), int(total))


def _stage(table: dict[str, Any], samples: int) -> StageSummary:
    accuracy, right = table["accuracy"], table.get("right")
    known = {
        "accuracy": None if accuracy is None else _rate(accuracy),
        "right": None if right is None else unpack(right, samples),
    }
    return StageSummary(**{**{key: table[key] for key in table if key in _READ}, **known})


def _from_table(content: dict[str, Any]) -> Summary:
    samples = int(content["clean"][1])
    return Summary(
        **{name: content[name] for name in (*_IDENTITY, "limited", "model", "environment", "trust")},
        clean=_rate(content["clean"]),
        robust=_rate(content["robust"]),
        stages=tuple(_stage(each, samples) for each in content["stages"]),
        right=unpack(content["right"], samples),
        stands=unpack(content["stands"], samples),
        answered=_rate(content["answered"]) if "answered" in content else None,
        near=unpack(content["near"], samples) if "near" in content else None,
    )
