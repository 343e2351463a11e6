"""Every rule is driven to every verdict it knows, by numbers made up for it."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_summaries import IMAGES, published, run, stage, summary

from paper.pages.claims import RULES, Judgement, Verdict, claims, on_both, unfair_models
from paper.pages.models import ADVERSARIAL, DISTANCES, LONG, OTHER_LOSSES, PGD_8, PGD_16, SPSA, TABLE_4
from paper.pages.pages import claims_page, judge_all
from paper.pages.results import Published
from paper.summaries import RunSummary, Summary

PGD = (*PGD_8, *PGD_16)
SCE, MMC, RAND = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
Things = list[Summary | RunSummary]


def table1(model: str, value: float, clean: float = 90.0, **changes: float) -> Summary:
    return summary(model, "paper-table1", stages={**dict.fromkeys(PGD, value), **changes}, clean=clean)


def strong(model: str, value: float, suite: str = "autoattack", **changes: object) -> Summary:
    return summary(model, suite, robust=value, **changes)  # type: ignore[arg-type]


def at(sce: float, mmc: float, *, clean: float = 80.0, mmc_clean: float = 80.0) -> Things:
    """The untargeted pair under AutoAttack."""
    return [strong("cifar10-at-un-sce", sce, clean=clean), strong("cifar10-at-un-mmc", mmc, clean=mmc_clean)]


def pairs(sce: float, mmc: float, stages: tuple[str, ...] = PGD_8, **changes: float) -> Things:
    """All four adversarial trainings under the paper's PGD."""
    values = zip(ADVERSARIAL, (sce, mmc) * 2, strict=True)
    return [summary(name, "paper-table1", stages={**dict.fromkeys(stages, value), **changes}) for name, value in values]


def short(sce: list[float], mmc: list[float], mmc_clean: float = 80.0) -> Things:
    found = []
    for base, values, clean in (("cifar10-at-sce-short", sce, 80.0), ("cifar10-at-mmc-short", mmc, mmc_clean)):
        names = [f"{base}-seed{place}" if place else base for place in range(len(values))]
        found += [strong(name, value, clean=clean) for name, value in zip(names, values, strict=True)]
    return list(found)


GOOD_SEEDS = short([45, 45.5, 44.5], [48, 48.4, 47.6])
"""Three seeds above the public row of their network."""
LOSSES = [table1(name, 5) for name in OTHER_LOSSES]
AS_PRINTED = [table1(name, 40 if name == "cifar10-lgm" else 20) for name in OTHER_LOSSES]
"""No model below what the paper prints."""
WEAK = [strong(name, 0) for name in OTHER_LOSSES]


def older(thing: Summary | RunSummary) -> Summary:
    """As it was written before stages said which images they left."""
    assert isinstance(thing, Summary)
    return replace(thing, stages=tuple(replace(each, right=None, distortion_error=None) for each in thing.stages))


def transfer(model: str, value: float, ways: tuple[str, ...] = ("PGD-10", "MIM-10"), **sources: float) -> Summary:
    """Images that the models of Figure 4 were attacked with; those of other sources with accuracies of their own."""
    values = {**dict.fromkeys(ADVERSARIAL[:2], value), **sources}
    moved = [
        stage(f"{way} {source}", left, kind="transfer", source=source, title=f"{way} crafted on {source}")
        for way in ways
        for source, left in values.items()
    ]
    return summary(model, "paper-figure4", more=tuple(moved))


def table2(model: str, value: float, **changes: float) -> Summary:
    stages = {**dict.fromkeys(SPSA, value), **dict.fromkeys(DISTANCES, value / 100), **changes}
    return summary(model, "paper-table2", stages=stages)


