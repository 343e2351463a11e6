"""C&W and the minimum-norm attack where the smallest perturbation is known, and what they promise about samples."""

import math
from collections.abc import Callable

import pytest
import torch
from small_models import Curved, Linear, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import (
    Engine,
    Linf,
    Nearest,
    carlini_wagner,
    cross_entropy,
    custom,
    dlr,
    fmn,
    margin,
    own_loss_difference,
    pgd,
    prepare,
)
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC
from maxmahal.models import Classifier

# Thousands of steps: the shapes are checked where the engine is tested.
pytestmark = pytest.mark.usefixtures("unchecked")

CENTRAL = 0.5 + 0.03 * normal(3, 5, 1, 3, 4).clamp(-2, 2)  # the bounds are far away
CORNERED = (uniform(4, 5, 1, 3, 4) > 0.5).float() * 0.97 + 0.015  # nearly every pixel is next to a bound


def two_classes(images: Tensor, distance: float) -> nn.Module:
    """Linear logits whose difference at the first image is ``distance`` gradients' lengths."""
    weight = normal(1, 2, 12)
    slope = weight[0] - weight[1]
    offset = distance * slope.norm() - slope @ images[0].flatten()
    return Linear(weight, torch.stack([offset, torch.zeros(())])).eval()


def shortest(model: Linear, image: Tensor, norm: str, label: int = 0, other: int = 1) -> float:
    """The smallest perturbation over the boundary inside [0, 1], by bisection on the multiplier, in float64."""
    slope = (model.weight[label] - model.weight[other]).detach().double()
    pixels = image.flatten().double()
    gap = float(slope @ pixels + (model.bias[label] - model.bias[other]).detach().double())

    def moved(amount: float) -> Tensor:
        step = amount * slope if norm == "l2" else amount * slope.sign()
        return (pixels - step).clamp(0, 1)

    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gap + float(slope @ (moved(middle) - pixels)) > 0 else (low, middle)
    change = moved(high) - pixels
    return float(change.norm() if norm == "l2" else change.abs().max())


def nearest(attack: str, model: nn.Module, images: Tensor, labels: Tensor, **more: object) -> Nearest:
    if attack == "carlini":
        return carlini_wagner(
            model, images, labels, steps=200, search_steps=6, learning_rate=0.02, initial_c=0.1, **more
        )
    return fmn(model, images, labels, norm=attack.removeprefix("fmn "), steps=150, **more)


ATTACKS = ["carlini", "fmn l2", "fmn linf"]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize(("images", "bites"), [(CENTRAL, False), (CORNERED, True)], ids=["central", "cornered"])
def test_a_linear_model_gives_the_closed_form(attack: str, targeted: bool, images: Tensor, bites: bool) -> None:
    model = two_classes(images, 0.3)
    labels, norm = torch.tensor([0]), "linf" if attack == "fmn linf" else "l2"
    expected = shortest(model, images[0], norm)
    slope = (model.weight[0] - model.weight[1]).detach()
    unbounded = 0.3 if norm == "l2" else float(0.3 * slope.norm() / slope.abs().sum())
    assert (expected > 1.05 * unbounded) == bites
    found = nearest(attack, model, images[:1], labels, targets=1 - labels if targeted else None)
    assert found.success.all()
    assert expected * (1 - 1e-4) <= float(found.distances) <= 1.05 * expected
    assert predictions(model, found.images).item() == 1
    assert 0 <= found.images.min() <= found.images.max() <= 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_of_several_classes_the_nearest_is_found(attack: str) -> None:
    model = Linear(normal(8, 5, 12), normal(9, 5)).eval()
    images = CENTRAL
    labels = predictions(model, images)
    norm = "linf" if attack == "fmn linf" else "l2"
    found = nearest(attack, model, images, labels)
    for index, label in enumerate(labels.tolist()):
        best = min(shortest(model, images[index], norm, label, other) for other in range(5) if other != label)
        assert best * (1 - 1e-4) <= float(found.distances[index]) <= 1.05 * best


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_logits_that_are_never_positive_are_no_obstacle(attack: str, scale: float) -> None:
    """Libraries that take max(one_hot·logits) see 0 for every class of an MMC head."""
    centers = torch.tensor([[5.0, 0.0, 0.0], [-2.0, 4.0, 0.0], [0.0, -3.0, 4.0]])
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    backbone[1].weight.data, backbone[1].bias.data = 4 * normal(5, 3, 12), normal(6, 3)
    model = Classifier(backbone, MMC(centers, scale=scale)).eval()
    labels = predictions(model, CENTRAL)
    assert bool((model(CENTRAL) < 0).all())
    found = nearest(attack, model, CENTRAL, labels)
    assert found.success.all()
    assert torch.equal(predictions(model, found.images) != labels, found.fooled)
    paper = nearest(attack, model, CENTRAL, labels, objective=own_loss_difference(model.head))
    torch.testing.assert_close(found.distances, paper.distances, rtol=0.02, atol=1e-4)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_sample_that_is_wrong_already_has_distance_zero(attack: str) -> None:
    model = two_classes(CENTRAL, 0.3)
    found = nearest(attack, model, CENTRAL[:1], torch.tensor([1]))
    assert found.distances.tolist() == [0.0]
    assert torch.equal(found.images, CENTRAL[:1])
    assert found.passes.backward == 0


