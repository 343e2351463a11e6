"""Targets of every kind, and bad ones: each mistake one sentence, and nothing half-written."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_evaluations_helpers import (
    CLASSES,
    Curved,
    answers_only,
    classifier,
    curved,
    everything,
    identity,
    labelled_by,
    small_suite,
    stage,
)
from torch import nn

from maxmahal.attacks import L2
from maxmahal.data import ImageData
from maxmahal.errors import CheckpointError, MaxmahalError, MaxmahalWarning
from maxmahal.evaluate import evaluate_model, evaluate_models, read_evaluations
from maxmahal.evaluate.evaluated_model import load_target, split_name
from maxmahal.evaluate.fingerprints import fingerprint_data, fingerprint_model
from maxmahal.models.layers import Float32Linear
from maxmahal.records.types import unique_names
from maxmahal.train import Settings, train_model
from maxmahal.train.checkpoint import read_tensors, save_tensors

pytestmark = pytest.mark.usefixtures("unchecked")
QUICK = small_suite(stage("pgd", "pgd", steps=2), stage("square", "square", queries=3))
MODEL = curved()
DATA = labelled_by(MODEL)

FACTORIES = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(classes, 16, generator=generator))
    def forward(self, images):
        return (images.flatten(1) - 0.5) @ self.weight.T

def make(): return Net().eval()
def half(): return Net().eval().half()
def double(): return Net().eval().double()
def empty(): return Net().eval().to("meta")
def make_function():
    net = Net().eval()
    def predict(images):
        with torch.no_grad():
            return net(images)
    return predict
def in_train_mode(): return Net()
def nothing(): return None
def raises(): raise RuntimeError("no weights\\nanywhere")
def three_classes(): return Net(3).eval()
def one_number(): return lambda images: images.flatten(1).sum(dim=1)
def one_column(): return lambda images: images.flatten(1).sum(dim=1, keepdim=True)
def a_list(): return lambda images: [0, 1]
def wants_colour(): return nn.Conv2d(3, 4, 4).eval()
def needs_argument(path): return Net().eval()
def elsewhere(): return nn.Linear(2, 2, device="meta").eval()
"""


@pytest.fixture
def factories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mynets.py").write_text(FACTORIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    return tmp_path


