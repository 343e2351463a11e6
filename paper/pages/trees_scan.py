"""What the summaries of runs and evaluations add to the studies of class trees: each attack, image and training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

from maxmahal.attacks.threats import parse_epsilon
from maxmahal.records.statistics import Comparison, Rate, points_apart
from maxmahal.records.verdict import CLEAN
from paper.pages.models import HM, HM_BASE
from paper.pages.paired import ENOUGH, Difference, paired
from paper.pages.study import Metric, Results, Run
from paper.pages.study_files import flatten, validation_score
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    GIVEN_NAMES,
    MMC,
    SMALL,
    STRICT,
    TREES,
    Family,
    form_of,
    ratio_of,
)
from paper.summaries import (
    RunSummary,
    StageSummary,
    Summary,
    pair_clean,
    pair_near,
    pair_stage,
    pair_up,
    read_run,
    read_summary,
)

SCAN_SEED = 0
_FILES = "trees-*.json"
_PAIRS: dict[Metric, Callable[[Summary, Summary], Comparison | None]] = {
    "clean": pair_clean,
    "superclass": pair_near,
    "worst": pair_up,
}
"""Shares of errors are not among them: two models make errors on different images."""
_STAGES = {"pgd10-tar-8": "targeted", "pgd10-un-8": "untargeted"}
Pair = tuple[Summary, Summary]


class Apart(NamedTuple):
    """The difference between two trainings in points, with an interval over images."""

    size: float
    low: float
    high: float
    paired: bool
    """Whether the interval uses both models' answers to each image."""


def paired_apart(pair: Comparison) -> Apart:
    """From two models on the same images."""
    low, high = pair.interval
    return Apart(100 * pair.difference, 100 * low, 100 * high, paired=True)


@dataclass(frozen=True)
class TreeSummaries:
    """The summaries of the scan's models."""

    evaluations: tuple[Summary, ...] = ()
    """By the short suite."""
    runs: tuple[RunSummary, ...] = ()
    """Finished trainings, attacked or not."""

    @property
    def attacks(self) -> list[str]:
        """Titles of the short suite's attacks, in its order."""
        return [stage.title for each in self.evaluations[:1] for stage in _attacks(each)]

    def broken_later(self, run: Run) -> Rate | None:
        """Of the images that the first attack left correct, those that a later one broke."""
        found = self._of(run)
        attacks = [] if found is None else _attacks(found)
        if not attacks or attacks[0].accuracy is None:
            return None
        left = round(attacks[0].accuracy.count)
        return Rate(float(sum(stage.broke for stage in attacks[1:])), left) if left else None

    def paired(self, ours: Run, theirs: Run, metric: Metric) -> Comparison | None:
        """Two models image by image; None unless both have a summary of the images that were counted."""
        pair = self._of(ours), self._of(theirs)
        if pair[0] is None or pair[1] is None or metric not in _PAIRS or not pair[0].attacked_like(pair[1]):
            return None
        return _PAIRS[metric](pair[0], pair[1]) if len(pair[0].right) == ours.clean.total else None

    def of_arm(self, arm: str) -> dict[int, RunSummary]:
        """An arm's finished trainings by seed."""
        found = {each.name.removeprefix(f"{arm}-seed"): each for each in self.runs}
        return {int(seed): run for seed, run in found.items() if seed.isdigit()}

    def validation(self, arm: str) -> float | None:
        """Of the scan's training on held-out images, as a share."""
        run = self.of_arm(arm).get(SCAN_SEED)
        return None if run is None else validation_score(run.epochs)

    def settings(self, arm: str) -> dict[str, Any]:
        """Of an arm's first training, by names such as "train.epochs"; empty if there is none."""
        return flatten(next((run.settings for run in self.of_arm(arm).values()), {}))

    def training_loss(self, run: Run) -> float | None:
        """The mean over the last epoch, if the training is of the weights that were attacked."""
        found = self.of_arm(run.arm).get(run.seed)
        if found is None or not found.epochs or (run.fingerprint and not found.made(run.name, run.fingerprint)):
            return None
        return found.epochs[-1].get("train_loss")

    def _of(self, run: Run) -> Summary | None:
        wanted = (run.name, run.fingerprint)
        return next((each for each in self.evaluations if (each.name, each.model_fingerprint) == wanted), None)


