"""PGD where the smallest perturbation is known, and what it promises about samples, seeds and the model."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import Linf, Objective, Outputs, cross_entropy, margin, model_outputs, own_loss, pgd
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC, SCE
from maxmahal.models import Classifier, SmallCNN


class Linear(nn.Module):
    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


IMAGES = 0.5 + 0.1 * normal(0, 6, 1, 3, 4).clamp(-2, 2)


def linear_logits(distance: float) -> tuple[nn.Module, Tensor]:
    """A two-class model whose every prediction turns at exactly ``distance`` for the first image, and its labels."""
    weight = normal(1, 2, 12)
    slope = weight[0] - weight[1]
    offset = distance * slope.abs().sum() - slope @ IMAGES[0].flatten()
    return Linear(weight, torch.stack([offset, torch.zeros(())])), torch.tensor([0])


def linear_mmc(distance: float) -> tuple[nn.Module, Tensor]:
    """The same with the MMC head behind a linear layer, on centers of unequal length (the margin is linear in x)."""
    centers = torch.tensor([[3.0, 1.0, 0.0], [-1.0, 0.5, 1.0]])
    backbone = Linear(normal(2, 3, 12), torch.zeros(3))
    across = centers[0] - centers[1]
    slope = backbone.weight.detach().T @ across
    constant = -0.5 * (centers[0].square().sum() - centers[1].square().sum())
    missing = distance * slope.abs().sum() - slope @ IMAGES[0].flatten() - constant
    backbone.bias.data = missing * across / across.square().sum()
    return Classifier(backbone, MMC(centers)), torch.tensor([0])


KNOWN = 0.08


@pytest.mark.parametrize("build", [linear_logits, linear_mmc])
@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("keep", ["best", "last"])
def test_it_fails_just_below_the_smallest_perturbation_and_succeeds_just_above(
    build: Callable[[float], tuple[nn.Module, Tensor]], objective: Objective, targeted: bool, keep: str
) -> None:
    model, labels = build(KNOWN)
    images = IMAGES[:1]
    assert model(images).argmax(dim=1).item() == 0
    for share, predicted in ((0.98, 0), (1.02, 1)):
        moved = pgd(
            model,
            images,
            labels,
            objective=objective,
            threat=Linf(share * KNOWN),
            steps=40,
            step_size=0.01,
            seed=0,
            sample_ids=torch.tensor([17]),
            targets=1 - labels if targeted else None,
            keep=keep,
        )
        assert (moved - images).abs().max() <= share * KNOWN + 1e-6
        assert model(moved).argmax(dim=1).item() == predicted


MANY = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(5))
IDS = torch.arange(100, 124)


def curved_model() -> Classifier:
    """An untrained network whose centers are four images' own features, so that all classes are predicted."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        backbone = SmallCNN(image_size=(8, 8), feature_dim=6, width=4).eval()
    with torch.no_grad():
        centers = 10 * backbone(MANY[:4])
    backbone.feature.weight.data *= 10
    backbone.feature.bias.data *= 10
    return Classifier(backbone, MMC(centers)).eval()


MODEL = curved_model()
with torch.no_grad():
    PREDICTED = MODEL(MANY).argmax(dim=1)
THREAT = Linf(0.02)


def attack(images: Tensor, labels: Tensor, ids: Tensor, **changes: object) -> Tensor:
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
        predictions = outputs.logits.argmax(dim=1)
        success = (predictions != labels).long()
        if targets is not None:
            success += predictions == targets
        return success, objective(outputs, labels, targets)


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("objective", [margin(), cross_entropy(), own_loss(MODEL.head)], ids=["margin", "ce", "own"])
def test_the_best_iterate_is_never_worse_than_the_last(objective: Objective, targeted: bool) -> None:
    targets = (PREDICTED + 1) % 4 if targeted else None
    options = {"objective": objective, "targets": targets, "step_size": 0.08}
    success_best, best = scores(attack(MANY, PREDICTED, IDS, **options), objective, PREDICTED, targets)
    success_last, last = scores(attack(MANY, PREDICTED, IDS, keep="last", **options), objective, PREDICTED, targets)
    assert (success_best >= success_last).all()
    same = success_best == success_last
    assert (best[same] <= last[same] + 1e-4).all()
    assert (best < last - 1e-3).any()  # the steps are so large that the last iterate is not always the best


