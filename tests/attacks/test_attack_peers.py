"""Step for step with other libraries, where both are deterministic; where they differ by definition, the test says how.

All comparisons are of the last iterate from the image itself: the random starts are each library's own.
"""

from types import ModuleType
from typing import Any

import pytest
import torch
from small_models import Curved, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Objective, Outputs, Result, Threat, cross_entropy, margin, mim, pgd

COUNT, STEPS, STEP_SIZE = 20, 7, 0.015
IMAGES = uniform(3, COUNT, 1, 4, 4)
IMAGES[:3] = (IMAGES[:3] > 0.5).float()  # some at the bounds
MODEL = Curved().eval()
LABELS = predictions(MODEL, IMAGES)
LABELS[3] = (LABELS[3] + 1) % 4
TARGETS = (LABELS + 1) % 4
THREAT = Linf(0.05)


def last(attack: Any = pgd, threat: Threat = THREAT, objective: Objective | None = None, **options: Any) -> Result:
    if attack is pgd:
        options |= {"random_start": False, "seed": 0}
    return attack(
        MODEL,
        IMAGES,
        LABELS,
        objective=cross_entropy() if objective is None else objective,
        threat=threat,
        steps=STEPS,
        step_size=STEP_SIZE,
        keep="last",
        engine=Engine(early_exit=False),
        **options,
    )


def assert_same(ours: Result, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.images, theirs, rtol=0, atol=1e-6)
    assert (theirs - IMAGES).flatten(1).norm(dim=1).min() > 0.02  # nobody stood still
    assert ours.fooled.any()


@pytest.fixture
def foolbox() -> Any:
    # importorskip lets pass the deprecated scipy.ndimage.filters that foolbox imports.
    return pytest.importorskip("foolbox")


@pytest.fixture
def torchattacks() -> Any:
    return pytest.importorskip("torchattacks")


