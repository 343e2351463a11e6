"""The study itself: one model, every score, every task."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.attacks.objectives import Outputs, model_outputs
from maxmahal.attacks.result import Attacked
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.target import EvaluatedModel, check_fit
from maxmahal.models import Classifier
from maxmahal.uncertainty.evading import STEPS, evade_detector, ignore_detector
from maxmahal.uncertainty.measures import auroc, best_risk_area, expected_calibration_error, risk_area
from maxmahal.uncertainty.record import Detection, ModelResult, ScoreResult
from maxmahal.uncertainty.scores import Score, scores_for

ALARMS = 0.05  # the share of clean images that a detector may take for attacks
_BATCH = 500


@dataclass(frozen=True)
class Attacker:
    """What the attacks may do."""

    epsilon: str
    seed: int = 0
    steps: int = STEPS


def study_model(
    subject: EvaluatedModel, data: ImageData, strangers: Mapping[str, Float[Tensor, "m c h w"]], attacker: Attacker
) -> ModelResult:
    """Every score of one model on clean, strange and adversarial images."""
    model = subject.model
    if not isinstance(model, Classifier):
        raise ArgumentError(
            f"{subject.name} shows no features and no loss, so its uncertainty cannot be studied; "
            "give a run folder or a checkpoint of `maxmahal train`."
        )
    check_fit(subject, data)
    images = data.float_images()
    clean = _outputs(model, images)
    right = (clean.logits.argmax(dim=1) == data.labels).cpu().numpy()
    given = {name: _outputs(model, batch) for name, batch in strangers.items()}
    ignored = ignore_detector(
        model,
        images,
        data.labels,
        data.sample_ids,
        epsilon=attacker.epsilon,
        seed=attacker.seed,
        steps=attacker.steps,
    )
    scores = []
    for score in scores_for(model.head):
        usual = _values(score, model, clean)
        evaded = evade_detector(
            model,
            images,
            data.labels,
            data.sample_ids,
            score=score,
            epsilon=attacker.epsilon,
            seed=attacker.seed,
            steps=attacker.steps,
        )
        scores.append(
            ScoreResult(
                score=score.name,
                misclassification=auroc(usual[~right], usual[right]),
                risk_area=risk_area(usual, right),
                strangers={name: auroc(_values(score, model, each), usual) for name, each in given.items()},
                ignoring=_detection(score, model, ignored, usual),
                evading=_detection(score, model, evaded, usual),
            )
        )
    confidences = clean.logits.double().softmax(dim=1).amax(dim=1).cpu().numpy()
    settings = None if subject.card is None else subject.card.settings
    return ModelResult(
        name=subject.name,
        loss=type(model.head).__name__ if settings is None else settings.loss.name,
        seed=0 if settings is None else settings.train.seed,
        data=data.name,
        samples=len(data),
        accuracy=float(right.mean()),
        calibration_error=expected_calibration_error(confidences, right),
        best_risk_area=best_risk_area(right),
        fingerprint=subject.fingerprint,
        scores=tuple(scores),
    )


def _detection(score: Score, model: Classifier, attacked: Attacked, usual: Float[np.ndarray, " n"]) -> Detection:
    fooled = attacked.fooled.cpu().numpy()
    values = _values(score, model, _outputs(model, attacked.images))
    unsuspicious = values <= np.quantile(usual, 1 - ALARMS)
    return Detection(
        fooled=float(fooled.mean()),
        auroc=auroc(values[fooled], usual),
        undetected=float((fooled & unsuspicious).mean()),
    )


def _values(score: Score, model: Classifier, outputs: Outputs) -> Float[np.ndarray, " n"]:
    with torch.no_grad():
        return np.asarray(score(model.head, outputs).double().cpu().numpy())


def _outputs(model: Classifier, images: Float[Tensor, "n c h w"]) -> Outputs:
    with torch.no_grad():
        parts = [model_outputs(model, batch) for batch in torch.split(images, _BATCH)]
    features = torch.cat([part.features for part in parts if part.features is not None])
    return Outputs(torch.cat([part.logits for part in parts]), features)
