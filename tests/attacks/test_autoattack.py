"""AutoAttack and FAB from another package: what comes back is judged by our rules, and nothing else is touched."""

import importlib.metadata
import importlib.util
import sys

import pytest
import torch
from small_models import NO_BALL, Curved, Linear, curved_classifier, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import L2, Linf, Prepared, prepare
from maxmahal.attacks.autoattack import AutoAttackResult, autoattack, fab
from maxmahal.attacks.objectives import Outputs
from maxmahal.errors import ArgumentError

installed = pytest.mark.skipif(importlib.util.find_spec("pyautoattack") is None, reason="pyautoattack is not installed")

MANY = uniform(5, 24, 1, 8, 8)
MODEL = curved_classifier(MANY)
PREDICTED = predictions(MODEL, MANY)
ALL = ("apgd-ce", "apgd-dlr", "apgd-t", "fab", "fab-t", "square")


def attack(**changes: object) -> AutoAttackResult:
    arguments: dict[str, object] = {"threat": Linf(0.01), "seed": 0, "steps": 5, "queries": 20} | changes
    return autoattack(MODEL, MANY, PREDICTED, **arguments)  # type: ignore[arg-type]


@installed
@pytest.mark.parametrize("threat", [Linf(0.01), L2(0.05)], ids=str)
def test_results_are_inside_the_threat_and_survivors_only_shrink(threat: Linf | L2) -> None:
    attacked = attack(threat=threat, attacks=ALL)
    assert (threat.distances(MANY, attacked.images) <= threat.radius + 1e-6).all()
    assert ((attacked.images >= 0) & (attacked.images <= 1)).all()
    assert torch.equal(predictions(MODEL, attacked.images), attacked.predictions)
    assert torch.equal(attacked.predictions != PREDICTED, attacked.fooled)
    assert torch.equal(attacked.images[~attacked.fooled], MANY[~attacked.fooled])
    assert list(attacked.survivors) == ["clean", *ALL]
    before = attacked.survivors["clean"]
    assert before.all()
    for name in ALL:
        assert (attacked.survivors[name] <= before).all()
        before = attacked.survivors[name]
    assert torch.equal(before, ~attacked.fooled)
    assert 0 < attacked.fooled.sum() < 24
    assert attacked.accuracy == pytest.approx(float(before.float().mean()))
    assert attacked.version == importlib.metadata.version("pyautoattack")


@installed
def test_inference_mode_is_no_place_for_gradients() -> None:
    few = {"threat": Linf(0.01), "seed": 0, "steps": 2}
    with torch.inference_mode():
        for call in (autoattack, fab):
            with pytest.raises(ArgumentError, match=r"torch\.inference_mode\(\) forbids; call it outside\."):
                call(MODEL, MANY, PREDICTED, **few)
        assert attack(attacks=("square",)).images.shape == MANY.shape
        images, labels = MANY.clone(), PREDICTED.clone()
    assert autoattack(MODEL, images, labels, **few, queries=2).images.shape == MANY.shape
    assert fab(MODEL, images, labels, **few).images.shape == MANY.shape


@installed
def test_the_survivors_are_those_of_the_package_itself() -> None:
    library = importlib.import_module("pyautoattack")
    model, threat = Curved(pixels=64).eval(), Linf(0.02)
    images = uniform(7, 12, 1, 8, 8)
    labels = predictions(model, images)
    suite = library.AutoAttack(model, eps=threat.radius, seed=0, device="cpu")
    suite.apgd_targeted.n_target_classes = suite.fab.n_target_classes = 3
    suite.square.n_queries = 20
    with torch.random.fork_rng():
        _, theirs = suite.run_standard_evaluation(images, labels, batch_size=7)
    ours = autoattack(model, images, labels, threat=threat, seed=0, queries=20, batch_size=7)
    assert torch.equal(ours.predictions, theirs)
    assert 0 < ours.fooled.sum() < 12


@installed
def test_a_model_that_returns_bfloat16_is_attacked() -> None:
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Curved(pixels=64)

        def forward(self, images: Tensor) -> Tensor:
            return self.model(images).bfloat16()

    model, images = Rounded().eval(), uniform(7, 12, 1, 8, 8)
    found = autoattack(model, images, predictions(model, images), "0.05", queries=20, attacks=("square",))
    assert found.fooled.any()
    assert torch.equal(predictions(model, found.images), found.predictions)


