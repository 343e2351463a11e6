"""The study: every score of a model on errors, on out-of-distribution images and under attacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from maxmahal.attacks import Engine, Linf, apgd, custom, parse_epsilon
from maxmahal.attacks.objectives import Objective, Outputs, margin, model_outputs
from maxmahal.attacks.result import Result
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.evaluated_model import EvaluatedModel, check_fit, first_images, load_images, load_targets
from maxmahal.imports import only_named
from maxmahal.models import Classifier, Head
from maxmahal.train.device import pick_device
from maxmahal.uncertainty.measures import auroc, best_risk_area, expected_calibration_error, risk_area
from maxmahal.uncertainty.ood import ood_images
from maxmahal.uncertainty.record import Detection, ModelUncertainty, ScoreResult, UncertaintyRecord
from maxmahal.uncertainty.scores import Score, scores_for

DEFAULT_OOD = ("scrambled", "turned")  # transformed test images, which need no other data
FALSE_ALARMS = 0.05  # the share of clean images that a detector may flag
_BATCH = 500


@dataclass(frozen=True)
class DetectorAttack:
    """APGD against a model with a detector."""

    epsilon: float | str
    seed: int = 0
    steps: int = 50

    def __call__(self, model: Classifier, data: ImageData, score: Score | None = None) -> Result:
        """Stop at a wrong prediction; with a score, take every step and keep the most certain wrong prediction."""
        return apgd(
            model,
            data.float_images(),
            data.labels,
            objective=margin() if score is None else evading(score, model.head),
            threat=Linf(self.epsilon),
            steps=self.steps,
            seed=self.seed,
            sample_ids=data.sample_ids,
            engine=Engine(early_exit=score is None),
        )


def evading(score: Score, head: Head) -> Objective:
    """The margin while the prediction is correct, then the score: first wrong, then as certain as possible.

    The score is mapped to values below zero, so that any wrong prediction is better than any correct one.
    """

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        gap = margin()(outputs, labels, targets)
        unsure = score(head, outputs)
        return torch.where(gap >= 0, gap, unsure / (1 + unsure.abs()) - 1)

    return custom(value, name=f"evading-{score.name}")


def study_models(
    targets: Sequence[str],
    *,
    ood: Sequence[str] = (),
    epsilon: str = "8/255",
    data: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "auto",
) -> UncertaintyRecord:
    """Run folders, checkpoints or ``zoo:NAME`` on the test part of ``data`` or their own; code runs if ``trusted``."""
    parse_epsilon(epsilon)
    chosen = tuple(dict.fromkeys(ood)) or DEFAULT_OOD
    with only_named([*targets], data, chosen, trusted):
        loaded = load_targets(targets, trusted, device)
        images = first_images(load_images(loaded, data, data_dir), limit).to(pick_device(device))
        given = {Path(name).stem: ood_images(name, images, data_dir) for name in chosen}
    attack = DetectorAttack(epsilon, seed)
    models = tuple(study_model(target, images, given, attack) for target in loaded.values())
    return UncertaintyRecord(epsilon, seed, attack.steps, tuple(given), models)


def study_model(
    target: EvaluatedModel, data: ImageData, ood: Mapping[str, Float[Tensor, "m c h w"]], attack: DetectorAttack
) -> ModelUncertainty:
    """Every score of one model on clean, out-of-distribution and adversarial images."""
    model = target.model
    if not isinstance(model, Classifier):
        raise ArgumentError(
            f"{target.name} shows no features and no loss, so its uncertainty cannot be studied; "
            "give a run folder or a checkpoint of `maxmahal train`."
        )
    check_fit(target, data)
    clean = _outputs(model, data.float_images())
    right = (clean.logits.argmax(dim=1) == data.labels).cpu().numpy()
    others = {name: _outputs(model, images) for name, images in ood.items()}
    ignored = attack(model, data)
    scores = []
    for score in scores_for(model.head):
        usual = _values(score, model, clean)
        scores.append(
            ScoreResult(
                score=score.name,
                misclassification=auroc(usual[~right], usual[right]),
                risk_area=risk_area(usual, right),
                ood={name: auroc(_values(score, model, each), usual) for name, each in others.items()},
                ignoring=_detection(score, model, ignored, usual),
                evading=_detection(score, model, attack(model, data, score), usual),
            )
        )
    confidences = clean.logits.double().softmax(dim=1).amax(dim=1).cpu().numpy()
    settings = None if target.card is None else target.card.settings
    return ModelUncertainty(
        name=target.name,
        loss=type(model.head).__name__ if settings is None else settings.loss.name,
        seed=0 if settings is None else settings.train.seed,
        data=data.name,
        samples=len(data),
        accuracy=float(right.mean()),
        calibration_error=expected_calibration_error(confidences, right),
        best_risk_area=best_risk_area(right),
        fingerprint=target.fingerprint,
        scores=tuple(scores),
    )


def _detection(score: Score, model: Classifier, attacked: Result, usual: Float[np.ndarray, " n"]) -> Detection:
    fooled = attacked.fooled.cpu().numpy()
    values = _values(score, model, _outputs(model, attacked.images))
    undetected = fooled & (values <= np.quantile(usual, 1 - FALSE_ALARMS))
    return Detection(float(fooled.mean()), auroc(values[fooled], usual), float(undetected.mean()))


def _values(score: Score, model: Classifier, outputs: Outputs) -> Float[np.ndarray, " n"]:
    with torch.no_grad():
        return np.asarray(score(model.head, outputs).double().cpu().numpy())


def _outputs(model: Classifier, images: Float[Tensor, "n c h w"]) -> Outputs:
    with torch.no_grad():
        parts = [model_outputs(model, batch) for batch in torch.split(images, _BATCH)]
    features = torch.cat([part.features for part in parts if part.features is not None])
    return Outputs(torch.cat([part.logits for part in parts]), features)
