"""A folder of summaries, asked for one number at a time; what was not measured is None, never a guess."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Bool

from maxmahal.data.registry import SOURCES
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.report.paper import PaperNumber, paper_number
from maxmahal.report.wording import typeset
from maxmahal.train import load_settings
from maxmahal.train.presets import preset_names
from paper import own
from paper.pages.balls import in_own_ball, in_smaller_ball
from paper.pages.measured import Measured
from paper.pages.steps import Steps
from paper.summaries import BEST, RunSummary, StageSummary, Summary, pair_stage

PROTOCOL = ("paper-table1", "paper-table2", "paper-table4", "paper")
"""The suites that run the paper's own attacks, in the order they are asked."""
STRONG = ("autoattack", "strict")
"""The suites that measure robustness."""
SIZES = "spsa-sizes"
"""SPSA with larger batches, on as few images as the whole percents of the paper's Table 3 suggest; nothing else is read
from it."""
NOT_RUN = "not run"
ENOUGH = 1000  # images: a verdict from fewer would be a guess
TUNING = "tune-"  # how the names of trials begin
OTHER_RATE = re.compile(r"-lr[\d.]+$")
"""How the names of models end that were trained like another but for the learning rate."""
_TWIN = re.compile(rf"^{TUNING}|-short(?=-|$)|-narrow(?=-|$)|-seed\d+|-lr[\d.]+|{BEST}$")
"""In names of models that no row of the paper is about."""