def sizes(un: list[float], tar: list[float], pgd: float, images: int = IMAGES) -> Things:
    stages = {}
    for place, size in enumerate(("", "-4096", "-8192")):
        stages |= {f"spsa-un-8{size}": un[place], f"spsa-tar-8{size}": tar[place]}
    right, clean = (np.tile(np.arange(images) < round(images * share / 100), IMAGES // images) for share in (pgd, 80))
    white_box = tuple(stage(f"pgd10-{mode}-8", pgd, right=right) for mode in ("un", "tar"))
    few = summary(MMC, "spsa-sizes", stages=stages, samples=images)
    return [few, summary(MMC, "paper-table1", more=white_box, right=clean)]


def depth(mmc: float, sce: float, worst: float = 40.0) -> Things:
    deep = [table1(f"{MMC}-resnet110", mmc), table1(f"{SCE}-resnet110", sce)]
    return [*deep, table1(MMC, 30), table1(SCE, 3), strong(f"{MMC}-resnet110", worst), strong(MMC, 30)]


def clean(sce: list[float], mmc: list[float]) -> Things:
    found = []
    for base, values in ((SCE, sce), (MMC, mmc)):
        names = [f"{base}-seed{place}" if place else base for place in range(len(values))]
        found += [table1(name, 1, clean=value) for name, value in zip(names, values, strict=True)]
    return list(found)


def drawn(thing: Summary, draw: int) -> Summary:
    return replace(thing, model={**thing.model, "settings": {"centers": {"name": "random", "seed": draw}}})


def draws(random: list[float], optimal: list[float], worst: tuple[list[float], list[float]] | None = None) -> Things:
    """Each training of random centers with a draw of its own; perhaps under AutoAttack too."""
    found: Things = []
    sides = zip((RAND, MMC), (random, optimal), worst or ([], []), strict=True)
    for base, values, left in sides:
        names = [f"{base}-seed{place}" if place else base for place in range(max(len(values), len(left)))]
        found += [drawn(table1(names[place], value), place) for place, value in enumerate(values)]
        found += [drawn(strong(names[place], value), place) for place, value in enumerate(left)]
    return found


def small(sce: float, mmc: float, epsilon: int = 8) -> Things:
    """In the worst case at one epsilon."""
    ball = {"epsilon": f"{epsilon}/255", "radius": epsilon / 255}
    return [strong(SCE, sce, **ball), strong(MMC, mmc, **ball)]


def few(*names: str) -> Things:
    """On other images than all others."""
    return [summary(name, "paper-table1", stages=dict.fromkeys(PGD, 30.0), clean=90.0, samples=1000) for name in names]


def rotations(sce: float, mmc: float, trained: float) -> Things:
    values = {SCE: sce, MMC: mmc, **dict.fromkeys(ADVERSARIAL, trained)}
    return [summary(name, "paper-table2", stages={"rotation": value}) for name, value in values.items()]


def worst_angles(sce: float, mmc: float, trained: float) -> Things:
    values = {SCE: sce, MMC: mmc, **dict.fromkeys(ADVERSARIAL, trained)}
    return [summary(name, "rotation", stages={"rotation-61": value}) for name, value in values.items()]


def beyond(sce: float, mmc: float, **changes: float) -> Things:
    return pairs(sce, mmc, PGD_16, **changes)


def twice(sce: float, mmc: float) -> Things:
    """All four under AutoAttack at 16/255."""
    values = zip(ADVERSARIAL, (sce, mmc) * 2, strict=True)
    return [strong(name, value, epsilon="16/255", radius=16 / 255) for name, value in values]


def both(model: str, value: float, **changes: object) -> Things:
    return [strong(model, value, suite, **changes) for suite in ("strict", "autoattack")]


TABLE_2 = [table2(name, 10) for name in OTHER_LOSSES]

SUMMARIES = [each for each in draws([20, 21, 19], [30, 31, 30]) if isinstance(each, Summary)]

WHOLE: dict[str, Things] = {
    "at": [*pairs(45, 48), *GOOD_SEEDS],
    "reliable": [summary(MMC, "paper-table1", stages=dict.fromkeys(PGD_8, 60.0)), *both(MMC, 26)],
    "clean": [summary(SCE, "paper-table1"), summary(MMC, "paper-table1")],
    "cost": [run(SCE, [10.0]), run(MMC, [10.0])],
    "convergence": [run(SCE, [40.0] * 5 + [29.0]), run(MMC, [29.0, 9.0, *[9.0] * 4])],
    "white-box": [*AS_PRINTED, *WEAK, table1(MMC, 60), strong(MMC, 20)],
    "centers": draws([20, 21, 19], [30, 31, 30], worst=([10, 11, 9], [20, 21, 20])),
    "threats": [*TABLE_2, table2(MMC, 50), transfer(SCE, 20), transfer(MMC, 30), *small(10, 20)],
    "spsa": [*sizes([57, 41, 37], [57, 41, 38], 36), strong(MMC, 36)],
    "capacity": depth(40, 3),
    "beyond": [*beyond(20, 30), *at(45, 45), *twice(20, 30)],
    "rotation": [*rotations(83, 86, 75), *worst_angles(50, 56, 40)],
}
"""For each rule what it asks for and nothing else, with numbers that it is content with."""

ENDS = dict.fromkeys(("clean", "cost", "convergence"), "no attack")
"""What the second verdicts of some claims always are."""

CASES: list[tuple[str, str, Things]] = [
    *((key, f"yes / {ENDS.get(key, 'yes')}", things) for key, things in WHOLE.items()),
    ("at", "yes / in part", [*pairs(45, 48), *at(45, 48)]),
    ("at", "in part / not measured", [*pairs(45, 48)[2:], *pairs(45, 45)[:2]]),
    ("at", "no / no", [*pairs(45, 45), *at(45, 45)]),
    ("at", "undecided / undecided", [*at(45, 45, clean=74), *pairs(45, 45)]),
    ("at", "undecided / in part", [*pairs(45, 45.9), *at(45, 48, mmc_clean=78)]),
    ("at", "yes / no", [*pairs(45, 48), *at(48, 45)]),
    ("at", "not measured / in part", at(45, 48)),
    ("at", "not measured / no", at(45, 45.2)),
    ("at", "not measured / undecided", at(45, 48, clean=74)),
    ("at", "not measured / undecided", at(41, 48)),
    ("at", "not measured / in part", [*at(45, 48), *short([45, 45.5], [48, 48.4])]),
    ("at", "not measured / in part", [*at(45, 48), *short([45, 48, 44], [48, 45.5, 49])]),
    ("at", "not measured / undecided", short([45, 48, 44], [48, 45.5, 49])),
    ("at", "not measured / not measured", []),
    ("reliable", "not measured / yes", [strong(MMC, 26, "strict", trust="mended"), strong(MMC, 26, trust="unchecked")]),
    ("reliable", "not measured / in part", both(MMC, 26, trust="unchecked")),
    ("reliable", "not measured / in part", both(MMC, 26, trust="unresolved")),
    ("reliable", "not measured / in part", [strong(MMC, 26, "strict"), strong(MMC, 26, trust="unresolved")]),
    ("reliable", "not measured / in part", both(MMC, 15)),
    ("reliable", "not measured / no", both(MMC, 10.5)),
    ("reliable", "not measured / no", [strong(MMC, 1)]),
    ("reliable", "not measured / no", [strong(MMC, 30, "strict"), strong(MMC, 1)]),
    ("reliable", "in part / not measured", [table1(MMC, 30)]),
    ("reliable", "yes / yes", [table1(MMC, 60), *both(MMC, 26)]),
    ("reliable", "no / yes", [table1(MMC, 9), *both(MMC, 26)]),
    ("reliable", "not measured / not measured", [summary(SCE, "paper-table1")]),
    ("clean", "yes / no attack", clean([92], [91.5])),
    ("clean", "in part / no attack", clean([92], [91.1])),  # within a point, but not with its interval
    ("clean", "no / no attack", clean([92], [89])),
    ("clean", "undecided / no attack", clean([92, 93, 92], [91.1, 95, 89])),
    ("clean", "yes / no attack", clean([92, 92, 92], [91.7, 91.8, 91.7])),
    ("clean", "in part / no attack", clean([92, 92, 92], [91.1, 90.9, 91.2])),
    ("clean", "no / no attack", clean([92, 92, 92], [90.1, 90.2, 90.1])),
    ("clean", "yes / no attack", [*clean([92], [91.5]), table1(f"{MMC}-seed1", 1, clean=60)]),  # no SCE of that seed
    ("clean", "not measured / no attack", [table1(SCE, 1), summary(MMC, "strict", samples=1000)]),
    ("clean", "not measured / no attack", [table1(SCE, 1)]),
    ("cost", "yes / no attack", [run(SCE, [10.0], 10), run(MMC, [10.0], 10.4)]),
    ("cost", "in part / no attack", [run(SCE, [10.0], 10), run(MMC, [10.0], 12)]),
    ("cost", "no / no attack", [run(SCE, [10.0], 10), run(MMC, [10.0], 13)]),
    ("cost", "not measured / no attack", [run(SCE, [10.0], 10), run(MMC, [10.0], 10, device="cpu")]),
    ("cost", "not measured / no attack", [run(SCE, [10.0], 10)]),
    ("cost", "not measured / no attack", [replace(each, finished=False) for each in WHOLE["cost"]]),
    ("cost", "not measured / no attack", [replace(each, finished=False, device="", gpu="") for each in WHOLE["cost"]]),
    ("cost", "not measured / no attack", [replace(each, gpu="") for each in WHOLE["cost"]]),
    ("cost", "not measured / no attack", [run(SCE, [10.0]), run(MMC, [10.0], gpu="NVIDIA A100")]),
    ("cost", "not measured / no attack", [run(SCE, [10.0], sharing=2), run(MMC, [10.0], sharing=2)]),
    ("convergence", "yes / no attack", [run(SCE, [40.0] * 5 + [9.0]), run(MMC, [29.0] + [9.0] * 5)]),
    ("convergence", "in part / no attack", [run(SCE, [40.0] * 5 + [7.0]), run(MMC, [29.0] * 5 + [7.0])]),
    ("convergence", "no / no attack", [run(SCE, [29.0, 7.0]), run(MMC, [29.0, 7.0])]),
    ("convergence", "not measured / no attack", [run(MMC, [29.0, 7.0])]),
    ("convergence", "not measured / no attack", [run(SCE, [60.0], finished=False), run(MMC, [29.0, 7.0])]),
    ("convergence", "not measured / no attack", [run(SCE, [60.0]), run(MMC, [29.0, 7.0])]),
    ("convergence", "no / no attack", [run(SCE, [60.0, 50.0]), run(MMC, [60.0, 50.0])]),
    (
        "convergence",
        "not measured / no attack",
        [run(SCE, [40.0, 29.0], settings={"train": {"epochs": 2, "batch_size": 128}}), run(MMC, [29.0, 7.0])],
    ),
    (
        "white-box",
        "in part / not measured",
        [summary(SCE, "paper-table1", stages={"pgd10-un-8": 5}), table1(MMC, 30), *WEAK],
    ),
    ("white-box", "in part / no", [*LOSSES, *WEAK, table1(MMC, 30), strong(MMC, 0.5)]),
    ("white-box", "in part / not measured", [*LOSSES, table1(MMC, 30)]),
    ("white-box", "no / no", [*LOSSES, *WEAK, table1(MMC, 5), strong(MMC, 0)]),
    ("white-box", "no / yes", [*LOSSES, *WEAK, table1(MMC, 5, **{"pgd50-un-8": 30}), strong(MMC, 20)]),
    ("white-box", "no / yes", [*LOSSES, *WEAK, table1(MMC, 30, **{"pgd50-un-8": 5}), strong(MMC, 20)]),
    ("white-box", "undecided / yes", [*LOSSES, *WEAK, table1(MMC, 30, **{"pgd50-un-8": 5.9}), strong(MMC, 20)]),
    ("white-box", "undecided / not measured", [older(each) for each in (*LOSSES, table1(MMC, 30))]),
    ("white-box", "not measured / not measured", [table1(MMC, 5)]),
    ("centers", "yes / no", draws([20, 21, 19], [30, 31, 30], worst=([0, 0, 0], [0, 0, 0]))),
    ("centers", "yes / undecided", draws([20, 21, 19], [30, 31, 30], worst=([2, 6, 6], [5, 1, 1]))),  # seed 0 is luck
    ("centers", "yes / undecided", draws([20, 21, 19], [30, 31, 30], worst=([10], [20]))),
    ("centers", "yes / not measured", draws([20, 21, 19], [30, 31, 30])),
    ("centers", "no / not measured", draws([20, 21, 19], [20.2, 21.2, 19.3])),
    ("centers", "no / not measured", draws([30, 31, 30], [20, 21, 19])),
    ("centers", "undecided / not measured", draws([20, 30, 10], [30, 21, 25])),
    (
        "centers",
        "undecided / not measured",
        draws([20, 20, 20], [20.5, 20.9, 21.3]),
    ),  # above zero, but by less than a point
    ("centers", "undecided / not measured", draws([20], [30])),  # one draw, however far behind or ahead
    ("centers", "undecided / not measured", draws([30], [20])),
    ("centers", "undecided / not measured", draws([20, 21], [30, 31])),
    (
        "centers",
        "undecided / not measured",
        [drawn(each, 0) for each in draws([20, 21, 19], [30, 31, 30]) if isinstance(each, Summary)],
    ),
    ("centers", "undecided / not measured", [*draws([20, 21, 19], [30]), table1(f"{MMC}-seed7", 30)]),
    (
        "centers",
        "undecided / not measured",
        [*draws([20], [30]), *(table1(f"{RAND}-seed{n}", 20) for n in (1, 2)), *few(f"{MMC}-seed1", f"{MMC}-seed2")],
    ),
    ("centers", "not measured / not measured", [table1(MMC, 19)]),
    ("threats", "in part / not measured", [*TABLE_2, table2(MMC, 50), transfer(SCE, 30), transfer(MMC, 20)]),
    (
        "threats",
        "in part / not measured",
        [*TABLE_2, table2(MMC, 50), transfer(SCE, 20, ("PGD-10",)), transfer(MMC, 30)],
    ),
    ("threats", "in part / not measured", [table2(SCE, 10), table2(MMC, 50), transfer(SCE, 20), transfer(MMC, 30)]),
    ("threats", "in part / not measured", [table2(SCE, 10), table2(MMC, 50, **{"cw-un": 0.01})]),
    ("threats", "no / not measured", [table2(SCE, 10), table2(MMC, 5)]),
    ("threats", "undecided / not measured", [table2(SCE, 10), table2(MMC, 10.9, **dict.fromkeys(DISTANCES, 0.104))]),
    ("threats", "in part / not measured", [older(table2(SCE, 10)), older(table2(MMC, 50))]),  # SPSA by counts
    ("threats", "not measured / not measured", [table2(MMC, 5)]),
    ("threats", "in part / no", [*TABLE_2, table2(MMC, 50), strong(SCE, 0), strong(MMC, 0)]),
    ("threats", "in part / yes", [*TABLE_2, table2(MMC, 50), strong(SCE, 10), strong(MMC, 20)]),
    ("threats", "in part / in part", [*TABLE_2, table2(MMC, 50), *small(0, 0), *small(10, 20, 1)]),
    ("threats", "in part / undecided", [*TABLE_2, table2(MMC, 50), *small(10, 10.8, 2)]),
    ("spsa", "in part / not measured", sizes([57, 41, 37], [57, 41, 38], 36, images=100)),
    ("spsa", "in part / not measured", sizes([57, 41, 37], [57, 41, 38.5], 34)),
    ("spsa", "undecided / not measured", sizes([42, 41, 37], [57, 41, 37], 36, images=100)),
    ("spsa", "in part / not measured", sizes([57, 50, 48], [57, 41, 37], 36)),
    ("spsa", "no / not measured", sizes([37, 41, 37], [57, 41, 37], 36)),
    ("spsa", "not measured / not measured", sizes([57, 41, 37], [57, 41, 37], 36)[1:]),
    ("spsa", "yes / no", [*sizes([57, 41, 37], [57, 41, 38], 36), strong(MMC, 0)]),
    ("spsa", "yes / yes", [*sizes([57, 41, 37], [57, 41, 38], 36), strong(MMC, 36)]),
    ("spsa", "yes / undecided", [*sizes([57, 41, 37], [57, 41, 38], 36), strong(MMC, 35)]),
    ("capacity", "in part / yes", depth(40, 6)),
    ("capacity", "yes / no", depth(40, 3, worst=30)),
    ("capacity", "no / no", depth(20, 3, worst=30)),
    ("capacity", "in part / yes", [each if SCE not in each.name else older(each) for each in depth(40, 3)]),
    ("capacity", "undecided / yes", depth(30.9, 3)),
    ("capacity", "not measured / not measured", [table1(MMC, 30)]),
    ("beyond", "no / not measured", [*beyond(20, 30, **{"pgd50-un-16": 20}), *at(45, 45)]),
    ("beyond", "no / no", [*beyond(20, 20), *at(45, 45), *twice(20, 20)]),
    ("beyond", "undecided / undecided", [*at(45, 45, clean=74), *beyond(20, 20), *twice(20, 20)]),
    ("beyond", "yes / yes", [*beyond(20, 30), *at(45, 45), *twice(20, 23)]),
    ("beyond", "yes / in part", [*at(45, 45, clean=74), *beyond(20, 30), *twice(20, 23)]),
    ("beyond", "yes / in part", [*beyond(20, 30), *twice(20, 23)[:2], *twice(20, 20)[2:]]),
    ("beyond", "yes / in part", [*beyond(20, 30), *twice(20, 23)[:2]]),
    ("beyond", "in part / not measured", [*beyond(20, 30)[:2], *beyond(20, 20)[2:]]),
    ("beyond", "undecided / not measured", [*beyond(20, 20.9)[:2], *beyond(20, 20)[2:]]),
    ("beyond", "undecided / not measured", [older(each) for each in beyond(20, 30)]),
    ("beyond", "in part / not measured", [table1(ADVERSARIAL[2], 20), table1(ADVERSARIAL[3], 30)]),
    ("beyond", "not measured / not measured", [table1(ADVERSARIAL[0], 20), table1(ADVERSARIAL[3], 20)]),
    ("rotation", "in part / not measured", rotations(83, 80, 75)),
    ("rotation", "no / not measured", rotations(90, 80, 85)),
    ("rotation", "undecided / not measured", rotations(83, 83.1, 83.3)),
    ("rotation", "not measured / not measured", rotations(83, 86, 75)[:2]),
    ("rotation", "yes / in part", [*rotations(83, 86, 75), *worst_angles(50, 56, 65)]),
    ("rotation", "yes / no", [*rotations(83, 86, 75), *worst_angles(56, 50, 65)]),
    ("rotation", "yes / undecided", [*rotations(83, 86, 75), *worst_angles(50, 49.5, 50)]),
]


def judged(key: str, *things: Summary | RunSummary) -> Judgement:
    return RULES[key](published(*things))


CLAIMS = {claim.key: claim for claim in claims()}


def section(key: str, results: Published) -> str:
    """What the page says of one claim, without its rule."""
    claim = CLAIMS[key]
    page = claims_page([(claim, claim.judge(results))])
    return page.partition(f"## {claim.title}\n")[2].partition("*Reproduced:*")[0]


def verdicts(found: Judgement) -> str:
    return f"{found.reproduced} / {found.strong}"


@pytest.mark.parametrize(("key", "wanted", "things"), CASES, ids=[f"{k}-{v}-{n}" for n, (k, v, _) in enumerate(CASES)])
def test_numbers_decide(key: str, wanted: str, things: Things) -> None:
    found = judged(key, *things)
    assert verdicts(found) == wanted, found
    shown = section(key, published(*things))
    first, _, second = wanted.partition(" / ")
    assert f"**Reproduced under the paper's attacks: {first}. True under strong attacks: {second}.**" in shown
    assert not re.search(r"\b(nan|inf|None)\b", shown)


@pytest.mark.parametrize("key", list(RULES))
def test_every_rule_reaches_every_verdict_in_these_tests(key: str) -> None:
    pairs = [each.split(" / ") for name, each, _ in CASES if name == key]
    known = {"yes", "in part", "no", "not measured"}
    assert {first for first, _ in pairs} >= known - ({"in part"} if key == "centers" else set())
    assert key in ENDS or {second for _, second in pairs} >= {"yes", "no", "not measured"}


def test_every_claim_has_a_rule_and_every_rule_a_claim() -> None:
    assert [claim.key for claim in claims()] == list(RULES)
    assert all(claim.reproduced and claim.strong and claim.change for claim in claims())


def without_a_part(things: Things) -> list[Things]:
    """With each of the things gone in turn, then with each stage of each of them gone."""
    smaller = [[*things[:place], *things[place + 1 :]] for place in range(len(things))]
    for place, thing in enumerate(things):
        stages = thing.stages if isinstance(thing, Summary) else ()
        for gone in stages:
            left = replace(thing, stages=tuple(each for each in stages if each is not gone))
            smaller.append([*things[:place], left, *things[place + 1 :]])
    return smaller


@pytest.mark.parametrize("key", list(RULES))
def test_no_claim_holds_without_every_part_of_its_data(key: str) -> None:
    for things in without_a_part(WHOLE[key]):
        found = judged(key, *things)
        assert verdicts(found) != f"yes / {ENDS.get(key, 'yes')}"
        assert found.missing or found.reproduced == "not measured"


@pytest.mark.parametrize(
    ("key", "things", "said"),
    [
        ("at", [*at(45, 48), *short([45], [48])], "3 training seeds of both losses at a fair budget"),
        ("reliable", [strong(MMC, 26, "strict")], "MMC-10 (autoattack)"),
        ("clean", WHOLE["clean"][:1], "SCE and MMC-10 on the same clean images"),
        ("convergence", [run(SCE, [60.0], finished=False), run(MMC, [29.0])], "finished trainings of SCE and MMC-10"),
        ("white-box", [*LOSSES[:1], *WEAK, table1(MMC, 30), strong(MMC, 20)], "MMLDA (every column)"),
        (
            "white-box",
            [*LOSSES, *WEAK[1:], table1(MMC, 30), strong(MMC, 20)],
            "the worst cases of MMC-10 and SCE on the same images",
        ),
        ("centers", draws([20], [30]), "3 training seeds of both under the paper's attacks (1 measured)"),
        ("centers", draws([20], [30]), "3 training seeds of both in the worst case (0 measured)"),
        ("threats", [*TABLE_2, table2(MMC, 50)], "transfer by MIM from AT tar 10 (SCE)"),
        ("threats", [transfer(SCE, 20), transfer(MMC, 30)], "Center loss (every column)"),
        ("capacity", [each for each in depth(40, 3) if each.name != SCE], "SCE (every column)"),
        ("beyond", [table1(ADVERSARIAL[2], 20), table1(ADVERSARIAL[3], 30)], "AT tar 10 (SCE) (every column)"),
        ("rotation", rotations(83, 86, 75)[:3], "AT un 10 (MMC-10) (rotation)"),
    ],
)
def test_what_is_missing_is_named(key: str, things: Things, said: str) -> None:
    assert said in judged(key, *things).missing


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ([replace(each, finished=False) for each in WHOLE["cost"]], "not both trained to the end"),
        ([run(SCE, [10.0]), run(MMC, [10.0], sharing=3)], "not every training was alone on its GPU"),
        ([replace(each, gpu="") for each in WHOLE["cost"]], "on which GPU the training ran is not known"),
    ],
)
def test_times_that_cannot_be_compared_say_why(runs: Things, why: str) -> None:
    assert why in judged("cost", *runs).missing[0]


