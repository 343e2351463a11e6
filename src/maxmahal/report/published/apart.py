"""Where our numbers are far from the paper's under its own protocol, said below the table that shows both."""

from collections.abc import Sequence

from maxmahal.report.published.judging import POINT, ours_at
from maxmahal.report.published.models import TITLES, title_of
from maxmahal.report.published.shelf import Shelf
from maxmahal.report.wording import listed, points

NEAR, FAR = 5.0, 10.0  # points: what still counts as the paper's number, and what a reader should be told of
_CODE = "its code trains a ResNet v2 with bottlenecks, 47 layers deep (`resnet47v2`)"
_NETWORKS = {
    "resnet32": "ResNet-32",
    "resnet110": "ResNet-110",
    "resnet32wide": "ResNet-32 with 256 pooled values (`resnet32wide`)",
    "resnet110wide": "ResNet-110 with 256 pooled values (`resnet110wide`)",
}
_OPEN = (
    f"The paper prints ResNet-32, but {_CODE}; it leaves open the batch and, for losses of others, every setting of "
    "their own (each model's card in [the zoo](../zoo/README.md) has ours). What of this makes the difference was not "
    "measured."
)


def clean_note(shelf: Shelf, models: Sequence[str]) -> str:
    """Which clean accuracies are more than a point from every number that the paper prints for them."""
    apart, near = [], 0
    for model in models:
        ours, printed = shelf.clean(model), [number.value for number in shelf.paper(model, "clean")]
        if ours is None or not printed:
            continue
        gap = min((ours.value - value for value in printed), key=abs)
        near += abs(gap) <= POINT
        apart += [f"{title_of(shelf, model)} ({points(gap / 100)})"] if abs(gap) > POINT else []
    if apart:
        return f"More than a point from the paper on clean images: {listed(apart)}. It prints ResNet-32; {_CODE}."
    told = f"On clean images {near} of {near} without adversarial training are within a point of the paper's numbers."
    return told if near else ""


def apart_note(shelf: Shelf, models: Sequence[str], stages: Sequence[str], table: str) -> str:
    """The models and columns that are so far from the paper's, and what is known of it; empty where none is."""
    found = []
    for model in models:
        gaps = {stage: gap for stage in stages if (gap := _gap(shelf, model, stage, table)) is not None}
        if far := [f"{TITLES[stage]} by {abs(gap):.0f}" for stage, gap in gaps.items() if abs(gap) > FAR]:
            found.append(f"{title_of(shelf, model)} ({', '.join(far)})")
    return f"More than {FAR:.0f} points from the paper's numbers: {listed(found)}. {_OPEN}" if found else ""


def weaker(shelf: Shelf, models: Sequence[str], stages: Sequence[str]) -> list[str]:
    """Models that keep less than the paper prints, by more than seeds would explain, each with its columns."""
    found = []
    for model in models:
        gaps = [(stage, _gap(shelf, model, stage, "")) for stage in stages]
        if low := [TITLES[stage] for stage, gap in gaps if gap is not None and gap < -NEAR]:
            found.append(f"{title_of(shelf, model)} ({', '.join(low)})")
    return found


def networks_note(shelf: Shelf, models: Sequence[str]) -> str:
    """What these models are, each network once; empty where nothing is known of them."""
    known = [str(each.model.get("backbone", "")) for each in shelf.evaluations if each.name in models]
    trained = [run.settings for run in shelf.runs if run.name in models and run.finished]
    known += [str(settings.get("model", {}).get("backbone", "")) for settings in trained]
    named = [_NETWORKS.get(name, f"`{name}`") for name in dict.fromkeys(known) if name]
    return f"Networks: {listed(named)}." if named else ""


def _gap(shelf: Shelf, model: str, stage: str, table: str) -> float | None:
    """Ours less the paper's, in points; of a bound, only what is above it."""
    printed, ours = shelf.paper(model, stage, table), ours_at(shelf, model, stage)
    if not printed or ours is None or ours.rate is None:
        return None
    gap = ours.value - printed[0].value
    return max(gap, 0.0) if printed[0].bound else gap
