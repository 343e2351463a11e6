"""Every sample with its outcome under each attack, the recorded adversarial images, and the features."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import Evaluation, Picture, Points, StageRecords
from maxmahal.records.verdict import CLEAN, first_broken
from maxmahal.report.chart import CLASSES, data_uri
from maxmahal.report.layout import ReportedModel, stage_title

_BYTES = 3_000_000  # of one model's pictures, so that a page can be sent by mail
_GREY = 0.5
SIDE, _EDGE = 400.0, 20.0
_MOST = 600  # points per panel: more would hide each other
FeatureWindow = tuple[Float[np.ndarray, " 2"], float]
"""The middle of a square, and half of its side."""


@dataclass(frozen=True)
class AttackedImage:
    """A picture and its three images as addresses of their own PNGs."""

    picture: Picture
    factor: float  # by which the perturbation is amplified
    clean: str
    perturbation: str
    adversarial: str


def samples_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Filters for all samples of one model, and all of its recorded pictures; nothing before its first result."""
    (model,) = models
    if not model.verdict:
        return {}
    evaluation = model.evaluation
    labels = np.unique(evaluation.stage(CLEAN).columns.label).tolist()
    attacked = [
        (place, stage) for place, stage in enumerate(evaluation.stages) if stage.name != CLEAN and len(stage.columns)
    ]
    first = choose(evaluation.pictures)  # one per sample, then the others
    others = [each for each in evaluation.pictures if not any(each is other for other in first)]
    images = attacked_images([*first, *others])
    places = {stage.name: place for place, stage in enumerate(evaluation.stages)}
    return {"model": model, "labels": labels, "attacks": attacked, "images": images, "places": places, **_NAMES}


def across_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing unless two models have a result."""
    begun = [model for model in models if model.verdict]
    return {"data": list(dict.fromkeys(model.evaluation.data for model in begun))} if len(begun) > 1 else {}


def sample_record(model: ReportedModel) -> dict[str, object]:
    """The verdict on a model and what became of each of its samples, for the page's script and other programs."""
    evaluation, verdict = model.evaluation, model.verdict
    names = ("data", "suite", "suite_version", "norm", "epsilon", "finished", "class_names")
    facts: dict[str, object] = {"model": model.label, **{name: getattr(evaluation, name) for name in names}}
    if verdict is None:
        return facts
    clean = evaluation.stage(CLEAN).columns
    first, prediction = first_broken(evaluation), clean.clean_prediction.copy()
    for place, stage in enumerate(evaluation.stages):
        fell = np.isin(clean.sample, stage.columns.sample) & (first == place)
        prediction[fell] = stage.columns.prediction[np.isin(stage.columns.sample, clean.sample[fell])]
    return facts | {
        "clean_accuracy": verdict.clean.value,
        "robust_accuracy": verdict.robust.value if verdict.attacked else None,
        "robust_interval": verdict.robust.interval if verdict.attacked else None,
        "trust": verdict.trust,
        "sentence": verdict.sentence,
        "attacks": [
            {
                "name": each.stage.name,
                "title": each.stage.title,
                "counts": each.stage.counts,
                "accuracy": each.accuracy.value if each.accuracy else None,
                "cumulative": each.cumulative,
                "outcomes": _outcomes(clean.sample, each.stage),
            }
            for each in verdict.stages
        ],
        "sample": clean.sample.tolist(),
        "label": clean.label.tolist(),
        "clean_prediction": clean.clean_prediction.tolist(),
        "first_broken_by": first.tolist(),
        "prediction": prediction.tolist(),
    }


def _outcomes(samples: np.ndarray, stage: StageRecords) -> str:
    """One letter per sample: "1" if it is wrong under the attack, "0" if it is correct, "-" if it was not attacked."""
    letters = np.full(len(samples), "-")
    letters[np.searchsorted(samples, stage.columns.sample)] = np.where(stage.columns.right_share < 0.5, "1", "0")
    return "".join(letters.tolist())


