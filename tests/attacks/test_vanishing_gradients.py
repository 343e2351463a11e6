"""A saturated objective still shows the way: gradients are carried through the model at a size float32 can hold."""

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import L2, Linf, apgd, carlini_wagner, cross_entropy, fmn, mim, pgd, spsa
from maxmahal.attacks.objectives import model_outputs
from maxmahal.attacks.oracle import FOOLED, Oracle, Samples, make_oracle

IMAGES = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))


class Saturated(nn.Module):
    """A network whose first weights are small and whose logits are far apart."""

    def __init__(self, gap: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3, bias=False))
        with torch.no_grad():
            self.layers[1].weight *= 1e-9  # type: ignore[operator]
        self.register_buffer("gap", torch.tensor([gap, 0.0, 0.0]))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images) + self.gap
        return logits


def samples(count: int = 6) -> Samples:
    labels = torch.zeros(count, dtype=torch.int64)
    return Samples(IMAGES[:count], labels, labels, None, torch.arange(count), FOOLED)


def oracle_of(model: nn.Module) -> Oracle:
    return make_oracle(model.eval(), cross_entropy(), 100, 1)


def plain_gradient(model: nn.Module, images: Tensor) -> Tensor:
    images = images.clone().requires_grad_()
    values = cross_entropy()(model_outputs(model, images), torch.zeros(len(images), dtype=torch.int64), None)
    return torch.autograd.grad(values.sum(), images)[0]


def shape_of(gradient: Tensor) -> Tensor:
    return gradient / gradient.abs().amax(dim=(1, 2, 3), keepdim=True)


@pytest.mark.parametrize("gap", [0.0, 5.0, 30.0])
def test_nothing_changes_by_a_bit_where_nothing_is_small(gap: float) -> None:
    model = Saturated(gap).eval()
    assert torch.equal(oracle_of(model).gradient(IMAGES, samples())[1], plain_gradient(model, IMAGES))


def test_a_gradient_that_float32_would_lose_keeps_its_direction() -> None:
    """At a gap of 85 softmax leaves 1e-37, which times the weights is less than the smallest float32."""
    model = Saturated(85.0).eval()
    assert not plain_gradient(model, IMAGES).any(), "plain autograd must lose it, or this test says nothing"
    expected = plain_gradient(model.double(), IMAGES.double())
    found = oracle_of(model.float()).gradient(IMAGES, samples())[1]
    assert torch.equal(found.sign(), expected.sign().float())
    torch.testing.assert_close(shape_of(found.double()), shape_of(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("attack", [pgd, mim])
def test_cross_entropy_attacks_go_where_they_would_go_in_float64(attack) -> None:  # type: ignore[no-untyped-def]
    labels = torch.zeros(6, dtype=torch.int64)
    settings = {"objective": cross_entropy(), "threat": Linf(0.1), "steps": 5, "step_size": 0.03, "keep": "last"}

    def last(model: nn.Module, images: Tensor) -> Tensor:
        moved: Tensor = attack(model.eval(), images, labels, seed=0, sample_ids=torch.arange(6), **settings).images
        return moved

    found = last(Saturated(85.0), IMAGES)
    expected = last(Saturated(85.0).double(), IMAGES.double()).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-25, 1e-20, 1e20, 1e25])
def test_the_scale_of_the_logits_changes_no_attack(scale: float) -> None:
    """The squares of such gradients leave float32."""

    def distances(scale: float) -> Tensor:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        labels = model(IMAGES).argmax(dim=1)
        with torch.no_grad():
            for parameter in model[3].parameters():
                parameter *= scale
        case = (model, IMAGES, labels)
        found = [attack(*case, L2(0.3), steps=20).images - IMAGES for attack in (pgd, apgd)]
        found += [fmn(*case, norm=norm, steps=60).images - IMAGES for norm in ("l2", "linf")]
        found += [carlini_wagner(*case, steps=200).images - IMAGES, spsa(*case, Linf(0.1)).images - IMAGES]
        return torch.stack([each.flatten(1).norm(dim=1) for each in found])

    expected = distances(1.0)
    assert (expected > 0).any(dim=1).all(), "each attack must find something, or this test says nothing"
    torch.testing.assert_close(distances(scale), expected, rtol=0.05, atol=1e-3)


def test_each_sample_has_a_scale_of_its_own() -> None:
    """One sample is saturated and one is not; neither learns of the other."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Saturated(85.0), Saturated(1.0)])

        def forward(self, images: Tensor) -> Tensor:
            return torch.cat([self.parts[row % 2](image[None]) for row, image in enumerate(images)])

    found = oracle_of(Mixed()).gradient(IMAGES[:2], samples(2))[1]
    for row, gap in ((0, 85.0), (1, 1.0)):
        alone = oracle_of(Saturated(gap)).gradient(IMAGES[row : row + 1], samples(1))[1]
        assert torch.equal(found[row : row + 1], alone)


def test_all_answers_of_a_model_that_draws_share_a_scale() -> None:
    """Their gradients are added up in one image: two scales would weigh them wrongly."""

    class Drawing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Saturated(4.0), Saturated(0.0)])

        def forward(self, images: Tensor) -> Tensor:
            return torch.cat([self.parts[row % 2](image[None]) for row, image in enumerate(images)])

    model = Drawing().eval()
    found = make_oracle(model, cross_entropy(), 100, 2).gradient(IMAGES[:3], samples(3))[1]
    expected = 0.5 * sum(plain_gradient(part, IMAGES[:3]) for part in model.parts)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
