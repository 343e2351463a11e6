"""A moving average of a model's weights, which is what gets evaluated and saved."""

import copy

import torch

from maxmahal.models import Classifier


class WeightAverage:
    """``average ← decay·average + (1 - decay)·weights`` after every step, batch-norm statistics included."""

    def __init__(self, model: Classifier, decay: float) -> None:
        self.model: Classifier = copy.deepcopy(model).requires_grad_(False)
        self._decay = decay

    @torch.no_grad()
    def update(self, model: Classifier) -> None:
        """Move a little towards ``model``."""
        for average, current in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if average.is_floating_point():
                average.lerp_(current, 1 - self._decay)
            else:
                average.copy_(current)
