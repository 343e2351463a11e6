"""The paper's claims, judged twice each: under the paper's attacks and under strong ones, from numbers alone.

The claims' texts are in ``claims.toml``; a rule hands its verdicts and numbers to ``templates/claims.md.j2``.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool

from maxmahal.records.statistics import Comparison
from maxmahal.report.wording import p_value
from paper.pages import compare, training
from paper.pages.models import (
    ADVERSARIAL,
    ADVERSARIAL_CIFAR100,
    ANCHORS,
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
from paper.pages.paired import ALPHA, ENOUGH, POINT
from paper.pages.results import PROTOCOL, SPSA_SUITE, STRONG, Published
from paper.pages.text import listed, markdown_table, plural
from paper.summaries import RunSummary

Verdict = Literal["yes", "in part", "no", "undecided", "not measured", "no attack"]
"""No attack: the claim is about none, so strong attacks change nothing."""
Verdicts = tuple[Verdict, Verdict]
"""Reproduced under the paper's attacks; true under strong attacks."""
NEAR = 5.0  # points: what still counts as reproducing a number of the paper, or as SPSA close to PGD
LITTLE, SOME = 1.05, 1.25  # times as long as SCE
_TRUSTED = {"held", "mended"}  # strict looked for false robustness, and no sign of it is unresolved
_PGD = (*PGD_8, *PGD_16)
_SCE, _MMC, _RANDOM = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
_USUAL, _TWICE = 8.0, 16.0  # epsilons in 255ths
_LEVELS = range(95, 0, -5)  # test errors in percent
_SETTINGS = {"lr": "learning rate", "batch_size": "batch", "weight_decay": "weight decay", "epochs": "epochs"}
_STATES = {"ahead": "yes", "no lead": "ruled out", "open": "open", "not tested": "not tested"}


@dataclass(frozen=True)
class Judgement:
    """Two verdicts and the numbers they were made from."""

    reproduced: Verdict
    """Under the paper's attacks."""
    strong: Verdict
    """Under strong attacks."""
    facts: dict[str, object] = field(default_factory=dict)
    """What the claim's macro of the template prints."""
    missing: tuple[str, ...] = ()
    """What the rules ask for and was not measured."""
    tables: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    """Those that were compared."""
    recipe: str = ""
    """How many seeds these have, and how their trainings differ."""
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
    reproduced: str
    """The rule under the paper's attacks."""
    strong: str
    """The rule under strong attacks."""
    change: str
    """What would change the verdicts."""
    gap: str = ""
    """What to run next, if a verdict is open."""
    minutes: int = 0
    """About how long that takes on one GPU."""

    def judge(self, results: Published) -> Judgement:
        """By the rule of its name."""
        found = RULES[self.key](results)
        parts = tuple(replace(part, recipe=recipe(results, part.models)) for part in found.parts)
        return replace(found, recipe=recipe(results, found.models), parts=parts)


def recipe(results: Published, models: Sequence[str]) -> str:
    """How many training seeds some models have, and which of their settings differ; empty without settings."""
    trained = {model: train for model in models if (train := results.settings(model).get("train"))}
    if len(trained) < 2:
        return ""
    seeds = min(max(len(results.seeds(model)), 1) for model in trained)
    unlike = []
    for key, words in _SETTINGS.items():
        values: dict[object, list[str]] = {}
        for model, train in trained.items():
            values.setdefault(train.get(key, "unknown"), []).append(results.title(model))
        if len(values) > 1:
            unlike.append(f"{words} {', '.join(f'{value} ({listed(names)})' for value, names in values.items())}")
    return (
        f"{plural(seeds, 'training seed')} each; {'not equal: ' + '; '.join(unlike) if unlike else 'equal settings'}."
    )


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


CIFAR10 = Benchmark("cifar10", 10.0, OTHER_LOSSES, _PGD, SPSA, True)
CIFAR100 = Benchmark("cifar100", 1.0, TABLE_4[:4], PGD_8[:2], SPSA[:2])


