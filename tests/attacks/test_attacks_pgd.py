"""What PGD and its relatives promise about iterates, samples, seeds and the model."""

from collections.abc import Callable

import pytest
import torch
from small_models import Linear, curved_classifier, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import (
    L2,
    Engine,
    Linf,
    Objective,
    Outputs,
    Result,
    Threat,
    class_logit,
    craft,
    cross_entropy,
    fgsm,
    margin,
    mim,
    model_outputs,
    own_loss,
    pgd,
)
from maxmahal.errors import ArgumentError
from maxmahal.losses import SCE
from maxmahal.models import Classifier, SmallCNN

MANY = uniform(5, 24, 1, 8, 8)
IDS = torch.arange(100, 124)
MODEL = curved_classifier(MANY)
PREDICTED = predictions(MODEL, MANY)
THREAT = Linf(0.02)
EVERY_STEP = Engine(early_exit=False)


def attack(images: Tensor = MANY, labels: Tensor = PREDICTED, ids: Tensor = IDS, **changes: object) -> Result:
    arguments = {
        "objective": margin(),
        "threat": THREAT,
        "steps": 7,
        "step_size": 0.008,
        "seed": 0,
        "sample_ids": ids,
    } | changes
    return pgd(MODEL, images, labels, **arguments)


def scores(moved: Tensor, objective: Objective, labels: Tensor, targets: Tensor | None) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        outputs = model_outputs(MODEL, moved)
        predicted = outputs.logits.argmax(dim=1)
        success = (predicted != labels).long()
        if targets is not None:
            success += predicted == targets
        return success, objective(outputs, labels, targets)


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("objective", [margin(), cross_entropy(), own_loss(MODEL.head)], ids=["margin", "ce", "own"])
def test_the_best_iterate_is_never_worse_than_the_last(objective: Objective, targeted: bool) -> None:
    targets = (PREDICTED + 1) % 4 if targeted else None
    options = {"objective": objective, "targets": targets, "step_size": 0.08, "engine": EVERY_STEP}
    success_best, best = scores(attack(**options).images, objective, PREDICTED, targets)
    success_last, last = scores(attack(keep="last", **options).images, objective, PREDICTED, targets)
    assert (success_best >= success_last).all()
    same = success_best == success_last
    assert (best[same] <= last[same] + 1e-4).all()
    assert (best < last - 1e-3).any()  # the steps are so large that the last iterate is not always the best


