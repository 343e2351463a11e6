"""Centers for very many classes: codes in closed form against all their cosines, and what making them costs."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from maxmahal.centers import (
    center_statistics,
    max_mahalanobis,
    max_mahalanobis_centers,
    random_centers,
    spherical_code,
    spherical_codes,
)
from maxmahal.centers.quadratic_codes import QuadraticCode, quadratic_code, widest_quadratic_code
from maxmahal.errors import ArgumentError

# All forms of few bits, Kerdock's (order 0) and Delsarte and Goethals', as far as all pairs are soon looked at.
WHOLE = [QuadraticCode(3, 0, 1), QuadraticCode(3, 1, 1), QuadraticCode(5, 0, 1), QuadraticCode(5, 1, 1)]


class Largest(TorchDispatchMode):
    """Notes how many entries the largest tensor has that any operation makes."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        self.entries = max([self.entries, *sizes])
        return made


def largest_cosine(points: torch.Tensor) -> float:
    return center_statistics(points).largest_cosine


@pytest.mark.parametrize("code", WHOLE, ids=str)
def test_a_whole_code_has_the_cosine_it_promises(code: QuadraticCode) -> None:
    points = quadratic_code(code.capacity, code.width, code=code)
    assert largest_cosine(points) == pytest.approx(code.largest_cosine, abs=1e-12)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(code.capacity, dtype=torch.float64))
    assert points.sum(dim=0).abs().max() == 0


@pytest.mark.parametrize(("bits", "order"), [(7, 0), (7, 1), (7, 2), (7, 3), (9, 0), (9, 1), (11, 1)])
def test_forms_spread_over_a_large_code_keep_the_promise(bits: int, order: int) -> None:
    code = QuadraticCode(bits, order, 1)
    # The first 2^m forms have one coefficient; the next have two, and so on: enough rows to reach several of them.
    count = min(code.capacity, 2 * code.width * (3 + 2**bits * (order > 1)))
    points = quadratic_code(count, code.width, code=code).float()
    chosen = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:64]
    cosines = points[chosen] @ points.T
    cosines[torch.arange(64), chosen] = -1.0
    assert float(cosines.max()) <= code.largest_cosine + 1e-5


@pytest.mark.parametrize(("num_classes", "dim", "least_gain"), [(4096, 64, 0.4), (2500, 100, 0.25), (6000, 255, 0.2)])
def test_many_centers_are_far_wider_than_random_ones(num_classes: int, dim: int, least_gain: float) -> None:
    ours = max_mahalanobis_centers(num_classes, dim)
    assert ours.shape == (num_classes, dim)
    torch.testing.assert_close(ours.norm(dim=1), torch.full((num_classes,), 10.0))
    assert largest_cosine(ours) <= largest_cosine(random_centers(num_classes, dim, seed=0)) - least_gain


def test_a_hundred_thousand_classes() -> None:
    centers = max_mahalanobis_centers(100_000, 512, 1.0)
    assert centers.shape == (100_000, 512)
    chosen = torch.randperm(100_000, generator=torch.Generator().manual_seed(0))[:128]
    cosines = centers[chosen] @ centers.T
    assert torch.equal(cosines.argmax(dim=1), chosen)
    cosines[torch.arange(128), chosen] = -1.0
    assert float(cosines.max()) == pytest.approx(1 / 16)


def test_the_same_centers_always() -> None:
    centers = max_mahalanobis_centers(3000, 64)
    assert torch.equal(centers, max_mahalanobis_centers(3000, 64, seed=1))  # a closed form needs no seed
    assert torch.equal(centers[:2500], max_mahalanobis_centers(2500, 64))  # more classes leave the first ones alone


def test_copies_share_the_points_evenly_and_are_orthogonal() -> None:
    points = quadratic_code(101, 40, code=QuadraticCode(3, 1, 5))
    blocks_used = (points.reshape(101, 5, 8) != 0).any(dim=2)
    assert blocks_used.sum(dim=1).tolist() == [1] * 101
    assert blocks_used.sum(dim=0).tolist() == [22, 22, 22, 22, 13]
    assert largest_cosine(points) <= 0.5 + 1e-12


def test_the_widest_code_is_chosen() -> None:
    assert widest_quadratic_code(100_000, 512) == QuadraticCode(9, 1, 1)
    assert widest_quadratic_code(65_536, 256) == QuadraticCode(7, 0, 1)
    assert widest_quadratic_code(65_537, 256) == QuadraticCode(7, 2, 2)
    assert widest_quadratic_code(100, 7) is None


@pytest.mark.parametrize(("num_classes", "dim"), [(2_000, 512), (20_000, 64), (2_001, 3)])
def test_a_search_goes_on_where_it_is_better_or_all_there_is(
    num_classes: int, dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def search(*size: int, seed: int, device: object) -> torch.Tensor:
        asked.append((*size, seed))
        return torch.zeros(size, dtype=torch.float64)

    monkeypatch.setattr(max_mahalanobis, "spherical_code", search)
    max_mahalanobis_centers(num_classes, dim, seed=3)
    assert asked == [(num_classes, dim, 3)]
    assert max_mahalanobis_centers(20_001, 64).norm() > 0
    assert max_mahalanobis_centers(2_001, 512).norm() > 0
    assert len(asked) == 1


@pytest.mark.parametrize(("num_classes", "dim"), [(20_001, 3), (300_001, 64)])
def test_a_search_of_hours_is_refused(num_classes: int, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(max_mahalanobis, "spherical_code", lambda *_, **__: pytest.fail("a search began"))
    with pytest.raises(ArgumentError, match=rf"{num_classes} centers in dim={dim} would take hours.*: raise dim"):
        max_mahalanobis_centers(num_classes, dim)


def test_making_many_centers_needs_no_more_than_they_fill() -> None:
    with Largest() as largest:
        max_mahalanobis_centers(20_000, 128)
    assert largest.entries <= (20_000 + 2 * 128) * 128  # whole forms are made, and the last one cut


def test_the_search_never_holds_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = spherical_code(1500, 16, restarts=1, steps=3)
    monkeypatch.setattr(spherical_codes, "BLOCK_ENTRIES", 2**17)
    with Largest() as largest:
        in_blocks = spherical_code(1500, 16, restarts=1, steps=3)
    assert largest.entries <= 2**17
    torch.testing.assert_close(in_blocks, whole, rtol=0, atol=1e-12)


def test_another_type_and_device_are_what_the_caller_asks_for() -> None:
    centers = max_mahalanobis_centers(3000, 64, dtype=torch.float64, device="meta")
    assert (centers.dtype, centers.device.type) == (torch.float64, "meta")
    assert max_mahalanobis_centers(5, 8, device="meta").is_meta


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quadratic_code(100, 7), r"No quadratic code has 100 points in 7 dimensions: raise dim, or search"),
        (lambda: quadratic_code(300, 16, code=QuadraticCode(3, 0, 1)), r"has 300 points in 16 dimensions as Quadratic"),
        (lambda: quadratic_code(10, 15, code=QuadraticCode(3, 0, 1)), r"has 10 points in 15 dimensions as Quadratic"),
        (lambda: quadratic_code(0, 16), r"num_points must be a whole number of at least 1; got 0\."),
    ],
)
def test_a_callers_mistake_is_named(call, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
