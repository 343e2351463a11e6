"""Crafting's copy of a network, its batch norms folded, follows the network's weights."""

import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from maxmahal import SCE, Classifier
from maxmahal.errors import SettingsError
from maxmahal.models import BACKBONES, layers
from maxmahal.train.config import CPUSettings, CUDASettings
from maxmahal.train.device import FastBackbone, accelerate, folded_copy
from maxmahal.train.methods import AdversarialTraining, Batch

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


def test_what_surrounds_the_network_is_compiled_once_and_not_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[CodeType | None] = []

    def compile_apart(function: Callable[..., Any], *, dynamic: bool, code: CodeType | None = None) -> Any:
        assert not dynamic
        copies.append(code)
        return function

    monkeypatch.setattr("maxmahal.train.device.compile_apart", compile_apart)
    model = Classifier(network(), SCE(num_classes=3, feature_dim=16))
    fast, other = (accelerate(model, CPUSettings(compile=True)) for _ in range(2))
    copies.clear()
    batch = Batch(IMAGES, torch.arange(len(IMAGES)) % 3, torch.arange(len(IMAGES)), 0)
    for _ in range(3):
        crafted = AdversarialTraining(epsilon=0.1, steps=2).craft(fast, batch)
    assert len(copies) == 6
    assert len({id(code) for code in copies}) == 2
    assert (crafted - IMAGES).abs().max() > 0.05
    AdversarialTraining(epsilon=0.1, steps=2).craft(other, batch)
    assert len({id(code) for code in copies}) == 4, "another network has other shapes: torch counts per code object"


class Weighted(SCE):
    """A loss weighted by the norm of its own gradient."""

    def per_sample(self, features: Tensor, labels: Tensor) -> Tensor:
        with torch.enable_grad():
            seen = features.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(super().per_sample(seen, labels).sum(), seen)
        return super().per_sample(features, labels) * (1 + gradient.norm(dim=1))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch 2.11 looks at it
def test_a_loss_that_cannot_be_compiled_ends_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_apart(function: Callable[..., Any], *, dynamic: bool, code: CodeType | None = None) -> Any:
        return torch.compile(function, dynamic=dynamic, backend="eager") if code else function

    monkeypatch.setattr("maxmahal.train.device.compile_apart", compile_apart)
    model = Classifier(network("cnn"), Weighted(num_classes=3, feature_dim=16))
    batch = Batch(IMAGES, torch.arange(len(IMAGES)) % 3, torch.arange(len(IMAGES)), 0)
    attack = AdversarialTraining(epsilon=0.1, steps=2)
    with pytest.raises(SettingsError, match=r"cannot be compiled \(.+\); set cpu\.compile=false\.$"):
        attack.craft(accelerate(model, CPUSettings(compile=True)), batch)
    assert (attack.craft(model, batch) - IMAGES).abs().max() > 0.05


class Kernels:
    """Compares by identity, as a pass over graphs does."""


@pytest.fixture
def with_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with a GPU and triton."""
    monkeypatch.setitem(sys.modules, "maxmahal.models.small_convolutions", SimpleNamespace(SmallConvolutions=Kernels))
    monkeypatch.setattr("maxmahal.models.layers.find_spec", lambda name: name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    layers._own_kernels.cache_clear()
    yield
    layers._own_kernels.cache_clear()


def test_equal_functions_are_compiled_with_equal_options(with_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    options: list[dict[str, Any]] = []
    monkeypatch.setattr(torch, "compile", lambda function, **given: options.append(given["options"]) or function)
    for _ in range(2):
        layers.compile_apart(lambda images: images, dynamic=False)
    assert [type(value) for value in options[0].values()] == [Kernels]
    assert options[0] == options[1], "torch would compile the second again"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_crafting_on_a_gpu_compiles_nothing_after_the_first_step() -> None:
    model = Classifier(network("cnn"), SCE(num_classes=3, feature_dim=16)).cuda()
    fast = accelerate(model, CUDASettings())
    labels = torch.arange(len(IMAGES), device="cuda") % 3
    for seed in range(3):
        with torch._dynamo.config.patch(error_on_recompile=seed > 0):
            AdversarialTraining(steps=2).craft(fast, Batch(IMAGES.cuda(), labels, labels, seed))
