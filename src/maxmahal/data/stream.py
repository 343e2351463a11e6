"""Data sets that stay on disk: an evaluation reads each image when it is needed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.data.decode import ImageSource, Sizing, decode, decode_all
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError

_AT_ONCE = 1024  # images whose decoded bytes wait to be copied


@dataclass(frozen=True, kw_only=True, repr=False)
class StreamedData(ImageData):
    """Images on disk. ``images`` has their shape and no content (torch's "meta" device); ``to`` reads them.

    A subset stays on disk, too. The sample ids are the numbers that ``place`` takes.
    """

    place: Callable[[int], ImageSource]
    """Where the image of that number is."""
    first_name: str
    """What sets the size of the images."""
    sizing: Sizing | None = None

    @classmethod
    def describe(
        cls,
        name: str,
        labels: Int[Tensor, " n"],
        class_names: Sequence[str],
        place: Callable[[int], ImageSource],
        *,
        first: ImageSource | None = None,
        sizing: Sizing | None = None,
    ) -> "StreamedData":
        """Only one image is read, ``first`` or number 0: it sets the size, and whether the data are grey."""
        first = place(0) if first is None else first
        shape = decode(first, sizing=sizing).shape
        return cls(
            name=name,
            images=torch.empty(len(labels), *shape, dtype=torch.uint8, device="meta"),
            labels=labels,
            class_names=tuple(class_names),
            sample_ids=torch.arange(len(labels)),
            place=place,
            first_name=first.name,
            sizing=sizing,
        )

    def to(self, device: torch.device | str) -> ImageData:
        """The images in memory, on a device."""
        images = torch.empty(self.images.shape, dtype=torch.uint8)
        places = [self.place(number) for number in self.sample_ids.tolist()]
        for start in range(0, len(places), _AT_ONCE):
            some = places[start : start + _AT_ONCE]
            for row, pixels in enumerate(decode_all(some, self.image_shape[0] == 3, self.sizing), start):
                if pixels.shape != self.image_shape:
                    _, height, width = self.image_shape
                    raise DataError(
                        f"{places[row].name} is {pixels.width}x{pixels.height} pixels but {self.first_name} is "
                        f"{width}x{height}; make all images the same size, or scale and crop them (NAME@256-224)."
                    )
                flat = np.frombuffer(pixels.content, np.uint8)
                images.numpy()[row] = flat.reshape(pixels.height, pixels.width, -1).transpose(2, 0, 1)
        known = {each.name: getattr(self, each.name) for each in fields(ImageData)}
        return ImageData(**(known | {"images": images})).to(device)

    def float_images(self) -> Float[Tensor, "n c h w"]:
        """All of them, read and in [0, 1]."""
        return self.to("cpu").float_images()
