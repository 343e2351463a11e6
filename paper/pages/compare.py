"""Comparisons of models: on the same images by paired tests, over training seeds by t intervals, column by column."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import NormalDist
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from maxmahal.records.statistics import CONFIDENCE, Comparison, Rate, points_apart
from paper.pages.models import (
    ADVERSARIAL,
    ADVERSARIAL_CIFAR100,
    HM,
    HM_BASE,
    LONG,
    PGD_8,
    PGD_16,
    SHORT,
    SPSA,
    TITLES,
    TUNED,
)
from paper.pages.paired import ALPHA, ENOUGH, POINT
from paper.pages.results import OTHER_RATE, PROTOCOL, STRONG, Measured, Published, widest_pair, worst_case
from paper.pages.text import difference, paired_test, plural
from paper.summaries import BEST, StageSummary, Summary, pair_clean, pair_stage, pair_up

FARTHER = 5.0  # percent of a mean distance: likewise
SUITE = "autoattack"
_REACH = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # of an interval, in standard errors
State = Literal["ahead", "no lead", "open", "not tested"]


@dataclass(frozen=True)
class Gap:
    """By how much one model is better than another under one attack."""

    size: float
    """In points, or in percent of the other's mean distance."""
    p_value: float
    middle: float
    """Of the interval, which for few images differs slightly from the size."""
    error: float
    least: float
    """The smallest size that is a lead."""
    words: str
    """The size, and what it was counted on."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The true differences that are compatible with it."""
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.error
        return self.middle - reach, self.middle + reach

    @property
    def text(self) -> str:
        """ "+0.2 points [−0.3, +0.8]", over images."""
        low, high = self.interval()
        return f"{difference(self.size)} points [{difference(low)}, {difference(high)}]"

    @property
    def significant(self) -> bool:
        """Whether the interval excludes zero."""
        low, high = self.interval()
        return low > 0 or high < 0


@dataclass(frozen=True)
class Lead:
    """One model against others in one column."""

    title: str
    closest: str
    """The other model with the smallest gap."""
    gap: Gap | None
    """To that one; None if it was not tested."""
    p_value: float | None
    """The largest over the other models, corrected for the number of columns."""
    state: State


def of_images(pair: Comparison) -> Gap:
    """From paired images."""
    size, (low, high) = 100 * pair.difference, pair.interval
    counts = f"{pair.first_only:,} to {pair.second_only:,} of {pair.total:,} images"
    words = f"{difference(size)} points ({counts})"
    return Gap(size, pair.p_value, 50 * (low + high), 50 * (high - low) / _REACH, POINT, words)


def of_counts(ours: Rate, theirs: Rate) -> Gap:
    """From accuracies on as many images, unpaired: Newcombe's interval and the pooled z-test of two shares."""
    size, low, high = points_apart(ours, theirs)
    pooled = (ours.count + theirs.count) / (ours.total + theirs.total)
    error = 100 * math.sqrt(pooled * (1 - pooled) * (1 / ours.total + 1 / theirs.total))
    p_value = 2 * NormalDist().cdf(-abs(size) / error) if error else 1.0
    words = f"{difference(size)} points (unpaired counts of {ours.total:,} images)"
    return Gap(size, p_value, (low + high) / 2, (high - low) / 2 / _REACH, POINT, words)


def of_distances(ours: Measured, theirs: Measured) -> Gap | None:
    """From mean distances and their errors; None if the attack left many images unbroken, which have no distance."""
    if any(math.isnan(each.value) or each.unbroken for each in (ours, theirs)):
        return None
    if ours.error is None or theirs.error is None or not theirs.value:
        return None
    size, error = 100 * (ours.value / theirs.value - 1), 100 * math.hypot(ours.error, theirs.error) / theirs.value
    p_value = 2 * NormalDist().cdf(-abs(size) / error) if error else float(size == 0)
    return Gap(size, p_value, size, error, FARTHER, f"{size:+.0f} % farther")


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P values of several tests by Holm's method: the chance of any false one stays that of a single test."""
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_value))
        corrected[name] = largest
    return corrected


def leads(results: Published, model: str, others: Sequence[str], stages: Sequence[str]) -> list[Lead]:
    """In each column for which the model and at least one of the others have a number."""
    return judge_columns(columns(results, model, others, stages))