def test_the_best_iterate_prefers_one_that_fools_to_one_with_a_smaller_objective() -> None:
    """The objective always asks for brighter pixels, whether or not they fool."""
    model = Linear(torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 0.5]))  # class 0 above one half
    start = torch.full((1, 1, 1, 1), 0.55)
    options = {"random_start": False, "steps": 1, "threat": Linf(0.3), "step_size": 0.2, "seed": 0}

    def upwards(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return -outputs.logits[:, 0]

    moved = pgd(model, start, torch.tensor([1]), objective=upwards, sample_ids=torch.tensor([0]), **options)
    assert moved.item() == pytest.approx(0.75)  # fools with the smaller objective
    moved = pgd(model, start - 0.1, torch.tensor([0]), objective=upwards, sample_ids=torch.tensor([0]), **options)
    assert moved.item() == pytest.approx(0.45)  # the start fools; the next iterate has a smaller objective but is right


def test_results_stay_inside_the_threat() -> None:
    extremes = (MANY > 0.5).float()
    for keep in ("best", "last"):
        moved = attack(extremes, PREDICTED, IDS, keep=keep, step_size=0.5)
        assert ((moved >= 0) & (moved <= 1)).all()
        assert (moved - extremes).abs().max() <= THREAT.radius + 1e-6
        assert not torch.equal(moved, extremes)


def test_a_samples_result_is_its_own_in_any_batch_and_order() -> None:
    together = attack(MANY, PREDICTED, IDS)
    fooled, values = scores(together, margin(), PREDICTED, None)
    assert fooled.any()
    assert not fooled.all()
    backwards = attack(MANY.flip(0), PREDICTED.flip(0), IDS.flip(0)).flip(0)
    alone = torch.cat([attack(MANY[i, None], PREDICTED[i, None], IDS[i, None]) for i in range(24)])
    halves = torch.cat([attack(MANY[part], PREDICTED[part], IDS[part]) for part in (slice(0, 11), slice(11, 24))])
    for other in (backwards, alone, halves):
        fooled_other, values_other = scores(other, margin(), PREDICTED, None)
        assert torch.equal(fooled_other, fooled)
        torch.testing.assert_close(values_other, values, rtol=1e-3, atol=1e-3)


def test_a_samples_random_start_is_its_own_to_the_last_bit() -> None:
    together = THREAT.random_start(MANY, IDS, "pgd-start", 0)
    assert torch.equal(THREAT.random_start(MANY.flip(0), IDS.flip(0), "pgd-start", 0).flip(0), together)
    for i in range(24):
        assert torch.equal(THREAT.random_start(MANY[i, None], IDS[i, None], "pgd-start", 0)[0], together[i])
    twins = THREAT.random_start(MANY[:1].expand(2, -1, -1, -1), torch.tensor([1, 2]), "pgd-start", 0)
    assert not torch.equal(twins[0], twins[1])


def first_seen(monkeypatch: pytest.MonkeyPatch, **changes: object) -> Tensor:
    """The images at which the attack first asks the model."""
    seen: list[Tensor] = []
    original = MODEL.features

    def spy(images: Tensor) -> Tensor:
        seen.append(images.detach().clone())
        return original(images)

    with monkeypatch.context() as patch:
        patch.setattr(MODEL, "features", spy)
        attack(MANY, PREDICTED, IDS, steps=1, **changes)
    return seen[0]


def test_a_seed_repeats_and_another_starts_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.equal(attack(MANY, PREDICTED, IDS, seed=3), attack(MANY, PREDICTED, IDS, seed=3))
    assert torch.equal(first_seen(monkeypatch, seed=3), first_seen(monkeypatch, seed=3))
    assert not torch.equal(first_seen(monkeypatch, seed=3), first_seen(monkeypatch, seed=4))
    assert (first_seen(monkeypatch, seed=3) - MANY).abs().max() <= THREAT.radius + 1e-6
    assert torch.equal(first_seen(monkeypatch, random_start=False), MANY)


def test_the_global_random_state_is_neither_read_nor_moved() -> None:
    before = torch.get_rng_state()
    once = attack(MANY, PREDICTED, IDS)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(attack(MANY, PREDICTED, IDS), once)


@pytest.mark.parametrize("mode", [True, False])
def test_the_model_and_the_images_are_left_as_they_were(mode: bool) -> None:
    model = Classifier(SmallCNN(image_size=(8, 8), feature_dim=6, width=4), SCE(4, 6)).train(mode)
    images = MANY.clone()
    before = {name: value.clone() for name, value in model.named_parameters()}
    moved = pgd(
        model,
        images,
        PREDICTED,
        objective=own_loss(model.head),
        threat=THREAT,
        steps=2,
        step_size=0.01,
        seed=0,
        sample_ids=IDS,
    )
    for name, parameter in model.named_parameters():
        assert parameter.grad is None, name
        assert torch.equal(parameter, before[name])
    assert all(module.training == mode for module in model.modules())
    assert torch.equal(images, MANY)
    assert not moved.requires_grad
    assert images.grad is None


def test_it_works_where_gradients_are_switched_off() -> None:
    with torch.no_grad():
        quiet = attack(MANY, PREDICTED, IDS)
    assert torch.equal(quiet, attack(MANY, PREDICTED, IDS))


def test_a_targeted_attack_ends_nearer_to_its_target() -> None:
    targets = (PREDICTED + 2) % 4
    moved = attack(MANY, PREDICTED, IDS, objective=own_loss(MODEL.head), targets=targets, steps=20, step_size=0.01)
    with torch.no_grad():
        before = MODEL.head.per_sample(MODEL.features(MANY), targets)
        after = MODEL.head.per_sample(MODEL.features(moved), targets)
    assert (after < before).all()


@pytest.mark.parametrize("steps", [0, -1])
def test_an_attack_without_steps_is_refused(steps: int) -> None:
    with pytest.raises(ArgumentError, match=rf"steps must be at least 1; got {steps}"):
        attack(MANY, PREDICTED, IDS, steps=steps)


@pytest.mark.parametrize("step_size", [0.0, -0.1])
def test_steps_of_no_size_are_refused(step_size: float) -> None:
    with pytest.raises(ArgumentError, match=rf"step_size must be positive; got {step_size}"):
        attack(MANY, PREDICTED, IDS, step_size=step_size)


def _attack(**changes: object) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    arguments: dict[str, object] = {
        "labels": torch.tensor([0, 1]),
        "objective": margin(),
        "threat": Linf(0.1),
        "steps": 2,
        "step_size": 0.05,
        "seed": 0,
        "sample_ids": torch.arange(2),
    }
    pgd(model, torch.full((2, 1, 2, 2), 0.5), **(arguments | changes))  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sample_ids": torch.arange(1)}, "sample_ids must hold one value for each of the 2 images; got 1"),
        ({"labels": torch.tensor([0, 1, 2])}, "labels must hold one value for each of the 2 images; got 3"),
        ({"targets": torch.tensor([1])}, "targets must hold one value for each of the 2 images; got 1"),
        ({"labels": torch.tensor([0, 3])}, r"labels must lie in 0\.\.2 because the model has 3 classes; got 0\.\.3"),
        ({"labels": torch.tensor([-1, 1])}, r"labels must lie in 0\.\.2 .* got -1\.\.1"),
        ({"targets": torch.tensor([1, 7])}, r"targets must lie in 0\.\.2 .* got 1\.\.7"),
        ({"keep": "bset"}, "keep must be 'best' or 'last'; got 'bset'"),
        ({"step_size": float("nan")}, "step_size must be positive; got nan"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    _attack()
    with pytest.raises(ArgumentError, match=sentence):
        _attack(**changes)
