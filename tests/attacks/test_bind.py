"""Bound attacks, and models that are nothing but functions."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import Linf, craft, fgsm, margin, mim, pgd
from maxmahal.attacks.bound_attack import BoundAttack, bind
from maxmahal.attacks.spsa import spsa
from maxmahal.errors import ArgumentError

COUNT, PIXELS, CLASSES = 6, 12, 3
IMAGES = torch.rand(COUNT, 1, 3, 4, generator=torch.Generator().manual_seed(0))
WEIGHT = torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(1))
LABELS = (IMAGES.flatten(1) @ WEIGHT.T).argmax(dim=1)
IDS = torch.arange(COUNT)
PGD = {"objective": margin(), "threat": Linf(0.3), "steps": 5, "step_size": 0.1, "seed": 0}
SPSA = {"objective": margin(), "threat": Linf(0.3), "steps": 5, "evaluations": 64, "learning_rate": 0.1, "seed": 0}


def linear() -> nn.Module:
    layer = nn.Linear(PIXELS, CLASSES, bias=False)
    layer.weight.data = WEIGHT.clone()
    return nn.Sequential(nn.Flatten(), layer).eval()


def test_it_gives_what_the_attack_gives() -> None:
    model = linear()
    attack = bind(pgd, model, **PGD)
    moved = attack(IMAGES, LABELS)
    expected = pgd(model, IMAGES, LABELS, **PGD)
    assert torch.equal(moved, expected.images)
    assert attack.last.images is moved
    assert torch.equal(attack.last.fooled, expected.fooled)
    assert attack.last.passes == expected.passes
    again = attack.run(IMAGES[:2], LABELS[:2])
    assert attack.last is again
    assert len(again.images) == 2


def test_sample_ids_belong_to_the_call() -> None:
    attack = bind(pgd, linear(), **PGD | {"keep": "last", "steps": 1})
    one, other = attack(IMAGES, LABELS, IDS), attack(IMAGES, LABELS, sample_ids=IDS + 7)
    assert torch.equal(one, pgd(linear(), IMAGES, LABELS, sample_ids=IDS, keep="last", **PGD | {"steps": 1}).images)
    assert not torch.equal(one, other)


def test_it_stands_where_a_torchattacks_attack_stood() -> None:
    torchattacks = pytest.importorskip("torchattacks")
    model = linear()
    theirs = torchattacks.FGSM(model, eps=0.3)
    ours = bind(fgsm, model, objective=margin(), threat=Linf(0.3))

    def robust_accuracy(attack: Callable[[Tensor, Tensor], Tensor]) -> float:
        return float((model(attack(IMAGES, LABELS)).argmax(dim=1) == LABELS).double().mean())

    assert robust_accuracy(ours) <= robust_accuracy(theirs)


def test_before_the_first_call_there_is_no_result() -> None:
    with pytest.raises(ArgumentError, match=r"last is the result of the latest call, and there was none; call"):
        _ = bind(pgd, linear(), **PGD).last


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bind(pgd, linear(), **PGD, setps=3), r"pgd has no setting 'setps'; did you mean 'steps'\?"),
        (lambda: bind(pgd, linear(), **PGD, eps=3), r"pgd has no setting 'eps'; (did you mean|choose one of)"),
        (lambda: bind(pgd, linear(), steps=3), r"pgd also needs threat\."),
        (lambda: bind(mim, linear(), **PGD, random_start=True), r"mim has no setting 'random_start'"),
        (lambda: bind(pgd, linear(), **PGD, sample_ids=IDS), r"sample_ids belong to the images of one call; pass them"),
        (lambda: bind(pgd, linear(), **PGD, labels=LABELS), r"pgd has no setting 'labels'"),
        (lambda: bind(print, linear()), r"attack must be a function of model, images and labels .*; got print\."),
        (lambda: bind(torch.add, linear()), r"attack must be a function of model, images and labels .*; got add\."),
    ],
)
def test_settings_are_checked_at_once(unchecked: None, call: Callable[[], BoundAttack], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_crafting_function_can_be_bound_only_if_it_returns_a_result(unchecked: None) -> None:
    bound = bind(craft, linear(), **PGD)
    with pytest.raises(ArgumentError, match=r"craft must return a Result; got a Tensor\."):
        bound(IMAGES, LABELS, IDS)


def by_numpy(images: Tensor) -> Tensor:
    """A black box: arrays in and out, nothing that torch could differentiate."""
    logits = images.numpy().reshape(len(images), -1).astype(np.float64) @ WEIGHT.numpy().T.astype(np.float64)
    return torch.from_numpy(logits.astype(np.float32))


BLACK_BOXES = pytest.mark.parametrize("predict", [lambda images: images.flatten(1) @ WEIGHT.T, by_numpy])


@BLACK_BOXES
def test_an_attack_that_needs_gradients_refuses_a_function(predict: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ArgumentError, match=r"needs gradients, and a predict function has none; use spsa or square"):
        bind(pgd, predict, **PGD)(IMAGES, LABELS)


@BLACK_BOXES
def test_queries_are_enough_for_a_function(predict: Callable[[Tensor], Tensor]) -> None:
    attack = bind(spsa, predict, **SPSA)
    moved = attack(IMAGES.clone().requires_grad_(), LABELS)
    with_gradients = pgd(linear(), IMAGES, LABELS, **PGD | {"steps": 20})
    assert torch.equal(attack.last.fooled, with_gradients.fooled)
    assert attack.last.fooled.sum() >= 3
    assert torch.equal(predict(moved.detach()).argmax(dim=1) != LABELS, attack.last.fooled)
    torch.testing.assert_close(moved, spsa(linear(), IMAGES, LABELS, **SPSA).images, rtol=0, atol=1e-3)
