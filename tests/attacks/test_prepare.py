"""A prepared model answers as the model does, only faster, and the model itself is left alone."""

import copy
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from test_fold import randomise
from torch import Tensor, nn

from maxmahal.attacks import pgd
from maxmahal.attacks.objectives import Outputs, model_outputs
from maxmahal.attacks.prepare import Prepared, prepare
from maxmahal.centers import max_mahalanobis_centers
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC, SCE
from maxmahal.models import BACKBONES, Classifier, Normalize, predict_labels

IMAGES = torch.rand(9, 3, 8, 8, generator=torch.Generator().manual_seed(1))
FOLDED = "{} of {} batch norms folded into the layers before them"


def classifier(name: str = "cnn", head: str = "MMC") -> Classifier:
    heads = {"MMC": MMC(max_mahalanobis_centers(5, 16)), "SCE": SCE(num_classes=5, feature_dim=16)}
    normalize = Normalize(torch.full((3, 1, 1), 0.4), torch.full((3, 1, 1), 0.3))
    return randomise(Classifier(BACKBONES[name]((3, 8, 8), 16), heads[head], normalize)).eval()


def convolutional(*end: nn.Module) -> nn.Module:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *end
    return randomise(nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 36, 5))).eval()


def gradient(outputs: Outputs, images: Tensor) -> Tensor:
    weights = torch.linspace(-1, 1, outputs.logits.shape[1])
    return torch.autograd.grad((outputs.logits * weights).sum(), images)[0]


def assert_answers_alike(
    prepared: Prepared, model: nn.Module, images: Tensor = IMAGES, tolerance: float = 1e-5
) -> None:
    """Logits, features and gradients; where a ReLU stands at zero rounding may turn it, so one gradient in four may."""
    images = images.clone().requires_grad_()
    found, expected = prepared.search(images), model_outputs(model, images)
    assert found.logits.dtype == torch.float32
    assert (found.logits - expected.logits).abs().max() <= tolerance * expected.logits.abs().max()
    assert (found.features is None) == (expected.features is None)
    if found.features is not None and expected.features is not None:
        assert found.features.dtype == torch.float32
        assert (found.features - expected.features).abs().max() <= tolerance * expected.features.abs().max()
    moved, wanted = (gradient(outputs, images).flatten(1) for outputs in (found, expected))
    off = (moved - wanted).norm(dim=1) / wanted.norm(dim=1)
    assert off.quantile(0.75) <= tolerance


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("head", ["MMC", "SCE"])
@pytest.mark.parametrize("name", ["cnn", "resnet32", "resnet110", "resnet47v2", "resnet18"])
def test_every_backbone_answers_as_before(name: str, head: str) -> None:
    model = classifier(name, head)
    prepared = prepare(model)
    assert_answers_alike(prepared, model)
    assert prepared.notes[0].endswith("batch norms folded into the layers before them")
    assert prepared.notes[1] == "memory channels_last"


def test_under_checked_annotations_nothing_is_folded_and_the_rest_works() -> None:
    model = classifier("resnet32")
    prepared = prepare(model)
    assert_answers_alike(prepared, model)
    assert prepared.notes[0].startswith("0 of 31 batch norms folded: the network cannot be traced (TypeCheckError: ")
    assert prepared.notes[1:] == ("memory channels_last",)


@pytest.mark.parametrize("wants", [True, False])
def test_a_query_keeps_nothing_for_a_gradient(wants: bool) -> None:
    model = classifier()
    outputs = prepare(model).query(IMAGES.clone().requires_grad_(wants))
    assert not outputs.logits.requires_grad
    assert outputs.features is not None
    assert not outputs.features.requires_grad
    torch.testing.assert_close(outputs.logits, model(IMAGES).detach(), rtol=1e-4, atol=1e-4)


def test_a_plain_sequential() -> None:
    model = convolutional()
    prepared = prepare(model)
    assert prepared.notes == (FOLDED.format(1, 1), "memory channels_last")
    assert_answers_alike(prepared, model)
    assert prepared.search(IMAGES).features is None
    assert prepared.notes == (FOLDED.format(1, 1), "memory channels_last")
    assert prepared.precision == "float32"


def test_a_model_without_convolutions_or_batch_norm() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 5)).eval()
    prepared = prepare(model)
    assert prepared.notes == ()
    assert_answers_alike(prepared, model)


