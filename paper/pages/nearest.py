"""C&W by two searches for its constants: the paper's, as its tables have it, and one that gets caught less often."""

from collections.abc import Sequence

from paper.pages.judging import ours_at
from paper.pages.models import DISTANCES, TITLES, title_of
from paper.pages.shelf import Shelf, ours_text
from paper.pages.tables import markdown

SUITE = "nearest"
_TOLD = (
    "C&W by two searches: *the paper's* goes through constants for an image, halving between those that turned it "
    f"and those that did not; *tracked* (suite `{SUITE}`) follows the constant that the image's own optimum asks for. "
    "Objective, targets and images are the same. Mean L2 distances of what each turned; the lower one is nearer to the "
    "truth wherever it turned as many."
)


def nearest_table(shelf: Shelf, models: Sequence[str]) -> str:
    """Both searches side by side, a row each, with how to read them; empty where ours was run on none of the models."""
    tracked = {stage: [shelf.stage(model, f"{stage}-tracked", (SUITE,)) for model in models] for stage in DISTANCES}
    if not any(any(found) for found in tracked.values()):
        return ""
    body = []
    for stage in DISTANCES:
        body.append([TITLES[stage], "the paper's", *(ours_text(ours_at(shelf, model, stage)) for model in models)])
        body.append([TITLES[stage], "tracked", *map(ours_text, tracked[stage])])
    table = markdown(["attack", "search", *(title_of(shelf, model) for model in models)], body, 2)
    return f"{_TOLD}\n\n{table}"
