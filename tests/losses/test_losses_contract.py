"""What every head promises, whatever its formula: one call shape, pure values, right gradients, clear refusals."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from maxmahal.errors import ArgumentError
from maxmahal.losses import EMC, LOSSES, MMC, MMLDA, SCE, CenterLoss, gsce_loss
from maxmahal.losses.center import updated_centers
from maxmahal.models import Head


def test_the_loss_is_the_mean_over_the_samples(head: Head, features: Tensor, labels: Tensor) -> None:
    per_sample = head.per_sample(features, labels)
    assert per_sample.shape == (7,)
    assert head.eval()(features, labels).item() == pytest.approx(np.mean(per_sample.tolist()), rel=1e-12)


def test_a_samples_loss_does_not_depend_on_the_batch(head: Head, features: Tensor, labels: Tensor) -> None:
    alone = torch.cat([head.per_sample(features[i, None], labels[i, None]) for i in range(7)])
    torch.testing.assert_close(alone, head.per_sample(features, labels))


def test_values_and_logits_change_nothing_in_the_head(head: Head, features: Tensor, labels: Tensor) -> None:
    head.train()
    before = deepcopy(head.state_dict())
    head.per_sample(features, labels)
    head.logits(features)
    for name, value in head.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_gradients_are_those_of_the_values(head: Head, features: Tensor, labels: Tensor) -> None:
    head.eval()
    names = [name for name, _ in head.named_parameters()]

    def loss(z: Tensor, *parameters: Tensor) -> Tensor:
        return functional_call(head, dict(zip(names, parameters, strict=True)), (z, labels))

    inputs = (features, *(parameter.detach() for parameter in head.parameters()))
    assert torch.autograd.gradcheck(loss, [value.clone().requires_grad_() for value in inputs])


def test_logits_have_gradients_and_one_value_a_class(head: Head, features: Tensor) -> None:
    assert head.logits(features).shape == (7, 4)
    assert torch.autograd.gradcheck(head.logits, features.clone().requires_grad_())


def test_probabilities_sum_to_one_and_order_as_the_logits_do(head: Head, features: Tensor) -> None:
    shares = head.probabilities(features)
    torch.testing.assert_close(shares.sum(dim=1), torch.ones(7, dtype=torch.float64))
    assert (shares >= 0).all()
    assert torch.equal(shares.argsort(dim=1), head.logits(features).argsort(dim=1))


def test_heads_can_be_copied_pickled_and_changed_in_precision(head: Head, features: Tensor, labels: Tensor) -> None:
    head.eval()
    value = head(features, labels)
    assert torch.equal(deepcopy(head)(features, labels), value)
    assert torch.equal(pickle.loads(pickle.dumps(head))(features, labels), value)
    single = head.to(torch.float32)(features.float(), labels)
    assert single.dtype == torch.float32
    assert single.item() == pytest.approx(value.item(), rel=1e-4)


def test_autocast_does_not_round_distances_to_centers(head: Head, features: Tensor, labels: Tensor) -> None:
    if head.class_centers is None or isinstance(head, CenterLoss):
        pytest.skip("its logits are those of a linear layer")
    head, features = head.float().eval(), 100 + features.float()
    expected = head.logits(features), head.per_sample(features, labels)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.logits(features), head.per_sample(features, labels)
    torch.testing.assert_close(found, expected)
    half = features.bfloat16()
    torch.testing.assert_close(head.logits(half), head.logits(half.float()))
    torch.testing.assert_close(head.per_sample(half, labels), head.per_sample(half.float(), labels))


def test_autocast_does_not_round_centers_that_follow_the_features(features: Tensor, labels: Tensor) -> None:
    centers, features = torch.zeros(4, 3), 100 + features.float()
    expected = updated_centers(features, labels, centers, 0.5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(updated_centers(features, labels, centers, 0.5), expected)
    half = features.bfloat16()
    assert torch.equal(updated_centers(half, labels, centers, 0.5), updated_centers(half.float(), labels, centers, 0.5))


def test_a_state_dict_makes_another_head_the_same(head: Head, features: Tensor, labels: Tensor) -> None:
    other = deepcopy(head).eval()
    for tensor in (*other.parameters(), *other.buffers()):
        tensor.data = torch.zeros_like(tensor)
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(features, labels), head.eval()(features, labels))


def test_the_registry_names_every_loss_once() -> None:
    assert set(LOSSES) == {"sce", "mmc", "mmlda", "center", "lgm", "emc", "gsce", "cosface", "arcface"}
    assert len(set(LOSSES.values())) == len(LOSSES)


@pytest.mark.parametrize("kind", [MMC, MMLDA])
def test_preset_centers_and_the_scale_are_saved_and_never_trained(kind: type[Head]) -> None:
    given = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    head = kind(given, scale=2.0)
    given += 5.0  # the head keeps its own copy
    preset = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    state = head.state_dict()
    assert set(state) == {"centers", "scale"}
    assert torch.equal(state["centers"], preset)
    assert state["scale"] == 2
    model = nn.Sequential(nn.Linear(2, 2), head)
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0, weight_decay=0.1)
    head(model[0](torch.ones(2, 2)), torch.tensor([0, 1])).backward()
    optimiser.step()
    assert list(head.parameters()) == []
    assert head.centers.grad is None
    assert torch.equal(head.centers, preset)


def test_the_dtype_of_preset_centers_moves_with_the_head() -> None:
    head = MMC(torch.eye(3)).to(torch.float64)
    assert (head.centers.dtype, head.scale.dtype) == (torch.float64, torch.float64)


def test_labels_out_of_range_are_refused(head: Head, features: Tensor, labels: Tensor) -> None:
    for wrong, seen in ((-1, r"-1\.\.3"), (4, r"0\.\.4")):
        spoiled = labels.clone()
        spoiled[4] = wrong
        with pytest.raises(
            ArgumentError, match=rf"Labels must lie in 0\.\.3 because the head has 4 classes; got {seen}"
        ):
            head(features, spoiled)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_features_that_are_no_numbers_are_refused(head: Head, features: Tensor, labels: Tensor, bad: float) -> None:
    features[2, 1] = bad
    with pytest.raises(ArgumentError, match=r"NaN or infinity.*Lower the learning rate"):
        head(features, labels)


def test_features_of_another_width_are_refused(head: Head, labels: Tensor) -> None:
    with pytest.raises(ArgumentError, match=rf"{type(head).__name__} expects features of shape \(n, 3\); got \(7, 5\)"):
        head(torch.zeros(7, 5, dtype=torch.float64), labels)


@pytest.mark.usefixtures("unchecked")
def test_another_number_of_labels_is_refused(head: Head, features: Tensor, labels: Tensor) -> None:
    with pytest.raises(
        ArgumentError, match=r"one integer label for each of the 7 features; got labels of shape \(6,\)"
    ):
        head(features, labels[:6])
    with pytest.raises(ArgumentError, match=r"got labels of shape \(7, 1\)"):
        head(features, labels[:, None])
    with pytest.raises(ArgumentError, match=r"expects features of shape \(n, 3\); got \(3,\)"):
        head(features[0], labels[0])


def test_a_refusal_can_be_caught_as_a_value_error(features: Tensor) -> None:
    with pytest.raises(ValueError, match="Labels must lie in"):
        MMC(torch.eye(3).double())(features, torch.full((7,), 3))


@pytest.mark.parametrize("kind", [MMC, MMLDA, EMC])
@pytest.mark.parametrize("scale", [0.0, -2.0, torch.nan, torch.inf])
def test_scales_that_are_not_positive_are_refused(kind: type[Head], scale: float) -> None:
    with pytest.raises(ArgumentError, match=rf"scale must be positive.*got {scale}"):
        kind(torch.eye(3), scale=scale)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", [MMC, MMLDA, EMC])
def test_centers_must_be_a_finite_table(kind: type[Head]) -> None:
    with pytest.raises(ArgumentError, match=r"floating \(num_classes, dim\) tensor; got \S+ of shape \(3,\)"):
        kind(torch.ones(3))
    with pytest.raises(ArgumentError, match="must be a finite, floating"):
        kind(torch.full((3, 2), torch.nan))
    with pytest.raises(ArgumentError, match=r"got torch\.int64"):
        kind(torch.eye(3, dtype=torch.int64), scale=1.5)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_form_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ArgumentError, match=r"form = 'hubber' is unknown; did you mean 'huber'\?"):
        MMC(torch.eye(3), form="hubber")
    with pytest.raises(ArgumentError, match="form = 'xyz' is unknown; choose one of: absolute, huber, squared"):
        MMC(torch.eye(3), form="xyz")


@pytest.mark.parametrize("threshold", [0.0, -1.0])
def test_a_huber_threshold_must_be_a_distance(threshold: float) -> None:
    with pytest.raises(ArgumentError, match=rf"huber_threshold must be positive.*got {threshold}"):
        MMC(torch.eye(3), form="huber", huber_threshold=threshold)


@pytest.mark.parametrize("name", ["sce", "center", "lgm", "gsce", "cosface", "arcface"])
def test_heads_without_classes_or_width_are_refused(name: str) -> None:
    for shape in ((0, 3), (3, 0)):
        with pytest.raises(ArgumentError, match=rf"must be at least 1; got {shape[0]} and {shape[1]}"):
            LOSSES[name](num_classes=shape[0], feature_dim=shape[1])


@pytest.mark.parametrize("name", ["sce", "center", "lgm", "gsce", "cosface", "arcface"])
def test_sizes_are_told_by_name_because_linear_layers_have_them_the_other_way_round(name: str) -> None:
    kind = LOSSES[name]
    with pytest.raises(ArgumentError, match=rf"{kind.__name__}\(32, 10\) does not say.*num_classes=…, feature_dim=…"):
        kind(32, 10)
    with pytest.raises(ArgumentError, match=rf"{kind.__name__}\(10\) does not say"):
        kind(10, feature_dim=32)
    made = kind(num_classes=10, feature_dim=32)
    assert (made.num_classes, made.feature_dim) == (10, 32)


def test_a_head_of_ones_own_may_take_what_it_likes() -> None:
    class Own(SCE):
        def __init__(self, classes: int, width: int) -> None:
            super().__init__(num_classes=classes, feature_dim=width)

    assert Own(10, 32).feature_dim == 32


@pytest.mark.parametrize("name", ["cosface", "arcface"])
@pytest.mark.parametrize("setting", [{"margin": -0.1}, {"temperature": 0.0}])
def test_angular_settings_out_of_range_are_refused(name: str, setting: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match="margin must not be negative and temperature must be positive"):
        LOSSES[name](num_classes=3, feature_dim=2, **setting)


def test_a_loss_of_the_distance_alone_is_what_the_head_says(head: Head, features: Tensor, labels: Tensor) -> None:
    if (stated := head.distance_loss) is None:
        pytest.skip("no closed form")
    squares = (features - stated.centers[labels]).square().sum(dim=1)
    losses = stated.scale * (0.5 * squares + stated.shifts[labels])
    torch.testing.assert_close(losses, head.per_sample(features, labels))
    assert torch.equal(stated.centers, head.class_centers)


def test_quadratic_logits_give_the_heads_loss(head: Head, features: Tensor, labels: Tensor) -> None:
    if (stated := head.quadratic_logits) is None:
        pytest.skip("its logits are no such form")
    torch.testing.assert_close(gsce_loss(features, labels, *stated), head.per_sample(features, labels))


def test_where_zero_is_the_boundary_losses_order_the_classes_as_logits_do(head: Head, features: Tensor) -> None:
    losses = torch.stack([head.per_sample(features, torch.full((7,), label)) for label in range(4)], dim=1)
    if head.zero_is_boundary:
        assert torch.equal(losses.argsort(dim=1), (-head.logits(features)).argsort(dim=1))
    else:
        assert not isinstance(head, (MMC, MMLDA, SCE))


def test_a_loss_that_is_zero_at_its_centers_is_zero_nowhere_else(head: Head, features: Tensor, labels: Tensor) -> None:
    if not head.zero_at_centers:
        pytest.skip("it does not say so")
    at_centers = head.per_sample(head.class_centers[labels], labels)
    torch.testing.assert_close(at_centers, torch.zeros(7, dtype=torch.float64))
    assert (head.per_sample(features, labels) > 0).all()
