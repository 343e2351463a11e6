"""An objective or a gradient that is no number is counted, told, and never taken for robustness in silence."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from small_models import Curved, predictions, uniform
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from maxmahal.attacks import (
    Engine,
    Linf,
    Outputs,
    Result,
    apgd,
    carlini_wagner,
    craft,
    custom,
    fmn,
    margin,
    mim,
    pgd,
    spsa,
    square,
)
from maxmahal.attacks.oracle import has_gaps, without_gaps
from maxmahal.errors import ArgumentError

COUNT = 12
IMAGES, IDS = 0.2 + 0.8 * uniform(1, COUNT, 1, 4, 4), torch.arange(COUNT)
IMAGES[:5, :, 0] = 0.0
MODEL = Curved(row_by_row=True).eval()
LABELS = predictions(MODEL, IMAGES)

PGD = partial(pgd, threat=Linf(0.15), steps=8, step_size=0.04, seed=0)
ATTACKS: dict[str, Callable[..., Result]] = {
    "pgd": PGD,
    "pgd, last": partial(PGD, keep="last"),
    "pgd, draws": partial(PGD, engine=Engine(eot_samples=2)),
    "mim": partial(mim, threat=Linf(0.15), steps=8, step_size=0.04),
    "apgd": partial(apgd, threat=Linf(0.15), steps=8, seed=0),
    "spsa": partial(spsa, threat=Linf(0.15), steps=2, evaluations=6, seed=0),
    "square": partial(square, threat=Linf(0.15), queries=20, seed=0),
    "fmn": partial(fmn, norm="l2", steps=10),
    "carlini_wagner": partial(carlini_wagner, steps=10, search_steps=1),
}
EVERY_ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


class After(nn.Module):
    """A model behind a step that changes no image and has no gradient somewhere."""

    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.step, self.model = step, MODEL
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(self.step(images))
        return logits


def nowhere(images: Tensor) -> Tensor:
    return images + 0 * (0 * images).sqrt()


def not_at_black(images: Tensor) -> Tensor:
    return images + 0 * images.sqrt()


def of(attack: Callable[..., Result], model: nn.Module = MODEL, **changes: Any) -> Result:
    return attack(model, IMAGES, LABELS, sample_ids=IDS, **({"objective": margin()} | changes))


def warned(attack: Callable[..., Result], model: nn.Module = MODEL, **changes: Any) -> tuple[Result, str]:
    with pytest.warns(UserWarning, match="NaN or infinite") as caught:
        found = of(attack, model, **changes)
    assert len(caught) == 1
    return found, str(caught[0].message)


@EVERY_ATTACK
@pytest.mark.parametrize("count", [1, 7, COUNT])
def test_an_objective_that_is_nan_on_clean_images_is_refused(attack: Callable[..., Result], count: int) -> None:
    def value(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        unlucky = (outputs.logits[:, None] == FIRST_LOGITS[:count]).all(dim=2).any(dim=1)
        return torch.where(unlucky, torch.nan, margin()(outputs, labels, targets))

    words = f"The objective broken is NaN for {count} of 12 clean images, though the model's logits are finite, so an"
    with pytest.raises(ArgumentError, match=words):
        of(attack, objective=custom(value, name="broken"))


with torch.no_grad():
    FIRST_LOGITS = MODEL(IMAGES)


def test_the_first_look_counts_draws_targets_and_batches_alike() -> None:
    for changes in ({"engine": Engine(batch_size=5, eot_samples=3)}, {"targets": "all-others"}):
        with pytest.raises(ArgumentError, match="The objective <lambda> is NaN for 12 of 12 clean images"):
            of(PGD, objective=lambda outputs, labels, targets: outputs.logits.sum(dim=1) * torch.nan, **changes)


def test_the_first_look_costs_no_pass() -> None:
    calls = []
    model = After(lambda images: calls.append(len(images)) or images)
    found = of(partial(PGD, steps=3, keep="last"), model)
    assert sum(calls) == found.passes.forward == COUNT * (1 + 3 + 1)


def nan_once_moved(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
    clean = (outputs.logits[:, None] == FIRST_LOGITS).all(dim=2).any(dim=1)
    return torch.where(clean | (labels != LABELS[0]), margin()(outputs, labels, targets), torch.nan)


@EVERY_ATTACK
def test_an_objective_that_turns_nan_later_is_counted_and_told(attack: Callable[..., Result]) -> None:
    found, _ = warned(attack, objective=nan_once_moved)
    assert found.lost is not None
    assert torch.equal(found.lost > 0, LABELS.eq(LABELS[0]))


@pytest.mark.parametrize("name", ["pgd", "pgd, last", "pgd, draws", "mim", "apgd"])
def test_a_model_without_finite_gradients_is_told_apart_from_a_robust_one(name: str) -> None:
    assert of(ATTACKS[name]).accuracy < 0.5, "the model must be weak, or this test says nothing"
    found, sentence = warned(ATTACKS[name], After(nowhere))
    kept = int((~found.fooled).sum())
    assert kept > COUNT / 2
    assert f" for 12 of 12 samples and told the attack nothing there: {kept} of them survived, perhaps" in sentence
    assert sentence.endswith("or use square.")


def test_gradients_are_counted_sample_by_sample_and_step_by_step() -> None:
    attack = partial(mim, threat=Linf(0.05), steps=4, step_size=0.01, keep="last")
    found, sentence = warned(attack, After(not_at_black))
    assert found.lost is not None
    assert found.lost.tolist() == [4] * 5 + [0] * 7  # a black pixel without a gradient stays black
    assert " for 5 of 12 samples" in sentence
    for engine in (Engine(batch_size=1), Engine(batch_size=5)):
        again, _ = warned(attack, After(not_at_black), engine=engine)
        assert again.lost is not None
        assert torch.equal(again.lost, found.lost)


def test_a_sample_that_broke_all_the_same_is_said_to_be_broken() -> None:
    def rooted(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        return margin()(outputs, labels, targets).sqrt()

    found, sentence = warned(partial(PGD, threat=Linf(0.4)), objective=rooted)
    assert found.accuracy == 0
    assert "all of them are broken even so." in sentence


@EVERY_ATTACK
def test_nothing_is_counted_or_told_where_all_is_finite(attack: Callable[..., Result]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = of(attack)
    assert found.lost is not None
    assert not found.lost.any()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_one_bad_pixel_is_seen_and_taken_for_zero(bad: float) -> None:
    gradient = torch.ones(3, 2, 2, 2) * 1e38  # a sum of these would overflow
    gradient[1, 0, 1, 0] = bad
    assert has_gaps(gradient).tolist() == [False, True, False]
    clean = without_gaps(gradient)
    assert clean[1, 0, 1, 0] == 0
    assert int((clean == 1e38).sum()) == 23


class ReadBacks(TorchDispatchMode):
    """Counts what would make a GPU wait: a value read back, or a size that depends on values."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket._qualified_op_name in ("aten::_local_scalar_dense", "aten::nonzero")
        return func(*args, **(kwargs or {}))


def read_backs(work: Callable[[], object]) -> int:
    with warnings.catch_warnings(), ReadBacks() as mode:
        warnings.simplefilter("ignore")
        work()
    return mode.count


def test_counting_reads_nothing_back_from_the_device_on_the_way() -> None:
    few, many = (read_backs(lambda n=n: of(partial(PGD, keep="last", steps=n), After(nowhere))) for n in (2, 9))  # type: ignore[misc]
    assert few == many


def test_adversarial_training_neither_counts_nor_reads_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(gradient: Tensor) -> Tensor:
        raise AssertionError("crafting has nobody to count for")

    monkeypatch.setattr("maxmahal.attacks.oracle.has_gaps", refuse)
    settings = {"objective": margin(), "threat": Linf(0.1), "steps": 3, "step_size": 0.05, "seed": 0}
    assert read_backs(lambda: craft(After(nowhere), IMAGES, LABELS, sample_ids=IDS, **settings)) == 0
