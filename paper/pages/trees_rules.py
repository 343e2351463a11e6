"""Rules of the page about trees: which arm validation chooses, and how fast arms learn."""

from collections.abc import Sequence
from dataclasses import dataclass

from paper.pages.paired import ENOUGH, Difference, paired
from paper.pages.shelf import NOT_RUN
from paper.pages.trees_beside import Beside
from paper.pages.trees_study import Family, seeded
from paper.pages.variants.results import Results, Run

SCAN_SEED = 0
TRAINED = "trained, not attacked yet"
ERRORS = (80, 70, 60, 50, 45, 40, 35, 30)
"""Test errors in percent that arms are timed to."""


@dataclass(frozen=True)
class Choice:
    """What the scan says of a family, and what was run with several seeds."""

    family: Family
    scores: dict[str, float]
    """Validation accuracy of each arm that was scanned, in percent."""
    taken: tuple[str, ...]

    @property
    def best(self) -> str:
        """By validation; empty where nothing was scanned. Of equal ones the first."""
        return max(self.scores, key=lambda name: self.scores[name], default="")

    @property
    def followed(self) -> bool:
        """Whether those with several seeds are what validation chose, as far as there are any."""
        return not self.taken or self.best in self.taken


def choose(results: Results, family: Family, beside: Beside) -> Choice:
    """From one seed's held-out accuracies, attacked or not; the test set has no say."""
    found = {name: validation(results, name, beside) for name in family.names}
    scores = {name: 100 * score for name, score in found.items() if score is not None}
    return Choice(family, scores, seeded(results, family.names))


def validation(results: Results, arm: str, beside: Beside) -> float | None:
    """Of the seed that the scan was run with."""
    runs = [run for run in results.runs if (run.arm, run.seed) == (arm, SCAN_SEED)]
    known = [run.validation for run in runs if run.validation is not None]
    return known[0] if known else beside.validation(f"{arm}-seed{SCAN_SEED}")


def seeds_told(results: Results, arm: str, beside: Beside) -> str:
    """Whether an arm has seeds enough for a verdict: its title, or what it lacks."""
    attacked = set(results.of(arm, "clean"))
    if len(attacked) >= ENOUGH:
        return next(each.title for each in results.study.arms if each.name == arm)
    return TRAINED if len(attacked | beside.seeds(arm)) >= ENOUGH else NOT_RUN


def epochs_to(run: Run, error: int) -> int | None:
    """After how many epochs the test error is first at most so many percent; None if never."""
    for epoch, accuracy in enumerate(run.test_accuracy, start=1):
        if 100 * (1 - accuracy) <= error:
            return epoch
    return None


def reached(results: Results, arm: str, error: int) -> dict[int, float]:
    """Epochs by seed, of the seeds that get there."""
    found = {run.seed: epochs_to(run, error) for run in results.runs if run.arm == arm}
    return {seed: float(epochs) for seed, epochs in found.items() if epochs is not None}


def errors_reached(results: Results, arms: Sequence[str]) -> list[int]:
    """Those that some arm reaches."""
    return [error for error in ERRORS if any(reached(results, arm, error) for arm in arms)]


def head_start(results: Results, arm: str, reference: str, error: int) -> Difference:
    """How many epochs the arm needs more than the reference, seed by seed; less than none is faster."""
    return paired(reached(results, arm, error), reached(results, reference, error))
