"""One small head of every kind, float64, whose parameters are away from their special starting values."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, ArcFace, CenterLoss, CosFace
from maxmahal.models import Head

NUM_CLASSES, DIM = 4, 3


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def preset_centers() -> Tensor:
    """Four centers of different lengths in three dimensions."""
    return 1.5 * draw(NUM_CLASSES, DIM, seed=1)


FACTORIES: dict[str, Callable[[], Head]] = {
    "sce": lambda: SCE(num_classes=NUM_CLASSES, feature_dim=DIM),
    "mmc-squared": lambda: MMC(preset_centers()),
    "mmc-squared-released": lambda: MMC(preset_centers(), scale=2.0),
    "mmc-absolute": lambda: MMC(preset_centers(), form="absolute"),
    "mmc-huber": lambda: MMC(preset_centers(), form="huber", huber_threshold=2.0),
    "mmlda": lambda: MMLDA(preset_centers()),
    "mmlda-released": lambda: MMLDA(preset_centers(), scale=2.0),
    "center-joint": lambda: CenterLoss(num_classes=NUM_CLASSES, feature_dim=DIM, weight=0.3),
    "center-alone": lambda: CenterLoss(num_classes=NUM_CLASSES, feature_dim=DIM, weight=0.3, joint=False),
    "lgm-identity": lambda: LGM(num_classes=NUM_CLASSES, feature_dim=DIM, margin=0.3, likelihood_weight=0.1),
    "lgm-diagonal": lambda: LGM(
        num_classes=NUM_CLASSES, feature_dim=DIM, margin=0.3, likelihood_weight=0.1, covariance="diagonal"
    ),
    "emc": lambda: EMC(preset_centers(), alpha=0.2, scale=2.0),
    "gsce": lambda: GSCE(num_classes=NUM_CLASSES, feature_dim=DIM),
    "cosface": lambda: CosFace(num_classes=NUM_CLASSES, feature_dim=DIM, margin=0.2, temperature=5.0),
    "arcface": lambda: ArcFace(num_classes=NUM_CLASSES, feature_dim=DIM, margin=0.4, temperature=5.0),
}


@pytest.fixture(params=sorted(FACTORIES))
def head(request: pytest.FixtureRequest) -> Head:
    built = FACTORIES[request.param]().double()
    for offset, parameter in enumerate(built.parameters()):
        parameter.data = 0.7 * draw(*parameter.shape, seed=100 + offset)
    return deepcopy(built)


@pytest.fixture
def features() -> Tensor:
    return 2.0 * draw(7, DIM, seed=2)


@pytest.fixture
def labels() -> Tensor:
    return torch.tensor([0, 1, 2, 3, 2, 2, 0])