def claims() -> list[Claim]:
    """In the order of the page."""
    text = (Path(__file__).parent / "claims.toml").read_text(encoding="utf-8")
    return [Claim(key, **words) for key, words in tomllib.loads(text).items()]


def on_both(results: Published, judge: Callable[[Published, Benchmark], Judgement]) -> Judgement:
    """One rule on both data sets: CIFAR-10 alone if CIFAR-100 was not measured."""
    ten, hundred = (replace(judge(results, each), data=DATA[each.data]) for each in (CIFAR10, CIFAR100))
    if {hundred.reproduced, hundred.strong} <= {"not measured", "no attack"}:
        return replace(ten, data="")
    verdicts = (joined(ten.reproduced, hundred.reproduced), joined(ten.strong, hundred.strong))
    return Judgement(*verdicts, parts=(ten, hundred))


def joined(ten: Verdict, hundred: Verdict) -> Verdict:
    """If two data sets differ, in part if it is at least that on one of them, and undecided otherwise.

    CIFAR-100 alone never gives more than "in part".
    """
    if hundred in (ten, "not measured"):
        return ten
    if ten == "not measured":
        return "in part" if hundred == "yes" else hundred
    return "in part" if {ten, hundred} & {"yes", "in part"} else "undecided"


def settle(
    verdicts: Verdicts,
    facts: dict[str, object],
    missing: tuple[Sequence[str], Sequence[str]] = ((), ()),
    tables: Sequence[str] = (),
    models: Sequence[str] = (),
) -> Judgement:
    """The judgement; at best "in part" where something is missing."""
    first, second = (
        "in part" if each == "yes" and gaps else each for each, gaps in zip(verdicts, missing, strict=True)
    )
    gaps = tuple(dict.fromkeys((*missing[0], *missing[1])))
    return Judgement(first, second, facts, gaps, tuple(tables), tuple(models))


def not_measured(*missing: str, strong: Verdict = "not measured") -> Judgement:
    """Nothing to judge from."""
    return Judgement("not measured", strong, missing=missing)


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
        if compare.strong_pair(results, *pair) is None and not compare.all_broken(results, pair):
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
    """AT (MMC-10) beside AT (SCE) at several budgets; CIFAR-100 is reported and decides nothing."""
    found, by_kind = _both_kinds(results, PGD_8)
    known = compare.budgets(results)
    if not found and not known:
        return not_measured("PGD, strict or AutoAttack on AT (SCE) and AT (MMC-10), on the same images")
    pair = next(
        (each for each in compare.loss_pairs(results) if {each.first, each.second} <= {*ADVERSARIAL_CIFAR100[:2]}), None
    )
    unfair = {name: unfair_models(results, each.models) for name, each in known.items()}
    fair = [each for name, each in known.items() if not unfair[name]]
    facts: dict[str, object] = {"leads": counted(found), "budgets": known, "unfair": unfair, "hundred": pair}
    facts["hundred_clean"] = compare.over_seeds(results, *ADVERSARIAL_CIFAR100[1::-1], compare.clean_gaps)
    facts |= {"anchors": ANCHORS, "printed": printed_leads(results, [ADVERSARIAL[:2], LONG], PGD_8)}
    cleans = [compare.over_seeds(results, mmc, sce, compare.clean_gaps) for sce, mmc in (ADVERSARIAL[:2], LONG)]
    reproduced: Verdict = by_kind if found else "not measured"
    if reproduced == "no" and unfair_models(results, LONG):
        reproduced = "undecided"
    if reproduced == "yes" and any(each is None or each.interval()[0] < -POINT for each in cleans):
        reproduced = "in part"
    missing = (
        lacking(results, ADVERSARIAL, PGD_8),
        []
        if any(each.robust.enough for each in fair)
        else [f"{ENOUGH} training seeds of both losses at a fair budget"],
    )
    models = [model for name, each in known.items() for model in each.models if "short" not in name] or ADVERSARIAL
    return settle((reproduced, _by_budgets(known, fair)), facts, missing, [leads_table(found)] if found else [], models)


