"""Square windows and bumps for Square attack: one of its own for each sample, all sizes in one batch."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.random import signs, uniform


@dataclass(frozen=True)
class Windows:
    """A window a sample: where each row and column of the image lies in it, and which pixels are inside."""

    rows: Int[Tensor, "n h"]
    columns: Int[Tensor, "n w"]
    inside: Bool[Tensor, "n 1 h w"]

    def lookup(self, table: Float[Tensor, "n s s"], turned: Bool[Tensor, " n"]) -> Float[Tensor, "n 1 h w"]:
        """Each sample's square put into its window, transposed where ``turned``; 0 outside."""
        last = table.shape[1] - 1
        rows, columns = self.rows.clamp(0, last)[:, :, None], self.columns.clamp(0, last)[:, None, :]
        turn = turned[:, None, None]
        samples = torch.arange(len(table), device=table.device)[:, None, None]
        values = table[samples, torch.where(turn, columns, rows), torch.where(turn, rows, columns)]
        return torch.where(self.inside, values[:, None], 0.0)


def draw_windows(ids: Int[Tensor, " n"], sides: Int[Tensor, " n"], size: tuple[int, int], *key: int | str) -> Windows:
    """A window of each sample's side, at any place where it fits into the image."""
    height, width = size
    room = torch.stack([height - sides, width - sides], dim=1)
    # In float64, because a product just below a whole number rounds up to it in float32.
    corners = (uniform(ids, (2,), *key, "corner").double() * (room + 1)).long()
    rows = torch.arange(height, device=ids.device) - corners[:, :1]
    columns = torch.arange(width, device=ids.device) - corners[:, 1:]
    in_rows, in_columns = ((places >= 0) & (places < sides[:, None]) for places in (rows, columns))
    return Windows(rows, columns, (in_rows[:, :, None] & in_columns[:, None, :])[:, None])


def tiles(
    ids: Int[Tensor, " n"], channels: int, size: tuple[int, int], side: int, *key: int | str
) -> Float[Tensor, "n c h w"]:
    """The image covered with bumps of one side, each turned at random, with a random sign in each channel."""
    rows, columns = (torch.arange(length, device=ids.device) for length in size)
    grid = (-(-size[0] // side), -(-size[1] // side))
    drawn = signs(ids, (channels, *grid), *key, "signs")[:, :, rows // side][:, :, :, columns // side]
    turned = signs(ids, grid, *key, "turns")[:, rows // side][:, :, columns // side] > 0
    pattern = patterns((side,), ids.device)[0]
    upright = pattern[(rows % side)[:, None], (columns % side)[None, :]]
    across = pattern[(columns % side)[None, :], (rows % side)[:, None]]
    return drawn * torch.where(turned, across, upright)[:, None]


@lru_cache(maxsize=16)
def patterns(sides: tuple[int, ...], device: torch.device) -> Float[Tensor, "k s s"]:
    """For each side a positive half above a negative one, at length 1; smaller ones in the corner of the largest."""
    table = torch.zeros(len(sides), max(sides), max(sides))
    for entry, side in zip(table, sides, strict=True):
        halves = torch.cat([_bump(side // 2, side), -_bump(side - side // 2, side)])
        entry[:side, :side] = halves / halves.norm()
    return table.to(device)


def _bump(height: int, width: int) -> Float[Tensor, "a b"]:
    """Σ 1/m² over m = d + 1, …, n + 1 at the distance d from the centre, in rows or columns, whichever is more.

    n is half the longer side (the paper's equation 2); the whole at length 1.
    """
    rows, columns = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    distances = torch.maximum(rows.abs()[:, None], columns.abs()[None, :])
    inverse_squares = 1 / torch.arange(1, max(height, width) // 2 + 2).square()
    tails = inverse_squares.flip(0).cumsum(0).flip(0)
    values = tails[distances]
    unit: Tensor = values / values.norm().clamp_min(1e-30)
    return unit
