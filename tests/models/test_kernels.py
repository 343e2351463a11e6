"""Our own kernels for small convolutions: on a GPU as they are, elsewhere in triton's interpreter, if it is there."""

import os

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

ON_GPU = torch.cuda.is_available()
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
pytest.importorskip("triton")

from maxmahal.models import kernels, small_convolutions  # noqa: E402
from maxmahal.models.small_convolutions import SmallConvolutions  # noqa: E402

pytestmark = pytest.mark.usefixtures("unchecked")
DEVICE = "cuda" if ON_GPU else "cpu"
DTYPE = torch.bfloat16 if ON_GPU else torch.float32
TOLERANCE = 0.01 if ON_GPU else 1e-5


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


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
@pytest.mark.parametrize(
    ("count", "ins", "outs", "height", "width"),
    [(3, 16, 16, 6, 5), (2, 32, 32, 4, 4), (2, 3, 16, 5, 7), (1, 16, 20, 3, 1)],
)
def test_a_convolution_and_its_gradients_are_torchs(
    count: int, ins: int, outs: int, height: int, width: int, layout: torch.memory_format
) -> None:
    images, weight = normal(count, ins, height, width), normal(outs, ins, 3, 3).contiguous(memory_format=layout)
    gradient = normal(count, outs, height, width)
    exact = images.double().requires_grad_(), weight.double().requires_grad_()
    expected = F.conv2d(*exact, padding=1)
    for_images, for_weight = torch.autograd.grad(expected, exact, gradient.double())
    assert distance(kernels.convolve(images, weight), expected.detach()) < TOLERANCE
    assert distance(kernels.convolve_back(gradient, weight), for_images) < TOLERANCE
    assert distance(kernels.convolve_weight(images, gradient), for_weight) < TOLERANCE


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


def test_the_pass_replaces_what_is_small_and_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    monkeypatch.setattr(small_convolutions, "DEVICES", (DEVICE,))
    monkeypatch.setattr(small_convolutions, "DTYPE", DTYPE)
    targets: list[str] = []

    def replaced(module: torch.fx.GraphModule, _inputs: object) -> object:
        SmallConvolutions()(module.graph)
        module.graph.lint()
        module.recompile()
        targets.extend(str(node.target) for node in module.graph.nodes)
        return make_boxed_func(module.forward)

    torch.manual_seed(0)
    network = Network().to(DEVICE, DTYPE)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    images = normal(2, 3, 8, 6).requires_grad_()
    wanted = [images, *network.parameters()]
    change = torch.randn(2, 64, device=DEVICE, dtype=DTYPE)
    compiled = torch.compile(network, backend=aot_autograd(fw_compiler=replaced))
    answers = []
    for each in (compiled, network):
        output = each(images)
        answers.append((output.detach(), *torch.autograd.grad(output, wanted, change)))
    for ours, theirs in zip(*answers, strict=True):
        assert distance(ours, theirs) < 4 * TOLERANCE
    names = ("convolve", "convolve_back", "convolve_weight")
    assert [targets.count(f"maxmahal.{name}.default") for name in names] == [2, 2, 2]
    assert targets.count("aten.convolution.default") == 4
    assert targets.count("aten.convolution_backward.default") == 4