def columns(
    results: Published, model: str, others: Sequence[str], stages: Sequence[str], kind: str = ""
) -> dict[str, dict[str, Gap | None]]:
    """For each column the gap to each other model, by their titles; None if it cannot be tested."""
    found: dict[str, dict[str, Gap | None]] = {}
    for stage in stages:
        ours = results.measured(model, stage)
        theirs = {other: each for other in others if (each := results.measured(other, stage)) is not None}
        if ours is not None and theirs:
            found[f"{TITLES[stage]}{kind}"] = {
                results.title(other): _gap(results, stage, (model, ours), (other, each))
                for other, each in theirs.items()
            }
    return found


def _gap(results: Published, stage: str, ours: tuple[str, Measured], theirs: tuple[str, Measured]) -> Gap | None:
    if ours[1].rate is None or theirs[1].rate is None:
        return of_distances(ours[1], theirs[1])
    pair = results.stage_pair(ours[0], theirs[0], stage)
    if pair is not None:
        return of_images(pair)
    counts = results.stage_rates(ours[0], theirs[0], stage) if stage in SPSA else None
    return None if counts is None else of_counts(*counts)


def judge_columns(found: Mapping[str, Mapping[str, Gap | None]]) -> list[Lead]:
    """Every column of one claim; all tests together have the error rate of one."""
    tested = {name: [gap for gap in gaps.values() if gap is not None] for name, gaps in found.items()}
    whole = {name: gaps for name, gaps in tested.items() if len(gaps) == len(found[name])}
    p_values = holm({name: max(gap.p_value for gap in gaps) for name, gaps in whole.items()})
    confidence = 1 - ALPHA / max(sum(map(len, found.values())), 1)
    judged = []
    for name, gaps in found.items():
        p_value = p_values.get(name)
        state: State = "open"
        if any(gap.interval(confidence)[1] < gap.least for gap in tested[name]):
            state = "no lead"
        elif p_value is None:
            state = "not tested"
        elif p_value < ALPHA and all(gap.size >= gap.least for gap in tested[name]):
            state = "ahead"
        closest = min(gaps, key=lambda other: math.inf if (gap := gaps[other]) is None else gap.size)
        judged.append(Lead(name, closest, gaps[closest], p_value, state))
    return judged


def state_of(found: Sequence[Lead]) -> State:
    """Of all columns: ahead in every one, a lead ruled out in any, or neither."""
    seen = {lead.state for lead in found}
    if seen == {"ahead"}:
        return "ahead"
    return "no lead" if "no lead" in seen else "not tested" if "not tested" in seen else "open"


def strong_pair(
    results: Published, first: str, second: str, suites: Sequence[str] = STRONG
) -> tuple[Summary, Summary] | None:
    """Two models on the same images under the first of the suites that saw both."""
    return next((pair for suite in suites if (pair := results.pair(first, second, suite)) is not None), None)


def all_broken(results: Published, models: Sequence[str]) -> bool:
    """Whether every strong suite that attacked these models broke every image, and each was attacked."""
    worst = [[found for suite in STRONG if (found := results.robust(model, suite)) is not None] for model in models]
    return all(each and all(found.rate is not None and found.rate.count == 0 for found in each) for each in worst)


def both_worst(results: Published, first: str, second: str, suite: str) -> list[Measured | None]:
    """The worst cases of two models: on the images on which they are paired, else on as many as each has."""
    pair = results.pair(first, second, suite)
    if pair is None:
        return [results.robust(name, suite) for name in (first, second)]
    return [worst_case([each]) for each in pair]


def _clean_pair(results: Published, first: str, second: str) -> tuple[Summary, Summary] | None:
    """Two models on as many of the same clean images as both saw."""
    seen = [[each for each in results.evaluations if each.name == model] for model in (first, second)]
    pairs = [(a, b) for a in seen[0] for b in seen[1] if a.data_fingerprint == b.data_fingerprint]
    return max(pairs, key=lambda pair: pair[0].samples, default=None)


def hm_beside_mmc(results: Published) -> Gap | None:
    """HM − MMC-10 on the same clean images."""
    pair = _clean_pair(results, HM, HM_BASE)
    return None if pair is None else of_images(pair_clean(*pair))


