"""What holds for gradient attacks whatever the model, the threat, the seed and the split into batches."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Curved, Linear, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import (
    L2,
    Engine,
    Linf,
    Objective,
    Outputs,
    Result,
    Threat,
    cross_entropy,
    dlr,
    fgsm,
    margin,
    mim,
    pgd,
)
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.losses import MMC
from maxmahal.models import Classifier

SEEDS = st.integers(0, 2**31 - 1)
OBJECTIVES = st.sampled_from([margin(), cross_entropy(), dlr()])
ENGINES = st.builds(Engine, early_exit=st.booleans(), batch_size=st.sampled_from([None, 1, 3]))
THREATS = st.one_of(
    st.floats(1e-6, 0.4).map(Linf), st.sampled_from(["1/255", "8/255"]).map(Linf), st.floats(1e-6, 0.9).map(L2)
)
COUNT = 6
few_examples = settings(deadline=None, max_examples=6)


def run(
    name: str,
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    objective: Objective,
    threat: Threat,
    seed: int,
    steps: int = 4,
    **options: object,
) -> Result:
    common = {"objective": objective, "threat": threat, "seed": seed} | options
    if name == "fgsm":
        return fgsm(model, images, labels, **common)
    attack: Callable[..., Result] = {"pgd": pgd, "mim": mim}[name]
    return attack(model, images, labels, steps=steps, step_size=0.4 * threat.radius, **common)


def saturated_mmc(images: Tensor) -> nn.Module:
    """Features at their centers, where cross-entropy's gradient is exactly 0 in float32."""
    centers = max_mahalanobis_centers(5, 16, 100.0).float()
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(16, 16))
    pixels = images.flatten(1)
    wanted = centers[torch.arange(len(images)) % 5]
    backbone[1].weight.data = torch.linalg.lstsq(pixels, wanted).solution.T
    backbone[1].bias.data.zero_()
    return Classifier(backbone, MMC(centers)).eval()


def models(images: Tensor, seed: int) -> dict[str, nn.Module]:
    return {
        "curved": Curved(seed, classes=5).eval(),
        "saturated": saturated_mmc(images),
        "huge": Linear(1e30 * normal(seed, 5, 16), torch.zeros(5)).eval(),
        "flat": Linear(torch.zeros(5, 16), torch.zeros(5)).eval(),
    }


@pytest.mark.parametrize("kind", ["curved", "saturated", "huge", "flat"])
@few_examples
@given(
    seed=SEEDS,
    name=st.sampled_from(["pgd", "mim", "fgsm"]),
    objective=OBJECTIVES,
    threat=THREATS,
    engine=ENGINES,
    targets=st.sampled_from([None, "random-other", "all-others"]),
    saturate=st.booleans(),
)
def test_results_are_allowed_images_judged_by_the_model(
    kind: str,
    seed: int,
    name: str,
    objective: Objective,
    threat: Threat,
    engine: Engine,
    targets: str | None,
    saturate: bool,
) -> None:
    images = uniform(seed, COUNT, 1, 4, 4)
    model, labels = models(images, seed)[kind], torch.arange(COUNT) % 5
    if saturate and kind != "saturated":
        images = (images > 0.5).float()
    attacked = run(
        name, model, images, labels, objective=objective, threat=threat, seed=seed, engine=engine, targets=targets
    )
    assert attacked.images.isfinite().all()
    assert ((attacked.images >= 0) & (attacked.images <= 1)).all()
    rounding = torch.finfo(torch.float32).eps if isinstance(threat, Linf) else 0.0
    assert (threat.distances(images.double(), attacked.images.double()) <= threat.radius + rounding).all()
    assert torch.equal(attacked.predictions, predictions(model, attacked.images))
    assert torch.equal(attacked.fooled, attacked.predictions != labels)


def test_the_saturated_model_has_no_gradient_for_cross_entropy() -> None:
    """Otherwise the property above would prove nothing about it."""
    images = uniform(0, COUNT, 1, 4, 4).requires_grad_()
    values = cross_entropy()(Outputs(saturated_mmc(images.detach())(images)), torch.arange(COUNT) % 5, None)
    (gradient,) = torch.autograd.grad(values.sum(), images)
    assert not gradient.any()