def attacked_images(pictures: Sequence[Picture]) -> list[AttackedImage]:
    """All of them; every second, third, ... pixel only if they would make the page too large."""
    step, images = 1, [_attacked_image(each, 1) for each in pictures]
    smallest = min((min(each.clean.shape[1:]) for each in pictures), default=1)
    while sum(len(each.clean + each.perturbation + each.adversarial) for each in images) > _BYTES and step < smallest:
        step += 1
        images = [_attacked_image(each, step) for each in pictures]
    return images


def choose(pictures: Sequence[Picture]) -> list[Picture]:
    """One picture per sample, of as many different attacks as possible."""
    by_sample: dict[int, list[Picture]] = {}
    for picture in pictures:
        by_sample.setdefault(picture.sample, []).append(picture)
    return [several[turn % len(several)] for turn, several in enumerate(by_sample.values())]


def _attacked_image(picture: Picture, step: int) -> AttackedImage:
    clean, adversarial = (each[:, ::step, ::step] for each in (picture.clean, picture.adversarial))
    shown, factor = amplify(adversarial.astype("float64") - clean.astype("float64"))
    return AttackedImage(picture, factor, data_uri(clean), data_uri(shown), data_uri(adversarial))


def amplify(perturbation: Float[np.ndarray, "c h w"]) -> tuple[Float[np.ndarray, "c h w"], float]:
    """The perturbation around mid-grey, as strong as possible without clipping, and by which factor that is."""
    largest, factor = float(np.abs(perturbation).max(initial=0.0)), 1.0
    if largest:
        unit = 10.0 ** (math.floor(math.log10(_GREY / largest)) - 1)
        factor = math.floor(_GREY / largest / unit + 1e-6) * unit  # two digits, rounded down
    return _GREY + factor * perturbation, factor


def class_name(evaluation: Evaluation, label: int) -> str:
    """The class's name, or its number if the data set has no name for it."""
    names = evaluation.class_names
    return names[label] if 0 <= label < len(names) else f"class {label}"


_NAMES = {"class_name": class_name, "stage_title": stage_title}


def feature_space_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no record holds features."""
    (model,) = models
    panels = [_panel(model.evaluation, points) for points in model.evaluation.points]
    return {"model": model, "panels": panels, "colours": CLASSES, "side": SIDE, **_NAMES} if panels else {}


def bounds_of(evaluation: Evaluation) -> FeatureWindow:
    """The middle of everything there is to draw, and half the side of the square around it."""
    clouds = [points.xy for points in evaluation.points]
    if evaluation.centers_xy is not None:
        clouds.append(evaluation.centers_xy)
    every = np.concatenate(clouds).astype(np.float64)
    every = every[np.isfinite(every).all(axis=1)]
    if not len(every):
        return np.zeros(2), 1.0
    low, high = every.min(axis=0), every.max(axis=0)
    return (low + high) / 2, float((high - low).max() / 2) or 1.0


def _panel(evaluation: Evaluation, points: Points) -> dict[str, object]:
    """One scatter plot: the places, samples and labels of some dots, and how many samples there are."""
    some = np.unique(np.linspace(0, len(points.sample) - 1, min(_MOST, len(points.sample))).astype(int))
    some = some[np.isfinite(points.xy[some]).all(axis=1)]
    bounds, centers = bounds_of(evaluation), evaluation.centers_xy
    columns = place_points(points.xy[some], bounds), points.sample[some], points.label[some]
    return {
        "stage": points.stage,
        "dots": list(zip(*(column.tolist() for column in columns), strict=True)),
        "centers": [] if centers is None else place_points(centers, bounds).tolist(),
        "of": len(points.sample),
    }


def place_points(xy: Float[np.ndarray, "n 2"], bounds: FeatureWindow) -> Float[np.ndarray, "n 2"]:
    """Where features are in the square drawing."""
    middle, half = bounds
    relative = (xy.astype(np.float64) - middle) / half
    return SIDE / 2 + relative * np.array([1, -1]) * (SIDE / 2 - _EDGE)
