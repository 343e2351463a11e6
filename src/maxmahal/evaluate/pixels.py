"""Adversarial images as files: float32 as found, and 8-bit PNG that stays inside the threat."""

import io
import math
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from maxmahal.attacks import L2, Linf
from maxmahal.files import write_atomically
from maxmahal.records.types import Columns


def round_to_bytes(
    clean: Float[Tensor, "n c h w"], moved: Float[Tensor, "n c h w"], threat: Linf | L2 | None
) -> UInt8[Tensor, "n c h w"]:
    """The images rounded to 8 bits without leaving the ball, if any."""
    origin = (clean * 255).round()
    change = (moved - clean) * 255
    if isinstance(threat, Linf):
        most = math.floor(threat.radius * 255 + 1e-6)
        change = change.round().clamp(-most, most)
    elif threat is None:
        change = change.round()
    else:
        nearest = change.round()
        inside = nearest.flatten(1).norm(dim=1) <= threat.radius * 255
        change = torch.where(inside[:, None, None, None], nearest, change.trunc())
    return (origin + change).clamp(0, 255).to(torch.uint8)


def save_chunk(
    folder: Path,
    number: int,
    clean: Float[Tensor, "n c h w"],
    moved: Float[Tensor, "n c h w"],
    columns: Columns,
    threat: Linf | L2 | None,
    within: Path,
) -> None:
    """The broken samples of a chunk: one .npz of float32 images, and a PNG of bytes for each; no link leads out."""
    from PIL import Image  # only if images are saved

    rows = columns.broken.nonzero()[0]
    if not len(rows):
        return
    chosen = torch.from_numpy(rows).to(moved.device)
    stream = io.BytesIO()
    facts = {name: getattr(columns, name)[rows] for name in ("sample", "label", "prediction")}
    np.savez(stream, images=moved[chosen].cpu().numpy(), **facts)
    write_atomically(folder / f"chunk-{number:05d}.npz", lambda path: path.write_bytes(stream.getvalue()), within)
    if moved.shape[1] not in (1, 3):
        return  # no PNG has two channels; the .npz has the images
    rounded = round_to_bytes(clean[chosen], moved[chosen], threat).cpu().numpy()
    for image, sample in zip(rounded, columns.sample[rows].tolist(), strict=True):
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        write_atomically(folder / f"sample-{sample:06d}.png", partial(picture.save, format="PNG"), within)
