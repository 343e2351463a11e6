"""What a model says about a batch, as objectives see it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.models import Classifier


@dataclass(frozen=True)
class Outputs:
    """Logits, and the features behind them; ``features`` is None for a model that shows none."""

    logits: Float[Tensor, "n l"]
    features: Float[Tensor, "n d"] | None = None


def model_outputs(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Outputs:
    """Logits, and the features behind them where the model shows them."""
    if isinstance(model, Classifier) and type(model).forward is Classifier.forward:
        features = model.features(images)
        return Outputs(model.head.logits(features), features)
    return Outputs(model(images))