def test_the_model_is_left_as_it_was() -> None:
    model = convolutional()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    model[2].train()
    calls = []
    model[4].register_forward_hook(lambda *_: calls.append(1))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    modules, modes = list(model.modules()), [module.training for module in model.modules()]
    prepared = prepare(model)
    prepared.search(IMAGES.clone().requires_grad_()).logits.sum().backward()
    prepared.train().double().requires_grad_(False)
    assert prepared.original is model
    assert list(model.modules()) == modules
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(value.dtype == state[name].dtype for name, value in model.state_dict().items())
    assert model[0].weight.is_contiguous()
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(model[0].weight.grad, torch.ones_like(model[0].weight))
    assert all(parameter.grad is None for name, parameter in model.named_parameters() if name != "0.weight")
    assert len(model[4]._forward_hooks) == 1
    calls.clear()
    model(IMAGES)
    assert calls == [1]


def test_it_is_a_snapshot_whose_predictions_are_the_originals() -> None:
    model = convolutional()
    prepared = prepare(model)
    before = model(IMAGES).detach()
    with torch.no_grad():
        model[0].weight.neg_()
    torch.testing.assert_close(prepared.search(IMAGES).logits, before, rtol=1e-5, atol=1e-5)
    assert torch.equal(prepared(IMAGES), model(IMAGES))
    data = ImageData.from_arrays("test", (IMAGES * 255).byte(), torch.zeros(9, dtype=torch.int64), tuple("abcde"))
    assert torch.equal(predict_labels(prepared, data), predict_labels(model, data))
    assert isinstance(prepared, nn.Module)
    assert not list(prepared.parameters())
    assert prepare(prepared, precision="bfloat16") is prepared


LAYOUTS: list[bool] = []


class Watching(nn.Conv2d):
    def forward(self, images: Tensor) -> Tensor:
        LAYOUTS.extend(part.is_contiguous(memory_format=torch.channels_last) for part in (images, self.weight))
        return super().forward(images)


def test_images_and_weights_lie_channels_last_and_gradients_reach_the_images_alone() -> None:
    model = nn.Sequential(Watching(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)).eval()
    prepared = prepare(model)
    images = IMAGES.clone().requires_grad_()
    prepared.search(images)
    LAYOUTS.clear()
    logits = prepared.search(images).logits
    assert LAYOUTS == [True, True]
    reached, nodes = [], [logits.grad_fn]
    while nodes:
        node = nodes.pop()
        reached += [node.variable] if hasattr(node, "variable") else []
        nodes += [after for after, _ in node.next_functions if after is not None]
    assert len(reached) == 1
    assert reached[0] is images


class Viewing(nn.Module):
    """Flattens with ``view``, which channels_last memory does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = convolutional()[:3], nn.Linear(4 * 36, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.last(self.layers(images).view(images.shape[0], -1))


def test_what_the_model_does_not_bear_is_left_out() -> None:
    model = randomise(Viewing()).eval()
    prepared = prepare(model)
    assert_answers_alike(prepared, model)
    assert prepared.notes[0] == FOLDED.format(1, 1)
    assert prepared.notes[1].startswith("memory not channels_last: RuntimeError: view size is not compatible")


class Listing(nn.Module):
    """Uses a Sequential as a list, and looks at values: the parts' own graphs are not what is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = convolutional()[:3], nn.Linear(4 * 36, 5)

    def forward(self, images: Tensor) -> Tensor:
        conv, norm, relu = self.layers
        hidden = conv(images)
        hidden = norm(relu(hidden)) if images.sum() > 0 else hidden
        return self.last(hidden.flatten(1))


def test_a_fold_that_would_change_the_answers_is_undone() -> None:
    model = randomise(Listing()).eval()
    prepared = prepare(model)
    assert_answers_alike(prepared, model)
    assert prepared.notes[0].startswith("batch norm not folded: outputs would change by ")
    assert prepared.notes[1] == "memory channels_last"


def test_a_model_that_cannot_be_copied_is_searched_itself() -> None:
    model = convolutional()
    model.lock = threading.Lock()
    prepared = prepare(model, precision="bfloat16", compile=True)
    assert_answers_alike(prepared, model)
    (note,) = prepared.notes
    assert note.startswith("searching the model itself, which cannot be copied (TypeError: ")
    assert all(parameter.grad is None for parameter in model.parameters())
    assert prepared.precise() is prepared


