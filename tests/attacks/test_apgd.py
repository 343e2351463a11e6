"""Auto-PGD where the answer is known, and what it promises about samples, budgets and restarts."""

from collections.abc import Callable

import pytest
import torch
from small_models import Curved, Linear, curved_classifier, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import (
    L2,
    Engine,
    Linf,
    Objective,
    Outputs,
    Result,
    cross_entropy,
    custom,
    dlr,
    margin,
    own_loss,
)
from maxmahal.attacks.apgd import AutoDescent, apgd
from maxmahal.errors import ArgumentError

KNOWN = {Linf: 0.08, L2: 0.2}
DUAL = {Linf: 1, L2: 2}


def two_classes(image: Tensor, distance: float, dual: int) -> nn.Module:
    """A linear model whose prediction turns at exactly ``distance`` from the image."""
    weight = normal(1, 2, 12)
    slope = weight[0] - weight[1]
    offset = distance * slope.norm(dual) - slope @ image.flatten()
    return Linear(weight, torch.stack([offset, torch.zeros(())])).eval()


@pytest.mark.parametrize("kind", [Linf, L2])
@pytest.mark.parametrize("objective", [margin(), cross_entropy()], ids=["margin", "cross-entropy"])
@pytest.mark.parametrize("targeted", [False, True])
def test_it_fails_just_below_the_smallest_perturbation_and_succeeds_just_above(
    kind: type, objective: Objective, targeted: bool
) -> None:
    images, labels = 0.5 + 0.1 * normal(0, 1, 1, 3, 4).clamp(-2, 2), torch.tensor([0])
    model = two_classes(images[0], KNOWN[kind], DUAL[kind])
    assert predictions(model, images).item() == 0
    for share, predicted in ((0.98, 0), (1.02, 1)):
        threat = kind(share * KNOWN[kind])
        targets = 1 - labels if targeted else None
        attacked = apgd(model, images, labels, objective=objective, threat=threat, steps=30, seed=0, targets=targets)
        assert predictions(model, attacked.images).item() == predicted
        assert attacked.fooled.tolist() == [bool(predicted)]
        assert threat.distances(images, attacked.images).item() <= threat.radius + 1e-6


MANY = uniform(5, 24, 1, 8, 8)
IDS = torch.arange(100, 124)
MODEL = curved_classifier(MANY)
PREDICTED = predictions(MODEL, MANY)


