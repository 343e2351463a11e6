"""Networks that cannot bring features to all centers say so before they are trained."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from maxmahal.centers import (
    hierarchical_centers,
    max_mahalanobis_centers,
    random_centers,
    squared_distance_to_flat,
    tree_from_superclasses,
)
from maxmahal.data import ImageData
from maxmahal.losses import EMC, MMC, MMLDA, SCE
from maxmahal.models import BACKBONES, Classifier
from maxmahal.models.head import Head
from maxmahal.train import unreachable_centers

CENTERS = max_mahalanobis_centers(100, 256, norm=10.0)
SHAPE = (3, 32, 32)


def images_of(labels: Tensor) -> ImageData:
    names = [str(each) for each in range(100)]
    return ImageData.from_arrays("black", torch.zeros(len(labels), *SHAPE, dtype=torch.uint8), labels, names)


def told(backbone: nn.Module, head: Head) -> str:
    return unreachable_centers(Classifier(backbone, head), images_of(torch.arange(head.num_classes)))


@pytest.mark.parametrize("name", ["resnet32", "resnet110", "cnn"])
def test_a_hundred_centers_are_out_of_reach_from_64_values(name: str) -> None:
    sentence = told(BACKBONES[name](SHAPE, 256), MMC(CENTERS))
    assert "a linear layer of width 64" in sentence
    assert "the 100 centers span 99" in sentence
    assert "cannot fall below 17.7" in sentence  # 10²/2·(1 - 64/99)


@pytest.mark.parametrize("name", sorted(set(BACKBONES) - {"resnet32", "resnet110", "cnn"}))
def test_networks_that_pool_more_say_nothing(name: str) -> None:
    assert told(BACKBONES[name](SHAPE, 256), MMC(CENTERS)) == ""


@pytest.mark.parametrize(
    "head", [MMC(max_mahalanobis_centers(65, 256)), EMC(CENTERS), MMLDA(CENTERS), SCE(num_classes=100, feature_dim=256)]
)
def test_few_classes_and_losses_without_fixed_centers_to_reach_say_nothing(head: Head) -> None:
    assert told(BACKBONES["resnet32"](SHAPE, 256), head) == ""


def test_only_classes_that_are_there_count() -> None:
    model = Classifier(BACKBONES["resnet32"](SHAPE, 256), MMC(CENTERS))
    assert unreachable_centers(model, images_of(torch.arange(65))) == ""
    floor = squared_distance_to_flat(CENTERS[:70], 64) / 2
    assert floor < 17
    assert f"below {floor:.3g}," in unreachable_centers(model, images_of(torch.arange(70)))


def test_a_floor_that_no_loss_would_show_is_not_told() -> None:
    tree = tree_from_superclasses([each // 5 for each in range(100)])
    for low, is_told in ((0.5, False), (5.0, True)):
        centers = hierarchical_centers(tree, 256, norms=(10.0, low), subspaces="orthogonal")
        assert squared_distance_to_flat(centers, 64) > 0
        assert bool(told(BACKBONES["resnet32"](SHAPE, 256), MMC(centers))) == is_told


class Own(nn.Module):
    """Layers in an order of their own; ``ends`` says what comes after the last of them."""

    def __init__(self, width: int, ends: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.out = nn.Linear(width, 256)  # the first in the list of modules, the last to be called
        self.inside = nn.Linear(3 * 32 * 32, width)
        self.ends = ends

    def forward(self, images: Tensor) -> Tensor:
        return self.ends(self.out(self.inside(images.flatten(1)).relu()))


@pytest.mark.parametrize(
    "ends", [lambda x: x, lambda x: x.view(len(x), -1), lambda x: x[:]], ids=["as it is", "view", "slice"]
)
def test_a_network_of_the_users_own_is_looked_at_too(ends: Callable[[Tensor], Tensor]) -> None:
    network = Own(20, ends)
    assert "width 20 " in told(network, MMC(CENTERS))
    assert network.training
    assert not network.out._forward_hooks
    assert told(Own(99, ends), MMC(CENTERS)) == ""


@pytest.mark.parametrize(
    "ends",
    [torch.relu, torch.relu_, lambda x: x + x.sin(), lambda x: x.add_(x.sin())],
    ids=["new", "in place", "sum", "added"],
)
def test_what_follows_the_last_layer_may_make_dimensions(ends: Callable[[Tensor], Tensor]) -> None:
    assert told(Own(20, ends), MMC(CENTERS)) == ""


def test_of_linear_layers_in_a_row_the_narrowest_counts() -> None:
    layers = [nn.Flatten(), nn.Linear(3072, 30), nn.Linear(30, 20), nn.Linear(20, 128), nn.Linear(128, 256)]
    assert "width 20 " in told(nn.Sequential(*layers), MMC(CENTERS))
    layers.insert(4, nn.ReLU())
    assert told(nn.Sequential(*layers), MMC(CENTERS)) == ""


def test_looking_draws_no_random_numbers() -> None:
    network = Own(20, lambda x: x + torch.randn_like(x))
    state = torch.random.get_rng_state()
    assert told(network, MMC(CENTERS)) == ""
    assert torch.random.get_rng_state().equal(state)


@pytest.mark.parametrize("centers", [CENTERS, random_centers(100, 256, norm=10.0, seed=0)], ids=["spread", "random"])
def test_the_floor_holds_for_the_best_linear_layer(centers: Tensor) -> None:
    """Least squares from 64 values a class, the best that any training of the last layer could come to."""
    generator = torch.Generator().manual_seed(0)
    floor = squared_distance_to_flat(centers, 64) / 2
    for _ in range(5):
        values = torch.randn(100, 64, dtype=torch.float64, generator=generator)
        with_bias = torch.cat([values, torch.ones(100, 1, dtype=torch.float64)], dim=1)
        layer = torch.linalg.lstsq(with_bias, centers.double()).solution
        assert float(0.5 * (with_bias @ layer - centers.double()).square().sum(dim=1).mean()) >= floor - 1e-6
    spread = centers.double() - centers.double().mean(dim=0)
    axes = torch.linalg.svd(spread).Vh[:64]
    assert 0.5 * (spread - spread @ axes.T @ axes).square().sum(dim=1).mean().item() == pytest.approx(floor, rel=1e-6)