@pytest.mark.parametrize("attack", ATTACKS)
def test_where_nothing_can_be_found_the_image_comes_back(attack: str) -> None:
    model = Linear(torch.zeros(3, 12), torch.tensor([3.0, 0.0, 0.0])).eval()
    images = CENTRAL[:2]
    found = nearest(attack, model, images, torch.zeros(2, dtype=torch.int64))
    assert not found.success.any()
    assert found.distances.isinf().all()
    assert torch.equal(found.images, images)
    assert math.isnan(found.mean_distance)


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_sample_finds_the_same_in_any_company(attack: str) -> None:
    model = Curved(row_by_row=True).double().eval()
    images = uniform(0, 5, 1, 4, 4).double()
    labels = predictions(model, images)
    few = {"steps": 40, "search_steps": 3} if attack == "carlini" else {"steps": 30}

    def run(rows: list[int], batch_size: int) -> Nearest:
        engine = Engine(batch_size=batch_size)
        if attack == "carlini":
            return carlini_wagner(model, images[rows], labels[rows], learning_rate=0.05, engine=engine, **few)
        return fmn(model, images[rows], labels[rows], norm=attack.removeprefix("fmn "), engine=engine, **few)

    whole = run([0, 1, 2, 3, 4], 5)
    assert whole.success.any()
    for rows, batch_size in (([4, 2, 0, 1, 3], 2), ([3, 1], 1)):
        part = run(rows, batch_size)
        assert torch.equal(part.distances, whole.distances[rows])
        assert torch.equal(part.images, whole.images[rows])


def test_the_curve_agrees_with_attacks_inside_the_threat() -> None:
    model = Curved(3).eval()
    images = uniform(1, 40, 1, 4, 4)
    labels = predictions(model, images)
    found = fmn(model, images, labels, norm="linf", steps=100, targets="all-others")
    for epsilon in (0.02, 0.05, 0.1):
        direct = pgd(
            model, images, labels, objective=margin(), threat=Linf(epsilon), steps=50, step_size=epsilon / 10, seed=0,
            targets="all-others",
        )  # fmt: skip
        left = float((found.distances > epsilon).double().mean())
        assert 0 < left < 1
        assert abs(left - direct.accuracy) <= 1.01 / 40


def test_confidence_asks_for_a_margin() -> None:
    model = two_classes(CENTRAL, 0.2)
    labels = torch.tensor([0])
    plain = nearest("carlini", model, CENTRAL[:1], labels)
    sure = nearest("carlini", model, CENTRAL[:1], labels, confidence=0.5)
    logits = model(sure.images)
    assert float((logits[0, 1] - logits[0, 0]).detach()) >= 0.5 - 1e-5
    assert float(sure.distances) > float(plain.distances)


def test_objectives_without_a_threshold_go_unclamped() -> None:
    model = two_classes(CENTRAL, 0.2)
    labels = torch.tensor([0])
    found = nearest("carlini", model, CENTRAL[:1], labels, objective=cross_entropy())
    assert found.success.all()
    assert float(found.distances) <= 1.25 * 0.2
    clamped = nearest("carlini", model, CENTRAL[:1], labels, objective=custom(margin(), zero_is_success=True))
    assert float(clamped.distances) <= 1.05 * 0.2


def test_a_prepared_model_finds_the_same_and_the_original_confirms() -> None:
    model = Curved(7).eval()
    images = uniform(6, 8, 1, 4, 4)
    labels = predictions(model, images)
    plain, fast = (fmn(one, images, labels, norm="l2", steps=60) for one in (model, prepare(model.eval())))
    torch.testing.assert_close(fast.distances, plain.distances, rtol=1e-3, atol=1e-5)
    assert torch.equal(predictions(model, fast.images) != labels, fast.fooled)


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        (lambda m, x, y: carlini_wagner(m, x, y, steps=0), "steps must be a whole number of at least 1; got 0"),
        (lambda m, x, y: carlini_wagner(m, x, y, search_steps=0), "search_steps must be"),
        (lambda m, x, y: carlini_wagner(m, x, y, initial_c=-1.0), "initial_c must be positive"),
        (lambda m, x, y: carlini_wagner(m, x, y, confidence=-1.0), "confidence must not be negative"),
        (lambda m, x, y: carlini_wagner(m, x, y, objective=cross_entropy(), confidence=1.0), "confidence needs"),
        (lambda m, x, y: fmn(m, x, y, norm="l1"), "norm = 'l1' is unknown"),
        (lambda m, x, y: fmn(m, x, y, norm="l2", objective=dlr()), "dlr needs at least 3 classes"),
    ],
)
def test_bad_arguments(attack: Callable[[nn.Module, Tensor, Tensor], Nearest], words: str) -> None:
    model = two_classes(CENTRAL, 0.3).eval()
    with pytest.raises(ArgumentError, match=words):
        attack(model, CENTRAL[:1], torch.tensor([0]))
