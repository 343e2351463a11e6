"""SPSA: its estimate against true gradients and another library's, its steps against torch's Adam, and its promises."""

import importlib

import pytest
import torch
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Outputs, Result, Threat, class_logit, custom, margin
from maxmahal.attacks.oracle import FOOLED, Look, Oracle, Samples, make_oracle
from maxmahal.attacks.spsa import QueriedDescent, estimate_gradient, spsa
from maxmahal.errors import ArgumentError
from maxmahal.random import derive

SHAPE = (2, 3, 4)
PIXELS = 24


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Linear(nn.Module):
    """Logits Wx, row by row, so that a sample's logits do not depend on its batch."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.bias = torch.zeros(len(weight)) if bias is None else bias

    def forward(self, images: Tensor) -> Tensor:
        return (images.flatten(1)[:, None] * self.weight).sum(dim=2) + self.bias


COUNT = 8
IMAGES = (0.5 + 0.2 * normal(0, COUNT, *SHAPE)).clamp(0, 1)
MODEL = Linear(normal(1, 4, PIXELS)).eval()
LABELS = MODEL(IMAGES).argmax(dim=1)
IDS = torch.arange(50, 50 + COUNT)
FIRST_LOGIT = custom(lambda outputs, labels, targets: outputs.logits[:, 0])


def samples_of(images: Tensor, ids: Tensor) -> Samples:
    labels = torch.zeros_like(ids)
    return Samples(images, labels, labels, None, ids, FOOLED)


def estimate(model: nn.Module, images: Tensor, pairs: int, *, chunk: int = 4096, delta: float = 0.01) -> Tensor:
    ids = torch.arange(len(images))
    oracle = make_oracle(model, FIRST_LOGIT, chunk, 1)
    return estimate_gradient(oracle, samples_of(images, ids), images, ids, pairs=pairs, delta=delta, seed=3)


def test_the_estimate_of_a_linear_objective_scatters_around_its_gradient_as_theory_says() -> None:
    weight = normal(2, 2, PIXELS).double()
    images, pairs = torch.full((400, *SHAPE), 0.5).double(), 32
    off = estimate(Linear(weight), images, pairs).flatten(1) - weight[0]
    # One pair's estimate of pixel i is g_i + v_i Σ_{j≠i} g_j v_j.
    expected = ((weight[0].square().sum() - weight[0].square()) / pairs).sqrt()
    scores = off / expected
    assert scores.mean(dim=0).abs().max() < 4 / 400**0.5
    assert abs(scores.std() - 1) < 0.05


def test_mirrored_pairs_are_exact_for_quadratics_whatever_delta_is() -> None:
    curvature, slope = normal(3, PIXELS, PIXELS).double(), normal(4, PIXELS).double()

    class Quadratic(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            flat = images.flatten(1)
            values = ((flat @ curvature) * flat).sum(dim=1) + flat @ slope
            return torch.stack([values, -values], dim=1)

    images = IMAGES.double()
    flat = images.flatten(1)
    gradient = flat @ (curvature + curvature.T) + slope
    linear = [estimate(Linear(row[None].repeat(2, 1)), images, 16)[place] for place, row in enumerate(gradient)]
    for delta in (0.001, 0.5):
        torch.testing.assert_close(estimate(Quadratic(), images, 16, delta=delta), torch.stack(linear))


def test_the_estimate_is_torchattacks_for_the_same_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    torchattacks = pytest.importorskip("torchattacks")
    module = importlib.import_module("maxmahal.attacks.spsa")
    model = nn.Sequential(MODEL, nn.Tanh(), nn.Linear(4, 3)).eval()
    labels = torch.arange(COUNT) % 3
    pairs = 10
    torch.manual_seed(7)
    theirs = torchattacks.SPSA(model, eps=0.1).spsa_grad(IMAGES, labels, 0.01, pairs, pairs)
    torch.manual_seed(7)
    drawn = torch.empty(pairs, 1, *SHAPE).bernoulli_().mul_(2).sub_(1)  # theirs are the same for every image
    monkeypatch.setattr(module, "signs", lambda ids, *_: drawn.squeeze(1).repeat(len(ids) // pairs, 1, 1, 1))
    samples = Samples(IMAGES, labels, labels, None, IDS, FOOLED)
    oracle = make_oracle(model, margin(), 4096, 1)
    ours = estimate_gradient(oracle, samples, IMAGES, IDS, pairs=pairs, delta=0.01, seed=0)
    assert theirs.abs().max() > 0.1
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 3, 7, 64])
def test_the_estimate_does_not_depend_on_how_the_work_is_cut(chunk: int) -> None:
    torch.testing.assert_close(estimate(MODEL, IMAGES, 50, chunk=chunk), estimate(MODEL, IMAGES, 50))


@pytest.mark.parametrize("pairs", [512, 4096])
@pytest.mark.parametrize("count", [1, COUNT])
def test_memory_does_not_grow_with_the_evaluations(pairs: int, count: int) -> None:
    chunk, looked = 256, []

    class Watched(Oracle):
        def look(self, images: Tensor, samples: Samples) -> Look:
            looked.append(len(images))
            return super().look(images, samples)

    def ask(images: Tensor) -> Outputs:
        assert len(images) <= chunk
        return Outputs(MODEL(images))

    oracle = Watched(MODEL, ask, ask, FIRST_LOGIT, chunk)
    images, ids = IMAGES[:count], IDS[:count]
    estimate_gradient(oracle, samples_of(images, ids), images, ids, pairs=pairs, delta=0.01, seed=0)
    assert sum(looked) == 2 * pairs * count == oracle.passes.queries
    assert max(looked) <= 4 * chunk


def test_directions_belong_to_the_sample_the_step_and_the_pair() -> None:
    """A linear objective shows the directions: two pairs that were the same would agree in every pixel."""
    state = QueriedDescent(Linf(0.5), 5, 2, 0.01, 0.01, 0).begin(samples_of(IMAGES, IDS), 0)
    other = QueriedDescent(Linf(0.5), 5, 2, 0.01, 0.01, 0).begin(samples_of(IMAGES, IDS), 1)
    ids = [derive(each["ids"], torch.full_like(IDS, step)) for each in (state, other) for step in range(3)]
    assert len(torch.cat(ids).unique()) == 6 * COUNT
    same = IMAGES[:1].repeat(COUNT, 1, 1, 1)
    samples, oracle = samples_of(same, IDS), make_oracle(MODEL, FIRST_LOGIT, 64, 1)
    first, more = (estimate_gradient(oracle, samples, same, IDS, pairs=pairs, delta=0.01, seed=0) for pairs in (1, 2))
    second = 2 * more - first
    found = torch.cat([first, second]).flatten(1).sign()
    assert (found @ found.T).fill_diagonal_(0).abs().max() < PIXELS


def test_steps_are_adams_and_every_sample_counts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("maxmahal.attacks.spsa")
    gradients = normal(5, 6, 2, *SHAPE)
    coming = iter(gradients)
    monkeypatch.setattr(module, "estimate_gradient", lambda *_, **__: next(coming))
    images = torch.full((2, *SHAPE), 0.5)
    method = QueriedDescent(Linf(0.5), 9, 2, 0.01, 0.03, 0)
    oracle = make_oracle(MODEL, FIRST_LOGIT, 64, 1)
    samples = samples_of(images, IDS[:2])
    state = method.begin(samples, 0)
    # The second sample joins two steps later, as it does when the engine fills a place.
    for _ in range(2):
        method.step(samples, state, oracle)
    fresh = method.begin(samples, 0)
    state = {name: torch.cat([rows[:1], fresh[name][1:]]) for name, rows in state.items()}
    for _ in range(4):
        method.step(samples, state, oracle)
    for row, own in ((0, gradients), (1, gradients[2:])):
        parameter = nn.Parameter(images[row].clone())
        adam = torch.optim.Adam([parameter], lr=0.03)
        for gradient in own:
            parameter.grad = gradient[row]
            adam.step()
        torch.testing.assert_close(state["moved"][row], parameter.detach(), rtol=0, atol=1e-5)


def two_classes(image: Tensor, distance: float) -> nn.Module:
    """A model whose prediction for the image turns at exactly this Linf distance."""
    weight = normal(6, 2, PIXELS)
    slope = weight[0] - weight[1]
    offset = distance * slope.abs().sum() - slope @ image.flatten()
    return Linear(weight, torch.stack([offset, torch.zeros(())])).eval()


@pytest.mark.parametrize("targeted", [False, True])
@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("random_start", [False, True])
def test_it_fails_just_below_the_smallest_perturbation_and_succeeds_above(
    targeted: bool, keep: str, random_start: bool
) -> None:
    images, labels, known = IMAGES[:1].clamp(0.15, 0.85), torch.tensor([0]), 0.08
    model = two_classes(images, known)
    for share, fooled in ((0.98, False), (1.1, True)):
        found = spsa(
            model,
            images,
            labels,
            objective=margin(),
            threat=Linf(share * known),
            steps=30,
            evaluations=512,
            seed=0,
            sample_ids=IDS[:1],
            targets=1 - labels if targeted else None,
            keep=keep,
            random_start=random_start,
        )
        assert found.fooled.tolist() == [fooled]
        assert (model(found.images).argmax(dim=1) != 0).tolist() == [fooled]


def attack(images: Tensor = IMAGES, labels: Tensor = LABELS, ids: Tensor = IDS, **settings: object) -> Result:
    model = settings.pop("model", MODEL)
    chosen = {"objective": margin(), "threat": Linf(0.05), "steps": 4, "evaluations": 16, "seed": 0, "sample_ids": ids}
    return spsa(model, images, labels, **(chosen | settings))


def test_a_targeted_attack_goes_to_the_target_and_not_just_anywhere() -> None:
    logits = MODEL(IMAGES).detach()
    farthest, nearest = logits.argmin(dim=1), logits.topk(2).indices[:, 1]
    assert (farthest != nearest).all()
    strong = {"threat": Linf(0.3), "steps": 40, "evaluations": 64, "learning_rate": 0.02}
    for targets in (farthest, nearest):
        found = attack(targets=targets, **strong)
        assert torch.equal(MODEL(found.images).argmax(dim=1), targets)
        assert found.hit.all()
    assert (attack(**strong).predictions != farthest).any()
    assert attack(targets="least-likely", **strong).hit.all()


@pytest.mark.parametrize("threat", [Linf("8/255"), Linf(0.3), L2(0.4), L2(1.2)], ids=str)
@pytest.mark.parametrize("random_start", [False, True])
def test_it_never_leaves_the_threat_or_the_bounds(threat: Threat, random_start: bool) -> None:
    images = IMAGES.clone()
    images[:, :, 0], images[:, :, 1] = 0.0, 1.0
    for keep in ("best", "last"):
        found = attack(images, threat=threat, random_start=random_start, keep=keep, learning_rate=0.5)
        assert threat.distances(images, found.images).max() <= threat.radius + 1e-6
        assert found.images.min() >= 0
        assert found.images.max() <= 1
    assert (found.images != images).any()


def test_other_bounds() -> None:
    threat = Linf(12.0, bounds=(-128.0, 127.0))
    found = attack(255 * IMAGES - 128, threat=threat, delta=2.5, learning_rate=4.0)
    assert found.images.min() >= -128
    assert found.images.max() <= 127
    assert found.fooled.any()


def test_the_points_around_an_image_are_not_clipped() -> None:
    """At a bound, a clipped pair would see half the slope."""
    corner = torch.zeros(1, *SHAPE)
    weight = torch.ones(2, PIXELS)
    torch.testing.assert_close(estimate(Linear(weight), corner, 4000).mean(), torch.tensor(1.0), rtol=0, atol=0.1)


@pytest.mark.parametrize("early_exit", [True, False])
def test_a_sample_is_treated_the_same_in_any_batch(early_exit: bool) -> None:
    together = attack(engine=Engine(early_exit=early_exit))
    assert 0 < int(together.fooled.sum()) < COUNT
    order = torch.tensor([5, 2, 7, 0, 1, 6, 4, 3])
    for rows, size in ((order, None), (order[:3], None), (order, 2), (order, 3)):
        apart = attack(IMAGES[rows], LABELS[rows], IDS[rows], engine=Engine(early_exit=early_exit, batch_size=size))
        assert torch.equal(apart.fooled, together.fooled[rows])
        torch.testing.assert_close(apart.images, together.images[rows], rtol=0, atol=1e-5)


def test_the_seed_matters_and_repeats() -> None:
    one, again, other = (attack(seed=seed, keep="last").images for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not (one == other).flatten(1).all(dim=1).any()


def test_a_random_start_belongs_to_the_seed_and_the_sample() -> None:
    flat = {"objective": custom(lambda outputs, labels, targets: 0 * outputs.logits[:, 0]), "keep": "last"}
    one, again, other = (attack(seed=seed, random_start=True, **flat).images for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not (one == other).flatten(1).all(dim=1).any()
    assert torch.equal(attack(IMAGES[3:5], LABELS[3:5], IDS[3:5], random_start=True, **flat).images, one[3:5])
    assert torch.equal(attack(**flat).images, IMAGES)


class Counting:
    """A predict function that counts the images it is shown."""

    def __init__(self) -> None:
        self.shown = 0

    def __call__(self, images: Tensor) -> Tensor:
        assert not images.requires_grad
        self.shown += len(images)
        return MODEL(images).detach()


@pytest.mark.parametrize("keep", ["best", "last"])
def test_every_query_is_counted(keep: str) -> None:
    model = Counting()
    found = attack(model=model, keep=keep, engine=Engine(early_exit=False))
    assert found.passes.queries == COUNT * (1 + 4 * (16 + 1))
    assert found.passes.forward == found.passes.queries + COUNT == model.shown
    assert found.passes.backward == 0


def test_a_broken_sample_costs_no_further_estimate() -> None:
    """A step that breaks a sample is its last: the clean look, one estimate and the look that saw it."""
    wide = attack(model=Counting(), threat=Linf(0.4), learning_rate=0.4, evaluations=256)
    assert wide.fooled.all()
    assert wide.passes.queries == COUNT * (1 + 257)
    wrong = attack(labels=(LABELS + 1) % 4)
    assert wrong.passes.queries == COUNT
    safe = attack(threat=Linf(1e-4))
    assert not safe.fooled.any()
    assert safe.passes.queries == COUNT * (1 + 4 * 17)


def test_nothing_is_left_behind() -> None:
    images, state = IMAGES.clone().requires_grad_(), torch.random.get_rng_state()
    attack(images, random_start=True)
    assert torch.equal(images, IMAGES)
    assert images.grad is None
    assert torch.equal(torch.random.get_rng_state(), state)
    assert MODEL.weight.grad is None


def test_an_objective_that_is_not_finite_says_nothing() -> None:
    clean = MODEL(IMAGES).detach()

    def nowhere_else(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        if outputs.logits.shape == clean.shape and torch.equal(outputs.logits, clean):
            return outputs.logits[:, 0]  # an attack begins only where the clean images have a value
        return torch.where(outputs.logits[:, 0] > 0, torch.inf, torch.nan)

    with pytest.warns(UserWarning, match="was NaN or infinite"):
        found = attack(objective=custom(nowhere_else), keep="last")
    assert torch.equal(found.images, IMAGES)


def test_double_precision() -> None:
    model = Linear(MODEL.weight.detach().double(), torch.zeros(4).double()).eval()
    found = attack(IMAGES.double(), model=model, keep="last")
    assert found.images.dtype == torch.float64
    torch.testing.assert_close(found.images.float(), attack(keep="last").images, rtol=0, atol=1e-4)


def test_several_targets_are_tried_in_turn() -> None:
    each = attack(targets="all-others")
    assert each.hit is None
    assert each.fooled.sum() >= attack(targets="second-best").hit.sum()


def test_the_labels_may_be_the_models_own() -> None:
    """Where the model is wrong, moving away from its prediction may move back to the truth."""
    wrong = MODEL(IMAGES).topk(2).indices[:, 1]
    strong = {"threat": Linf(0.2), "steps": 20, "keep": "last", "objective": class_logit()}
    assert attack(labels=wrong, label_source="true", **strong).fooled.all()
    assert not attack(labels=wrong, label_source="predicted", **strong).fooled.all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluations": 127}, r"evaluations must be even, for they come in mirrored pairs; got 127\."),
        ({"evaluations": 0}, r"evaluations must be a whole number of at least 2; got 0\."),
        ({"evaluations": 12.0}, r"evaluations must be a whole number of at least 2; got 12\.0\."),
        ({"steps": 0}, r"steps must be a whole number of at least 1; got 0\."),
        ({"delta": 0.0}, r"delta must be positive; got 0\.0\."),
        ({"delta": torch.nan}, r"delta must be positive; got nan\."),
        ({"learning_rate": -0.1}, r"learning_rate must be positive; got -0\.1\."),
        ({"keep": "first"}, r"keep = 'first' is unknown"),
        ({"targets": LABELS}, r"targets must be wrong classes"),
    ],
)
def test_what_is_refused(unchecked: None, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        attack(**settings)
