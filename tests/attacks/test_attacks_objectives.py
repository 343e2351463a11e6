"""What attacks minimise, each against its formula in float64."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import (
    OBJECTIVES,
    Outputs,
    class_logit,
    cross_entropy,
    custom,
    dlr,
    margin,
    model_outputs,
    nearest_center,
    own_loss,
    own_loss_difference,
    prepare,
)
from maxmahal.attacks.objectives import zero_is_success
from maxmahal.errors import ArgumentError
from maxmahal.losses import EMC, MMC, SCE
from maxmahal.models import Classifier


def as_tensors(*arrays: np.ndarray) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(array) for array in arrays)


LOGITS = 3 * np.random.default_rng(0).normal(size=(40, 6))
LABELS, TARGETS = np.arange(40) % 6, (np.arange(40) + 1 + np.arange(40) // 8) % 6
ROWS = np.arange(40)
DESCENDING = -np.sort(-LOGITS, axis=1)


def best_but(classes: np.ndarray) -> np.ndarray:
    return np.array([max(h for k, h in enumerate(row) if k != c) for row, c in zip(LOGITS, classes, strict=True)])


def log_shares() -> np.ndarray:
    return LOGITS - np.log(np.exp(LOGITS).sum(axis=1, keepdims=True))


FORMULAS = {
    "cross-entropy": (cross_entropy(), log_shares()[ROWS, LABELS], -log_shares()[ROWS, TARGETS]),
    "class-logit": (class_logit(), LOGITS[ROWS, LABELS], -LOGITS[ROWS, TARGETS]),
    "margin": (margin(), LOGITS[ROWS, LABELS] - best_but(LABELS), LOGITS[ROWS, LABELS] - LOGITS[ROWS, TARGETS]),
    "margin-over-all": (
        margin(over_all=True),
        LOGITS[ROWS, LABELS] - best_but(LABELS),
        best_but(TARGETS) - LOGITS[ROWS, TARGETS],
    ),
    "dlr": (
        dlr(),
        (LOGITS[ROWS, LABELS] - best_but(LABELS)) / (DESCENDING[:, 0] - DESCENDING[:, 2]),
        (LOGITS[ROWS, LABELS] - LOGITS[ROWS, TARGETS]) / (DESCENDING[:, 0] - DESCENDING[:, 2:4].mean(axis=1)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_objectives_of_logits_are_their_formulas(name: str) -> None:
    objective, away, towards = FORMULAS[name]
    y, t = as_tensors(LABELS, TARGETS)
    torch.testing.assert_close(objective(Outputs(torch.tensor(LOGITS)), y, None), torch.tensor(away))
    torch.testing.assert_close(objective(Outputs(torch.tensor(LOGITS)), y, t), torch.tensor(towards))


def test_dlr_is_pyautoattacks_with_the_sign_turned() -> None:
    """Theirs is maximised; the 1e-12 they add to the denominator is invisible here."""
    base = pytest.importorskip("pyautoattack.autopgd_base")
    logits, (y, t) = torch.tensor(LOGITS), as_tensors(LABELS, TARGETS)
    theirs = base.APGDAttack(nn.Identity(), eps=0.1, device="cpu").dlr_loss(logits, y)
    torch.testing.assert_close(dlr()(Outputs(logits), y, None), -theirs)
    targeted = base.APGDAttack_targeted(nn.Identity(), eps=0.1, device="cpu")
    targeted.y_target = t
    torch.testing.assert_close(dlr()(Outputs(logits), y, t), -targeted.dlr_loss_targeted(logits, y))


def test_dlr_ignores_scale_and_shift_and_needs_enough_classes() -> None:
    logits, y, t = torch.tensor(LOGITS), *as_tensors(LABELS, TARGETS)
    for goal in (None, t):
        value = dlr()(Outputs(logits), y, goal)
        torch.testing.assert_close(dlr()(Outputs(7 * logits - 40), y, goal), value)
    with pytest.raises(ArgumentError, match=r"dlr needs at least 3 classes; the model has 2\. Use margin\(\)\."):
        dlr()(Outputs(logits[:, :2]), y % 2, None)
    with pytest.raises(ArgumentError, match=r"dlr needs at least 4 classes with targets; the model has 3\."):
        dlr()(Outputs(logits[:, :3]), y % 3, (y + 1) % 3)


def test_the_nearest_center_is_chosen_anew_and_follows_trained_centers() -> None:
    centers = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0]], dtype=torch.float64)
    y = torch.tensor([0, 0])
    z = torch.tensor([[1.0, 0.0], [0.0, 5.0]], dtype=torch.float64, requires_grad=True)
    value = nearest_center(MMC(centers))(Outputs(z, z), y, None)
    torch.testing.assert_close(value.detach(), torch.tensor([4.5, 0.5], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(value.sum(), z)
    torch.testing.assert_close(gradient, torch.tensor([[-3.0, 0.0], [0.0, -1.0]], dtype=torch.float64))
    towards = nearest_center(MMC(centers))(Outputs(z, z), y, torch.tensor([2, 1]))
    torch.testing.assert_close(towards.detach(), torch.tensor([18.5, 20.5], dtype=torch.float64))
    elastic = EMC(centers, alpha=0.25)
    elastic.offsets.data[1] = torch.tensor([0.0, 2.0])  # moves by √0.25 of it, to (4, 1)
    moved = nearest_center(elastic)(Outputs(z, z), y, None)
    torch.testing.assert_close(moved.detach(), torch.tensor([5.0, 0.5], dtype=torch.float64))
    assert not torch.autograd.grad(moved.sum(), [z, elastic.offsets], allow_unused=True)[1]
    with pytest.raises(ArgumentError, match=r"nearest_center needs a head with centers; SCE has none\. Use margin\(\)"):
        nearest_center(SCE(num_classes=3, feature_dim=2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_nearest_center_takes_features_in_half_precision(dtype: torch.dtype) -> None:
    features = torch.tensor([[1.0, 0.0], [0.0, 5.0]], dtype=dtype)
    value = nearest_center(MMC(torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 6.0]])))
    assert value(Outputs(features, features), torch.tensor([0, 0]), None).tolist() == [4.5, 0.5]


def test_a_function_of_ones_own() -> None:
    def double_logit(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return 2 * outputs.logits[:, 0]

    outputs, y = Outputs(torch.tensor(LOGITS)), torch.tensor(LABELS)
    named = custom(double_logit, name="double", zero_is_success=True)
    assert torch.equal(named(outputs, y, None), torch.tensor(2 * LOGITS[:, 0]))
    assert named.name == "double"
    assert zero_is_success(named)
    assert not zero_is_success(custom(double_logit))
    assert not zero_is_success(double_logit)
    double_logit.zero_is_success = True
    assert zero_is_success(double_logit)


class Plain(nn.Module):
    """A model without a features method."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


