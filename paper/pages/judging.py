"""What a rule hands back, and the small steps that rules are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from maxmahal.records.statistics import Comparison
from maxmahal.report.wording import p_told, points
from paper.pages.measured import Measured
from paper.pages.models import TITLES, title_of
from paper.pages.shelf import STRONG, Shelf, ours_text, paper_text, worst_case
from paper.pages.tables import markdown
from paper.summaries import Summary, pair_up

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not measured"]
ALPHA = 0.05  # of the paired test
POINT = 1.0  # percentage points: what is less makes no difference to anybody who would use the model


@dataclass(frozen=True)
class Judgement:
    """A verdict, why, and the numbers it was made from."""

    verdict: Verdict
    reason: str
    evidence: str
    """Markdown."""


def ours_at(shelf: Shelf, model: str, stage: str) -> Measured | None:
    """A stage of the paper's protocol, clean images among them."""
    return shelf.clean(model) if stage == "clean" else shelf.stage(model, stage)


def evidence(shelf: Shelf, models: Sequence[str], stages: Sequence[str], *, strong: bool = True) -> str:
    """A column a model and a row an attack, the paper's number before ours; worst cases below."""
    header = ["paper / ours", *(title_of(shelf, model) for model in models)]
    body = [[TITLES[stage], *(_both(shelf, model, stage) for model in models)] for stage in stages]
    if strong:
        body += [[suite, *(ours_text(shelf.robust(model, suite)) for model in models)] for suite in STRONG]
    return markdown(header, body)


def _both(shelf: Shelf, model: str, stage: str) -> str:
    return f"{paper_text(shelf.paper(model, stage)) or '–'} / {ours_text(ours_at(shelf, model, stage))}"


def strong_pair(shelf: Shelf, first: str, second: str) -> tuple[Summary, Summary] | None:
    """Two models on the same images under the first of the strong suites that saw both."""
    return next((pair for suite in STRONG if (pair := shelf.pair(first, second, suite)) is not None), None)


def both_worst(shelf: Shelf, first: str, second: str, suite: str) -> list[Measured | None]:
    """What a suite left of two models: on the images on which they are paired, else on as many as each has."""
    pair = shelf.pair(first, second, suite)
    return (
        [shelf.robust(name, suite) for name in (first, second)]
        if pair is None
        else [worst_case([each]) for each in pair]
    )


def standing(
    comparison: Comparison, least: float = 0.0, chance: float | None = None
) -> Literal["ahead", "tied", "behind"]:
    """Where the first model stands: a difference counts if the paired test sees it and it is of some size.

    ``chance`` is the test's p value where it was corrected because there are others.
    """
    if (comparison.p_value if chance is None else chance) >= ALPHA or abs(100 * comparison.difference) < least:
        return "tied"
    return "ahead" if comparison.difference > 0 else "behind"


def strong_standing(shelf: Shelf, model: str, others: Sequence[str]) -> Literal["ahead", "tied", "behind"] | None:
    """Of a model against others at worst: ahead of all that were measured, behind one, or neither."""
    seen = {found for other in others if (found := beside(shelf, model, other)) is not None}
    if not seen:
        return None
    return "behind" if "behind" in seen else "tied" if "tied" in seen else "ahead"


def beside(shelf: Shelf, model: str, other: str) -> Literal["ahead", "tied", "behind"] | None:
    """Where a model stands at worst beside one other.

    Where nothing is left of either they are tied whoever attacked them: on a thousand images or more that bounds both
    below what a lead has to be.
    """
    pair = strong_pair(shelf, model, other)
    if pair is not None:
        return standing(pair_up(*pair), POINT)
    return "tied" if nothing_stands(shelf, (model, other)) else None


def nothing_stands(shelf: Shelf, models: Sequence[str]) -> bool:
    """Of models that were all attacked, under every strong suite that saw them.

    One that was not has nothing that could be left or lost; and a suite that broke all of a few images says nothing of
    another's survivors among many.
    """
    worst = [[found for suite in STRONG if (found := shelf.robust(model, suite)) is not None] for model in models]
    return all(each and all(found.rate is not None and found.rate.count == 0 for found in each) for each in worst)


def mean_clean(shelf: Shelf, *groups: Sequence[str]) -> list[float] | None:
    """Each group's mean accuracy on clean images; only of models that saw as many of them as one of every group."""
    seen = [[each for model in group if (each := shelf.clean(model)) is not None] for group in groups]
    common = set.intersection(*({each.samples for each in found} for found in seen))
    if not common:
        return None
    values = [[each.value for each in found if each.samples == max(common)] for found in seen]
    return [sum(each) / len(each) for each in values]


def said(comparison: Comparison, chance: float | None = None) -> str:
    """A paired comparison in a table's cell; ``chance`` as in :func:`standing`."""
    return f"{points(comparison.difference)} points, {_split(comparison, chance)}"


def tested(comparison: Comparison) -> str:
    """The paired test alone: "p = 0.385 (362 to 338 of 10,000 images)"."""
    return _split(comparison, None)


def bounded(comparison: Comparison, interval: tuple[float, float], chance: float) -> str:
    """A paired comparison with its interval in points; ``chance`` as in :func:`standing`."""
    return f"{between(100 * comparison.difference, interval)}, {_split(comparison, chance)}"


def _split(comparison: Comparison, chance: float | None) -> str:
    test = p_told(comparison.p_value if chance is None else chance)
    split = f"{comparison.first_only} to {comparison.second_only} of {comparison.total:,} images"
    return f"{test} ({split})"


def between(size: float, interval: tuple[float, float]) -> str:
    """ "+0.2 points [−0.3, +0.8]", of a difference in points."""
    low, high = (points(end / 100) for end in interval)
    return f"{points(size / 100)} points [{low}, {high}]"


def share(checks: Sequence[bool]) -> Verdict:
    """Of several checks: all, some or none of them passed."""
    return "holds" if all(checks) else "holds in part" if any(checks) else "does not hold"