@few_examples
@given(seed=SEEDS, name=st.sampled_from(["pgd", "mim"]), threat=THREATS, data=st.data())
def test_any_split_into_batches_gives_the_same_images(
    seed: int, name: str, threat: Threat, data: st.DataObject
) -> None:
    model = Curved(seed, row_by_row=True).eval()
    images, labels = uniform(seed, COUNT, 1, 4, 4), torch.arange(COUNT) % 4
    options = {"objective": margin(), "threat": threat, "seed": seed, "targets": "random-other"}
    for sample_ids in (torch.arange(40, 40 + COUNT), None):
        whole = run(name, model, images, labels, sample_ids=sample_ids, **options)
        order = torch.tensor(data.draw(st.permutations(range(COUNT))))
        for rows in order.split(data.draw(st.integers(2, COUNT))):
            ids = None if sample_ids is None else sample_ids[rows]
            engine = Engine(batch_size=data.draw(st.integers(1, COUNT)))
            part = run(name, model, images[rows], labels[rows], sample_ids=ids, engine=engine, **options)
            assert torch.equal(part.images, whole.images[rows])
            assert torch.equal(part.predictions, whole.predictions[rows])


def is_no_worse(model: nn.Module, more: Result, less: Result, labels: Tensor) -> Tensor:
    with torch.no_grad():
        values = [margin()(Outputs(model(attacked.images)), labels, None) for attacked in (more, less)]
    return (more.fooled & ~less.fooled) | ((more.fooled == less.fooled) & (values[0] <= values[1]))


@few_examples
@given(
    seed=SEEDS,
    name=st.sampled_from(["pgd", "mim"]),
    threat=THREATS,
    steps=st.integers(1, 4),
    extra=st.integers(1, 3),
    early_exit=st.booleans(),
)
def test_more_steps_never_hurt(seed: int, name: str, threat: Threat, steps: int, extra: int, early_exit: bool) -> None:
    model, images = Curved(seed, row_by_row=True).eval(), uniform(seed, COUNT, 1, 4, 4)
    labels = predictions(model, images)
    options = {"objective": margin(), "threat": threat, "seed": seed, "engine": Engine(early_exit=early_exit)}
    less = run(name, model, images, labels, steps=steps, **options)
    more = run(name, model, images, labels, steps=steps + extra, **options)
    assert is_no_worse(model, more, less, labels).all()


@few_examples
@given(
    seed=SEEDS,
    threat=THREATS,
    restarts=st.integers(1, 2),
    early_exit=st.booleans(),
    keep=st.sampled_from(["best", "last"]),
)
def test_restarts_never_hurt(seed: int, threat: Threat, restarts: int, early_exit: bool, keep: str) -> None:
    model, images = Curved(seed, row_by_row=True).eval(), uniform(seed, COUNT, 1, 4, 4)
    labels = predictions(model, images)
    options = {"objective": margin(), "threat": threat, "seed": seed, "keep": keep, "steps": 2}
    engine = Engine(early_exit=early_exit)
    less = run("pgd", model, images, labels, restarts=restarts, engine=engine, **options)
    more = run("pgd", model, images, labels, restarts=restarts + 1, engine=engine, **options)
    assert is_no_worse(model, more, less, labels).all()


@few_examples
@given(
    seed=SEEDS,
    name=st.sampled_from(["pgd", "mim", "fgsm"]),
    objective=st.sampled_from([margin(), cross_entropy()]),
    threat=st.one_of(st.floats(0.01, 0.3).map(Linf), st.floats(0.05, 0.8).map(L2)),
)
def test_of_two_classes_the_other_one_is_the_target(seed: int, name: str, objective: Objective, threat: Threat) -> None:
    """log p_y and -log p_t are different numbers and the same direction."""
    model, images = Curved(seed, classes=2, row_by_row=True).eval().double(), uniform(seed, COUNT, 1, 4, 4).double()
    labels = predictions(model, images)
    options = {"objective": objective, "threat": threat, "seed": seed}
    away = run(name, model, images, labels, **options)
    towards = run(name, model, images, labels, targets=1 - labels, **options)
    assert torch.equal(away.success, towards.success)
    assert torch.equal(towards.success, towards.hit)
    torch.testing.assert_close(away.images, towards.images, rtol=0, atol=1e-6)