def _by_budgets(known: Mapping[str, compare.Budget], fair: Sequence[compare.Budget]) -> Verdict:
    """From the intervals of the fair budgets alone."""
    if not fair:
        return "undecided" if known else "not measured"
    if any(each.robust.interval()[1] < 0 for each in fair):
        return "no"
    verdict = by_gaps([each.robust for each in fair])
    costs = any(each.clean is None or each.clean.interval()[0] < -POINT for each in fair)
    return "in part" if verdict == "yes" and costs else verdict


def unfair_models(results: Published, models: Sequence[str]) -> list[str]:
    """Why two adversarial trainings are no fair comparison; empty if they are one.

    Each has to reach the public row of its network, clean and under AutoAttack, within its interval, and its learning
    rate must not be at the edge of those that were tried.
    """
    found = []
    for model in models:
        network = results.settings(model).get("model", {}).get("backbone", "resnet32")
        anchor = next((each for each in ANCHORS if each.network == network), ANCHORS[0])
        asked = {"clean": (results.clean(model), anchor.clean)}
        asked["AutoAttack"] = (results.robust(model, compare.SUITE), anchor.autoattack)
        title = results.title(model)
        for what, (ours, least) in asked.items():
            if ours is None or ours.rate is None:
                found.append(f"{title} has no {what}")
            elif 100 * ours.rate.interval[1] < least:
                found.append(f"{title} has {what} {ours.full}, below {least:.2f} %")
        if edge := training.rate_edge(results, model):
            found.append(f"the learning rate of {title} is the {edge} tried")
    return found


def _both_kinds(results: Published, stages: Sequence[str]) -> tuple[list[compare.Lead], Verdict]:
    """AT (MMC-10) beside AT (SCE), trained with targeted and with untargeted attacks."""
    kinds = {"tar": ADVERSARIAL[:2], "un": ADVERSARIAL[2:]}
    pairs = [compare.columns(results, mmc, (sce,), stages, f", AT {kind}") for kind, (sce, mmc) in kinds.items()]
    found = compare.judge_columns({title: gaps for pair in pairs for title, gaps in pair.items()})
    return found, over_kinds([[lead for lead in found if lead.title in pair] for pair in pairs])


def printed_leads(results: Published, pairs: Sequence[tuple[str, ...]], stages: Sequence[str]) -> tuple[int, int]:
    """In how many columns the paper's numbers of the second models are above those of the first, and of how many."""
    both = [(results.paper(mmc, stage), results.paper(sce, stage)) for sce, mmc in pairs for stage in stages]
    ahead = [ours[0].value > theirs[0].value for ours, theirs in both if ours and theirs]
    return sum(ahead), len(ahead)


def judge_beyond(results: Published) -> Judgement:
    """AT (MMC-10) beside AT (SCE) at twice the epsilon."""
    found, reproduced = _both_kinds(results, PGD_16)
    if not found:
        return not_measured("PGD at 16/256 on AT (SCE) and AT (MMC-10)")
    unfair = unfair_models(results, LONG)
    if unfair and reproduced == "no":
        reproduced = "undecided"
    twice = {
        kind: gap
        for kind, (sce, mmc) in {"AT tar": ADVERSARIAL[:2], "AT un": LONG}.items()
        if (gap := compare.by_epsilon(results, mmc, sce).get(_TWICE)) is not None
    }
    strong = by_gaps(list(twice.values()))
    if unfair and strong in ("yes", "no"):
        strong = "in part" if strong == "yes" else "undecided"
    twice_missing = ["strict or AutoAttack at 16/255"] if len(twice) < 2 else []
    missing = lacking(results, ADVERSARIAL, PGD_16), [*twice_missing, *lacking(results, LONG, suites=(compare.SUITE,))]
    facts: dict[str, object] = {"leads": counted(found), "twice": twice, "unfair": unfair}
    return settle((reproduced, strong), facts, missing, [leads_table(found)], ADVERSARIAL)


