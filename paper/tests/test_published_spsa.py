"""SPSA beside PGD-10 on the very same images: every verdict of the rule, and what its words and its table say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_summaries import IMAGES, shelf, stage, summary

from paper.pages import results_page
from paper.pages.blackbox import spsa
from paper.pages.tables import spsa_table
from paper.summaries import Summary

MMC = "cifar10-mmc"
Part = tuple[int, int, int]
"""How many of the few images are right under SPSA's smallest batch, its largest, and PGD-10."""
NEAR, BELOW, HALFWAY = (114, 76, 74), (114, 60, 76), (114, 96, 74)  # of 200


def few(un: Part, tar: Part, images: int = 200, **changes: Any) -> Summary:
    """SPSA on a few images; those that stay right are always the first of them."""
    stages = {}
    for mode, (first, last, _) in (("un", un), ("tar", tar)):
        sizes = {"": first, "-4096": last, "-8192": last}
        stages |= {f"spsa-{mode}-8{end}": 100 * count / images for end, count in sizes.items()}
    return summary(MMC, "spsa-sizes", stages=stages, samples=images, **changes)


def many(un: Part, tar: Part, images: int = 200, late: int = 0, shift: int = 0, **changes: Any) -> Summary:
    """PGD-10 on more images, of which the first are those of SPSA.

    ``shift`` of those that PGD-10 leaves right are others than SPSA's; ``late`` is how many of the later images it
    leaves, which nothing may depend on.
    """
    first = np.arange(images)
    later = np.arange(IMAGES - images) < late
    attacks = []
    for name, count in (("pgd10-un-8", un[2]), ("pgd10-tar-8", tar[2]), ("pgd50-un-8", 36)):
        moved = (first >= shift) & (first < count + shift)
        right = np.concatenate([moved, later])
        attacks.append(stage(name, 100 * right.mean(), right=right))
    clean = np.concatenate([first < round(0.8 * images), later])
    return summary(MMC, "paper-table1", more=tuple(attacks), right=clean, **changes)


def both(un: Part, tar: Part, **changes: Any) -> list[Summary]:
    return [few(un, tar), many(un, tar, **changes)]


@pytest.mark.parametrize(
    ("un", "tar", "verdict"),
    [
        (NEAR, NEAR, "holds"),
        (NEAR, HALFWAY, "holds in part"),
        (HALFWAY, HALFWAY, "holds in part"),
        ((114, 76, 70), NEAR, "holds in part"),  # three points above, but perhaps more than five
        (NEAR, (114, 72, 78), "undecided"),  # three points below, but perhaps more than five
        (NEAR, (114, 68, 76), "undecided"),  # four points below beyond chance: less than five, but perhaps more
        (NEAR, (76, 76, 74), "undecided"),  # no fall, but one of a point is not ruled out
        (NEAR, (114, 108, 107), "undecided"),  # six images fewer: p = 0.031 is not enough for one of two modes
        (BELOW, NEAR, "does not hold"),
        (HALFWAY, BELOW, "does not hold"),
        ((76, 80, 80), NEAR, "does not hold"),  # near PGD-10, but by no fall
    ],
)
def test_the_rule(un: Part, tar: Part, verdict: str) -> None:
    judgement = spsa(shelf(*both(un, tar)))
    assert judgement.verdict == verdict, judgement.reason


def test_a_fall_of_less_than_a_point_is_none_however_sure() -> None:
    un, tar = (507, 500, 500), (570, 500, 500)  # seven images fewer have p = 0.016
    judgement = spsa(shelf(few(un, tar, 1000), many(un, tar, 1000)))
    assert judgement.verdict == "undecided"
    assert "un from 50.7 to 50.0 % of 1,000 images (no fall beyond chance, none ruled out, 7 to 0)" in judgement.reason


def test_on_few_images_below_pgd_is_neither_shown_nor_ruled_out() -> None:
    un, tar = (54, 27, 38), (60, 40, 41)
    things = few(un, tar, 100), many(un, tar, 100, shift=14, late=400)
    judgement = spsa(shelf(*things))
    assert judgement.verdict == "undecided"
    assert (
        "un from 54.0 to 27.0 % of 100 images (a fall beyond chance, 27 to 0); PGD-10 leaves 38.0 % of the same "
        "images, and SPSA ends below it, but not beyond chance: −11.0 points, p = 0.108 (14 to 25 of 100 images), "
        "interval [−24.5, +2.9]"
    ) in judgement.reason
    assert "a sign of masked gradients; these images neither show it beyond chance nor rule it out." in judgement.reason
    assert judgement.reason.endswith("PGD with 50 steps leaves un 36.0 % of them.")
    assert "SPSA ends near it or far from it, which these images cannot tell: −1.0 points" in judgement.reason


def test_below_pgd_beyond_chance_is_a_sign_of_masked_gradients() -> None:
    reason = spsa(shelf(*both(BELOW, NEAR))).reason
    assert "SPSA ends below it beyond chance: −8.0 points, p < 0.001 (0 to 16 of 200 images)" in reason
    assert "is a sign of masked gradients. PGD with 50 steps leaves un 18.0 % of them." in reason


