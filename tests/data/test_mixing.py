"""CutMix: rectangles, and labels that count by area."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.data import cutmix


def mixed(
    uniforms: list[float], probability: float = 1.0, height: int = 8, width: int = 12
) -> tuple[torch.Tensor, float]:
    """Where a white image was pasted onto a black one, and the share of the black."""
    black = torch.zeros(1, 3, height, width)
    images, shares = cutmix(black, black + 1, torch.tensor([uniforms]), probability)
    assert torch.equal(images[0, 0], images[0, 2])
    return images[0, 0], float(shares)


def test_a_quarter_of_the_area_in_the_middle_is_half_of_each_side() -> None:
    image, share = mixed([0.0, 0.25, 0.5, 0.5])
    expected = torch.zeros(8, 12)
    expected[2:6, 3:9] = 1
    assert torch.equal(image, expected)
    assert share == 0.75


def test_a_rectangle_ends_at_the_edge_and_its_label_counts_what_is_left() -> None:
    image, share = mixed([0.0, 0.25, 0.0, 0.5])
    assert image[:2, 3:9].all()
    assert image.sum() == 12
    assert share == pytest.approx(1 - 12 / 96)


def test_the_first_number_decides_whether_an_image_is_mixed() -> None:
    assert mixed([0.29, 0.25, 0.5, 0.5], 0.3)[1] == 0.75
    image, share = mixed([0.31, 0.25, 0.5, 0.5], 0.3)
    assert share == 1
    assert not image.any()


@given(
    st.lists(st.floats(0, 1, exclude_max=True, width=32), min_size=4, max_size=4), st.integers(1, 9), st.integers(1, 9)
)
def test_the_share_is_that_of_the_pixels(uniforms: list[float], height: int, width: int) -> None:
    image, share = mixed(uniforms, 1.0, height, width)
    assert share == pytest.approx(1 - float(image.mean()), abs=1e-6)
    assert image.mean() <= uniforms[1] + 1e-6 + (height + width) / (height * width), "at most a row and a column more"