@installed
def test_fewer_steps_are_those_of_an_attack_built_for_them() -> None:
    """The package sets APGD's checkpoints when it is built, always for 100 steps inside its suite."""
    library = importlib.import_module("pyautoattack.autopgd_base")
    alone = library.APGDAttack(MODEL, n_iter=25, eps=0.01, seed=0, loss="ce", device="cpu")
    with torch.random.fork_rng():
        found = alone.perturb(MANY, PREDICTED)
    ours = attack(attacks=("apgd-ce",), steps=25)
    assert ours.fooled.any()
    assert torch.equal(ours.images, Linf(0.01).project(MANY, found))


@installed
def test_images_that_are_wrong_already_are_left_alone() -> None:
    labels = PREDICTED.clone()
    labels[:5] = (labels[:5] + 1) % 4
    attacked = autoattack(MODEL, MANY, labels, threat=Linf(0.001), seed=0, attacks=("apgd-ce",), steps=2)
    assert attacked.survivors["clean"].tolist() == [False] * 5 + [True] * 19
    assert torch.equal(attacked.images[:5], MANY[:5])
    assert attacked.fooled[:5].all()
    nearest = fab(MODEL, MANY, labels, threat=Linf(0.1), seed=0, steps=3)
    assert (nearest.distances[:5] == 0).all()
    assert (nearest.distances[5:] > 0).all()


@installed
@pytest.mark.parametrize(("excess", "counts"), [(5e-5, True), (0.5, False)])
def test_what_lies_a_rounding_outside_is_projected_and_what_lies_further_does_not_count(
    monkeypatch: pytest.MonkeyPatch, excess: float, counts: bool
) -> None:
    images = torch.full((8, 1, 8, 8), 0.5)
    labels = predictions(MODEL, images)
    offered = images + 0.3 * (1 + excess) * normal(3, 8, 1, 8, 8).sign()
    suite = importlib.import_module("pyautoattack").AutoAttack
    monkeypatch.setattr(suite, "run_standard_evaluation", lambda self, x, y, batch_size: (offered[: len(x)], y))
    assert (predictions(MODEL, offered) != labels).any()
    attacked = autoattack(MODEL, images, labels, threat=Linf(0.3), seed=0, attacks=("apgd-ce",))
    assert attacked.fooled.any() == counts
    assert (attacked.images - images).abs().max() <= 0.3 + 1e-6


@installed
def test_with_nobody_left_the_remaining_attacks_are_skipped() -> None:
    attacked = autoattack(MODEL, MANY, (PREDICTED + 1) % 4, threat=Linf(0.01), seed=0)
    assert attacked.accuracy == 0
    assert attacked.passes.forward == 24  # the clean look
    assert [int(left.sum()) for left in attacked.survivors.values()] == [0, 0, 0, 0, 0]
    assert (fab(MODEL, MANY, (PREDICTED + 1) % 4, threat=Linf(0.01), seed=0).distances == 0).all()


@installed
def test_the_budget_is_what_was_asked_for() -> None:
    """APGD takes one gradient at the start and one a step; FAB with targets one a step and class."""
    few = {"threat": Linf(1e-6), "attacks": ("apgd-ce",)}  # nobody is fooled
    assert attack(**few, steps=7).passes.backward == (7 + 1) * 24
    assert attack(**few | {"attacks": ("fab-t",)}, steps=7).passes.backward == 7 * 3 * 24
    assert attack(**few | {"attacks": ("fab",)}, steps=7).passes.backward == 7 * 4 * 24
    few["attacks"] = ("square",)
    assert attack(**few, queries=50).passes.queries - attack(**few, queries=20).passes.queries == 30 * 24


