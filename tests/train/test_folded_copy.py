"""Crafting's copy of a network, its batch norms folded, follows the network's weights."""

import threading

import pytest
import torch
from torch import Tensor, nn

from maxmahal.models import BACKBONES
from maxmahal.train.config import CPUSettings
from maxmahal.train.device import FastBackbone, folded_copy

pytestmark = pytest.mark.usefixtures("unchecked")  # a network whose annotations are checked cannot be traced
IMAGES = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def network(name: str = "resnet32") -> nn.Module:
    torch.manual_seed(0)
    built = BACKBONES[name]((3, 8, 8), 16)
    return built.to(memory_format=torch.channels_last)


def step(model: nn.Module) -> None:
    """One step of training: weights, scales, shifts and statistics all move."""
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model(IMAGES).square().mean().backward()
    optimiser.step()


def answers(model: nn.Module, images: Tensor = IMAGES) -> tuple[Tensor, Tensor]:
    moved = images.clone().requires_grad_()
    features = model(moved)
    return features.detach(), torch.autograd.grad(features.sum(), moved)[0]


@pytest.mark.parametrize("name", ["resnet32", "cnn", "resnet47v2"])
def test_after_a_refresh_it_answers_as_the_network_in_eval_mode(name: str) -> None:
    model = network(name)
    copied = folded_copy(model, torch.float32)
    assert copied is not None
    for _ in range(2):
        step(model)
        before = answers(copied)[0]
        copied.refresh()
        expected = answers(model.eval())
        for found, wanted in zip(answers(copied), expected, strict=True):
            assert (found - wanted).norm() < 1e-4 * wanted.norm()
        assert (before - expected[0]).norm() > 1e-2 * expected[0].norm(), "without a refresh it is the older network"


def test_it_has_no_batch_norm_no_gradients_and_the_networks_layout() -> None:
    model = network()
    copied = folded_copy(model, torch.bfloat16)
    assert copied is not None
    assert not any(isinstance(module, nn.BatchNorm2d) for module in copied.modules())
    assert not any(parameter.requires_grad for parameter in copied.parameters())
    convolutions = [module for module in copied.modules() if isinstance(module, nn.Conv2d)]
    assert {module.weight.dtype for module in convolutions} == {torch.bfloat16}
    assert all(module.weight.is_contiguous(memory_format=torch.channels_last) for module in convolutions)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_layers_with_and_without_bias_and_scale() -> None:
    torch.manual_seed(1)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.Flatten(), nn.Linear(144, 6), nn.BatchNorm1d(6)
    model = nn.Sequential(*layers, nn.Linear(6, 2))
    copied = folded_copy(model, torch.float32)
    step(model)
    assert copied is not None
    copied.refresh()
    torch.testing.assert_close(copied(IMAGES), model.eval()(IMAGES), rtol=1e-4, atol=1e-5)


class Shifted(nn.Module):
    """Adds a buffer that no checkpoint holds."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(()), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return images + self.shift


def test_buffers_that_no_checkpoint_holds_are_copied_too() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), Shifted()).eval()
    copied = folded_copy(model, torch.float32)
    assert copied is not None
    model[2].shift += 0.3
    copied.refresh()
    torch.testing.assert_close(copied(IMAGES), model(IMAGES), rtol=1e-4, atol=1e-5)


def test_a_network_with_nothing_to_fold_or_that_cannot_be_copied_has_none() -> None:
    assert folded_copy(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), torch.float32) is None
    locked = network("cnn")
    locked.lock = threading.Lock()  # type: ignore[assignment]
    assert folded_copy(locked, torch.float32) is None


class Features(nn.Module):
    """As much of a classifier as the fast backbone takes."""

    def __init__(self) -> None:
        super().__init__()
        self.normalize, self.backbone = nn.Identity(), network()


def test_going_to_eval_mode_takes_over_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxmahal.train.device.compile_apart", lambda run, dynamic: run)
    model = Features()
    fast = FastBackbone(model, CPUSettings(compile=True))  # type: ignore[arg-type]
    assert {id(each) for each in fast.parameters()} == {id(each) for each in model.parameters()}
    for _ in range(2):
        step(fast)
        torch.testing.assert_close(fast.eval()(IMAGES), model.backbone.eval()(IMAGES), rtol=1e-3, atol=1e-4)
    fast.train()
    torch.testing.assert_close(fast(IMAGES), model.backbone.train()(IMAGES))
