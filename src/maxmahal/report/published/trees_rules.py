"""Rules of the page about trees: which arm validation chooses, how fast arms learn, and the verdict in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.report.published.shelf import NOT_RUN
from maxmahal.report.published.trees_beside import Beside
from maxmahal.report.published.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    GIVEN,
    LEARNED,
    MMC,
    ORTHOGONAL,
    RANDOM,
    Family,
    seeded,
)
from maxmahal.report.published.variants.paired import ENOUGH, Difference, paired
from maxmahal.report.published.variants.results import Results, Run
from maxmahal.report.published.variants.rules import Judged, effect, judge
from maxmahal.report.published.variants.spec import METRICS
from maxmahal.report.wording import listed

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


def verdicts(plain: Results, near: Results, strict: Results) -> str:
    """Does it help, where, is it the tree that does, and is the given tree the right one: a line each."""
    given = tuple(name for family in GIVEN for name in family.names)
    asked: tuple[tuple[Results, tuple[str, ...], tuple[str, ...], str], ...] = (
        (plain, given, (MMC,), "Hierarchical centers against MMC"),
        (near, given, (MMC,), f"The same under the careful suite `{near.study.suite}` at {near.study.epsilon}"),
        (plain, given, EMC.names, "Hierarchical centers against EMC"),
        (plain, ORTHOGONAL.names, RANDOM.names, "The given tree against a random one of the same sizes"),
        (plain, LEARNED.names, (MMC,), "The learned tree against MMC"),
        (plain, LEARNED.names, ORTHOGONAL.names, "The learned tree against the given one"),
        (strict, ORTHOGONAL.names, (MMC,), "In the paper's ball, hierarchical centers against MMC"),
        (strict, AT_ORTHOGONAL.names, (AT_MMC,), "With adversarial training, hierarchical centers against MMC"),
    )
    return "\n".join(f"- **{words}:** {verdict(found, arms, others)}" for found, arms, others, words in asked)


def verdict(results: Results, arms: Sequence[str], references: Sequence[str]) -> str:
    """By the rule of the page, over every measure in which these arms are compared with these references."""
    contrasts = [each for each in results.study.contrasts if each.arm in arms and each.reference in references]
    judged = [found for each in contrasts if (found := judge(results, each)).verdict != "not run"]
    if not judged:
        return "not decided, for it takes three seeds of both."
    helps, hurts = (_where(results, judged, wanted) for wanted in ("helps", "hurts"))
    if not helps and not hurts:
        return f"no difference seen in any of {len(judged)} comparisons."
    outcome = "a trade" if helps and hurts else "helps" if helps else "hurts"
    return f"{outcome}; better in {helps or 'nothing'}; worse in {hurts or 'nothing'}."


def _where(results: Results, judged: Sequence[Judged], wanted: str) -> str:
    """The measures in which a verdict is seen, each with its arms and their effects."""
    titles = {arm.name: arm.title for arm in results.study.arms}
    found: dict[str, list[str]] = {}
    for each in judged:
        if each.verdict == wanted:
            said = f"{titles[each.contrast.arm]} {effect(each.difference)}"
            found.setdefault(METRICS[each.contrast.metric], []).append(said)
    told = [f"{metric} ({'; '.join(arms)})" for metric, arms in found.items()]
    return listed(told) if told else ""
