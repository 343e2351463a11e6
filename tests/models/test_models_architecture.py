"""The networks against published parameter counts, the released code's layout, and forwards written out by hand."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.centers import max_mahalanobis_centers
from maxmahal.errors import ArgumentError
from maxmahal.losses import MMC, SCE
from maxmahal.models import BACKBONES, Classifier, ResNet18, ResNetV1, ResNetV2, SmallCNN


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def count(module: nn.Module, *kinds: type) -> int:
    return sum(isinstance(part, kinds) for part in module.modules())


@pytest.mark.parametrize(("blocks", "expected"), [(5, 1_453_376), (18, 5_004_768)])
def test_the_released_feature_nets_have_its_parameter_counts(blocks: int, expected: int) -> None:
    assert parameters(ResNetV2(blocks)) == expected


def test_the_released_net_with_softmax_has_its_parameter_count() -> None:
    assert parameters(Classifier(ResNetV2(5), SCE(num_classes=10, feature_dim=256))) == 1_455_946


@pytest.mark.parametrize(("blocks", "expected"), [(5, 464_154), (18, 1_727_962)])
def test_resnets_of_he_et_al_have_their_published_counts(blocks: int, expected: int) -> None:
    backbone = ResNetV1(blocks, feature_dim=None)
    assert backbone.feature_dim == 64
    assert parameters(backbone) + parameters(nn.Linear(64, 10)) == expected


def test_resnet18_has_its_usual_count() -> None:
    backbone = ResNet18(feature_dim=None)
    assert backbone.feature_dim == 512
    assert parameters(backbone) + parameters(nn.Linear(512, 10)) == 11_173_962


@pytest.mark.parametrize(("blocks", "layers"), [(5, 32), (18, 110)])
def test_resnet_32_and_110_have_as_many_layers_as_their_names_say(blocks: int, layers: int) -> None:
    assert count(ResNetV1(blocks, feature_dim=None), nn.Conv2d, nn.Linear) == layers - 1  # the head is the last
    assert count(ResNetV1(blocks), nn.Linear) == 1


def test_damped_stages_add_about_what_they_get_however_deep_and_are_the_deep_networks() -> None:
    def grown(blocks: int, *, damped: bool) -> float:
        torch.manual_seed(0)
        net = ResNetV1(blocks, feature_dim=None, damped=damped)
        stem = F.relu(net.bn(net.conv(torch.rand(8, 3, 32, 32))))
        return float((net.blocks[:blocks](stem).square().mean() / stem.square().mean()).detach())

    assert grown(4, damped=True) == pytest.approx(grown(18, damped=True), rel=0.25)
    assert grown(18, damped=False) > 2 * grown(4, damped=False)
    deep = {name: net for name in BACKBONES if (net := BACKBONES[name]((3, 32, 32), 8)) and isinstance(net, ResNetV1)}
    starts = {name: bool(net.blocks[0].bn2.weight.detach().mean() < 1) for name, net in deep.items()}
    assert starts == {"resnet32": False, "resnet110": True, "resnet32wide": False, "resnet110wide": True}


@pytest.mark.parametrize("name", ["resnet110", "resnet110wide"])
def test_a_deep_network_takes_its_first_steps_towards_centers_without_diverging(name: str) -> None:
    torch.manual_seed(0)
    model = Classifier(BACKBONES[name]((3, 32, 32), 256), MMC(centers=max_mahalanobis_centers(10, 256, norm=10.0)))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images, labels = torch.rand(16, 3, 32, 32), torch.arange(16) % 10
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        loss = model.loss(images, labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses
    assert max(losses) < 1.5 * losses[0], losses


def test_a_widened_network_pools_more_values_and_is_otherwise_the_same() -> None:
    torch.manual_seed(0)
    narrow = ResNetV1(1, feature_dim=None)
    torch.manual_seed(0)
    wide = ResNetV1(1, feature_dim=None, widened=100)
    assert (narrow.feature_dim, wide.feature_dim) == (64, 100)
    assert parameters(wide) - parameters(narrow) == 64 * 100 + 2 * 100
    ours, theirs = wide.state_dict(), narrow.state_dict()
    assert {name for name in ours if name not in theirs} == {name for name in ours if name.startswith("widen.")}
    assert all(ours[name].shape == theirs[name].shape for name in theirs)
    images = torch.rand(120, 3, 8, 8)
    with torch.no_grad():
        before = wide.eval().blocks(F.relu(wide.bn(wide.conv(images))))
        widened = F.conv2d(before, wide.widen[0].weight) / (1 + wide.widen[1].eps) ** 0.5  # fresh statistics: 0 and 1
        torch.testing.assert_close(wide(images), F.relu(widened).mean(dim=(2, 3)))
        assert torch.linalg.matrix_rank(wide(images)) > 64  # the ReLU makes dimensions, which a linear layer does not


@pytest.mark.parametrize(("blocks", "layers"), [(5, 47), (18, 164)])
def test_the_released_nets_have_47_and_164_layers_besides_three_projections(blocks: int, layers: int) -> None:
    network = ResNetV2(blocks)
    assert count(network, nn.Conv2d, nn.Linear) == layers + 3


SHAPES = [(name, (3, 32, 32)) for name in sorted(BACKBONES)]
SHAPES += [(name, (1, 28, 28)) for name in ("cnn", "resnet32", "resnet47v2", "resnet18")] + [("cnn", (1, 8, 8))]


@pytest.mark.parametrize(("name", "shape"), SHAPES)
def test_every_network_ends_in_the_feature_space(name: str, shape: tuple[int, int, int]) -> None:
    backbone = BACKBONES[name](shape, 7).eval()
    with torch.no_grad():
        assert backbone(torch.rand(2, *shape)).shape == (2, 7)
    assert backbone.feature_dim == 7


@pytest.mark.parametrize("build", [lambda: ResNetV1(1), lambda: ResNetV2(1), lambda: SmallCNN(in_channels=3)])
def test_features_can_be_negative_because_the_last_layer_is_linear(build: Callable[[], nn.Module]) -> None:
    network = build()
    assert isinstance(network.feature, nn.Linear)
    assert network.feature.bias is not None
    size = 28 if isinstance(network, SmallCNN) else 16
    with torch.no_grad():
        assert (network(torch.rand(4, 3, size, size)) < 0).any()


def test_the_small_cnn_takes_any_image_of_at_least_4x4() -> None:
    with torch.no_grad():
        network = SmallCNN(image_size=(4, 9), feature_dim=None)
        assert network(torch.rand(2, 1, 4, 9)).shape == (2, network.feature_dim)
    with pytest.raises(ArgumentError, match=r"at least 4x4; got \(3, 28\)"):
        SmallCNN(image_size=(3, 28))


def test_convolutions_start_with_he_et_als_variance() -> None:
    for network in (ResNetV1(5), ResNetV2(5), ResNet18(), SmallCNN()):
        for conv in network.modules():
            if isinstance(conv, nn.Conv2d) and conv.weight.numel() > 2000:
                fan_in = conv.weight[0].numel()
                assert float(conv.weight.detach().var()) == pytest.approx(2 / fan_in, rel=0.2)
            if isinstance(conv, nn.Conv2d) and conv.bias is not None:
                assert not conv.bias.any()


def shake(network: nn.Module) -> nn.Module:
    """Double precision, evaluation mode, and batch norms and biases with values that make every mistake visible."""
    generator = torch.Generator().manual_seed(0)
    network.double().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            shape = module.weight.shape
            module.running_mean.copy_(0.3 * torch.randn(shape, generator=generator))
            module.running_var.copy_(0.5 + torch.rand(shape, generator=generator))
            module.weight.data = 0.5 + torch.rand(shape, generator=generator).double()
            module.bias.data = 0.3 * torch.randn(shape, generator=generator).double()
        elif isinstance(module, nn.Conv2d) and module.bias is not None:
            module.bias.data = 0.3 * torch.randn(module.bias.shape, generator=generator).double()
    return network


def norm(x: Tensor, bn: nn.BatchNorm2d) -> Tensor:
    scale = bn.weight / (bn.running_var + bn.eps).sqrt()
    return (x - bn.running_mean[:, None, None]) * scale[:, None, None] + bn.bias[:, None, None]


def conv(x: Tensor, layer: nn.Conv2d, stride: int = 1) -> Tensor:
    return F.conv2d(x, layer.weight, layer.bias, stride, padding=layer.weight.shape[-1] // 2)


IMAGES = torch.rand(3, 3, 12, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_the_released_net_is_what_its_code_computes() -> None:
    network = shake(ResNetV2(2))
    x = norm(conv(IMAGES, network.conv), network.bn).relu()
    for index, block in enumerate(network.blocks):
        stage, first = divmod(index, 2)[0], index % 2 == 0
        stride = 2 if first and stage > 0 else 1
        y = x if index == 0 else norm(x, block.bn1).relu()  # the very first block has no BN-ReLU before it
        y = conv(y, block.conv1, stride)  # the stride is in the first 1x1
        y = conv(norm(y, block.bn2).relu(), block.conv2)
        y = conv(norm(y, block.bn3).relu(), block.conv3)
        x = (conv(x, block.shortcut, stride) if first else x) + y  # the projection is bare, on the raw input
    pooled = norm(x, network.bn_last).relu().mean(dim=(2, 3))
    expected = pooled @ network.feature.weight.T + network.feature.bias
    torch.testing.assert_close(network(IMAGES), expected)


def test_the_released_nets_layers_are_those_of_its_code() -> None:
    network = ResNetV2(5)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            assert module.bias is not None
        if isinstance(module, nn.BatchNorm2d):
            assert (module.eps, module.momentum) == (1e-3, 0.1)
    assert count(network.blocks[0], nn.BatchNorm2d) == 2
    assert all(count(block, nn.BatchNorm2d) == 3 for block in network.blocks[1:])
    shapes = [
        tuple((layer.kernel_size[0], layer.in_channels, layer.out_channels, layer.stride[0]) for layer in convs)
        for block in network.blocks
        if (convs := [block.conv1, block.conv2, block.conv3])
    ]
    for stage, (inner, width, before) in enumerate([(16, 64, 16), (64, 128, 64), (128, 256, 128)]):
        stride = 1 if stage == 0 else 2
        assert shapes[5 * stage] == ((1, before, inner, stride), (3, inner, inner, 1), (1, inner, width, 1))
        assert set(shapes[5 * stage + 1 : 5 * stage + 5]) == {
            ((1, width, inner, 1), (3, inner, inner, 1), (1, inner, width, 1))
        }
        projection = network.blocks[5 * stage].shortcut
        assert isinstance(projection, nn.Conv2d)
        assert projection.kernel_size == (1, 1)
        assert (projection.in_channels, projection.out_channels, projection.stride[0]) == (before, width, stride)
        assert all(parameters(block.shortcut) == 0 for block in network.blocks[5 * stage + 1 : 5 * stage + 5])
    assert (network.feature.in_features, network.feature.out_features) == (256, 256)


def padded_shortcut(x: Tensor, channels: int, stride: int) -> Tensor:
    """Option A of He et al.: every second pixel, and zero channels on both sides of the old ones."""
    n, old, height, width = x.shape
    out = torch.zeros(n, channels, -(-height // stride), -(-width // stride), dtype=x.dtype)
    start = (channels - old) // 2
    for row in range(out.shape[2]):
        for column in range(out.shape[3]):
            out[:, start : start + old, row, column] = x[:, :, row * stride, column * stride]
    return out


def test_resnet_v1_is_he_et_als() -> None:
    network = shake(ResNetV1(2, feature_dim=5))
    x = norm(conv(IMAGES, network.conv), network.bn).relu()
    for index, block in enumerate(network.blocks):
        width, stride = (16, 32, 64)[index // 2], 2 if index in (2, 4) else 1
        residual = norm(conv(norm(conv(x, block.conv1, stride), block.bn1).relu(), block.conv2), block.bn2)
        x = (padded_shortcut(x, width, stride) + residual).relu()
    expected = x.mean(dim=(2, 3)) @ network.feature.weight.T + network.feature.bias
    torch.testing.assert_close(network(IMAGES), expected)


def test_the_padded_shortcut_on_a_case_small_enough_to_read() -> None:
    block = next(block for block in ResNetV1(1).blocks if block.conv1.stride == (2, 2)).eval()
    assert (block.conv1.in_channels, block.conv1.out_channels) == (16, 32)
    nn.init.zeros_(block.bn2.weight)  # silences the residual
    image = torch.arange(1.0, 10.0).reshape(1, 1, 3, 3).repeat(1, 16, 1, 1)
    image[:, 3] *= -1
    with torch.no_grad():
        out = block(image)
    kept = torch.tensor([[1.0, 3.0], [7.0, 9.0]])
    for channel in range(32):
        inside = 8 <= channel < 24 and channel != 8 + 3  # a negative input dies in the last ReLU
        assert torch.equal(out[0, channel], kept if inside else torch.zeros(2, 2))


def test_resnet_18_is_the_usual_cifar_form() -> None:
    network = shake(ResNet18(feature_dim=None))
    x = norm(conv(IMAGES, network.conv), network.bn).relu()
    assert x.shape[2:] == (12, 12)
    for index, block in enumerate(network.blocks):
        stride = 2 if index in (2, 4, 6) else 1
        residual = norm(conv(norm(conv(x, block.conv1, stride), block.bn1).relu(), block.conv2), block.bn2)
        if index in (2, 4, 6):
            projection, bn = block.shortcut
            x = norm(conv(x, projection, stride), bn)
        x = (x + residual).relu()
    torch.testing.assert_close(network(IMAGES), x.mean(dim=(2, 3)))
    assert network(IMAGES).shape == (3, 512)