@dataclass(frozen=True)
class Shelf:
    """Everything that was collected."""

    evaluations: tuple[Summary, ...]
    runs: tuple[RunSummary, ...]
    steps: Steps | None = None

    def serious(self) -> "Shelf":
        """Without looks at a few images, which no verdict should be made from; that on SIZES goes by intervals."""
        return replace(self, evaluations=tuple(each for each in self.evaluations if _is_serious(each)))

    def of(self, model: str, suite: str) -> list[Summary]:
        """Every evaluation of a model under a suite, in that suite's own ball."""
        return [each for each in self.evaluations if (each.name, each.suite) == (model, suite) and in_own_ball(each)]

    def find(self, model: str, suite: str) -> Summary | None:
        """The evaluation with the most images; attack seed 0 before others."""
        return _widest(self.of(model, suite))

    def smaller(self, data: str) -> list[Summary]:
        """Evaluations by the suites that measure robustness in smaller balls than these name; the smallest first."""
        strong = [each for each in self.evaluations if each.data == data and each.suite in STRONG]
        return sorted(filter(in_smaller_ball, strong), key=lambda each: (STRONG.index(each.suite), each.radius))

    def pair(self, first: str, second: str, suite: str) -> tuple[Summary, Summary] | None:
        """Two models under one suite on the same images, as many as both have seen."""
        return widest_pair(self.of(first, suite), self.of(second, suite))

    def stage(self, model: str, name: str, suites: Sequence[str] = PROTOCOL) -> Measured | None:
        """What one attack left of a model, from the first of the suites that ran it."""
        for suite in suites:
            summary = self.find(model, suite)
            stage = summary.stage(name) if summary else None
            if summary is not None and stage is not None and stage.accuracy is not None and not stage.skipped:
                return _of_stage(stage, stage.accuracy, summary)
        return None

    def stage_pair(self, first: str, second: str, name: str, suites: Sequence[str] = PROTOCOL) -> Comparison | None:
        """Two models under one attack on the same images, by what each kept; None where nobody wrote that down."""
        pairs = [pair for suite in suites if (pair := self.pair(first, second, suite)) is not None]
        return next((found for pair in pairs if (found := pair_stage(*pair, name)) is not None), None)

    def stage_rates(self, first: str, second: str, name: str) -> tuple[Rate, Rate] | None:
        """What one attack left of two models on as many of the same images, as counts that nobody can pair."""
        for suite in PROTOCOL:
            stages = [each.stage(name) for each in self.pair(first, second, suite) or ()]
            rates = [each.accuracy for each in stages if each is not None and each.accuracy and not each.skipped]
            if len(rates) == 2 and rates[0].total == rates[1].total:
                return rates[0], rates[1]
        return None

    def kept(self, model: str, name: str) -> Rate | None:
        """The share of images that a model gets right before an attack and after it: the attack on true labels."""
        for suite in PROTOCOL:
            summary = self.find(model, suite)
            if summary is not None and (kept := summary.kept(name)) is not None:
                return Rate(float(kept.sum()), len(kept))
        return None

    def right_after(
        self, beside: Summary, name: str, suites: Sequence[str] = PROTOCOL
    ) -> Bool[np.ndarray, " n"] | None:
        """Which images of one evaluation its model gets right after an attack of another suite that saw them first.

        From the first of the suites that ran it on the same weights; None where nobody wrote down which images.
        """
        for suite in suites:
            summary = self.find(beside.name, suite)
            stage = summary.stage(name) if summary else None
            if summary is None or stage is None or stage.right is None or stage.skipped:
                continue
            if _begins_with(summary, beside):
                return stage.right[: beside.samples]
        return None

    def clean(self, model: str) -> Measured | None:
        """Accuracy before any attack, from whichever suite saw the most images; of a model that was evaluated on a few
        of them or on none, what its training counted on all of them at its end.
        """
        seen = [each for each in self.evaluations if each.name == model and each.suite != SIZES]
        best = max(seen, key=lambda each: each.samples, default=None)
        whole = self._clean_of_training(model, best) if best is None or best.limited else None
        if whole is not None:
            return Measured(whole, math.nan, whole.total, False)
        return None if best is None else Measured(best.clean, math.nan, best.clean.total, best.limited)

    def robust(self, model: str, suite: str) -> Measured | None:
        """The worst case under one suite."""
        return worst_case(self.of(model, suite))

    def strongest(self, model: str) -> Measured | None:
        """The worst case per sample over the suites that measure robustness, as far as they saw the same images.

        Where they did not, or one of them is lower on more images, the lowest of their worst cases, which says so.
        """
        found = [each for suite in STRONG if (each := self.robust(model, suite)) is not None]
        lowest = min(found, key=lambda each: (each.value, -each.samples), default=None)
        if lowest is None or len(found) < len(STRONG) or all(each.value == 0 for each in found):
            return lowest  # where both leave nobody, it is the one that saw more images
        first, second = (self.of(model, suite) for suite in STRONG)
        pairs = [(a, b) for a in first for b in second if _images(a) == _images(b)]
        widest = max(pairs, key=lambda pair: (pair[0].samples, -pair[0].seed, -pair[1].seed), default=None)
        apart = replace(lowest, note="the lower of two suites, which did not see the same images")
        if widest is None:
            return apart
        stands = widest[0].stands & widest[1].stands
        common = counted_right(stands, widest[0].limited)
        return apart if lowest.samples > common.samples and lowest.value < common.value else common

    def _clean_of_training(self, model: str, evaluated: Summary | None) -> Rate | None:
        """What the training of a checkpoint counted on the whole test set, where it is known to be of that one."""
        run = self.run(model.removesuffix(BEST))
        if run is None or not run.finished:
            return None
        scores = run.result.get("best" if model.endswith(BEST) else "last") or {}
        data = run.settings.get("data", {}).get("source", "")
        if evaluated is not None:
            data = evaluated.data
            if not run.made(model, evaluated.model_fingerprint) or scores.get("epoch") != evaluated.model.get("epoch"):
                return None
        source, accuracy = SOURCES.get(data), scores.get("test_accuracy")
        if source is None or accuracy is None:
            return None
        images = sum(source.class_counts["test"])
        return Rate(float(round(images * accuracy)), images)

    def run(self, name: str) -> RunSummary | None:
        """The training of that name."""
        return next((each for each in self.runs if each.name == name), None)

    def settings(self, model: str) -> dict[str, Any]:
        """What it was trained with: by the first of its evaluations that tells, else by its training; {} of neither.

        An evaluation read them from the checkpoint itself, so they belong to the weights that the numbers are of; a
        training of that name may have been run again since.
        """
        known = (each.model.get("settings") for each in self.evaluations if each.name == model)
        run = self.run(model)
        return dict(next(filter(None, known), None) or ({} if run is None else run.settings))

    def seeds(self, base: str) -> list[str]:
        """The model and its twins of other training seeds, as far as anything was measured on them."""
        names = {each.name for each in self.evaluations} | {each.name for each in self.runs}
        twins = [name for name in names if name.removeprefix(f"{base}-seed").isdigit()]
        return [name for name in (base, *sorted(twins)) if name in names]

    def one_seed(self, models: Iterable[str]) -> bool:
        """Whether no twin of another training seed is known of any of them."""
        return all(len(self.seeds(model)) <= 1 for model in models)

    def rows(self, model: str) -> str:
        """Where the paper reports this model: from what was measured, or from the preset of its name.

        Nowhere for trials, short budgets, narrow networks, other seeds and best checkpoints, whatever settings they
        took over.
        """
        if _TWIN.search(model):
            return ""
        for each in self.evaluations:
            if each.name == model and each.model.get("table"):
                return str(each.model["table"])
        run = self.run(model)
        if run is not None and run.settings.get("table"):
            return str(run.settings["table"])
        return _preset_rows(model)

    def paper(self, model: str, stage: str, table: str = "") -> list[PaperNumber]:
        """What the paper prints for a model, in one of its tables or in any."""
        found = paper_number(self.rows(model), stage)
        return [number for number in found if not table or number.source.startswith(f"{table}, ")]


