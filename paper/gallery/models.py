"""Small models for figures: trained without a folder or checkpoints, and attacked step by step."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks import Linf, Objective, craft, model_outputs
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, eval_mode, map_batches
from maxmahal.random import stream_key
from maxmahal.train import METHODS, Settings, new_classifier
from maxmahal.train.device import lay_out
from maxmahal.train.loop import Silent, train_epoch
from maxmahal.train.optimiser import build_optimiser
from maxmahal.train.step import step_kind


def fit(settings: Settings, data: ImageData) -> Classifier:
    """The model that ``maxmahal train`` would make of these settings."""
    device = settings.on(data.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key("run", settings.train.seed))
        model = new_classifier(settings, data)
        lay_out(model, device)
        optimiser = build_optimiser(model, settings.train)
        step = step_kind(device)(model, optimiser, settings.method.build(METHODS), None, device)
        for epoch in range(settings.train.epochs):
            train_epoch(model, step, data, settings, epoch, Silent())
    return model.eval()


def features_of(model: Classifier, data: ImageData) -> np.ndarray:
    """The features of every image."""
    with eval_mode(model):
        features: np.ndarray = map_batches(model.features, data).double().numpy()
    return features


def centers_of(model: Classifier) -> np.ndarray | None:
    """The model's current class centers; None without any."""
    centers = model.head.class_centers
    return None if centers is None else centers.detach().double().numpy().copy()


def linear_logits(model: Classifier) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of logits that are linear in the features, up to a term that all classes share."""
    linear = getattr(model.head, "linear", None)
    if isinstance(linear, torch.nn.Linear):
        return linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()
    centers = centers_of(model)
    if centers is None:
        raise ArgumentError(f"Decision regions need a linear head or centers; {type(model.head).__name__} has neither.")
    return centers, -0.5 * (centers**2).sum(axis=1)


@dataclass(frozen=True)
class AttackPaths:
    """Where every sample was after 0, 1, 2, … steps."""

    features: np.ndarray
    """(steps + 1, n, d)"""
    predictions: np.ndarray
    """(steps + 1, n)"""


@dataclass(frozen=True)
class PathSettings:
    """The attack of the paper's Fig. 3b."""

    epsilon: float = 0.3
    step_size: float = 0.01
    steps: int = 50


def follow(
    model: Classifier,
    images: Float[Tensor, "n c h w"],
    labels: Int[Tensor, " n"],
    objective: Objective,
    walk: PathSettings,
    targets: Int[Tensor, " n"] | None = None,
) -> AttackPaths:
    """PGD from the clean images, recorded after each step; with a zero gradient nothing moves."""
    threat, ids = Linf(walk.epsilon), torch.arange(len(images))
    here, features, predictions = images, [], []
    with eval_mode(model):
        for step in range(walk.steps + 1):
            with torch.no_grad():
                outputs = model_outputs(model, here)
            if outputs.features is None:
                raise ArgumentError("Attack paths need a model with features.")
            features.append(outputs.features.double().numpy())
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
    return AttackPaths(np.stack(features), np.stack(predictions))


def zero_gradients(
    model: Classifier, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], objective: Objective
) -> float:
    """The share of the images at which the objective's gradient is exactly zero, pixel by pixel."""
    asked = images.clone().requires_grad_()
    with eval_mode(model):
        values = objective(model_outputs(model, asked), labels, None)
        (gradient,) = torch.autograd.grad(values.sum(), asked)
    return float((gradient == 0).flatten(1).all(dim=1).double().mean())
