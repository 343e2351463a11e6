"""A small convolutional network for digits and MNIST."""

from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.models.layers import feature_layer, initialise


class SmallCNN(nn.Module):
    """Four 3x3 convolutions with batch norm, two poolings, a hidden layer and the feature layer."""

    def __init__(
        self,
        *,
        in_channels: int = 1,
        image_size: tuple[int, int] = (28, 28),
        feature_dim: int | None = 64,
        width: int = 16,
    ) -> None:
        super().__init__()
        height, length = image_size[0] // 4, image_size[1] // 4
        if height < 1 or length < 1:
            raise ArgumentError(f"The small CNN halves images twice, so they must be at least 4x4; got {image_size}.")

        def block(channels_in: int, channels_out: int) -> list[nn.Module]:
            conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
            return [conv, nn.BatchNorm2d(channels_out), nn.ReLU()]

        self.layers = nn.Sequential(
            *block(in_channels, width),
            *block(width, width),
            nn.MaxPool2d(2),
            *block(width, 2 * width),
            *block(2 * width, 2 * width),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * width * height * length, 4 * width, bias=False),
            nn.BatchNorm1d(4 * width),
            nn.ReLU(),
        )
        self.feature, self.feature_dim = feature_layer(4 * width, feature_dim)
        initialise(self)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors."""
        return self.feature(self.layers(images))
