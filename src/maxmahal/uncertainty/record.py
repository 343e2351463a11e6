"""The result of a study of uncertainty as plain values, and its file."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maxmahal.files import parse_json, read_text, write_text_atomically
from maxmahal.records.schema import RecordsError

FORMAT = "maxmahal-uncertainty-1"
_DIGITS = 5


@dataclass(frozen=True)
class Detection:
    """How well a score separates adversarial images that fool the model from clean ones."""

    fooled: float
    """Share of the images that are misclassified after the attack."""
    auroc: float
    """Of the fooling images against all clean ones."""
    undetected: float
    """Share of all images that are misclassified and have a score below the alarm that 5 % of clean images exceed."""


@dataclass(frozen=True)
class ScoreResult:
    """One score on one model."""

    score: str
    misclassification: float
    """AUROC of wrong against correct predictions."""
    risk_area: float
    ood: dict[str, float]
    """AUROC of each kind of out-of-distribution images against the test images."""
    ignoring: Detection
    evading: Detection


@dataclass(frozen=True)
class ModelUncertainty:
    """One model."""

    name: str
    loss: str
    seed: int
    data: str
    samples: int
    accuracy: float
    calibration_error: float
    """Expected calibration error of the largest softmax."""
    best_risk_area: float
    fingerprint: str
    scores: tuple[ScoreResult, ...]

    def of(self, score: str) -> ScoreResult | None:
        """The result of one score."""
        return next((each for each in self.scores if each.score == score), None)


@dataclass(frozen=True)
class UncertaintyRecord:
    """Several models under the same attacks."""

    epsilon: str
    seed: int
    steps: int
    ood: tuple[str, ...]
    models: tuple[ModelUncertainty, ...]


def write_record(path: Path, record: UncertaintyRecord) -> None:
    """One line per model, written atomically; what could not be measured is null."""
    content = _rounded(asdict(record))
    for table in (content, *(score for model in content["models"] for score in model["scores"])):
        table["strangers"] = table.pop("ood")  # the name in the files of the first version
    models = ",\n ".join(json.dumps(model, ensure_ascii=False, allow_nan=False) for model in content.pop("models"))
    head = json.dumps({"format": FORMAT, **content}, ensure_ascii=False)
    write_text_atomically(path, f'{head[:-1]},\n"models": [\n {models}\n]}}\n')


def read_record(path: Path) -> UncertaintyRecord:
    """The record in a file that ``write_record`` wrote."""
    try:
        content = parse_json(read_text(path), hook=_table)
        if (version := content.pop("format")) != FORMAT:
            raise ValueError(f"its format is {version!r}")
        content["ood"] = tuple(content["ood"])
        content["models"] = tuple(ModelUncertainty(**model) for model in content["models"])
        return UncertaintyRecord(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordsError(
            f"{path} cannot be read as a record of uncertainty ({type(error).__name__}: {error}); "
            "make it again with `maxmahal uncertainty`."
        ) from error


def _table(read: dict[str, Any]) -> dict[str, Any]:
    """A table of the file with the names and types of the record; those inside it are converted already."""
    table: dict[str, Any] = {"ood" if name == "strangers" else name: value for name, value in read.items()}
    table |= {name: math.nan for name, value in table.items() if value is None}
    for name in {"ignoring", "evading"} & table.keys():
        table[name] = Detection(**table[name])
    if "scores" in table:
        table["scores"] = tuple(ScoreResult(**score) for score in table["scores"])
    return table


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, _DIGITS) if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return [_rounded(each) for each in value] if is_list else value
