"""Training a small model for a figure: no folder, no checkpoints, and someone may watch."""

from collections.abc import Callable

import numpy as np
import torch

from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.models import Classifier, eval_mode, map_batches
from maxmahal.random import stream_key
from maxmahal.train import METHODS, Settings, new_classifier
from maxmahal.train.device import lay_out
from maxmahal.train.loop import Silent, train_epoch
from maxmahal.train.optimiser import build_optimiser
from maxmahal.train.step import make_step

Watch = Callable[[Classifier, int], None]


class _Watching(Silent):
    """A reporter that shows the model after every step."""

    def __init__(self, model: Classifier, watch: Watch) -> None:
        self._model, self._watch, self._taken = model, watch, 0

    def step(self) -> None:
        """One more step is done."""
        self._taken += 1
        self._watch(self._model, self._taken)


def fit(settings: Settings, data: ImageData, watch: Watch | None = None) -> Classifier:
    """The model that ``maxmahal train`` would make of these settings; ``watch`` sees it before and after each step."""
    device = settings.on(data.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key("run", settings.train.seed))
        model = new_classifier(settings, data)
        lay_out(model, device)
        step = make_step(model, build_optimiser(model, settings.train), settings.method.build(METHODS), None, device)
        reporter = Silent() if watch is None else _Watching(model, watch)
        if watch is not None:
            watch(model, 0)
        for epoch in range(settings.train.epochs):
            train_epoch(model, step, data, settings, epoch, reporter)
    return model.eval()


def features_of(model: Classifier, data: ImageData) -> np.ndarray:
    """The features of every image, as the model would answer now."""
    with eval_mode(model):
        features: np.ndarray = map_batches(model.features, data).double().numpy()
    return features


def centers_of(model: Classifier) -> np.ndarray | None:
    """Where a model's centers are now, preset or following the features; None without any."""
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
