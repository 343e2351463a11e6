"""Channels last: said in one sentence before anything is recorded, and only where it is sure."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_evaluations_helpers import small_suite, stage
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.data.load import DataSource
from maxmahal.errors import ArgumentError
from maxmahal.evaluate import evaluate_model

pytestmark = pytest.mark.usefixtures("unchecked")
QUICK = small_suite(stage("pgd", "pgd", steps=2))


class ChannelsLast(nn.Module):
    """A network that turns its images on its own."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images.permute(0, 3, 1, 2))


def network(channels: int) -> nn.Module:
    layers = nn.Conv2d(channels, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    return nn.Sequential(*layers).eval()


def pair(*shape: int) -> tuple[Tensor, Tensor]:
    pixels = torch.randint(0, 256, (6, *shape), generator=torch.Generator().manual_seed(0))
    return pixels.to(torch.uint8), torch.arange(6) % 3


def own(*shape: int) -> ImageData:
    return ImageData.from_arrays("mine", *pair(*shape), "abc")


def refused(model: nn.Module | Callable[[Tensor], Tensor], data: DataSource, out: Path) -> str:
    with pytest.raises(ArgumentError) as caught:
        evaluate_model(model, out=out / "out", suite=QUICK, data=data)
    assert not (out / "out").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_with_channels_last(tmp_path: Path, channels: int) -> None:
    assert refused(network(channels), own(8, 7, channels), tmp_path) == (
        f"The images of mine have the shape (n, 8, 7, {channels}), with their channels last, and a model passed from "
        "Python is shown images with their channels first (n, c, h, w); pass images.permute(0, 3, 1, 2)."
    )


@pytest.mark.parametrize("data", [pair(8, 7, 3), pair(3, 8, 7), own(3, 8, 7)], ids=["last", "first", "ImageData"])
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: lambda images: model(images)])
def test_a_model_with_channels_last(tmp_path: Path, data: DataSource, wrap: Callable[..., object]) -> None:
    text = refused(wrap(ChannelsLast(network(3)).eval()), data, tmp_path)
    assert "passed from Python takes images with channels last" in text
    assert "channels first, in the shape (n, 3, 8, 7); let it begin with images.permute(0, 2, 3, 1)" in text
    assert "RuntimeError" not in text


@pytest.mark.parametrize(
    ("channels", "shape"),
    [
        (5, (3, 8, 7)),  # neither way round
        (8, (3, 8, 7)),  # as many channels as rows: images turned by chance would fit
        (5, (3, 8, 3)),  # three at both ends
        (3, (2, 9, 1)),  # a signal as wide as one pixel
        (3, (4, 8, 8)),  # four channels
    ],
)
def test_other_misfits_are_told_as_they_are(tmp_path: Path, channels: int, shape: tuple[int, ...]) -> None:
    text = refused(network(channels), own(*shape), tmp_path)
    assert f"cannot take the images of mine, of shape {shape} in [0, 1] (RuntimeError: Given groups=1" in text
    assert "channels last" not in text


@pytest.mark.parametrize("room", [0, 3])
def test_memory_that_runs_out_at_once_is_not_told_as_a_layout(tmp_path: Path, room: int) -> None:
    class Large(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network(3)

        def forward(self, images: Tensor) -> Tensor:
            if len(images) > room and images.shape[1] == 3:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return self.network(images if images.shape[1] == 3 else images.permute(0, 3, 1, 2))

    if not room:
        text = refused(Large().eval(), own(3, 8, 8), tmp_path)
        assert "runs out of memory on a single image of mine" in text
        assert "another device" in text
        return
    found = evaluate_model(Large().eval(), out=tmp_path / "out", suite=QUICK, data=own(3, 8, 8))
    assert found.finished, "fewer images at a time fit"


def test_what_fits_is_evaluated(tmp_path: Path) -> None:
    for name, data in {"turned": pair(8, 7, 3), "first": own(3, 8, 7)}.items():
        assert evaluate_model(network(3), out=tmp_path / name, suite=QUICK, data=data).finished
    flat = nn.Sequential(nn.Flatten(), nn.Linear(8, 3)).eval()
    assert evaluate_model(flat, out=tmp_path / "vectors", suite=QUICK, data=own(8, 1, 1)).finished
