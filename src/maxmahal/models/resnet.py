"""Residual networks for CIFAR: ResNet-32 and ResNet-110 of the paper's text, those of its released code, ResNet-18."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.layers import feature_layer, initialise


class _TwoConvolutions(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)

    def residual(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        return self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))


class BasicBlock(_TwoConvolutions):
    """Two 3x3 convolutions; where the shape changes, the shortcut subsamples and pads with zero channels."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__(channels_in, channels_out, stride)
        self.stride = stride
        self.extra_channels = channels_out - channels_in

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        """relu(shortcut + residual)."""
        shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
        if self.extra_channels:
            before = self.extra_channels // 2
            shortcut = F.pad(shortcut, (0, 0, 0, 0, before, self.extra_channels - before))
        return F.relu(shortcut + self.residual(x))


class ResNetV1(nn.Module):
    """6n+2 layers: a 3x3 stem, three stages of n basic blocks at widths 16, 32, 64, global average pooling.

    ``feature_dim`` adds the linear layer from the pooled 64 values to the feature space; None leaves it out. From 64
    values features span 64 dimensions, and the centers of 100 classes 99: ``widened`` adds a 1x1 convolution to so many
    channels before the pooling. ``damped`` starts the last norm of each block at 1/√n in place of 1: otherwise eighteen
    blocks a stage add up to long features, and the squared distances of MMC diverge.
    """

    def __init__(
        self,
        blocks: int,
        *,
        in_channels: int = 3,
        feature_dim: int | None = 256,
        widened: int | None = None,
        damped: bool = False,
    ) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        stages: list[BasicBlock] = []
        channels = 16
        for width in (16, 32, 64):
            for block in range(blocks):
                stride = 2 if block == 0 and width > 16 else 1
                stages.append(BasicBlock(channels, width, stride))
                channels = width
        self.blocks = nn.Sequential(*stages)
        self.widen: nn.Module | None = None  # and no nn.Identity, which would change the fingerprint of older models
        if widened is not None:
            convolution = nn.Conv2d(channels, widened, 1, bias=False)
            self.widen = nn.Sequential(convolution, nn.BatchNorm2d(widened), nn.ReLU())
            channels = widened
        self.feature, self.feature_dim = feature_layer(channels, feature_dim)
        initialise(self)
        if damped:
            for start in stages:
                nn.init.constant_(start.bn2.weight, blocks**-0.5)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors."""
        x = self.blocks(F.relu(self.bn(self.conv(images))))
        if self.widen is not None:
            x = self.widen(x)
        return self.feature(x.mean(dim=(2, 3)))


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    # As in the released code but for the momentum of its running statistics, 0.01: in adversarial training they lagged
    # behind the weights, and images crafted with them no longer fooled the network in training mode.
    return nn.BatchNorm2d(channels, eps=1e-3)


class Bottleneck(nn.Module):
    """Pre-activation 1x1, 3x3, 1x1, all with biases.

    The first block of a stage projects its raw input by a 1x1 convolution as shortcut; the very first one of the
    network skips the batch norm before its first convolution, because the stem has just done it.
    """

    def __init__(self, channels_in: int, inner: int, channels_out: int, stride: int, *, first: bool, very_first: bool):
        super().__init__()
        self.bn1 = nn.Identity() if very_first else _batch_norm(channels_in)
        self.conv1 = nn.Conv2d(channels_in, inner, 1, stride)
        self.bn2 = _batch_norm(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, padding=1)
        self.bn3 = _batch_norm(inner)
        self.conv3 = nn.Conv2d(inner, channels_out, 1)
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride) if first else nn.Identity()

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        """shortcut + residual."""
        y = self.conv1(F.relu(self.bn1(x)))
        y = self.conv2(F.relu(self.bn2(y)))
        y = self.conv3(F.relu(self.bn3(y)))
        return self.shortcut(x) + y


class ResNetV2(nn.Module):
    """Three stages of ``blocks`` bottlenecks, outputs 64, 128, 256; BN-ReLU-pool; a linear feature layer."""

    def __init__(self, blocks: int, *, in_channels: int = 3, feature_dim: int | None = 256) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 16, 3, padding=1)
        self.bn = _batch_norm(16)
        stages: list[nn.Module] = []
        channels = 16
        for stage, (inner, width) in enumerate(((16, 64), (64, 128), (128, 256))):
            for block in range(blocks):
                first = block == 0
                stride = 2 if first and stage > 0 else 1
                very_first = first and stage == 0
                stages.append(Bottleneck(channels, inner, width, stride, first=first, very_first=very_first))
                channels = width
        self.blocks = nn.Sequential(*stages)
        self.bn_last = _batch_norm(channels)
        self.feature, self.feature_dim = feature_layer(channels, feature_dim)
        initialise(self)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors."""
        x = self.blocks(F.relu(self.bn(self.conv(images))))
        return self.feature(F.relu(self.bn_last(x)).mean(dim=(2, 3)))


class ProjectionBlock(_TwoConvolutions):
    """Two 3x3 convolutions; where the shape changes, the shortcut is a 1x1 convolution with batch norm."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__(channels_in, channels_out, stride)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels_in != channels_out:
            projection = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels_out))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        """relu(shortcut + residual)."""
        return F.relu(self.shortcut(x) + self.residual(x))


class ResNet18(nn.Module):
    """Two blocks in each of four stages; ``feature_dim`` None leaves the 512 pooled values as features."""

    def __init__(self, *, in_channels: int = 3, feature_dim: int | None = 256) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, 64, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(64)
        stages: list[nn.Module] = []
        channels = 64
        for width in (64, 128, 256, 512):
            stages.append(ProjectionBlock(channels, width, stride=2 if width > 64 else 1))
            stages.append(ProjectionBlock(width, width, stride=1))
            channels = width
        self.blocks = nn.Sequential(*stages)
        self.feature, self.feature_dim = feature_layer(channels, feature_dim)
        initialise(self)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors."""
        x = self.blocks(F.relu(self.bn(self.conv(images))))
        return self.feature(x.mean(dim=(2, 3)))
