"""A metric of torchmetrics: the accuracy that is left under an attack."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks import Model, Threat, bind, pgd
from maxmahal.imports import optional
from maxmahal.models import eval_mode

Metric: Any = optional("torchmetrics", "pip install 'maxmahal[torchmetrics]'").Metric


class RobustAccuracy(Metric):  # type: ignore[misc]
    """The share of samples that ``attack`` on ``model`` does not break: an upper bound of the robust accuracy.

        metric = RobustAccuracy(model, Linf("8/255"), steps=20)
        for images, labels in loader:
            metric.update(images, labels)
        metric.compute()

    It watches a training; ``evaluate_model`` measures robustness. ``settings`` are those of the attack. The model is
    attacked in evaluation mode, as it is at that moment, and is not a part of the metric's own state.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    robust: Tensor
    total: Tensor

    def __init__(
        self, model: Model, threat: Threat | str | float, *, attack: Callable[..., Any] = pgd, **settings: object
    ) -> None:
        super().__init__()
        self._model = (model,)  # in a tuple, so that its weights do not become the metric's
        seed = {"seed": 0} if "seed" in inspect.signature(attack).parameters else {}
        self._attack = bind(attack, model, threat=threat, **seed | settings)
        self.add_state("robust", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> None:
        """Attack a batch of images in [0, 1]."""
        (model,) = self._model
        # Validation loops run in inference mode, whose tensors have no gradients.
        with torch.inference_mode(False), torch.enable_grad():
            ids = torch.arange(len(labels), device=labels.device) + int(self.total)
            with eval_mode(model if isinstance(model, nn.Module) else nn.Identity()):
                found = self._attack.run(images.clone(), labels.clone(), ids)
        self.robust = self.robust + (~found.fooled).sum().to(self.device)
        self.total = self.total + len(labels)

    def compute(self) -> Float[Tensor, ""]:
        """The share so far."""
        return self.robust / self.total