def refused(call: Callable[[], Any]) -> str:
    """The one sentence with which it is refused."""
    with pytest.raises(MaxmahalError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 600
    return text


def test_a_factory_of_a_module_and_of_a_function(factories: Path) -> None:
    found = evaluate_models(["mynets:make", "blind=mynets:make_function"], out="out", suite=QUICK, data=DATA)
    assert [(each.name, each.target, each.model["kind"]) for each in found] == [
        ("make", "mynets:make", "module"),
        ("blind", "mynets:make_function", "function"),
    ]
    assert not found[0].stage("pgd").skipped
    assert found[1].stage("pgd").skipped
    first, second = (each.stage("clean").columns.prediction.tolist() for each in found)
    assert first == second


def test_a_module_and_a_function_from_python(tmp_path: Path) -> None:
    found = evaluate_models({"net": MODEL, "blind": answers_only}, out=tmp_path, suite=QUICK, data=DATA)
    assert [each.model["kind"] for each in found] == ["module", "function"]
    assert found[0].model["parameters"] == sum(parameter.numel() for parameter in MODEL.parameters())
    assert evaluate_model(MODEL, out=tmp_path / "unnamed", suite=QUICK, data=DATA).name == "Curved"


def test_a_function_that_has_gradients_is_warned_about(tmp_path: Path) -> None:
    def through_numpy(images: torch.Tensor) -> torch.Tensor:
        return MODEL(torch.from_numpy(images.numpy()))

    words = r"is a function, so it is attacked without gradients, though it has them; pass the nn\.Module itself"
    with pytest.warns(MaxmahalWarning, match=words) as told:
        found = evaluate_models({"net": lambda images: MODEL(images)}, out=tmp_path, suite=QUICK, data=DATA)
    assert [str(each.message).split()[0] for each in told] == ["net"]
    assert found[0].stage("pgd").skipped
    evaluate_models({"a": answers_only, "b": through_numpy}, out=tmp_path, suite=QUICK, data=DATA)  # no warning


def test_a_run_folder_and_its_checkpoint(
    tmp_path: Path, tiny_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=2"), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    targets = ["run", "run/last.safetensors", "again=run"]
    found = evaluate_models(targets, out="out", suite=QUICK, limit=7)
    assert [each.name for each in found] == ["run", "run-last", "again"]
    assert len({each.model_fingerprint for each in found}) == 1
    assert [identity(each) for each in found[1:]] == [identity(found[0])] * 2
    run = found[0]
    assert (run.samples, run.model["kind"], run.model["loss"], run.model["epoch"]) == (7, "classifier", "mmc", 2)
    assert run.model["settings"]["train"]["epochs"] == 2
    assert [entry["epoch"] for entry in run.training] == [1, 2]
    assert run.plane == "circle of centers"


def test_ones_own_images_as_npz(tmp_path: Path) -> None:
    images, labels = DATA.images.numpy(), DATA.labels.numpy()
    path = tmp_path / "mine.npz"
    np.savez(path, images=images, labels=labels, test_images=images[:10], test_labels=labels[:10])
    found = evaluate_model(MODEL, out=tmp_path / "out", suite=QUICK, data=str(path))
    same = evaluate_model(MODEL, out=tmp_path / "same", suite=QUICK, data=DATA, limit=10)
    assert found.samples == 10
    assert identity(found) == identity(same)
    assert " --data mine.npz " in found.environment["command"]  # without the folder, which may tell who ran it


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("mynets:in_train_mode", ["mynets:in_train_mode", "train mode", ".eval()"]),
        ("mynets:nothing", ["mynets:nothing", "NoneType"]),
        ("mynets:raises", ["mynets:raises", "RuntimeError: no weights anywhere", "mynets.py"]),
        ("mynets:mak", ["no function 'mak'", "did you mean 'make'"]),
        ("mynets:needs_argument", ["mynets:needs_argument", "needs_argument(path) cannot take that"]),
        ("nothere:make", ["no module 'nothere'"]),
        ("mynets:three_classes", ["returns 3 logits per image", "has 4 classes"]),
        ("mynets:half", ["mynets:half", "torch.float16: convert it with model.float()"]),
        ("mynets:double", ["mynets:double", "torch.float64: convert it with model.float()"]),
        ("mynets:empty", ["mynets:empty has weights without values", "load its weights first"]),
        ("mynets.py:make", ["without .py; write mynets:make"]),
        ("", ["There is no run folder, checkpoint, function or model"]),
        ("mynets:one_number", ["returns one logit per image; return two", "torch.stack([torch.zeros_like(z), z], dim"]),
        (
            "mynets:one_column",
            ["returns one logit per image; return two", "torch.cat([torch.zeros_like(z), z], dim=1)"],
        ),
        ("mynets:a_list", ["must return logits of shape (24, classes)", "list"]),
        ("mynets:wants_colour", ["mynets:wants_colour", "cannot take the images", "(1, 4, 4)"]),
        ("runs/none", ["runs/none", "no run folder"]),
        ("=runs/none", ["NAME=TARGET"]),
        ("name=", ["NAME=TARGET"]),
        ("a/b=mynets:make", ["'a/b' cannot name a model"]),
        ("mynets.py", ["mynets.py"]),
    ],
)
def test_a_bad_target_is_refused_and_leaves_nothing(factories: Path, target: str, parts: list[str]) -> None:
    text = refused(lambda: evaluate_models([target], out="out", suite=QUICK, data=DATA))
    for part in parts:
        assert part in text
    assert not (factories / "out").exists()


def test_bad_models_from_python(tmp_path: Path) -> None:
    def attempt(target: Any, **options: Any) -> str:
        return refused(
            lambda: evaluate_model(target, **{"out": tmp_path / "out", "suite": QUICK, "data": DATA} | options)
        )

    assert "train mode" in attempt(Curved())
    assert "got 3" in attempt(3)
    assert attempt(MODEL, limit=0).startswith("limit must be at least 1; got 0")
    assert "which images to use as data (--data)" in attempt(MODEL, data=None)
    assert attempt(MODEL, suite="quick", norm="l2").startswith("norm = l2: Suite quick: norm = 'l2' is unknown; did")
    assert attempt(MODEL, suite="quick", epsilon=8).startswith("epsilon = 8: Suite quick: epsilon must lie in (0, 1]")
    assert attempt(MODEL, suite="quick", epsilon=L2("1/2")) == (
        "epsilon must be a number or text; got L2(epsilon='1/2', bounds=(0.0, 1.0)). Write norm='L2', epsilon='1/2' "
        "instead."
    )
    assert "did you mean 'strict'" in attempt(MODEL, suite="strikt")
    assert "no images" in attempt(MODEL, data=DATA.first(0))
    assert "this one has its own" in attempt(MODEL, epsilon=0.1)
    assert "at least one model" in refused(lambda: evaluate_models([], out=tmp_path / "out", suite=QUICK, data=DATA))
    assert "Two models are called 'Curved'" in refused(
        lambda: evaluate_models([MODEL, curved(3)], out=tmp_path / "out", suite=QUICK, data=DATA)
    )
    assert not (tmp_path / "out").exists()


def test_data_of_one_class_are_counted_in_the_singular(tmp_path: Path) -> None:
    data = ImageData.from_arrays("one", DATA.images, torch.zeros_like(DATA.labels), ["only"])
    text = refused(lambda: evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=data))
    assert "returns 4 logits per image and one has 1 class; choose" in text


