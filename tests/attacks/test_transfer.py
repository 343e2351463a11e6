"""Transfer between linear models, where it is known what a full step and a step to the boundary do elsewhere."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Model, Result, margin, pgd, prepare
from maxmahal.attacks.transfer import Transferred, transfer, transfer_matrix
from maxmahal.errors import ArgumentError

PIXELS = 16
EPSILON = 0.1
IMAGES = torch.full((3, 1, 4, 4), 0.5)
LABELS = torch.tensor([0, 0, 1])


def stubborn(distance: float, sign: float = 1.0) -> nn.Module:
    """Two classes; every image of ours predicts 0 and turns to 1 at exactly this Linf distance, all pixels one way."""
    layer = nn.Linear(PIXELS, 2)
    layer.weight.data = sign * torch.stack([torch.ones(PIXELS), -torch.ones(PIXELS)])
    layer.bias.data = torch.tensor([2 * PIXELS * distance - sign * PIXELS, 0.0])
    return nn.Sequential(nn.Flatten(), layer).eval()


def crafting(**settings: object) -> Callable[[Model, Tensor, Tensor], Result]:
    chosen = {"objective": margin(), "threat": Linf(EPSILON), "steps": 10, "step_size": 0.02, "seed": 0}

    def craft(model: Model, images: Tensor, labels: Tensor) -> Result:
        return pgd(model, images, labels, random_start=False, **(chosen | settings))

    return craft


FULL = crafting(keep="last")


def test_what_the_source_finds_is_judged_by_the_target() -> None:
    found = transfer(FULL, stubborn(0.02), stubborn(0.09), IMAGES, LABELS)
    # The third image is wrong for both models from the start, and fleeing its label leads nowhere new.
    assert found.fooled_source.tolist() == [True, True, True]
    assert found.fooled_target.tolist() == [True, True, True]
    assert found.predictions.tolist() == [1, 1, 0]
    assert found.accuracy == 0.0
    found = transfer(FULL, stubborn(0.02), stubborn(0.11), IMAGES, LABELS)
    assert found.fooled_source.tolist() == [True, True, True]
    assert found.fooled_target.tolist() == [False, False, True]
    assert found.accuracy == pytest.approx(2 / 3)
    torch.testing.assert_close(found.images[:2], IMAGES[:2] - EPSILON)


def test_leaving_off_at_the_sources_boundary_transfers_worse() -> None:
    source, target = stubborn(0.02), stubborn(0.09)
    assert transfer(crafting(), source, target, IMAGES, LABELS).accuracy == pytest.approx(2 / 3)
    patient = crafting(engine=Engine(early_exit=False))
    for attack in (FULL, patient):
        assert transfer(attack, source, target, IMAGES, LABELS).accuracy == 0.0


def test_the_matrix_holds_every_pair_and_crafts_once_for_each_source() -> None:
    models = {"weak": stubborn(0.02), "strong": stubborn(0.09), "safe": stubborn(0.2), "other": stubborn(0.05, -1.0)}
    crafted_on = []

    def craft(model: Model, images: Tensor, labels: Tensor) -> Result:
        crafted_on.append(model)
        return FULL(model, images, labels)

    matrix = transfer_matrix(models, craft, IMAGES[:2], LABELS[:2])
    assert crafted_on == list(models.values())
    right = {"weak": (0, 0, 1, 1), "strong": (0, 0, 1, 1), "safe": (0, 0, 1, 1), "other": (1, 1, 1, 0)}
    expected = {
        (source, target): float(value)
        for source, row in right.items()
        for target, value in zip(models, row, strict=True)
    }
    assert matrix == expected
    for source in models:
        for target in models:
            one = transfer(FULL, models[source], models[target], IMAGES[:2], LABELS[:2])
            assert one.accuracy == matrix[source, target]


def test_a_target_may_be_a_function_or_prepared() -> None:
    target = stubborn(0.09)
    for form in (prepare(target), lambda images: target(images).detach()):
        assert transfer(FULL, stubborn(0.02), form, IMAGES, LABELS).predictions.tolist() == [1, 1, 0]


def test_the_verdict_is_the_targets_in_float32() -> None:
    """Under a caller's autocast too, which would round this target's margin away."""

    class Close(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            mean = images.flatten(1) @ torch.full((PIXELS, 1), 1 / PIXELS)
            return torch.cat([mean, torch.full_like(mean, 0.4001)], dim=1)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = transfer(FULL, stubborn(0.02), Close().eval(), IMAGES[:2], LABELS[:2])
    assert found.predictions.tolist() == Close()(found.images).argmax(dim=1).tolist() == [1, 1]


def test_images_that_do_not_fool_the_source_are_judged_too() -> None:
    found = transfer(FULL, stubborn(0.2), stubborn(0.02), IMAGES[:2], LABELS[:2])
    assert not found.fooled_source.any()
    assert found.accuracy == 0.0


def no_crafting(model: Model, images: Tensor, labels: Tensor) -> Result:
    raise AssertionError("it crafted before it looked")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transfer(no_crafting, stubborn(0.1), stubborn(0.1).train(), IMAGES, LABELS), r"model\.eval\(\) first"),
        (
            lambda: transfer(no_crafting, stubborn(0.1), stubborn(0.1), IMAGES, LABELS + 1),
            r"labels must lie in 0\.\.1 because a model has 2 classes; got 2\.",
        ),
        (
            lambda: transfer(no_crafting, stubborn(0.1), stubborn(0.1), IMAGES, LABELS[:2]),
            r"labels must hold one value",
        ),
        (lambda: transfer(no_crafting, stubborn(0.1), "mmc", IMAGES, LABELS), r"model must be an nn\.Module"),
        (
            lambda: transfer(lambda *_: IMAGES, stubborn(0.1), stubborn(0.1), IMAGES, LABELS),
            r"attack must return what an attack returns, .*; got a Tensor\.",
        ),
        (lambda: transfer_matrix({}, no_crafting, IMAGES, LABELS), r"models must hold at least one model .*got none\."),
        (
            lambda: transfer_matrix({"a": stubborn(0.1), "b": stubborn(0.1).train()}, no_crafting, IMAGES, LABELS),
            r"model\.eval\(\) first",
        ),
    ],
)
def test_what_is_refused(unchecked: None, call: Callable[[], Transferred], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
