"""The paper's claims, judged: one rule per claim, from numbers alone.

The claims' texts are in ``claims.toml``; a rule hands its verdict and numbers to ``templates/claims.md.j2``.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Bool

from maxmahal.records.statistics import Comparison
from maxmahal.report.wording import p_value
from paper.pages import compare, training
from paper.pages.models import (
    ADVERSARIAL,
    ADVERSARIAL_CIFAR100,
    DATA,
    DISTANCES,
    LONG,
    OTHER_LOSSES,
    PGD_8,
    PGD_16,
    SPSA,
    SPSA_SIZES,
    TABLE_4,
    TITLES,
)
from paper.pages.paired import ALPHA, ENOUGH, POINT, Difference
from paper.pages.results import PROTOCOL, SPSA_SUITE, STRONG, Published
from paper.pages.text import markdown_table
from paper.summaries import RunSummary

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not measured"]
FAIR_CLEAN, FAIR_PGD = 76.0, 41.0
"""Percent that finished adversarial training reaches on this network, clean and under PGD-50 on true labels."""
NEAR = 5.0  # points: what still counts as reproducing a number of the paper, or as SPSA close to PGD
LITTLE, SOME = 1.05, 1.25  # times as long as SCE
_TRUSTED = {"held", "mended"}  # strict looked for false robustness, and no sign of it is unresolved
_PGD = (*PGD_8, *PGD_16)
_SCE, _MMC, _RANDOM = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
_STATES = {"ahead": "yes", "no lead": "ruled out", "open": "open", "not tested": "not tested"}


@dataclass(frozen=True)
class Judgement:
    """A verdict and the numbers it was made from."""

    verdict: Verdict
    facts: dict[str, object] = field(default_factory=dict)
    """What the claim's macro of the template prints."""
    missing: tuple[str, ...] = ()
    """What the rule asks for and was not measured."""
    tables: tuple[str, ...] = ()
    data: str = ""
    parts: tuple["Judgement", ...] = ()
    """One per data set, if both were measured."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words, and how it is judged."""

    key: str
    title: str
    where: str
    says: str
    rule: str
    change: str
    """What would change the verdict."""

    def judge(self, results: Published) -> Judgement:
        """By the rule of its name."""
        return RULES[self.key](results)


@dataclass(frozen=True)
class Benchmark:
    """A data set as a rule sees it."""

    data: str
    guessing: float
    """Percent that guessing gets right."""
    others: tuple[str, ...]
    """The models of the losses that MMC is compared with."""
    columns: tuple[str, ...]
    """The PGD attacks that the paper reports for all of them."""
    levels: tuple[float, ...]
    """Test errors in percent on a curve."""
    black_box: tuple[str, ...]
    """The SPSA attacks that the paper reports for all of them."""
    transfer: bool = False
    """Whether the paper shows transfer between models."""

    @property
    def sce(self) -> str:
        """The model trained with softmax cross-entropy."""
        return f"{self.data}-sce"

    @property
    def mmc(self) -> str:
        """The model trained with MMC-10."""
        return f"{self.data}-mmc"


CIFAR10 = Benchmark("cifar10", 10.0, OTHER_LOSSES, _PGD, (30.0, 20.0, 15.0, 10.0, 8.0), SPSA, True)
CIFAR100 = Benchmark("cifar100", 1.0, TABLE_4[:4], PGD_8[:2], (60.0, 50.0, 40.0, 35.0, 32.0), SPSA[:2])


def claims() -> list[Claim]:
    """In the order of the page."""
    text = (Path(__file__).parent / "claims.toml").read_text(encoding="utf-8")
    return [Claim(key, **words) for key, words in tomllib.loads(text).items()]


def on_both(results: Published, judge: Callable[[Published, Benchmark], Judgement]) -> Judgement:
    """One rule on both data sets: CIFAR-10 alone if CIFAR-100 was not measured.

    If the two differ, the claim holds in part if it does on one of them, and is undecided otherwise; CIFAR-100 alone
    never gives more than "holds in part".
    """
    ten, hundred = (replace(judge(results, each), data=DATA[each.data]) for each in (CIFAR10, CIFAR100))
    if hundred.verdict == "not measured":
        return replace(ten, data="")
    verdict: Verdict = ten.verdict
    if ten.verdict == "not measured":
        verdict = "holds in part" if hundred.verdict == "holds" else hundred.verdict
    elif ten.verdict != hundred.verdict:
        verdict = "holds in part" if {ten.verdict, hundred.verdict} & {"holds", "holds in part"} else "undecided"
    return Judgement(verdict, parts=(ten, hundred))


