"""CIFAR-100 beyond the paper: adversarial training of three losses, each against the others on the same images."""

from dataclasses import dataclass
from itertools import combinations

from maxmahal.data.registry import SOURCES
from maxmahal.records.statistics import Comparison
from maxmahal.report.wording import listed, points
from paper import reproduce
from paper.pages.checkpoints import best_note
from paper.pages.judging import ALPHA, both_worst, bounded, said, standing
from paper.pages.leads import holm, of_images
from paper.pages.models import ADVERSARIAL_CIFAR100, title_of
from paper.pages.rates import other_rates, rates_note, same_rate
from paper.pages.shelf import NOT_RUN, STRONG, Shelf, ours_text
from paper.pages.tables import budgets_table, markdown, unmeasured
from paper.pages.trainings import schedules
from paper.pages.undertrained import RISING, rise
from paper.summaries import BEST, pair_up

GRID, WHOLE = "adversarial-cifar100", "adversarial-cifar100-whole"
_SCE, _MMC, _ = ADVERSARIAL_CIFAR100
_WORDS = {"ahead": "ahead of", "tied": "not to be told apart from", "behind": "behind"}
_LINK = "README.md#adversarial-training-of-three-losses"


@dataclass(frozen=True)
class Compared:
    """Two losses on the same images, under one suite."""

    first: str
    second: str
    pair: Comparison
    chance: float
    """The test's p by Holm's method over all pairs of losses."""
    confidence: float
    """Of one interval, so that those of all pairs hold together."""

    def __str__(self) -> str:
        """The difference with its interval and the test."""
        return bounded(self.pair, of_images(self.pair).interval(self.confidence), self.chance)


def hundred_models(shelf: Shelf) -> list[str]:
    """The models of the comparison: last checkpoints, then best ones and other budgets and seeds that were measured."""
    measured = {each.name for each in shelf.evaluations}
    more = [base + end for base in ADVERSARIAL_CIFAR100 for end in _ends(shelf) if end]
    return [*ADVERSARIAL_CIFAR100, *(name for name in more if name in measured)]


def losses_note(shelf: Shelf) -> str:
    """How they were trained, and what a best checkpoint is; for above the tables."""
    parts = ["Untargeted PGD-10 at 8/255.", schedules(shelf, ADVERSARIAL_CIFAR100)]
    parts.append(best_note(shelf, ADVERSARIAL_CIFAR100))
    return " ".join(part for part in parts if part)


def losses_table(shelf: Shelf) -> str:
    """What each of them keeps, clean and under attack."""
    models = hundred_models(shelf)
    measured = {each.name for each in shelf.evaluations}
    return budgets_table(shelf, models) if measured & set(models) else unmeasured(GRID)


def losses_pairs(shelf: Shelf) -> str:
    """Every two losses on the same images, checkpoint by checkpoint; empty where nothing was measured.

    Of other budgets, seeds and rates a loss that was measured alone is no row: nobody promised the rest.
    """
    body = []
    for end in _ends(shelf):
        for suite in STRONG:
            found = {(each.first, each.second): each for each in compared(shelf, suite, end)}
            for second, first in combinations([base + end for base in ADVERSARIAL_CIFAR100], 2):
                each = found.get((first, second))
                cells = both_worst(shelf, first, second, suite)
                if all(cells) or (any(cells) and end in ("", BEST)):
                    told = NOT_RUN if each is None else said(each.pair, each.chance)
                    names = [title_of(shelf, name.removesuffix(end)) for name in (first, second)]
                    body.append([_told(end), suite, *names, *map(ours_text, cells), told])
    last = "ahead by, exact McNemar test, p by Holm's method per checkpoint and suite"
    return markdown(["checkpoint", "suite", "loss", "beside", "this loss", "the other", last], body, 4) if body else ""


def compared(shelf: Shelf, suite: str = STRONG[0], end: str = "") -> list[Compared]:
    """Every two losses that a suite saw on the same images, of the models whose names end alike."""
    pairs = {
        (first, second): pair_up(*pair)
        for second, first in combinations([base + end for base in ADVERSARIAL_CIFAR100], 2)
        if (pair := shelf.pair(first, second, suite)) is not None
    }
    chances = holm({" ".join(names): pair.p_value for names, pair in pairs.items()})
    confidence = 1 - ALPHA / max(len(pairs), 1)
    return [Compared(*names, pair, chances[" ".join(names)], confidence) for names, pair in pairs.items()]


