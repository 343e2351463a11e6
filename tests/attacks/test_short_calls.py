"""Every attack in one line: the threat as the fourth argument, the rest by default; results print in one line."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import Curved, predictions, uniform
from torch import nn

from maxmahal.attacks import (
    L2,
    Linf,
    Result,
    apgd,
    autoattack,
    bind,
    carlini_wagner,
    craft,
    custom,
    dlr,
    fgsm,
    fmn,
    margin,
    mim,
    own_loss,
    pgd,
    spsa,
    square,
    worst_of_noise,
    worst_of_rotations,
)
from maxmahal.attacks.objectives import CROSS_ENTROPY, MARGIN
from maxmahal.evaluate import attack_hard, attack_within
from maxmahal.losses import MMC

MODEL = Curved().eval()
IMAGES = uniform(2, 12, 1, 4, 4)
LABELS = predictions(MODEL, IMAGES)
WITH_A_THREAT = [fgsm, pgd, mim, apgd, spsa, square]


@pytest.mark.parametrize("attack", WITH_A_THREAT)
@pytest.mark.parametrize("threat", ["12/255", 12 / 255, Linf("12/255")])
def test_a_threat_is_a_text_a_number_or_a_threat(attack: Callable[..., Result], threat: object) -> None:
    budget = {"queries": 20} if attack is square else {}
    short = attack(MODEL, IMAGES, LABELS, threat, **budget)
    long = attack(MODEL, IMAGES, LABELS, threat=Linf(12 / 255), seed=0, **budget)
    assert torch.equal(short.images, long.images)
    assert (short.images - IMAGES).abs().amax() <= 12 / 255
    assert short.threat == (threat if isinstance(threat, Linf) else Linf(threat))


def test_pgd_takes_margin_50_steps_and_the_step_size_of_the_suites() -> None:
    short = pgd(MODEL, IMAGES, LABELS, "12/255")
    long = pgd(MODEL, IMAGES, LABELS, objective=margin(), threat=Linf("12/255"), steps=50, step_size=0.6 / 255, seed=0)
    assert torch.equal(short.images, long.images)


@pytest.mark.parametrize("attack", [attack_hard, attack_within])
def test_a_suite_on_tensors_takes_a_text_too(attack: Callable[..., object]) -> None:
    settings = {"suite": "quick"} if attack is attack_hard else {"gradients": 8}
    short = attack(MODEL, IMAGES, LABELS, "12/255", **settings)
    long = attack(MODEL, IMAGES, LABELS, threat=Linf("12/255"), seed=0, **settings)
    assert torch.equal(short.images, long.images)


@pytest.mark.parametrize("attack", [fmn, carlini_wagner, worst_of_noise, worst_of_rotations])
def test_attacks_without_a_ball_need_no_threat(attack: Callable[..., Result]) -> None:
    found = attack(MODEL, IMAGES, LABELS)
    again = attack(MODEL, IMAGES.flip(0), LABELS.flip(0))
    torch.testing.assert_close(found.images, again.images.flip(0))  # the random numbers belong to the images
    assert found.threat is None


def test_a_bound_attack_takes_the_threat_as_well() -> None:
    attack = bind(pgd, MODEL, "12/255", steps=5)
    assert torch.equal(attack(IMAGES, LABELS), pgd(MODEL, IMAGES, LABELS, "12/255", steps=5).images)


def test_autoattack_takes_a_text() -> None:
    pytest.importorskip("pyautoattack")
    found = autoattack(MODEL, IMAGES, LABELS, "12/255", attacks=("apgd-ce",), steps=5)
    assert repr(found).startswith(f"AutoAttackResult({int((~found.fooled).sum())} of 12 still correct, Linf 12/255, ")


def test_crafting_has_defaults_and_belongs_to_the_seed() -> None:
    first, again, other = (craft(MODEL, IMAGES, LABELS, "12/255", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    whole = craft(
        MODEL, IMAGES, LABELS, objective=CROSS_ENTROPY, threat=Linf("12/255"), steps=10, step_size=3 / 255, seed=0
    )
    assert torch.equal(first, whole)
    assert 0 < (first - IMAGES).abs().amax() <= 12 / 255


def test_a_result_prints_in_one_line() -> None:
    found = pgd(MODEL, IMAGES, LABELS, "12/255")
    right, passes = int((~found.fooled).sum()), found.passes.forward + found.passes.backward
    assert repr(found) == f"Result({right} of 12 still correct, Linf 12/255, {passes:,} passes)"
    assert "L2 0.3," in repr(pgd(MODEL, IMAGES, LABELS, L2(0.3), steps=2))
    assert "Linf 12/255," in repr(pgd(MODEL, IMAGES, LABELS, 12 / 255, steps=2))
    assert "Linf 0.0123457," in repr(pgd(MODEL, IMAGES, LABELS, 1 / 81, steps=2))


def test_other_results_say_what_they_found() -> None:
    nearest = fmn(MODEL, IMAGES, LABELS, steps=20)
    passes = nearest.passes.forward + nearest.passes.backward
    expected = f"Nearest({int(nearest.success.sum())} of 12 found, mean distance {nearest.mean_distance:.3g}, "
    assert repr(nearest) == f"{expected}{passes:,} passes)"
    noisy = worst_of_noise(MODEL, IMAGES, LABELS)
    assert repr(noisy) == f"Transformed({int((~noisy.fooled).sum())} of 12 still correct, 24 passes)"


def test_an_objective_prints_its_name() -> None:
    head = MMC(torch.eye(4))
    assert [repr(each) for each in (MARGIN, dlr(), own_loss(head), custom(lambda *_: torch.zeros(1), name="mine"))] == [
        "Objective(margin)",
        "Objective(dlr)",
        "Objective(own)",
        "Objective(mine)",
    ]


def test_adversarial_training_in_a_loop_of_ones_own() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 4))
    before = [parameter.clone() for parameter in network.parameters()]
    craft(network, IMAGES, LABELS, "12/255", steps=2)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, network.parameters(), strict=True))


def test_the_loop_of_the_documentation_trains_a_robust_model() -> None:
    pages = (Path(__file__).resolve().parents[2] / "docs").glob("**/*.md")
    blocks = [block for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)]
    (loop,) = (block for block in blocks if "craft(network" in block)
    torch.manual_seed(0)
    names: dict[str, Any] = {}
    exec(loop, names)  # the text of our own page
    assert names["found"].accuracy > 0.4  # 0.60, and 0.10 without crafting
