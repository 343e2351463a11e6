"""What the best checkpoint of a training is, for tables that have it beside the last one."""

from collections.abc import Sequence

from maxmahal.report.wording import listed
from paper.pages.models import title_of
from paper.pages.shelf import Shelf
from paper.summaries import BEST

_SCORES = {"validation_pgd10": "PGD-10 accuracy", "validation_accuracy": "accuracy"}


def best_note(shelf: Shelf, models: Sequence[str]) -> str:
    """How the best checkpoints were chosen, and which of them are the last ones; empty where none was measured."""
    weights = {each.name: each.model_fingerprint for each in shelf.evaluations}
    bests = [name for name in models if f"{name}{BEST}" in weights]
    if not bests:
        return ""
    results = [run.result.get("best") or {} for name in bests if (run := shelf.run(name)) is not None]
    scores = {words for result in results for key, words in _SCORES.items() if key in result}
    by = f"the highest {' or '.join(sorted(scores))} on held-out images" if scores else "a score that was not recorded"
    same = [title_of(shelf, name) for name in bests if weights.get(name) == weights[f"{name}{BEST}"]]
    told = f" Of {listed(same)} it is the last one, with the same weights, so that it says nothing new." if same else ""
    return f"Best: the checkpoint of the epoch with {by}.{told}"