def test_the_best_iterate_prefers_one_that_fools_to_one_with_a_smaller_objective() -> None:
    """The objective always asks for brighter pixels, whether or not they fool."""
    model = Linear(torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 0.5])).eval()  # class 0 above one half
    start = torch.full((1, 1, 1, 1), 0.55)
    options = {"random_start": False, "steps": 1, "threat": Linf(0.3), "step_size": 0.2, "seed": 0}

    def upwards(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return -outputs.logits[:, 0]

    right, wrong = torch.tensor([0]), torch.tensor([1])
    moved = pgd(model, start, wrong, objective=upwards, engine=EVERY_STEP, **options)
    assert moved.images.item() == pytest.approx(0.75)  # fools with the smaller objective
    moved = pgd(model, start, wrong, objective=upwards, **options)
    assert moved.images.item() == pytest.approx(0.55)  # fools already, and leaves
    for engine in (Engine(), EVERY_STEP):
        moved = pgd(model, start - 0.1, right, objective=upwards, engine=engine, **options)
        assert moved.images.item() == pytest.approx(0.45)  # the start fools; the next has a smaller objective
        moved = pgd(model, start, right, objective=upwards, engine=engine, **options)
        assert moved.images.item() == pytest.approx(0.75)  # neither fools: the smaller objective


class Stripes(nn.Module):
    """Of one pixel: class 1 between 0.35 and 0.45, class 0 elsewhere; class 2 grows with the pixel and never wins."""

    def forward(self, images: Tensor) -> Tensor:
        pixel = images.flatten(1)
        outside = (pixel - 0.4).abs() - 0.05
        return torch.cat([outside, torch.zeros_like(pixel), pixel - 5], dim=1)


@pytest.mark.parametrize("early_exit", [True, False])
def test_an_attack_that_misses_its_target_prefers_an_image_that_fools_at_least(early_exit: bool) -> None:
    image, label, target = torch.full((1, 1, 1, 1), 0.2), torch.tensor([0]), torch.tensor([2])
    options = {"objective": class_logit(), "threat": Linf(0.49), "steps": 5, "step_size": 0.1, "random_start": False}
    engine = Engine(early_exit=early_exit)
    attacked = pgd(Stripes().eval(), image, label, targets=target, seed=0, engine=engine, **options)
    assert attacked.images.item() == pytest.approx(0.4)
    assert (attacked.fooled.item(), attacked.hit.item(), attacked.predictions.item()) == (True, False, 1)


class Rough(nn.Module):
    """A curved model in whose first pixel the gradient is NaN."""

    def forward(self, images: Tensor) -> Tensor:
        pixels = images.flatten(1)[:, :1]
        return MODEL(images) + (pixels - pixels).sqrt()


@pytest.mark.parametrize("threat", [THREAT, L2(0.1)], ids=str)
@pytest.mark.parametrize("attack_with", [pgd, mim])
def test_a_pixel_without_a_gradient_stays_and_the_others_move(
    attack_with: Callable[..., Result], threat: Threat
) -> None:
    options = {"objective": margin(), "threat": threat, "steps": 3, "step_size": 0.01, "seed": 0, "keep": "last"}
    if attack_with is pgd:
        options["random_start"] = False
    with pytest.warns(UserWarning, match="NaN or infinite, if only in some pixels"):
        moved = attack_with(Rough().eval(), MANY, PREDICTED, **options).images
    assert moved.isfinite().all()
    assert torch.equal(moved[:, :, 0, 0], MANY[:, :, 0, 0])
    assert ((moved != MANY).flatten(1).sum(dim=1) > 30).all()


@pytest.mark.parametrize("threat", [THREAT, L2(0.1)], ids=str)
@pytest.mark.parametrize("keep", ["best", "last"])
def test_results_stay_inside_the_threat(threat: Threat, keep: str) -> None:
    extremes = (MANY > 0.5).float()
    options = {"objective": margin(), "threat": threat, "steps": 7, "step_size": 0.5, "keep": keep}
    for attacked in (pgd(MODEL, extremes, PREDICTED, seed=0, **options), mim(MODEL, extremes, PREDICTED, **options)):
        moved = attacked.images
        assert ((moved >= 0) & (moved <= 1)).all()
        assert threat.distances(extremes, moved).max() <= threat.radius + 1e-6
        assert not torch.equal(moved, extremes)


def test_a_samples_result_is_its_own_in_any_batch_and_order() -> None:
    together = attack()
    assert together.fooled.any()
    assert not together.fooled.all()
    _, values = scores(together.images, margin(), PREDICTED, None)
    backwards = attack(MANY.flip(0), PREDICTED.flip(0), IDS.flip(0)).images.flip(0)
    alone = torch.cat([attack(MANY[i, None], PREDICTED[i, None], IDS[i, None]).images for i in range(24)])
    parts = (slice(0, 11), slice(11, 24))
    halves = torch.cat([attack(MANY[part], PREDICTED[part], IDS[part]).images for part in parts])
    for other in (backwards, alone, halves):
        fooled_other, values_other = scores(other, margin(), PREDICTED, None)
        assert torch.equal(fooled_other.bool(), together.fooled)
        torch.testing.assert_close(values_other, values, rtol=1e-3, atol=1e-3)


def seen_by(monkeypatch: pytest.MonkeyPatch, **changes: object) -> list[Tensor]:
    """The images about which the attack asks the model, in turn."""
    seen: list[Tensor] = []
    original = MODEL.features

    def spy(images: Tensor) -> Tensor:
        seen.append(images.detach().clone())
        return original(images)

    with monkeypatch.context() as patch:
        patch.setattr(MODEL, "features", spy)
        attack(engine=EVERY_STEP, steps=1, **changes)
    return seen


def test_a_seed_repeats_and_another_starts_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.equal(attack(seed=3).images, attack(seed=3).images)
    clean, start, _ = seen_by(monkeypatch, seed=3)
    assert torch.equal(clean, MANY)
    assert torch.equal(start, seen_by(monkeypatch, seed=3)[1])
    assert torch.equal(start, THREAT.random_start(MANY, IDS, "pgd-start", 3, 0))
    assert not torch.equal(start, seen_by(monkeypatch, seed=4)[1])
    assert torch.equal(seen_by(monkeypatch, random_start=False)[1], MANY)
    first, second = (seen_by(monkeypatch, seed=3, restarts=2)[index] for index in (1, 3))
    assert torch.equal(first, start)
    assert not torch.equal(second, start)


def test_without_ids_the_pixels_and_the_label_say_which_sample_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = seen_by(monkeypatch, sample_ids=None)[1]
    assert torch.equal(seen_by(monkeypatch, images=MANY[9:], labels=PREDICTED[9:], sample_ids=None)[1], whole[9:])
    assert not torch.equal(seen_by(monkeypatch, labels=(PREDICTED + 1) % 4, sample_ids=None)[1], whole)


def test_the_global_random_state_is_neither_read_nor_moved() -> None:
    before = torch.get_rng_state()
    once = attack().images
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(attack().images, once)


def test_it_works_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        quiet = attack().images
    assert torch.equal(quiet, attack().images)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_images_that_want_gradients_get_none(keep: str) -> None:
    images = MANY.clone().requires_grad_()
    attacked = attack(images, keep=keep)
    assert images.grad is None
    assert not attacked.images.requires_grad
    assert torch.equal(attacked.images, attack(keep=keep).images)


def test_a_targeted_attack_ends_nearer_to_its_target() -> None:
    targets = (PREDICTED + 2) % 4
    moved = attack(objective=own_loss(MODEL.head), targets=targets, steps=20, step_size=0.01).images
    with torch.no_grad():
        before = MODEL.head.per_sample(MODEL.features(MANY), targets)
        after = MODEL.head.per_sample(MODEL.features(moved), targets)
    assert (after < before).all()


def test_fgsm_is_one_step_of_the_whole_radius_from_the_image() -> None:
    attacked = fgsm(MODEL, MANY, PREDICTED, objective=margin(), threat=THREAT, engine=EVERY_STEP)
    images = MANY.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(margin()(model_outputs(MODEL, images), PREDICTED, None).sum(), images)
    expected = (MANY - THREAT.radius * gradient.sign()).clamp(0, 1)
    worse = scores(expected, margin(), PREDICTED, None)[1] > scores(MANY, margin(), PREDICTED, None)[1]
    torch.testing.assert_close(attacked.images[~worse], expected[~worse])
    assert (~worse).sum() > 20


def test_mim_steps_along_gathered_gradients_of_unit_l1_norm() -> None:
    """Three steps by hand, for a decay that matters."""
    attacked = mim(
        MODEL, MANY, PREDICTED, objective=margin(), threat=L2(0.5), steps=3, step_size=0.1, decay=0.7, keep="last"
    )
    moved, momentum = MANY, torch.zeros_like(MANY)
    for _ in range(3):
        asked = moved.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(margin()(model_outputs(MODEL, asked), PREDICTED, None).sum(), asked)
        momentum = 0.7 * momentum + gradient / gradient.abs().sum(dim=(1, 2, 3), keepdim=True)
        step = momentum / momentum.flatten(1).norm(dim=1)[:, None, None, None]
        moved = L2(0.5).project(MANY, moved - 0.1 * step)
    torch.testing.assert_close(attacked.images, moved, rtol=0, atol=1e-5)


def test_crafting_is_pgds_last_iterate_at_the_cost_of_its_steps_alone() -> None:
    options = {"objective": margin(), "threat": THREAT, "steps": 3, "step_size": 0.01, "seed": 2, "sample_ids": IDS}
    counted: list[int] = []
    handle = MODEL.backbone.register_forward_hook(lambda module, inputs, output: counted.append(len(output)))
    crafted = craft(MODEL, MANY, PREDICTED, **options)
    handle.remove()
    assert counted == [24, 24, 24]
    assert torch.equal(crafted, pgd(MODEL, MANY, PREDICTED, keep="last", **options).images)
    targets = (PREDICTED + 1) % 4
    crafted = craft(MODEL, MANY, PREDICTED, targets=targets, **options)
    assert torch.equal(crafted, pgd(MODEL, MANY, PREDICTED, keep="last", targets=targets, **options).images)
    # Training crafts in train mode where it is told to, which an evaluation refuses.
    training = Classifier(
        SmallCNN(image_size=(8, 8), feature_dim=6, width=4), SCE(num_classes=4, feature_dim=6)
    ).train()
    assert craft(training, MANY, PREDICTED, **options).shape == MANY.shape
    with pytest.raises(ArgumentError, match="train mode"):
        pgd(training, MANY, PREDICTED, **options)


def test_compiled_crafting_takes_the_same_steps() -> None:
    options = {"threat": THREAT, "steps": 3, "step_size": 0.01, "seed": 2, "sample_ids": IDS}
    start = MANY.clone()
    for objective in (margin(), cross_entropy(), own_loss(MODEL.head)):
        for more in ({}, {"targets": (PREDICTED + 1) % 4}, {"start": start}):
            settings = {**options, **more, "objective": objective}
            plain = craft(MODEL, MANY, PREDICTED, **settings)
            compiled = craft(MODEL, MANY, PREDICTED, compiler=lambda function: function, **settings)
            # Where a gradient is about zero, rounding decides its sign.
            assert float(((compiled - plain).abs() < 1e-6).float().mean()) > 0.995
            assert not compiled.requires_grad
    assert not start.requires_grad
    assert all(parameter.grad is None for parameter in MODEL.parameters())


@pytest.mark.parametrize("compiler", [None, lambda function: function], ids=["", "compiled"])
@pytest.mark.parametrize("start", [None, MANY])
def test_crafting_keeps_no_graph_of_images_that_require_gradients(
    start: Tensor | None, compiler: Callable[..., object] | None
) -> None:
    def crafted(images: Tensor, start: Tensor | None) -> Tensor:
        return craft(MODEL, images, PREDICTED, THREAT, steps=2, sample_ids=IDS, start=start, compiler=compiler)

    images, begin = (None if each is None else each.clone().requires_grad_() for each in (MANY, start))
    found = crafted(images, begin)
    assert not found.requires_grad
    assert torch.equal(found, crafted(MANY, start))
    assert images.requires_grad
    assert images.grad is None


@pytest.mark.parametrize("compiler", [None, lambda function: function], ids=["", "compiled"])
def test_crafting_in_train_mode_follows_the_gradient_through_batch_norm(compiler: Callable[..., object] | None) -> None:
    """There it is a sum over all samples, whatever the sizes of their gradients."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6))
    model = Classifier(network, SCE(num_classes=4, feature_dim=6)).train()
    sizes = 10.0 ** -torch.arange(24.0).remainder(9)  # beyond those at which nothing is scaled

    def uneven(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return sizes * cross_entropy()(outputs, labels, targets)

    images = 0.1 + 0.8 * MANY
    crafted = craft(
        model, images, PREDICTED, 0.05, objective=uneven, steps=1, step_size=0.05, start=images, compiler=compiler
    )
    moved = images.clone().requires_grad_()
    uneven(model_outputs(model, moved), PREDICTED, None).sum().backward()
    assert moved.grad is not None
    assert float(((crafted - images).sign() == -moved.grad.sign()).float().mean()) > 0.99


def test_a_function_has_no_gradients_to_follow() -> None:
    network: nn.Module = MODEL
    with pytest.raises(ArgumentError, match="needs gradients, and a predict function has none; use spsa or square"):
        pgd(
            lambda images: network(images),
            MANY,
            PREDICTED,
            objective=margin(),
            threat=THREAT,
            steps=1,
            step_size=0.1,
            seed=0,
        )