class Casts(nn.Module):
    """Weights of another dtype behind a cast of their own."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = convolutional().to(dtype), dtype

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images.to(self.dtype)).float()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_that_casts_to_its_own_dtype_is_searched_itself(dtype: torch.dtype) -> None:
    model = Casts(dtype).eval()
    prepared = prepare(model, precision="bfloat16")
    labels = model(IMAGES).argmax(dim=1)
    plain, attacked = (pgd(each, IMAGES, labels, 0.05, steps=3) for each in (model, prepared))
    assert torch.equal(plain.fooled, attacked.fooled)
    assert plain.fooled.any()
    (note,) = prepared.notes
    assert note.startswith("searching the model itself, whose copy in float32 fails (RuntimeError: ")
    assert torch.equal(prepared.query(IMAGES).logits, model(IMAGES))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_images_that_no_model_takes_leave_the_speedups_as_they_were() -> None:
    prepared = prepare(convolutional())
    notes = prepared.notes
    with pytest.raises(RuntimeError):
        prepared.search(IMAGES[:, :1])
    assert prepared.notes == notes


class Noisy(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return images + 0.5 * torch.randn(images.shape)


def test_a_model_that_draws_is_sped_up_too_and_no_draws_are_used_up_by_the_trial() -> None:
    model = nn.Sequential(Noisy(), *convolutional()).eval()
    prepared = prepare(model)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        expected = model(IMAGES)
        torch.manual_seed(3)
        torch.testing.assert_close(prepared.search(IMAGES).logits, expected.detach(), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(prepared.search(IMAGES).logits, expected, rtol=1e-2)
    assert prepared.notes == (FOLDED.format(1, 1), "memory channels_last")


def test_a_layer_in_training_mode_stays_in_it() -> None:
    model = convolutional()
    model[1].train()
    prepared = prepare(model)
    assert_answers_alike(prepared, model)
    assert prepared.notes[0] == "0 of 1 batch norms folded: none has a plain layer to itself before it"


def test_a_float64_model_is_searched_in_float32() -> None:
    model = convolutional().double()
    images = IMAGES.double().requires_grad_()
    outputs = prepare(model).search(images)
    assert outputs.logits.dtype == torch.float32
    assert gradient(outputs, images).dtype == torch.float64
    torch.testing.assert_close(outputs.logits.double(), model(images), rtol=1e-5, atol=1e-5)
    assert model[0].weight.dtype == torch.float64


def test_no_images_and_no_gradients() -> None:
    model = classifier()
    prepared = prepare(model)
    empty = prepared.search(IMAGES[:0])
    assert empty.logits.shape == (0, 5)
    assert empty.features is not None
    with torch.inference_mode():
        inside = prepared.search(IMAGES.clone()).logits
    assert not prepared.search(IMAGES).logits.requires_grad
    torch.testing.assert_close(inside.clone(), model(IMAGES).detach())


def test_autocast_around_the_search_does_not_reach_it() -> None:
    for model in (convolutional(), classifier()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = prepare(model).search(IMAGES)
        torch.testing.assert_close(outputs.logits, model(IMAGES).detach(), rtol=1e-5, atol=1e-5)


def test_mistakes_are_answered_in_one_sentence(unchecked: None) -> None:
    model = convolutional()
    with pytest.raises(ArgumentError, match=r"training mode, .*; call model\.eval\(\) first\."):
        prepare(copy.deepcopy(model).train())
    with pytest.raises(ArgumentError, match=r"must be a torch\.nn\.Module, .*; got a function\. Put what it computes"):
        prepare(lambda images: images)
    with pytest.raises(ArgumentError, match="precision = 'bf16' is unknown; did you mean 'bfloat16'"):
        prepare(model, precision="bf16")
    with pytest.raises(ArgumentError, match="prepared on cpu and the images are on meta; move the images"):
        prepare(model).search(IMAGES.to("meta"))


# The checked annotations of the tests break compilers, and some virtual CPUs announce matrix units that they do not
# have: both runs are done by an interpreter of their own, which checks nothing and keeps to plain vectors.
HERE = Path(__file__).parent
PREAMBLE = """
import torch
from torch import nn
torch.set_num_threads(1)
from test_prepare import *

def compare(prepared, model, count, tolerance):
    images = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(count))
    assert_answers_alike(prepared, model, images, tolerance)
    slopes = prepared.search(images.requires_grad_()).logits
    with torch.no_grad():
        for found in (prepared.search(images), prepared.search(images.detach())):
            torch.testing.assert_close(found.logits, slopes, rtol=1e-4, atol=1e-4)