def test_a_plain_model_has_logits_only_and_no_loss_of_its_own() -> None:
    images, labels = torch.rand(2, 1, 1, 3), torch.tensor([0, 1])
    outputs = model_outputs(Plain(), images)
    assert torch.equal(outputs.logits, images.flatten(1))
    assert outputs.features is None
    head = MMC(torch.eye(3))
    for objective, name, instead in (
        (own_loss(head), "own_loss", "class_logit"),
        (own_loss_difference(head), "own_loss_difference", "margin"),
        (nearest_center(head), "nearest_center", "margin"),
    ):
        sentence = rf"{name} needs the model's features; attack a maxmahal\.Classifier, or use {instead}\(\)\."
        with pytest.raises(ArgumentError, match=sentence):
            objective(outputs, labels, None)


def test_a_classifier_shows_its_features() -> None:
    model = Classifier(nn.Flatten(), SCE(num_classes=4, feature_dim=3))
    images = torch.rand(2, 1, 1, 3)
    outputs = model_outputs(model, images)
    assert torch.equal(outputs.features, images.flatten(1))
    assert torch.equal(outputs.logits, model(images))


def with_a_hook(model: Classifier) -> None:
    model.register_forward_hook(lambda module, inputs, logits: -logits)


def with_a_pre_hook(model: Classifier) -> None:
    model.register_forward_pre_hook(lambda module, inputs: (1 - inputs[0],))


def with_its_own_forward(model: Classifier) -> None:
    model.forward = lambda images: -model.head.logits(model.features(images))  # type: ignore[method-assign]


@pytest.mark.parametrize("change", [with_a_hook, with_a_pre_hook, with_its_own_forward])
@pytest.mark.parametrize("prepared", [False, True])
def test_what_changes_a_call_of_a_classifier_changes_its_outputs(
    change: Callable[[Classifier], None], prepared: bool
) -> None:
    model = Classifier(nn.Flatten(), SCE(num_classes=4, feature_dim=3)).eval()
    images = torch.rand(2, 1, 1, 3)
    before = model(images)
    change(model)
    assert not torch.allclose(model(images), before)
    outputs = prepare(model).search(images) if prepared else model_outputs(model, images)
    torch.testing.assert_close(outputs.logits, model(images))
    assert outputs.features is None


def test_objectives_have_names_for_settings_files() -> None:
    head = MMC(torch.tensor([[3.0, 0.0], [0.0, 2.0], [-1.0, -1.0], [4.0, 4.0]], dtype=torch.float64))
    z, y = torch.tensor(LOGITS[:, :2]), torch.tensor(LABELS % 4)
    outputs = Outputs(head.logits(z), z)
    by_hand = {
        "own": own_loss(head),
        "own-difference": own_loss_difference(head),
        "cross-entropy": cross_entropy(),
        "class-logit": class_logit(),
        "margin": margin(),
        "margin-over-all": margin(over_all=True),
        "dlr": dlr(),
        "nearest-center": nearest_center(head),
    }
    protocol = {"paper": own_loss(head), "paper-difference": own_loss_difference(head), "paper-spsa": own_loss(head)}
    assert set(OBJECTIVES) == {*by_hand, *protocol}
    for name, objective in protocol.items():
        assert OBJECTIVES[name](head).name == objective.name
    others = {name: OBJECTIVES[name](SCE(num_classes=4, feature_dim=2)).name for name in ("paper", "paper-spsa")}
    assert others == {"paper": "cross-entropy", "paper-spsa": "margin-over-all"}
    for name, objective in by_hand.items():
        assert OBJECTIVES[name](head).name == objective.name == name
        for goal in (None, (y + 1) % 4):
            assert torch.equal(OBJECTIVES[name](head)(outputs, y, goal), objective(outputs, y, goal))
