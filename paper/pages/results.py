"""Published results: the summaries in a folder, asked for one number at a time; what was not measured is None."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from maxmahal.data.registry import SOURCES
from maxmahal.evaluate.suite import Suite, load_suite, suite_names
from maxmahal.records.schema import RecordsError
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.report.tables import PaperNumber, paper_number
from maxmahal.report.wording import typeset
from maxmahal.train import load_settings
from maxmahal.train.presets import preset_names
from paper import own
from paper.pages.models import ADVERSARIAL_CIFAR100, DATA, DISTANCES, LONG, OWN_TITLES, SHORT, TUNING, row_title
from paper.pages.text import NOT_RUN, rate_cell, rate_text
from paper.summaries import BEST, HALF, RunSummary, StageSummary, Summary, pair_stage, read_run, read_summary

EVALUATIONS, RUNS = "evaluations", "runs"
PROTOCOL = ("paper-table1", "paper-table2", "paper-table4", "paper")
"""The suites that run the paper's own attacks, in the order they are asked."""
STRONG = ("autoattack", "strict")
"""The suites that measure robustness."""
SPSA_SUITE = "spsa-sizes"
"""SPSA with larger batches, on 100 images; nothing else is read from it."""
ENOUGH_IMAGES = 1000  # for a verdict
OTHER_RATE = re.compile(r"-lr[\d.]+$")
"""How the names of models end that were trained like another but for the learning rate."""
_NO_ROW = re.compile(rf"^{TUNING}|-short(?=-|$)|-narrow(?=-|$)|-released$|-seed\d+|-lr[\d.]+|{BEST}$")
"""In names of models that are rows of no table of the paper."""
_NEARLY_ALL = 0.05  # of the images: if more withstand a minimum-norm attack, its mean distance is not comparable
_BEST_COMPARED = (*LONG, *SHORT, *ADVERSARIAL_CIFAR100)


