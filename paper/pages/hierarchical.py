"""What HM is, said wherever it stands beside MMC: its centers, how they were chosen, and whether the two differ."""

import math

from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.report.wording import counted
from paper.pages.borrowed import own_trials
from paper.pages.hm_pair import BASE, HM, hm_less_mmc
from paper.pages.judging import tested
from paper.pages.shelf import Shelf
from paper.pages.study_files import validation_score
from paper.pages.trees_study import GIVEN, Family, form_of

TREES = "trees.md"


def hm_brief(shelf: Shelf, folder: str = "") -> str:
    """For a front page; empty where there is no HM."""
    if not shelf.settings(HM):
        return ""
    return (
        f"HM is MMC with hierarchical centers of CIFAR-100's {len(set(CIFAR100_SUPERCLASSES))} superclasses "
        f"(appendix B.3): [does it help, where, and for whom not]({folder}{TREES})."
    )


def hm_note(shelf: Shelf, folder: str = "") -> str:
    """A few sentences with a link to the scan, whose page lies in that folder; empty where there is no HM."""
    settings = shelf.settings(HM)
    if not settings:
        return ""
    form, ratio = form_of(settings.get("centers", {}))
    told_ratio = "" if ratio is None else " with C2 = C1" if _is_one(ratio) else f" with C2/C1 = {ratio:.3g}"
    rates = [shelf.settings(model).get("train", {}).get("lr") for model in (HM, BASE)]
    rate = f" and learning rate ({rates[0]:g})" if rates[0] is not None and rates[0] == rates[1] else ""
    seeds = counted("seed", len(shelf.seeds(HM)))
    groups = len(set(CIFAR100_SUPERCLASSES))
    told = [
        f"HM (`{HM}`) is MMC with hierarchical centers of CIFAR-100's {groups} superclasses (appendix B.3) in "
        f"{form.title}{told_ratio}{_scanned(shelf, form, ratio)} ([the scan of class trees]({folder}{TREES})).",
        f"It takes MMC-10's loss{rate}{_trials(shelf)}, and was trained with {seeds}.",
        _beside_mmc(shelf),
    ]
    return " ".join(sentence for sentence in told if sentence)


def _trials(shelf: Shelf) -> str:
    """Whether its settings were tried; nothing where its training was not collected."""
    run = shelf.run(HM)
    if run is None:
        return ""
    count = len(own_trials(shelf, run))
    return f" after {counted('trial', count)} of its own" if count else " without trials of its own"


def _is_one(ratio: float) -> bool:
    return math.isclose(ratio, 1.0, rel_tol=1e-3)


def _scanned(shelf: Shelf, form: Family, ratio: float | None) -> str:
    """How these centers did among those of the scan on held-out images; empty where it was not collected."""
    scores = {(each, value): score for each in GIVEN for value in each.values if (score := _score(shelf, each, value))}
    own = {value: score for (each, value), score in scores.items() if each == form}
    mine = next((value for value in own if ratio is not None and math.isclose(float(value), ratio, rel_tol=1e-2)), None)
    if mine is None:
        return ""
    best = max(own, key=lambda value: own[value])
    told = f", the best ratio of {form.title} on held-out images ({own[mine]:.1f} %)"
    if best != mine:
        told = f", {own[mine]:.1f} % on held-out images where ratio {best} has {own[best]:.1f} %"
    first, at = max(scores, key=lambda key: scores[key])
    if (first, at) == (form, mine):
        return f"{told}, and the best of all forms of this tree"
    return f"{told}; over all forms of this tree {first.title} at ratio {at} is ahead ({scores[first, at]:.1f} %)"


def _score(shelf: Shelf, family: Family, value: str) -> float | None:
    """On held-out images after the last epoch, in percent, of the seed that the scan was run with."""
    run = shelf.run(f"{family.name}-{value}-seed0")
    score = validation_score(run.epochs) if run is not None and run.finished else None
    return None if score is None else 100 * score


def _beside_mmc(shelf: Shelf) -> str:
    found = hm_less_mmc(shelf)
    if found is None:
        return ""
    how = found.how if found.pair is None else f"on the same images, {tested(found.pair)}"
    return f"On clean images HM less MMC-10 is {found.gap.told} ({how}): {found.verdict}."