"""


def run_alone(script: str, tmp_path: Path) -> None:
    environment = os.environ | {
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_bfloat16_searches_coarsely_and_its_outputs_are_float32(tmp_path: Path) -> None:
    run_alone(
        """
for head in ("MMC", "SCE"):
    model = classifier("cnn", head)
    prepared = prepare(model, precision="bfloat16")
    images = IMAGES.clone().requires_grad_()
    found, expected = prepared.search(images), model_outputs(model, images)
    assert prepared.notes[2:] == ("bfloat16 but for the last linear layer and the head, which stay in float32",)
    assert prepared.precision == "bfloat16"
    for value, wanted in ((found.logits, expected.logits), (found.features, expected.features)):
        assert value.dtype == torch.float32
        off = (value - wanted).abs().max() / wanted.abs().max()
        assert 1e-5 < off < 0.1, off  # coarse, and so really in bfloat16
        assert not torch.equal(value, value.bfloat16().float())  # the last layer and the head were not
    slopes = gradient(found, images)
    assert slopes.dtype == torch.float32
    assert torch.cosine_similarity(slopes.flatten(1), gradient(expected, images).flatten(1)).mean() > 0.9
    precise = prepared.precise()
    assert precise is prepared.precise() and precise.precise() is precise
    assert (precise.precision, precise.original) == ("float32", model)
    assert_answers_alike(precise, model)

plain = prepare(convolutional(), precision="bfloat16")
logits = plain.search(IMAGES).logits
assert logits.dtype == torch.float32 and not torch.equal(logits, logits.bfloat16().float())

DTYPES = []

class Typed(nn.Conv2d):
    def forward(self, images):
        DTYPES.append(self.weight.dtype)
        return super().forward(images)

prepare(nn.Sequential(Typed(3, 4, 3), nn.Flatten(), nn.Linear(144, 5)).eval(), precision="bfloat16").search(IMAGES)
assert DTYPES[-1] == torch.bfloat16  # cast beforehand, not at every step

class Exact(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.last = nn.Conv2d(3, 4, 3), nn.Linear(144, 5)
    def forward(self, images):
        hidden = self.conv(images)
        if hidden.dtype != torch.float32:
            raise TypeError("float32 only.")
        return self.last(hidden.flatten(1))

refusing = prepare(Exact().eval(), precision="bfloat16")
refusing.search(IMAGES)
assert refusing.notes == ("memory channels_last", "float32, not bfloat16: TypeError: float32 only"), refusing.notes
assert refusing.precise() is refusing
""",
        tmp_path,
    )


@pytest.mark.soak
def test_few_sizes_are_ever_compiled(tmp_path: Path) -> None:
    """With a compiler that only counts."""
    run_alone(
        """
from torch._dynamo.testing import CompileCounter

real = torch.compile
counter = CompileCounter()
torch.compile = lambda function, **options: real(function, backend=counter, **options)
model = convolutional()
prepared = prepare(model, compile=True)
for count in (7, 8, 2, 70):
    compare(prepared, model, count, 1e-5)
assert prepared.notes[2:] == ("compiled for any batch size",), prepared.notes
assert counter.frame_count <= 4, counter.frame_count
before = counter.frame_count
torch.testing.assert_close(prepared.query(IMAGES).logits, model(IMAGES).detach(), rtol=1e-4, atol=1e-4)
assert counter.frame_count > before  # a function of its own, without what a gradient would need

def broken(graph, example):
    raise RuntimeError("no compiler here.")

torch.compile = lambda function, **options: real(function, backend=broken, **options)
prepared = prepare(model, compile=True)
compare(prepared, model, 7, 1e-5)
assert prepared.notes[2].startswith("not compiled: "), prepared.notes
""",
        tmp_path,
    )


@pytest.mark.soak
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_compiled_search_answers_as_before(precision: str, tmp_path: Path) -> None:
    tolerance = 1e-5 if precision == "float32" else 0.2
    run_alone(
        f"""
model = classifier("cnn")
prepared = prepare(model, compile=True, precision="{precision}")
for count in (3, 2, 7):
    compare(prepared, model, count, {tolerance})
assert prepared.notes[-1] == "compiled for any batch size", prepared.notes
assert prepared.precision == "{precision}"
""",
        tmp_path,
    )
