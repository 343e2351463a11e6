"""What the last layer of any model sees, with or without a gradient to the images."""

from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.models import Classifier


class Features(nn.Module):
    """A classifier's features; of any other module the input of its last linear layer; the logits where neither is.

    The model is not a submodule of this one, so that nothing done to this one reaches it.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.eval()
        self._models = (model,)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """One vector an image."""
        (model,) = self._models
        if isinstance(model, Classifier) and type(model).forward is Classifier.forward:
            return model.features(images)
        with _linear_inputs(model) as seen:
            logits: Tensor = model(images)
        fits = bool(seen) and seen[-1].ndim == 2 and len(seen[-1]) == len(images)
        return seen[-1] if fits else logits


@contextmanager
def _linear_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """The inputs of the model's linear layers in the order in which they are used; no hook is left behind."""
    seen: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:  # noqa: ARG001
        seen[:] = inputs[:1]

    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    handles = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
