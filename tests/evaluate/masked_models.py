"""Models that look robust and are not: one ordinary network behind several masks. All are trained in seconds."""

from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor, nn

from maxmahal.attacks import Linf, craft, cross_entropy
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.data import load_dataset, to_unit_range
from maxmahal.evaluate.diagnose.probe import Probe, choose_probe
from maxmahal.losses import MMC, SCE
from maxmahal.models import Classifier, Head

EPSILON = 0.1
Kind = Literal["sce", "adversarial", "mmc"]


class Scaled(nn.Module):
    """Logits so far apart that the softmax saturates."""

    def __init__(self, network: nn.Module, factor: float = 1000.0) -> None:
        super().__init__()
        self.network, self.factor = network, factor

    def forward(self, images: Tensor) -> Tensor:
        return self.factor * self.network(images)


class Quantise(nn.Module):
    """A few grey levels."""

    def __init__(self, levels: int = 8) -> None:
        super().__init__()
        self.steps = levels - 1

    def forward(self, images: Tensor) -> Tensor:
        return torch.round(images * self.steps) / self.steps


class QuantisedInline(nn.Module):
    """The same, written where no module can be exchanged."""

    def __init__(self, network: nn.Module, levels: int = 8) -> None:
        super().__init__()
        self.network, self.steps = network, levels - 1

    def forward(self, images: Tensor) -> Tensor:
        return self.network((images * self.steps).round() / self.steps)


class ThroughNumpy(nn.Module):
    """Levels computed outside torch, where no gradient follows."""

    def __init__(self, levels: int = 16) -> None:
        super().__init__()
        self.steps = levels - 1

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.detach().cpu().numpy()
        return torch.from_numpy((pixels * self.steps).round() / self.steps).to(images)


class NumpyInline(nn.Module):
    """The same inside the top-level forward, where nothing can be wrapped."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(torch.from_numpy(images.detach().cpu().numpy().copy()))


class SawTooth(nn.Module):
    """A ripple too small to see and so steep that its slope drowns every other."""

    def __init__(self, height: float = 1e-3, period: float = 1e-4) -> None:
        super().__init__()
        self.height, self.period = height, period

    def forward(self, images: Tensor) -> Tensor:
        return images + self.height * (images * (2 * torch.pi / self.period)).sin()


class Noise(nn.Module):
    """Fresh noise at every look."""

    def __init__(self, std: float = 0.05) -> None:
        super().__init__()
        self.std = std

    def forward(self, images: Tensor) -> Tensor:
        return images + self.std * torch.randn_like(images)


def behind(mask: nn.Module, network: nn.Module) -> nn.Module:
    """The mask first, then the network."""
    return nn.Sequential(mask, network).eval()


def masked(network: nn.Module) -> dict[str, nn.Module]:
    """Every mask around one network."""
    return {
        "scaled": Scaled(network).eval(),
        "quantised": behind(Quantise(), network),
        "quantised inline": QuantisedInline(network).eval(),
        "numpy": behind(ThroughNumpy(), network),
        "saw-tooth": behind(SawTooth(), network),
        "noise": behind(Noise(), network),
    }


@cache
def digits(part: Literal["train", "test"]) -> tuple[Tensor, Tensor]:
    """All images and labels of a part."""
    data = load_dataset("digits", part)
    return to_unit_range(data.images), data.labels


@cache
def trained(kind: Kind, seed: int = 0) -> nn.Module:
    """A small network on digits; do not change it, for tests share it."""
    images, labels = digits("train")
    with torch.random.fork_rng([]):
        torch.manual_seed(seed)
        backbone = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
        model = Classifier(backbone, _head(kind))
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for epoch in range(40 if kind == "mmc" else 20):
            for rows in torch.randperm(len(images)).split(128):
                batch = images[rows]
                if kind == "adversarial":
                    batch = _attacked(model, batch, labels[rows], rows, epoch)
                optimiser.zero_grad()
                model.loss(batch, labels[rows]).backward()
                optimiser.step()
    optimiser.zero_grad()
    return model.eval()


def probe_of(model: Any, *, count: int = 100, **settings: Any) -> Probe:
    """A probe of some test digits."""
    images, labels = digits("test")
    rows = choose_probe(len(images), seed=0)[:count]
    told = {"threat": Linf(EPSILON), "seed": 0, **settings}
    return Probe(model, images[rows], labels[rows], rows, **told)


def _head(kind: Kind) -> Head:
    return MMC(max_mahalanobis_centers(10, 32), scale=4.0) if kind == "mmc" else SCE(num_classes=10, feature_dim=32)


def _attacked(model: nn.Module, images: Tensor, labels: Tensor, rows: Tensor, epoch: int) -> Tensor:
    return craft(
        model,
        images,
        labels,
        objective=cross_entropy(),
        threat=Linf(EPSILON),
        steps=5,
        step_size=0.04,
        seed=epoch,
        sample_ids=rows,
    )