@dataclass(frozen=True)
class Measured:
    """An accuracy in percent, or a mean distance."""

    rate: Rate | None
    """None for a distance."""
    distance: float
    samples: int
    limited: bool
    """Measured on fewer images than the suite takes by default."""
    error: float | None = None
    """Of a mean distance; None if not known."""
    note: str = ""
    left: Rate | None = None
    """Of a mean distance: images still correct after the attack, of those that were correct before it."""

    @property
    def value(self) -> float:
        """Percent, or the distance; NaN if a minimum-norm attack broke no image."""
        return self.distance if self.rate is None else 100 * self.rate.value

    @property
    def unbroken(self) -> str:
        """ "145 of 340 not broken" by an attack without a bound; empty if it broke nearly all."""
        if self.left is None or self.left.value <= _NEARLY_ALL:
            return ""
        return f"{self.left.count:g} of {self.left.total:,} not broken"

    @property
    def cell(self) -> str:
        """For a table, without an interval."""
        if self.rate is not None:
            text = rate_cell(self.rate)
        elif math.isnan(self.distance):
            text = "none broken"
        else:
            text = f"{self.distance:.3f}" if self.distance < 0.1 else f"{self.distance:.2f}"
            text += f" ({self.unbroken})" if self.unbroken else ""
        return f"{text} (first {self.samples:,})" if self.limited else text

    @property
    def full(self) -> str:
        """With its interval."""
        if self.rate is None:
            return self.cell
        text = rate_text(self.rate) + (f" (first {self.samples:,})" if self.limited else "")
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True)
class Published:
    """Everything that was collected."""

    evaluations: tuple[Summary, ...]
    runs: tuple[RunSummary, ...]

    def with_enough_images(self) -> "Published":
        """Without evaluations on too few images for a verdict; the rule for SPSA's batches uses intervals instead."""
        return replace(
            self,
            evaluations=tuple(
                each
                for each in self.evaluations
                if each.samples >= ENOUGH_IMAGES or (each.suite == SPSA_SUITE and not each.limited)
            ),
        )

    def of(self, model: str, suite: str) -> list[Summary]:
        """Every evaluation of a model under a suite with that suite's own threat."""
        return [each for each in self.evaluations if (each.name, each.suite) == (model, suite) and has_own_threat(each)]

    def find(self, model: str, suite: str) -> Summary | None:
        """The evaluation with the most images; attack seed 0 before others."""
        return _widest(self.of(model, suite))

    def smaller_epsilons(self, data: str) -> list[Summary]:
        """Evaluations by the suites that measure robustness at smaller epsilons than these name; smallest first."""
        strong = [each for each in self.evaluations if each.data == data and each.suite in STRONG]
        return sorted(filter(has_smaller_epsilon, strong), key=lambda each: (STRONG.index(each.suite), each.radius))

    def pair(self, first: str, second: str, suite: str) -> tuple[Summary, Summary] | None:
        """Two models under one suite on the same images, as many as both have seen."""
        return widest_pair(self.of(first, suite), self.of(second, suite))

    def measured(self, model: str, stage: str, suites: Sequence[str] = PROTOCOL) -> Measured | None:
        """The accuracy (or mean distance) after one attack, from the first of the suites that ran it; "clean" too."""
        if stage == "clean":
            return self.clean(model)
        for suite in suites:
            summary = self.find(model, suite)
            found = summary.stage(stage) if summary else None
            if summary is not None and found is not None and found.accuracy is not None and not found.skipped:
                return _of_stage(found, found.accuracy, summary)
        return None

    def stage_pair(self, first: str, second: str, name: str) -> Comparison | None:
        """Two models under one attack of the paper on the same images, by what each keeps; None if not recorded."""
        pairs = [pair for suite in PROTOCOL if (pair := self.pair(first, second, suite)) is not None]
        return next((found for pair in pairs if (found := pair_stage(*pair, name)) is not None), None)

    def stage_rates(
        self, first: str, second: str, name: str, suites: Sequence[str] = PROTOCOL
    ) -> tuple[Rate, Rate] | None:
        """Accuracies of two models after one attack on as many of the same images, as counts that cannot be paired."""
        for suite in suites:
            stages = [each.stage(name) for each in self.pair(first, second, suite) or ()]
            rates = [each.accuracy for each in stages if each is not None and each.accuracy and not each.skipped]
            if len(rates) == 2 and rates[0].total == rates[1].total:
                return rates[0], rates[1]
        return None

    def kept(self, model: str, name: str) -> Rate | None:
        """The share of images that are correct before and after an attack: the attack away from the true label."""
        for suite in PROTOCOL:
            summary = self.find(model, suite)
            if summary is not None and (kept := summary.kept(name)) is not None:
                return Rate(float(kept.sum()), len(kept))
        return None

    def right_after(
        self, beside: Summary, name: str, suites: Sequence[str] = PROTOCOL
    ) -> Bool[np.ndarray, " n"] | None:
        """Which images of one evaluation its model gets right after an attack of another suite that began with them.

        From the first of the suites that ran it on the same weights; None if not recorded image by image.
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
        """Clean accuracy from the suite that saw the most images; if that was a part of the test set or none of it,
        what the training counted on all of it at its end.
        """
        seen = [each for each in self.evaluations if each.name == model and each.suite != SPSA_SUITE]
        best = max(seen, key=lambda each: each.samples, default=None)
        whole = self._clean_of_training(model, best) if best is None or best.limited else None
        if whole is not None:
            return Measured(whole, math.nan, whole.total, False)
        return None if best is None else Measured(best.clean, math.nan, best.clean.total, best.limited)

    def robust(self, model: str, suite: str) -> Measured | None:
        """The worst case under one suite."""
        return worst_case(self.of(model, suite))

    def strongest(self, model: str) -> Measured | None:
        """The worst case per sample over the suites that measure robustness, where they saw the same images.

        Otherwise, or if one of them is lower on more images, the lowest of their worst cases, with a note.
        """
        found = [each for suite in STRONG if (each := self.robust(model, suite)) is not None]
        lowest = min(found, key=lambda each: (each.value, -each.samples), default=None)
        if lowest is None or len(found) < len(STRONG) or all(each.value == 0 for each in found):
            return lowest  # if both break every image, the one that saw more images
        first, second = (self.of(model, suite) for suite in STRONG)
        pairs = [(a, b) for a in first for b in second if _images(a) == _images(b)]
        widest = max(pairs, key=lambda pair: (pair[0].samples, -pair[0].seed, -pair[1].seed), default=None)
        unpaired = replace(lowest, note="the lower of two suites, which did not see the same images")
        if widest is None:
            return unpaired
        common = measured_right(widest[0].stands & widest[1].stands, widest[0].limited)
        return unpaired if lowest.samples > common.samples and lowest.value < common.value else common

    def _clean_of_training(self, model: str, evaluated: Summary | None) -> Rate | None:
        """What a training counted on the whole test set, if the checkpoint is its own and was not rounded since."""
        run = self.run(model.removesuffix(BEST))
        if run is None or not run.finished or HALF in run.weights:
            return None
        scores = run.result.get("best" if model.endswith(BEST) else "last") or {}
        data = run.settings.get("data", {}).get("source", "")
        if evaluated is not None:
            data = evaluated.data
            if not run.made(model, evaluated.model_fingerprint) or scores.get("epoch") != evaluated.model.get("epoch"):
                return None
        source, accuracy = SOURCES.get(data), scores.get("test_accuracy")
        if source is None or accuracy is None or "test_limit" in run.settings.get("data", {}):
            return None
        images = sum(source.class_counts["test"])
        return Rate(float(round(images * accuracy)), images)

    def run(self, name: str) -> RunSummary | None:
        """The training of that name."""
        return next((each for each in self.runs if each.name == name), None)

    def settings(self, model: str) -> dict[str, Any]:
        """What a model was trained with: by the first of its evaluations that says so, else by its training, else {}.

        An evaluation reads them from the checkpoint, so they belong to the evaluated weights; a training of that name
        may have been repeated since.
        """
        known = (each.model.get("settings") for each in self.evaluations if each.name == model)
        run = self.run(model)
        return dict(next(filter(None, known), None) or ({} if run is None else run.settings))

    def seeds(self, base: str) -> list[str]:
        """The model and those of other training seeds, of which anything was measured."""
        names = {each.name for each in self.evaluations} | {each.name for each in self.runs}
        others = [name for name in names if name.removeprefix(f"{base}-seed").isdigit()]
        return [name for name in (base, *sorted(others)) if name in names]

    def rows(self, model: str) -> str:
        """Where the paper reports a model: as an evaluation, its training or its preset says.

        Nowhere for trials, short budgets, narrow or released networks, other seeds and best checkpoints.
        """
        if _NO_ROW.search(model):
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

    def title(self, model: str) -> str:
        """The name of a model's row in the paper's first table that has it, or one of our own."""
        row = row_title(self.rows(model).partition(";")[0])
        prefix, _, rest = model.partition("-")
        return row or OWN_TITLES.get(model) or (rest if prefix in DATA and rest else model)


def read_published(folder: Path, names: str = "*") -> Published:
    """The summaries below a folder, in the order of their files' names; two models under one name are refused."""
    evaluations = {path: read_summary(path) for path in sorted((folder / EVALUATIONS).glob(f"{names}.json"))}
    _refuse_two(evaluations, lambda each: each.model_fingerprint, lambda each: (each.name,), "weights")
    _refuse_two(evaluations, lambda each: each.data, lambda each: (each.name,), "data")
    _refuse_two(evaluations, lambda each: each.data_fingerprint, lambda each: (each.name, each.samples), "images")
    runs = tuple(read_run(path) for path in sorted((folder / RUNS).glob(f"{names}.json")))
    known = tuple(evaluations.values())
    return Published((*known, *_of_best(known, runs)), runs)