def attack(model: nn.Module, images: Tensor, labels: Tensor, ids: Tensor | None, **changes: object) -> Result:
    arguments: dict[str, object] = {"objective": margin(), "threat": Linf(0.012), "steps": 12, "seed": 0} | changes
    return apgd(model, images, labels, sample_ids=ids, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("threat", [Linf(0.02), L2(0.1)], ids=str)
@pytest.mark.parametrize("objective", [margin(), cross_entropy(), dlr(), own_loss(MODEL.head)], ids=lambda o: o.name)
def test_results_stay_inside_the_threat_and_some_succeed(threat: Linf | L2, objective: Objective) -> None:
    extremes = (MANY > 0.5).float()
    labels = predictions(MODEL, extremes)
    attacked = attack(MODEL, extremes, labels, IDS, threat=threat, objective=objective)
    assert ((attacked.images >= 0) & (attacked.images <= 1)).all()
    assert (threat.distances(extremes, attacked.images) <= threat.radius + 1e-6).all()
    assert torch.equal(predictions(MODEL, attacked.images) != labels, attacked.fooled)
    assert attacked.fooled.any()
    assert not attacked.fooled.all()


@pytest.mark.parametrize(("targets", "early_exit"), [(None, True), (None, False), ("all-others", True)])
@pytest.mark.parametrize("threat", [Linf(0.02), L2(0.15)], ids=str)
def test_a_samples_result_is_its_own_in_any_batch_and_order(
    threat: Linf | L2, targets: str | None, early_exit: bool
) -> None:
    model = Curved(row_by_row=True).double().eval()
    images = uniform(6, 12, 1, 4, 4).double()
    labels, ids = predictions(model, images), torch.arange(12)

    def run(order: Tensor, batch_size: int) -> Tensor:
        engine = Engine(early_exit=early_exit, batch_size=batch_size)
        attacked = attack(
            model, images[order], labels[order], ids[order], threat=threat, targets=targets, engine=engine, steps=8
        )
        return attacked.images[order.argsort()]

    together = run(ids, 12)
    fooled = predictions(model, together) != labels
    assert fooled.any()
    assert not fooled.all()
    for order, batch_size in ((ids.flip(0), 12), (ids, 3), (ids.roll(5), 5)):
        assert torch.equal(run(order, batch_size), together)


@pytest.mark.parametrize("targets", [None, "top-9"])
def test_leaving_early_changes_no_verdict_and_saves_passes(targets: str | None) -> None:
    runs = [
        attack(MODEL, MANY, PREDICTED, IDS, targets=targets, engine=Engine(early_exit=exits)) for exits in (True, False)
    ]
    assert torch.equal(runs[0].fooled, runs[1].fooled)
    assert runs[0].fooled.any()
    assert not runs[0].fooled.all()
    assert runs[0].passes.backward < runs[1].passes.backward


def test_the_budget_is_one_gradient_a_step_and_two_looks() -> None:
    attacked = attack(MODEL, MANY, PREDICTED, IDS, steps=30, engine=Engine(early_exit=False))
    assert attacked.passes.backward == 30 * 24
    assert attacked.passes.forward == (30 + 2) * 24


@pytest.mark.parametrize("targets", [None, "all-others"])
def test_restarts_never_hurt(targets: str | None) -> None:
    values = []
    for restarts in (1, 4):
        options = {"targets": targets, "restarts": restarts, "steps": 3, "engine": Engine(early_exit=False)}
        attacked = attack(MODEL, MANY, PREDICTED, IDS, **options)
        with torch.no_grad():
            values.append(margin()(Outputs(MODEL(attacked.images)), PREDICTED, None))
    assert ((values[1] < 0) >= (values[0] < 0)).all()
    if targets is None:
        assert (values[1] <= values[0] + 1e-5).all()
        assert (values[1] < values[0] - 1e-3).any()


def test_several_targets_find_more_than_one() -> None:
    one, all_others = (
        attack(MODEL, MANY, PREDICTED, IDS, targets=targets, steps=20) for targets in ("least-likely", "all-others")
    )
    assert one.hit is not None
    assert all_others.hit is None
    assert (all_others.fooled >= one.hit).all()
    assert all_others.fooled.sum() > one.hit.sum()


def test_an_objective_that_is_nan_for_one_sample_spoils_no_other() -> None:
    looks = []

    def holed(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        looks.append(len(labels))
        values = margin()(outputs, labels, targets)
        # At the first look, at the clean images, it would be refused.
        return values if len(looks) == 1 else torch.where(labels == PREDICTED[0], torch.nan, values)

    with pytest.warns(UserWarning, match=f"NaN or infinite.* for {int(PREDICTED.eq(PREDICTED[0]).sum())} of "):
        attacked = attack(MODEL, MANY, PREDICTED, IDS, objective=custom(holed))
    whole = attack(MODEL, MANY, PREDICTED, IDS)
    others = PREDICTED.ne(PREDICTED[0])
    assert torch.equal(attacked.fooled[others], whole.fooled[others])
    assert attacked.images.isfinite().all()


def test_a_seed_repeats_and_another_starts_elsewhere() -> None:
    first, again, other = (attack(MODEL, MANY, PREDICTED, IDS, seed=seed).images for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"rho": 1.5}, r"rho must lie in \[0, 1\], being a share of the steps; got 1.5"),
        ({"rho": float("nan")}, "rho must lie in .* got nan"),
        ({"patience": 0}, "patience must be a whole number of at least 1; got 0"),
        ({"restarts": 0}, "restarts must be a whole number of at least 1; got 0"),
        ({"threat": [0.1]}, "threat must be an epsilon such as"),
        ({"label_source": "guessed"}, "label_source = 'guessed' is unknown"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        attack(MODEL, MANY, PREDICTED, IDS, **changes)


def test_a_function_without_gradients_is_refused() -> None:
    predict: Callable[[Tensor], Tensor] = lambda images: MODEL(images)  # noqa: E731
    with pytest.raises(ArgumentError, match="needs gradients"):
        apgd(predict, MANY, PREDICTED, objective=margin(), threat=Linf(0.01), seed=0)


@pytest.mark.parametrize(
    ("taken", "checked", "high", "now", "given_up"),
    [
        (20, 4.0, 4.0, 3.95, True),  # 8 x 0.05 + 40 x 0.05 = 2.4
        (20, 4.0, 4.0, 3.9, False),  # 8 x 0.1 + 40 x 0.1 = 4.8
        (20, 4.0, 3.9, 3.5, False),  # its fall alone: 8 x 0.5 = 4
        (90, 4.0, 3.5, 3.5, True),  # and with fewer steps left: 0.5
        (20, 4.0, 4.11, 4.0, False),  # its range alone: 40 x 0.11 = 4.4
        (20, 4.75, 4.75, 4.75, True),
        (20, 4.76, 4.76, 4.76, False),  # too little below the first, which was 5
        (25, 4.0, 4.0, 4.0, False),  # no time to check
        (20, 4.0, 4.0, -0.1, False),
        (20, torch.inf, 4.0, 4.0, False),  # nothing to compare with yet
        (20, 4.0, 4.0, torch.nan, False),
    ],
)
def test_a_run_is_given_up_once_it_has_converged(
    taken: int, checked: float, high: float, now: float, given_up: bool
) -> None:
    method = AutoDescent(Linf(0.1), 100, 0, patience=10)
    numbers = {"taken": taken, "first": 5.0, "low": checked, "low_before": checked, "high": high}
    state = {name: torch.tensor([number]) for name, number in numbers.items()}
    assert method._gives_up(state, torch.tensor([now]), 10).item() is given_up


@pytest.mark.parametrize("objective", [margin(), cross_entropy()])
def test_patience_saves_steps_and_changes_no_run_that_goes_on(objective: Objective) -> None:
    options = {"threat": Linf(0.005), "steps": 60, "objective": objective}
    whole, patient = (attack(MODEL, MANY, PREDICTED, IDS, patience=patience, **options) for patience in (None, 5))
    assert whole.spent is not None
    assert patient.spent is not None
    saved = whole.spent.iterations - patient.spent.iterations
    assert (saved >= 0).all()
    assert (saved > 0).any()
    torch.testing.assert_close(patient.images[saved == 0], whole.images[saved == 0])  # a batch rounds as a whole
    assert torch.equal(patient.fooled, whole.fooled)
    assert patient.fooled.any()


def test_a_run_that_does_not_move_is_not_given_up() -> None:
    flat = Linear(torch.zeros(2, 64), torch.tensor([2.0, 0.0])).eval()
    found = attack(flat, MANY, torch.zeros(len(MANY), dtype=torch.int64), IDS, steps=30, patience=3)
    assert found.spent is not None
    assert (found.spent.iterations == 30).all()