@installed
def test_it_repeats_with_its_seed() -> None:
    first, again, other = (attack(attacks=("apgd-ce",), seed=seed).images for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@installed
@pytest.mark.parametrize("run", ["autoattack", "fab"])
def test_nothing_else_is_touched(run: str) -> None:
    model = curved_classifier(MANY)
    frozen = next(model.parameters()).requires_grad_(False)
    images = MANY.clone()
    state, trace = torch.get_rng_state(), sys.gettrace()
    if run == "fab":
        fab(model, images, PREDICTED, threat=Linf(0.05), seed=0, steps=3, restarts=2, targeted=False)
    else:
        autoattack(model, images, PREDICTED, threat=Linf(0.01), seed=0, attacks=ALL, steps=3, queries=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert sys.gettrace() is trace
    assert torch.equal(images, MANY)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not frozen.requires_grad
    assert sum(not parameter.requires_grad for parameter in model.parameters()) == 1


@installed
def test_the_callers_trace_function_and_gradients_come_back_after_an_error() -> None:
    class Fails(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale, self.calls = nn.Parameter(torch.ones(4)), 0

        def forward(self, images: Tensor) -> Tensor:
            self.calls += 1
            if self.calls > 12:
                raise RuntimeError("enough")
            return self.scale * images.flatten(1)[:, :4]

    def trace(frame: object, event: str, argument: object) -> None:
        return None

    model, before, state = Fails().eval(), sys.gettrace(), torch.get_rng_state()
    labels = predictions(model, MANY)
    sys.settrace(trace)
    try:
        with pytest.raises(ArgumentError, match="RuntimeError: enough"):
            autoattack(model, MANY, labels, threat=Linf(0.01), seed=0)
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)
    assert model.scale.requires_grad
    assert torch.equal(torch.get_rng_state(), state)


class Copied(nn.Flatten):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).clone()


@installed
def test_a_model_whose_logits_are_its_pixels_is_not_written_into() -> None:
    """Square writes into the logits it gets, and here they share their memory with its images."""
    images = uniform(11, 20, 1, 2, 2)
    options = {"threat": Linf(0.05), "seed": 0, "attacks": ("square",), "queries": 20}
    shared, copied = (
        autoattack(model.eval(), images, images.flatten(1).argmax(dim=1), **options)
        for model in (nn.Flatten(), Copied())
    )
    assert torch.equal(shared.images, copied.images)
    assert 0 < copied.fooled.sum() < 20


@installed
@pytest.mark.parametrize(("kind", "distance", "dual"), [(Linf, 0.08, 1), (L2, 0.2, 2)])
@pytest.mark.parametrize("targeted", [True, False])
def test_fab_finds_the_known_distance(kind: type, distance: float, dual: int, targeted: bool) -> None:
    images, labels = 0.5 + 0.1 * normal(0, 1, 1, 3, 4).clamp(-2, 2), torch.tensor([0])
    weight = normal(1, 2, 12)
    slope = weight[0] - weight[1]
    offset = distance * slope.norm(dual) - slope @ images.flatten()
    model = Linear(weight, torch.stack([offset, torch.zeros(())])).eval()
    nearest = fab(model, images, labels, threat=kind(1.5 * distance), seed=0, steps=30, targeted=targeted)
    assert nearest.fooled.all()
    assert nearest.distances.item() == pytest.approx(distance, rel=0.01)
    assert nearest.distances.item() == pytest.approx(kind(1.0).distances(images, nearest.images).item(), rel=1e-5)
    outside = fab(model, images, labels, threat=kind(0.9 * distance), seed=0, steps=30, targeted=targeted)
    assert not outside.fooled.any()
    assert outside.distances.isinf().all()
    assert torch.equal(outside.images, images)


@installed
def test_fab_keeps_the_nearest_of_all_targets_and_restarts() -> None:
    options = {"threat": Linf(0.2), "seed": 0, "steps": 8}
    once = fab(MODEL, MANY, PREDICTED, **options)
    more = fab(MODEL, MANY, PREDICTED, restarts=2, **options)
    assert more.passes.backward == 2 * once.passes.backward == 2 * 3 * 8 * 24
    assert (more.distances <= once.distances).all()
    assert torch.equal(predictions(MODEL, more.images) != PREDICTED, more.fooled)
    assert once.fooled.all()
    nearest_class = predictions(MODEL, once.images)
    with torch.no_grad():
        most_likely = MODEL(MANY).argsort(dim=1)[:, -2]
    assert 0 < (nearest_class != most_likely).sum() < 12  # another target than the first was nearer for some
    halves = fab(MODEL, MANY, PREDICTED, batch_size=11, **options)
    torch.testing.assert_close(halves.distances, once.distances, rtol=0.01, atol=0)


@installed
def test_a_prepared_model_is_searched_in_float32_and_has_itself_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"threat": Linf(0.01), "seed": 0, "steps": 5, "attacks": ("apgd-ce",)}
    plain = autoattack(MODEL, MANY, PREDICTED, **one)
    prepared = prepare(MODEL, precision="bfloat16")
    asked: list[str] = []
    search = Prepared.search
    monkeypatch.setattr(Prepared, "search", lambda self, images: asked.append(self.precision) or search(self, images))
    found = autoattack(prepared, MANY, PREDICTED, **one)
    assert set(asked) == {"float32"}
    assert found.passes == plain.passes
    assert torch.equal(predictions(MODEL, found.images), found.predictions)
    assert torch.equal(found.fooled, plain.fooled)


