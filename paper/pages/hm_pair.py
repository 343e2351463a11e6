"""HM beside MMC-10 on clean images: how far apart they are, and how that is known."""

from dataclasses import dataclass

from maxmahal.records.statistics import Comparison
from paper.pages.leads import Gap, of_counts, of_images
from paper.pages.shelf import Shelf
from paper.summaries import pair_clean

HM, BASE = "cifar100-hm", "cifar100-mmc"


@dataclass(frozen=True)
class CleanGap:
    """How many points HM is ahead, over all images that are known of both."""

    gap: Gap
    images: int
    pair: Comparison | None
    """Image by image; None where only their counts are known."""

    @property
    def how(self) -> str:
        """On which images it was counted."""
        return "same images" if self.pair is not None else f"by counts of {self.images:,} images, not paired"

    @property
    def verdict(self) -> str:
        """Whether other images might have said the opposite."""
        return "more than chance over images explains" if self.gap.leaves_out_zero else "not to be told apart"


def hm_less_mmc(shelf: Shelf) -> CleanGap | None:
    """Image by image where both were seen on all of them, else by the counts alone; None of different numbers."""
    ours, theirs = shelf.clean(HM), shelf.clean(BASE)
    if ours is None or theirs is None or ours.rate is None or theirs.rate is None or ours.samples != theirs.samples:
        return None
    seen = [[each for each in shelf.evaluations if each.name == name] for name in (HM, BASE)]
    pairs = [(a, b) for a in seen[0] for b in seen[1] if a.data_fingerprint == b.data_fingerprint]
    whole = [pair_clean(*pair) for pair in pairs if {each.samples for each in pair} == {ours.samples}]
    pair = next(iter(whole), None)  # of two models all pairs of all images say the same
    gap = of_counts(ours.rate, theirs.rate) if pair is None else of_images(pair)
    return CleanGap(gap, ours.samples, pair)
