"""Every rule is driven to every verdict it knows, by numbers made up for it."""

import pytest
from made_up_summaries import IMAGES, run, shelf, stage, summary

from maxmahal.evaluate.summary import RunSummary, Summary
from maxmahal.report.published import claims, claims_page
from maxmahal.report.published.adversarial import Spread
from maxmahal.report.published.claims import RULES
from maxmahal.report.published.models import ADVERSARIAL, DISTANCES, OTHER_LOSSES, PGD_8, PGD_16, SPSA

PGD = (*PGD_8, *PGD_16)
SCE, MMC, RAND = "cifar10-sce", "cifar10-mmc", "cifar10-mmc-rand"
Things = list[Summary | RunSummary]


def table1(model: str, value: float, clean: float = 90.0, **changes: float) -> Summary:
    return summary(model, "paper-table1", stages={**dict.fromkeys(PGD, value), **changes}, clean=clean)


def strong(model: str, value: float, suite: str = "autoattack", **changes: object) -> Summary:
    return summary(model, suite, robust=value, **changes)  # type: ignore[arg-type]


def at(sce: float, mmc: float, *, clean: float = 80.0, pgd: float = 45.0) -> Things:
    """The long budget under AutoAttack, with what makes AT (SCE) a fair baseline."""
    fair = summary("cifar10-at-un-sce", "paper-table1", clean=clean, stages={"pgd50-un-8": pgd})
    return [fair, strong("cifar10-at-un-sce", sce, clean=clean), strong("cifar10-at-un-mmc", mmc)]


def short(sce: list[float], mmc: list[float]) -> Things:
    found = []
    for base, values in (("cifar10-at-sce-short", sce), ("cifar10-at-mmc-short", mmc)):
        found += [strong(f"{base}-seed{place}" if place else base, value) for place, value in enumerate(values)]
    return list(found)


def best(sce: float, mmc: float) -> Things:
    return [strong("cifar10-at-un-sce-best", sce), strong("cifar10-at-un-mmc-best", mmc)]


AHEAD, TIED = short([40, 40.5, 39.5], [43, 42, 44]), short([40, 43.5, 39.5], [43, 42, 44])
LOSSES = [table1(name, 5) for name in OTHER_LOSSES]
WEAK = [strong(name, 0) for name in OTHER_LOSSES]


def transfer(model: str, value: float) -> Summary:
    moved = stage("transfer-x", value, kind="transfer", source="cifar10-lgm")
    return summary(model, "paper-figure4", more=(moved,))


def table2(model: str, value: float, **changes: float) -> Summary:
    stages = {**dict.fromkeys(SPSA, value), **dict.fromkeys(DISTANCES, value / 100), **changes}
    return summary(model, "paper-table2", stages=stages)


def sizes(un: list[float], tar: list[float], pgd: float) -> Things:
    stages = {}
    for place, size in enumerate(("", "-4096", "-8192")):
        stages |= {f"spsa-un-8{size}": un[place], f"spsa-tar-8{size}": tar[place]}
    return [summary(MMC, "spsa-sizes", stages=stages), table1(MMC, pgd)]


def depth(mmc: float, sce: float, worst: float = 40.0) -> Things:
    deep = [table1(f"{MMC}-resnet110", mmc), table1(f"{SCE}-resnet110", sce)]
    return [*deep, table1(MMC, 30), table1(SCE, 3), strong(f"{MMC}-resnet110", worst), strong(MMC, 30)]


def rotations(sce: float, mmc: float, trained: float) -> Things:
    values = {SCE: sce, MMC: mmc, "cifar10-at-un-sce": trained}
    return [summary(name, "paper-table2", stages={"rotation": value}) for name, value in values.items()]