@installed
def test_an_attack_that_goes_through_a_graph_twice_asks_the_model_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tensor] = []
    search = Prepared.search
    monkeypatch.setattr(Prepared, "search", lambda self, images: asked.append(images) or search(self, images))
    one = {"threat": Linf(0.01), "seed": 0, "steps": 3}
    autoattack(prepare(MODEL), MANY, PREDICTED, attacks=("fab",), **one)
    fab(prepare(MODEL), MANY, PREDICTED, targeted=False, **one)
    assert not asked, "a compiled model frees its graph after the first time"
    autoattack(prepare(MODEL), MANY, PREDICTED, attacks=("fab-t",), **one)
    assert asked


@installed
def test_only_square_asks_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    search, query = Prepared.search, Prepared.query
    monkeypatch.setattr(Prepared, "search", lambda self, images: asked.append("search") or search(self, images))
    monkeypatch.setattr(Prepared, "query", lambda self, images: asked.append("query") or query(self, images))
    one = {"threat": Linf(1e-4), "seed": 0, "steps": 2, "queries": 3}
    autoattack(prepare(MODEL), MANY, PREDICTED, attacks=("square",), **one)
    assert set(asked) == {"query"}
    asked.clear()
    autoattack(prepare(MODEL), MANY, PREDICTED, attacks=("apgd-ce", "apgd-t", "fab-t"), **one)
    assert set(asked) == {"search"}


@installed
def test_a_prepared_model_is_searched_in_tf32_and_any_other_in_full_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[str] = []
    wrapper = sys.modules["maxmahal.attacks.autoattack"]
    within = wrapper.full_float32
    monkeypatch.setattr(wrapper, "full_float32", lambda device, to: entered.append(to) or within(device, to))
    one = {"threat": Linf(0.01), "seed": 0, "steps": 2, "attacks": ("apgd-ce",)}
    autoattack(MODEL, MANY, PREDICTED, **one)
    autoattack(prepare(MODEL), MANY, PREDICTED, **one)
    assert entered == ["ieee", "tf32"]


