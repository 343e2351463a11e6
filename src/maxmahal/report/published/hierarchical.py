"""What HM is, said wherever it stands beside MMC: its centers, how they were chosen, and whether the two differ."""

import math
from typing import Any

from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.evaluate.statistics import points_apart
from maxmahal.evaluate.summary import pair_clean
from maxmahal.report.published.judging import between, tested
from maxmahal.report.published.leads import of_images
from maxmahal.report.published.shelf import Shelf

HM, _MMC = "cifar100-hm", "cifar100-mmc"
TREES = "trees.md"
_FORMS = {"orthogonal": "orthogonal subspaces", "shared": "shared coordinates"}


def hm_note(shelf: Shelf, folder: str = "") -> str:
    """A few sentences with a link to the scan, whose page lies in that folder; empty where there is no HM."""
    settings = settings_of(shelf, HM)
    if not settings:
        return ""
    centers = settings.get("centers", {})
    form, ratio = _FORMS.get(centers.get("subspaces", ""), "coordinates of some form"), _ratio(centers.get("norms", []))
    rates = [settings_of(shelf, model).get("train", {}).get("lr") for model in (HM, _MMC)]
    rate = f" and learning rate ({rates[0]:g})" if rates[0] is not None and rates[0] == rates[1] else ""
    groups = len(set(CIFAR100_SUPERCLASSES))
    told = [
        f"HM (`{HM}`) is MMC with hierarchical centers of CIFAR-100's {groups} superclasses (appendix B.3) in {form}"
        f"{ratio}, a form and a ratio chosen on held-out images from [the scan of class trees]({folder}{TREES}).",
        f"It takes MMC-10's loss{rate} without trials of its own, and was trained with one seed.",
        _beside_mmc(shelf),
    ]
    return " ".join(sentence for sentence in told if sentence)


def settings_of(shelf: Shelf, model: str) -> dict[str, Any]:
    """As its training wrote them down, or what was evaluated."""
    run = shelf.run(model)
    if run is not None:
        return run.settings
    return next((dict(each.model.get("settings", {})) for each in shelf.evaluations if each.name == model), {})


def _ratio(norms: list[float]) -> str:
    if len(norms) != 2 or not norms[0]:
        return ""
    ratio = norms[1] / norms[0]
    return " with C2 = C1" if math.isclose(ratio, 1.0, rel_tol=1e-3) else f" with C2/C1 = {ratio:.3g}"


def _beside_mmc(shelf: Shelf) -> str:
    """HM less MMC-10 on clean images: image by image where both were seen on all of them, else by the counts alone."""
    ours, theirs = shelf.clean(HM), shelf.clean(_MMC)
    if ours is None or theirs is None or ours.rate is None or theirs.rate is None or ours.samples != theirs.samples:
        return ""
    seen = [[each for each in shelf.evaluations if each.name == model] for model in (HM, _MMC)]
    pairs = [(a, b) for a in seen[0] for b in seen[1] if a.data_fingerprint == b.data_fingerprint]
    whole = [pair_clean(*pair) for pair in pairs if pair[0].samples == ours.samples]
    if whole:
        gap = of_images(whole[0])
        size, interval, how = gap.size, gap.interval(), f"on the same images, {tested(whole[0])}"
    else:
        size, *ends = points_apart(ours.rate, theirs.rate)
        interval, how = (ends[0], ends[1]), f"by counts of {ours.samples:,} images, not paired"
    apart = interval[0] > 0 or interval[1] < 0
    verdict = "more than chance over images explains" if apart else "not to be told apart"
    return f"On clean images HM less MMC-10 is {between(size, interval)} ({how}): {verdict}."
