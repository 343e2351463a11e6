"""What was measured of a study, one small JSON file each: made from a reproduction's folder, read back with care."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxmahal.evaluate.records.schema import RecordsError
from maxmahal.evaluate.records.types import Evaluation
from maxmahal.evaluate.severity import Severity
from maxmahal.evaluate.statistics import Rate
from maxmahal.evaluate.summary import summarise, summarise_run
from maxmahal.evaluate.summary.evaluations import read_object
from maxmahal.report.published.variants.severity import severity_table
from maxmahal.report.published.variants.spec import Metric, Study
from maxmahal.report.published.variants.studies import STUDIES

FORMAT = "maxmahal-variants-1"
FOLDER = "variants"
EARLY = 5  # epochs that count as early in a training of twenty
_ATTACKED = ("suite", "suite_version", "norm", "epsilon", "samples", "data_fingerprint")
_TOLD = ("about", "table", "train.seed")  # settings that tell models apart without making them different


@dataclass(frozen=True)
class Run:
    """One training of an arm and what the suite left of it."""

    arm: str
    seed: int
    settings: dict[str, Any]
    """Those in which the study's runs differ."""
    clean: Rate
    robust: Rate
    stages: dict[str, Rate]
    """What each attack on every sample left; those on survivors alone leave what all before them did."""
    test_accuracy: tuple[float, ...]
    """After each epoch."""
    validation: float | None = None
    """On held-out images after the last epoch, under PGD-10 where training is adversarial: what choices are made by."""
    mistakes: dict[str, Severity] = field(default_factory=dict)
    """Of "clean" images and of the "worst" case, where the study has superclasses."""
    centers: dict[str, float] = field(default_factory=dict)
    """Their "shortest" and "longest" length, how far apart the "nearest" two lie, and those "across" superclasses."""

    def value(self, metric: Metric) -> float:
        """In percent; NaN where it was not measured or does not exist, as the severity of no mistakes."""
        if metric == "early":
            first = self.test_accuracy[:EARLY]
            return 100 * sum(first) / len(first)
        rate = {"clean": self.clean, "worst": self.robust}.get(metric) or self._severity(metric)
        return math.nan if rate is None else 100 * rate.value

    def _severity(self, metric: Metric) -> Rate | None:
        found = self.mistakes.get("worst" if metric.startswith("worst-") else "clean")
        if found is None:
            return None
        return found.superclass_accuracy if metric.endswith("superclass") else found.within


@dataclass(frozen=True)
class Results:
    """Everything measured of one study; no runs at all where it was not run."""

    study: Study
    about: dict[str, Any]
    """Suite, norm, epsilon, samples."""
    runs: tuple[Run, ...]

    def of(self, arm: str, metric: Metric) -> dict[int, float]:
        """The arm's values by seed, where there are any."""
        values = {run.seed: run.value(metric) for run in self.runs if run.arm == arm}
        return {seed: value for seed, value in values.items() if not math.isnan(value)}


def collect_study(study: Study, evaluations: Iterable[Evaluation], models: Path) -> dict[str, Any] | None:
    """What is published of a study, as a table for JSON; None where none of its runs was evaluated."""
    found = []
    for evaluation in evaluations:
        name = _arm_and_seed(study, evaluation.name)
        if name is not None and evaluation.suite == study.suite and evaluation.finished:
            run = summarise_run(models / evaluation.name)
            found.append((*name, summarise(evaluation), run, severity_table(study, evaluation, run)))
    if not found:
        return None
    attacked = [{key: summary[key] for key in _ATTACKED} for _, _, summary, *_ in found]
    if any(each != attacked[0] for each in attacked):
        raise RecordsError(f"The runs of {study.name} were not all attacked alike; keep one evaluation a run.")
    flat = [_flatten(run["settings"]) for _, _, _, run, _ in found]
    differing = {key for each in flat for key in each if any(other.get(key) != each[key] for other in flat)}
    return {
        "format": FORMAT,
        "study": study.name,
        "about": attacked[0],
        "versions": found[0][2]["environment"].get("versions", {}),
        "runs": [
            {
                "arm": arm,
                "seed": seed,
                "settings": {key: each[key] for key in sorted(differing - set(_TOLD)) if key in each},
                "clean": summary["clean"],
                "robust": summary["robust"],
                "stages": {stage["name"]: stage["accuracy"] for stage in summary["stages"] if _counts_alone(stage)},
                "test_accuracy": [epoch["test_accuracy"] for epoch in run["epochs"]],
                **severity,
            }
            for (arm, seed, summary, run, severity), each in sorted(
                zip(found, flat, strict=True), key=lambda pair: pair[0][:2]
            )
        ],
    }


def read_results(folder: Path, studies: Iterable[Study] = STUDIES) -> list[Results]:
    """Of every study, in the page's order; one that was not run has no runs."""
    return [_read(study, folder / FOLDER / f"{study.name}.json") for study in studies]


def from_table(study: Study, content: Mapping[str, Any]) -> Results:
    """Results from what ``collect_study`` made."""
    runs = tuple(
        Run(
            arm=each["arm"],
            seed=int(each["seed"]),
            settings=dict(each["settings"]),
            clean=_rate(each["clean"]),
            robust=_rate(each["robust"]),
            stages={name: _rate(rate) for name, rate in each["stages"].items()},
            test_accuracy=tuple(float(share) for share in each["test_accuracy"]),
            validation=each.get("validation"),
            mistakes={name: Severity(tuple(counts)) for name, counts in each.get("mistakes", {}).items()},
            centers={name: float(value) for name, value in each.get("centers", {}).items()},
        )
        for each in content["runs"]
    )
    return Results(study, dict(content["about"]), runs)


def _read(study: Study, path: Path) -> Results:
    if not path.exists():
        return Results(study, {}, ())
    content = read_object(path, FORMAT)
    try:
        return from_table(study, content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordsError(
            f"{path} is damaged ({type(error).__name__}: {error}); collect it again from its records."
        ) from error


def _arm_and_seed(study: Study, name: str) -> tuple[str, int] | None:
    arm, _, seed = name.rpartition("-seed")
    known = {each.name for each in study.arms}
    return (arm, int(seed)) if arm in known and seed.isdigit() else None


def _counts_alone(stage: Mapping[str, Any]) -> bool:
    return stage["accuracy"] is not None and stage["scope"] == "all" and stage["kind"] != "clean"


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _rate(table: list[float | int]) -> Rate:
    count, total = table
    return Rate(float(count), int(total))
