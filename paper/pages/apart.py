"""Where our numbers are far from the paper's under its own protocol, said below the table that shows both."""

import math
from collections.abc import Sequence
from functools import cache

from maxmahal.models import BACKBONES
from maxmahal.report.wording import listed, points
from paper import reproduce
from paper.pages.judging import POINT, ours_at
from paper.pages.models import DAMPED, DISTANCES, TITLES, data_of, network_title, title_of
from paper.pages.shelf import Shelf

QUARTER = 0.25  # of a distance
NEAR, FAR = 5.0, 10.0  # points: what still counts as the paper's number, and what a reader should be told of
_CODES_NETWORK, _CODES_BATCH = "resnet47v2", 50
_CODE = f"its code trains a ResNet v2 with bottlenecks, 47 layers deep (`{_CODES_NETWORK}`)"
_IMAGE, _FEATURES = (3, 32, 32), 256
_MIXED = ", so that networks differ in more than depth: in this, and in batch and rate where these say so below."
_OPEN = (
    f"The paper prints ResNet-32, but {_CODE}; it leaves open the batch and, for losses of others, every setting of "
    "their own (each model's card in [the zoo](../zoo/README.md) has ours). What of this makes the difference was not "
    "measured."
)


def clean_note(shelf: Shelf, models: Sequence[str], table: str) -> str:
    """Which clean accuracies are more than a point from those of the paper's table above, and what is known of it."""
    known = {model: gap for model in models if (gap := _gap(shelf, model, "clean", table)) is not None}
    apart = {model: gap for model, gap in known.items() if abs(gap) > POINT}
    if not known:
        return ""
    if not apart:
        told = f"On clean images {len(known)} of {len(known)} without adversarial training are within a point of the "
        return f"{told}paper's numbers."
    names = listed([f"{title_of(shelf, model)} ({_told(shelf, model, gap, table)})" for model, gap in apart.items()])
    return f"More than a point from {table} on clean images: {names}. {_shared(known)}{_untested(shelf, models)}"


def _told(shelf: Shelf, model: str, gap: float, table: str) -> str:
    """The gap, and another one where another of the paper's tables prints another number for the same model."""
    here = shelf.paper(model, "clean", table)[0].value
    others = [number for number in shelf.paper(model, "clean") if number.value != here]
    elsewhere = [
        f"{points((gap + here - number.value) / 100)} from {number.source.partition(',')[0]}" for number in others
    ]
    return "; ".join([points(gap / 100), *elsewhere])


def _shared(known: dict[str, float]) -> str:
    """That SCE is as short as MMC or almost, so that it is not this loss which costs most of it."""
    gaps = [next((gap for model, gap in known.items() if model.endswith(end)), 0.0) for end in ("-sce", "-mmc")]
    if not 2 * gaps[0] < gaps[1] < 0:  # short by more than half as much
        return ""
    short = f"SCE is short as well, by {-gaps[0]:.1f} points where MMC-10 is by {-gaps[1]:.1f}"
    return f"{short}, so most of the gap is shared by both losses. "


def _untested(shelf: Shelf, models: Sequence[str]) -> str:
    """What the paper's code does otherwise, which nobody has tested."""
    ways = dict.fromkeys(way for model in models if (way := _way(shelf, model)) is not None)
    ours = "; ".join(f"`{network}` with {parameters(network):,}, batches of {batch}" for network, batch in ways)
    here = f" (ours: {ours})" if ours else ""
    grid = "released" if data_of(models[0]) == "cifar10" else f"released-{data_of(models[0])}"
    return (
        f"The paper prints ResNet-32, but {_CODE}, of {parameters(_CODES_NETWORK):,} parameters, in batches of "
        f"{_CODES_BATCH}{here}. What of this makes the difference was not measured; "
        f"{reproduce(grid)} would tell what the network does."
    )


def _way(shelf: Shelf, model: str) -> tuple[str, int] | None:
    """Its network, where it is one of ours, and its batch."""
    settings = shelf.settings(model)
    network, batch = settings.get("model", {}).get("backbone"), settings.get("train", {}).get("batch_size")
    return None if network not in BACKBONES or not batch else (str(network), int(batch))


@cache
def parameters(network: str) -> int:
    """How many a network of ours has, with as many features as the paper's code."""
    return sum(each.numel() for each in BACKBONES[network](_IMAGE, _FEATURES).parameters())


def apart_note(shelf: Shelf, models: Sequence[str], stages: Sequence[str], table: str) -> str:
    """The models and columns that are so far from the paper's, and what is known of it; empty where none is."""
    found = []
    for model in models:
        gaps = {stage: gap for stage in stages if (gap := _gap(shelf, model, stage, table)) is not None}
        if far := [f"{TITLES[stage]} by {abs(gap):.0f}" for stage, gap in gaps.items() if abs(gap) > FAR]:
            found.append(f"{title_of(shelf, model)} ({', '.join(far)})")
    return f"More than {FAR:.0f} points from the paper's numbers: {listed(found)}. {_OPEN}" if found else ""


def distances_apart(shelf: Shelf, models: Sequence[str], table: str) -> str:
    """C&W's mean distances that are not the paper's by more than a quarter, as ratios; empty where none is."""
    found = []
    for model in models:
        ratios = {stage: ratio for stage in DISTANCES if (ratio := _ratio(shelf, model, stage, table)) is not None}
        if far := [f"{TITLES[stage]} {ratio:.2g} times" for stage, ratio in ratios.items() if abs(ratio - 1) > QUARTER]:
            found.append(f"{title_of(shelf, model)} ({', '.join(far)})")
    return f"C&W's distances are more than a quarter from the paper's: {listed(found)}." if found else ""


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
    names = [name for name in dict.fromkeys(known) if name]
    damped = [f"`{name}`" for name in names if name in DAMPED]
    told = ""
    if damped:
        told = f" Blocks start damped in {listed(damped)}, where MMC diverged otherwise at a shallow network's rate"
        told += _MIXED if len(names) > len(damped) else "."
    return f"Networks: {listed([network_title(name) for name in names])}.{told}" if names else ""


def _ratio(shelf: Shelf, model: str, stage: str, table: str) -> float | None:
    """Ours over the paper's."""
    printed, ours = shelf.paper(model, stage, table), ours_at(shelf, model, stage)
    if not printed or ours is None or math.isnan(ours.value) or not printed[0].value:
        return None
    return ours.value / printed[0].value


def _gap(shelf: Shelf, model: str, stage: str, table: str) -> float | None:
    """Ours less the paper's, in points; of a bound, only what is above it."""
    printed, ours = shelf.paper(model, stage, table), ours_at(shelf, model, stage)
    if not printed or ours is None or ours.rate is None:
        return None
    gap = ours.value - printed[0].value
    return max(gap, 0.0) if printed[0].bound else gap