def widest_pair(ours: Sequence[Summary], theirs: Sequence[Summary]) -> tuple[Summary, Summary] | None:
    """Of evaluations of two models, those on the same images under the same attacks, as many as both have seen."""
    pairs = [(a, b) for a in ours for b in theirs if _comparable(a) == _comparable(b)]
    return max(pairs, key=lambda pair: (pair[0].samples, -pair[0].seed), default=None)


def worst_case(found: Sequence[Summary]) -> Measured | None:
    """Of one model, from that of several evaluations alike which saw the most images."""
    widest = _widest(found)
    return None if widest is None else Measured(widest.robust, math.nan, widest.robust.total, widest.limited)


def counted_right(right: Bool[np.ndarray, " n"], limited: bool = False) -> Measured:
    """The share of images that are right, from which of them are."""
    return Measured(Rate(float(right.sum()), len(right)), math.nan, len(right), limited)


def paper_text(numbers: Sequence[PaperNumber]) -> str:
    """As printed; both numbers where two tables contradict each other."""
    texts = list(dict.fromkeys(number.text for number in numbers))
    return typeset(" or ".join(texts))


def ours_text(measured: Measured | None) -> str:
    """A number of ours with its interval, or that there is none."""
    return NOT_RUN if measured is None else measured.full


@cache
def _preset_rows(model: str) -> str:
    file = own("preset", model)
    return load_settings(file).table if file != model or model in preset_names() else ""


def _widest(found: Sequence[Summary]) -> Summary | None:
    return max(found, key=lambda each: (not each.limited, each.samples, -each.seed), default=None)


def _is_serious(summary: Summary) -> bool:
    return summary.samples >= ENOUGH or (summary.suite == SIZES and not summary.limited)


def _images(summary: Summary) -> tuple[object, ...]:
    """What has to agree before two suites' survivors may be intersected."""
    return (summary.model_fingerprint, summary.data_fingerprint, summary.samples)


def _begins_with(summary: Summary, few: Summary) -> bool:
    """Whether the first images of an evaluation are those of another one of the same weights.

    A fingerprint of more images says nothing of the first of them; what the model makes of these without any attack
    does.
    """
    if summary.samples == few.samples:
        return _images(summary) == _images(few)
    weights = [(each.model_fingerprint, each.data) for each in (summary, few)]
    return weights[0] == weights[1] and np.array_equal(summary.right[: few.samples], few.right)


def _comparable(summary: Summary) -> tuple[object, ...]:
    attacks = (summary.suite_version, summary.norm, summary.radius)
    return (summary.data_fingerprint, summary.samples, summary.seed, *attacks)


def _of_stage(stage: StageSummary, accuracy: Rate, summary: Summary) -> Measured:
    if stage.distortion is not None and not stage.threat:  # a minimum-norm attack
        before = int(summary.right[: stage.samples].sum())  # a stage with a limit takes the first images
        left = Rate(min(accuracy.count, float(before)), before) if before else None
        return Measured(None, stage.distortion, stage.samples, summary.limited, stage.distortion_error, left=left)
    return Measured(accuracy, math.nan, accuracy.total, summary.limited)
