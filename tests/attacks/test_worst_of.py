"""The worst of several transformations against an exhaustive search, and what a single one would have found."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from maxmahal.attacks import Transformed
from maxmahal.attacks.transforms import (
    gaussian_noise,
    random_angles,
    random_rotation,
    rotate,
    worst_of_noise,
    worst_of_rotations,
)
from maxmahal.errors import ArgumentError
from maxmahal.random import derive

COUNT = 24
IMAGES = torch.rand(COUNT, 2, 7, 9, generator=torch.Generator().manual_seed(0))
IDS = torch.arange(100, 100 + COUNT)
WEIGHT = torch.randn(3, 126, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
ONCE = {"tries": 1, "seed": 0, "sample_ids": IDS}


def predict(images: Tensor) -> Tensor:
    # In float64 and row by row, so that a sample's logits do not depend on its batch.
    return (images.double().flatten(1)[:, None] * WEIGHT).sum(dim=2)


LABELS = predict(IMAGES).argmax(dim=1)


class Watched:
    """A predict function that notes how many images each call showed it."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, images: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        self.batches.append(len(images))
        return predict(images)


def noise(
    images: Tensor, labels: Tensor, ids: Tensor, tries: int = 6, seed: int = 0, by: Callable = predict
) -> Transformed:
    return worst_of_noise(by, images, labels, std=0.08, tries=tries, seed=seed, sample_ids=ids)


def turns(
    images: Tensor, labels: Tensor, ids: Tensor, tries: int = 6, seed: int = 0, by: Callable = predict
) -> Transformed:
    return worst_of_rotations(by, images, labels, max_degrees=8.0, tries=tries, seed=seed, sample_ids=ids)


SEARCHES = pytest.mark.parametrize("search", [noise, turns])


def ids_of_try(attempt: int) -> Tensor:
    return IDS if attempt == 0 else derive(IDS, torch.full_like(IDS, attempt))


def candidates(search: Callable) -> list[Tensor]:
    """Every transformation of every image, tried or not."""
    if search is noise:
        return [gaussian_noise(IMAGES, std=0.08, seed=0, sample_ids=ids_of_try(attempt)) for attempt in range(6)]
    return [random_rotation(IMAGES, max_degrees=8.0, seed=0, sample_ids=ids_of_try(attempt)) for attempt in range(6)]


@SEARCHES
def test_it_keeps_the_first_that_fools_or_the_smallest_margin(search: Callable) -> None:
    everything = candidates(search)
    found = search(IMAGES, LABELS, IDS)
    tries = []
    for row in range(COUNT):
        logits = torch.stack([predict(images[row, None])[0] for images in everything])
        others = logits.clone()
        others[:, LABELS[row]] = -torch.inf
        margins = logits[:, LABELS[row]] - others.amax(dim=1)
        fools = (margins < 0).nonzero().squeeze(1)
        best = int(fools[0]) if len(fools) else int(margins.argmin())
        torch.testing.assert_close(found.images[row], everything[best][row], rtol=0, atol=1e-6)
        assert bool(found.fooled[row]) == (len(fools) > 0)
        tries.append(best + 1 if len(fools) else len(everything))
    assert found.tries.tolist() == tries
    assert found.passes.queries == sum(tries) + COUNT, "and a verdict on each"
    assert found.spent.queries.tolist() == [each + 1 for each in tries]
    assert 0 < int(found.fooled.sum()) < COUNT  # or one half of this test would be empty


@SEARCHES
def test_fooled_samples_are_not_shown_again_and_the_search_ends_with_the_last(search: Callable) -> None:
    watched = Watched()
    found = search(IMAGES, LABELS, IDS, by=watched)
    assert watched.batches[0] == COUNT
    assert watched.batches[-1] == COUNT, "the verdict"
    assert watched.batches[:-1] == sorted(watched.batches[:-1], reverse=True)
    assert sum(watched.batches) == found.passes.queries < COUNT * len(watched.batches)
    watched = Watched()
    found = search(IMAGES, (LABELS + 1) % 3, IDS, by=watched)
    again = predict(found.images).argmax(dim=1) != (LABELS + 1) % 3
    assert torch.equal(found.fooled, again)
    assert len(watched.batches) - 1 < len(candidates(search))


@SEARCHES
def test_more_tries_only_add(search: Callable) -> None:
    before = search(IMAGES, LABELS, IDS, tries=1)
    torch.testing.assert_close(before.images, candidates(search)[0])
    for tries in (2, 4):
        after = search(IMAGES, LABELS, IDS, tries=tries)
        assert (after.fooled >= before.fooled).all()
        assert torch.equal(after.images[before.fooled], before.images[before.fooled])
        before = after


@SEARCHES
@settings(deadline=None, max_examples=20)
@given(order=st.permutations(range(COUNT)), size=st.integers(1, COUNT))
def test_a_sample_is_treated_the_same_in_any_batch(search: Callable, order: list[int], size: int) -> None:
    rows = torch.tensor(order[:size])
    together, apart = search(IMAGES, LABELS, IDS), search(IMAGES[rows], LABELS[rows], IDS[rows])
    assert torch.equal(apart.fooled, together.fooled[rows])
    torch.testing.assert_close(apart.images, together.images[rows], rtol=0, atol=1e-6)
    if together.angles is not None:
        assert torch.equal(apart.angles, together.angles[rows])


@pytest.mark.parametrize("search", [noise, turns])
def test_the_seed_matters(search: Callable) -> None:
    one, other = (search(IMAGES, LABELS, IDS, seed=seed) for seed in (0, 1))
    assert not (one.images == other.images).flatten(1).all(dim=1).any()


