"""Attacks on linear models, where the smallest perturbation is known: they fail just below it, succeed just above."""

from collections.abc import Callable

import pytest
import torch
from small_models import Linear, normal, predictions
from torch import Tensor, nn

from maxmahal.attacks import L2, Linf, Objective, Result, Threat, cross_entropy, dlr, fgsm, margin, mim, pgd
from maxmahal.losses import MMC
from maxmahal.models import Classifier

IMAGES = 0.5 + 0.1 * normal(0, 1, 1, 3, 4).clamp(-2, 2)
DUAL = {Linf: 1, L2: 2}  # the norm of a slope that decides how far a step of this threat moves the logits
KNOWN = {Linf: 0.08, L2: 0.2}
Build = Callable[[float, int], nn.Module]


def linear_logits(distance: float, dual: int) -> nn.Module:
    """A two-class model whose prediction turns at exactly ``distance`` from the image."""
    weight = normal(1, 2, 12)
    slope = weight[0] - weight[1]
    offset = distance * slope.norm(dual) - slope @ IMAGES[0].flatten()
    return Linear(weight, torch.stack([offset, torch.zeros(())])).eval()


def linear_mmc(distance: float, dual: int) -> nn.Module:
    """The same with the MMC head behind a linear layer, on centers of unequal length (the margin is linear in x)."""
    centers = torch.tensor([[3.0, 1.0, 0.0], [-1.0, 0.5, 1.0]])
    backbone = Linear(normal(2, 3, 12), torch.zeros(3))
    across = centers[0] - centers[1]
    slope = backbone.weight.detach().T @ across
    constant = -0.5 * (centers[0].square().sum() - centers[1].square().sum())
    missing = distance * slope.norm(dual) - slope @ IMAGES[0].flatten() - constant
    backbone.bias.data = missing * across / across.square().sum()
    return Classifier(backbone, MMC(centers)).eval()


def attack_with(name: str, threat: Threat, **options: object) -> Callable[[nn.Module, Tensor, Tensor], Result]:
    attack = {"pgd": pgd, "mim": mim, "fgsm": fgsm}[name]
    if name != "fgsm":
        options |= {"steps": 16, "step_size": threat.radius / 4}

    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Result:
        return attack(model, images, labels, threat=threat, seed=0, sample_ids=torch.tensor([17]), **options)

    return run


@pytest.mark.parametrize("kind", [Linf, L2])
@pytest.mark.parametrize("name", ["pgd", "mim", "fgsm"])
@pytest.mark.parametrize("build", [linear_logits, linear_mmc])
@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
@pytest.mark.parametrize("targeted", [False, True])
def test_it_fails_just_below_the_smallest_perturbation_and_succeeds_just_above(
    kind: type, name: str, build: Build, objective: Objective, targeted: bool
) -> None:
    model, labels = build(KNOWN[kind], DUAL[kind]), torch.tensor([0])
    assert predictions(model, IMAGES).item() == 0
    targets = 1 - labels if targeted else None
    for keep in ("best", "last") if name != "fgsm" else ("best",):
        options = {} if name == "fgsm" else {"keep": keep}
        for share, predicted in ((0.98, 0), (1.02, 1)):
            threat = kind(share * KNOWN[kind])
            attacked = attack_with(name, threat, objective=objective, targets=targets, **options)(model, IMAGES, labels)
            assert threat.distances(IMAGES, attacked.images).item() <= threat.radius + 1e-6
            assert predictions(model, attacked.images).item() == predicted
            assert attacked.predictions.tolist() == [predicted]
            assert attacked.fooled.tolist() == [bool(predicted)]
            assert attacked.accuracy == 1 - predicted
            assert (attacked.hit is None) == (not targeted)
            assert torch.equal(attacked.success, attacked.fooled)


def three_classes(towards: int) -> tuple[nn.Module, list[float]]:
    """Class 0 at the image, and the l∞ distance at which each other class takes over."""
    weight = normal(3, 3, 12)
    slopes = weight[:1] - weight[1:]
    distances = torch.tensor([0.05, 0.09] if towards == 1 else [0.09, 0.05])
    bias = slopes @ IMAGES[0].flatten() - distances * slopes.abs().sum(dim=1)
    return Linear(weight, torch.cat([torch.zeros(1), bias])).eval(), distances.tolist()


@pytest.mark.parametrize("towards", [1, 2])
def test_the_untargeted_margin_finds_the_nearer_class_and_a_target_its_own(towards: int) -> None:
    model, distances = three_classes(towards)
    labels = torch.tensor([0])
    nearest = attack_with("pgd", Linf(1.02 * min(distances)), objective=margin())(model, IMAGES, labels)
    assert nearest.predictions.tolist() == [towards]
    below = attack_with("pgd", Linf(0.98 * min(distances)), objective=margin())(model, IMAGES, labels)
    assert not below.fooled.any()
    # Of the targeted objectives the margin alone goes straight to its target; cross-entropy also flees the third class.
    for target, distance in enumerate(distances, start=1):
        aimed = {"objective": margin(), "targets": torch.tensor([target])}
        short = attack_with("pgd", Linf(0.98 * distance), **aimed)(model, IMAGES, labels)
        assert short.hit is not None
        assert not short.success.any()
        # The target has overtaken the label here; a third class may be ahead of both.
        reached = attack_with("pgd", Linf(1.02 * distance), **aimed)(model, IMAGES, labels)
        assert reached.fooled.all()
        assert reached.hit.item() == (reached.predictions.item() == target)


def test_three_classes_are_enough_for_dlr() -> None:
    model, distances = three_classes(1)
    for share in (0.98, 1.02):
        attacked = attack_with("pgd", Linf(share * min(distances)), objective=dlr())(model, IMAGES, torch.tensor([0]))
        assert attacked.fooled.tolist() == [share > 1]