@dataclass(frozen=True)
class Crossed:
    """A mean difference in points over training seeds and images; its interval is for the sampling of both."""

    size: float
    error: float
    freedom: float
    seeds: int
    images: int

    def interval(self) -> tuple[float, float]:
        """Of 95 %."""
        reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom)) * self.error
        return self.size - reach, self.size + reach

    @property
    def enough(self) -> bool:
        """Whether it has the seeds that a verdict takes."""
        return self.seeds >= ENOUGH

    @property
    def sign(self) -> int:
        """1 if the interval is above zero, −1 if it is below, 0 if it includes zero."""
        low, high = self.interval()
        return int(low > 0) - int(high < 0)

    @property
    def text(self) -> str:
        """ "+0.9 points [−0.7, +2.5], 3 training seeds, 1,000 images"."""
        low, high = map(difference, self.interval())
        size = f"{difference(self.size)} points [{low}, {high}]"
        return f"{size}, {plural(self.seeds, 'training seed')}, {self.images:,} images"


def crossed(
    values: Sequence[Float[np.ndarray, " _"]], alike: Sequence[Sequence[Float[np.ndarray, " _"]]] = ()
) -> Crossed | None:
    """From one difference per image for each seed, on the first images, which all seeds saw; None without any.

    The variances of seeds and of images add up; what both share is subtracted once (two-way analysis of variance, with
    Satterthwaite's degrees of freedom). Half an image each way is added, as in ``of_images``. ``alike`` are other
    differences whose seeds vary as much: the variance is of them all, so a single seed has one too.
    """
    table = _percents(values)
    if not table.size:
        return None
    seeds, images = table.shape
    by_image = table.mean(axis=0)
    of_image = (np.square(by_image).sum() + 100**2 - by_image.sum() ** 2 / (images + 2)) / (images + 2) ** 2
    several = [each for each in (table, *map(_percents, alike)) if len(each) > 1 and each.size]
    if not several:
        return Crossed(float(table.mean()), math.sqrt(of_image), float(images - 1), seeds, images)
    noise = sum(map(_unexplained, several)) / sum((len(each) - 1) * (each.shape[1] - 1) for each in several)
    freedom = sum(len(each) - 1 for each in several)
    # Of a seed's mean over images: the noise in it depends on how many images there are.
    spread = sum((len(each) - 1) * (each.mean(axis=1).var(ddof=1) - noise / each.shape[1]) for each in several)
    of_seed = max(spread / freedom + noise / images, 0.0) / seeds
    variance = max(of_seed + of_image - noise / table.size, of_seed, of_image)
    satterthwaite = variance**2 / (of_seed**2 / freedom + of_image**2 / (images - 1))
    return Crossed(float(table.mean()), math.sqrt(variance), float(satterthwaite), seeds, images)


def _percents(values: Sequence[Float[np.ndarray, " _"]]) -> Float[np.ndarray, "seeds n"]:
    """One row per seed, on the images that all of them saw."""
    seen = min(map(len, values), default=0)
    return 100 * np.array([each[:seen] for each in values], dtype=float).reshape(len(values), seen)


def _unexplained(table: Float[np.ndarray, "seeds n"]) -> float:
    """The sum of squares that neither seeds nor images explain."""
    rest = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    return float(np.square(rest).sum())


Measure = Callable[[Published, str, str], "Float[np.ndarray, ' n'] | None"]
"""One model − another for each of the same images; None if not measured."""


def over_seeds(results: Published, first: str, second: str, measure: Measure) -> Crossed | None:
    """The first model − the second over every training seed that both have."""
    return crossed(seed_gaps(results, first, second, measure))


def seed_gaps(results: Published, first: str, second: str, measure: Measure) -> list[Float[np.ndarray, " n"]]:
    """The first model − the second, per image, for each training seed that both have; a draw of centers counts once."""
    found: dict[object, Float[np.ndarray, " n"]] = {}
    for name in results.seeds(second):
        gaps = measure(results, first + name.removeprefix(second), name)
        if gaps is not None:
            centers = results.settings(name).get("centers", {})
            draw = centers.get("seed", name) if centers.get("name") == "random" else name
            found.setdefault(draw, gaps)
    return list(found.values())


