"""SPSA beside PGD-10 on the very same images: every verdict of the rule, and the table."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_up_summaries import IMAGES, published, stage, summary

from maxmahal.records.statistics import Comparison
from paper.pages.claims import judge_spsa
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
        (NEAR, NEAR, "yes"),
        (NEAR, HALFWAY, "in part"),
        (HALFWAY, HALFWAY, "in part"),
        ((114, 76, 70), NEAR, "in part"),  # three points above, but perhaps more than five
        (NEAR, (114, 72, 78), "undecided"),  # three points below, but perhaps more than five
        (NEAR, (114, 68, 76), "undecided"),  # four points below beyond chance: less than five, but perhaps more
        (NEAR, (76, 76, 74), "undecided"),  # no fall, but one of a point is not ruled out
        (NEAR, (114, 108, 107), "undecided"),  # six images fewer: p = 0.031 is not enough for one of two modes
        (BELOW, NEAR, "no"),
        (HALFWAY, BELOW, "no"),
        ((76, 80, 80), NEAR, "no"),  # near PGD-10, but by no fall
    ],
)
def test_the_rule(un: Part, tar: Part, verdict: str) -> None:
    assert judge_spsa(published(*both(un, tar))).reproduced == verdict


def test_a_fall_of_less_than_a_point_is_none_however_sure() -> None:
    un, tar = (507, 500, 500), (570, 500, 500)  # seven images fewer have p = 0.016
    found = judge_spsa(published(few(un, tar, 1000), many(un, tar, 1000)))
    assert (found.reproduced, found.facts["modes"]["un"].fall) == ("undecided", "open")


def test_on_few_images_below_pgd_is_neither_shown_nor_ruled_out() -> None:
    un, tar = (54, 27, 38), (60, 40, 41)
    found = judge_spsa(published(few(un, tar, 100), many(un, tar, 100, shift=14, late=400)))
    assert found.reproduced == "undecided"
    below, near = (found.facts["modes"][mode] for mode in ("un", "tar"))
    assert (below.end, below.beside_pgd) == ("perhaps below", Comparison(14, 25, 100))
    assert below.interval == pytest.approx((-24.5, 2.9), abs=0.05)
    assert near.end == "open"
    assert found.facts["pgd50"] == {"un": pytest.approx(36)}


def test_images_that_spsa_did_not_see_decide_nothing() -> None:
    found = [judge_spsa(published(*both(NEAR, NEAR, late=late))) for late in (0, 900, 1800)]
    assert {(each.reproduced, each.facts["modes"]["un"].pgd.mean()) for each in found} == {("yes", 0.37)}


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
    assert judge_spsa(published(*things)).reproduced == "not measured"


@pytest.mark.parametrize(("images", "verdict"), [("images 200", "yes"), ("other images", "not measured")])
def test_as_many_images_are_the_same_by_their_fingerprint(images: str, verdict: str) -> None:
    stages = {"pgd10-un-8": 37.0, "pgd10-tar-8": 37.0}
    white_box = summary(MMC, "paper-table1", stages=stages, samples=200, data_fingerprint=images)
    assert judge_spsa(published(WHOLE[0], white_box)).reproduced == verdict


def test_one_mode_on_the_same_images_is_a_part() -> None:
    alone = replace(WHOLE[1], stages=tuple(each for each in WHOLE[1].stages if each.name != "pgd10-tar-8"))
    found = judge_spsa(published(WHOLE[0], alone))
    assert (found.reproduced, found.missing[0]) == ("in part", "SPSA tar and PGD-10 tar on the same images")


def test_the_table_has_pgd_on_the_same_images_and_on_all() -> None:
    rows = spsa_table(published(*both(NEAR, (114, 76, 80), late=900))).splitlines()
    assert rows[-3:] == [
        "| PGD-10, the same 200 images | – / 37.0 | – / 40.0 |",
        "| PGD-50, the same 200 images | – / 18.0 | – / not run |",
        "| PGD-10, all images (Table 1) | 36.0 / 48.7 | 48.7 / 49.0 |",
    ]


def test_the_table_does_not_put_other_images_beside_spsa() -> None:
    rows = spsa_table(published(*twisted(both(NEAR, NEAR, late=900)))).splitlines()
    assert rows[-3] == "| PGD-10, the same 200 images | – / not run | – / not run |"
    alone = spsa_table(published(summary(MMC, "paper-table2", stages={"spsa-tar-8": 61.0}))).splitlines()
    assert alone[-2].startswith("| SPSA, batch 8192 |"), "no images of SPSA with larger batches, no row of theirs"
