"""The center loss: its formula, its delta rule by hand, and its collapse without the softmax term (Remark 2)."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.losses import CenterLoss, updated_centers


def test_jointly_it_is_sce_plus_the_weighted_half_squared_distance() -> None:
    head = CenterLoss(num_classes=3, feature_dim=2, weight=0.25).double().eval()
    rng = np.random.default_rng(0)
    z, y, mu = rng.normal(size=(5, 2)), np.array([0, 1, 2, 2, 0]), rng.normal(size=(3, 2))
    head.centers.copy_(torch.tensor(mu))
    weight, bias = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    logits = z @ weight.T + bias
    softmax_part = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(5), y]
    expected = softmax_part + 0.25 * 0.5 * ((z - mu[y]) ** 2).sum(axis=1)
    actual = head.per_sample(torch.tensor(z), torch.tensor(y)).detach()
    torch.testing.assert_close(actual, torch.tensor(expected))
    torch.testing.assert_close(head.logits(torch.tensor(z)).detach(), torch.tensor(logits))


def test_alone_it_is_the_weighted_distance_and_the_nearest_center_predicts() -> None:
    head = CenterLoss(num_classes=2, feature_dim=2, weight=0.5, joint=False).double()
    head.centers.copy_(torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    z = torch.tensor([[1.0, 1.0], [3.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(head.per_sample(z, torch.tensor([0, 0])), torch.tensor([0.5, 2.25]).double())
    assert head.logits(z).argmax(dim=1).tolist() == [0, 1]
    assert list(head.parameters()) == []


HAND_Z = torch.tensor([[4.0, 0.0], [0.0, 2.0], [7.0, 7.0]], dtype=torch.float64)
HAND_Y = torch.tensor([0, 0, 2])
HAND_MU = torch.tensor([[1.0, 1.0], [5.0, 5.0], [3.0, -1.0]], dtype=torch.float64)
# Class 0: Σ(z - μ) = (3, -1) + (-1, 1) = (2, 0), over 1 + 2, half of it: (1/3, 0). Class 1: absent, does not move.
# Class 2: (4, 8) over 1 + 1, half of it: (1, 2).
HAND_MOVED = torch.tensor([[4 / 3, 1.0], [5.0, 5.0], [4.0, 1.0]], dtype=torch.float64)


def test_the_delta_rule_by_hand() -> None:
    torch.testing.assert_close(updated_centers(HAND_Z, HAND_Y, HAND_MU, 0.5), HAND_MOVED)
    assert torch.equal(updated_centers(HAND_Z, HAND_Y, HAND_MU, 0.0), HAND_MU)


def test_centers_move_by_the_delta_rule_in_training_and_only_there() -> None:
    head = CenterLoss(num_classes=3, feature_dim=2, update_rate=0.5).double()
    head.centers.copy_(HAND_MU)
    z = HAND_Z.clone().requires_grad_()
    head.eval()(z, HAND_Y)
    assert torch.equal(head.centers, HAND_MU)
    loss = head.train()(z, HAND_Y)
    torch.testing.assert_close(head.centers, HAND_MOVED)
    assert not head.centers.requires_grad
    loss.backward()  # the loss was taken at the old centers, and its graph survives their move
    expected = head.weight * (HAND_Z - HAND_MU[HAND_Y]) / 3
    head.zero_grad()
    free = HAND_Z.clone().requires_grad_()
    nn.functional.cross_entropy(head.linear(free), HAND_Y).backward()
    torch.testing.assert_close(z.grad, free.grad + expected)


def trained_spreads(joint: bool) -> tuple[float, float, float]:
    """Train a small net on three overlapping blobs; the spread of features before, of features and centers after."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(3).repeat(30)
    blobs = torch.tensor([[0.0, 2.0], [2.0, -1.0], [-2.0, -1.0]])[labels] + torch.randn(90, 2, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        head = CenterLoss(num_classes=3, feature_dim=2, weight=0.1 if joint else 1.0, joint=joint)
    optimiser = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.2, momentum=0.9, weight_decay=2e-4)

    def spread(points: Tensor) -> float:
        return float((points - points.mean(dim=0)).norm(dim=1).mean())

    before = spread(net(blobs).detach())
    for _ in range(300):
        optimiser.zero_grad()
        head(net(blobs), labels).backward()
        optimiser.step()
    return before, spread(net(blobs).detach()), spread(head.centers)


def test_alone_features_and_centers_collapse_while_jointly_they_stay_apart() -> None:
    before, features_alone, centers_alone = trained_spreads(joint=False)
    _, features_joint, centers_joint = trained_spreads(joint=True)
    assert features_alone < 0.05 * before
    assert centers_alone < 0.05 * before
    assert features_joint > before
    assert centers_joint > before


@pytest.mark.parametrize(("setting", "value"), [("weight", -0.1), ("update_rate", -0.1), ("update_rate", 1.1)])
def test_settings_out_of_range_are_refused(setting: str, value: float) -> None:
    with pytest.raises(ArgumentError, match=rf"{setting} must .*got {value}"):
        CenterLoss(num_classes=3, feature_dim=2, **{setting: value})


def test_logits_taken_before_the_centers_move_can_still_be_differentiated() -> None:
    head = CenterLoss(num_classes=3, feature_dim=2, weight=1.0, joint=False).train()
    features = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = torch.arange(6) % 3
    logits = head.logits(features)
    (logits.sum() + head(features, labels)).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
