"""The architecture of the paper's released code: ResNet v2 with bottlenecks (n=5: 47 layers, n=18: 164)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.layers import feature_layer, initialise


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)  # Keras's defaults, which the released code uses


class Bottleneck(nn.Module):
    """Pre-activation 1x1, 3x3, 1x1, all with biases.

    The first block of a stage has a bare 1x1 projection of its raw input as shortcut; the very first one of the network
    also skips the batch norm before its first convolution, because the stem has just done it.
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
        out: Tensor = self.shortcut(x) + y
        return out


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
        features: Tensor = self.feature(F.relu(self.bn_last(x)).mean(dim=(2, 3)))
        return features
