"""Our own kernels for small convolutions: on a GPU as they are, elsewhere in triton's interpreter, if it is there."""

import os

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
pytest.importorskip("triton")

from torch._inductor.lowering import lowerings  # noqa: E402
from torch._library.custom_ops import CustomOpDef  # noqa: E402

from maxmahal.models import kernels, small_convolutions  # noqa: E402
from maxmahal.models.small_convolutions import SmallConvolutions  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("unchecked"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0 to a scalar:DeprecationWarning"),
]
DEVICE = "cuda" if ON_GPU else "cpu"
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
TOLERANCE = 0.01 if ON_GPU else 1e-5
# The interpreter takes an array of one value for the bound of a loop, which numpy warned of before it no longer did so.
looping = pytest.mark.skipif(
    not ON_GPU and np.lib.NumpyVersion(np.__version__) >= "2.4.0",
    reason="triton's interpreter cannot loop with numpy 2.4",
)


@pytest.fixture(autouse=True)
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs even for a few pixels, the last of them with pixels to spare."""
    monkeypatch.setattr(kernels, "PIXELS", 32)
    monkeypatch.setattr(kernels, "SUMMED_PIXELS", 32)
    monkeypatch.setattr(kernels, "PROGRAMS", 3)


def normal(*shape: int) -> Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    return values.to(DEVICE, DTYPE).contiguous(memory_format=torch.channels_last)


def distance(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def test_the_compiler_knows_every_operator_before_it_meets_one() -> None:
    """First of all tests here, since compiling makes them known too: in torch 2.11 after minutes, or never."""
    operators = {each for each in vars(kernels).values() if isinstance(each, CustomOpDef)}
    assert operators == set(kernels.OPERATORS)
    assert all(each._opoverload in lowerings for each in operators)


SHAPES = [(3, 16, 16, 6, 5), (2, 32, 32, 4, 4), (2, 3, 16, 5, 7), (1, 16, 20, 3, 1)]


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(("count", "ins", "outs", "height", "width"), SHAPES)
def test_a_convolution_and_the_gradient_of_its_images_are_torchs(
    count: int, ins: int, outs: int, height: int, width: int, layout: torch.memory_format
) -> None:
    images, weight = normal(count, ins, height, width), normal(outs, ins, 3, 3).contiguous(memory_format=layout)
    gradient, exact = normal(count, outs, height, width), images.double().requires_grad_()
    expected = F.conv2d(exact, weight.double(), padding=1)
    (for_images,) = torch.autograd.grad(expected, exact, gradient.double())
    assert distance(kernels.convolve(images, weight), expected.detach()) < TOLERANCE
    assert distance(kernels.convolve_back(gradient, weight), for_images) < TOLERANCE


@looping
@pytest.mark.parametrize(("count", "ins", "outs", "height", "width"), SHAPES)
def test_the_gradient_of_a_weight_is_torchs(count: int, ins: int, outs: int, height: int, width: int) -> None:
    images, gradient = normal(count, ins, height, width), normal(count, outs, height, width)
    weight = torch.zeros(outs, ins, 3, 3, dtype=torch.double, device=DEVICE, requires_grad=True)
    expected = F.conv2d(images.double(), weight, padding=1)
    (for_weight,) = torch.autograd.grad(expected, weight, gradient.double())
    assert distance(kernels.convolve_weight(images, gradient), for_weight) < TOLERANCE


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("has_addend", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_what_follows_a_convolution_is_torchs_too(has_bias: bool, has_addend: bool, relu: bool) -> None:
    images, weight, source = normal(3, 16, 6, 5), normal(20, 16, 3, 3), normal(3, 16, 6, 5)
    bias = normal(1, 20, 1, 1).flatten() if has_bias else None
    addend = normal(3, 20, 6, 5) if has_addend else None
    expected = F.conv2d(images.double(), weight.double(), None if bias is None else bias.double(), padding=1)
    expected = expected if addend is None else expected + addend.double()
    expected = expected.relu() if relu else expected
    assert distance(kernels.convolve_and_add(images, weight, bias, addend, relu), expected) < TOLERANCE

    gradient, other = normal(3, 20, 6, 5), normal(3, 16, 6, 5) if has_addend else None
    expected = F.conv_transpose2d(gradient.double(), weight.double(), padding=1)
    expected = torch.where(source <= 0, 0.0, expected if other is None else expected + other.double())
    assert distance(kernels.convolve_back_and_add(gradient, weight, other, source), expected) < TOLERANCE


def test_a_relu_hides_no_nan() -> None:
    images = normal(1, 16, 4, 4)
    images[0, 3, 1, 1] = torch.nan
    found = kernels.convolve_and_add(images, normal(16, 16, 3, 3), None, None, True)
    assert found[:, :, :3, :3].isnan().all()
    assert not found[:, :, 3].isnan().any()


class Network(nn.Module):
    """Every kind of convolution to tell apart: small, strided, with a bias, of one tap, of many channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.small = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.strided = nn.Conv2d(16, 32, 3, 2, padding=1, bias=False)
        self.biased = nn.Conv2d(32, 32, 3, padding=1)
        self.pointwise = nn.Conv2d(32, 64, 1, bias=False)
        self.large = nn.Conv2d(64, 64, 3, padding=1, bias=False)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(images)))
        x = self.small(x) + x
        x = x[:, :, ::2, ::2].repeat(1, 2, 1, 1) + self.strided(x)  # its gradient comes in another layout
        mean: Tensor = self.large(self.pointwise(self.biased(x))).mean(dim=(2, 3))
        return mean


