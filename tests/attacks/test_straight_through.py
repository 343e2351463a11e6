"""BPDA: the function's values to the bit, the surrogate's gradient, on a linear model where both are known."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.attacks.straight_through import straight_through
from maxmahal.errors import ArgumentError

IMAGES = torch.rand(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(5, 32, generator=torch.Generator().manual_seed(1))


def quantise(images: Tensor) -> Tensor:
    """A defence that hides its gradient: eight levels."""
    return (images * 7).round() / 7


def linear() -> nn.Module:
    layer = nn.Linear(32, 5, bias=False)
    layer.weight.data = WEIGHT.clone()
    return nn.Sequential(nn.Flatten(), layer)


def gradient(model: nn.Module, images: Tensor = IMAGES, output: int = 3) -> Tensor:
    images = images.clone().requires_grad_()
    (result,) = torch.autograd.grad(model(images)[:, output].sum(), images)
    return result


class Quantise(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return quantise(images)


@pytest.mark.parametrize("function", [quantise, Quantise()], ids=["function", "module"])
def test_a_quantising_defence_has_no_gradient_until_it_is_passed_straight_through(function: nn.Module) -> None:
    assert not gradient(nn.Sequential(Quantise(), linear())).any()
    defended = nn.Sequential(straight_through(function), linear())
    torch.testing.assert_close(gradient(defended), WEIGHT[3].expand(3, -1).reshape_as(IMAGES))
    assert torch.equal(defended(IMAGES), linear()(quantise(IMAGES)))


def test_the_values_are_the_functions_to_the_bit() -> None:
    def steep(images: Tensor) -> Tensor:
        return torch.where(images > 0.5, 1e-9, 1e8) * images.cos()

    images = IMAGES.clone().requires_grad_()
    for surrogate in (None, torch.tanh):
        module = straight_through(steep, surrogate)
        assert torch.equal(module(images), steep(IMAGES))
        assert torch.equal(module(IMAGES), steep(IMAGES))
        assert module(images).requires_grad


def test_a_surrogate_is_differentiated_at_the_same_input() -> None:
    soft = straight_through(quantise, lambda images: images**2)
    torch.testing.assert_close(
        gradient(nn.Sequential(soft, nn.Flatten()), output=7)[:, 0, 1, 3], 2 * IMAGES[:, 0, 1, 3]
    )
    upstream = torch.randn(IMAGES.shape, generator=torch.Generator().manual_seed(2))
    images = IMAGES.clone().requires_grad_()
    (result,) = torch.autograd.grad(soft(images), images, upstream)
    torch.testing.assert_close(result, 2 * IMAGES * upstream)


def test_gradients_also_flow_through_what_comes_before() -> None:
    images = IMAGES.clone().requires_grad_()
    straight_through(quantise, torch.sin)(3 * images).sum().backward()
    torch.testing.assert_close(images.grad, 3 * torch.cos(3 * IMAGES))


def test_a_function_that_changes_the_shape_needs_a_surrogate_that_does_too() -> None:
    def every_second(images: Tensor) -> Tensor:
        return images[:, :, ::2, ::2]

    pooled = straight_through(every_second, nn.AvgPool2d(2))
    assert torch.equal(pooled(IMAGES), every_second(IMAGES))
    images = IMAGES.clone().requires_grad_()
    pooled(images).sum().backward()
    assert torch.equal(images.grad, torch.full_like(images, 0.25))
    with pytest.raises(ArgumentError, match=r"shape \(3, 2, 2, 2\) where the identity has \(3, 2, 4, 4\); pass a diff"):
        straight_through(every_second)(IMAGES)
    with pytest.raises(ArgumentError, match=r"shape \(3, 2, 2, 2\) where the surrogate returns \(3, 2, 1, 1\)"):
        straight_through(every_second, nn.AvgPool2d(4))(images)


def test_whole_numbers_are_refused_because_they_carry_no_gradient() -> None:
    with pytest.raises(ArgumentError, match=r"function must return floating-point numbers; got torch\.uint8\."):
        straight_through(lambda images: (255 * images).to(torch.uint8))(IMAGES)


def test_without_a_gradient_to_carry_the_surrogate_is_not_run() -> None:
    def never(images: Tensor) -> Tensor:
        raise AssertionError("the surrogate ran")

    module = straight_through(quantise, never)
    assert not module(IMAGES).requires_grad
    with torch.no_grad():
        assert not module(IMAGES.clone().requires_grad_()).requires_grad


def test_modules_become_submodules_and_the_function_gets_no_gradients() -> None:
    function, surrogate = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1).eval()
    module = straight_through(function, surrogate).double()
    assert {name for name, _ in module.named_children()} == {"function", "surrogate"}
    assert not module.eval().function.training
    assert not module(IMAGES.double()).requires_grad
    images = IMAGES.double().requires_grad_()
    module(images).sum().backward()
    assert function.weight.grad is None
    expected = surrogate.weight.detach().sum(dim=0).expand(3, -1, 4, 4)
    torch.testing.assert_close(images.grad, expected)
    assert set(module.state_dict()) == {
        f"{part}.{name}" for part in ("function", "surrogate") for name in ("weight", "bias")
    }


def test_second_derivatives_are_the_surrogates() -> None:
    images = IMAGES.double().requires_grad_()
    (first,) = torch.autograd.grad(straight_through(quantise, torch.exp)(images).sum(), images, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), images)
    torch.testing.assert_close(second, IMAGES.double().exp())


def test_a_function_that_returns_its_input_passes_one_gradient_and_not_two() -> None:
    module = straight_through(lambda images: images, lambda images: 5 * images)
    assert torch.equal(gradient(nn.Sequential(module, nn.Flatten()), output=0)[:, 0, 0, 0], torch.full((3,), 5.0))
    assert torch.equal(module(IMAGES), IMAGES)


def test_a_function_in_another_precision() -> None:
    images = IMAGES.clone().requires_grad_()
    (result,) = torch.autograd.grad(straight_through(lambda x: quantise(x.double()))(images).sum(), images)
    assert result.dtype == torch.float32
    assert torch.equal(result, torch.ones_like(IMAGES))


def test_an_attack_gets_past_the_quantiser() -> None:
    """Signed steps on the margin fool a model behind the quantiser; without a gradient they stay where they are."""
    labels = linear()(quantise(IMAGES)).argmax(dim=1)

    def attacked(front: nn.Module) -> Tensor:
        images, model = IMAGES.clone(), nn.Sequential(front, linear())
        for _ in range(10):
            images.requires_grad_()
            (step,) = torch.autograd.grad(-F.cross_entropy(model(images), labels), images)
            images = (images.detach() - 0.1 * step.sign()).clamp(0, 1)
        return model(images).argmax(dim=1)

    assert torch.equal(attacked(Quantise()), labels)
    assert (attacked(straight_through(quantise)) != labels).all()