@pytest.mark.parametrize("part", [NEAR, HALFWAY, (114, 76, 70)])
def test_nothing_is_said_of_masked_gradients_where_spsa_is_not_below(part: Part) -> None:
    reason = spsa(shelf(*both(part, part))).reason
    assert "a fall beyond chance" in reason
    assert "masked" not in reason


def test_images_that_spsa_did_not_see_decide_nothing() -> None:
    reasons = {spsa(shelf(*both(NEAR, NEAR, late=late))).reason for late in (0, 900, 1800)}
    assert len(reasons) == 1
    assert "PGD-10 leaves 37.0 % of the same images, and SPSA ends within five points of it" in reasons.pop()


def unlike(things: list[Summary], **changes: Any) -> list[Summary]:
    """The same, with PGD-10 of something else."""
    return [things[0], replace(things[1], **changes)]


def forgetful(things: list[Summary], place: int) -> list[Summary]:
    """The same, with a summary that does not tell the images apart."""
    stages = tuple(replace(each, right=None) for each in things[place].stages)
    return [replace(each, stages=stages) if each is things[place] else each for each in things]


def twisted(things: list[Summary]) -> list[Summary]:
    """The same, with one image that the two evaluations disagree about before any attack."""
    right = things[1].right.copy()
    right[199] = not right[199]
    return unlike(things, right=right)


SKIPPED = stage("pgd10-un-8", 50.0, skipped="it was too slow")
WHOLE = both(NEAR, NEAR)


@pytest.mark.parametrize(
    "things",
    [
        WHOLE[:1],
        WHOLE[1:],
        unlike(WHOLE, model_fingerprint="other weights"),
        unlike(WHOLE, data="cifar100"),
        twisted(WHOLE),
        forgetful(WHOLE, 0),
        forgetful(WHOLE, 1),
        [WHOLE[0], summary(MMC, "paper-table1", stages={"pgd10-un-8": 37.0, "pgd10-tar-8": 37.0}, samples=100)],
        unlike(WHOLE, stages=(SKIPPED,)),
    ],
    ids=["no PGD", "no SPSA", "weights", "data", "answers", "SPSA untold", "PGD untold", "fewer", "skipped"],
)
def test_pgd_on_other_images_is_no_measure(things: list[Summary]) -> None:
    judgement = spsa(shelf(*things))
    assert judgement.verdict == "not measured"
    assert "were not all measured on the same images" in judgement.reason


@pytest.mark.parametrize(("images", "verdict"), [("images 200", "holds"), ("other images", "not measured")])
def test_as_many_images_are_the_same_by_their_fingerprint(images: str, verdict: str) -> None:
    stages = {"pgd10-un-8": 37.0, "pgd10-tar-8": 37.0}
    white_box = summary(MMC, "paper-table1", stages=stages, samples=200, data_fingerprint=images)
    assert spsa(shelf(WHOLE[0], white_box)).verdict == verdict


def test_one_mode_on_the_same_images_is_a_part() -> None:
    alone = replace(WHOLE[1], stages=tuple(each for each in WHOLE[1].stages if each.name != "pgd10-tar-8"))
    judgement = spsa(shelf(WHOLE[0], alone))
    assert judgement.verdict == "holds in part"
    assert judgement.reason.endswith("Not measured: SPSA tar and PGD-10 tar on the same images.")
    assert "| PGD-10 tar, the same images | – | not measured |" in judgement.evidence


def test_the_evidence_has_pgd_on_the_same_images_and_on_all() -> None:
    lines = spsa(shelf(*both(NEAR, NEAR, late=900))).evidence.splitlines()
    assert "| PGD-10 un, the same images | – | 37.0 % [30.3, 44.1] |" in lines
    assert "| PGD-50 un, the same images | – | 18.0 % [12.9, 24.0] |" in lines
    assert any(line.startswith("| PGD-10 un, as in Table 1 | 36.0 | 48.7 % [") for line in lines)


def test_the_table_has_pgd_on_the_same_images_and_on_all() -> None:
    rows = spsa_table(shelf(*both(NEAR, (114, 76, 80), late=900))).splitlines()
    assert rows[-2] == "| PGD-10, white box, the same 200 images | – / 37.0 | – / 40.0 |"
    assert rows[-1] == "| PGD-10, white box, as in Table 1 | 36.0 / 48.7 | 48.7 / 49.0 |"


def test_the_table_does_not_put_other_images_beside_spsa() -> None:
    rows = spsa_table(shelf(*twisted(both(NEAR, NEAR, late=900)))).splitlines()
    assert rows[-2] == "| PGD-10, white box, the same 200 images | – / not measured | – / not measured |"
    assert "48.7" in rows[-1]
    alone = spsa_table(shelf(summary(MMC, "paper-table2", stages={"spsa-tar-8": 61.0}))).splitlines()
    assert alone[-2].startswith("| 8192 |"), "no images of SPSA with larger batches, no row of theirs"


def test_the_number_of_the_papers_images_is_not_told_as_a_fact() -> None:
    page = results_page(shelf(*WHOLE), [])
    assert "the paper does not say how many it took, but its whole percents suggest as many" in page
    assert "as many as in the paper" not in page