def test_a_repetition_alone_on_its_gpu_is_timed_instead() -> None:
    shared = [run(name, [9.0], 10, sharing=3) for name in (SCE, MMC)]
    assert judged("cost", *shared).reproduced == "not measured"
    found = judged("cost", *shared, run(f"{SCE}-alone", [9.0], 10), run(f"{MMC}-alone", [9.0], 12))
    assert (found.reproduced, found.facts["ratio"]) == ("in part", pytest.approx(1.2))


def test_the_numbers_of_adversarial_training_are_shown() -> None:
    shown = section("at", published(*at(45, 48, mmc_clean=78), *GOOD_SEEDS))
    assert "untargeted (200 epochs, autoattack) +3.0 points [+2.2, +3.8], 1 training seed, 2,000 images" in shown
    assert "clean −2.0 points [−2.6, −1.4], 1 training seed, 2,000 images" in shown
    assert "+3.0 points [+2.3, +3.7], 3 training seeds, 2,000 images" in shown
    assert "Untargeted: fair." in shown


@pytest.mark.parametrize(
    ("things", "why"),
    [
        (at(45, 48), ""),
        (at(45, 48, clean=74), "has clean 74.0 % [72.0, 75.9], below 76.60 %"),
        (at(45, 48, clean=75), ""),  # within the interval
        (at(41, 48), "has AutoAttack 41.0 % [38.8, 43.2], below 43.88 %"),
    ],
)
def test_a_fair_pair_reaches_the_public_row_within_its_interval(things: Things, why: str) -> None:
    found = unfair_models(published(*things), LONG)
    assert bool(found) == bool(why)
    assert why in "".join(found)


