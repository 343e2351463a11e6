"""The fast minimum-norm attack where the smallest distance is known, beside its peers, and what it promises."""

import math
from typing import Any

import pytest
import torch
from exact_distances import exact_distances
from small_models import Curved, Linear, curved_classifier, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, carlini_wagner, cross_entropy, custom, fmn, margin, pgd
from maxmahal.errors import ArgumentError

both_norms = pytest.mark.parametrize("norm", ["l2", "linf"])
IMAGES = uniform(0, 8, 1, 3, 4)
MANY = uniform(5, 20, 1, 4, 4)
CURVED = Curved(seed=3).eval()
LABELS = predictions(CURVED, MANY)
ORDERS = {"l2": 2.0, "linf": math.inf}


def lengths(change: Tensor, norm: str) -> Tensor:
    return change.flatten(1).norm(p=ORDERS[norm], dim=1)


@both_norms
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("active", [False, True], ids=["inside", "against"])
def test_distances_are_the_smallest_there_are(norm: Any, classes: int, active: bool) -> None:
    """Inside the box, and against it: there every pixel lies at one of its bounds, or just beside it."""
    images = 0.05 * (IMAGES < 0.3) + 0.95 * (IMAGES > 0.5) if active else 0.4 + 0.2 * IMAGES
    model = Linear(normal(1, classes, 12), torch.zeros(classes)).eval()
    labels = predictions(model, images)
    exact = exact_distances(model, images, labels, norm)
    assert (exact > 1.05 * exact_distances(model, images, labels, norm, box=False)).any() == active
    found = fmn(model, images, labels, norm=norm, steps=100, targets=None if classes == 2 else "all-others")
    torch.testing.assert_close(found.distances.double(), exact, rtol=0.05, atol=1e-3)


@both_norms
def test_a_target_is_hit_at_the_smallest_distance(norm: Any) -> None:
    model = Linear(normal(1, 2, 12), torch.zeros(2)).eval()
    labels = predictions(model, IMAGES)
    found = fmn(model, IMAGES, labels, norm=norm, steps=100, targets=1 - labels)
    assert found.hit is not None
    assert found.hit.all()
    assert predictions(model, found.images).equal(1 - labels)
    exact = exact_distances(model, IMAGES, labels, norm)
    torch.testing.assert_close(found.distances.double(), exact, rtol=0.05, atol=1e-3)


@both_norms
def test_all_targets_in_turn_keep_the_nearest(norm: Any) -> None:
    single = [fmn(CURVED, MANY, LABELS, norm=norm, steps=30, targets=(LABELS + k) % 4) for k in (1, 2, 3)]
    every = fmn(CURVED, MANY, LABELS, norm=norm, steps=30, targets="all-others")
    assert every.hit is None
    nearest = torch.stack([found.distances for found in single]).amin(dim=0)
    assert (every.distances <= 1.02 * nearest).all()


@both_norms
def test_always_negative_logits_are_attacked_too(norm: Any) -> None:
    images = uniform(2, 12, 1, 8, 8)
    model = curved_classifier(images)
    images = images[4:]  # the first four lie at the centers, where rounding decides on which side of zero
    with torch.no_grad():
        assert (model(images) < 0).all()
    labels = predictions(model, images)
    found = fmn(model, images, labels, norm=norm, steps=60)
    assert found.success_rate == 1.0
    assert (predictions(model, found.images) != labels).all()


@both_norms
@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
def test_what_is_returned_is_what_it_says(norm: Any, objective: Any) -> None:
    """The model's own verdict, distances of these very images, nothing outside the box and no NaN."""
    labels = LABELS.clone()
    labels[3] = (labels[3] + 1) % 4
    found = fmn(CURVED, MANY, labels, norm=norm, objective=objective, steps=50)
    assert found.success_rate == 1.0
    assert found.distances[3] == 0
    assert found.images[3].equal(MANY[3])
    assert predictions(CURVED, found.images).equal(found.predictions)
    torch.testing.assert_close(found.distances, lengths(found.images - MANY, norm))
    assert found.images.isfinite().all()
    assert found.images.min() >= 0
    assert found.images.max() <= 1


