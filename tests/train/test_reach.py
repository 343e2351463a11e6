"""Networks that cannot bring features to all centers say so before they are trained."""

import pytest
import torch
from torch import Tensor, nn

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.data import ImageData
from maxmahal.losses import EMC, MMC, MMLDA, SCE
from maxmahal.models import BACKBONES, Classifier
from maxmahal.models.head import Head
from maxmahal.train import out_of_reach

CENTERS = max_mahalanobis_centers(100, 256, norm=10.0)
SHAPE = (3, 32, 32)
IMAGES, LABELS = torch.zeros(2, *SHAPE, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
DATA = ImageData.from_arrays("black", IMAGES, LABELS, [str(each) for each in range(100)])


def told(backbone: nn.Module, head: Head) -> str:
    return out_of_reach(Classifier(backbone, head), DATA)


@pytest.mark.parametrize("head", [MMC(CENTERS), EMC(CENTERS)])
@pytest.mark.parametrize("name", ["resnet32", "resnet110", "cnn"])
def test_a_hundred_centers_are_out_of_reach_from_64_values(head: Head, name: str) -> None:
    sentence = told(BACKBONES[name](SHAPE, 256), head)
    assert "a linear layer of width 64" in sentence
    assert "the 100 centers span more" in sentence
    assert "cannot fall below 17.7" in sentence  # 10²/2·(1 - 64/99)


@pytest.mark.parametrize("name", sorted(set(BACKBONES) - {"resnet32", "resnet110", "cnn"}))
def test_networks_that_pool_more_say_nothing(name: str) -> None:
    assert told(BACKBONES[name](SHAPE, 256), MMC(CENTERS)) == ""


@pytest.mark.parametrize(
    "head", [MMC(max_mahalanobis_centers(65, 256)), MMLDA(CENTERS), SCE(num_classes=100, feature_dim=256)]
)
def test_few_classes_and_softmax_losses_say_nothing(head: Head) -> None:
    assert told(BACKBONES["resnet32"](SHAPE, 256), head) == ""


def test_one_class_more_than_fits_is_told() -> None:
    assert told(BACKBONES["resnet32"](SHAPE, 256), MMC(max_mahalanobis_centers(66, 256)))


class Own(nn.Module):
    """Layers in an order of their own; ``ends`` says what comes after the last of them."""

    def __init__(self, width: int, ends: nn.Module | None = None) -> None:
        super().__init__()
        self.out = nn.Linear(width, 256)  # the first in the list of modules, the last to be called
        self.inside = nn.Linear(3 * 32 * 32, width)
        self.ends = nn.Identity() if ends is None else ends

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.ends(self.out(self.inside(images.flatten(1)).relu()))
        return features


def test_a_network_of_the_users_own_is_looked_at_too() -> None:
    network = Own(20)
    assert "width 20 " in told(network, MMC(CENTERS))
    assert network.training
    assert not network.out._forward_hooks
    assert told(Own(99), MMC(CENTERS)) == ""
    assert told(Own(20, nn.ReLU()), MMC(CENTERS)) == ""  # what follows may make dimensions


def test_the_floor_holds_for_the_best_linear_layer() -> None:
    """Least squares from 64 values a class, the best that any training of the last layer could come to."""
    values = torch.randn(100, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with_bias = torch.cat([values, torch.ones(100, 1, dtype=torch.float64)], dim=1)
    layer = torch.linalg.lstsq(with_bias, CENTERS.double()).solution
    loss = 0.5 * (with_bias @ layer - CENTERS.double()).square().sum(dim=1).mean()
    assert float(loss) >= 50 * (1 - 64 / 99) - 1e-6
