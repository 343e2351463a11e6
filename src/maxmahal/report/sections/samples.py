"""Every sample with its outcome under each attack, and the recorded adversarial images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import Evaluation, Picture, StageRecords
from maxmahal.records.verdict import CLEAN, first_broken
from maxmahal.report.chart import data_uri
from maxmahal.report.layout import ReportedModel, stage_title

_BYTES = 3_000_000  # of one model's pictures, so that a page can be sent by mail
_GREY = 0.5


@dataclass(frozen=True)
class AttackedImage:
    """A picture and its three images as addresses of their own PNGs."""

    picture: Picture
    factor: float
    """By which the perturbation is amplified."""
    clean: str
    perturbation: str
    adversarial: str

    @property
    def size(self) -> int:
        """In bytes of the page."""
        return len(self.clean) + len(self.perturbation) + len(self.adversarial)


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
    names = {"class_name": class_name, "stage_title": stage_title}
    places = {stage.name: place for place, stage in enumerate(evaluation.stages)}
    return {"model": model, "labels": labels, "attacks": attacked, "images": images, "places": places, **names}


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
    while sum(each.size for each in images) > _BYTES and step < smallest:
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
