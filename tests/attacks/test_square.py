"""Square attack where the answer is known, beside its authors' code, and what it promises."""

import pytest
import torch
from small_models import NO_BALL, Curved, Linear, curved_classifier, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Outputs, Result, cross_entropy, margin
from maxmahal.attacks.square import square
from maxmahal.errors import ArgumentError


def linear(images: Tensor, slope: Tensor, distance: float, dual: int) -> nn.Module:
    """Two classes whose border is at exactly ``distance`` from the image."""
    offset = distance * slope.norm(dual) - slope @ images.flatten()
    weight = torch.stack([slope, torch.zeros_like(slope)])
    return Linear(weight, torch.stack([offset, torch.zeros(())])).eval()


@pytest.mark.parametrize("targeted", [False, True])
def test_in_linf_it_fails_just_below_the_smallest_perturbation_and_succeeds_just_above(targeted: bool) -> None:
    images, labels = 0.5 + 0.1 * normal(0, 1, 1, 3, 4).clamp(-2, 2), torch.tensor([0])
    model = linear(images, normal(1, 12), 0.08, dual=1)
    for share, predicted in ((0.98, 0), (1.02, 1)):
        threat = Linf(share * 0.08)
        targets = 1 - labels if targeted else None
        attacked = square(model, images, labels, threat=threat, queries=100, seed=0, targets=targets)
        assert predictions(model, attacked.images).item() == predicted
        assert attacked.fooled.tolist() == [bool(predicted)]
        assert threat.distances(images, attacked.images).item() <= threat.radius + 1e-6


def test_in_l2_it_fails_just_below_the_smallest_perturbation_and_succeeds_well_above() -> None:
    """The smallest perturbation is a smooth wave; a few bumps come near it, but not all the way."""
    images, labels = 0.5 + 0.05 * normal(0, 1, 1, 10, 10).clamp(-2, 2), torch.tensor([0])
    wave = (0.6 * torch.arange(10)).cos()
    model = linear(images, (wave[:, None] + wave).flatten(), 0.4, dual=2)
    for share, predicted in ((0.98, 0), (2.5, 1)):
        attacked = square(model, images, labels, threat=L2(share * 0.4), queries=150, seed=0)
        assert predictions(model, attacked.images).item() == predicted
        assert attacked.fooled.tolist() == [bool(predicted)]


MANY = uniform(5, 24, 1, 8, 8)
IDS = torch.arange(100, 124)
MODEL = curved_classifier(MANY)
PREDICTED = predictions(MODEL, MANY)


