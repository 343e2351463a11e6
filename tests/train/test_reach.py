"""Networks that cannot bring features to all centers say so before they are trained."""

import pytest
import torch
from torch import nn

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import EMC, MMC, MMLDA, SCE
from maxmahal.models import BACKBONES, Classifier
from maxmahal.models.head import Head
from maxmahal.train.reach import out_of_reach

CENTERS = max_mahalanobis_centers(100, 256, norm=10.0)
SHAPE = (3, 32, 32)


@pytest.mark.parametrize("head", [MMC(CENTERS), EMC(CENTERS)])
@pytest.mark.parametrize("name", ["resnet32", "resnet110", "cnn"])
def test_a_hundred_centers_are_out_of_reach_from_64_values(head: Head, name: str) -> None:
    told = out_of_reach(Classifier(BACKBONES[name](SHAPE, 256), head))
    assert "takes 64 values" in told
    assert "the 100 centers span more" in told
    assert "cannot fall below 17.7" in told  # 10²/2·(1 - 64/99)


@pytest.mark.parametrize("name", sorted(set(BACKBONES) - {"resnet32", "resnet110", "cnn"}))
def test_networks_that_pool_more_say_nothing(name: str) -> None:
    assert out_of_reach(Classifier(BACKBONES[name](SHAPE, 256), MMC(CENTERS))) == ""


@pytest.mark.parametrize(
    "head", [MMC(max_mahalanobis_centers(65, 256)), MMLDA(CENTERS), SCE(num_classes=100, feature_dim=256)]
)
def test_few_classes_and_softmax_losses_say_nothing(head: Head) -> None:
    assert out_of_reach(Classifier(BACKBONES["resnet32"](SHAPE, 256), head)) == ""


def test_one_class_more_than_fits_is_told() -> None:
    assert out_of_reach(Classifier(BACKBONES["resnet32"](SHAPE, 256), MMC(max_mahalanobis_centers(66, 256))))


def test_a_network_of_the_users_own_may_end_in_anything() -> None:
    assert out_of_reach(Classifier(nn.Sequential(nn.Flatten(), nn.Linear(192, 256)), MMC(CENTERS))) == ""


def test_the_floor_holds_for_the_best_linear_layer() -> None:
    """Least squares from 64 values a class, the best that any training of the last layer could come to."""
    values = torch.randn(100, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with_bias = torch.cat([values, torch.ones(100, 1, dtype=torch.float64)], dim=1)
    layer = torch.linalg.lstsq(with_bias, CENTERS.double()).solution
    loss = 0.5 * (with_bias @ layer - CENTERS.double()).square().sum(dim=1).mean()
    assert float(loss) >= 50 * (1 - 64 / 99) - 1e-6
