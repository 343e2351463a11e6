"""The way an attack takes through feature space, step by step."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks import Linf, Objective, craft, model_outputs
from maxmahal.models import Classifier, eval_mode


@dataclass(frozen=True)
class Followed:
    """Where every sample was after 0, 1, 2, … steps."""

    features: np.ndarray
    """(steps + 1, n, d)"""
    predictions: np.ndarray
    """(steps + 1, n)"""


@dataclass(frozen=True)
class Walk:
    """How an attack moves: the paper's Fig. 3b has epsilon 0.3, steps of 0.01 and 50 of them."""

    epsilon: float = 0.3
    step_size: float = 0.01
    steps: int = 50


def follow(
    model: Classifier,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    objective: Objective,
    walk: Walk,
    targets: Int[Tensor, " n"] | None = None,
) -> Followed:
    """PGD from the clean images themselves, looked at after each step; where the gradient is zero nothing moves."""
    threat, ids = Linf(walk.epsilon), torch.arange(len(images))
    here, features, predictions = images, [], []
    with eval_mode(model):
        for step in range(walk.steps + 1):
            with torch.no_grad():
                outputs = model_outputs(model, here)
            features.append(model_features(outputs.features))
            predictions.append(outputs.logits.argmax(dim=1).numpy())
            if step < walk.steps:
                here = craft(
                    model,
                    images,
                    labels,
                    objective=objective,
                    threat=threat,
                    steps=1,
                    step_size=walk.step_size,
                    seed=0,
                    sample_ids=ids,
                    targets=targets,
                    start=here,
                )
    return Followed(np.stack(features), np.stack(predictions))


def zero_gradients(
    model: Classifier,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    objective: Objective,
) -> float:
    """The share of the images at which the objective's gradient is exactly zero, pixel by pixel."""
    asked = images.clone().requires_grad_()
    with eval_mode(model):
        values = objective(model_outputs(model, asked), labels, None)
        (gradient,) = torch.autograd.grad(values.sum(), asked)
    return float((gradient == 0).flatten(1).all(dim=1).double().mean())


def model_features(features: Tensor | None) -> np.ndarray:
    """As numbers for a drawing."""
    plain: np.ndarray = torch.zeros(0, 2).numpy() if features is None else features.double().numpy()
    return plain
