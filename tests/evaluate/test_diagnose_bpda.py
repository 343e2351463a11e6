"""Stand-ins let gradients through where a model's own stop or mislead, and only there."""

from collections.abc import Callable

import pytest
import torch
from masked_models import EPSILON, NumpyInline, behind, digits, masked, trained
from torch import Tensor, nn

from maxmahal.attacks import Linf, Model, apgd, margin
from maxmahal.evaluate.diagnose.bpda import bpda_model


class Inline(nn.Module):
    """Any function of the images in front of a network, where no module can be exchanged."""

    def __init__(self, function: Callable[[Tensor], Tensor], network: nn.Module) -> None:
        super().__init__()
        self.function, self.network = function, network

    def forward(self, images: Tensor) -> Tensor:
        return self.network(self.function(images))


def without_gradients(images: Tensor) -> Tensor:
    with torch.no_grad():
        return images * 1.0


INLINE: dict[str, Callable[[Tensor], Tensor]] = {
    "round": lambda images: torch.round(16 * images) / 16,
    "floor": lambda images: (16 * images).floor() / 16,
    "ceil": lambda images: torch.ceil(16 * images) / 16,
    "trunc": lambda images: (16 * images).trunc() / 16,
    "fix": lambda images: torch.fix(16 * images) / 16,
    "sign": lambda images: images + 0.01 * images.detach().sign() - images + images.detach(),
    "detach": lambda images: images.detach(),
    "no_grad": without_gradients,
    "floor division": lambda images: images // 0.0625 * 0.0625,
    "bytes": lambda images: (255 * images).byte().float() / 255,
    "integer arithmetic": lambda images: (255 * images).to(torch.uint8) // 8 * 8 / 255,
    "comparison": lambda images: (images > 0.5).float(),
    "falling comparison": lambda images: 1 - (images <= 0.5).float(),
}


def accuracy(model: Model, count: int = 100) -> float:
    images, labels = (part[:count] for part in digits("test"))
    return apgd(model, images, labels, objective=margin(), threat=Linf(EPSILON), steps=25, seed=0).accuracy


@pytest.mark.parametrize("mask", ["quantised", "quantised inline", "numpy", "saw-tooth"])
def test_a_revived_model_is_no_more_robust_than_the_network_behind_the_mask(mask: str) -> None:
    network = trained("sce")
    revived = bpda_model(masked(network)[mask], digits("test")[0])
    assert revived is not None
    assert accuracy(revived) <= accuracy(network) + 0.03


@pytest.mark.parametrize("step", INLINE)
def test_steps_written_inside_a_forward_pass_gradients_on(step: str) -> None:
    images, _ = digits("test")
    model = Inline(INLINE[step], trained("sce")).eval()
    revived = bpda_model(model, images)
    assert revived is not None
    few = images[:8].clone().requires_grad_()
    outputs = revived.search(few)
    torch.testing.assert_close(outputs.logits, model(images[:8]))
    (gradient,) = torch.autograd.grad(outputs.logits[:, 0].sum(), few)
    # The network's own gradient where the step leads, times the slope of the step's stand-in.
    there = INLINE[step](images[:8]).detach().requires_grad_()
    (expected,) = torch.autograd.grad(model.network(there)[:, 0].sum(), there)
    slope = (gradient.flatten() @ expected.flatten()) / expected.square().sum()
    torch.testing.assert_close(gradient, slope * expected, rtol=1e-4, atol=1e-6)
    assert slope > 0.9


@pytest.mark.parametrize("name", ["scaled", "noise", "plain", "numpy inline"])
def test_nothing_is_revived_where_nothing_is_to_be_had(name: str) -> None:
    network = trained("sce")
    models = {**masked(network), "plain": network, "numpy inline": NumpyInline(network).eval()}
    assert bpda_model(models[name], digits("test")[0]) is None


@pytest.mark.parametrize("inside", [0.0, 1.0])
def test_gradients_that_are_nan_are_revived_in_a_module_and_not_inside_a_forward(inside: float) -> None:
    def rooted(images: Tensor) -> Tensor:
        return images + 0 * (inside * images).sqrt()

    class Rooted(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return rooted(images)

    images, network = digits("test")[0], trained("sce")
    assert bpda_model(Inline(rooted, network).eval(), images) is None
    revived = bpda_model(behind(Rooted(), network), images)
    assert revived is not None
    moved = images[:4].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(revived.search(moved).logits.square().sum(), moved)
    assert gradient.isfinite().all()
    assert gradient.any()


def test_the_model_decides_and_is_left_alone() -> None:
    images, _ = digits("test")
    model = masked(trained("sce"))["quantised"]
    modules = [type(module) for module in model.modules()]
    revived = bpda_model(model, images)
    assert revived is not None
    assert revived.original is model
    assert [type(module) for module in model.modules()] == modules
    assert all(parameter.requires_grad for parameter in model.parameters())
    with torch.no_grad():
        assert torch.equal(revived(images), model(images))


def test_no_random_numbers_are_taken_from_the_caller() -> None:
    torch.manual_seed(0)
    expected = torch.rand(())
    torch.manual_seed(0)
    bpda_model(masked(trained("sce"))["noise"], digits("test")[0])
    assert torch.rand(()) == expected


def test_gradients_switched_on_inside_a_forward_stay_so_only_there() -> None:
    def switches(images: Tensor) -> Tensor:
        with torch.enable_grad():
            torch.ones(1).requires_grad_()
        assert not torch.is_grad_enabled()
        return images.round()

    images, _ = digits("test")
    revived = bpda_model(_Quiet(switches, trained("sce")).eval(), images)
    assert revived is not None
    with torch.no_grad():
        revived.search(images[:2])
    assert torch.is_grad_enabled()


class _Quiet(Inline):
    """Calls its function only where no gradients are wanted; rounds where they are."""

    def forward(self, images: Tensor) -> Tensor:
        return self.network(images.round() if torch.is_grad_enabled() else self.function(images))


def test_ordinary_modules_are_not_exchanged() -> None:
    network = nn.Sequential(behind(nn.ReLU(), nn.Identity()), nn.Softplus(), nn.Dropout(), trained("sce")).eval()
    assert bpda_model(network, digits("test")[0]) is None
