"""CIFAR-100 beyond the paper: adversarial training of three losses, each against SCE on the same images."""

from itertools import combinations

from maxmahal.evaluate.summary import pair_up
from maxmahal.report.published.judging import said, standing
from maxmahal.report.published.leads import holm
from maxmahal.report.published.models import ADVERSARIAL_CIFAR100, title_of
from maxmahal.report.published.shelf import NOT_RUN, STRONG, Shelf, ours_text
from maxmahal.report.published.tables import budgets_table, markdown, unmeasured
from maxmahal.report.wording import listed

GRID = "adversarial-cifar100"
_SCE, *_OTHERS = ADVERSARIAL_CIFAR100
_WORDS = {"ahead": "ahead of", "tied": "not to be told apart from", "behind": "behind"}


def hundred_models(shelf: Shelf) -> list[str]:
    """The models of the comparison: last checkpoints, then best ones and other budgets and seeds that were measured."""
    measured = {each.name for each in shelf.evaluations}
    more = [base + end for base in ADVERSARIAL_CIFAR100 for end in _ends(shelf) if end]
    return [*ADVERSARIAL_CIFAR100, *(name for name in more if name in measured)]


def losses_table(shelf: Shelf) -> str:
    """What each of them keeps, clean and under attack."""
    models = hundred_models(shelf)
    measured = {each.name for each in shelf.evaluations}
    return budgets_table(shelf, models) if measured & set(models) else unmeasured(GRID)


def losses_pairs(shelf: Shelf) -> str:
    """Each loss against SCE on the same images, checkpoint by checkpoint; empty where nothing was measured."""
    body = []
    for end in _ends(shelf):
        for other in _OTHERS:
            for suite in STRONG:
                cells = [shelf.robust(base + end, suite) for base in (_SCE, other)]
                if any(cells):
                    pair = shelf.pair(other + end, _SCE + end, suite)
                    told = NOT_RUN if pair is None else said(pair_up(*pair))
                    body.append([_told(end), title_of(shelf, other), suite, *map(ours_text, cells), told])
    header = ["checkpoint", "loss", "suite", "AT (SCE)", "this loss", "ahead of SCE by, exact McNemar test"]
    return markdown(header, body, 3) if body else ""


def losses_verdict(shelf: Shelf) -> str:
    """Where the last checkpoints stand under AutoAttack, as sentences; empty where no two were compared."""
    found = {
        f"{first} {second}": (first, second, pair_up(*pair))
        for second, first in combinations(ADVERSARIAL_CIFAR100, 2)
        if (pair := shelf.pair(first, second, STRONG[0])) is not None
    }
    if not found:
        return ""
    chances = holm({name: each.p_value for name, (_, _, each) in found.items()})
    told = []
    for name, (first, second, gap) in found.items():
        where = _WORDS[standing(gap, chance=chances[name])]
        told.append(f"{title_of(shelf, first)} is {where} {title_of(shelf, second)}: {said(gap, chances[name])}")
    many = f", p by Holm's method over these {len(found)} comparisons" if len(found) > 1 else ""
    return f"Under AutoAttack, last checkpoints{many}: {'; '.join(told)}. {_clean(shelf)}{_fit(shelf)}".rstrip()


def _clean(shelf: Shelf) -> str:
    """What the losses keep on clean images, one training seed each."""
    known = [(title_of(shelf, name), shelf.clean(name)) for name in ADVERSARIAL_CIFAR100]
    told = [f"{title} {clean.value:.1f} %" for title, clean in known if clean is not None]
    return f"On clean images: {listed(told)}. One training seed each: what another would change is in no p. "


def _fit(shelf: Shelf) -> str:
    """How far the trainings came; a short one may end before a loss has fallen far."""
    told = []
    for name in ADVERSARIAL_CIFAR100:
        run = shelf.run(name)
        if run is not None and run.finished and run.epochs:
            first, last = (entry["train_loss"] for entry in (run.epochs[0], run.epochs[-1]))
            told.append(f"{title_of(shelf, name)} from {first:.1f} to {last:.1f} in {len(run.epochs)} epochs")
    return f"The losses on attacked training images fell with {listed(told)}." if told else ""


def _ends(shelf: Shelf) -> list[str]:
    """How the names of models to be set side by side end: last and best checkpoints, other budgets, other seeds."""
    names = [each.name for each in shelf.evaluations]
    found = {name.removeprefix(base) for base in ADVERSARIAL_CIFAR100 for name in names if name.startswith(f"{base}-")}
    return ["", *sorted(found, key=lambda end: (end != "-best", end))]


def _told(end: str) -> str:
    words = end.removeprefix("-").replace("-", ", ")
    return "last" if not words else words if "best" in words else f"{words}, last"