def changed_data() -> ImageData:
    images = DATA.images.clone()
    images[0, 0, 0, 0] ^= 1
    return ImageData.from_arrays(DATA.name, images, DATA.labels, DATA.class_names)


@pytest.mark.parametrize(
    ("model", "data", "suite", "part"),
    [
        (curved(7), DATA, QUICK, "model was"),
        (MODEL, changed_data(), QUICK, "data was"),
        (MODEL, DATA, small_suite(stage("pgd", "pgd", steps=3), QUICK.stages[1]), "pgd.steps was 2 and is now 3"),
        (MODEL, DATA, small_suite(*QUICK.stages, version=2), "suite.version was 1 and is now 2"),
        (MODEL, DATA, small_suite(*QUICK.stages, epsilon="8/100"), "suite.epsilon was '0.08' and is now '8/100'"),
        (MODEL, DATA, small_suite(*QUICK.stages, chunk=6), "suite.chunk was 5 and is now 6"),
        (MODEL, DATA, small_suite(*QUICK.stages[::-1]), "suite.order was"),
        (MODEL, DATA, small_suite(*QUICK.stages[:1]), "suite.order was"),
    ],
)
def test_records_of_something_else_are_refused_and_kept(
    tmp_path: Path, model: nn.Module, data: ImageData, suite: Any, part: str
) -> None:
    evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA)
    before = everything(tmp_path)
    # The fresh one comes first: it must not be begun either.
    targets = {"fresh": curved(8), "Curved": model}
    text = refused(lambda: evaluate_models(targets, out=tmp_path, suite=suite, data=data))
    assert part in text
    assert "already holds an evaluation of 'Curved'" in text
    assert everything(tmp_path) == before


def test_another_description_of_the_suite_is_no_other_suite(tmp_path: Path) -> None:
    evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA)
    before = everything(tmp_path)
    evaluate_model(MODEL, out=tmp_path, suite=small_suite(*QUICK.stages, about="in other words"), data=DATA)
    assert everything(tmp_path) == before


def test_other_names_suites_balls_seeds_and_limits_live_side_by_side(tmp_path: Path) -> None:
    evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA)
    evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA, seed=1)
    evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA, limit=3)
    evaluate_models({"other": curved(4)}, out=tmp_path, suite=QUICK, data=DATA)
    wide = small_suite(*QUICK.stages, epsilon="0.2")
    balls = [wide, small_suite(*QUICK.stages, norm="L2"), wide]
    found = [evaluate_model(MODEL, out=tmp_path, suite=suite, data=DATA) for suite in balls]
    assert [(each.norm, each.radius) for each in found] == [("Linf", 0.2), ("L2", 0.08), ("Linf", 0.2)]
    assert len(everything(tmp_path)["evaluations"]) == 6
    assert len(set(unique_names(read_evaluations(tmp_path)))) == 6


def test_fingerprints_tell_models_and_data_apart() -> None:
    assert fingerprint_model(curved()) == fingerprint_model(curved())
    changed = curved()
    with torch.no_grad():
        changed.second[0, 0] += 1e-6
    prints = [fingerprint_model(model) for model in (curved(), changed, classifier(), Curved(0, CLASSES + 1))]
    assert len(set(prints)) == 4
    with_buffer = curved()
    with_buffer.register_buffer("mean", torch.zeros(()))
    assert fingerprint_model(with_buffer) != prints[0]
    assert fingerprint_data(DATA) == fingerprint_data(labelled_by(MODEL))


