"""The windows and bumps of Square attack by the paper's formulas, and what it proposes from one query to the next."""

import pytest
import torch
from small_models import Linear, Recorder, normal, uniform
from torch import Tensor

from maxmahal.attacks import L2, Engine, Linf, Outputs
from maxmahal.attacks.square import draw_windows, patterns, square, tiles, window_sides


def test_windows_have_their_samples_sides_and_reach_every_place() -> None:
    sides = torch.tensor([1, 3]).repeat(2000)
    windows = draw_windows(torch.arange(4000), sides, (5, 7), "test")
    assert torch.equal(windows.inside.sum(dim=(1, 2, 3)), sides.square())
    for side in (1, 3):
        corners = [tuple(window[0].nonzero()[0].tolist()) for window in windows.inside[sides == side]]
        places = {(row, column) for row in range(5 - side + 1) for column in range(7 - side + 1)}
        assert set(corners) == places  # the last row and the last column too
        counts = torch.tensor([corners.count(place) for place in places])
        assert counts.min() > 0.5 * counts.float().mean()


def bump(height: int, width: int) -> Tensor:
    """The paper's equation 2, sum by sum."""
    values, n = torch.zeros(height, width), max(height, width) // 2
    for row in range(1, height + 1):
        for column in range(1, width + 1):
            inwards = n - max(abs(row - height // 2 - 1), abs(column - width // 2 - 1))
            values[row - 1, column - 1] = sum(1 / (n + 1 - k) ** 2 for k in range(inwards + 1))
    return values


@pytest.mark.parametrize("side", [2, 3, 5, 8, 11])
def test_bumps_are_the_papers(side: int) -> None:
    upper, lower = bump(side // 2, side), bump(side - side // 2, side)
    expected = torch.cat([upper / upper.norm(), -lower / lower.norm()])
    table = patterns((side, 1), torch.device("cpu"))
    torch.testing.assert_close(table[0], expected / expected.norm())
    assert table[1, 0, 0].abs() == 1
    assert table[1].count_nonzero() == 1


def test_a_bump_lies_in_its_window_upright_or_turned() -> None:
    ids, sides = torch.arange(40), torch.full((40,), 3)
    windows = draw_windows(ids, sides, (6, 8), "test")
    turned = ids % 2 == 0
    pattern = patterns((3,), torch.device("cpu"))
    placed = windows.lookup(pattern.expand(40, 3, 3), turned)
    for sample in range(40):
        inside = placed[sample][windows.inside[sample]].reshape(3, 3)
        assert torch.equal(inside, pattern[0].T if turned[sample] else pattern[0])
    assert placed[~windows.inside].count_nonzero() == 0


def test_tiles_cover_images_of_any_size_with_both_signs_and_both_turns() -> None:
    covered = tiles(torch.arange(50), 3, (7, 11), 3, "test")
    assert covered.shape == (50, 3, 7, 11)
    pattern = patterns((3,), torch.device("cpu"))[0]
    corners = covered[:, :, 3:6, 6:9]
    kinds = {"up": pattern, "down": -pattern, "turned": pattern.T, "turned down": -pattern.T}
    found = {name for name, kind in kinds.items() if (corners == kind).all(dim=(2, 3)).any()}
    assert found == set(kinds)
    assert (covered != 0).flatten(1).float().mean() > 0.6


def test_sides_follow_the_share_of_the_pixels() -> None:
    assert window_sides(0.8, 32, 32, odd=False) == (29, 20, 14, 10, 7, 5, 4, 3, 2, 1)
    assert window_sides(0.8, 32, 32, odd=True) == (29, 21, 15, 11, 7, 5, 5, 3, 3, 3)
    assert window_sides(1.0, 4, 9, odd=True) == (4, 4, 3, 3, 3, 3, 3, 3, 3, 3)


def never_better(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
    return torch.zeros(len(labels))


def proposals(threat: Linf | L2, images: Tensor, queries: int) -> Tensor:
    """The start, then every proposal made from it while nothing is ever better."""
    recorder = Recorder(Linear(normal(0, 2, images[0].numel()), torch.zeros(2))).eval()
    labels = torch.zeros(len(images), dtype=torch.int64)
    engine = Engine(early_exit=False)
    square(recorder, images, labels, objective=never_better, threat=threat, queries=queries, seed=0, engine=engine)
    return torch.stack(recorder.seen[1:])


@pytest.mark.parametrize("channels", [1, 3])
def test_no_query_is_wasted_and_windows_shrink_over_the_budget(channels: int) -> None:
    images = uniform(4, 6, channels, 16, 16).round()  # at 0 and 1 half of the range is cut off
    seen = proposals(Linf(0.1), images, queries=250)
    assert len(seen) == 250
    start = seen[0]
    torch.testing.assert_close(
        (start - images).abs().amax(dim=2), torch.full((6, channels, 16), 0.1), rtol=0, atol=1e-6
    )
    changed = (seen[1:] != start).any(dim=2)  # [query, sample, row, column]
    assert changed.flatten(2).any(dim=2).all()
    heights = changed.any(dim=3).sum(dim=2).amax(dim=1)
    sides = torch.tensor(window_sides(0.8, 16, 16, odd=False))
    ends = torch.tensor([10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000])  # the paper's, of 10,000 queries
    allowed = sides[(40 * torch.arange(249)[:, None] > ends).sum(dim=1)]
    assert (heights <= allowed).all()
    assert (heights == allowed).float().mean() > 0.9


@pytest.mark.parametrize("channels", [1, 3])
def test_l2_proposals_spend_the_whole_epsilon_in_a_window(channels: int) -> None:
    images = 0.5 + 0.1 * (uniform(4, 6, channels, 16, 16) - 0.5)
    seen = proposals(L2(0.5), images, queries=100)
    lengths = (seen - images).flatten(2).norm(dim=2)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.5), rtol=1e-4, atol=0)
    start = seen[0]
    changed = ((seen[-30:] - start).abs() > 1e-6).any(dim=2).flatten(2).sum(dim=2)
    assert (changed > 0).all()
    assert (changed <= 2 * 3 * 3).all()  # late in the budget: two windows of side 3


@pytest.mark.parametrize("channels", [1, 3])
def test_what_the_bounds_cut_off_is_spent_elsewhere(channels: int) -> None:
    """Black pixels on the right cannot get darker, so the start is too short; a window on the left makes up for it."""
    images = 0.4 + 0.2 * uniform(4, 8, channels, 16, 16)
    images[:, :, :, 8:] = 0
    seen = proposals(L2(0.5), images, queries=100)
    start, late = seen[0], seen[-60:]
    assert ((start - images).flatten(1).norm(dim=1) < 0.48).all()
    changed = ((late - start).abs() > 1e-6).any(dim=2)
    left = ~changed[:, :, :, 8:].flatten(2).any(dim=2)
    assert left.any()
    assert (changed.flatten(2).sum(dim=2) <= 2 * 3 * 3).all()
    lengths = (late - images).flatten(2).norm(dim=2)[left]
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.5), rtol=1e-4, atol=0)
