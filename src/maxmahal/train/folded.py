"""The network as crafting sees it: in eval mode batch norm is a fixed map, folded into the layers before it."""

import copy
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks.fold import Pair, find_foldable, fold


class FoldedTwin(nn.Module):
    """A copy of a network for eval mode, without its batch norms; ``refresh`` brings the network's weights over."""

    def __init__(self, network: nn.Module, pairs: tuple[Pair, ...], precision: torch.dtype) -> None:
        super().__init__()
        self.twin = copy.deepcopy(network).eval().requires_grad_(False)
        fold(self.twin, pairs)
        # A linear layer and batch norms of other dimensions have the same attributes as these.
        self._layers = [
            cast(
                tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d],
                (network.get_submodule(layer), network.get_submodule(norm), self.twin.get_submodule(layer)),
            )
            for layer, norm in pairs
        ]
        for layer, _, twin in self._layers:
            twin.to(precision)
            twin.weight.data = torch.empty_like(layer.weight, dtype=precision)  # in the same memory layout
        folded = {name for pair in pairs for name in pair}
        theirs = dict(network.state_dict(keep_vars=True))
        ours = self.twin.state_dict(keep_vars=True)
        self._others = [(theirs[name], ours[name]) for name in ours if name.rpartition(".")[0] not in folded]
        self.refresh()

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """What the network gives in eval mode with the weights of the last refresh."""
        features: Tensor = self.twin(images)
        return features

    @torch.no_grad()
    def refresh(self) -> None:
        """Fold the network's weights as they are now; nothing is read back from the device."""
        for theirs, ours in self._others:
            ours.copy_(theirs)
        for layer, norm, twin in self._layers:
            mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
            scale = torch.rsqrt(variance + norm.eps)
            scale = scale if norm.weight is None else scale * norm.weight
            shift = torch.zeros_like(mean) if norm.bias is None else norm.bias
            mean = mean if layer.bias is None else mean - layer.bias
            torch.mul(layer.weight, scale.view(-1, *[1] * (layer.weight.ndim - 1)), out=twin.weight)
            torch.addcmul(shift, mean, scale, value=-1, out=twin.bias)


def folded_twin(network: nn.Module, precision: torch.dtype) -> FoldedTwin | None:
    """A twin of the network, if it can be copied and has batch norms to fold."""
    try:
        still = copy.deepcopy(network).eval()
    except Exception:  # a user's network may hold anything: locks, handles; it is then used as it is
        return None
    pairs = find_foldable(still).pairs
    return FoldedTwin(network, pairs, precision) if pairs else None
