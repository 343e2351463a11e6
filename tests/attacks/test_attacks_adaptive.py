"""The paper's four adaptive objectives (appendix B.4), for every loss with centers."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from maxmahal.attacks import (
    Outputs,
    class_logit,
    cross_entropy,
    dlr,
    margin,
    nearest_center,
    own_loss,
    own_loss_difference,
)
from maxmahal.attacks.objectives import zero_is_success
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, CenterLoss
from maxmahal.models import Head

SEEDS = st.integers(0, 2**32 - 1)
CLASSES, DIM = 5, 3


def example(seed: int, equal_norms: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels, targets that are not the labels, and centers."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, 6)
    targets = (labels + rng.integers(1, CLASSES, 6)) % CLASSES
    centers = rng.normal(size=(CLASSES, DIM)) * 3
    if equal_norms:
        centers *= 4 / np.linalg.norm(centers, axis=1, keepdims=True)
    return 3 * rng.normal(size=(6, DIM)), labels, targets, centers


def paper_loss(z: np.ndarray, y: int, centers: np.ndarray) -> float:
    return float(((z - centers[y]) ** 2).sum() / 2)


def outputs_of(head: Head, z: np.ndarray) -> Outputs:
    features = torch.tensor(z)
    return Outputs(head.logits(features), features)


def as_tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(array) for array in arrays)


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS, equal_norms=st.booleans())
def test_the_margin_is_the_papers_second_objective(seed: int, equal_norms: bool) -> None:
    z, labels, targets, centers = example(seed, equal_norms)
    outputs = outputs_of(MMC(torch.tensor(centers)), z)
    untargeted, targeted = [], []
    for point, y, t in zip(z, labels, targets, strict=True):
        wrong = [k for k in range(CLASSES) if k != y]
        runner_up = min(wrong, key=lambda k: paper_loss(point, k, centers))  # argmax of h is argmin of the distance
        untargeted.append(paper_loss(point, runner_up, centers) - paper_loss(point, y, centers))
        targeted.append(paper_loss(point, t, centers) - paper_loss(point, y, centers))
    y, t = as_tensors(labels, targets)
    torch.testing.assert_close(margin()(outputs, y, None), torch.tensor(untargeted, dtype=torch.float64))
    torch.testing.assert_close(margin()(outputs, y, t), torch.tensor(targeted, dtype=torch.float64))


@settings(deadline=None, max_examples=30)
@given(seed=SEEDS)
def test_the_margin_is_linear_in_the_features(seed: int) -> None:
    """z·(μ_y - μ_t) - ½(‖μ_y‖² - ‖μ_t‖²)."""
    z, labels, targets, centers = example(seed)
    own, other = centers[labels], centers[targets]
    expected = (z * (own - other)).sum(axis=1) - ((own**2).sum(axis=1) - (other**2).sum(axis=1)) / 2
    actual = margin()(outputs_of(MMC(torch.tensor(centers)), z), *as_tensors(labels, targets))
    torch.testing.assert_close(actual, torch.tensor(expected))


def center_heads(centers: Tensor) -> dict[str, Head]:
    """Every loss with centers, its parameters away from their special starting values."""
    heads: dict[str, Head] = {
        "mmc": MMC(centers),
        "mmc scale 2": MMC(centers, scale=2.0),
        "mmc absolute": MMC(centers, form="absolute"),
        "mmc huber": MMC(centers, form="huber", huber_threshold=2.0),
        "mmlda": MMLDA(centers),
        "mmlda scale 2": MMLDA(centers, scale=2.0),
        "emc": EMC(centers, alpha=0.2, scale=2.0),
        "center": CenterLoss(num_classes=CLASSES, feature_dim=DIM, weight=0.3),
        "center alone": CenterLoss(num_classes=CLASSES, feature_dim=DIM, weight=0.3, joint=False),
        "lgm": LGM(num_classes=CLASSES, feature_dim=DIM, margin=0.3, likelihood_weight=0.1, covariance="diagonal"),
        "gsce": GSCE(num_classes=CLASSES, feature_dim=DIM),
    }
    generator = torch.Generator().manual_seed(0)
    for head in heads.values():
        head.double().eval()
        for parameter in head.parameters():
            parameter.data = 0.7 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return heads


with torch.random.fork_rng():
    torch.manual_seed(0)  # some heads draw their first centers
    HEADS = center_heads(torch.tensor(example(0)[3]))


@pytest.mark.parametrize("name", HEADS)
def test_the_papers_four_objectives_for_every_loss_with_centers(name: str) -> None:
    """un,1 = -L(z,y); tar,1 = L(z,t); un,2 = L(z,ỹ) - L(z,y) with ỹ the best wrong class; tar,2 = L(z,t) - L(z,y)."""
    head = HEADS[name]
    z, labels, targets, _ = example(1)
    outputs = outputs_of(head, z)
    logits = outputs.logits.detach().numpy()
    with torch.no_grad():
        every = [head.per_sample(torch.tensor(z), torch.full((6,), k)).numpy() for k in range(CLASSES)]
    loss = np.stack(every, axis=1)
    rows = np.arange(6)
    hidden = logits.copy()
    hidden[rows, labels] = -np.inf
    best_wrong = hidden.argmax(axis=1)
    assert (best_wrong != logits.argmax(axis=1)).any()  # not simply the prediction
    y, t = as_tensors(labels, targets)
    expected = {
        "un,1": (own_loss(head)(outputs, y, None), -loss[rows, labels]),
        "tar,1": (own_loss(head)(outputs, y, t), loss[rows, targets]),
        "un,2": (own_loss_difference(head)(outputs, y, None), loss[rows, best_wrong] - loss[rows, labels]),
        "tar,2": (own_loss_difference(head)(outputs, y, t), loss[rows, targets] - loss[rows, labels]),
    }
    for which, (actual, formula) in expected.items():
        torch.testing.assert_close(actual.detach(), torch.tensor(formula), msg=lambda text, w=which: f"{w}: {text}")


@pytest.mark.parametrize("scale", [1.0, 2.0])
@pytest.mark.parametrize("kind", [MMC, MMLDA])
def test_the_loss_difference_is_the_margin_where_the_loss_orders_classes_as_the_logits_do(
    kind: Callable[..., Head], scale: float
) -> None:
    z, labels, targets, centers = example(2)
    assert np.ptp(np.linalg.norm(centers, axis=1)) > 1  # centers of unequal length
    head = kind(torch.tensor(centers), scale=scale)
    outputs, y = outputs_of(head, z), torch.tensor(labels)
    for goal in (None, torch.tensor(targets)):
        value = own_loss_difference(head)(outputs, y, goal)
        torch.testing.assert_close(value, margin()(outputs, y, goal))
        other_scale = kind(torch.tensor(centers), scale=3 - scale)
        assert (own_loss_difference(other_scale)(outputs, y, goal) - value).abs().min() > 0.1
    absolute = MMC(torch.tensor(centers), form="absolute")
    assert (own_loss_difference(absolute)(outputs, y, None) - margin()(outputs, y, None)).abs().min() > 0.1


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_the_own_loss_is_the_papers_first_objective(scale: float) -> None:
    z, labels, targets, centers = example(0)
    head = MMC(torch.tensor(centers), scale=scale)
    outputs, (y, t) = outputs_of(head, z), as_tensors(labels, targets)
    untargeted = [-scale * paper_loss(point, label, centers) for point, label in zip(z, labels, strict=True)]
    targeted = [scale * paper_loss(point, target, centers) for point, target in zip(z, targets, strict=True)]
    torch.testing.assert_close(own_loss(head)(outputs, y, None), torch.tensor(untargeted, dtype=torch.float64))
    torch.testing.assert_close(own_loss(head)(outputs, y, t), torch.tensor(targeted, dtype=torch.float64))


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_below_zero_means_fooled_wherever_an_objective_promises_it(seed: int) -> None:
    z, labels, targets, centers = example(seed)
    y, t = as_tensors(labels, targets)
    softmax = SCE(num_classes=CLASSES, feature_dim=DIM).double()
    softmax.linear.weight.data = torch.tensor(centers)
    heads = (MMC(torch.tensor(centers)), MMC(torch.tensor(centers), form="huber"), MMLDA(torch.tensor(centers)))
    for head in (*heads, softmax):
        outputs = outputs_of(head, z)
        predicted = outputs.logits.argmax(dim=1)
        for objective in (margin(), dlr(), own_loss_difference(head)):
            assert zero_is_success(objective)
            assert torch.equal(objective(outputs, y, None) < 0, predicted != y)
            # With a target, below zero means only that the label has lost to the target: fooled, not always hit.
            targeted = objective(outputs, y, t)
            assert (predicted != y)[targeted < 0].all()
            assert (targeted < 0)[predicted == t].all()


def test_objectives_whose_zero_means_nothing_do_not_promise_it() -> None:
    for name, head in HEADS.items():
        promised = name.startswith(("mmc", "mmlda"))
        assert zero_is_success(own_loss_difference(head)) == promised, name
        assert not zero_is_success(own_loss(head))
    assert not any(map(zero_is_success, (cross_entropy(), class_logit(), nearest_center(HEADS["mmc"]))))


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_at_a_center_cross_entropy_has_no_gradient_in_float32_and_the_margin_has(scale: float) -> None:
    """The reason the margin exists: exp(-111) is 0 in float32, so the softmax's gradient is exactly 0 there."""
    centers = max_mahalanobis_centers(10, 16, 10.0).float()
    head, labels = MMC(centers, scale=scale), torch.arange(10)
    norms = {}
    for name, objective in (("softmax", cross_entropy()), ("margin", margin()), ("own", own_loss(head))):
        z = centers.clone().requires_grad_()
        value = objective(Outputs(head.logits(z), z), labels, None)
        (gradient,) = torch.autograd.grad(value.sum(), z)
        norms[name] = gradient.norm(dim=1)
    assert torch.equal(norms["softmax"], torch.zeros(10))
    assert torch.equal(norms["own"], torch.zeros(10))
    assert (norms["margin"] > scale * 10).all()
