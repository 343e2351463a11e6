"""What the networks share: the feature layer after the pooling, and the initial weights."""

from torch import nn


def feature_layer(width: int, feature_dim: int | None) -> tuple[nn.Module, int]:
    """The linear layer that ends in the feature space, and the dimension it ends in.

    Features after ReLU and pooling are never negative, while all centers but one have negative coordinates: without
    this layer training towards them converges only at very small learning rates.
    """
    if feature_dim is None:
        return nn.Identity(), width
    return nn.Linear(width, feature_dim), feature_dim


def initialise(network: nn.Module) -> None:
    """He's initialisation for convolutions; the rest keeps PyTorch's defaults."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_in", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