class Constant(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return torch.tensor([2.0, 0.0]).expand(len(images), 2) + 0 * images.sum()


@both_norms
def test_a_hopeless_sample_is_returned_as_it_was(norm: Any) -> None:
    found = fmn(Constant().eval(), MANY[:3], torch.tensor([0, 0, 1]), norm=norm, steps=30)
    assert found.success.tolist() == [False, False, True]
    assert found.distances.tolist() == [math.inf, math.inf, 0.0]
    assert found.images.equal(MANY[:3])
    assert (found.success_rate, found.mean_distance) == (pytest.approx(1 / 3), 0.0)


class Plateau(nn.Module):
    """Logits so far apart that the cross-entropy is flat, in float32, around every image; beyond, another class."""

    def forward(self, images: Tensor) -> Tensor:
        far = (images - 0.5).flatten(1).norm(dim=1)
        return torch.stack([(0.6 - far) * 2000, torch.zeros_like(far)], dim=1)


@both_norms
def test_a_saturated_cross_entropy_gives_no_nan_and_random_points_find_a_way(norm: Any) -> None:
    model, labels = Plateau().eval(), torch.zeros(4, dtype=torch.int64)
    images = torch.full((4, 1, 4, 4), 0.5) + 0.01 * (uniform(1, 4, 1, 4, 4) - 0.5)
    found = fmn(model, images, labels, norm=norm, objective=cross_entropy(), steps=60)
    assert found.success.all()
    assert found.images.isfinite().all()
    assert found.distances.isfinite().all()


@both_norms
def test_company_and_order_change_nothing(norm: Any) -> None:
    model = Curved(seed=3, row_by_row=True).eval()
    ids, order = torch.arange(40, 46), torch.tensor([4, 1, 5, 0, 3, 2])
    settings: dict[str, Any] = {"norm": norm, "steps": 20, "descents": 2}
    whole = fmn(model, MANY[:6], LABELS[:6], sample_ids=ids, **settings)
    small = Engine(batch_size=2)
    shuffled = fmn(model, MANY[:6][order], LABELS[:6][order], sample_ids=ids[order], engine=small, **settings)
    assert shuffled.images.equal(whole.images[order])
    alone = fmn(model, MANY[2:3], LABELS[2:3], sample_ids=ids[2:3], **settings)
    assert alone.images.equal(whole.images[2:3])
    other_seed = fmn(model, MANY[:6], LABELS[:6], sample_ids=ids, seed=1, **settings)
    assert not other_seed.images.equal(whole.images)


@both_norms
def test_it_costs_exactly_its_steps(norm: Any) -> None:
    for steps, descents in ((7, 1), (20, 3), (100, None)):
        found = fmn(CURVED, MANY[:2], LABELS[:2], norm=norm, steps=steps, descents=descents)
        assert found.passes.backward == 2 * steps


@pytest.mark.parametrize(("norm", "far", "near"), [("l2", 0.4, 0.25), ("linf", 0.1, 0.0625)])
def test_a_descent_from_a_random_point_finds_what_the_first_does_not(norm: Any, far: float, near: float) -> None:
    """From these images the class that is ahead is the farther one to win."""
    across = torch.full((16,), 0.25)  # of length 1
    weight = torch.stack([0 * across, 0.5 * across, -0.84 * across])
    model = Linear(weight, torch.tensor([0.0, -0.2 - 1.0, -0.21 + 1.68])).eval()
    images, labels = torch.full((6, 1, 4, 4), 0.5), torch.zeros(6, dtype=torch.int64)
    settings: dict[str, Any] = {"norm": norm, "sample_ids": torch.arange(6)}
    first = fmn(model, images, labels, steps=40, descents=1, **settings)
    more = fmn(model, images, labels, steps=160, descents=4, **settings)
    assert first.distances.tolist() == pytest.approx([far] * 6, rel=0.02)
    assert (more.distances <= first.distances).all()
    assert more.distances.min().item() == pytest.approx(near, rel=0.03)


@both_norms
def test_bounds_and_scale_do_not_matter(norm: Any) -> None:
    class Stretched(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return 1000 * CURVED((images + 2) / 4)

    settings: dict[str, Any] = {"norm": norm, "steps": 50, "descents": 1}
    here = fmn(CURVED, MANY, LABELS, **settings)
    there = fmn(Stretched().eval(), 4 * MANY - 2, LABELS, bounds=(-2.0, 2.0), **settings)
    torch.testing.assert_close(there.distances, 4 * here.distances, rtol=0.02, atol=0)
    assert there.images.min() < 0


@pytest.mark.parametrize(("norm", "kind"), [("l2", L2), ("linf", Linf)])
def test_the_curve_agrees_with_pgd(norm: Any, kind: type) -> None:
    """What is broken at an epsilon has its distance within it, and the other way round, but for a percent or two."""
    found = fmn(CURVED, MANY, LABELS, norm=norm, steps=100, targets="all-others")
    epsilon = float(found.distances.median()) * 1.001
    attacked = pgd(
        CURVED,
        MANY,
        LABELS,
        objective=margin(),
        threat=kind(epsilon),
        steps=60,
        step_size=epsilon / 8,
        seed=0,
        targets="all-others",
    )
    assert float((found.distances > epsilon).float().mean()) == pytest.approx(attacked.accuracy, abs=0.051)
    clear = (found.distances - epsilon).abs() > 0.03 * epsilon
    assert attacked.fooled[clear].equal(found.distances[clear] <= epsilon)


def test_it_and_carlini_and_wagner_agree() -> None:
    ours = fmn(CURVED, MANY, LABELS, norm="l2", steps=150)
    theirs = carlini_wagner(CURVED, MANY, LABELS, steps=50)
    assert float(ours.distances.median()) == pytest.approx(float(theirs.distances.median()), rel=0.02)


@both_norms
def test_adv_libs_fmn_and_ddn_come_no_nearer(adv_lib: Any, norm: Any) -> None:
    theirs = [adv_lib.fmn(CURVED, MANY, LABELS, norm=ORDERS[norm], steps=100)]
    if norm == "l2":
        theirs.append(adv_lib.ddn(CURVED, MANY, LABELS, steps=100, levels=None))
    ours = fmn(CURVED, MANY, LABELS, norm=norm, steps=100).distances
    for moved in theirs:
        broken = predictions(CURVED, moved) != LABELS
        assert ours.median() <= 1.01 * torch.where(broken, lengths(moved - MANY, norm), math.inf).median()


@both_norms
def test_foolboxs_fmn_comes_no_nearer(norm: Any) -> None:
    # importorskip lets pass the deprecated scipy.ndimage.filters that foolbox imports.
    foolbox = pytest.importorskip("foolbox")
    model = foolbox.PyTorchModel(CURVED, bounds=(0, 1), device="cpu")
    attack = {"l2": foolbox.attacks.DDNAttack, "linf": foolbox.attacks.LInfFMNAttack}[norm](steps=100)
    moved = attack(model, MANY, LABELS, epsilons=None)[0]
    ours = fmn(CURVED, MANY, LABELS, norm=norm, steps=100).distances
    assert ours.median() <= 1.01 * lengths(moved - MANY, norm).median()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"norm": "l1"}, "norm = 'l1' is unknown"),
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"step_size": 0.0}, "step_size must be positive; got 0.0"),
        ({"radius_change": 1.0}, "radius_change must lie between 0 and 1; got 1.0"),
        ({"descents": 0}, "descents must be a whole number of at least 1; got 0"),
        ({"descents": 11, "steps": 10}, "descents must not outnumber the 10 steps; got 11"),
        ({"bounds": (1.0, 0.0)}, "bounds must be two finite numbers"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_told_in_a_sentence(bad: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        fmn(CURVED, MANY, LABELS, **({"norm": "l2"} | bad))


def test_an_objective_that_promises_nothing_starts_small_and_grows() -> None:
    """Zero is not its threshold, so its value says nothing about the distance; the answer is the same."""
    unknown = custom(lambda outputs, labels, targets: margin()(outputs, labels, targets) - 7)
    plain = fmn(CURVED, MANY, LABELS, norm="l2", steps=100)
    found = fmn(CURVED, MANY, LABELS, norm="l2", steps=100, objective=unknown)
    assert found.success.all()
    assert found.mean_distance == pytest.approx(plain.mean_distance, rel=0.03)
