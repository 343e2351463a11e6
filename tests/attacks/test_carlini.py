"""Carlini and Wagner's attack where the smallest distance is known, and what it promises."""

import math
from typing import Any

import pytest
import torch
from exact_distances import exact_distances
from small_models import Curved, Linear, Pretender, curved_classifier, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import Engine, Outputs, carlini_wagner, cross_entropy, margin
from maxmahal.errors import ArgumentError

# What each search needs to come within a few percent of the truth on these models, and what does for everything else.
FINE: dict[str, dict[str, Any]] = {
    "tracked": {"constants": "tracked", "steps": 60, "search_steps": 6},
    "binary": {"constants": "binary", "steps": 150, "search_steps": 6, "learning_rate": 0.03, "initial_c": 0.2},
}
COARSE: dict[str, dict[str, Any]] = {
    "tracked": {"constants": "tracked", "steps": 50, "search_steps": 4},
    "binary": {"constants": "binary", "steps": 40, "search_steps": 4, "learning_rate": 0.08, "initial_c": 0.2},
}
both_fine = pytest.mark.parametrize("settings", FINE.values(), ids=FINE)
both = pytest.mark.parametrize("settings", COARSE.values(), ids=COARSE)

IMAGES = uniform(0, 8, 1, 3, 4)
MANY = uniform(5, 20, 1, 4, 4)
CURVED = Curved(seed=3).eval()
LABELS = predictions(CURVED, MANY)


def linear(classes: int, images: Tensor) -> tuple[Linear, Tensor]:
    """A linear model and its own predictions."""
    model = Linear(normal(1, classes, images[0].numel()), torch.zeros(classes)).eval()
    return model, predictions(model, images)


@both_fine
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("active", [False, True], ids=["inside", "against"])
def test_distances_are_the_smallest_there_are(settings: dict[str, Any], classes: int, active: bool) -> None:
    """Inside the box, and against it: there every pixel lies near one of its bounds."""
    images = 0.015 + 0.97 * (IMAGES > 0.5).float() if active else 0.4 + 0.2 * IMAGES
    model, labels = linear(classes, images)
    exact = exact_distances(model, images, labels, "l2")
    assert (exact > 1.05 * exact_distances(model, images, labels, "l2", box=False)).any() == active
    found = carlini_wagner(model, images, labels, **settings)
    torch.testing.assert_close(found.distances.double(), exact, rtol=0.05, atol=1e-3)


@both_fine
def test_a_target_is_hit_at_the_smallest_distance(settings: dict[str, Any]) -> None:
    model, labels = linear(2, IMAGES)
    found = carlini_wagner(model, IMAGES, labels, targets=1 - labels, **settings)
    assert found.hit is not None
    assert found.hit.all()
    assert predictions(model, found.images).equal(1 - labels)
    exact = exact_distances(model, IMAGES, labels, "l2")
    torch.testing.assert_close(found.distances.double(), exact, rtol=0.05, atol=0)


@both_fine
def test_a_target_is_hit_where_a_third_class_stands_in_between(settings: dict[str, Any]) -> None:
    """The target overtakes the true class at 0.6, but a third class, in between, only at 0.2."""
    weight = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.5, 0.0]])
    model = Linear(weight, torch.tensor([0.0, 1.2, 1.1])).eval()
    images = torch.tensor([0.9, 0.5]).reshape(1, 1, 1, 2)
    found = carlini_wagner(model, images, torch.tensor([0]), targets=torch.tensor([1]), **settings)
    assert found.success.all()
    assert found.distances.item() == pytest.approx(0.7, rel=0.05)


@both
def test_always_negative_logits_are_attacked_too(settings: dict[str, Any]) -> None:
    images = uniform(2, 12, 1, 8, 8)
    model = curved_classifier(images)
    images = images[4:]  # the first four lie at the centers, where rounding decides on which side of zero
    with torch.no_grad():
        assert (model(images) < 0).all()
    labels = predictions(model, images)
    found = carlini_wagner(model, images, labels, **settings)
    assert found.success_rate == 1.0
    assert (predictions(model, found.images) != labels).all()


@both
def test_an_image_that_is_already_wrong_stays_as_it_is(settings: dict[str, Any]) -> None:
    labels = LABELS.clone()
    labels[3] = (labels[3] + 1) % 4
    found = carlini_wagner(CURVED, MANY, labels, **settings)
    assert found.distances[3] == 0
    assert found.images[3].equal(MANY[3])
    assert (found.distances[[0, 1, 2]] > 0).all()


