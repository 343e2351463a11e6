"""Attack paths end where their objectives say."""

from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from maxmahal.attacks import cross_entropy, own_loss_difference
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import MMC
from maxmahal.models import Classifier
from paper.gallery.figure import FigureRecord, restore, unpack
from paper.gallery.figures import figure3b
from paper.gallery.models import PathSettings, follow, zero_gradients


@pytest.fixture(scope="module")
def record(records: dict[str, FigureRecord]) -> FigureRecord:
    return records["figure3b-digits"]


def mmc(record: FigureRecord) -> FigureRecord:
    found: FigureRecord = next(each for each in record["models"] if each["name"] == "MMC")
    return found


def test_adaptive_objectives_lead_where_they_say(record: FigureRecord) -> None:
    model = mmc(record)
    centers = np.array(model["centers"])
    for place, shown in enumerate(record["inputs"]):
        ends = {name: np.array(ways[place])[[0, -1]] for name, ways in model["paths"].items()}
        to_own, to_target = (
            {name: np.linalg.norm(way - centers[shown[which]], axis=1) for name, way in ends.items()}
            for which in ("label", "target")
        )
        assert to_own["un,1"][1] > to_own["un,1"][0] + 1  # away from its own center
        assert to_target["tar,1"][1] < to_target["tar,1"][0] - 1  # towards the target's
        # Across the boundary, or at least nearer to it.
        lead = {name: to_target[name] ** 2 - to_own[name] ** 2 for name in ends}
        assert lead["tar,2"][1] < lead["tar,2"][0] - 10


def test_the_margin_crosses_the_boundary_and_the_record_knows_when(record: FigureRecord) -> None:
    for model in record["models"]:
        weights, bias = np.array(model["weights"]), np.array(model["bias"])
        for place, shown in enumerate(record["inputs"]):
            way = np.array(model["paths"]["un,2"][place])
            predicted = (way @ weights.T + bias).argmax(axis=1)
            agreed = predicted == np.array(model["predictions"]["un,2"][place])
            assert agreed.mean() > 0.9  # paths are rounded to a thousandth
            assert predicted[0] == shown["label"]
            assert predicted[-1] != shown["label"]


def test_both_models_start_from_the_same_two_images_of_different_classes(record: FigureRecord) -> None:
    first, second = record["inputs"]
    assert first["label"] != second["label"]
    assert all(each["label"] != each["target"] for each in record["inputs"])
    labels = unpack(record["labels"])
    for model in record["models"]:
        features = restore(unpack(model["features"]), model["view"])
        assert features.shape == (len(labels), 2)
        for place, each in enumerate(record["inputs"]):
            assert labels[each["sample"]] == each["label"]
            starts = np.array([ways[place][0] for ways in model["paths"].values()])
            assert np.ptp(starts, axis=0).max() == 0
            assert starts[0] == pytest.approx(features[each["sample"]], abs=0.01 * model["view"][2])


def test_shares_grow_from_the_clean_error(record: FigureRecord) -> None:
    for model in record["models"]:
        for name, shares in model["fooled"].items():
            assert len(shares) == record["steps"] + 1
            assert shares[0] == model["fooled"]["cross-entropy"][0], name
            assert shares[-1] > shares[0]
    rows = figure3b.table(record).splitlines()[2:]
    assert len(rows) == len(figure3b.OBJECTIVES) + len(figure3b.SCE_OBJECTIVES)


@pytest.mark.parametrize(
    ("name", "objective", "aimed"),
    [
        ("cross-entropy", "cross-entropy", False),
        ("un,1", "own", False),
        ("un,2", "own-difference", False),
        ("tar,1", "own", True),
        ("tar,2", "own-difference", True),
    ],
)
def test_lines_are_named_after_the_papers_objectives(name: str, objective: str, aimed: bool) -> None:
    found, targeted = figure3b.objective_of(name, far_centers().head)
    assert (getattr(found, "name", None), targeted) == (objective, aimed)


@cache
def far_centers() -> Classifier:
    """Centers so far apart that the softmax of any logits is a one and zeros."""
    torch.manual_seed(0)
    head = MMC(max_mahalanobis_centers(3, 2, 1000.0))
    linear = nn.Linear(16, 2)
    with torch.no_grad():
        linear.bias.copy_(head.centers[0])
    return Classifier(nn.Sequential(nn.Flatten(), linear), head).eval()


def test_cross_entropy_stays_where_its_gradient_is_zero_and_the_margin_does_not() -> None:
    model = far_centers()
    images = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    labels = torch.zeros(4, dtype=torch.int64)
    assert zero_gradients(model, images, labels, cross_entropy()) == 1.0
    assert zero_gradients(model, images, labels, own_loss_difference(model.head)) == 0.0
    walk = PathSettings(steps=6)
    stayed = follow(model, images, labels, cross_entropy(), walk)
    went = follow(model, images, labels, own_loss_difference(model.head), walk)
    assert stayed.features.shape == (7, 4, 2)
    assert np.ptp(stayed.features, axis=0).max() == 0
    assert (np.ptp(went.features, axis=0).max(axis=1) > 0).all()


def test_a_path_keeps_inside_epsilon_and_takes_its_steps() -> None:
    model = far_centers()
    images = torch.full((1, 1, 4, 4), 0.5)
    way = follow(
        model, images, torch.zeros(1, dtype=torch.int64), own_loss_difference(model.head), PathSettings(0.05, 0.02, 5)
    )
    moves = np.linalg.norm(np.diff(way.features[:, 0], axis=0), axis=1)
    assert moves[0] == pytest.approx(moves[1], rel=1e-2)
    assert moves[2] == pytest.approx(moves[0] / 2, rel=3e-2)  # only half a step is left to the border
    assert moves[3:] == pytest.approx([0, 0], abs=1e-4)