def test_a_rate_at_the_edge_of_the_trials_is_not_fair() -> None:
    def trained(name: str, rate: float, epochs: int = 3) -> RunSummary:
        settings = {"train": {"lr": rate, "epochs": epochs}, "loss": {"name": "sce"}}
        return run(name, [50.0] * epochs, settings=settings)

    longest = [trained("tune-a", 0.1, 2), trained("tune-b", 0.2, 2), trained("tune-c", 0.4, 1)]
    for rate, edge in ((0.2, "the learning rate of AT un 10 (SCE) is the highest tried"), (0.15, "")):
        found = unfair_models(published(*at(45, 48), *longest, trained(LONG[0], rate)), LONG)
        assert "".join(found) == edge


def test_different_learning_rates_leave_convergence_open_and_are_named() -> None:
    settings = [{"train": {"epochs": 12, "batch_size": 50, "lr": rate}} for rate in (0.1, 0.05)]
    things = [
        run(name, errors, settings=each) for name, errors, each in zip((SCE, MMC), (SLOW, FAST), settings, strict=True)
    ]
    assert judged("convergence", *things).reproduced == "undecided"
    assert "not equal: learning rate 0.1 (SCE), 0.05 (MMC-10)" in section("convergence", published(*things))


@pytest.mark.parametrize(
    ("changes", "verdict"), [({}, "yes"), ({"batch_size": 256}, "undecided"), ({"lr": 0.2}, "undecided")]
)
def test_depth_is_no_cause_where_the_recipes_differ(changes: dict[str, float], verdict: str) -> None:
    things = [
        replace(each, model={**each.model, "settings": {"train": {"lr": 0.1, "batch_size": 128, **changes}}})
        if isinstance(each, Summary) and "resnet110" in each.name
        else replace(each, model={**each.model, "settings": {"train": {"lr": 0.1, "batch_size": 128}}})
        for each in depth(40, 3)
        if isinstance(each, Summary)
    ]
    assert judged("capacity", *things).reproduced == verdict