@SEARCHES
def test_images_stay_in_range_and_the_callers_are_not_touched(search: Callable) -> None:
    sharp = (IMAGES > 0.3).float()
    given_images, given_labels = sharp.clone().requires_grad_(), LABELS.clone()
    found = search(given_images, given_labels, IDS)
    assert torch.equal(given_images, sharp)
    assert torch.equal(given_labels, LABELS)
    assert given_images.grad is None
    assert not found.images.requires_grad
    assert found.images.min() >= 0
    assert found.images.max() <= 1


@SEARCHES
def test_inside_autocast_only_a_success_in_float32_ends_the_tries(search: Callable) -> None:
    """bfloat16 has 8 bits: 0.4996 and 0.5 are one number to it, and then class 0 wins."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).eval()
    model[1].weight.data = torch.tensor([[0.4996], [0.5]])
    images = torch.full((1, 1, 1, 1), 0.5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(images).argmax().item() == 0
        found = search(images, torch.tensor([1]), IDS[:1], tries=4, by=model)
    assert found.fooled.tolist() == [False]
    assert found.tries.tolist() == [4]


def test_noise_may_go_unclipped() -> None:
    options = {"std": 0.3, "tries": 3, "seed": 0, "sample_ids": IDS}
    free = worst_of_noise(predict, IMAGES, LABELS, clip=False, **options)
    assert free.images.min() < 0
    assert free.images.max() > 1
    assert free.angles is None
    assert worst_of_noise(predict, IMAGES, LABELS, **options).images.max() <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_angles_make_the_images(dtype: torch.dtype) -> None:
    images = IMAGES.to(dtype)
    found = turns(images, LABELS, IDS)
    assert found.images.dtype == dtype
    torch.testing.assert_close(rotate(images, found.angles), found.images, rtol=0, atol=1e-6)
    assert len(found.angles.unique()) > 2


def test_random_turns_are_uniform_over_tries_too() -> None:
    """A model that is fooled by turns beyond 25 degrees only: the share fooled is known for every number of tries."""
    count = 4000
    ramp = (torch.arange(9, dtype=torch.float64) - 4).expand(count, 1, 9, 9)

    def notices(images: Tensor) -> Tensor:
        angle = torch.atan2(images[:, 0, 3, 4] - images[:, 0, 5, 4], images[:, 0, 4, 5] - images[:, 0, 4, 3])
        return torch.stack([torch.full_like(angle, 25.0), torch.rad2deg(angle).abs()], dim=1)

    labels, ids = torch.zeros(count, dtype=torch.int64), torch.arange(count)
    for tries in (1, 3, 6):
        found = worst_of_rotations(notices, ramp, labels, max_degrees=30.0, tries=tries, seed=0, sample_ids=ids)
        assert float(found.fooled.double().mean()) == pytest.approx(1 - (25 / 30) ** tries, abs=0.04)
        assert torch.equal(found.fooled, found.angles.abs() > 25)
        assert found.angles.abs().max() <= 30
    assert torch.equal(
        worst_of_rotations(notices, ramp, labels, max_degrees=30.0, tries=1, seed=0, sample_ids=ids).angles,
        random_angles(ids, max_degrees=30.0, seed=0),
    )


@SEARCHES
def test_no_samples_are_refused(search: Callable) -> None:
    with pytest.raises(ArgumentError, match=r"images must hold at least one image; got none\."):
        search(IMAGES[:0], LABELS[:0], IDS[:0])


def test_a_tie_that_fools_beats_a_tie_that_does_not() -> None:
    """Of equal logits the first class is predicted: a margin of zero may fool, or not."""
    tries = [torch.tensor([[0.0, 1.0, 1.0]]), torch.tensor([[1.0, 1.0, 0.0]])]
    answers = iter([*tries, tries[1]])
    found = turns(IMAGES[:1], torch.tensor([1]), IDS[:1], tries=2, by=lambda _: next(answers))
    assert found.fooled.all()
    assert found.attempts.tolist() == [1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise(IMAGES, LABELS, IDS, tries=0), r"tries must be a whole number of at least 1; got 0\."),
        (lambda: turns(IMAGES, LABELS, IDS, tries=0), r"tries must be a whole number of at least 1; got 0\."),
        (lambda: noise(IMAGES, LABELS[:3], IDS), r"labels must hold one value for each of the 24 images; got 3\."),
        (lambda: noise(IMAGES, LABELS, IDS[:3]), r"sample_ids must hold one value for each of the 24 images; got 3\."),
        (lambda: turns(IMAGES, LABELS, IDS[:3]), r"sample_ids must hold one value for each of the 24 images; got 3\."),
        (lambda: worst_of_rotations(predict, IMAGES, LABELS, max_degrees=torch.inf, **ONCE), r"positive; got inf\."),
        (
            lambda: worst_of_noise(predict, IMAGES, LABELS, std=-0.1, **ONCE),
            r"std must be zero or positive; got -0\.1\.",
        ),
        (
            lambda: noise(IMAGES, LABELS, IDS, by=lambda images: predict(images)[0]),
            r"for a batch of 24; got the shape \(3,\)\.",
        ),
        (
            lambda: noise(IMAGES, LABELS, IDS, by=lambda images: predict(images) * torch.nan),
            r"The model returned NaN",
        ),
    ],
)
def test_what_is_refused(unchecked: None, call: Callable[[], Transformed], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