def widest_pair(ours: Sequence[Summary], theirs: Sequence[Summary]) -> tuple[Summary, Summary] | None:
    """Of evaluations of two models, those on the same images under the same attacks, as many as both have seen."""
    pairs = [(a, b) for a in ours for b in theirs if a.attacked_like(b)]
    return max(pairs, key=lambda pair: (pair[0].samples, -pair[0].seed), default=None)


def worst_case(found: Sequence[Summary]) -> Measured | None:
    """Of one model, from that of several similar evaluations which saw the most images."""
    widest = _widest(found)
    return None if widest is None else Measured(widest.robust, math.nan, widest.robust.total, widest.limited)


def measured_right(right: Bool[np.ndarray, " n"], limited: bool = False) -> Measured:
    """The share of images that are correct."""
    return Measured(Rate(float(right.sum()), len(right)), math.nan, len(right), limited)


def paper_text(numbers: Sequence[PaperNumber]) -> str:
    """As printed; both numbers if two tables disagree; a dash for none."""
    return typeset(" or ".join(dict.fromkeys(number.text for number in numbers))) or "–"


def ours_text(measured: Measured | None) -> str:
    """A number of ours with its interval."""
    return NOT_RUN if measured is None else measured.full


def cell_text(measured: Measured | None) -> str:
    """A number of ours for a table."""
    return NOT_RUN if measured is None else measured.cell