class Constant(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return torch.tensor([2.0, 0.0]).expand(len(images), 2) + 0 * images.sum()


@both
def test_a_hopeless_sample_is_returned_as_it_was(settings: dict[str, Any]) -> None:
    labels = torch.tensor([0, 0, 1])
    found = carlini_wagner(Constant().eval(), MANY[:3], labels, **settings)
    assert found.success.tolist() == [False, False, True]
    assert found.distances.tolist() == [math.inf, math.inf, 0.0]
    assert found.images.equal(MANY[:3])
    assert (found.success_rate, found.mean_distance) == (pytest.approx(1 / 3), 0.0)


@both
def test_the_mean_distance_is_that_of_the_successes(settings: dict[str, Any]) -> None:
    found = carlini_wagner(CURVED, MANY, LABELS, confidence=12.0, **settings)  # more than some images can give
    assert 0 < found.success_rate < 1
    assert found.distances[~found.success].isinf().all()
    assert found.images[~found.success].equal(MANY[~found.success])
    assert found.mean_distance == pytest.approx(float(found.distances[found.success].mean()))


@both
@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
def test_what_is_returned_is_what_it_says(settings: dict[str, Any], objective: Any) -> None:
    """The model's own verdict, distances of these very images, nothing outside the box and no NaN."""
    found = carlini_wagner(CURVED, MANY, LABELS, objective=objective, **settings)
    assert found.success_rate > 0.9
    assert predictions(CURVED, found.images).equal(found.predictions)
    assert (found.predictions != LABELS).equal(found.success)
    lengths = (found.images - MANY).flatten(1).norm(dim=1)
    torch.testing.assert_close(found.distances[found.success], lengths[found.success])
    assert found.images.isfinite().all()
    assert found.images.min() >= 0
    assert found.images.max() <= 1


@both
def test_company_and_order_change_nothing(settings: dict[str, Any]) -> None:
    """Samples of one batch stand at different steps, since each gives up and goes on by itself."""
    model = Curved(seed=3, row_by_row=True).eval()
    ids, settings = torch.arange(40, 46), settings | {"steps": 20}
    whole = carlini_wagner(model, MANY[:6], LABELS[:6], sample_ids=ids, **settings)
    order = torch.tensor([4, 1, 5, 0, 3, 2])
    small = Engine(batch_size=2)
    shuffled = carlini_wagner(
        model, MANY[:6][order], LABELS[:6][order], sample_ids=ids[order], engine=small, **settings
    )
    assert shuffled.images.equal(whole.images[order])
    alone = carlini_wagner(model, MANY[2:3], LABELS[2:3], sample_ids=ids[2:3], **settings)
    assert alone.images.equal(whole.images[2:3])


@both
def test_confidence_is_kept(settings: dict[str, Any]) -> None:
    plain = carlini_wagner(CURVED, MANY, LABELS, **settings)
    sure = carlini_wagner(CURVED, MANY, LABELS, confidence=0.5, **settings)
    with torch.no_grad():
        margins = margin()(Outputs(CURVED(sure.images)), LABELS, None)
    assert sure.success.any()
    assert (margins[sure.success] <= -0.5).all()
    kept = sure.success & plain.success
    assert (sure.distances[kept] > plain.distances[kept]).all()


@both
@pytest.mark.parametrize("stretch", [1.05, 3.0])
def test_the_confidence_is_the_models_own_where_a_search_is_surer(settings: dict[str, Any], stretch: float) -> None:
    model = Pretender(CURVED, lambda images: stretch * CURVED(images))
    sure = carlini_wagner(model, MANY, LABELS, confidence=0.5, **settings)
    with torch.no_grad():
        margins = margin()(Outputs(CURVED(sure.images)), LABELS, None)
    assert sure.success.any()
    assert (margins[sure.success] <= -0.5).all()


@both
def test_a_clean_image_that_is_barely_wrong_is_no_success_with_a_confidence(settings: dict[str, Any]) -> None:
    wrong = (LABELS + 1) % 4
    found = carlini_wagner(CURVED, MANY, wrong, confidence=3.0, **settings)
    with torch.no_grad():
        clean, values = (margin()(Outputs(CURVED(images)), wrong, None) for images in (MANY, found.images))
    assert (clean > -3.0).any()
    assert (clean <= -3.0).any()
    assert (values[found.success] <= -3.0 + 1e-4).all()
    assert torch.equal(found.success, found.distances.isfinite())
    assert torch.equal(found.distances < 1e-3, clean <= -3.0)


@both
def test_other_bounds_give_the_same_attack(settings: dict[str, Any]) -> None:
    class Stretched(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return CURVED((images + 2) / 4)

    here = carlini_wagner(CURVED, MANY[:4], LABELS[:4], sample_ids=torch.arange(4), **settings)
    wide = settings | {"bounds": (-2.0, 2.0), "initial_c": 16 * settings.get("initial_c", 0.01)}  # c goes with ‖δ‖²
    there = carlini_wagner(Stretched().eval(), 4 * MANY[:4] - 2, LABELS[:4], sample_ids=torch.arange(4), **wide)
    torch.testing.assert_close(there.distances, 4 * here.distances, rtol=0.03, atol=0)
    assert there.images.min() < 0


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"constants": "quick"}, "constants = 'quick' is unknown"),
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"search_steps": 0}, "search_steps must be a whole number"),
        ({"constants": "binary", "learning_rate": 0.0}, "learning_rate must be positive; got 0.0"),
        ({"constants": "binary", "initial_c": -1.0}, "initial_c must be positive; got -1.0"),
        ({"confidence": -0.1}, "confidence must not be negative; got -0.1"),
        ({"confidence": 1.0, "objective": cross_entropy()}, "confidence needs an objective whose zero"),
        ({"bounds": (1.0, 0.0)}, "bounds must be two finite numbers"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_told_in_a_sentence(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        carlini_wagner(CURVED, MANY, LABELS, **bad)
