"""The models that the attack benchmarks attack: ResNet-20 on the embedded digits, enlarged to 32x32 colour images.

They have the cost of a CIFAR network and need no download; trained once, in minutes, and kept in ``runs/bench``.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import maxmahal
from maxmahal.attacks import Linf
from maxmahal.data import ImageData, load_dataset
from maxmahal.models.resnet import ResNetV1
from peers import Peer

FOLDER = Path(__file__).resolve().parent.parent / "runs" / "bench"
EPSILON = 0.1
RECIPES = {
    "sce": ("digits-sce", ["train.epochs=6"]),
    "at-mmc": (
        "digits-at-mmc",
        ["train.epochs=12", "method.steps=3", f"method.epsilon={EPSILON}", "method.step_size=0.06"],
    ),
}


@dataclass(frozen=True)
class Subject:
    """A trained model in evaluation mode, and test images to attack."""

    name: str
    model: maxmahal.Classifier
    images: Tensor
    labels: Tensor

    def first(self, count: int) -> "Subject":
        """The same with fewer images."""
        return Subject(self.name, self.model, self.images[:count], self.labels[:count])

    def to(self, device: torch.device) -> "Subject":
        """The same on another device."""
        return Subject(self.name, self.model.to(device), self.images.to(device), self.labels.to(device))

    def attacked_by(self, peer: Peer, batch_size: int) -> Tensor:
        """A peer's images for the whole set, in batches."""
        pairs = zip(torch.split(self.images, batch_size), torch.split(self.labels, batch_size), strict=True)
        return torch.cat([peer.run(self.model, images, labels) for images, labels in pairs])

    def accuracy(self, moved: Tensor, threat: Linf) -> float:
        """Of the model itself on images put back into the threat."""
        parts = torch.split(threat.project(self.images, moved), 1000)
        with torch.no_grad():
            predictions = torch.cat([self.model(part).argmax(dim=1) for part in parts])
        return float((predictions == self.labels).double().mean())


def subject_from(run: Path, data: str, *, only_right: bool, device: torch.device) -> Subject:
    """A trained run and a test set of the user's own; ``only_right`` leaves out what the model gets wrong anyway."""
    model, test = maxmahal.load(run).to(device), load_dataset(data, "test")
    images, labels = test.float_images().to(device), test.labels.to(device)
    if only_right:
        with torch.no_grad():
            parts = [model(part).argmax(dim=1) for part in torch.split(images, 1000)]
        right = torch.cat(parts) == labels
        images, labels = images[right], labels[right]
    return Subject(run.name, model, images, labels)


def resnet20(image_shape: tuple[int, int, int], feature_dim: int) -> nn.Module:
    """Three blocks a stage."""
    return ResNetV1(3, in_channels=image_shape[0], feature_dim=feature_dim)


def subject(name: str, folder: Path = FOLDER) -> Subject:
    """Train the model if it does not exist; an interrupted run is resumed."""
    preset, overrides = RECIPES[name]
    settings = maxmahal.load_settings(
        preset, [f"data.source={_enlarged_digits(folder)}", "model.backbone=attack_models:resnet20", *overrides]
    )
    out = folder / name
    maxmahal.train_model(settings, out, resume=out.exists())
    data = load_dataset(str(_enlarged_digits(folder)), "test")
    backbone = resnet20((3, 32, 32), settings.model.feature_dim)
    return Subject(name, maxmahal.load(out, backbone=backbone).eval(), data.float_images(), data.labels)


def small_subject(preset: str, folder: Path = FOLDER) -> Subject:
    """A small network of the demo on the digits as they are, where an attack's own work counts beside its passes."""
    out = folder / preset
    maxmahal.train_model(maxmahal.load_settings(preset, []), out, resume=out.exists())
    data = load_dataset("digits", "test")
    return Subject(preset, maxmahal.load(out).eval(), data.float_images(), data.labels)


def _enlarged_digits(folder: Path) -> Path:
    path = folder / "digits32.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        parts = {"": load_dataset("digits", "train"), "test_": load_dataset("digits", "test")}
        arrays = {f"{prefix}images": _enlarge(data) for prefix, data in parts.items()}
        arrays |= {f"{prefix}labels": data.labels.numpy() for prefix, data in parts.items()}
        np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def _enlarge(data: ImageData) -> np.ndarray:
    """Channels last, as the file format has them."""
    larger = F.interpolate(data.float_images(), size=(32, 32), mode="bilinear", align_corners=False)
    colour: np.ndarray = (255 * larger).round().byte().expand(-1, 3, -1, -1).permute(0, 2, 3, 1).numpy()
    return colour