class Folded(nn.Module):
    """Residual blocks without batch norm: everything that may follow a convolution, and look-alikes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.first, self.second = (nn.Conv2d(16, 16, 3, padding=1, bias=bias) for bias in (True, False))
        self.third, self.fourth = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.wide = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.stem(images))
        x = torch.relu(x + self.second(torch.relu(self.first(x))))
        both = self.third(x)  # read twice, so neither the sum nor the ReLU is its own
        x = torch.relu(both + self.fourth(x)) + both
        x = torch.relu(x + self.wide(x))  # one channel, broadcast
        mean: Tensor = x.mean(dim=(2, 3))
        return mean


def replaced_in(network: nn.Module, monkeypatch: pytest.MonkeyPatch, *, trained: bool) -> list[str]:
    """Compare a network with what the pass makes of it, outputs and gradients; the operators that it has then."""
    monkeypatch.setattr(small_convolutions, "DEVICES", (DEVICE,))
    monkeypatch.setattr(small_convolutions, "DTYPE", DTYPE)
    targets: list[str] = []

    class Watched(SmallConvolutions):
        def __call__(self, graph: torch.fx.Graph) -> None:
            super().__call__(graph)
            graph.lint()
            targets.extend(str(node.target) for node in graph.nodes)

        def uuid(self) -> None:  # nothing is taken from a cache, where no pass would be seen
            return None

    network = network.to(DEVICE, DTYPE).requires_grad_(trained)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    images = normal(2, 3, 8, 6).requires_grad_()
    wanted = [images, *network.parameters()] if trained else [images]
    compiled = torch.compile(network, options={"post_grad_custom_pre_pass": Watched()})
    answers = []
    for each in (compiled, network):
        output = each(images)
        change = normal(1, 1, *output.shape)[0, 0]
        answers.append((output.detach(), *torch.autograd.grad(output, wanted, change)))
    for ours, theirs in zip(*answers, strict=True):
        assert distance(ours, theirs) < 8 * TOLERANCE  # both round after every layer
    return targets


def counted(targets: list[str], *names: str) -> list[int]:
    return [targets.count(f"{name}.default") for name in names]


@looping
def test_the_pass_replaces_what_is_small_and_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    targets = replaced_in(Network(), monkeypatch, trained=True)
    assert counted(targets, "maxmahal.convolve", "maxmahal.convolve_and_add") == [2, 1]
    biased = int(DEVICE == "cuda")  # there torch takes a bias's gradient out of the operator, which leaves it to us
    assert counted(targets, "maxmahal.convolve_back", "maxmahal.convolve_back_and_add") == [1 + biased, 1]
    assert counted(targets, "maxmahal.convolve_weight") == [2 + biased]
    assert counted(targets, "aten.convolution", "aten.convolution_backward") == [3, 4 - biased]


def test_the_pass_takes_what_follows_into_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    targets = replaced_in(Folded(), monkeypatch, trained=False)
    assert counted(targets, "maxmahal.convolve_and_add", "maxmahal.convolve", "aten.convolution") == [6, 0, 0]
    assert counted(targets, "aten.relu") == [2]  # the one after the broadcast sum, and once more for its gradient
    assert counted(targets, "maxmahal.convolve_back_and_add", "maxmahal.convolve_back") == [3, 3]