def clean_gaps(results: Published, first: str, second: str) -> Float[np.ndarray, " n"] | None:
    """On clean images."""
    pair = _clean_pair(results, first, second)
    return None if pair is None else pair[0].right.astype(float) - pair[1].right


def column_gaps(results: Published, first: str, second: str) -> Float[np.ndarray, " n"] | None:
    """The mean over every PGD column, of images that are correct before and after; None if a column is missing."""
    found = []
    for stage in (*PGD_8, *PGD_16):
        pairs = [pair for suite in PROTOCOL if (pair := results.pair(first, second, suite)) is not None]
        kept = [(pair[0].kept(stage), pair[1].kept(stage)) for pair in pairs]
        found += [ours.astype(float) - theirs for ours, theirs in kept if ours is not None and theirs is not None][:1]
    return np.mean(found, axis=0) if len(found) == len((*PGD_8, *PGD_16)) else None


def worst_gaps(
    results: Published, first: str, second: str, suites: Sequence[str] = STRONG
) -> Float[np.ndarray, " n"] | None:
    """In the worst case, under the first of the suites that saw both."""
    pair = strong_pair(results, first, second, suites)
    return None if pair is None else pair[0].stands.astype(float) - pair[1].stands


@dataclass(frozen=True)
class Budget:
    """One way of training − another at one budget, last checkpoints."""

    models: tuple[str, str]
    """Of the first seed: the other way, this way."""
    epochs: int
    suite: str
    robust: Crossed
    clean: Crossed | None


BUDGETS = {"targeted": ADVERSARIAL[:2], "untargeted": LONG, "untargeted, tuned": TUNED, "untargeted, short": SHORT}


def budgets(results: Published) -> dict[str, Budget]:
    """AT (MMC-10) − AT (SCE) on CIFAR-10 by name."""
    found = {name: at_budget(results, *models) for name, models in BUDGETS.items()}
    return {name: each for name, each in found.items() if each is not None}


def at_budget(results: Published, base: str, other: str) -> Budget | None:
    """The other − the base, under the suite that saw both at the most seeds, of these on the most images, of these
    AutoAttack; None if no suite saw both.
    """
    found = {suite: over_seeds(results, other, base, partial(worst_gaps, suites=(suite,))) for suite in STRONG}
    known = {suite: gap for suite, gap in found.items() if gap is not None}
    if not known:
        return None
    suite = max(known, key=lambda each: (known[each].seeds, known[each].images))
    first = results.seeds(base)[0]
    epochs = int(results.settings(first).get("train", {}).get("epochs", 0))
    models = (first, other + first.removeprefix(base))
    return Budget(models, epochs, suite, known[suite], over_seeds(results, other, base, clean_gaps))


def by_epsilon(results: Published, model: str, other: str) -> dict[float, Gap]:
    """One model − another in the worst case, by epsilon in 255ths, under the first strong suite that saw both."""
    found: dict[float, Gap] = {}
    for suite in STRONG:
        ours, theirs = (
            [each for each in results.evaluations if (each.name, each.suite) == (name, suite)]
            for name in (model, other)
        )
        for radius in {each.radius for each in ours}:
            pair = widest_pair([each for each in ours if each.radius == radius], theirs)
            if pair is not None:
                found.setdefault(round(255 * radius, 3), of_images(pair_up(*pair)))
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class LossPair:
    """Two losses with adversarial training on CIFAR-100, on the same images under one suite."""

    first: str
    second: str
    pair: Comparison
    p_value: float
    """By Holm's method over all pairs of losses."""
    interval: tuple[float, float]
    """In points; the intervals of all pairs hold together."""

    @property
    def text(self) -> str:
        """The difference with its interval and the test."""
        size = difference(100 * self.pair.difference, self.interval).replace(" [", " points [")
        return f"{size}, {paired_test(self.pair, self.p_value)}"


def loss_pairs(results: Published, suite: str = SUITE, end: str = "") -> list[LossPair]:
    """Every two losses that a suite saw on the same images, of the models whose names end alike."""
    names = [base + end for base in ADVERSARIAL_CIFAR100]
    return _corrected(results, [(first, second) for second, first in combinations(names, 2)], suite)


