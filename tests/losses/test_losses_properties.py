"""Inequalities the paper states about MMC, and what its uncertainty scores mean, as properties."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxmahal import MMC, max_mahalanobis_centers, random_centers
from maxmahal.losses import mmc_loss, pairing_loss

VECTORS = hnp.arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))
LABEL = torch.tensor([0])


def mmc_on_both(z: torch.Tensor, moved: torch.Tensor, center: torch.Tensor) -> float:
    return 2 * (mmc_loss(z, LABEL, center) + mmc_loss(moved, LABEL, center)).item()


def runner_up_closeness(features: torch.Tensor) -> torch.Tensor:
    """Minus the gap between the best logit and the second."""
    best, second = HEAD.logits(features).topk(2, dim=1).values.unbind(dim=1)
    return second - best


@given(clean=VECTORS, adversarial=VECTORS, center=VECTORS)
@settings(deadline=None)
def test_mmc_on_both_images_bounds_half_the_pairing_loss(
    clean: np.ndarray, adversarial: np.ndarray, center: np.ndarray
) -> None:
    """Appendix B.2: ½‖z - z*‖² <= ‖z - μ‖² + ‖z* - μ‖², with equality half-way."""
    z, moved, mu = (torch.tensor(value[None]) for value in (clean, adversarial, center))
    pairing, bound = pairing_loss(z, moved).item(), mmc_on_both(z, moved, mu)
    np.testing.assert_allclose(pairing, ((clean - adversarial) ** 2).sum(), rtol=1e-12, atol=1e-100)
    np.testing.assert_allclose(
        bound, ((clean - center) ** 2).sum() + ((adversarial - center) ** 2).sum(), rtol=1e-12, atol=1e-100
    )
    assert 0.5 * pairing <= bound * (1 + 1e-12) + 1e-100
    half_way = torch.tensor((clean + adversarial)[None] / 2)
    np.testing.assert_allclose(mmc_on_both(z, moved, half_way), 0.5 * pairing, rtol=1e-9, atol=1e-9)


@given(feature=VECTORS, norm=st.floats(0.1, 100.0), seed=st.integers(0, 1000))
@settings(deadline=None)
def test_mmc_penalises_features_longer_or_shorter_than_the_centers(feature: np.ndarray, norm: float, seed: int) -> None:
    """Appendix B.5: ‖z - μ‖² >= (‖z‖ - C)²."""
    centers = random_centers(3, 4, norm, seed=seed).double()
    centers *= norm / centers.norm(dim=1, keepdim=True)
    z = torch.tensor(feature[None]).expand(3, -1)
    squared = 2 * mmc_loss(z, torch.arange(3), centers)
    radial = (np.linalg.norm(feature) - norm) ** 2
    assert (squared >= radial * (1 - 1e-9) - 1e-9).all()
    along = centers * 2.5  # straight out from the center the bound is reached
    torch.testing.assert_close(
        2 * mmc_loss(along, torch.arange(3), centers), torch.full((3,), (1.5 * norm) ** 2).double()
    )


CENTERS = max_mahalanobis_centers(5, 6, 10.0).double()
HEAD = MMC(CENTERS)
LARGEST_GAP = 10.0**2 * 5 / 4  # ½‖μ_i - μ_j‖² = C²·L/(L-1) between corners of a simplex


def test_at_a_center_the_loss_is_zero_and_the_gap_that_between_centers() -> None:
    torch.testing.assert_close(HEAD.predicted_class_loss(CENTERS), torch.zeros(5).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(runner_up_closeness(CENTERS), torch.full((5,), -LARGEST_GAP).double(), rtol=1e-5, atol=0)


@given(feature=hnp.arrays(np.float64, 6, elements=st.floats(-10, 10)))
@settings(deadline=None)
def test_nothing_within_the_centers_sphere_is_surer_than_a_center(feature: np.ndarray) -> None:
    feature = feature / max(1.0, np.linalg.norm(feature) / 10)
    z = torch.tensor(feature[None])
    closeness = runner_up_closeness(z).item()
    assert -LARGEST_GAP * (1 + 1e-5) <= closeness <= 0
    distances = ((feature - CENTERS.numpy()) ** 2).sum(axis=1) / 2
    np.testing.assert_allclose(HEAD.predicted_class_loss(z).item(), distances.min(), rtol=1e-9, atol=1e-9)
    ordered = np.sort(distances)
    np.testing.assert_allclose(closeness, ordered[0] - ordered[1], rtol=1e-9, atol=1e-9)


def test_on_a_boundary_the_runner_up_is_as_close_as_the_best() -> None:
    pairs = torch.combinations(torch.arange(5))
    half_way = CENTERS[pairs].mean(dim=1)
    torch.testing.assert_close(runner_up_closeness(half_way), torch.zeros(10).double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(
        HEAD.predicted_class_loss(half_way), torch.full((10,), LARGEST_GAP / 4).double(), rtol=1e-5, atol=0
    )