class MarginLoss(nn.Module):
    """What the margin objective is to a library that maximises losses of a whole batch."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        labels = labels.argmax(dim=1) if labels.ndim == 2 else labels
        return -margin()(Outputs(logits), labels, None).sum()


def art_attack(name: str, loss: nn.Module, **options: Any) -> Tensor:
    estimators: ModuleType = pytest.importorskip("art.estimators.classification")
    evasion = pytest.importorskip("art.attacks.evasion")
    classifier = estimators.PyTorchClassifier(
        MODEL, loss=loss, input_shape=(1, 4, 4), nb_classes=4, clip_values=(0.0, 1.0), device_type="cpu"
    )
    options |= {"eps": THREAT.radius, "eps_step": STEP_SIZE, "max_iter": STEPS, "verbose": False}
    attack = getattr(evasion, name)(classifier, **options)
    labels = TARGETS if options.get("targeted") else LABELS
    return torch.from_numpy(attack.generate(IMAGES.numpy(), labels.numpy()))


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("threat", [THREAT, L2(0.1)], ids=str)
def test_pgd_is_foolboxs(foolbox: Any, threat: Threat, targeted: bool) -> None:
    """Our l2 ball is smaller by a millionth, so that rounding cannot lead out of it."""
    attack = {Linf: foolbox.attacks.LinfPGD, L2: foolbox.attacks.L2PGD}[type(threat)]
    model = foolbox.PyTorchModel(MODEL, bounds=(0, 1), device="cpu")
    criterion = foolbox.criteria.TargetedMisclassification(TARGETS) if targeted else LABELS
    built = attack(steps=STEPS, abs_stepsize=STEP_SIZE, random_start=False)
    theirs = built(model, IMAGES, criterion, epsilons=threat.radius)[0]
    assert_same(last(threat=threat, targets=TARGETS if targeted else None), theirs)


def test_foolboxs_pgd_takes_the_margin_too(foolbox: Any) -> None:
    astensor = pytest.importorskip("eagerpy").astensor
    attack = foolbox.attacks.LinfPGD(steps=STEPS, abs_stepsize=STEP_SIZE, random_start=False)
    attack.get_loss_fn = lambda model, labels: lambda images: astensor(MarginLoss()(model(images).raw, labels.raw))
    model = foolbox.PyTorchModel(MODEL, bounds=(0, 1), device="cpu")
    assert_same(last(objective=margin()), attack(model, IMAGES, LABELS, epsilons=THREAT.radius)[0])


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("decay", [None, 1.0, 0.5])
def test_pgd_and_mim_are_torchattackss(torchattacks: Any, decay: float | None, targeted: bool) -> None:
    """It divides gradients by their mean size, we by their sum: the momentum differs by a factor, its sign does not."""
    options = {"eps": THREAT.radius, "alpha": STEP_SIZE, "steps": STEPS}
    if decay is None:
        attack, ours = torchattacks.PGD(MODEL, random_start=False, **options), {"attack": pgd}
    else:
        attack, ours = torchattacks.MIFGSM(MODEL, decay=decay, **options), {"attack": mim, "decay": decay}
    if targeted:
        attack.set_mode_targeted_by_label(quiet=True)
    theirs = attack(IMAGES, TARGETS if targeted else LABELS)
    assert_same(last(targets=TARGETS if targeted else None, **ours), theirs)


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("decay", [1.0, 0.5])
def test_mim_is_arts(decay: float, targeted: bool) -> None:
    theirs = art_attack("MomentumIterativeMethod", nn.CrossEntropyLoss(), decay=decay, targeted=targeted)
    assert_same(last(mim, decay=decay, targets=TARGETS if targeted else None), theirs)


def test_pgd_on_a_loss_of_ones_own_is_arts() -> None:
    theirs = art_attack("ProjectedGradientDescentPyTorch", MarginLoss())
    assert_same(last(objective=margin()), theirs)
    # Another loss leads elsewhere, so the comparison can fail.
    assert (last(objective=cross_entropy()).images - theirs).abs().max() > STEP_SIZE


@pytest.mark.parametrize(("name", "targeted"), [("ce", False), ("ce", True), ("dl", False)])
def test_pgd_is_adv_libs(adv_lib: Any, name: str, targeted: bool) -> None:
    """It returns the last iterate that it saw fooling the model, or else the image; it does not look at its last step.

    One step more makes it look at ours. Its logit difference with a target is that to the best other class, where the
    paper's (and ours) is that to the label, so that one is compared without targets.
    """
    options = {"absolute_step_size": STEP_SIZE, "steps": STEPS + 1, "random_init": False, "targeted": targeted}
    theirs = adv_lib.pgd_linf(
        MODEL, IMAGES, TARGETS if targeted else LABELS, ε=THREAT.radius, loss_function=name, **options
    )
    objective = cross_entropy() if name == "ce" else margin()
    ours = last(objective=objective, targets=TARGETS if targeted else None)
    assert 0 < ours.success.sum() < COUNT
    torch.testing.assert_close(ours.images[ours.success], theirs[ours.success], rtol=0, atol=1e-6)
    assert (theirs - ours.images)[~ours.success].abs().max() > STEP_SIZE


def test_foolboxs_mim_gathers_signs_where_the_paper_gathers_gradients(foolbox: Any) -> None:
    """A difference by definition: by hand with signs it is theirs, and ours is another iterate."""
    attack = foolbox.attacks.MIFGSM(steps=STEPS, abs_stepsize=STEP_SIZE, momentum=1.0)
    model = foolbox.PyTorchModel(MODEL, bounds=(0, 1), device="cpu")
    theirs = attack(model, IMAGES, LABELS, epsilons=THREAT.radius)[0]
    moved, momentum = IMAGES, torch.zeros_like(IMAGES)
    for _ in range(STEPS):
        asked = moved.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(MODEL(asked), LABELS, reduction="sum"), asked)
        momentum = momentum + gradient.sign()
        moved = THREAT.project(IMAGES, moved + STEP_SIZE * momentum.sign())
    torch.testing.assert_close(moved, theirs, rtol=0, atol=1e-6)
    assert (last(mim).images - theirs).abs().max() > STEP_SIZE / 2