def test_what_falls_with_the_learning_rate_is_no_evidence() -> None:
    settings = {"train": {"epochs": 12, "batch_size": 50, "schedule": "step", "milestones": [0.25, 0.75]}}
    late = [run(SCE, SLOW, settings=settings), run(MMC, FAST, settings=settings)]
    assert judged("convergence", *late).reproduced == "not measured", "both fall after the first step alone"
    linear = {"train": {**settings["train"], "schedule": "linear"}}
    falling = [replace(each, settings=linear) for each in late]
    assert judged("convergence", *falling).reproduced == "not measured"


def test_centers_are_judged_by_the_spread_over_trainings() -> None:
    found = judged("centers", *WHOLE["centers"]).facts["attacked"]
    assert (found.seeds, found.size) == (3, pytest.approx(31 / 3))  # of 10, 10 and 11
    low, high = found.interval()
    assert high - 31 / 3 == pytest.approx(31 / 3 - low)
    assert low < 31 / 3 - 1.4, "no narrower than over images alone"


def test_wrong_images_that_an_attack_turns_right_are_not_kept() -> None:
    first, *others = draws([20, 21, 19], [30, 31, 30])
    assert isinstance(first, Summary)
    turned = [replace(each, right=~first.right) for each in first.stages]
    found = judged("centers", replace(first, stages=tuple(turned)), *others).facts["attacked"]
    assert found.size == pytest.approx(17)  # of 30, 10 and 11


