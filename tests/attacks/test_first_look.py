"""What does not fit shows at the first look at the clean images, and is told in one sentence with its cause behind."""

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from small_models import Curved, curved_classifier, uniform
from torch import Tensor, nn

import maxmahal.attacks
from maxmahal.attacks import (
    Engine,
    Linf,
    Outputs,
    autoattack,
    carlini_wagner,
    custom,
    margin,
    mim,
    nearest_center,
    own_loss,
    own_loss_difference,
    pgd,
    prepare,
    square,
    transfer,
    worst_of_noise,
    worst_of_rotations,
)
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC

pytestmark = pytest.mark.usefixtures("unchecked")

IMAGES = uniform(1, 6, 1, 8, 8)
TURNED = IMAGES.permute(0, 2, 3, 1).contiguous()
LABELS = torch.arange(6) % 4
MODEL = curved_classifier(IMAGES)

PGD = partial(pgd, objective=margin(), threat=Linf(0.1), steps=2, step_size=0.05, seed=0)
ATTACKS: dict[str, Callable[..., object]] = {
    "pgd": PGD,
    "mim": partial(mim, objective=margin(), threat=Linf(0.1), steps=2, step_size=0.05),
    "square": partial(square, threat=Linf(0.1), queries=2, seed=0),
    "carlini_wagner": carlini_wagner,
    "autoattack": partial(autoattack, threat=Linf(0.1), seed=0),
    "transfer": lambda model, images, labels: transfer(PGD, model, model, images, labels),
    "noise": partial(worst_of_noise, std=0.1, tries=1, seed=0, sample_ids=LABELS),
    "turns": partial(worst_of_rotations, seed=0, sample_ids=LABELS),
}
EVERY_ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


def sentence_for(work: Callable[[], object]) -> str:
    with pytest.raises(ArgumentError) as caught:
        work()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


@EVERY_ATTACK
def test_images_with_channels_last_are_named(attack: Callable[..., object]) -> None:
    sentence = sentence_for(lambda: attack(MODEL, TURNED, LABELS))
    words = r"The model cannot take torch.float32 images of shape \([16], 8, 8, 1\) \(RuntimeError: Given"
    assert re.match(words, sentence)
    assert sentence.endswith(
        "; images come as (n, channels, height, width): turn them with images.permute(0, 3, 1, 2)."
    )


def test_the_models_own_error_is_the_cause() -> None:
    with pytest.raises(ArgumentError) as caught:
        PGD(MODEL, TURNED, LABELS)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "channels" in str(caught.value.__cause__)


def test_a_prepared_model_says_the_same() -> None:
    assert "images.permute(0, 3, 1, 2)." in sentence_for(lambda: PGD(prepare(MODEL), TURNED, LABELS))


def test_images_of_another_size_are_told_without_a_wrong_hint() -> None:
    sentence = sentence_for(lambda: PGD(Curved().eval(), IMAGES, LABELS))
    assert sentence.startswith("The model cannot take torch.float32 images of shape (6, 1, 8, 8) (RuntimeError: mat1")
    assert "permute" not in sentence


@EVERY_ATTACK
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_in_low_precision_is_named(attack: Callable[..., object], dtype: torch.dtype) -> None:
    sentence = sentence_for(lambda: attack(copy.deepcopy(MODEL).to(dtype), IMAGES, LABELS))
    assert sentence.endswith(f"; its weights are {dtype}: convert it with model.float().")


def test_so_is_one_that_was_prepared() -> None:
    prepared = prepare(copy.deepcopy(MODEL).bfloat16())
    assert "its weights are torch.bfloat16" in sentence_for(lambda: PGD(prepared, IMAGES, LABELS))


class Casts(nn.Module):
    """Narrow weights behind a cast of their own: nothing is wrong with that."""

    def __init__(self) -> None:
        super().__init__()
        self.model = copy.deepcopy(MODEL).bfloat16()
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images.bfloat16()).float()


def test_a_model_that_casts_by_itself_is_attacked() -> None:
    assert PGD(Casts(), IMAGES, LABELS).images.shape == IMAGES.shape


class InPlace(nn.Module):
    """Normalises the caller's own tensor."""

    def forward(self, images: Tensor) -> Tensor:
        return MODEL(images.sub_(0.5).div_(0.5))


@EVERY_ATTACK
@pytest.mark.parametrize("prepared", [False, True])
def test_a_model_that_changes_its_images_is_refused_and_they_stay(
    attack: Callable[..., object], prepared: bool
) -> None:
    model, images = InPlace().eval(), IMAGES.clone()
    sentence = sentence_for(lambda: attack(prepare(model) if prepared else model, images, LABELS))
    assert sentence.startswith("The model changes the images it is shown in place, ")
    assert torch.equal(images, IMAGES)


