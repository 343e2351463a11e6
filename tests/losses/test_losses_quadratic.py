"""The paper's claim that every softmax loss is Eq. 3 with the quadratic logits of Eq. 4."""

import numpy as np
import pytest
import torch
from torch import Tensor

from maxmahal.errors import ArgumentError
from maxmahal.losses import GSCE, LGM, MMLDA, SCE, gsce_loss, quadratic_logits


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


Z, Y, MU, B = 1.5 * draw(0, 6, 3), torch.tensor([0, 1, 2, 3, 3, 1]), draw(1, 4, 3), draw(2, 4)


def test_quadratic_logits_are_equation_4() -> None:
    root = draw(3, 4, 3, 3)
    precisions = root @ root.transpose(1, 2)
    expected = [
        [
            -float((z - mu) @ sigma @ (z - mu)) + b
            for mu, sigma, b in zip(*map(np.asarray, (MU, precisions, B)), strict=True)
        ]
        for z in Z.numpy()
    ]
    torch.testing.assert_close(quadratic_logits(Z, MU, precisions, B), torch.tensor(expected, dtype=torch.float64))


def test_a_scalar_a_diagonal_and_a_matrix_say_the_same() -> None:
    sigma = draw(4, 4).exp()
    diagonal = sigma[:, None].expand(4, 3)
    scalar_logits = quadratic_logits(Z, MU, sigma, B)
    torch.testing.assert_close(quadratic_logits(Z, MU, diagonal, B), scalar_logits)
    torch.testing.assert_close(quadratic_logits(Z, MU, torch.diag_embed(diagonal), B), scalar_logits)
    uneven = draw(5, 4, 3).exp()
    torch.testing.assert_close(quadratic_logits(Z, MU, uneven, B), quadratic_logits(Z, MU, torch.diag_embed(uneven), B))


def test_other_ranks_of_precision_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"precisions must have shape \(l,\), \(l, d\) or \(l, d, d\); got \(4, 1, 1, 1\)"
    ):
        quadratic_logits(Z, MU, torch.ones(4, 1, 1, 1, dtype=torch.float64), B)


def test_equation_3_is_the_softmax_cross_entropy_of_the_logits() -> None:
    logits = quadratic_logits(Z, MU, torch.ones(4, dtype=torch.float64), B).numpy()
    expected = [np.log(np.exp(row).sum()) - row[y] for row, y in zip(logits, Y, strict=True)]
    actual = gsce_loss(Z, Y, MU, torch.ones(4, dtype=torch.float64), B)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64))


def test_sce_is_a_special_case() -> None:
    """μ = W/2, B = b + ‖W‖²/4 and Σ = I."""
    head = SCE(num_classes=4, feature_dim=3).double()
    weight, bias = head.linear.weight.detach(), head.linear.bias.detach()
    special = gsce_loss(Z, Y, weight / 2, torch.ones(4).double(), bias + weight.square().sum(dim=1) / 4)
    torch.testing.assert_close(head.per_sample(Z, Y).detach(), special)


def test_mmlda_is_a_special_case() -> None:
    """Σ = I/2 and B = 0."""
    special = gsce_loss(Z, Y, MU, torch.full((4,), 0.5).double(), torch.zeros(4).double())
    torch.testing.assert_close(MMLDA(MU).per_sample(Z, Y), special)


def test_lgm_without_its_extras_is_a_special_case() -> None:
    """Σ = Λ⁻¹/2 and B = -½log|Λ|."""
    head = LGM(num_classes=4, feature_dim=3, margin=0.0, likelihood_weight=0.0, covariance="diagonal").double()
    variances = draw(6, 4, 3).exp()
    head.centers.data, head.log_variances.data = MU, variances.log()
    special = gsce_loss(Z, Y, MU, 0.5 / variances, -0.5 * variances.prod(dim=1).log())
    torch.testing.assert_close(head.per_sample(Z, Y).detach(), special)


def test_the_trainable_head_is_equation_3_with_its_own_parameters() -> None:
    head = GSCE(num_classes=4, feature_dim=3).double()
    head.log_precisions.data, head.biases.data = draw(7, 4), draw(8, 4)
    sigma = head.log_precisions.detach().exp()
    torch.testing.assert_close(
        head.per_sample(Z, Y).detach(), gsce_loss(Z, Y, head.centers.detach(), sigma, head.biases.detach())
    )
    assert {name for name, _ in head.named_parameters()} == {"centers", "log_precisions", "biases"}