def losses_verdict(shelf: Shelf, folder: str = "") -> str:
    """Where the last checkpoints stand under AutoAttack, as sentences; empty where no two were compared.

    Links go to pages in that folder.
    """
    found = compared(shelf)
    if not found:
        return ""
    told = [_stands(shelf, each) for each in found]
    many = f", p by Holm's method over these {len(found)} comparisons, intervals of 95 % for all of them together"
    head = f"Under AutoAttack, last checkpoints{many if len(found) > 1 else ''}: {'; '.join(told)}."
    parts = [head, _few(found), rates_note(shelf, folder), other_rates(shelf), _clean(shelf)]
    return " ".join(part for part in parts if part)


def losses_brief(shelf: Shelf, folder: str = "") -> str:
    """The same for a front page: who is ahead, without numbers, and where these and their limits stand."""
    found = compared(shelf)
    if not found:
        return ""
    told = "; ".join(_place(shelf, each) for each in found)
    seeds = ", one training seed each" if shelf.one_seed(ADVERSARIAL_CIFAR100) else ""
    return (
        f"AT{seeds}, under AutoAttack: {told}. With intervals{_explained(shelf, found)}: "
        f"[three losses]({folder}{_LINK})."
    )


def _explained(shelf: Shelf, found: list[Compared]) -> str:
    """What else than the losses may be behind a difference."""
    alike = all(same_rate(shelf, each.first, each.second) for each in found) and not other_rates(shelf)
    told = [] if alike else ["learning rates"]
    rises = [rise(shelf.run(name)) for name in ADVERSARIAL_CIFAR100]
    told += ["too few epochs"] if any(each is not None and each[0] > RISING for each in rises) else []
    return f", and with what {listed(told)} may explain" if told else ""


def beside_ten(shelf: Shelf) -> str:
    """What CIFAR-100 shows of AT (MMC-10) beside AT (SCE), for a claim that it does not decide; empty without it."""
    found = next((each for each in compared(shelf) if (each.first, each.second) == (_MMC, _SCE)), None)
    if found is None:
        return ""
    clean = [each.value for name in (_MMC, _SCE) if (each := shelf.clean(name)) is not None]
    gap = f" and {points((clean[0] - clean[1]) / 100)} points on clean images" if len(clean) > 1 else ""
    return (
        " On CIFAR-100, where the paper has no adversarial training and which decides nothing here, AT (MMC-10) less "
        f"AT (SCE) is {found} under AutoAttack (p and interval for all pairs of its losses together){gap} "
        f"([three losses]({_LINK}))."
    )


def _stands(shelf: Shelf, each: Compared) -> str:
    return f"{_place(shelf, each)}: {each}"


def _place(shelf: Shelf, each: Compared) -> str:
    where = _WORDS[standing(each.pair, chance=each.chance)]
    other = "" if same_rate(shelf, each.first, each.second) else ", which was trained at another learning rate"
    return f"{title_of(shelf, each.first)} is {where} {title_of(shelf, each.second)}{other}"


def _few(found: list[Compared]) -> str:
    """That models which a few images do not tell apart need not be equal; empty where they were all the images."""
    tied = [each.pair.total for each in found if standing(each.pair, chance=each.chance) == "tied"]
    if not tied or min(tied) >= sum(SOURCES["cifar100"].class_counts["test"]):
        return ""
    return (
        f"What is not told apart need not be equal: {min(tied):,} images cannot tell differences of a few points, and "
        f"{reproduce(WHOLE)} would look at all of them."
    )


def _clean(shelf: Shelf) -> str:
    """What the losses keep on clean images, one training seed each."""
    known = [(title_of(shelf, name), shelf.clean(name)) for name in ADVERSARIAL_CIFAR100]
    told = [f"{title} {clean.value:.1f} %" for title, clean in known if clean is not None]
    seeds = (
        " One training seed each: what another would change is in no p." if shelf.one_seed(ADVERSARIAL_CIFAR100) else ""
    )
    return f"On clean images: {listed(told)}.{seeds}"


def _ends(shelf: Shelf) -> list[str]:
    """How the names of models to be set side by side end: last and best checkpoints, other budgets, other seeds."""
    names = [each.name for each in shelf.evaluations]
    found = {name.removeprefix(base) for base in ADVERSARIAL_CIFAR100 for name in names if name.startswith(f"{base}-")}
    return ["", *sorted(found, key=lambda end: (end != BEST, end))]


def _told(end: str) -> str:
    words = end.removeprefix("-").replace("-", ", ")
    return "last" if not words else words if "best" in words else f"{words}, last"