def read_tree_summaries(results: Path) -> TreeSummaries:
    """From the folder of results."""
    every = [read_summary(path) for path in sorted((results / "evaluations").glob(_FILES))]
    runs = [read_run(path) for path in sorted((results / "runs").glob(_FILES))]
    radius = parse_epsilon(TREES.epsilon)
    return TreeSummaries(
        tuple(each for each in every if each.suite == TREES.suite and math.isclose(each.radius, radius)),
        tuple(each for each in runs if each.finished),
    )


def _attacks(summary: Summary) -> Sequence[StageSummary]:
    return [stage for stage in summary.stages if stage.counts and stage.name != CLEAN]


def scan_runs(results: Results) -> dict[str, Run]:
    """The run of the scan's seed for each arm that has one, in the study's order."""
    found = {run.arm: run for run in results.runs if run.seed == SCAN_SEED}
    return {arm.name: found[arm.name] for arm in results.study.arms if arm.name in found}


def apart(results: Results, arm: str, reference: str, metric: Metric, summaries: TreeSummaries) -> Apart | None:
    """Two runs of the scan, image by image if summaries allow it; None if one of them was not run."""
    runs = scan_runs(results)
    if arm not in runs or reference not in runs:
        return None
    pair = summaries.paired(runs[arm], runs[reference], metric)
    if pair is not None:
        return paired_apart(pair)
    ours, theirs = runs[arm].rate(metric), runs[reference].rate(metric)
    return None if ours is None or theirs is None else Apart(*points_apart(ours, theirs), paired=False)


def same_ratio(
    results: Results, ours: Family, theirs: Family, metric: Metric, summaries: TreeSummaries
) -> dict[str, Apart]:
    """Two families compared at each ratio that both were run with."""
    pairs = {value: (f"{ours.name}-{value}", f"{theirs.name}-{value}") for value in ours.values}
    found = {value: apart(results, *pair, metric, summaries) for value, pair in pairs.items()}
    return {value: gap for value, gap in found.items() if gap is not None}


def small_ratios(results: Results, metric: Metric, summaries: TreeSummaries) -> list[Apart]:
    """The given tree at ratios as small as the paper means, against MMC, from the lowest to the highest."""
    names = [name for name in GIVEN_NAMES if float(ratio_of(name)) <= SMALL]
    found = (apart(results, name, MMC, metric, summaries) for name in names)
    return sorted(gap for gap in found if gap is not None)


def at_the_edge(results: Results, family: Family) -> str:
    """Which arm validation chose in the scan, if its number is the highest or the lowest tried; else empty."""
    runs = scan_runs(results)
    tried = [runs[name] for name in family.names if name in runs]
    best = max(tried, key=lambda run: run.validation or 0.0, default=None)
    return best.arm if best is not None and len(tried) > 1 and best in (tried[0], tried[-1]) else ""


def adversarial_gaps(summaries: TreeSummaries) -> dict[str, tuple[Difference, Difference]]:
    """Adversarial training: each arm against MMC under the trainings' own PGD-10, and on clean images.

    Last checkpoints of seeds that were trained alike; arms with fewer seeds than a verdict needs are left out.
    """
    theirs, found = summaries.of_arm(AT_MMC), {}
    for arm in AT_ORTHOGONAL.arms:
        ours = summaries.of_arm(arm.name)
        alike = [seed for seed in ours.keys() & theirs.keys() if _recipe(ours[seed]) == _recipe(theirs[seed])]
        attacked, clean = (
            paired(_last_scores(ours, alike, key), _last_scores(theirs, alike, key))
            for key in ("test_pgd10", "test_accuracy")
        )
        if min(attacked.n, clean.n) >= ENOUGH:
            found[arm.title] = attacked, clean
    return found


def _recipe(run: RunSummary) -> tuple[dict[str, Any], object]:
    """All training settings but the seed."""
    return {**run.settings.get("train", {}), "seed": None}, run.settings.get("method")


