"""Figure 6: fields and winners follow from closed forms."""

import numpy as np
import pytest
import torch

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import MMC
from paper.gallery.figure import FigureRecord
from paper.gallery.figures import figure6
from paper.gallery.figures.figure6 import LABEL, STEP, TARGET

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def head() -> MMC:
    return MMC(max_mahalanobis_centers(3, 2, 10.0))


@pytest.fixture(scope="module")
def starts(head: MMC) -> torch.Tensor:
    return head.centers[LABEL] + torch.randn(64, 2, generator=torch.Generator().manual_seed(5))


def unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors, dim=1)


def test_fields_are_the_papers(head: MMC, starts: torch.Tensor) -> None:
    own, target = head.centers[LABEL], head.centers[TARGET]
    nearest = torch.cdist(starts, head.centers[1:]).argmin(dim=1) + 1
    expected = {
        "un,1": unit(starts - own),
        "un,2": unit(head.centers[nearest] - own),
        "tar,1": unit(target - starts),
        "tar,2": unit(target - own).expand_as(starts) if target.ndim == 2 else unit((target - own)[None]).expand(64, 2),
    }
    for name, field in expected.items():
        torch.testing.assert_close(figure6.direction(head, name, starts), field, atol=1e-4, rtol=1e-4)


def test_the_margin_takes_the_shortest_way_out(records: dict[str, FigureRecord]) -> None:
    record = records["figure6"]
    lengths = {name: each["misclassify"] for name, each in record["objectives"].items()}
    # The first step across the boundary is at most one step late.
    assert record["shortest"] <= lengths["un,2"] <= record["shortest"] + STEP
    assert min(lengths, key=lambda name: lengths[name]) == "un,2"


def test_outcomes_in_closed_form(head: MMC, starts: torch.Tensor) -> None:
    length = 20.0
    away = (starts - head.centers[LABEL]).norm(dim=1)
    fled = figure6.outcome(head, figure6.walk(head, "un,1", starts, length))
    assert fled["leave"] == pytest.approx(float(away.mean()) + length, abs=1e-2)  # straight away at unit speed
    arrived = figure6.walk(head, "tar,1", starts, length)[-1]
    torch.testing.assert_close(arrived, head.centers[TARGET].expand_as(arrived), atol=1e-4, rtol=0)
    assert figure6.outcome(head, arrived[None])["evade"] == 1.0
    # tar,2 keeps its offset from the straight line between the two centers.
    gap = float((head.centers[LABEL] - head.centers[TARGET]).norm())
    there = figure6.walk(head, "tar,2", starts, gap)[-1]
    torch.testing.assert_close(there - head.centers[TARGET], starts - head.centers[LABEL], atol=STEP, rtol=0)


def test_each_goal_has_the_winner_that_the_symmetry_gives_it(records: dict[str, FigureRecord]) -> None:
    record = records["figure6"]
    assert record["best"] == {"leave": "un,1", "misclassify": "un,2", "target": "tar,2", "evade": "tar,1"}
    assert record["objectives"]["tar,1"]["evade"] == 1.0
    assert record["objectives"]["un,1"]["misclassified"] < 0.9  # away from its center is often away from all others
    rows = [line.strip("| ").split(" | ") for line in figure6.table(record).splitlines()[2:]]
    bold = {
        (row[0].partition(":")[0], place) for row in rows for place, cell in enumerate(row) if cell.startswith("**")
    }
    assert bold == {("un,1", 1), ("un,2", 2), ("tar,2", 3), ("tar,1", 4)}


def test_winners_are_read_off_the_numbers() -> None:
    worse = {"leave": 1.0, "misclassify": 5.0, "target": 5.0, "evade": 0.1}
    best = {"leave": 2.0, "misclassify": 4.0, "target": 6.0, "evade": 0.0}
    found = figure6.winners({"one": worse, "two": best})
    assert found == {"leave": "two", "misclassify": "two", "target": "one", "evade": "one"}


def test_fields_on_the_grid_have_unit_length(records: dict[str, FigureRecord]) -> None:
    for each in records["figure6"]["objectives"].values():
        lengths = np.linalg.norm(np.array(each["field"]), axis=1)
        assert lengths == pytest.approx(1.0, abs=2e-3)