def test_transfer_is_compared_on_images_that_both_saw_and_neither_was_attacked_for() -> None:
    easy = {"cifar10-lgm": 100.0, SCE: 100.0, MMC: 100.0}
    theirs = transfer(SCE, 30, **{SCE: 0.0, MMC: 0.0})
    found = judged("threats", *TABLE_2, table2(MMC, 50), theirs, transfer(MMC, 20, **easy))
    assert found.facts["leads"] == "6 of 10 columns (ruled out in 4)"
    assert {(name, each.ours, each.theirs) for name, each in found.facts["transfers"].items()} == {
        ("PGD", 20.0, 30.0),
        ("MIM", 20.0, 30.0),
    }


@pytest.mark.parametrize("unbroken", [(MMC,), ("cifar10-lgm",), (MMC, "cifar10-lgm")])
def test_an_attack_without_a_bound_that_breaks_no_image_is_not_tested(unbroken: tuple[str, ...]) -> None:
    things = []
    for each in (*TABLE_2, table2(MMC, 50)):
        stages = [replace(s, distortion=None) if s.name.startswith("cw-") else s for s in each.stages]
        things.append(replace(each, stages=tuple(stages)) if each.name in unbroken else each)
    for order in (things, things[::-1]):
        assert judged("threats", *order).facts["leads"] == "4 of 6 columns (not tested in 2)"


