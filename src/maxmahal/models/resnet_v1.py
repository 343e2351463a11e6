"""The CIFAR residual networks of He et al. that the paper's text names: ResNet-32 and ResNet-110."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.layers import feature_layer, initialise


class BasicBlock(nn.Module):
    """Two 3x3 convolutions; where the shape changes, the shortcut subsamples and pads with zero channels."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.stride = stride
        self.extra_channels = channels_out - channels_in

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        """relu(shortcut + residual)."""
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride] if self.stride > 1 else x
        if self.extra_channels:
            before = self.extra_channels // 2
            shortcut = F.pad(shortcut, (0, 0, 0, 0, before, self.extra_channels - before))
        return F.relu(shortcut + residual)


class ResNetV1(nn.Module):
    """6n+2 layers: a 3x3 stem, three stages of n basic blocks at widths 16, 32, 64, global average pooling.

    ``feature_dim`` adds the linear layer that carries the pooled 64 values to the feature space; None leaves it out.
    A linear layer makes no dimensions: from 64 values, features never leave a flat of 64 dimensions, and the centers
    of 100 classes span 99. ``widened`` adds a 1x1 convolution to so many channels before the pooling.

    ``damped`` starts the last norm of each block at 1/√n in place of 1, so that a stage adds about as much as it gets.
    Undamped, eighteen blocks a stage add up to features of length 37, and the squared distances of MMC diverge in a few
    steps at the learning rate that suits five. From 0 (Goyal et al. 2017) the deep networks learn more slowly
    than the shallow ones.
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
        features: Tensor = self.feature(x.mean(dim=(2, 3)))
        return features
