"""The verdict on clean images: MMC against SCE on the same ones, by intervals."""

from collections.abc import Sequence

from maxmahal.records.statistics import Comparison
from paper.pages.both import Scene, on_both
from paper.pages.judging import POINT, Judgement, Verdict, between, evidence, tested
from paper.pages.leads import of_images
from paper.pages.paired import ENOUGH, Difference
from paper.pages.shelf import Shelf, ours_text
from paper.summaries import pair_clean


def clean(shelf: Shelf) -> Judgement:
    """Holds if the interval (95 %) of the difference to SCE stays within a point below it, in part if within two.

    Does not hold if the whole interval is more than a point below; undecided otherwise. Over three training seeds or
    more that both were trained with it is a t interval; over fewer, one of the same images, of one training of each.
    On CIFAR-100 too, where it was measured.
    """
    return on_both(shelf, _clean)


def _clean(shelf: Shelf, scene: Scene) -> Judgement:
    models = (scene.sce, scene.mmc)
    shown = evidence(shelf, models, ("clean",), strong=False) + _seeds(shelf, models)
    pairs = clean_pairs(shelf, *models)
    if not pairs:
        return Judgement("not measured", "SCE and MMC-10 have not both been evaluated on the same images.", shown)
    over_seeds = Difference(tuple(100 * pair.difference for pair in pairs))
    if over_seeds.n >= ENOUGH:
        interval = over_seeds.interval
        told = f"{between(over_seeds.mean, interval)} over {over_seeds.n} training seeds"
    else:
        first = of_images(pairs[0])
        interval = first.interval()
        told = f"{between(first.size, interval)} over the images of one training of each, {tested(pairs[0])}"
    return Judgement(_verdict(*interval), f"MMC-10 less SCE on clean images: {told}.", shown)


def clean_pairs(shelf: Shelf, sce: str, mmc: str) -> list[Comparison]:
    """MMC-10 and SCE of each training seed that both have, on as many of the same clean images as both saw."""
    found = []
    for name in shelf.seeds(sce):
        twin = mmc + name.removeprefix(sce)
        seen = [[each for each in shelf.evaluations if each.name == model] for model in (twin, name)]
        pairs = [(a, b) for a in seen[0] for b in seen[1] if a.data_fingerprint == b.data_fingerprint]
        if pairs:
            found.append(pair_clean(*max(pairs, key=lambda pair: pair[0].samples)))
    return found


def _verdict(low: float, high: float) -> Verdict:
    if low >= -POINT:
        return "holds"
    if high < -POINT:
        return "does not hold"
    return "holds in part" if low >= -2 * POINT else "undecided"


def _seeds(shelf: Shelf, bases: Sequence[str]) -> str:
    """The models of other training seeds, where there are any."""
    twins = [name for base in bases for name in shelf.seeds(base)[1:]]
    return f"\n\nOther training seeds: {', '.join(f'{n} {ours_text(shelf.clean(n))}' for n in twins)}." if twins else ""
