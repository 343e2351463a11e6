"""The last perturbation of every training image, from which the next epoch goes on (ATTA, Zheng et al. 2020)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor
from torch.nn import functional as F

from maxmahal.attacks import Linf
from maxmahal.attacks.threats import Images
from maxmahal.data import ImageData
from maxmahal.data.augment import MOVES

_LARGEST = 127
_NEW = -128
"""The code of a value that no attack has changed yet."""


class Perturbations:
    """δ of every image before augmentation, one byte per value: round(127·δ/ε)."""

    def __init__(self, data: ImageData, augment: str, epsilon: float) -> None:
        self.codes: Int8[Tensor, "m c h w"] = torch.full_like(data.images, _NEW, dtype=torch.int8)
        self.epsilon, self._moves = epsilon, MOVES[augment]

    def of(self, rows: Int[Tensor, " n"], uniforms: Float[Tensor, "n 3"]) -> "LastPerturbations":
        """Those of the images in these rows, seen through their augmentation."""
        height, width = self.codes.shape[2:]
        pixels = torch.arange(1, height * width + 1, device=rows.device).view(1, 1, height, width)
        places = self._moves(pixels.expand(len(rows), 1, height, width), uniforms)
        return LastPerturbations(self, rows, places.flatten(2).expand(-1, self.codes.shape[1], -1))


@dataclass(frozen=True)
class LastPerturbations:
    """The perturbations of one batch, in the frame of its augmented images."""

    perturbations: Perturbations
    rows: Int[Tensor, " n"]
    places: Int[Tensor, "n c p"]
    """The pixel of the image before augmentation that each pixel shows, from 1; 0 is outside."""

    def start(self, images: Images, threat: Linf, random_start: Images) -> Images:
        """The images as last perturbed, inside ``threat``; the random start where a pixel was not attacked yet."""
        codes = self._padded().gather(2, self.places).view(images.shape)
        moved = images + codes * (self.perturbations.epsilon / _LARGEST)
        return torch.where(codes == _NEW, random_start, threat.project(images, moved))

    def keep(self, perturbations: Float[Tensor, "n c h w"]) -> None:
        """Remember these; what the augmentation cut off stays as it was."""
        scaled = perturbations * (_LARGEST / self.perturbations.epsilon)
        codes = scaled.round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
        changed = self._padded().scatter(2, self.places, codes.flatten(2))[:, :, 1:]
        self.perturbations.codes[self.rows] = changed.view_as(codes)

    def _padded(self) -> Int8[Tensor, "n c q"]:
        """The codes of each image in one row, after one for everything outside it."""
        return F.pad(self.perturbations.codes[self.rows].flatten(2), (1, 0), value=_NEW)
