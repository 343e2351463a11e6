"""Small models with fixed weights for the tests of attacks."""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from maxmahal.attacks import Outputs, Prepared
from maxmahal.losses import MMC
from maxmahal.models import Classifier, SmallCNN

_ABLE = dict.fromkeys(("project", "random_start", "descend", "distances"), abs)
NO_BALL = SimpleNamespace(radius=0.1, bounds=(0, 1), **_ABLE)
"""A threat that is neither L∞ nor L2."""


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def uniform(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


class Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


class Curved(nn.Module):
    """One hidden layer; ``row_by_row`` rounds each image's numbers the same way in any company."""

    def __init__(self, seed: int = 0, pixels: int = 16, classes: int = 4, *, row_by_row: bool = False) -> None:
        super().__init__()
        self.first = nn.Parameter(normal(seed, 12, pixels))
        self.second = nn.Parameter(normal(seed + 1, classes, 12))
        self.row_by_row = row_by_row

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1) - 0.5
        if self.row_by_row:
            return torch.stack([self._logits(row) for row in pixels])
        return self._logits(pixels)

    def _logits(self, pixels: Tensor) -> Tensor:
        return (pixels @ self.first.T).tanh() @ self.second.T


class Pretender(Prepared):
    """A search of our choice beside a model it is not equivalent to."""

    def __init__(self, original: nn.Module, search: Callable[[Tensor], Tensor]) -> None:
        nn.Module.__init__(self)
        self.eval()
        self._pair = (original, search)

    @property
    def original(self) -> nn.Module:
        return self._pair[0]

    def search(self, images: Tensor) -> Outputs:
        return Outputs(self._pair[1](images))

    def query(self, images: Tensor) -> Outputs:
        return self.search(images)


def curved_classifier(images: Tensor) -> Classifier:
    """An untrained network whose centers are four images' own features, so that all classes are predicted."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = SmallCNN(image_size=(8, 8), feature_dim=6, width=4).eval()
    with torch.no_grad():
        centers = 10 * backbone(images[:4])
    backbone.feature.weight.data *= 10
    backbone.feature.bias.data *= 10
    return Classifier(backbone, MMC(centers)).eval()


def predictions(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model(images).argmax(dim=1)


class Recorder(nn.Module):
    """A model that remembers what it was shown."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seen = model, []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.detach().clone())
        return self.model(images)
