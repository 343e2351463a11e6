"""Some adversarial images: each with the clean image and the perturbation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from maxmahal.records.types import Evaluation, Picture
from maxmahal.report.chart import data_uri
from maxmahal.report.layout import ReportedModel, stage_title

_BYTES = 1_200_000  # of all pictures, so that the page can be sent by mail
_EACH = 6
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


def gallery_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """Nothing if no record holds images."""
    shown = [model for model in models if model.evaluation.pictures]
    models_shown = []
    for model in shown:
        pictures = model.evaluation.pictures
        chosen = choose(pictures)[:_EACH]
        images = _within(_BYTES // len(shown), [_attacked_image(each) for each in chosen])
        models_shown.append((model, images, len(pictures)))
    names = {"class_name": class_name, "stage_title": stage_title}
    return {"models": models_shown, **names} if shown else {}


def choose(pictures: Sequence[Picture]) -> list[Picture]:
    """One picture per sample, of as many different attacks as possible."""
    by_sample: dict[int, list[Picture]] = {}
    for picture in pictures:
        by_sample.setdefault(picture.sample, []).append(picture)
    return [several[turn % len(several)] for turn, several in enumerate(by_sample.values())]


def _within(budget: int, images: list[AttackedImage]) -> list[AttackedImage]:
    """As many of the first ones as fit, at least one."""
    kept, spent = images[:1], sum(each.size for each in images[:1])
    for each in images[1:]:
        spent += each.size
        if spent > budget:
            break
        kept.append(each)
    return kept


def _attacked_image(picture: Picture) -> AttackedImage:
    shown, factor = amplify(picture.adversarial.astype("float64") - picture.clean.astype("float64"))
    return AttackedImage(picture, factor, data_uri(picture.clean), data_uri(shown), data_uri(picture.adversarial))


def amplify(perturbation: Float[np.ndarray, "c h w"]) -> tuple[Float[np.ndarray, "c h w"], float]:
    """The perturbation around mid-grey, as strong as possible without clipping, and by which factor that is."""
    largest = float(np.abs(perturbation).max(initial=0.0))
    factor = _two_digits_down(_GREY / largest) if largest else 1.0
    return _GREY + factor * perturbation, factor


def _two_digits_down(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.floor(value / unit + 1e-6) * unit


def class_name(evaluation: Evaluation, label: int) -> str:
    """The class's name, or its number if the data set has no name for it."""
    names = evaluation.class_names
    return names[label] if 0 <= label < len(names) else f"class {label}"