CASES: list[tuple[str, str, Things]] = [
    ("at", "holds", [*at(45, 48), *AHEAD]),
    ("at", "holds", [*at(45, 48), *best(45, 48), *AHEAD]),
    ("at", "holds in part", [*at(45, 48), *best(48, 48), *AHEAD]),
    ("at", "holds in part", [*at(45, 48), *TIED]),
    ("at", "holds in part", at(45, 48)),
    ("at", "holds in part", [*at(45, 45), *AHEAD]),
    ("at", "holds in part", [*at(45, 42), *AHEAD]),
    ("at", "does not hold", [*at(45, 45), *TIED]),
    ("at", "does not hold", [*at(45, 45.1), *TIED]),
    ("at", "does not hold", [*at(48, 45), *short([43], [40])]),
    ("at", "not measured", AHEAD),
    ("at", "not measured", [*at(45, 48, clean=75.9), *AHEAD]),
    ("at", "not measured", [*at(45, 48, pgd=40.9), *AHEAD]),
    ("at", "not measured", [*at(45, 48)[:2], *AHEAD]),
    ("reliable", "holds", [strong(MMC, 26)]),
    ("reliable", "holds in part", [strong(MMC, 15)]),
    ("reliable", "does not hold", [strong(MMC, 1)]),
    ("reliable", "does not hold", [strong(MMC, 30, "strict"), strong(MMC, 1)]),
    ("reliable", "not measured", [table1(MMC, 30)]),
    ("clean", "holds", [table1(SCE, 1, clean=92), table1(MMC, 1, clean=91.2)]),
    ("clean", "holds in part", [table1(SCE, 1, clean=92), table1(MMC, 1, clean=90.5)]),
    ("clean", "does not hold", [table1(SCE, 1, clean=92), table1(MMC, 1, clean=89)]),
    ("clean", "holds", [table1(SCE, 1, clean=92), table1(MMC, 1, clean=90), table1(f"{MMC}-seed1", 1, clean=93)]),
    ("clean", "not measured", [table1(SCE, 1)]),
    ("cost", "holds", [run(SCE, [10.0], 10), run(MMC, [10.0], 10.4)]),
    ("cost", "holds in part", [run(SCE, [10.0], 10), run(MMC, [10.0], 12)]),
    ("cost", "does not hold", [run(SCE, [10.0], 10), run(MMC, [10.0], 13)]),
    ("cost", "not measured", [run(SCE, [10.0], 10), run(MMC, [10.0], 10, device="cpu")]),
    ("cost", "not measured", [run(SCE, [10.0], 10)]),
    ("convergence", "holds", [run(SCE, [40.0, 29.0, 9.0]), run(MMC, [29.0, 9.0, 9.0])]),
    ("convergence", "holds in part", [run(SCE, [40.0, 29.0, 7.0]), run(MMC, [29.0, 28.0, 7.0])]),
    ("convergence", "does not hold", [run(SCE, [29.0, 7.0]), run(MMC, [29.0, 7.0])]),
    ("convergence", "not measured", [run(MMC, [29.0, 7.0])]),
    ("white-box", "holds", [*LOSSES, *WEAK, table1(MMC, 30), strong(MMC, 20)]),
    ("white-box", "holds in part", [*LOSSES, *WEAK, table1(MMC, 30), strong(MMC, 0.5)]),
    ("white-box", "holds in part", [*LOSSES, table1(MMC, 30)]),
    ("white-box", "does not hold", [*LOSSES, *WEAK, table1(MMC, 5), strong(MMC, 0)]),
    ("white-box", "not measured", [table1(MMC, 5)]),
    ("centers", "holds", [table1(RAND, 20), table1(MMC, 30), strong(MMC, 20), strong(RAND, 10)]),
    (
        "centers",
        "holds in part",
        [table1(RAND, 20), table1(MMC, 30), strong(MMC, 0), strong(RAND, 0)],
    ),
    ("centers", "does not hold", [table1(RAND, 20), table1(MMC, 19)]),
    ("centers", "not measured", [table1(MMC, 19)]),
    ("threats", "holds", [table2(SCE, 10), table2(MMC, 50), transfer(SCE, 20), transfer(MMC, 30)]),
    ("threats", "holds in part", [table2(SCE, 10), table2(MMC, 50), transfer(SCE, 30), transfer(MMC, 20)]),
    ("threats", "holds in part", [table2(SCE, 10), table2(MMC, 50, **{"cw-un": 0.01})]),
    ("threats", "does not hold", [table2(SCE, 10), table2(MMC, 5)]),
    ("threats", "not measured", [table2(MMC, 5)]),
    ("spsa", "holds", sizes([57, 41, 37], [57, 41, 38], 36)),
    ("spsa", "holds in part", sizes([57, 50, 48], [57, 41, 37], 36)),
    ("spsa", "does not hold", sizes([37, 41, 37], [57, 41, 37], 36)),
    ("spsa", "not measured", sizes([57, 41, 37], [57, 41, 37], 36)[1:]),
    ("capacity", "holds", depth(40, 3)),
    ("capacity", "holds in part", depth(40, 6)),
    ("capacity", "holds in part", depth(40, 3, worst=30)),
    ("capacity", "does not hold", depth(20, 3, worst=30)),
    ("capacity", "not measured", [table1(MMC, 30)]),
    ("beyond", "holds", [table1(ADVERSARIAL[2], 20), table1(ADVERSARIAL[3], 30)]),
    ("beyond", "holds in part", [table1(ADVERSARIAL[2], 20), table1(ADVERSARIAL[3], 30, **{"pgd50-un-16": 10})]),
    ("beyond", "does not hold", [table1(ADVERSARIAL[2], 20), table1(ADVERSARIAL[3], 20)]),
    ("beyond", "not measured", [table1(ADVERSARIAL[0], 20), table1(ADVERSARIAL[3], 20)]),
    ("rotation", "holds", rotations(83, 86, 75)),
    ("rotation", "holds in part", rotations(83, 80, 75)),
    ("rotation", "does not hold", rotations(90, 80, 85)),
    ("rotation", "not measured", rotations(83, 86, 75)[:2]),
]


