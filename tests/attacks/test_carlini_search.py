"""How Carlini and Wagner's attack searches: step by step, and beside other libraries."""

from typing import Any

import pytest
import torch
from small_models import Curved, Linear, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import carlini_wagner, margin
from maxmahal.attacks.carlini import BinarySearch
from maxmahal.attacks.oracle import FOOLED, Samples, make_oracle

MANY = uniform(5, 20, 1, 4, 4)
CURVED = Curved(seed=3).eval()
LABELS = predictions(CURVED, MANY)


class Constant(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return torch.tensor([2.0, 0.0]).expand(len(images), 2) + 0 * images.sum()


def test_the_search_over_constants_brackets_and_bisects() -> None:
    """Two constants that fail, one that succeeds, then halves of the bracket: read off the state step by step."""
    method = BinarySearch(1, 6, 0.01, 0.1, 0.0, abort_early=True, zero_is_success=True, bounds=(0.0, 1.0))
    samples = Samples(MANY[:1], LABELS[:1], LABELS[:1], None, torch.arange(1), FOOLED)
    oracle = make_oracle(CURVED, margin(), 1, 1)
    state, seen = method.begin(samples, 0), []
    for succeeds in (False, False, True, False, True):
        state["moved"] = _image_with(succeeds)
        seen.append(state["c"].item())
        assert not method.step(samples, state, oracle).finished
    assert seen == pytest.approx([0.1, 1.0, 10.0, 5.5, 7.75])
    assert method.step(samples, state, oracle).finished


def _image_with(success: bool) -> Tensor:
    wrong = predictions(CURVED, MANY) != LABELS[0]
    return MANY[wrong][:1] if success else MANY[:1].clone()


def test_a_constant_is_given_up_where_the_loss_stands_still() -> None:
    """The constant model's loss is flat, so each constant costs a tenth of its steps and one."""
    labels = torch.tensor([0])
    settings = {"constants": "binary", "steps": 100, "search_steps": 3}
    passes = [
        carlini_wagner(Constant().eval(), MANY[:1], labels, abort_early=abort, **settings).passes.backward
        for abort in (True, False)
    ]
    assert passes == [3 * 11, 3 * 100]


def test_tracking_takes_a_third_of_the_descents_a_tenth_as_long() -> None:
    def passes(**settings: int) -> int:
        return carlini_wagner(CURVED, MANY[:1], LABELS[:1], **settings).passes.backward

    assert passes(steps=1000, search_steps=3) == 100
    assert passes(steps=600, search_steps=4) == 2 * 60
    assert passes(steps=200, search_steps=1) == 50
    assert passes(steps=20, search_steps=3) == 20


def two_ways() -> tuple[nn.Module, Tensor, Tensor]:
    """Images from which the class that is ahead is won at a distance of 0.4, and another, the other way, at 0.25."""
    across = torch.full((16,), 0.25)  # of length 1
    weight = torch.stack([0 * across, 0.5 * across, -0.84 * across])
    model = Linear(weight, torch.tensor([0.0, -0.2 - 1.0, -0.21 + 1.68])).eval()
    return model, torch.full((6, 1, 4, 4), 0.5), torch.zeros(6, dtype=torch.int64)


def test_a_descent_from_a_random_point_finds_what_the_first_does_not() -> None:
    model, images, labels = two_ways()
    settings = {"steps": 50, "sample_ids": torch.arange(6)}
    first = carlini_wagner(model, images, labels, search_steps=3, **settings)
    more = carlini_wagner(model, images, labels, search_steps=9, **settings)
    assert first.distances.tolist() == pytest.approx([0.4] * 6, rel=0.02)
    assert (more.distances <= first.distances).all()
    assert more.distances.min().item() == pytest.approx(0.25, rel=0.03)
    other_seed = carlini_wagner(model, images, labels, search_steps=9, seed=1, **settings)
    assert not other_seed.images.equal(more.images)


def test_the_binary_search_is_adv_libs(adv_lib: Any) -> None:
    settings = {"learning_rate": 0.02, "initial_const": 0.1, "binary_search_steps": 6, "max_iterations": 100}
    theirs = adv_lib.carlini_wagner_l2(CURVED, MANY, LABELS, abort_early=False, **settings)
    ours = carlini_wagner(
        CURVED,
        MANY,
        LABELS,
        constants="binary",
        steps=100,
        search_steps=6,
        learning_rate=0.02,
        initial_c=0.1,
        abort_early=False,
    )
    torch.testing.assert_close(ours.distances, (theirs - MANY).flatten(1).norm(dim=1), rtol=1e-3, atol=0)


def test_tracking_comes_nearer_than_foolboxs_search_on_a_fraction_of_its_passes() -> None:
    # importorskip lets pass the deprecated scipy.ndimage.filters that foolbox imports.
    foolbox = pytest.importorskip("foolbox")
    model = foolbox.PyTorchModel(CURVED, bounds=(0, 1), device="cpu")
    attack = foolbox.attacks.L2CarliniWagnerAttack(steps=150, stepsize=0.02, initial_const=0.1)
    theirs = (attack(model, MANY, LABELS, epsilons=None)[0] - MANY).flatten(1).norm(dim=1)
    ours = carlini_wagner(CURVED, MANY, LABELS, steps=150)
    assert ours.passes.forward <= 160 * len(MANY)
    assert ours.mean_distance <= theirs.mean()
    assert ours.distances.median() <= 1.01 * theirs.median()


@pytest.mark.parametrize("clamped", [True, False])
def test_a_success_is_pushed_no_further_where_zero_is_the_threshold(clamped: bool) -> None:
    """What Adam is told at a success: the pull back to the image, and without the clamp the objective's push too."""
    method = BinarySearch(9, 1, 0.01, 2.0, 0.0, abort_early=True, zero_is_success=clamped, bounds=(0.0, 1.0))
    samples = Samples(MANY[:1], LABELS[:1], LABELS[:1], None, torch.arange(1), FOOLED)
    oracle, state, moved = make_oracle(CURVED, margin(), 1, 1), method.begin(samples, 0), _image_with(True)
    state["moved"] = moved
    method.step(samples, state, oracle)
    push = 0 if clamped else 2.0 * oracle.gradient(moved, samples)[1]
    expected = (2 * (moved - MANY[:1]) + push) * 2 * moved * (1 - moved)
    torch.testing.assert_close(state["mean"], 0.1 * expected)