def over_kinds(kinds: Sequence[Sequence[compare.Lead]]) -> Verdict:
    """Of several kinds of attack or training: ahead in all columns of each, of one, ruled out in each, or neither."""
    states = [compare.state_of(found) for found in kinds if found]
    if "ahead" in states:
        return "yes" if set(states) == {"ahead"} else "in part"
    return "no" if set(states) == {"no lead"} else "undecided"


def judge_rotation(results: Published) -> Judgement:
    """Rotated images: MMC beside SCE, and adversarial training below both; at a random angle and at the worst one."""
    once = _rotated(results, "rotation", PROTOCOL)
    if once is None:
        return not_measured("rotations of SCE, MMC-10 and a model with adversarial training")
    worst = _rotated(results, "rotation-61", ("rotation",))
    facts: dict[str, object] = {"once": once, "worst": worst}
    models = (_SCE, _MMC, *ADVERSARIAL)
    unturned = [results.title(each) for each in models if not results.measured(each, "rotation-61", ("rotation",))]
    missing = (
        lacking(results, ADVERSARIAL, ("rotation",)),
        [f"{results.title(each)} (worst angle)" for each in unturned],
    )
    return settle((once["verdict"], worst["verdict"] if worst else "not measured"), facts, missing, models=models)


def _rotated(results: Published, stage: str, suites: Sequence[str]) -> dict[str, Any] | None:
    """The verdict by one kind of rotation, MMC − SCE, and the adversarially trained model that MMC leads over least."""

    def beside(model: str, other: str) -> compare.Gap | None:
        rates = results.stage_rates(model, other, stage, suites)
        return None if rates is None else compare.of_counts(*rates)

    gap = beside(_MMC, _SCE)
    trained = [each for model in ADVERSARIAL if (each := beside(model, _MMC)) is not None]
    if gap is None or not trained:
        return None
    (low, high), ends = gap.interval(), [each.interval() for each in trained]
    shown = [low >= -POINT, all(end < 0 for _, end in ends)]
    refuted = [high < -POINT, any(start > 0 for start, _ in ends)]
    verdict: Verdict = "yes" if all(shown) else "in part" if any(shown) else "no" if any(refuted) else "undecided"
    return {"verdict": verdict, "beside": gap, "best": max(trained, key=lambda each: each.size)}


# Without adversarial training.


