"""Feature space in two dimensions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_evaluations_helpers import CLASSES, SIDE, Flat, classifier, curved, labelled_by, small_suite, stage
from torch import nn

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.feature_plane import Plane, find_plane
from maxmahal.losses import EMC, MMC, SCE
from maxmahal.models import Classifier
from maxmahal.records.reading import read_plane

SUITE = small_suite(stage("pgd", "pgd", steps=3))


def without_centers(feature_dim: int) -> Classifier:
    torch.manual_seed(0)
    return Classifier(
        nn.Sequential(Flat(), nn.Linear(SIDE * SIDE, feature_dim)), SCE(num_classes=CLASSES, feature_dim=feature_dim)
    ).eval()


def features_of(model: Classifier, images: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        return model.features(images).double().numpy()


def test_two_dimensions_are_drawn_as_they_are() -> None:
    model = classifier(feature_dim=2)
    data = labelled_by(model)
    plane = find_plane(model, data.float_images(), data.labels)
    features = features_of(model, data.float_images())
    assert plane.kind == "features"
    assert np.allclose(plane.project(torch.from_numpy(features)), features)
    assert np.allclose(plane.centers, model.head.centers.numpy())


def test_centers_are_drawn_where_training_has_moved_them() -> None:
    model = classifier(feature_dim=2)
    model.head = EMC(model.head.centers, alpha=0.25)
    data = labelled_by(model)
    with torch.no_grad():
        model.head.offsets.copy_(torch.tensor([[4.0, -2.0]]))
    plane = find_plane(model, data.float_images(), data.labels)
    assert np.allclose(plane.centers - model.head.centers.numpy(), [2.0, -1.0])


def test_more_are_projected_on_the_plane_of_the_centers() -> None:
    model = classifier(feature_dim=6)
    data = labelled_by(model)
    plane = find_plane(model, data.float_images(), data.labels)
    centers = model.head.centers.double().numpy()
    assert plane.kind == "centers"
    assert np.allclose(plane.axes.T @ plane.axes, np.eye(2), atol=1e-9)
    centered = centers - centers.mean(axis=0)
    # No other plane keeps more of the centers' spread.
    spread = np.linalg.svd(centered, compute_uv=False)
    assert np.square(plane.centers).sum() == pytest.approx(np.square(spread[:2]).sum())
    assert np.allclose(plane.project(torch.from_numpy(centers)), plane.centers)


def test_centers_that_are_all_equally_far_apart_form_a_circle() -> None:
    backbone = classifier(feature_dim=6).backbone
    model = Classifier(backbone, MMC(max_mahalanobis_centers(CLASSES, 6))).eval()
    data = labelled_by(model)
    plane = find_plane(model, data.float_images(), data.labels)
    assert plane.kind == "circle of centers"
    assert np.allclose(plane.axes.T @ plane.axes, np.eye(2), atol=1e-6)
    radii = np.linalg.norm(plane.centers, axis=1)
    sides = np.linalg.norm(plane.centers - np.roll(plane.centers, 1, axis=0), axis=1)
    assert np.allclose(radii, radii[0], atol=1e-5)
    assert np.allclose(sides, sides[0], atol=1e-5)


def test_without_centers_the_classes_means_span_the_plane() -> None:
    model = without_centers(5)
    data = labelled_by(curved(), 40, wrong=0)
    plane = find_plane(model, data.float_images(), data.labels)
    features, labels = features_of(model, data.float_images()), data.labels.numpy()
    means = np.stack([features[labels == label].mean(axis=0) for label in np.unique(labels)])
    assert plane.kind == "class means"
    assert plane.centers.shape == (0, 2)
    assert np.allclose(plane.project(torch.from_numpy(means)).mean(axis=0), 0, atol=1e-9)


def test_a_single_class_or_dimension_still_gives_a_plane() -> None:
    model = without_centers(5)
    data = labelled_by(curved(), 40, wrong=0)
    alone = data.select((data.labels == data.labels[0]).nonzero().squeeze(1))
    plane = find_plane(model, alone.float_images(), alone.labels)
    assert np.isfinite(plane.project(torch.from_numpy(features_of(model, alone.float_images())))).all()
    narrow = without_centers(1)
    plane = find_plane(narrow, data.float_images(), data.labels)
    assert plane.project(torch.from_numpy(features_of(narrow, data.float_images()))).shape == (40, 2)


def test_a_plane_comes_back_from_its_bytes_and_is_the_same_every_time() -> None:
    model = classifier()
    data = labelled_by(model)
    first, second = (find_plane(model, data.float_images(), data.labels) for _ in range(2))
    back = Plane(*read_plane(first.to_bytes()))
    for other in (second, back):
        assert other.kind == first.kind
        assert all(np.array_equal(getattr(other, name), getattr(first, name)) for name in ("origin", "axes", "centers"))
    largest = np.abs(first.axes).argmax(axis=0)
    assert (first.axes[largest, [0, 1]] > 0).all()


@pytest.mark.parametrize(("dim", "kind"), [(2, "features"), (6, "centers")])
def test_the_records_hold_points_of_clean_and_of_broken_images(tmp_path: Path, dim: int, kind: str) -> None:
    model = classifier(dim)
    data = labelled_by(model)
    runs = [evaluate_model(model, out=tmp_path / str(run), suite=SUITE, data=data) for run in range(2)]
    found = runs[0]
    assert found.plane == kind
    assert found.centers_xy is not None
    clean, moved = found.points
    assert clean.stage == "clean"
    assert clean.sample.tolist() == list(range(24))
    assert clean.label.tolist() == data.labels.tolist()
    plane = find_plane(model, data.float_images(), data.labels)
    assert np.allclose(clean.xy, plane.project(model.features(data.float_images())), atol=1e-5)
    columns = found.stage("pgd").columns
    assert moved.stage == "pgd"
    assert moved.sample.tolist() == columns.sample[columns.broken & columns.right_before].tolist()
    assert len(moved.sample) > 3
    assert all(np.array_equal(a.xy, b.xy) for a, b in zip(found.points, runs[1].points, strict=True))


def test_a_model_that_is_no_classifier_has_no_plane(tmp_path: Path) -> None:
    model = curved()
    found = evaluate_model(model, out=tmp_path, suite=SUITE, data=labelled_by(model))
    assert (found.plane, found.points, found.centers_xy) == ("", (), None)
    assert found.pictures
    picture = found.pictures[0]
    assert np.array_equal(picture.clean * 255, labelled_by(model).images[picture.sample].float().numpy())
    assert 0 < np.abs(picture.adversarial - picture.clean).max() <= 0.08 + 1e-6
    assert picture.prediction != picture.label == picture.clean_prediction