def test_other_losses_far_below_the_paper_take_part_of_a_lead() -> None:
    assert judged("white-box", *WHOLE["white-box"]).facts["weak"] == []
    lower = [table1("cifar10-lgm", 30) if each.name == "cifar10-lgm" else each for each in AS_PRINTED]
    found = judged("white-box", *lower, *WHOLE["white-box"][len(lower) :])
    assert (found.reproduced, found.facts["weak"]) == ("in part", ["L-GM (PGD-10 tar 8)"])


def test_models_without_a_surviving_image_are_named() -> None:
    floor = [*LOSSES, *WEAK, table1(MMC, 30), strong(MMC, 0)]
    assert "AutoAttack and strict break every image of SCE, Center loss, MMLDA, L-GM and MMC-10." in section(
        "white-box", published(*floor)
    )
    assert not judged("white-box", *floor[:-1], strong(MMC, 0.5)).facts["broken"]
    known = judged("white-box", table1(SCE, 5), strong(SCE, 0), table1(MMC, 30), strong(MMC, 0))
    assert known.facts["broken"] == ["SCE", "MMC-10"], "models that were not attacked are not broken"
    assert "the worst cases of MMC-10 and L-GM on the same images" in known.missing


@pytest.mark.parametrize("other", [{"samples": 1000}, {"suite": "strict"}])
def test_broken_models_need_no_pairing_and_others_do(other: dict[str, Any]) -> None:
    attacked = depth(40, 3)[:-2]
    fallen = judged("capacity", *attacked, strong(f"{MMC}-resnet110", 0, **other), strong(MMC, 0))
    assert (fallen.strong, len(fallen.facts["broken"]), fallen.missing) == ("no", 2, ())
    unpaired = judged("capacity", *attacked, strong(f"{MMC}-resnet110", 9, **other), strong(MMC, 0))
    assert unpaired.strong == "not measured"
    assert unpaired.missing == ("the worst cases of MMC (Res.110) and MMC-10 on the same images",)


def test_a_few_broken_images_are_not_all_while_another_suite_leaves_some() -> None:
    few, many = strong(f"{MMC}-resnet110", 0, samples=1000), strong(f"{MMC}-resnet110", 0.5, "strict")
    assert not judged("capacity", *depth(40, 3)[:-2], few, many, strong(MMC, 0)).facts["broken"]


def test_a_first_look_at_a_few_images_decides_nothing() -> None:
    def verdict(**changes: Any) -> str:
        things = published(summary(MMC, "strict", robust=1, **changes))
        return {claim.key: found.strong for claim, found in judge_all(things)}["reliable"]

    assert verdict(samples=200, limited=True) == "not measured"
    assert verdict(samples=200) == "not measured"
    assert verdict(samples=1000, limited=True) == "no"


def test_the_batches_of_spsa_may_be_few_and_nothing_else_is_read_from_them() -> None:
    few = sizes([57, 41, 37], [57, 41, 38], 36, images=100)
    things = published(*few, table2(SCE, 10), summary(SCE, "paper-table1", clean=10))
    found = {claim.key: judgement.reproduced for claim, judgement in judge_all(things)}
    assert (found["spsa"], found["threats"]) == ("in part", "not measured")
    alone = {claim.key: judgement.reproduced for claim, judgement in judge_all(published(few[0], table1(SCE, 1)))}
    assert alone["clean"] == "not measured"


@pytest.mark.parametrize(
    ("ten", "hundred", "verdict"),
    [
        ("undecided", "undecided", "undecided"),
        ("undecided", "no", "undecided"),
        ("no", "undecided", "undecided"),
        ("undecided", "yes", "in part"),
        ("in part", "undecided", "in part"),
        ("undecided", "not measured", "undecided"),
        ("not measured", "undecided", "undecided"),
        ("not measured", "yes", "in part"),
        ("yes", "yes", "yes"),
    ],
)
def test_two_data_sets_that_differ(ten: Verdict, hundred: Verdict, verdict: Verdict) -> None:
    shown = {"cifar10": ten, "cifar100": hundred}
    found = on_both(published(), lambda _, benchmark: Judgement(shown[benchmark.data], shown[benchmark.data]))
    assert verdicts(found) == f"{verdict} / {verdict}"


# Convergence

SLOW, FAST = [40.0] * 6 + [7.0] * 6, [40.0] * 3 + [7.0] * 9


