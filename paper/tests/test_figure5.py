"""Figure 5's centers are the regular simplices."""

import numpy as np
import pytest

from paper.gallery.figure import FigureRecord
from paper.gallery.figures import figure5


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_centers_are_the_regular_simplex(records: dict[str, FigureRecord], classes: int) -> None:
    case = next(each for each in records["figure5"]["cases"] if each["classes"] == classes)
    centers = np.array(case["centers"])
    assert centers.shape == (classes, classes - 1)
    assert np.linalg.norm(centers, axis=1) == pytest.approx(10.0, abs=1e-4)
    assert centers.sum(axis=0) == pytest.approx(0.0, abs=1e-4)
    gaps = [np.linalg.norm(centers[i] - centers[j]) for i in range(classes) for j in range(i)]
    assert gaps == pytest.approx([10 * (2 * classes / (classes - 1)) ** 0.5] * len(gaps), abs=1e-3)
    assert case["cosine"] == pytest.approx(-1 / (classes - 1), abs=1e-5)


def test_the_triangle_is_the_known_one(records: dict[str, FigureRecord]) -> None:
    triangle = np.array(records["figure5"]["cases"][1]["centers"])
    known = 10 * np.array([[1, 0], [-0.5, 3**0.5 / 2], [-0.5, -(3**0.5) / 2]])
    assert triangle == pytest.approx(known, abs=1e-5)


def test_turning_keeps_lengths_and_angles() -> None:
    points = np.random.default_rng(0).normal(size=(4, 3))
    turned = figure5.turned(points, 0.7, -1.1)
    assert turned @ turned.T == pytest.approx(points @ points.T)
    assert figure5.turned(np.array([[1.0, 0, 0]]), np.pi / 2, 0.0)[0] == pytest.approx([0, 0, -1])
    assert figure5.turned(np.array([[0, 0, 1.0]]), 0.0, np.pi / 2)[0] == pytest.approx([0, -1, 0])


def test_edges_behind_a_tetrahedron_are_known() -> None:
    # One face towards the reader, one vertex far behind its middle: only the three edges to that vertex are hidden.
    behind = np.array([[1, 0, 0], [-0.5, 0.9, 0], [-0.5, -0.9, 0], [0, 0, -1.0]])
    assert [figure5.hidden(behind, i, j) for i, j in ((0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))] == [
        False, False, False, True, True, True,
    ]  # fmt: skip
    assert not any(figure5.hidden(behind * [1, 1, -1], i, 3) for i in range(3))  # now it stands in front