@pytest.mark.parametrize(("key", "verdict", "things"), CASES, ids=[f"{k}-{v}-{n}" for n, (k, v, _) in enumerate(CASES)])
def test_numbers_decide(key: str, verdict: str, things: Things) -> None:
    judgement = RULES[key](shelf(*things))
    assert judgement.verdict == verdict, judgement.reason
    assert judgement.reason.endswith(".")


@pytest.mark.parametrize("key", list(RULES))
def test_every_rule_reaches_every_verdict_in_these_tests(key: str) -> None:
    assert {verdict for each, verdict, _ in CASES if each == key} == {
        "holds",
        "holds in part",
        "does not hold",
        "not measured",
    }


def test_every_claim_has_a_rule_and_every_rule_a_claim() -> None:
    assert [claim.key for claim in claims()] == list(RULES)
    assert all(claim.rule.startswith("Holds if") or claim.rule.startswith("Holds within") for claim in claims())


def test_with_nothing_measured_nothing_is_claimed() -> None:
    page = claims_page(shelf())
    assert page.count("| **not measured** |") == len(RULES)
    assert "holds**" not in page
    assert "not run" in page
    assert "24.8" in page, "the paper's numbers stand even so"


def test_a_first_look_at_a_few_images_decides_nothing() -> None:
    few = summary(MMC, "strict", robust=1, samples=200, limited=True)
    enough = summary(MMC, "strict", robust=1, samples=1000, limited=True)
    line = "| MMC alone is reliably robust, adaptive attacks included | **{}** |"
    assert line.format("not measured") in claims_page(shelf(few))
    assert line.format("does not hold") in claims_page(shelf(enough))


def test_the_comparison_is_paired_and_told_with_its_counts() -> None:
    evidence = RULES["at"](shelf(*at(45, 48), *AHEAD)).evidence
    assert f"+3.0 points, p < 0.001 (60 to 0 of {IMAGES:,} images)" in evidence
    assert "AT (SCE) 40.0 ± 0.5 (3 seeds), AT (MMC-10) 43.0 ± 1.0 (3 seeds)" in evidence
    assert "short, last, seed2" in evidence


def test_an_unfair_baseline_is_said_to_be_one() -> None:
    reason = RULES["at"](shelf(*at(45, 48, clean=70), *AHEAD)).reason
    assert "not yet a fair baseline: clean 70.0 %" in reason


def test_one_seed_has_no_deviation() -> None:
    assert str(Spread((41.0,))) == "41.0 (1 seed)"
    assert str(Spread(())) == "not run"