def test_fingerprints_of_functions_see_the_weights_they_hold() -> None:
    def around(model: nn.Module, shift: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda images: model(images) + shift

    class Wrapped:
        def __init__(self, model: nn.Module) -> None:
            self.model = model

        def __call__(self, images: torch.Tensor) -> torch.Tensor:
            return self.model(images)

    zero, one = torch.zeros(1), torch.ones(1)
    functions = [around(curved(), zero), around(curved(1), zero), around(curved(), one), Wrapped(curved()),
                 Wrapped(curved(1))]  # fmt: skip
    assert len({fingerprint_model(function) for function in functions}) == 5
    assert fingerprint_model(around(curved(), zero)) == fingerprint_model(functions[0])
    assert fingerprint_model(Wrapped(curved())) == fingerprint_model(functions[3])


def test_fingerprints_of_data() -> None:
    others = [DATA.first(5), changed_data(), DATA.select(torch.arange(len(DATA)).flip(0))]
    assert len({fingerprint_data(data) for data in (DATA, *others)}) == 4


def test_a_name_of_the_zoo_is_a_target_with_or_without_its_prefix(
    tmp_path: Path, tiny_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "run")
    (tmp_path / "zoo").mkdir()
    (tmp_path / "run" / "last.safetensors").rename(tmp_path / "zoo" / "stripes.safetensors")
    monkeypatch.setenv("MAXMAHAL_ZOO", str(tmp_path / "zoo"))
    monkeypatch.chdir(tmp_path)
    named, bare = load_target("zoo:stripes"), load_target("stripes")
    assert (bare.name, bare.target, bare.fingerprint) == ("stripes", "zoo:stripes", named.fingerprint)
    with pytest.raises(CheckpointError, match="function or model of the zoo 'strips'"):
        load_target("strips")
    train_model(tiny_settings("digits-sce", "train.epochs=1"), tmp_path / "stripes")
    assert load_target("stripes").target == "stripes", "a path that exists wins over a name"


def test_names() -> None:
    assert split_name("a=runs/x") == ("a", "runs/x")
    assert split_name("runs/x") == ("", "runs/x")
    assert load_target(MODEL, name="mine").name == "mine"


class Stepped(torch.nn.Module):
    """Something that weights do not show."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (images * self.steps).round() / self.steps


def test_fingerprints_see_what_weights_do_not_show() -> None:
    models = [torch.nn.Sequential(Stepped(steps), torch.nn.Dropout(p)) for steps, p in ((3, 0.1), (4, 0.1), (3, 0.2))]
    assert len({fingerprint_model(model.eval()) for model in models}) == 3


def test_fingerprints_do_not_depend_on_attributes_that_a_new_torch_may_add() -> None:
    plain, newer = torch.nn.BatchNorm2d(2).eval(), torch.nn.BatchNorm2d(2).eval()
    newer.fresh_option = True
    assert fingerprint_model(plain) == fingerprint_model(newer)


def test_a_layer_that_keeps_its_precision_computes_what_it_did() -> None:
    plain, precise = torch.nn.Linear(3, 2), Float32Linear(3, 2)
    precise.load_state_dict(plain.state_dict())
    first, second = (torch.nn.Sequential(layer).eval() for layer in (plain, precise))
    assert fingerprint_model(first) == fingerprint_model(second)


def test_a_checkpoint_may_not_choose_what_code_to_run(
    tmp_path: Path, tiny_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "run")
    file = tmp_path / "run" / "last.safetensors"
    tensors, metadata = read_tensors(file)
    card = json.loads(metadata["model"])
    card["settings"]["data"]["source"] = "a_strangers_module:images"
    save_tensors(file, tensors, metadata | {"model": json.dumps(card)})
    (tmp_path / "a_strangers_module.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(CheckpointError, match="may not choose what code to run; if you trust that code, say --trust"):
        evaluate_model(file, out=tmp_path / "out", suite=QUICK)
    assert not (tmp_path / "out").exists()


class InPlace(torch.nn.Module):
    """Normalises the caller's own tensor."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images.sub_(0.5).div_(0.5))


def test_a_model_that_changes_its_images_is_refused(tmp_path: Path) -> None:
    text = refused(lambda: evaluate_model(InPlace(curved()).eval(), out=tmp_path, suite=QUICK, data=DATA))
    assert "in place" in text
    assert not list(tmp_path.iterdir())


class Box:
    """Holds a network and answers through a method."""

    def __init__(self, network: torch.nn.Module) -> None:
        self.network = network

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        return self.network(images)


def answer(network: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    return network(images)


def test_fingerprints_see_the_weights_behind_methods_and_partial_functions() -> None:
    first, second = curved(1), curved(2)
    several = [Box(first).logits, Box(second).logits, partial(answer, first), partial(answer, second)]
    assert len({fingerprint_model(function) for function in several}) == 4
    assert fingerprint_model(Box(curved(1)).logits) == fingerprint_model(several[0])


def test_a_seed_beyond_what_records_hold_is_refused(tmp_path: Path) -> None:
    assert "seed must lie" in refused(lambda: evaluate_model(MODEL, out=tmp_path, suite=QUICK, data=DATA, seed=2**70))


@pytest.fixture
def a_gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if there were a GPU: where modules are asked to move is written down, and they stay."""
    moves: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(nn.Module, "to", lambda self, device: (moves.append(str(device)), self)[1])
    return moves


@pytest.mark.usefixtures("factories")
def test_what_is_loaded_goes_to_the_gpu_if_there_is_one(a_gpu: list[str]) -> None:
    load_target("mynets:make")
    load_target("mynets:make", device="cpu")
    assert a_gpu == ["cuda", "cpu"]


@pytest.mark.usefixtures("factories")
def test_a_model_stays_where_it_is(a_gpu: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxmahal.evaluate.evaluated_model.fingerprint_model", lambda _: "")
    load_target(MODEL)
    load_target("mynets:elsewhere")
    assert not a_gpu
