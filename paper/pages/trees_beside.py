"""What the published summaries tell beside the studies' files: attack by attack, image by image."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxmahal.attacks.threats import parse_epsilon
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.records.verdict import CLEAN
from paper.pages.reading import EVALUATIONS, RUNS
from paper.pages.shelf import widest_pair
from paper.pages.trees_study import MMC, TREES
from paper.pages.variants.results import Results, Run
from paper.pages.variants.severity import validation_score
from paper.pages.variants.spec import Metric
from paper.summaries import (
    RunSummary,
    StageSummary,
    Summary,
    pair_clean,
    pair_near,
    pair_up,
    read_run,
    read_summary,
)

CLOSE = 2 / 3
"""Of the distance between two of MMC's centers: where the nearest two lie closer, siblings are called close."""
_FILES = "trees-*.json"
_PAIRS: dict[Metric, Callable[[Summary, Summary], Comparison | None]] = {
    "clean": pair_clean,
    "superclass": pair_near,
    "worst": pair_up,
}
"""Shares of mistakes are not among them: each model's mistakes are images of its own."""


@dataclass(frozen=True)
class Beside:
    """Summaries as far as they were published."""

    evaluations: tuple[Summary, ...] = ()
    """By the short suite in its ball."""
    runs: tuple[RunSummary, ...] = ()
    """Finished trainings, attacked or not."""

    @property
    def attacks(self) -> list[str]:
        """What the short suite consists of, in its order, for people; empty where no summary tells."""
        return [stage.title for each in self.evaluations[:1] for stage in _attacks(each)]

    def broken_later(self, run: Run) -> Rate | None:
        """Of the images that the first attack left, those that a later one broke: how far the first was from the end.

        None where nobody published it, and where the first attack left nothing.
        """
        found = self._of(run)
        attacks = [] if found is None else _attacks(found)
        if not attacks or attacks[0].accuracy is None:
            return None
        left = round(attacks[0].accuracy.count)
        return Rate(float(sum(stage.broke for stage in attacks[1:])), left) if left else None

    def stands(self, run: Run, count: int) -> Rate | None:
        """How many of the first so many images withstood the short suite."""
        found = self._of(run)
        return None if found is None or len(found.stands) < count else Rate(float(found.stands[:count].sum()), count)

    def paired(self, ours: Run, theirs: Run, metric: Metric) -> Comparison | None:
        """Two models image by image; None where it is not known of both what became of each image that was counted."""
        summaries = [[found] for run in (ours, theirs) if (found := self._of(run)) is not None]
        pair = widest_pair(*summaries) if len(summaries) == 2 else None
        if pair is None or metric not in _PAIRS or {len(each.right) for each in pair} != {ours.clean.total}:
            return None
        return _PAIRS[metric](*pair)

    def seeds(self, arm: str) -> set[int]:
        """Of its finished trainings."""
        ends = [each.name.removeprefix(f"{arm}-seed") for each in self.runs if each.name.startswith(f"{arm}-seed")]
        return {int(end) for end in ends if end.isdigit()}

    def validation(self, name: str) -> float | None:
        """A training's score on held-out images."""
        return next((validation_score(each.epochs) for each in self.runs if each.name == name), None)

    def settings(self, arm: str) -> dict[str, Any]:
        """Of an arm's first finished training, by names such as "train.epochs"; empty where there is none."""
        found = next((each.settings for each in self.runs if each.name.rpartition("-seed")[0] == arm), {})
        tables = {part: values for part, values in found.items() if isinstance(values, dict)}
        return {f"{part}.{key}": value for part, values in tables.items() for key, value in values.items()}

    def training_loss(self, name: str, fingerprint: str = "") -> float | None:
        """The mean over the last epoch; of these weights, where they are given."""
        found = [each for each in self.runs if each.name == name and (not fingerprint or each.made(name, fingerprint))]
        return next((each.epochs[-1].get("train_loss") for each in found if each.epochs), None)

    def _of(self, run: Run) -> Summary | None:
        """Of the same weights: a model that was trained anew has other images that stand."""
        wanted = (run.name, run.fingerprint)
        return next((each for each in self.evaluations if (each.name, each.model_fingerprint) == wanted), None)


def read_beside(results: Path) -> Beside:
    """From the folder of results; what is not there is not told."""
    every = [read_summary(path) for path in sorted((results / EVALUATIONS).glob(_FILES))]
    radius = parse_epsilon(TREES.epsilon)
    runs = [read_run(path) for path in sorted((results / RUNS).glob(_FILES))]
    return Beside(
        tuple(each for each in every if each.suite == TREES.suite and math.isclose(each.radius, radius)),
        tuple(each for each in runs if each.finished),
    )


def looseness(results: Results, beside: Beside) -> str:
    """Whether the later attacks break more of what the first one left where siblings lie close; empty if not known."""
    found = [(run, rate) for run in results.runs if (rate := beside.broken_later(run)) is not None]
    ours = next(((run, rate) for run, rate in found if run.arm == MMC), None)
    others = [(run, 100 * rate.value) for run, rate in found if run.arm != MMC]
    if ours is None or "nearest" not in ours[0].centers:
        return ""
    limit = CLOSE * ours[0].centers["nearest"]
    close = [share for run, share in others if run.centers.get("nearest", limit) < limit]
    far = [share for run, share in others if run.centers.get("nearest", 0.0) >= limit]
    if not close or not far:
        return ""
    said = (
        f"Of the images that the first attack left, later ones break {100 * ours[1].value:.0f} % with MMC-10, "
        f"{_range(far)} where the two nearest centers lie at least two thirds as far apart as MMC's, and "
        f"{_range(close)} where they lie closer"
    )
    return f"{said}: {'there the bounds are looser' if min(close) > max(far) else 'no clear order'}."


def favours(results: Results, arms: Sequence[str], beside: Beside) -> tuple[str, str]:
    """Whom the short suite's bounds favour, and by which shares: where its later attacks still break more of what the
    first one left, a longer suite would have broken more. Both empty where that is not known.
    """
    means = {arm: _mean_later(results, arm, beside) for arm in (MMC, *arms)}
    base, others = means.pop(MMC), [share for share in means.values() if share is not None]
    if base is None or not others:
        return "", ""
    side = "neither side clearly"
    if all(share > base for share in others):
        side = "hierarchical centers"
    elif all(share < base for share in others):
        side = "MMC-10"
    return side, f"{_range([100 * share for share in others])} with the given tree, {100 * base:.0f} % with MMC-10"


def later_shares(results: Results, arm: str, beside: Beside) -> list[float]:
    """Of what the first attack left, the share that later ones broke, of every seed that it is known of."""
    return [rate.value for run in results.runs if run.arm == arm and (rate := beside.broken_later(run)) is not None]


def _mean_later(results: Results, arm: str, beside: Beside) -> float | None:
    found = later_shares(results, arm, beside)
    return sum(found) / len(found) if found else None


def _range(shares: Sequence[float]) -> str:
    return f"{min(shares):.0f} to {max(shares):.0f} %"


def _attacks(summary: Summary) -> Sequence[StageSummary]:
    return [stage for stage in summary.stages if stage.counts and stage.name != CLEAN]
