"""What was measured of a study, one small JSON file each, read back with care."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maxmahal.evaluate.severity import Severity
from maxmahal.records.schema import RecordsError
from maxmahal.records.statistics import Rate
from paper.pages.variants.merging import FORMAT, whole_runs
from paper.pages.variants.spec import Metric, Study
from paper.pages.variants.studies import STUDIES
from paper.summaries.evaluations import read_object

FOLDER = "variants"
EARLY = 5  # epochs that count as early in a training of twenty


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
    fingerprint: str = ""
    """Of its weights; empty in files that are older than fingerprints."""

    @property
    def name(self) -> str:
        """As its folder was called, and as its summaries are."""
        return f"{self.arm}-seed{self.seed}"

    def value(self, metric: Metric) -> float:
        """In percent; NaN where it was not measured or does not exist, as the severity of no mistakes."""
        if metric == "early":
            first = self.test_accuracy[:EARLY]
            return 100 * sum(first) / len(first)
        rate = self.rate(metric)
        return math.nan if rate is None else 100 * rate.value

    def rate(self, metric: Metric) -> Rate | None:
        """A share of images, with how many there are; None where it does not exist."""
        if metric in ("clean", "worst"):
            return self.clean if metric == "clean" else self.robust
        found = self.mistakes.get("worst" if metric.startswith("worst-") else "clean")
        if found is None or metric == "early":
            return None
        return found.superclass_accuracy if metric.endswith("superclass") else found.within


@dataclass(frozen=True)
class Results:
    """Everything measured of one study; no runs at all where it was not run."""

    study: Study
    about: dict[str, Any]
    """Suite, norm, epsilon, samples."""
    runs: tuple[Run, ...]
    shared: dict[str, Any] = field(default_factory=dict)
    """Settings that all runs have in common, by names such as "train.epochs"."""

    def of(self, arm: str, metric: Metric) -> dict[int, float]:
        """The arm's values by seed, where there are any."""
        values = {run.seed: run.value(metric) for run in self.runs if run.arm == arm}
        return {seed: value for seed, value in values.items() if not math.isnan(value)}


def read_results(folder: Path, studies: Iterable[Study] = STUDIES) -> list[Results]:
    """Of every study, in the page's order; one that was not run has no runs."""
    tables = [(study, read_table(study, folder / FOLDER / f"{study.name}.json")) for study in studies]
    return [Results(study, {}, ()) if table is None else from_table(study, table) for study, table in tables]


def read_table(study: Study, path: Path) -> dict[str, Any] | None:
    """What is published of a study, checked; None where it was not run."""
    if not path.exists():
        return None
    content = read_object(path, FORMAT)
    try:
        from_table(study, content)
        whole_runs(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordsError(
            f"{path} is damaged ({type(error).__name__}: {error}); remove it and collect it again from its records."
        ) from error
    return content


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
            fingerprint=str(each.get("fingerprint", "")),
        )
        for each in content["runs"]
    )
    return Results(study, dict(content["about"]), runs, dict(content.get("shared", {})))


def _rate(table: list[float | int]) -> Rate:
    count, total = table
    return Rate(float(count), int(total))
