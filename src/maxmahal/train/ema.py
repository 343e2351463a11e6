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
        pairs = list(zip(self.model.state_dict().values(), model.state_dict().values(), strict=True))
        moving = [pair for pair in pairs if pair[0].is_floating_point()]
        # One call for all of them: on a GPU two hundred small ones would take longer than the training step itself.
        torch._foreach_lerp_([average for average, _ in moving], [current for _, current in moving], 1 - self._decay)
        for average, current in pairs:
            if not average.is_floating_point():
                average.copy_(current)
