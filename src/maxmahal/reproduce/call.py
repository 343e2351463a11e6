"""What the command line and ``python -m maxmahal.reproduce`` share: from words to a plan, and the last words."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.errors import SettingsError
from maxmahal.reproduce.devices import choose_device
from maxmahal.reproduce.grid import grid_names, load_grid
from maxmahal.reproduce.plan import Cell, Plan, make_plan
from maxmahal.reproduce.runner import Outcome
from maxmahal.reproduce.watch import describe, duration

OUT = "runs/reproduce"


def list_grids() -> list[tuple[str, str]]:
    """Name and purpose of every shipped grid."""
    return [(name, load_grid(name).about) for name in grid_names()]


def plan_from_words(
    grid: str,
    *,
    out: str | Path = OUT,
    device: str = "auto",
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> Plan:
    """The plan of a call as it was typed."""
    if str(out) == ".":
        raise SettingsError("--out would fill the current folder; name one, such as --out runs/reproduce.")
    chosen = choose_device(device)
    return make_plan(load_grid(grid), out, device=chosen, overrides=overrides, data_dir=data_dir)


def last_words(plan: Plan, outcome: Outcome) -> list[str]:
    """What came of it, what is left, and how to go on."""
    lines = []
    if outcome.failed:
        lines += [f"failed: {key}: {text}" for key, text in outcome.failed.items()]
        again = outcome.failed.keys() - {cell.key for cell in outcome.impossible}
        lines.append(f"The logs lie in {plan.out / 'logs'}{'; the same command tries again' if again else ''}.")
    lines += [f"{cell.row} {cell.column}: {describe(cell)}." for cell in outcome.impossible]
    stopped = [cell for cell in outcome.left if cell.key not in outcome.failed]
    if outcome.left:
        seconds = sum(_seconds_left(cell) for cell in outcome.left)
        names = ", ".join(f"{cell.row} {cell.column}" for cell in outcome.left[:4])
        more = f" and {len(outcome.left) - 4} more" if len(outcome.left) > 4 else ""
        lines.append(f"Left to do, about {duration(seconds)}: {names}{more}.")
        if stopped and not outcome.failed:
            lines.append("The same command goes on.")
    if outcome.page is not None:
        lines.append(f"The report, to open in a browser: {outcome.page}")
    return lines


def _seconds_left(cell: Cell) -> float:
    """Of what was planned for the rest of a cell, the part that this call has not done."""
    before, now = 1 - cell.state.share, 1 - cell.look().share
    return cell.seconds * now / before if before else 0.0