@installed
@pytest.mark.parametrize("run", ["apgd-ce", "square", "fab-t", "fab"])
def test_whom_only_the_coarse_search_calls_fooled_is_searched_again(monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    """A coarse copy that takes half of the images for wrong as they are: no attack of the package looks at them."""
    one = {"threat": Linf(0.05), "seed": 0, "steps": 10}
    search = Prepared.search
    fewer = {image.sum().item() for image in MANY[::2]}

    def swap(self: Prepared, images: Tensor) -> Outputs:
        outputs = search(self, images)
        swapped = torch.tensor([image.sum().item() in fewer for image in images])
        return Outputs(torch.where(swapped[:, None], -outputs.logits, outputs.logits), outputs.features)

    for name in ("search", "query"):
        monkeypatch.setattr(Prepared, name, swap)
    if run == "fab":
        plain, found = fab(MODEL, MANY, PREDICTED, **one), fab(prepare(MODEL), MANY, PREDICTED, **one)
    else:
        options = one | {"attacks": (run,), "queries": 300}
        plain, found = (autoattack(each, MANY, PREDICTED, **options) for each in (MODEL, prepare(MODEL)))
    assert plain.fooled[::2].sum() > 6
    assert found.fooled[::2].sum() > 0.8 * plain.fooled[::2].sum()
    assert torch.equal(predictions(MODEL, found.images), found.predictions)


class Crowded(Curved):
    """A model whose memory holds a few images at a time."""

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 7:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(images)


@installed
def test_where_memory_runs_out_fewer_images_are_taken_at_a_time() -> None:
    model, images = Crowded(pixels=64).eval(), uniform(3, 20, 1, 8, 8)
    with torch.no_grad():
        labels = torch.cat([model(part) for part in images.split(5)]).argmax(dim=1)
    options = {"threat": Linf(0.05), "seed": 0, "steps": 3, "attacks": ("apgd-ce",)}
    crowded = autoattack(model, images, labels, batch_size=20, **options)
    assert torch.equal(crowded.images, autoattack(model, images, labels, batch_size=5, **options).images)
    assert crowded.fooled.any()


@installed
@pytest.mark.parametrize(("classes", "name", "fewest"), [(2, "apgd-dlr", 3), (3, "apgd-t", 4)])
def test_losses_that_compare_more_classes_than_there_are_are_refused(classes: int, name: str, fewest: int) -> None:
    model, images = Curved(pixels=64, classes=classes).eval(), MANY[:6]
    labels = predictions(model, images)
    options = {"threat": Linf(0.01), "seed": 0, "steps": 3, "queries": 5}
    with pytest.raises(
        ArgumentError, match=f"{name} compares {fewest} logits, and the model has only {classes} classes"
    ):
        autoattack(model, images, labels, attacks=("apgd-ce", name), **options)
    for some in (("apgd-ce", "fab-t", "square"), ("fab",)):
        attacked = autoattack(model, images, labels, attacks=some, **options)
        assert list(attacked.survivors) == ["clean", *some]


@installed
def test_square_in_l2_needs_five_rows() -> None:
    images = uniform(3, 4, 1, 4, 16)
    model = Curved(pixels=64).eval()
    options = {"threat": L2(0.5), "seed": 0, "steps": 2, "queries": 5}
    with pytest.raises(ArgumentError, match="Square in L2 needs images of at least 5 rows; got 4"):
        autoattack(model, images, predictions(model, images), **options)
    autoattack(model, images, predictions(model, images), **options, attacks=("apgd-ce", "fab-t"))
    tall = images.permute(0, 1, 3, 2).contiguous()
    autoattack(model, tall, predictions(model, tall), **options, attacks=("square",))


@installed
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"attacks": ("apgd-ce", "fgsm")}, "attacks = 'fgsm' is unknown"),
        ({"attacks": ()}, "attacks must name at least one of"),
        ({"steps": 0}, "steps must be a whole number of at least 1; got 0"),
        ({"queries": 0}, "queries must be a whole number of at least 1; got 0"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1; got 0"),
        ({"seed": None}, "seed must be a whole number; got None"),
        ({"threat": NO_BALL}, "pyautoattack knows the threats Linf and L2; got namespace"),
        ({"threat": Linf(0.1, bounds=(-1.0, 1.0))}, r"pyautoattack keeps pixels in \[0, 1\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ArgumentError, match=sentence):
        attack(**changes)


@installed
@pytest.mark.usefixtures("unchecked")
def test_models_and_images_that_do_not_fit_are_refused() -> None:
    one = {"threat": Linf(0.01), "seed": 0}
    with pytest.raises(ArgumentError, match=r"model must be an nn\.Module"):
        autoattack(lambda images: MODEL(images), MANY, PREDICTED, **one)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="train mode"):
        autoattack(curved_classifier(MANY).train(), MANY, PREDICTED, **one)
    with pytest.raises(ArgumentError, match=r"pyautoattack works in float32; got torch\.float64"):
        autoattack(MODEL, MANY.double(), PREDICTED, **one)
    with pytest.raises(ArgumentError, match="restarts must be a whole number"):
        fab(MODEL, MANY, PREDICTED, restarts=0, **one)


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    for run in (autoattack, fab):
        with pytest.raises(ArgumentError, match=r"pip install 'maxmahal\[autoattack\]'"):
            run(MODEL, MANY, PREDICTED, threat=Linf(0.01), seed=0)
