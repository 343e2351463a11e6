"""Folding batch norm changes nothing but the rounding, and happens only where it may."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.attacks.prepare.folding import find_foldable, fold
from maxmahal.models import BACKBONES

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def randomise(network: nn.Module) -> nn.Module:
    """Weights and statistics as different from their initial values as training could make them, always the same."""
    generator = torch.Generator().manual_seed(0)

    def fill(tensor: Tensor | None, low: float, high: float) -> None:
        if tensor is not None:
            tensor.data.copy_(low + (high - low) * torch.rand(tensor.shape, generator=generator))

    for module in network.modules():
        if isinstance(module, NORMS):
            fill(module.running_mean, -0.5, 0.5)
            fill(module.running_var, 0.3, 3)
            fill(module.weight, 0.5, 1.5)
            fill(module.bias, -0.5, 0.5)
        elif isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)):
            width = (6 / module.weight[0].numel()) ** 0.5
            fill(module.weight, -width, width)
            fill(module.bias, -0.5, 0.5)
    return network


def answers(network: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """The output, and the gradient of a fixed mixture of it."""
    images = images.clone().requires_grad_()
    output = network(images)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
    return output.detach(), torch.autograd.grad((output * weights).sum(), images)[0]


def assert_folds_exactly(network: nn.Module, images: Tensor, *, folded: int, of: int) -> None:
    """In float64 rounding hides nothing, and no ReLU is so close to zero that it turns."""
    network, images = randomise(network).eval().double(), images.double()
    expected = answers(network, images)
    foldable = find_foldable(network)
    assert (len(foldable.pairs), foldable.batch_norms) == (folded, of)
    fold(network, foldable.pairs)
    assert sum(isinstance(module, NORMS) for module in network.modules()) == of - folded
    for value, wanted in zip(answers(network, images), expected, strict=True):
        assert (value - wanted).abs().max() <= 1e-10 * wanted.abs().max()


IMAGES = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))

FOLDED = {  # of so many batch norms; those before an activation in ResNet v2 have no convolution to go to
    "cnn": (5, 5),
    "resnet32": (31, 31),
    "resnet110": (109, 109),
    "resnet32wide": (32, 32),
    "resnet110wide": (110, 110),
    "resnet47v2": (31, 46),
    "resnet164v2": (109, 163),
    "resnet18": (20, 20),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", BACKBONES)
def test_every_backbone_folds_exactly(name: str) -> None:
    folded, count = FOLDED[name]
    assert_folds_exactly(BACKBONES[name]((3, 8, 8), 16), IMAGES, folded=folded, of=count)


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ([nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)], (2, 3, 8, 8)),
        ([nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, affine=False)], (2, 3, 8, 8)),
        ([nn.Conv2d(3, 6, 3, groups=3, padding=1, padding_mode="circular"), nn.BatchNorm2d(6)], (2, 3, 8, 8)),
        ([nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6, eps=0.1)], (2, 3, 8)),
        ([nn.Conv3d(3, 6, 3), nn.BatchNorm3d(6)], (2, 3, 4, 4, 4)),
        ([nn.Linear(3, 6), nn.BatchNorm1d(6)], (2, 3)),
        ([nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6, affine=False)], (2, 3)),
    ],
    ids=["no bias", "not affine", "groups", "1-D", "3-D", "linear", "linear, not affine"],
)
def test_every_kind_of_layer_folds_exactly(layers: list[nn.Module], shape: tuple[int, ...]) -> None:
    images = torch.linspace(-1, 1, 500)[: torch.Size(shape).numel()].view(shape)
    assert_folds_exactly(nn.Sequential(*layers, nn.ReLU()), images, folded=1, of=1)


def test_weights_are_rounded_once_and_nothing_else_changes() -> None:
    network = randomise(nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6))).eval()
    conv, norm = copy.deepcopy(network).double()
    scale = norm.weight / (norm.running_var + norm.eps).sqrt()
    fold(network, find_foldable(network).pairs)
    torch.testing.assert_close(network[0].weight, (conv.weight * scale[:, None, None, None]).float(), rtol=1e-7, atol=0)
    assert isinstance(network[1], nn.Identity)
    assert network[0].weight.dtype == torch.float32
    assert not any(parameter.requires_grad for parameter in network.parameters())


class Net(nn.Module):
    """conv -> bn, called as a test wants."""

    def __init__(self, call: Callable[["Net", Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.other, self.last = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self, x)


def output_read_twice(net: Net, x: Tensor) -> Tensor:
    y = net.conv(x)
    return net.bn(y) + y


def output_changed_in_place(net: Net, x: Tensor) -> Tensor:
    y = net.conv(x)
    y.relu_()
    return net.bn(y)


def convolution_shared(net: Net, x: Tensor) -> Tensor:
    return net.bn(net.conv(x)) + net.conv(x)


def batch_norm_shared(net: Net, x: Tensor) -> Tensor:
    return net.bn(net.conv(x)) + net.bn(net.other(x))


def both_called_twice(net: Net, x: Tensor) -> Tensor:
    return net.bn(net.conv(net.bn(net.conv(x))))


def weight_read_elsewhere(net: Net, x: Tensor) -> Tensor:
    return net.bn(net.conv(x)) * net.conv.weight.mean()


def statistics_read_elsewhere(net: Net, x: Tensor) -> Tensor:
    return net.bn(net.conv(x)) * net.bn.running_var.mean()


def activation_between(net: Net, x: Tensor) -> Tensor:
    return net.bn(F.relu(net.conv(x)))


@pytest.mark.parametrize(
    "call",
    [
        output_read_twice,
        output_changed_in_place,
        convolution_shared,
        batch_norm_shared,
        both_called_twice,
        weight_read_elsewhere,
        statistics_read_elsewhere,
        activation_between,
    ],
)
def test_what_is_read_elsewhere_is_not_folded(call: Callable[[Net, Tensor], Tensor]) -> None:
    assert_folds_exactly(Net(call), IMAGES, folded=0, of=2)


def plain(net: Net, x: Tensor) -> Tensor:
    return net.last(net.other(F.relu(net.bn(net.conv(x)))))


class CustomConv(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).abs()


class UnopenedConv(CustomConv):
    __module__ = "torch.nn.custom"  # a trace does not look into modules from there


def without_statistics(net: Net) -> None:
    net.bn = nn.BatchNorm2d(3, track_running_stats=False)


def in_training(net: Net) -> None:
    net.bn.eval = lambda: net.bn
    net.bn.train()
    net.bn.train = lambda mode=True: net.bn


def under_two_names(net: Net) -> None:
    net.again = net.bn


def subclassed(net: Net) -> None:
    net.conv = CustomConv(3, 3, 3, padding=1)


def subclassed_in_torch(net: Net) -> None:
    net.conv = UnopenedConv(3, 3, 3, padding=1)


def patched(net: Net) -> None:
    real = net.conv.forward
    net.conv.forward = lambda x: real(x).abs()


def hooked_convolution(net: Net) -> None:
    net.conv.register_forward_hook(lambda module, args, output: output.abs())


def hooked_batch_norm(net: Net) -> None:
    net.bn.register_forward_pre_hook(lambda module, args: (args[0].abs(),))


def reparametrised(net: Net) -> None:
    nn.utils.parametrizations.weight_norm(net.conv)


def transposed(net: Net) -> None:
    net.conv = nn.ConvTranspose2d(3, 3, 3, padding=1)


@pytest.mark.parametrize(
    "change",
    [
        without_statistics,
        in_training,
        under_two_names,
        subclassed,
        subclassed_in_torch,
        patched,
        hooked_convolution,
        hooked_batch_norm,
        reparametrised,
        transposed,
    ],
)
def test_layers_that_are_not_plain_stay_and_their_neighbours_fold(change: Callable[[Net], None]) -> None:
    net = Net(plain)
    change(net)
    assert_folds_exactly(net, IMAGES, folded=1, of=2)


def test_a_linear_layer_over_another_dimension_is_not_folded() -> None:
    network = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(3))
    assert_folds_exactly(network, torch.linspace(-1, 1, 48).view(2, 3, 8), folded=0, of=1)


class Untraceable(nn.Module):
    """Looks at values, which a trace has not."""

    def __init__(self, *blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.conv, self.bn = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x) if x.sum() > 0 else block(-x)
        return self.bn(self.conv(x))


def block() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())


def test_parts_are_folded_where_the_whole_cannot_be_traced() -> None:
    network = Untraceable(block(), Untraceable(block()), block())
    assert_folds_exactly(network, IMAGES, folded=3, of=5)
    reason = find_foldable(Untraceable(block())).untraced
    assert reason is not None
    assert reason.startswith("TraceError: ")
    assert "\n" not in reason


def test_hooks_never_see_a_stand_in() -> None:
    seen = []
    network = nn.Sequential(block(), block(), nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3))
    network[0].register_forward_hook(lambda module, args, output: seen.append(output))
    network.register_forward_hook(lambda module, args, output: seen.append(output))
    assert len(find_foldable(network.eval()).pairs) == 3
    assert not seen
    assert_folds_exactly(network, IMAGES, folded=3, of=3)
    assert seen


def test_looking_changes_nothing() -> None:
    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.kept = block(), None

        def forward(self, x: Tensor) -> Tensor:
            self.kept = self.layers(x)
            return self.kept

    network = randomise(Keeping()).eval()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    modules = list(network.modules())
    assert len(find_foldable(network).pairs) == 1
    assert network.kept is None
    assert list(network.modules()) == modules
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_weights_shared_with_another_layer_are_left_to_it() -> None:
    net = Net(plain)
    net.other = nn.Conv2d(3, 3, 3, padding=1)
    net.other.weight = net.conv.weight
    assert_folds_exactly(net, IMAGES, folded=2, of=2)