def _last_scores(runs: dict[int, RunSummary], seeds: Sequence[int], key: str) -> dict[int, float]:
    scores = {seed: (runs[seed].result.get("last") or {}).get(key) for seed in seeds}
    return {seed: 100 * value for seed, value in scores.items() if value is not None}


def loss_and_robustness(results: Results, summaries: TreeSummaries) -> tuple[int, float] | None:
    """Over the arms of the scan without EMC: how many, and the rank correlation of training loss and worst case."""
    runs = [run for arm, run in scan_runs(results).items() if arm not in EMC.names]
    known = [(loss, run.robust.value) for run in runs if (loss := summaries.training_loss(run)) is not None]
    return (len(known), float(stats.spearmanr(known).statistic)) if len(known) > 2 else None


# HM and MMC trained long, one seed each.


@dataclass(frozen=True)
class Long:
    """Evaluations of HM and of MMC that can be paired, the most images first."""

    pairs: tuple[Pair, ...] = ()
    seeds: int = 0
    """Trainings of HM that were evaluated; the first one is compared."""

    @property
    def epochs(self) -> int | None:
        """How long both were trained; None if they were trained for different times."""
        found = {each.model.get("settings", {}).get("train", {}).get("epochs") for pair in self.pairs for each in pair}
        return found.pop() if len(found) == 1 else None

    @property
    def form(self) -> str:
        """Of the hierarchical centers: subspaces and ratio."""
        settings = self.pairs[0][0].model.get("settings", {}) if self.pairs else {}
        family, ratio = form_of(settings.get("centers", {}))
        return "" if ratio is None else f"{family.title}, {family.symbol} {ratio:.3g}"

    @property
    def clean(self) -> Apart | None:
        """HM − MMC in clean accuracy."""
        return next((paired_apart(pair_clean(*pair)) for pair in self.pairs), None)

    @property
    def superclass(self) -> Apart | None:
        """HM − MMC in superclass accuracy."""
        found = (pair_near(*pair) for pair in self.pairs)
        return next((paired_apart(each) for each in found if each is not None), None)

    @property
    def within(self) -> tuple[float, float] | None:
        """The percentage of errors within the superclass, of each."""
        found = ((_within(ours), _within(theirs)) for ours, theirs in self.pairs)
        return next(((ours, theirs) for ours, theirs in found if ours is not None and theirs is not None), None)

    @property
    def attacked(self) -> dict[str, Apart]:
        """HM − MMC in images that are correct before and after the paper's PGD-10, by its kind."""
        found = {kind: [pair_stage(*pair, stage) for pair in self.pairs] for stage, kind in _STAGES.items()}
        first = {kind: next(filter(None, each), None) for kind, each in found.items()}
        return {kind: paired_apart(pair) for kind, pair in first.items() if pair is not None}

    @property
    def worst(self) -> Pair | None:
        """Both under the suite `strict` at the paper's epsilon."""
        wanted = (STRICT.suite, STRICT.epsilon)
        return next((pair for pair in self.pairs if (pair[0].suite, pair[0].epsilon) == wanted), None)


def read_long(results: Path) -> Long:
    """From the folder of results."""
    ours, theirs = (_read(results, f"{model}--*.json") for model in (HM, HM_BASE))
    more = {each.name for each in _read(results, f"{HM}-seed*--*.json")}
    return pair_up_long(ours, theirs, len(more) + bool(ours))


def pair_up_long(ours: list[Summary], theirs: list[Summary], seeds: int = 1) -> Long:
    """Every two evaluations of the same images under the same attacks."""
    pairs = [(first, second) for first in ours for second in theirs if first.attacked_like(second)]
    return Long(tuple(sorted(pairs, key=lambda pair: -pair[0].samples)), seeds)


def _read(results: Path, files: str) -> list[Summary]:
    return [read_summary(path) for path in sorted((results / "evaluations").glob(files))]


def _within(summary: Summary) -> float | None:
    wrong = ~summary.right
    return None if summary.near is None or not wrong.any() else 100 * float(summary.near[wrong].mean())