def convergence(sce: list[float], mmc: list[float]) -> Judgement:
    return judged("convergence", run(SCE, sce), run(MMC, mmc))


@pytest.mark.parametrize(
    ("sce", "mmc", "verdict", "first", "behind"),
    [
        (SLOW, FAST, "yes", 6, 0),
        (SLOW, [29.0] * 6 + [7.0] * 6, "in part", 2, 0),
        (SLOW, [29.0] * 12, "undecided", 2, 4),
        (SLOW, SLOW, "no", 0, 0),
        (FAST, SLOW, "no", 0, 6),
        ([40.0] * 12, [25.0] * 12, "yes", 3, 0),  # the other never comes down
        (SLOW, [40.0] * 12, "no", 0, 6),
        (SLOW, [40.0] * 4 + [7.0] * 8, "no", 0, 0),  # two epochs apart are a tie
        (SLOW, [40.0] * 2 + [7.0] + [40.0] * 3 + [7.0] * 6, "no", 0, 0),  # one dip: medians are compared
    ],
)
def test_a_training_is_first_tied_or_behind(
    sce: list[float], mmc: list[float], verdict: str, first: int, behind: int
) -> None:
    found = convergence(sce, mmc)
    levels = found.facts["levels"]
    assert (found.reproduced, len(levels["first"]), len(levels["behind"])) == (verdict, first, behind)


def test_test_errors_that_were_not_recorded_are_not_measured() -> None:
    blind = run(SCE, SLOW)
    for entry in blind.epochs:
        entry["test_accuracy"] = None
    assert judged("convergence", blind, run(MMC, FAST)).reproduced == "not measured"


# Both data sets


def pgd(model: str, value: float, data: str) -> Summary:
    return summary(model, "paper-table1", stages=dict.fromkeys(PGD, value), data=data)


def losses(data: str, mmc: float, worst: float = 20.0) -> Things:
    names = OTHER_LOSSES if data == "cifar10" else TABLE_4[:4]
    things: Things = [pgd(name, 40 if name.endswith("lgm") else 20, data) for name in names]  # as much as in the paper
    things += [each for name in names for each in both(name, 0)]
    return [*things, pgd(f"{data}-mmc", mmc, data), *both(f"{data}-mmc", worst)]


def deep(data: str, value: float, worst: float = 40.0) -> Things:
    values = {"sce": 3.0, "mmc": 30.0, "sce-resnet110": 3.0, "mmc-resnet110": value}
    things: Things = [pgd(f"{data}-{name}", value, data) for name, value in values.items()]
    return [*things, *both(f"{data}-mmc", 30), *both(f"{data}-mmc-resnet110", worst)]


def on_clean(data: str, mmc: float) -> Things:
    return [summary(f"{data}-{name}", "mine", clean=value, data=data) for name, value in (("sce", 80), ("mmc", mmc))]


def curves(data: str, sce: int, mmc: int) -> Things:
    """Each falls at once after so many epochs."""
    return [run(f"{data}-{name}", [90.0] * at + [5.0] * (12 - at)) for name, at in (("sce", sce), ("mmc", mmc))]


GOOD: dict[str, tuple[Things, Things]] = {
    "reliable": (both("cifar10-mmc", 26), both("cifar100-mmc", 18)),
    "white-box": (losses("cifar10", 60), losses("cifar100", 60)),
    "capacity": (deep("cifar10", 40), deep("cifar100", 40)),
    "clean": (on_clean("cifar10", 80), on_clean("cifar100", 80)),
    "convergence": (curves("cifar10", 8, 4), curves("cifar100", 8, 4)),
}
BAD: dict[str, tuple[Things, Things]] = {
    "reliable": (both("cifar10-mmc", 0.1), both("cifar100-mmc", 0.1)),
    "white-box": (losses("cifar10", 5, 0), losses("cifar100", 5, 0)),
    "capacity": (deep("cifar10", 20, 30), deep("cifar100", 20, 30)),
    "clean": (on_clean("cifar10", 75), on_clean("cifar100", 75)),
    "convergence": (curves("cifar10", 4, 8), curves("cifar100", 4, 8)),
}


def verdict_of(key: str, found: Judgement) -> str:
    return found.strong if key == "reliable" else found.reproduced


@pytest.mark.parametrize("key", list(GOOD))
def test_both_data_sets_have_to_agree(key: str) -> None:
    verdicts = {
        (first, second): verdict_of(key, judged(key, *ten, *more))
        for first, ten in (("good", GOOD[key][0]), ("bad", BAD[key][0]))
        for second, more in (("good", GOOD[key][1]), ("bad", BAD[key][1]))
    }
    assert verdicts == {
        ("good", "good"): "yes",
        ("good", "bad"): "in part",
        ("bad", "good"): "in part",
        ("bad", "bad"): "no",
    }
    assert verdict_of(key, judged(key, *GOOD[key][1])) == "in part", "half of what the claim is about"
    assert verdict_of(key, judged(key, *BAD[key][1])) == "no"
    shown = section(key, published(*GOOD[key][0], *BAD[key][1]))
    assert shown.index("**CIFAR-10: ") < shown.index("**CIFAR-100: ")


def test_no_other_claim_is_decided_by_cifar100() -> None:
    for key in RULES.keys() - GOOD.keys() - {"threats"}:
        ten = [each for each in WHOLE[key] if "cifar100" not in each.name]
        more = [replace(each, name=each.name.replace("cifar10-", "cifar100-")) for each in BAD["white-box"][1]]
        assert verdicts(judged(key, *ten, *more)) == f"yes / {ENDS.get(key, 'yes')}"