def settle(
    verdict: Verdict, facts: dict[str, object], missing: Sequence[str] = (), tables: Sequence[str] = ()
) -> Judgement:
    """The judgement; at best "holds in part" if something is missing."""
    verdict = "holds in part" if verdict == "holds" and missing else verdict
    return Judgement(verdict, facts, tuple(missing), tuple(tables))


def not_measured(*missing: str) -> Judgement:
    """Nothing to judge from."""
    return Judgement("not measured", missing=missing)


def lacking(
    results: Published,
    models: Sequence[str],
    stages: Sequence[str] = (),
    suites: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """Models without some of these attacks or suites, and pairs that cannot be compared in the worst case."""
    gaps = [(model, TITLES[stage]) for model in models for stage in stages if results.measured(model, stage) is None]
    gaps += [(model, suite) for model in models for suite in suites if results.robust(model, suite) is None]
    counts = Counter(model for model, _ in gaps)
    found = []
    for model, count in counts.items():
        whole = count == len(stages) + len(suites) > 1
        what = "every column" if whole else ", ".join(words for name, words in gaps if name == model)
        found.append(f"{results.title(model)} ({what})")
    for pair in pairs:
        if compare.worst_case_order(results, *pair) is None:
            found.append(f"the worst cases of {results.title(pair[0])} and {results.title(pair[1])} on the same images")
    return found


def leads_table(found: Sequence[compare.Lead]) -> str:
    """Each column with the closest other model."""
    body = [
        [
            lead.title,
            lead.closest,
            "not tested" if lead.gap is None else lead.gap.words,
            "–" if lead.p_value is None else p_value(lead.p_value),
            _STATES[lead.state],
        ]
        for lead in found
    ]
    return markdown_table(["column", "closest other", "difference", "p (Holm)", "lead"], body, 2)


def counted(found: Sequence[compare.Lead]) -> str:
    """ "3 of 8 columns (ruled out in 4, open in 1)"."""
    counts = Counter(lead.state for lead in found)
    rest = [f"{_STATES[state]} in {counts[state]}" for state in ("no lead", "open", "not tested") if counts[state]]
    return f"{counts['ahead']} of {len(found)} columns" + (f" ({', '.join(rest)})" if rest else "")


def below_paper(results: Published, models: Sequence[str], stages: Sequence[str]) -> list[str]:
    """Models more than five points below the paper's numbers, each with its columns."""
    found = []
    for model in models:
        gaps = [(stage, paper_gap(results, model, stage)) for stage in stages]
        if low := [TITLES[stage] for stage, gap in gaps if gap is not None and gap < -NEAR]:
            found.append(f"{results.title(model)} ({', '.join(low)})")
    return found


def paper_gap(results: Published, model: str, stage: str, table: str = "") -> float | None:
    """Ours − the paper's, in points; of a bound, only what is above it."""
    printed, ours = results.paper(model, stage, table), results.measured(model, stage)
    if not printed or ours is None or ours.rate is None:
        return None
    gap = ours.value - printed[0].value
    return max(gap, 0.0) if printed[0].bound else gap


# Adversarial training.


def judge_adversarial(results: Published) -> Judgement:
    """AT (MMC-10) beside AT (SCE) at two budgets; CIFAR-100 is reported and decides nothing."""
    fair, own = (baseline(results, model) for model in LONG)
    found = compare.budgets(results)
    pair = next(
        (each for each in compare.loss_pairs(results) if {each.first, each.second} <= {*ADVERSARIAL_CIFAR100[:2]}),
        None,
    )
    clean = [results.clean(name) for name in (ADVERSARIAL_CIFAR100[1], ADVERSARIAL_CIFAR100[0])]
    clean_gap = None if clean[0] is None or clean[1] is None else clean[0].value - clean[1].value
    facts: dict[str, object] = {"baseline": fair, "own": own, "budgets": found, "asked": (FAIR_CLEAN, FAIR_PGD)}
    facts |= {"hundred": pair, "hundred_clean": clean_gap, "enough": ENOUGH}
    facts["undertrained"] = own is None or not own.is_fair
    facts["epochs"] = min((len(run.epochs) for model in LONG if (run := results.run(model))), default=0)
    if fair is None or not fair.is_fair:
        why = f"a fair AT (SCE): clean at least {FAIR_CLEAN:g} %, PGD-50 on true labels at least {FAIR_PGD:g} %"
        return Judgement("not measured", {} if fair is None else facts, (why,))
    if found.long is None:
        return not_measured("AutoAttack on both models of the long budget, on the same images")
    ends = [
        compare.of_images(found.long).interval(),
        found.short.interval if found.short.n >= ENOUGH else (-math.inf, math.inf),
    ]
    costs = len(found.clean) < len(ends) or min(found.clean.values()) < -POINT
    orders = {"ahead" if low > 0 else "behind" if high < 0 else "tied" for low, high in ends}
    verdict: Verdict = "undecided"
    if "behind" in orders or ("ahead" not in orders and max(high for _, high in ends) < POINT):
        verdict = "undecided" if facts["undertrained"] else "does not hold"
    elif "ahead" in orders:
        verdict = "holds" if orders == {"ahead"} and not costs else "holds in part"
    missing = [] if found.short.n >= ENOUGH else [f"AutoAttack on {ENOUGH} pairs of training seeds at the short budget"]
    return settle(verdict, facts, missing)


@dataclass(frozen=True)
class Reached:
    """Clean accuracy, and that under PGD-50 on true labels, in percent."""

    clean: float
    pgd: float

    @property
    def shortfall(self) -> float:
        """Points below what is asked of a baseline."""
        return max(FAIR_CLEAN - self.clean, 0.0) + max(FAIR_PGD - self.pgd, 0.0)

    @property
    def is_fair(self) -> bool:
        """Whether nothing is missing, or less than a point that the other number makes up for."""
        if not self.shortfall:
            return True
        return self.shortfall < POINT and self.clean - FAIR_CLEAN + self.pgd - FAIR_PGD > 0


def baseline(results: Published, model: str) -> Reached | None:
    """How well one of the long adversarial trainings was done."""
    clean, pgd = results.clean(model), results.kept(model, "pgd50-un-8")
    return None if clean is None or pgd is None else Reached(clean.value, 100 * pgd.value)


def judge_beyond(results: Published) -> Judgement:
    """AT (MMC-10) beside AT (SCE) at twice the epsilon."""
    kinds = {"tar": ADVERSARIAL[:2], "un": ADVERSARIAL[2:]}
    pairs = [compare.columns(results, mmc, (sce,), PGD_16, f", AT {kind}") for kind, (sce, mmc) in kinds.items()]
    found = compare.judge_columns({title: gaps for pair in pairs for title, gaps in pair.items()})
    if not found:
        return not_measured("PGD at 16/256 on AT (SCE) and AT (MMC-10)")
    verdict = over_kinds([[lead for lead in found if lead.title in pair] for pair in pairs])
    own = baseline(results, LONG[1])
    undertrained = verdict == "does not hold" and (own is None or not own.is_fair)
    facts: dict[str, object] = {"leads": counted(found), "undertrained": undertrained}
    missing = lacking(results, ADVERSARIAL, PGD_16)
    return settle("undecided" if undertrained else verdict, facts, missing, [leads_table(found)])


def over_kinds(kinds: Sequence[Sequence[compare.Lead]]) -> Verdict:
    """Of several kinds of attack or training: ahead in all columns of each, of one, ruled out in each, or neither."""
    states = [compare.state_of(found) for found in kinds if found]
    if "ahead" in states:
        return "holds" if set(states) == {"ahead"} else "holds in part"
    return "does not hold" if set(states) == {"no lead"} else "undecided"


def judge_rotation(results: Published) -> Judgement:
    """Rotated images: MMC beside SCE, and adversarial training below both."""
    sce, mmc = (results.measured(model, "rotation") for model in (_SCE, _MMC))
    trained = [each.value for model in ADVERSARIAL if (each := results.measured(model, "rotation")) is not None]
    if sce is None or mmc is None or not trained:
        return not_measured("rotations of SCE, MMC-10 and a model with adversarial training")
    checks = [mmc.value >= sce.value - POINT, max(trained) < mmc.value - POINT]
    facts: dict[str, object] = {"mmc_minus_sce": mmc.value - sce.value, "at_minus_mmc": max(trained) - mmc.value}
    verdict: Verdict = "holds" if all(checks) else "holds in part" if any(checks) else "does not hold"
    return settle(verdict, facts, lacking(results, ADVERSARIAL, ("rotation",)))


# Without adversarial training.


def judge_reliable(results: Published, benchmark: Benchmark) -> Judgement:
    """The worst case of MMC beside the paper's lowest number."""
    worst = results.strongest(benchmark.mmc)
    printed = [number.value for stage in PGD_8 for number in results.paper(benchmark.mmc, stage)]
    if worst is None or worst.rate is None or not printed:
        return not_measured("strict or AutoAttack on MMC-10" if printed else "a number of the paper at this epsilon")
    low = 100 * worst.rate.interval[0]
    trusts = {found.trust for suite in STRONG if (found := results.find(benchmark.mmc, suite)) is not None}
    # AutoAttack has no diagnostics, so strict answers for both.
    trusted = bool(trusts & _TRUSTED) and trusts <= {*_TRUSTED, "unchecked"}
    verdict: Verdict = "does not hold"
    if low > benchmark.guessing:
        verdict = "holds" if trusted and low >= min(printed) - NEAR else "holds in part"
    facts: dict[str, object] = {"worst": worst.full, "printed": min(printed), "trusted": trusted}
    return settle(verdict, facts, lacking(results, (benchmark.mmc,), suites=STRONG))


def judge_clean(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside SCE on clean images: over seeds if there are enough, else over images."""
    pairs = compare.clean_pairs(results, benchmark.mmc, benchmark.sce)
    if not pairs:
        return not_measured("SCE and MMC-10 on the same clean images")
    over = Difference(tuple(100 * pair.difference for pair in pairs))
    many = over.n >= ENOUGH
    low, high = interval = over.interval if many else compare.of_images(pairs[0]).interval()
    verdict: Verdict = "holds in part" if low >= -2 * POINT else "undecided"
    if low >= -POINT:
        verdict = "holds"
    elif high < -POINT:
        verdict = "does not hold"
    size = over.mean if many else 100 * pairs[0].difference
    facts: dict[str, object] = {"size": size, "interval": interval, "seeds": over.n if many else 1, "pair": pairs[0]}
    return settle(verdict, facts)


def judge_cost(results: Published) -> Judgement:
    """An epoch of MMC beside one of SCE, if each had its GPU alone; else training steps that a benchmark timed."""
    sce, mmc = results.run(_SCE), results.run(_MMC)
    runs = [run for run in (sce, mmc) if run is not None and training.is_finished(run)]
    why = training.why_not_timed(runs) if len(runs) == 2 else "SCE and MMC-10 were not both trained to the end"
    if not why:
        ratio = training.epoch_seconds(runs[1]) / training.epoch_seconds(runs[0])
        return settle(_by_ratio(ratio), {"ratio": ratio, "steps": None, "why": ""})
    if not results.steps:
        return not_measured(f"times of trainings that can be compared ({why})")
    batches = {training.batch_of(run) for run in (sce, mmc) if run is not None}
    batch = batches.pop() if len(batches) == 1 else 0
    steps = max(results.steps, key=lambda row: (row["batch_size"] == batch, row["batch_size"]))
    ratio = steps["mmc_over_sce"]
    return settle(_by_ratio(ratio), {"ratio": ratio, "steps": steps, "why": why})


def _by_ratio(ratio: float) -> Verdict:
    return "holds" if ratio <= LITTLE else "holds in part" if ratio <= SOME else "does not hold"


def judge_convergence(results: Published, benchmark: Benchmark) -> Judgement:
    """Which of MMC and SCE reaches levels of the test error first, in epochs."""
    sce, mmc = results.run(benchmark.sce), results.run(benchmark.mmc)
    if sce is None or mmc is None or not training.is_finished(sce) or not training.is_finished(mmc):
        return not_measured("finished trainings of SCE and MMC-10")
    runs = (sce, mmc)
    if not all(map(training.tested, runs)) or _schedule(sce) != _schedule(mmc):
        return not_measured("test errors of SCE and MMC-10 over the same epochs with one batch size")
    places = {
        level: place
        for level in benchmark.levels
        if (place := _first(training.first_epoch(mmc, level), training.first_epoch(sce, level))) is not None
    }
    if not places:
        return not_measured(f"a test error below {max(benchmark.levels):g} % of SCE or MMC-10")
    seen = set(places.values())
    verdict: Verdict = "does not hold"
    if "first" in seen:
        verdict = "holds" if seen == {"first"} else "undecided" if "behind" in seen else "holds in part"
    body = [
        [f"{level:g} %", *(training.reached_text(run, level, timed=not training.why_not_timed(runs)) for run in runs)]
        for level in benchmark.levels
    ]
    rates = [f"{training.learning_rate(run):g}" for run in runs]
    facts: dict[str, object] = {
        "levels": {word: [f"{level:g} %" for level, place in places.items() if place == word] for word in _PLACES},
        "ends": [f"{100 * (1 - training.tested(run)[-1]['test_accuracy']):.2f} %" for run in runs],
        "rates": rates if len({*rates}) > 1 else [],
    }
    return settle(verdict, facts, (), [markdown_table(["test error first at or below", "SCE", "MMC-10"], body)])


_PLACES = ("first", "tied", "behind")


def _first(ours: int | None, theirs: int | None) -> str | None:
    """Who reaches a level first; None if neither does."""
    if ours is None or theirs is None:
        return "first" if ours is not None else "behind" if theirs is not None else None
    return "tied" if abs(ours - theirs) <= training.AROUND else "first" if ours < theirs else "behind"


def _schedule(run: RunSummary) -> tuple[object, ...]:
    return (len(run.epochs), training.train_setting(run, "epochs"), training.train_setting(run, "batch_size"))


def judge_white_box(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside the other losses under the paper's PGD and in the worst case."""
    judged = _lead_and_worst(results, benchmark.mmc, benchmark.others, benchmark.columns)
    weak = below_paper(results, benchmark.others, benchmark.columns)
    verdict: Verdict = "holds in part" if judged.verdict == "holds" and weak else judged.verdict
    return replace(judged, verdict=verdict, facts=judged.facts | {"weak": weak}) if judged.facts else judged


def judge_capacity(results: Published, benchmark: Benchmark) -> Judgement:
    """The deep MMC beside the shallow one, and whether SCE gains as well."""
    deep_mmc, deep_sce = f"{benchmark.mmc}-resnet110", f"{benchmark.sce}-resnet110"
    judged = _lead_and_worst(results, deep_mmc, (benchmark.mmc,), _PGD)
    if not judged.facts:
        return judged
    others = compare.leads(results, deep_sce, (benchmark.sce,), _PGD)
    gained = [lead for lead in others if lead.state != "no lead"]
    printed = [(results.paper(deep_mmc, stage), results.paper(benchmark.mmc, stage)) for stage in _PGD]
    ahead = [ours[0].value > theirs[0].value for ours, theirs in printed if ours and theirs]
    verdict: Verdict = "holds in part" if judged.verdict == "holds" and gained else judged.verdict
    facts = judged.facts | {"gained": len(gained), "sce": len(others), "printed": (sum(ahead), len(ahead))}
    missing = (*judged.missing, *lacking(results, (benchmark.sce, deep_sce), _PGD))
    return settle(verdict, facts, missing, judged.tables)


def _lead_and_worst(results: Published, model: str, others: Sequence[str], stages: Sequence[str]) -> Judgement:
    found = compare.leads(results, model, others, stages)
    if not found:
        return not_measured(f"PGD on {results.title(model)} and a model to compare it with")
    seen = {other: place for other in others if (place := compare.worst_case_order(results, model, other)) is not None}
    places = set(seen.values())
    worst = "behind" if "behind" in places else "tied" if "tied" in places else "ahead" if places else ""
    state = compare.state_of(found)
    verdict: Verdict = "does not hold" if state == "no lead" else "undecided"
    if state == "ahead":
        verdict = "holds" if worst == "ahead" else "holds in part"
    facts: dict[str, object] = {
        "model": results.title(model),
        "leads": counted(found),
        "compared": [results.title(other) for other in seen],
        "worst": worst,
        "all_broken": bool(seen) and compare.all_broken(results, (*seen, model)),
    }
    missing = lacking(results, (*others, model), stages, pairs=[(model, other) for other in others])
    return settle(verdict, facts, missing, [leads_table(found)])


def judge_centers(results: Published) -> Judgement:
    """Optimal beside random centers over training seeds, each with a draw of its own; CIFAR-100 decides nothing."""
    found = compare.leads(results, _MMC, (_RANDOM,), _PGD)
    if not found:
        return not_measured("PGD on MMC-10 and on MMC-10 with random centers")
    attacked = compare.over_seeds(results, _MMC, _RANDOM, compare.mean_of_columns)
    worst = compare.over_seeds(results, _MMC, _RANDOM, compare.worst_difference)
    missing = lacking(results, (_RANDOM, _MMC), _PGD)
    for gap, where in ((attacked, "under the paper's attacks"), (worst, "in the worst case")):
        missing += [] if gap.n >= ENOUGH else [f"{ENOUGH} training seeds of both {where} ({gap.n} measured)"]
    verdict: Verdict = "undecided"
    if attacked.n >= ENOUGH and attacked.interval[1] < POINT:
        verdict = "does not hold"
    elif attacked.verdict() == "helps":
        verdict = "holds" if worst.verdict() == "helps" else "holds in part"
    hundred = compare.leads(results, CIFAR100.mmc, (f"{CIFAR100.mmc}-rand",), CIFAR100.columns)
    facts: dict[str, object] = {"attacked": attacked, "worst": worst, "columns": len(_PGD), "enough": ENOUGH}
    facts["hundred"] = [lead for lead in hundred if lead.gap is not None and lead.p_value is not None]
    return settle(verdict, facts, missing, [leads_table(found)])


def judge_threats(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside the other losses under C&W, SPSA and transfer."""
    models, stages = (*benchmark.others, benchmark.mmc), (*DISTANCES, *benchmark.black_box)
    moved = compare.transfers(results, benchmark.mmc, benchmark.sce)
    kinds = [
        compare.columns(results, benchmark.mmc, benchmark.others, each) for each in (DISTANCES, benchmark.black_box)
    ]
    kinds.append(
        {
            f"transfer by {method} from {results.title(source)}": {results.title(benchmark.sce): gap}
            for method, each in moved.items()
            for source, gap in each.gaps.items()
        }
    )
    found = compare.judge_columns({title: gaps for kind in kinds for title, gaps in kind.items()})
    if not found:
        return not_measured("C&W, SPSA or transfer on MMC-10 and another loss")
    unbroken = [
        f"{TITLES[stage]} of {results.title(model)} ({each.unbroken})"
        for stage in DISTANCES
        for model in models
        if (each := results.measured(model, stage)) is not None and each.unbroken
    ]
    missing = lacking(results, models, stages)
    for method in compare.TRANSFER_METHODS if benchmark.transfer else ():
        seen = moved[method].gaps if method in moved else {}
        missing += [
            f"transfer by {method} from {results.title(each)}" for each in compare.TRANSFER_SOURCES if each not in seen
        ]
    facts: dict[str, object] = {"leads": counted(found), "unbroken": unbroken, "transfers": moved}
    facts["weak"] = below_paper(results, benchmark.others, benchmark.black_box)
    verdict = over_kinds([[lead for lead in found if lead.title in kind] for kind in kinds])
    return settle(verdict, facts, missing, [leads_table(found)])


# SPSA with larger batches.

MODES = ("un", "tar")
LEVEL = ALPHA / len(MODES)  # of the test of one mode


@dataclass(frozen=True, eq=False)
class Approach:
    """Which of the same images are correct under SPSA's smallest and largest batch and under PGD-10."""

    first: Bool[np.ndarray, " n"]
    last: Bool[np.ndarray, " n"]
    pgd: Bool[np.ndarray, " n"]

    @property
    def fall(self) -> Literal["falls", "open", "no fall"]:
        """From the smallest batch to the largest."""
        gap = compare.of_images(_pair(self.first, self.last))
        if gap.interval(1 - LEVEL)[1] < POINT:
            return "no fall"
        return "falls" if gap.p_value < LEVEL and gap.size >= POINT else "open"

    @property
    def end(self) -> Literal["near", "not below", "below", "perhaps below", "open"]:
        """The largest batch beside PGD-10."""
        gap = compare.of_images(self.beside_pgd)
        low, high = self.interval
        if low >= -NEAR:
            return "near" if high <= NEAR else "not below"
        if gap.size >= -NEAR:
            return "open"
        return "below" if gap.p_value < LEVEL else "perhaps below"

    @property
    def beside_pgd(self) -> Comparison:
        """The largest batch and PGD-10 on the same images."""
        return _pair(self.last, self.pgd)

    @property
    def interval(self) -> tuple[float, float]:
        """Of that difference in points, for both modes together."""
        return compare.of_images(self.beside_pgd).interval(1 - LEVEL)


def judge_spsa(results: Published) -> Judgement:
    """SPSA with larger batches beside PGD-10 on the same images."""
    sizes = results.find(_MMC, SPSA_SUITE)

    def right(stage: str, suites: Sequence[str] = PROTOCOL) -> Bool[np.ndarray, " n"] | None:
        return None if sizes is None else results.right_after(sizes, stage, suites)

    seen: dict[str, Approach] = {}
    for mode in MODES:
        first, last = (right(f"spsa-{mode}-8{SPSA_SIZES[size]}", (SPSA_SUITE,)) for size in ("128", "8192"))
        pgd = right(f"pgd10-{mode}-8")
        if first is not None and last is not None and pgd is not None:
            seen[mode] = Approach(first, last, pgd)
    if not seen:
        return not_measured("SPSA with batches of 128 and 8192 and PGD-10 on the same images of MMC-10")
    missing = [
        f"SPSA {mode}, batch {size}"
        for mode in MODES
        for size, end in SPSA_SIZES.items()
        if not results.measured(_MMC, f"spsa-{mode}-8{end}", (SPSA_SUITE,))
    ]
    missing += [f"SPSA {mode} and PGD-10 {mode} on the same images" for mode in MODES if mode not in seen]
    pgd50 = {mode: 100 * found.mean() for mode in seen if (found := right(f"pgd50-{mode}-8")) is not None}
    return settle(_spsa_verdict(seen), {"modes": seen, "pgd50": pgd50}, missing)


def _spsa_verdict(seen: Mapping[str, Approach]) -> Verdict:
    if any(each.fall == "no fall" or each.end == "below" for each in seen.values()):
        return "does not hold"
    if any(each.fall == "open" or each.end in ("open", "perhaps below") for each in seen.values()):
        return "undecided"
    return "holds" if all(each.end == "near" for each in seen.values()) else "holds in part"


def _pair(ours: Bool[np.ndarray, " n"], theirs: Bool[np.ndarray, " n"]) -> Comparison:
    return Comparison(int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), len(ours))


RULES: dict[str, Callable[[Published], Judgement]] = {
    "at": judge_adversarial,
    "reliable": lambda results: on_both(results, judge_reliable),
    "clean": lambda results: on_both(results, judge_clean),
    "cost": judge_cost,
    "convergence": lambda results: on_both(results, judge_convergence),
    "white-box": lambda results: on_both(results, judge_white_box),
    "centers": judge_centers,
    "threats": lambda results: on_both(results, judge_threats),
    "spsa": judge_spsa,
    "capacity": lambda results: on_both(results, judge_capacity),
    "beyond": judge_beyond,
    "rotation": judge_rotation,
}
