"""Square attack (Andriushchenko et al. 2020): random search that changes one square window at a time, by queries alone.

Every sample draws its own windows; no query is spent on a window that would leave the image as it is.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from maxmahal.attacks.checks import check_patience, check_threat
from maxmahal.attacks.engine import DEFAULT_ENGINE, Case, Engine, LabelSource, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.objectives import MARGIN, Objective
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.result import Result
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import L2, LEAST_NORM, Images, Linf, as_ball, norms, per_sample
from maxmahal.errors import ArgumentError, check_count
from maxmahal.random import derive, signs, uniform


@dataclass(frozen=True)
class Windows:
    """A window per sample: where each row and column of the image lies in it, and which pixels are inside."""

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


def tiles(ids: Int[Tensor, " n"], channels: int, size: tuple[int, int], side: int, *key: int | str) -> Images:
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
    """Σ 1/m² over m = d + 1, …, n + 1 at the distance d from the centre, n half the longer side (the paper's eq. 2)."""
    rows, columns = torch.arange(height) - height // 2, torch.arange(width) - width // 2
    distances = torch.maximum(rows.abs()[:, None], columns.abs()[None, :])
    inverse_squares = 1 / torch.arange(1, max(height, width) // 2 + 2).square()
    tails = inverse_squares.flip(0).cumsum(0).flip(0)
    values = tails[distances]
    return values / values.norm().clamp_min(1e-30)


# After so many of 10,000 queries the share of the pixels in a window is halved (the paper's section 5).
_HALVINGS = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)


def square(
    model: Model,
    images: Images,
    labels: Int[Tensor, " n"],
    threat: Linf | L2 | str | float,
    *,
    objective: Objective = MARGIN,
    queries: int = 5000,
    p_init: float = 0.8,
    patience: int | None = None,
    seed: int = 0,
    sample_ids: Int[Tensor, " n"] | None = None,
    targets: Targets = None,
    label_source: LabelSource = "true",
    restarts: int = 1,
    engine: Engine = DEFAULT_ENGINE,
) -> Result:
    """Images inside the threat that make ``objective`` small, found by asking the model and nothing else.

    ``queries`` are those of one sample in one restart, besides one look at the clean image. ``p_init`` is the share of
    the pixels that the first windows cover; the paper's schedule of shrinking it is stretched over ``queries``. With a
    ``patience`` a sample is given up once its fall over so many queries, if it went on, would not break it in time.
    """
    threat = as_ball(threat, "square")
    check_patience(patience, objective)
    check_threat(threat, images)
    method = RandomSquares(threat, queries, p_init, seed, patience)
    case = Case(images, labels, seed, sample_ids, targets, label_source)
    return run(method, model, case, objective=objective, engine=engine, restarts=restarts, threat=threat)


@dataclass(frozen=True)
class RandomSquares:
    """Look at a proposal, keep it if it is better, propose a change in another window; each step is one query."""

    threat: Linf | L2
    steps: int
    p_init: float
    seed: int
    patience: int | None = None

    def __post_init__(self) -> None:
        check_count("queries", self.steps)
        if not 0 < self.p_init <= 1:
            raise ArgumentError(f"p_init must lie in (0, 1], being a share of the pixels; got {self.p_init}.")

    def begin(self, samples: Samples, attempt: int) -> State:
        """Stripes for Linf, tiles for L2, of random signs."""
        ids, images, key = derive(samples.ids, torch.full_like(samples.ids, attempt)), samples.images, "square-start"
        _, channels, height, width = images.shape
        if isinstance(self.threat, Linf):  # every column at one end of its range
            change = self.threat.radius * signs(ids, (channels, 1, width), key, self.seed).to(images.dtype)
        else:  # five tiles of bumps along the shorter side, as long together as the threat allows
            side = max(min(height, width) // 5, 1)
            change = tiles(ids, channels, (height, width), side, key, self.seed).to(images.dtype)
            change = per_sample(self.threat.radius / norms(change).clamp_min(LEAST_NORM)) * change
        start = self.threat.project(images, images + change)
        values = torch.full_like(start[:, 0, 0, 0], torch.inf)
        taken = torch.zeros_like(samples.labels)
        return {"moved": start, "best": start, "value": values, "checked": values, "ids": ids, "taken": taken}

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        """One query."""
        seen = state["moved"]
        look = oracle.look(seen, samples)
        values = look.values.to(seen.dtype)
        better = values < state["value"]
        state["best"] = torch.where(per_sample(better), seen, state["best"])
        state["value"] = torch.where(better, values, state["value"])
        ids = derive(state["ids"], state["taken"])
        places = 10_000 * state["taken"] // self.steps
        levels = (places[:, None] > torch.tensor(_HALVINGS, device=places.device)).sum(dim=1)
        propose = self._push_window if isinstance(self.threat, Linf) else self._move_mass
        state["moved"] = propose(samples.images, state["best"], ids, levels)
        state["taken"] = state["taken"] + 1
        return Trial(seen, look.predictions, look.values, (state["taken"] >= self.steps) | self._gives_up(state))

    def _gives_up(self, state: State) -> Bool[Tensor, " n"]:
        """Whether the value would still be above zero at the end if it went on falling as in the last queries."""
        if self.patience is None:
            return torch.zeros_like(state["taken"], dtype=torch.bool)
        due = state["taken"] % self.patience == 0
        fall = state["checked"] - state["value"]  # infinite at the first check, where no sample stops
        state["checked"] = torch.where(due, state["value"], state["checked"])
        return due & (self.patience * state["value"] > (self.steps - state["taken"]) * fall)

    def final(self, state: State) -> None:
        """Nothing: the budget is spent, and what the last step proposed stays unseen."""

    def _push_window(self, images: Images, best: Images, ids: Tensor, levels: Tensor) -> Images:
        """Each channel of the window to one end of its range (the paper's algorithm 2)."""
        _, channels, height, width = images.shape
        sides = torch.tensor(window_sides(self.p_init, height, width, odd=False), device=ids.device)[levels]
        inside = draw_windows(ids, sides, (height, width), "square", self.seed).inside
        upwards = signs(ids, (channels, 1, 1), "square-signs", self.seed) > 0
        low, high = (self.threat.project(images, images + end * self.threat.radius) for end in (-1, 1))
        changes = inside & (torch.where(upwards, high, low) != best)
        idle = ~changes.flatten(1).any(dim=1)
        upwards = upwards ^ per_sample(idle)  # the opposite of what is there already
        return torch.where(inside, torch.where(upwards, high, low), best)

    def _move_mass(self, images: Images, best: Images, ids: Tensor, levels: Tensor) -> Images:
        """Take the change of one window away, and use it in another window, with a bump added (algorithm 3)."""
        _, channels, height, width = images.shape
        known = window_sides(self.p_init, height, width, odd=True)
        sides = torch.tensor(known, device=ids.device)[levels]
        here = draw_windows(ids, sides, (height, width), "square", self.seed)
        there = draw_windows(ids, sides, (height, width), "square-emptied", self.seed)
        turned = signs(ids, (), "square-turn", self.seed) > 0
        bump = here.lookup(patterns(known, images.device)[levels], turned).to(images.dtype)
        drawn = signs(ids, (channels, 1, 1), "square-signs", self.seed).to(images.dtype)

        change = best - images
        direction = drawn * bump + _unit(change * here.inside)
        unused = (self.threat.radius**2 - per_sample(norms(change)).square()).clamp_min(0)
        available = (_lengths(change * (here.inside | there.inside)).square() + unused / channels).sqrt()
        rest = torch.where(there.inside, 0.0, change)
        return self.threat.project(images, images + torch.where(here.inside, _unit(direction) * available, rest))


def window_sides(p_init: float, height: int, width: int, *, odd: bool) -> tuple[int, ...]:
    """The side of a window after each halving: the root of its share of the pixels; odd and at least 3 for L2."""
    sides = []
    for halvings in range(len(_HALVINGS) + 1):
        side = max(round((p_init / 2**halvings * height * width) ** 0.5), 3 if odd else 1)
        side += odd and side % 2 == 0
        sides.append(min(side, height, width))
    return tuple(sides)


def _lengths(changes: Images) -> Float[Tensor, "n c 1 1"]:
    """The Euclidean norm of each channel."""
    return torch.linalg.vector_norm(changes, dim=(2, 3), keepdim=True)


def _unit(changes: Images) -> Images:
    """Each channel at length 1; 0 where it is 0."""
    return changes / _lengths(changes).clamp_min(1e-30)
