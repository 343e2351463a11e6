"""ResNet-18 in its usual CIFAR form: a 3x3 stem without pooling, four stages from 64 to 512 channels."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from maxmahal.models.layers import feature_layer, initialise


class ProjectionBlock(nn.Module):
    """Two 3x3 convolutions; where the shape changes, the shortcut is a 1x1 convolution with batch norm."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or channels_in != channels_out:
            projection = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels_out))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k i j"]:
        """relu(shortcut + residual)."""
        residual = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(self.shortcut(x) + residual)


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
        features: Tensor = self.feature(x.mean(dim=(2, 3)))
        return features