def test_memory_that_runs_out_is_still_shared_out() -> None:
    class Small(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if len(images) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return MODEL(images)

    assert PGD(Small().eval(), IMAGES, LABELS, engine=Engine(batch_size=6)).images.shape == IMAGES.shape


class Fails(nn.Module):
    """A model that raises an error, from the call of that number on."""

    def __init__(self, error: BaseException, calls: int = 0) -> None:
        super().__init__()
        self.error, self.calls = error, calls
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.calls -= 1
        if self.calls < 0:
            raise self.error
        return MODEL(images)


@EVERY_ATTACK
@pytest.mark.parametrize("error", [KeyError("weights"), OSError("weights.bin"), SystemExit(0)], ids=repr)
@pytest.mark.parametrize("calls", [0, 1])
def test_whatever_a_model_raises_is_told(attack: Callable[..., object], error: BaseException, calls: int) -> None:
    sentence = sentence_for(lambda: attack(Fails(error, calls), IMAGES, LABELS))
    assert sentence.startswith("The model cannot take torch.float32 images of shape (")
    assert f"({type(error).__name__}: {error})" in sentence


@EVERY_ATTACK
def test_the_users_own_interrupt_passes_through(attack: Callable[..., object]) -> None:
    with pytest.raises(KeyboardInterrupt):
        attack(Fails(KeyboardInterrupt()), IMAGES, LABELS)


class Answers(nn.Module):
    """The model, with something done to its logits."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.change(MODEL(images))


NOT_LOGITS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "integers": (lambda logits: logits.round().long(), "must return floating-point logits; got torch.int64."),
    "booleans": (lambda logits: logits > 0, "must return floating-point logits; got torch.bool."),
    "infinite": (lambda logits: logits * torch.inf, "returned NaN or infinite logits for "),
    "an infinity": (lambda logits: logits.scatter(1, LABELS[: len(logits), None], torch.inf), "infinite logits for"),
    "certain": (lambda logits: (logits > logits.median()).float().log(), "returned NaN or infinite logits for "),
    "flat": (lambda logits: logits.flatten(), "must return logits of shape ("),
}


@EVERY_ATTACK
@pytest.mark.parametrize("answers", NOT_LOGITS)
@pytest.mark.parametrize("is_prepared", [False, True], ids=["plain", "prepared"])
def test_what_is_no_row_of_numbers_is_told(attack: Callable[..., object], answers: str, is_prepared: bool) -> None:
    change, words = NOT_LOGITS[answers]
    model = Answers(change)
    assert words in sentence_for(lambda: attack(prepare(model) if is_prepared else model, IMAGES, LABELS))


@EVERY_ATTACK
@pytest.mark.parametrize("norm", [nn.BatchNorm2d(1).train(), nn.BatchNorm2d(1, track_running_stats=False).eval()])
def test_a_batch_norm_over_the_batch_is_refused(attack: Callable[..., object], norm: nn.Module) -> None:
    model = nn.Sequential(norm, MODEL)
    model.training = False
    assert "uses the statistics of the batch" in sentence_for(lambda: attack(model, IMAGES, LABELS))


@pytest.mark.parametrize("make", [own_loss, own_loss_difference, nearest_center])
@pytest.mark.parametrize(("classes", "width"), [(4, 9), (2, 6)])
def test_an_objective_with_another_models_head_is_named(make: Any, classes: int, width: int) -> None:
    objective = make(MMC(max_mahalanobis_centers(classes, width)))
    assert sentence_for(lambda: PGD(MODEL, IMAGES, LABELS, objective=objective)) == (
        f"{make.__name__} was given a head for {classes} classes and features of width {width}, and the model has 4 "
        f"classes and width 6; give it the model's own: {make.__name__}(model.head)."
    )


def two_arguments(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels[:, None]).squeeze(1)


def takes_a_tensor(outputs: Any, labels: Tensor, targets: Tensor | None) -> Tensor:
    return outputs.gather(1, labels[:, None]).squeeze(1)


TAKES = "an objective takes (outputs, labels, targets), where outputs.logits and outputs.features are tensors and"


@pytest.mark.parametrize("objective", [two_arguments, custom(two_arguments)])
def test_an_objective_of_two_arguments_is_told_what_it_is_given(objective: Any) -> None:
    sentence = sentence_for(lambda: PGD(MODEL, IMAGES, LABELS, objective=objective))
    assert f"; two_arguments takes (logits, labels), but {TAKES}" in sentence
    assert "Call what makes it" not in sentence


def test_an_objective_that_takes_outputs_for_a_tensor_is_told() -> None:
    sentence = sentence_for(lambda: PGD(MODEL, IMAGES, LABELS, objective=takes_a_tensor))
    assert sentence.startswith("The objective takes_a_tensor failed on the model's outputs (AttributeError: 'Outputs' ")
    assert TAKES in sentence
    cross_entropy = lambda outputs, labels, targets: nn.functional.cross_entropy(outputs, labels)  # noqa: E731
    sentence = sentence_for(lambda: PGD(MODEL, IMAGES, LABELS, objective=cross_entropy))
    assert "(TypeError: " in sentence
    assert TAKES in sentence


def test_built_in_functions_that_tell_no_signature_are_asked() -> None:
    assert "failed on the model's outputs" in sentence_for(lambda: PGD(MODEL, IMAGES, LABELS, objective=max))


def test_an_objective_that_fits_sees_what_the_attack_will_see() -> None:
    seen: list[tuple[int, ...]] = []

    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        assert targets is not None
        seen.append((*outputs.logits.shape, len(labels), len(targets)))
        return margin()(outputs, labels, targets)

    PGD(MODEL, IMAGES, LABELS, objective=value, targets=(LABELS + 1) % 4, engine=Engine(eot_samples=2))
    assert seen[0] == (12, 4, 12, 12)


def test_dir_shows_the_public_names_alone() -> None:
    assert dir(maxmahal.attacks) == sorted(maxmahal.attacks.__all__)