def attack(images: Tensor, labels: Tensor, ids: Tensor | None, **changes: object) -> Result:
    arguments: dict[str, object] = {"threat": Linf(0.015), "queries": 60, "seed": 0} | changes
    return square(MODEL, images, labels, sample_ids=ids, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("threat", [Linf(0.015), L2(0.08)], ids=str)
def test_results_stay_inside_the_threat_and_some_succeed(threat: Linf | L2) -> None:
    extremes = torch.cat([MANY[:12].round(), MANY[12:]])
    labels = predictions(MODEL, extremes)
    attacked = attack(extremes, labels, IDS, threat=threat)
    assert ((attacked.images >= 0) & (attacked.images <= 1)).all()
    assert (threat.distances(extremes, attacked.images) <= threat.radius + 1e-6).all()
    assert torch.equal(predictions(MODEL, attacked.images) != labels, attacked.fooled)
    assert attacked.fooled.any()
    assert not attacked.fooled.all()


@pytest.mark.parametrize("early_exit", [True, False])
@pytest.mark.parametrize("threat", [Linf(0.03), L2(0.2)], ids=str)
def test_a_samples_result_is_its_own_in_any_batch_and_order(threat: Linf | L2, early_exit: bool) -> None:
    model = Curved(row_by_row=True).double().eval()
    images = uniform(6, 12, 1, 4, 4).double()
    labels, ids = predictions(model, images), torch.arange(12)

    def run(order: Tensor, batch_size: int) -> Tensor:
        engine = Engine(early_exit=early_exit, batch_size=batch_size)
        options = {"threat": threat, "queries": 25, "seed": 0, "engine": engine}
        return square(model, images[order], labels[order], sample_ids=ids[order], **options).images[order.argsort()]

    together = run(ids, 12)
    fooled = predictions(model, together) != labels
    assert fooled.any()
    assert not fooled.all()
    for order, batch_size in ((ids.flip(0), 12), (ids, 3), (ids.roll(5), 5)):
        assert torch.equal(run(order, batch_size), together)


def test_leaving_early_changes_no_verdict_and_saves_queries() -> None:
    runs = [attack(MANY, PREDICTED, IDS, engine=Engine(early_exit=exits)) for exits in (True, False)]
    assert torch.equal(runs[0].fooled, runs[1].fooled)
    assert runs[0].fooled.any()
    assert runs[0].passes.queries < runs[1].passes.queries
    assert runs[1].passes.queries == runs[1].passes.forward == (60 + 1) * 24
    assert runs[1].passes.backward == 0


def test_more_queries_and_restarts_find_more() -> None:
    engine = Engine(early_exit=False)
    values = {}
    for queries, restarts in ((20, 1), (100, 1), (20, 4)):
        attacked = attack(MANY, PREDICTED, IDS, queries=queries, restarts=restarts, engine=engine)
        with torch.no_grad():
            values[queries, restarts] = margin()(Outputs(MODEL(attacked.images)), PREDICTED, None)
    assert (values[20, 4] <= values[20, 1] + 1e-5).all()
    assert (values[20, 4] < values[20, 1] - 1e-3).any()
    assert values[100, 1].mean() < values[20, 1].mean()


def test_it_attacks_a_function_as_it_attacks_the_module() -> None:
    def predict(images: Tensor) -> Tensor:
        with torch.inference_mode():
            return torch.from_numpy(MODEL(images).numpy().copy())

    asked = square(predict, MANY, PREDICTED, threat=Linf(0.015), queries=60, seed=0, sample_ids=IDS)
    assert torch.equal(asked.images, attack(MANY, PREDICTED, IDS).images)
    assert asked.fooled.any()


@pytest.mark.parametrize("threat", [Linf(0.2), L2(0.2)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 5), (1, 9, 4), (2, 1, 30)])
def test_images_of_any_shape_will_do(threat: Linf | L2, shape: tuple[int, int, int]) -> None:
    images = uniform(7, 3, *shape)
    model = Linear(normal(8, 3, images[0].numel()), torch.zeros(3)).eval()
    labels = predictions(model, images)
    attacked = square(model, images, labels, threat=threat, queries=30, seed=0, engine=Engine(early_exit=False))
    with torch.no_grad():
        before, after = (margin()(Outputs(model(x)), labels, None) for x in (images, attacked.images))
    assert (after < before).all()
    assert (threat.distances(images, attacked.images) <= threat.radius + 1e-6).all()


def test_a_seed_repeats_and_another_searches_elsewhere() -> None:
    first, again, other = (attack(MANY, PREDICTED, IDS, seed=seed).images for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(("kind", "radius"), [("Linf", 0.015), ("L2", 0.08)])
def test_it_finds_no_fewer_than_its_authors_code_with_the_same_queries(kind: str, radius: float) -> None:
    peer = pytest.importorskip("pyautoattack.square")
    threat = Linf(radius) if kind == "Linf" else L2(radius)
    images = uniform(9, 100, 1, 8, 8)
    labels = predictions(MODEL, images)
    ours = attack(images, labels, None, threat=threat, queries=150, objective=margin()).fooled.sum()
    with torch.random.fork_rng(), torch.no_grad():
        found = peer.SquareAttack(MODEL, norm=kind, eps=radius, n_queries=150, seed=0, device="cpu").perturb(
            images, labels
        )
    theirs = (predictions(MODEL, threat.project(images, found)) != labels).sum()
    assert theirs >= 10
    assert ours >= theirs - 2


def test_other_objectives_and_targets() -> None:
    untargeted = attack(MANY, PREDICTED, IDS, objective=cross_entropy())
    assert untargeted.fooled.any()
    targets = (PREDICTED + 1) % 4
    targeted = attack(MANY, PREDICTED, IDS, targets=targets, threat=Linf(0.05), queries=200)
    assert targeted.hit is not None
    assert targeted.hit.any()
    assert torch.equal(targeted.hit, predictions(MODEL, targeted.images) == targets)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"queries": 0}, "queries must be a whole number of at least 1; got 0"),
        ({"p_init": 0.0}, r"p_init must lie in \(0, 1\], being a share of the pixels; got 0.0"),
        ({"p_init": 1.1}, "p_init must lie in .* got 1.1"),
        ({"threat": NO_BALL}, "square knows the threats Linf and L2; got namespace"),
        ({"restarts": 0}, "restarts must be a whole number of at least 1; got 0"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        attack(MANY, PREDICTED, IDS, **changes)