def other_rates(results: Published) -> list[LossPair]:
    """Losses at another learning rate than their trials chose, beside themselves, under AutoAttack."""
    names = sorted({each.name for each in results.evaluations if OTHER_RATE.search(each.name)})
    pairs = [(name, OTHER_RATE.sub("", name)) for name in names]
    known = [pair for pair in pairs if pair[1] in ADVERSARIAL_CIFAR100 and _differ_in_rate(results, *pair)]
    return _corrected(results, known, SUITE)


def _corrected(results: Published, names: Sequence[tuple[str, str]], suite: str) -> list[LossPair]:
    """Those that can be paired, with tests and intervals for all of them together."""
    pairs = {both: pair_up(*pair) for both in names if (pair := results.pair(*both, suite)) is not None}
    p_values = holm({" ".join(both): pair.p_value for both, pair in pairs.items()})
    confidence = 1 - ALPHA / max(len(pairs), 1)
    return [
        LossPair(*both, pair, p_values[" ".join(both)], of_images(pair).interval(confidence))
        for both, pair in pairs.items()
    ]


def _differ_in_rate(results: Published, name: str, other: str) -> bool:
    """Whether two trainings differ in the learning rate alone."""
    ours, theirs = ({**results.settings(each).get("train", {})} for each in (name, other))
    rates = ours.pop("lr", None), theirs.pop("lr", None)
    return ours == theirs and None not in rates and rates[0] != rates[1]


def checkpoint_ends(results: Published) -> list[str]:
    """How names of models to compare end: last and best checkpoints, other budgets, seeds and rates."""
    names = [each.name for each in results.evaluations]
    found = {name.removeprefix(base) for base in ADVERSARIAL_CIFAR100 for name in names if name.startswith(f"{base}-")}
    return ["", *sorted(found, key=lambda end: (end != BEST, end))]


TRANSFER_METHODS = ("PGD", "MIM")
"""How the paper's Figure 4 crafts the images that it shows to other models."""
TRANSFER_SOURCES = ADVERSARIAL[:2]
"""The models of Figure 4 that are neither SCE nor MMC-10."""
_FIGURE_4 = "paper-figure4"


@dataclass(frozen=True)
class Transfer:
    """Two models on images that were crafted on others by one method: mean accuracies in percent."""

    ours: float
    theirs: float
    gaps: dict[str, Gap | None]
    """By the models that the images were crafted on; both saw all of them, and neither is one of them."""


def transfers(results: Published, ours: str, theirs: str) -> dict[str, Transfer]:
    """By each method of crafting that both models met on the same images."""
    found: dict[str, Transfer] = {}
    for suite in (_FIGURE_4, *PROTOCOL):
        pair = results.pair(ours, theirs, suite)
        if pair is None:
            continue
        for method in TRANSFER_METHODS:
            first, second = (_by_source(each, method) for each in pair)
            common = tuple(source for source in first if source in second and source not in (ours, theirs))
            if common and method not in found:
                gaps = {source: _transfer_gap(pair, first[source], second[source]) for source in common}
                found[method] = Transfer(_mean(first, common), _mean(second, common), gaps)
    return found


def is_transfer(stage: StageSummary) -> bool:
    """Whether a stage shows every sample as another model's attack left it; added attacks see survivors only."""
    return stage.kind == "transfer" and stage.scope == "all" and bool(stage.source)


def crafting(stage: StageSummary) -> str:
    """How the images of a transfer were made, such as "PGD-10"."""
    return stage.title.removesuffix(f" crafted on {stage.source}")


def _by_source(summary: Summary, method: str) -> dict[str, StageSummary]:
    return {
        stage.source: stage
        for stage in summary.stages
        if is_transfer(stage) and stage.accuracy is not None and crafting(stage).startswith(method)
    }


def _transfer_gap(pair: tuple[Summary, Summary], ours: StageSummary, theirs: StageSummary) -> Gap | None:
    counts = pair_stage(*pair, ours.name) if ours.name == theirs.name else None
    return None if counts is None else of_images(counts)


def _mean(seen: dict[str, StageSummary], sources: tuple[str, ...]) -> float:
    rates = [seen[source].accuracy for source in sources]
    return sum(100 * rate.value for rate in rates if rate is not None) / len(rates)
