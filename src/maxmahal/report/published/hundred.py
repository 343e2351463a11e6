"""CIFAR-100 beyond the paper: adversarial training of three losses, each against SCE on the same images."""

from maxmahal.evaluate.summary import pair_up
from maxmahal.report.published.judging import said, standing
from maxmahal.report.published.models import ADVERSARIAL_CIFAR100, title_of
from maxmahal.report.published.shelf import NOT_RUN, STRONG, Shelf, ours_text
from maxmahal.report.published.tables import budgets_table, markdown, unmeasured

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
    told = []
    for other in _OTHERS:
        pair = shelf.pair(other, _SCE, STRONG[0])
        if pair is not None:
            found = pair_up(*pair)
            told.append(f"{title_of(shelf, other)} is {_WORDS[standing(found)]} AT (SCE): {said(found)}")
    return f"Under AutoAttack, last checkpoints: {'; '.join(told)}." if told else ""


def _ends(shelf: Shelf) -> list[str]:
    """How the names of models to be set side by side end: last and best checkpoints, other budgets, other seeds."""
    names = [each.name for each in shelf.evaluations]
    found = {name.removeprefix(base) for base in ADVERSARIAL_CIFAR100 for name in names if name.startswith(f"{base}-")}
    return ["", *sorted(found, key=lambda end: (end != "-best", end))]


def _told(end: str) -> str:
    words = end.removeprefix("-").replace("-", ", ")
    return "last" if not words else words if "best" in words else f"{words}, last"
