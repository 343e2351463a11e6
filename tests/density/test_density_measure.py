"""What is said of a model, on features whose truth is known."""

import json
import math

import pytest
import torch

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.data import ImageData
from maxmahal.density import (
    CenterSpheres,
    PairSpheres,
    head_centers,
    head_contours,
    measure_features,
    measure_model,
)
from maxmahal.density.measure import QUANTILES, angles, loss_histogram
from maxmahal.errors import ArgumentError
from maxmahal.losses import EMC, GSCE, LGM, MMC, MMLDA, SCE, ArcFace, CenterLoss
from maxmahal.models import Classifier


def clouds(head, per_class: int, scale: float, dim: int = 6):
    """Features around each center, labels in turn."""
    labels = torch.arange(head.num_classes).repeat(per_class)
    noise = torch.randn((len(labels), dim), generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return head.centers[labels] + scale * noise, labels


@pytest.fixture(scope="module")
def mmc() -> MMC:
    return MMC(max_mahalanobis_centers(4, 6, dtype=torch.float64)).double()


def test_gaussian_clouds_are_measured_as_drawn(mmc: MMC) -> None:
    per_class, scale = 20_000, 0.5
    features, labels = clouds(mmc, per_class, scale)
    found = measure_features(mmc, features, labels)
    json.dumps(found, allow_nan=False)
    assert (found["loss"], found["samples"], found["dim"], found["classes"]) == ("MMC", 80_000, 6, 4)
    assert found["accuracy"] == 1.0
    # The mean length of a Gaussian vector, and the regular simplex of four points.
    length = scale * math.sqrt(2) * math.gamma(3.5) / math.gamma(3)
    assert found["spread"]["to_center"] == pytest.approx(length, rel=0.01)
    assert found["spread"]["to_mean"] == pytest.approx(length, rel=0.01)
    side = 10 * math.sqrt(2 + 2 / 3)
    assert found["spread"]["between_means"] == pytest.approx(side, rel=0.01)
    tetrahedron = math.degrees(math.acos(-1 / 3))
    assert found["angles"]["centers"] == pytest.approx(dict.fromkeys(("smallest", "mean", "largest"), tetrahedron))
    assert found["angles"]["means"]["smallest"] == pytest.approx(tetrahedron, abs=0.5)
    assert found["runners_up"]["class_counts"] == [per_class] * 4
    assert all(row[label] == 0 for label, row in enumerate(found["runners_up"]["pair_counts"]))


def test_shell_densities_are_the_gaussians_own(mmc: MMC) -> None:
    per_class, scale = 20_000, 0.5
    features, labels = clouds(mmc, per_class, scale)
    shells = measure_features(mmc, features, labels)["shells"]
    assert shells["why_none"] == ""
    losses = mmc.per_sample(features, labels)
    squares = 2 * losses.quantile(torch.tensor(QUANTILES, dtype=torch.float64))
    own = math.log(per_class) - squares / (2 * scale**2) - 3 * math.log(2 * math.pi * scale**2)
    # Four classes with shells of 200 samples: a standard error of 0.035.
    assert shells["log_density"] == pytest.approx(own.tolist(), abs=0.12)
    unit = measure_features(mmc, features, labels)["spread"]["between_means"]
    shift = [free - raw for free, raw in zip(shells["unit_free"], shells["log_density"], strict=True)]
    assert shift == pytest.approx([6 * math.log(unit)] * len(QUANTILES))


def test_twice_the_features_change_no_unit_free_density(mmc: MMC) -> None:
    features, labels = clouds(mmc, 200, 0.5)
    double = MMC(2 * mmc.centers).double()
    first, second = measure_features(mmc, features, labels), measure_features(double, 2 * features, labels)
    assert second["shells"]["unit_free"] == pytest.approx(first["shells"]["unit_free"])
    assert second["neighbours"]["unit_free"] == pytest.approx(first["neighbours"]["unit_free"])
    change = second["neighbours"]["log_density"] - first["neighbours"]["log_density"]
    assert change == pytest.approx(-6 * math.log(2))


def test_runners_up_are_counted_by_pair(mmc: MMC) -> None:
    toward = 0.9 * mmc.centers[[0, 0, 1]] + 0.1 * mmc.centers[[2, 2, 3]]
    features = torch.cat([toward, mmc.centers[[1]]])
    found = measure_features(mmc, features, torch.tensor([0, 0, 1, 1]))["runners_up"]
    assert found["class_counts"] == [2, 2, 0, 0]
    assert found["pair_counts"][0] == [0, 0, 2, 0]
    assert found["pair_counts"][1][3] >= 1


def test_a_histogram_counts_every_loss_once() -> None:
    losses = torch.tensor([0.0, 1e-3, 0.1, 0.1, 5.0], dtype=torch.float64)
    found = loss_histogram(losses)
    assert found["none"] == 1
    assert sum(found["counts"]) == 4
    assert found["counts"][0] == found["counts"][-1] == 1
    widths = [high - low for low, high in zip(found["edges"], found["edges"][1:], strict=False)]
    total = sum(height * width for height, width in zip(found["density"], widths, strict=True))
    assert total == pytest.approx(4 / 5)  # p(C) integrates to the share of losses that are not 0
    assert loss_histogram(torch.zeros(3))["counts"] == []


def test_angles_are_seen_from_the_middle() -> None:
    square = torch.tensor([[1.0, 1.0], [1.0, 3.0], [3.0, 1.0], [3.0, 3.0]])
    assert angles(square) == pytest.approx({"smallest": 90, "mean": 120, "largest": 180})


@pytest.mark.parametrize("per_class", [400])
def test_two_classes_under_gsce_use_theorem_1(per_class: int) -> None:
    head = GSCE(num_classes=2, feature_dim=6).double()
    with torch.no_grad():
        head.log_precisions.copy_(torch.tensor([-1.0, 0.0]))
    labels = torch.arange(2).repeat(per_class)
    features = head.centers.detach()[labels] + torch.randn(
        (2 * per_class, 6), generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    rows = measure_features(head, features, labels)["shells"]["classes"]
    assert [(row["label"], row["runner_up"], row["samples"]) for row in rows] == [(0, 1, 400), (1, 0, 400)]
    contours = head_contours(head, 0, 1)
    low, high = (torch.tensor(rows[0][end][2], dtype=torch.float64) for end in ("low", "high"))
    volume = float(contours.log_shell_volume(low, high))
    assert rows[0]["log_density"][2] == pytest.approx(math.log(0.1 * per_class) - volume, abs=0.08)


def test_the_contours_of_every_head() -> None:
    centers = max_mahalanobis_centers(3, 4)
    assert isinstance(head_contours(MMC(centers, scale=2.0), 0, 1), CenterSpheres)
    assert head_contours(MMC(centers, form="absolute"), 0, 1) is None
    assert isinstance(head_contours(EMC(centers), 0, 1), CenterSpheres)
    assert head_contours(SCE(num_classes=3, feature_dim=4), 0, 1) is None  # planes
    assert head_contours(MMLDA(centers), 0, 1) is None
    assert isinstance(head_contours(CenterLoss(num_classes=3, feature_dim=4, joint=False), 0, 1), CenterSpheres)
    assert head_contours(CenterLoss(num_classes=3, feature_dim=4), 0, 1) is None
    assert head_contours(ArcFace(num_classes=3, feature_dim=4), 0, 1) is None
    gsce = GSCE(num_classes=3, feature_dim=4)
    with torch.no_grad():
        gsce.log_precisions.copy_(torch.tensor([0.0, 0.5, 1.0]))
    assert isinstance(head_contours(gsce, 0, 1), PairSpheres)


@pytest.mark.parametrize(
    "make", [lambda c: MMC(c, scale=2.0), lambda c: EMC(c, alpha=0.5), lambda c: GSCE(num_classes=2, feature_dim=4)]
)
def test_a_heads_contours_have_the_heads_loss(make) -> None:
    head = make(max_mahalanobis_centers(2, 4, dtype=torch.float64)).double()
    with torch.no_grad():
        if isinstance(head, EMC):
            head.offsets.copy_(torch.randn((2, 4), generator=torch.Generator().manual_seed(0)))
        if isinstance(head, GSCE):
            head.log_precisions.copy_(torch.tensor([0.0, 0.5]))
        contours = head_contours(head, 0, 1)
        points = torch.randn((20, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        squares = (points - contours.center).square().sum(dim=1)
        losses = head.per_sample(points, torch.zeros(20, dtype=torch.int64))
    assert contours.squared_radius(losses).tolist() == pytest.approx(squares.tolist(), rel=1e-7)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SCE(num_classes=3, feature_dim=4),
        lambda: LGM(num_classes=3, feature_dim=4),
        lambda: CenterLoss(num_classes=3, feature_dim=4),
        lambda: GSCE(num_classes=3, feature_dim=4),
    ],
)
def test_centers_are_found(make) -> None:
    head = make()
    found = head_centers(head)
    assert tuple(found.shape) == (3, 4)
    assert not found.requires_grad
    if isinstance(head, SCE):
        assert torch.equal(found, head.linear.weight / 2)
    assert head_centers(ArcFace(num_classes=3, feature_dim=4)) is None


def small_data(classes: int = 3) -> ImageData:
    images = torch.randint(0, 256, (30, 1, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return ImageData.from_arrays("dots", images, torch.arange(30) % classes, [str(each) for each in range(classes)])


def test_a_model_is_left_as_it_was() -> None:
    head = SCE(num_classes=3, feature_dim=4)
    model = Classifier(torch.nn.Flatten(), head).train()
    found = measure_model(model, small_data())
    assert model.training
    assert model.head is head
    assert head.linear.weight.dtype == torch.float32
    assert found["shells"]["why_none"] == "contours are planes"
    assert found["shells"]["log_density"] == [None] * len(QUANTILES)
    json.dumps(found, allow_nan=False)


def test_features_that_coincide_leave_no_number_that_json_refuses() -> None:
    head = MMC(max_mahalanobis_centers(2, 3)).double()
    found = measure_features(head, head.centers.repeat(10, 1), torch.arange(2).repeat(10))
    json.dumps(found, allow_nan=False)
    assert found["neighbours"]["log_density"] is None
    assert found["shells"]["log_density"] == [None] * len(QUANTILES)
    collapsed = measure_features(head, torch.zeros((20, 3)).double(), torch.arange(2).repeat(10))
    json.dumps(collapsed, allow_nan=False)
    assert collapsed["spread"]["between_means"] == 0
    assert collapsed["neighbours"]["unit_free"] is None


def test_callers_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"has 4 classes and dots has 3; choose the data"):
        measure_model(Classifier(torch.nn.Flatten(), SCE(num_classes=4, feature_dim=4)), small_data())
    with pytest.raises(ArgumentError, match=r"only 1 of 3 have them"):
        measure_features(
            SCE(num_classes=3, feature_dim=2).double(), torch.zeros((4, 2)).double(), torch.zeros(4, dtype=torch.int64)
        )
    broken = Classifier(
        torch.nn.Flatten(), SCE(num_classes=3, feature_dim=4), normalize=torch.nn.Threshold(2.0, math.nan)
    )
    with pytest.raises(ArgumentError, match=r"features of dots hold NaN"):
        measure_model(broken, small_data())