def judge_reliable(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside the paper's numbers, under its attacks and in the worst case."""
    printed = {stage: numbers[0].value for stage in PGD_8 if (numbers := results.paper(benchmark.mmc, stage))}
    if not printed:
        return not_measured("a number of the paper at this epsilon")
    seen = {stage: each for stage in printed if (each := results.measured(benchmark.mmc, stage)) is not None}
    ends = {stage: [100 * end for end in each.rate.interval] for stage, each in seen.items() if each.rate is not None}
    reproduced: Verdict = "no" if ends else "not measured"
    if ends and all(low > benchmark.guessing for low, _ in ends.values()):
        reproduced = "yes" if all(high >= printed[stage] for stage, (_, high) in ends.items()) else "in part"
    worst = results.strongest(benchmark.mmc)
    trusts = {found.trust for suite in STRONG if (found := results.find(benchmark.mmc, suite)) is not None}
    # AutoAttack has no diagnostics, so strict answers for both.
    trusted = bool(trusts & _TRUSTED) and trusts <= {*_TRUSTED, "unchecked"}
    strong: Verdict = "not measured"
    if worst is not None and worst.rate is not None:
        low, high = (100 * end for end in worst.rate.interval)
        reached = trusted and high >= min(printed.values())
        strong = "no" if low <= benchmark.guessing else "yes" if reached else "in part"
    facts: dict[str, object] = {"printed": min(printed.values()), "trusted": trusted}
    facts["lowest"] = min(seen.values(), key=lambda each: each.value, default=None)
    facts["worst"] = None if worst is None else worst.full
    own = (benchmark.mmc,)
    missing = lacking(results, own, tuple(printed)), lacking(results, own, suites=STRONG)
    return settle((reproduced, strong), facts, missing, models=own)


def judge_clean(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside SCE on clean images: over seeds and images if there are enough seeds, else over images."""
    over = compare.over_seeds(results, benchmark.mmc, benchmark.sce, compare.clean_gaps)
    if over is not None and not over.enough:
        first = compare.clean_gaps(results, benchmark.mmc, benchmark.sce)
        over = None if first is None else compare.crossed([first])
    if over is None:
        return not_measured("SCE and MMC-10 on the same clean images", strong="no attack")
    low, high = over.interval()
    verdict: Verdict = "in part" if low >= -2 * POINT else "undecided"
    if low >= -POINT:
        verdict = "yes"
    elif high < -POINT:
        verdict = "no"
    return settle((verdict, "no attack"), {"gap": over}, models=(benchmark.sce, benchmark.mmc))


def judge_cost(results: Published) -> Judgement:
    """An epoch of MMC beside one of SCE, each training alone on its GPU."""
    runs = [run for model in (_SCE, _MMC) if (run := training.alone(results, model)) and training.is_finished(run)]
    why = training.why_not_timed(runs) if len(runs) == 2 else "SCE and MMC-10 were not both trained to the end"
    if why:
        return not_measured(f"times of trainings that can be compared ({why})", strong="no attack")
    ratio = training.epoch_seconds(runs[1]) / training.epoch_seconds(runs[0])
    facts: dict[str, object] = {"ratio": ratio, "attacked": _cost_of_attack(results, runs)}
    verdict: Verdict = "yes" if ratio <= LITTLE else "in part" if ratio <= SOME else "no"
    return settle((verdict, "no attack"), facts)


def _cost_of_attack(results: Published, plain: Sequence[RunSummary]) -> float | None:
    """How many times as long an epoch of targeted adversarial training takes, at its own batch; None if not timed."""
    attacked = [run for name in ADVERSARIAL[:2] if (run := training.alone(results, name)) is not None]
    if len(attacked) < len(plain) or training.why_not_timed([*plain, *attacked], one_batch=False):
        return None
    return sum(map(training.epoch_seconds, attacked)) / sum(map(training.epoch_seconds, plain))


def judge_convergence(results: Published, benchmark: Benchmark) -> Judgement:
    """Which of MMC and SCE reaches each test error first, in epochs before the learning rate falls."""
    sce, mmc = training.alone(results, benchmark.sce), training.alone(results, benchmark.mmc)
    if sce is None or mmc is None or not training.is_finished(sce) or not training.is_finished(mmc):
        return not_measured("finished trainings of SCE and MMC-10", strong="no attack")
    runs, last = (sce, mmc), training.steady_epochs(sce)
    same = {(len(run.epochs), training.steady_epochs(run), training.train_setting(run, "batch_size")) for run in runs}
    if not all(map(training.tested, runs)) or len(same) > 1:
        return not_measured(
            "test errors of SCE and MMC-10 over the same epochs with one batch size", strong="no attack"
        )
    firsts = {level: [training.first_epoch(run, float(level), last) for run in runs] for level in _LEVELS}
    places = {
        level: place
        for level, (theirs, ours) in firsts.items()
        if (place := _first(ours, theirs)) is not None and (theirs, ours) != (1, 1)
    }
    if not places:
        return not_measured("test errors of SCE and MMC-10 at a constant learning rate", strong="no attack")
    seen = set(places.values())
    rates = [f"{training.learning_rate(run):g}" for run in runs]
    verdict: Verdict = "no"
    if len({*rates}) > 1:
        verdict = "undecided"
    elif "first" in seen:
        verdict = "yes" if seen == {"first"} else "undecided" if "behind" in seen else "in part"
    shown = [level for level in places if firsts[level][0] != firsts[level][1]]
    body = [[f"{level} %", *(str(epoch or "later") for epoch in firsts[level])] for level in shown]
    facts: dict[str, object] = {
        "levels": {word: [f"{level} %" for level, place in places.items() if place == word] for word in _PLACES},
        "ends": [f"{100 * (1 - training.tested(run)[-1]['test_accuracy']):.2f} %" for run in runs],
        "rates": rates if len({*rates}) > 1 else [],
        "last": last,
    }
    tables = [markdown_table(["test error first at or below, epoch", "SCE", "MMC-10"], body)] if body else []
    return settle((verdict, "no attack"), facts, tables=tables, models=(benchmark.sce, benchmark.mmc))


_PLACES = ("first", "tied", "behind")


def _first(ours: int | None, theirs: int | None) -> str | None:
    """Who reaches a level first; None if neither does."""
    if ours is None or theirs is None:
        return "first" if ours is not None else "behind" if theirs is not None else None
    return "tied" if abs(ours - theirs) <= training.AROUND else "first" if ours < theirs else "behind"


def judge_white_box(results: Published, benchmark: Benchmark) -> Judgement:
    """MMC beside the other losses under the paper's PGD and in the worst case."""
    judged = _lead_and_worst(results, benchmark.mmc, benchmark.others, benchmark.columns)
    weak = below_paper(results, benchmark.others, benchmark.columns)
    verdict: Verdict = "in part" if judged.reproduced == "yes" and weak else judged.reproduced
    return replace(judged, reproduced=verdict, facts=judged.facts | {"weak": weak}) if judged.facts else judged


def judge_capacity(results: Published, benchmark: Benchmark) -> Judgement:
    """The deep MMC beside the shallow one, and whether SCE gains as well."""
    deep_mmc, deep_sce = f"{benchmark.mmc}-resnet110", f"{benchmark.sce}-resnet110"
    judged = _lead_and_worst(results, deep_mmc, (benchmark.mmc,), _PGD)
    if not judged.facts:
        return judged
    others = compare.leads(results, deep_sce, (benchmark.sce,), _PGD)
    gained = [lead for lead in others if lead.state != "no lead"]
    trains = [results.settings(model).get("train", {}) for model in (benchmark.mmc, deep_mmc)]
    unlike = any(trains[0].get(key) != trains[1].get(key) for key in ("lr", "batch_size"))
    reproduced: Verdict = "in part" if judged.reproduced == "yes" and gained else judged.reproduced
    reproduced = "undecided" if unlike else reproduced
    facts = judged.facts | {
        "gained": len(gained),
        "sce": len(others),
        "printed": printed_leads(results, [(benchmark.mmc, deep_mmc)], _PGD),
    }
    facts["unlike"] = unlike
    missing = [*judged.missing, *lacking(results, (benchmark.sce, deep_sce), _PGD)]
    models = (benchmark.sce, deep_sce, benchmark.mmc, deep_mmc)
    return settle((reproduced, judged.strong), facts, (missing, missing), judged.tables, models)


def _lead_and_worst(results: Published, model: str, others: Sequence[str], stages: Sequence[str]) -> Judgement:
    found = compare.leads(results, model, others, stages)
    if not found:
        return not_measured(f"PGD on {results.title(model)} and a model to compare it with")
    state = compare.state_of(found)
    reproduced: Verdict = "yes" if state == "ahead" else "no" if state == "no lead" else "undecided"
    gaps = {
        results.title(other): gap
        for other in others
        if (gap := compare.by_epsilon(results, model, other).get(_USUAL)) is not None
    }
    attacked = [name for name in (*others, model) if any(results.robust(name, suite) for suite in STRONG)]
    broken = len(attacked) > 1 and model in attacked and compare.all_broken(results, attacked)
    facts: dict[str, object] = {"model": results.title(model), "leads": counted(found), "gaps": gaps}
    facts["broken"] = [results.title(name) for name in attacked] if broken else []
    missing = (
        lacking(results, (*others, model), stages),
        lacking(results, (), pairs=[(model, other) for other in others]),
    )
    strong = "no" if broken else by_gaps(list(gaps.values()))
    return settle((reproduced, strong), facts, missing, [leads_table(found)], (*others, model))


def by_gaps(gaps: Sequence[compare.Gap | compare.Crossed]) -> Verdict:
    """Every interval above zero by a difference of at least a point, one of them, all below a point, or neither."""
    ahead = [gap.size >= POINT and gap.interval()[0] > 0 for gap in gaps]
    if any(ahead):
        return "yes" if all(ahead) else "in part"
    below = [gap.interval()[1] < POINT for gap in gaps]
    return "not measured" if not gaps else "no" if all(below) else "undecided"


def judge_centers(results: Published) -> Judgement:
    """Optimal beside random centers over training seeds, each with a draw of its own."""
    found = compare.leads(results, _MMC, (_RANDOM,), _PGD)
    if not found:
        return not_measured("PGD on MMC-10 and on MMC-10 with random centers")
    attacked = compare.over_seeds(results, _MMC, _RANDOM, compare.column_gaps)
    worst = compare.over_seeds(results, _MMC, _RANDOM, compare.worst_gaps)
    broken = compare.all_broken(results, (_MMC, _RANDOM))
    missing = tuple(
        [] if gap and gap.enough else [f"{ENOUGH} training seeds of both {where} ({gap.seeds if gap else 0} measured)"]
        for gap, where in ((attacked, "under the paper's attacks"), (worst, "in the worst case"))
    )
    verdicts = (_by_seeds(attacked), "no" if broken else "not measured" if worst is None else _by_seeds(worst))
    facts: dict[str, object] = {"attacked": attacked, "worst": worst, "columns": len(_PGD), "all_broken": broken}
    gaps = ([*lacking(results, (_RANDOM, _MMC), _PGD), *missing[0]], missing[1])
    return settle(verdicts, facts, gaps, [leads_table(found)], (_RANDOM, _MMC))


def _by_seeds(gap: compare.Crossed | None) -> Verdict:
    """Better by at least a point, with an interval over seeds and images that excludes zero."""
    if gap is None or not gap.enough:
        return "undecided"
    low, high = gap.interval()
    return "yes" if low > 0 and gap.size >= POINT else "no" if high < POINT else "undecided"


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
    by_epsilon = compare.by_epsilon(results, benchmark.mmc, benchmark.sce)
    facts["epsilons"] = {epsilon: gap for epsilon, gap in by_epsilon.items() if epsilon <= _USUAL}
    strong = by_gaps([gap for epsilon, gap in by_epsilon.items() if epsilon <= _USUAL])
    verdict = over_kinds([[lead for lead in found if lead.title in kind] for kind in kinds])
    worst = lacking(results, (), pairs=[(benchmark.mmc, benchmark.sce)])
    return settle((verdict, strong), facts, (missing, worst), [leads_table(found)], models)


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
        gap = compare.of_images(Comparison.of(self.first, self.last))
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
        return Comparison.of(self.last, self.pgd)

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
    below = _below_pgd(results)
    strong: Verdict = "not measured"
    if below is not None:
        low, high = below.interval()
        strong = "no" if low > POINT else "yes" if high < POINT else "undecided"
    facts: dict[str, object] = {"modes": seen, "pgd50": pgd50, "below": below}
    worst = [] if below else ["strict or AutoAttack on the images of PGD-10"]
    return settle((_spsa_verdict(seen), strong), facts, (missing, worst), models=(_MMC,))


def _below_pgd(results: Published) -> compare.Gap | None:
    """What PGD-10 un leaves − what the worst case leaves, of the same images."""
    for suite in STRONG:
        worst, pgd = results.find(_MMC, suite), results.find(_MMC, PROTOCOL[0])
        kept = None if pgd is None else pgd.kept("pgd10-un-8")
        if worst is None or pgd is None or kept is None or worst.data_fingerprint != pgd.data_fingerprint:
            continue
        return compare.of_images(Comparison.of(kept, worst.stands))
    return None


def _spsa_verdict(seen: Mapping[str, Approach]) -> Verdict:
    if any(each.fall == "no fall" or each.end == "below" for each in seen.values()):
        return "no"
    if any(each.fall == "open" or each.end in ("open", "perhaps below") for each in seen.values()):
        return "undecided"
    return "yes" if all(each.end == "near" for each in seen.values()) else "in part"


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