def has_own_threat(summary: Summary) -> bool:
    """Whether the attacks ran at the norm and epsilon that their suite names."""
    return is_own_threat(summary.suite, summary.norm, summary.radius)


def is_own_threat(suite: str, norm: str, radius: float) -> bool:
    """Whether a suite names this norm and epsilon; an unknown suite names any."""
    threat = _own_threat(suite)
    return threat is None or (norm == threat[0] and math.isclose(radius, threat[1]))


def has_smaller_epsilon(summary: Summary) -> bool:
    """Whether the attacks ran at a smaller epsilon of the norm that their suite names."""
    threat = _own_threat(summary.suite)
    return (
        threat is not None and summary.norm == threat[0] and summary.radius < threat[1] and not has_own_threat(summary)
    )


@cache
def known_suite(name: str) -> Suite | None:
    """A suite of the package or of this folder; None for any other."""
    file = own("suite", name)
    return load_suite(file) if file != name or name in suite_names() else None


@cache
def _own_threat(suite: str) -> tuple[str, float] | None:
    found = known_suite(suite)
    return None if found is None else (found.norm, found.threat_of(None).radius)


@cache
def _preset_rows(model: str) -> str:
    file = own("preset", model)
    return load_settings(file).table if file != model or model in preset_names() else ""


def _widest(found: Sequence[Summary]) -> Summary | None:
    return max(found, key=lambda each: (not each.limited, each.samples, -each.seed), default=None)


def _images(summary: Summary) -> tuple[object, ...]:
    """What has to agree before the worst cases of two suites may be intersected."""
    return (summary.model_fingerprint, summary.data_fingerprint, summary.samples)


def _begins_with(summary: Summary, few: Summary) -> bool:
    """Whether the first images of an evaluation are those of another one of the same weights.

    The fingerprint of more images says nothing about the first of them; the model's clean answers do.
    """
    if summary.samples == few.samples:
        return _images(summary) == _images(few)
    weights = [(each.model_fingerprint, each.data) for each in (summary, few)]
    return weights[0] == weights[1] and np.array_equal(summary.right[: few.samples], few.right)


def _of_stage(stage: StageSummary, accuracy: Rate, summary: Summary) -> Measured:
    if stage.name in DISTANCES and not stage.threat:
        distance = math.nan if stage.distortion is None else stage.distortion
        before = int(summary.right[: stage.samples].sum())  # a stage with a limit takes the first images
        left = Rate(min(accuracy.count, float(before)), before) if before else None
        return Measured(None, distance, stage.samples, summary.limited, stage.distortion_error, left=left)
    return Measured(accuracy, math.nan, accuracy.total, summary.limited)


def _of_best(known: Sequence[Summary], runs: Sequence[RunSummary]) -> Iterator[Summary]:
    """Evaluations of best checkpoints that are also the last ones: the same weights give the same results.

    Only of models whose best checkpoints are compared; one that was evaluated with other weights is left as it is.
    """
    same = {run.name: last for run in runs if (last := run.weights.get("last")) and last == run.weights.get("best")}
    weights = {each.name: each.model_fingerprint for each in known}
    seen = {_attacked(each) for each in known}
    for each in known:
        best = replace(each, name=f"{each.name}{BEST}")
        own_weights = {same.get(each.name), weights.get(best.name, each.model_fingerprint)} == {each.model_fingerprint}
        if own_weights and each.name in _BEST_COMPARED and each.suite in STRONG and _attacked(best) not in seen:
            yield best


def _attacked(summary: Summary) -> tuple[object, ...]:
    return summary.name, summary.suite, summary.norm, summary.radius, summary.samples, summary.seed


def _refuse_two(
    evaluations: Mapping[Path, Summary],
    what: Callable[[Summary], str],
    per: Callable[[Summary], tuple[object, ...]],
    word: str,
) -> None:
    first: dict[tuple[object, ...], Path] = {}
    for path, summary in evaluations.items():
        other = first.setdefault(per(summary), path)
        if what(evaluations[other]) != what(summary):
            raise RecordsError(
                f"{other} and {path.name} are both of '{summary.name}' but of different {word} "
                f"({what(evaluations[other])} and {what(summary)}); remove the older one, or collect both again."
            )
