"""Figures of the density theory: each is ``compute_…`` -> a record that JSON can hold, and ``draw_…`` -> SVG.

Figure 1 of the paper sets SCE beside MMC, Figure 2 shows where g-SCE and the center loss send samples. The third has
no counterpart there: what both theorems predict, in the paper's form and exactly, against counted samples.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maxmahal.density.drawing import Board, Panel, Scale
from maxmahal.density.planes import panel
from maxmahal.density.trial import Outcome, Trial, chi_square, gsce_trial, mmc_trial, run_trial
from maxmahal.files import write_text_atomically

Record = dict[str, Any]
_SIDE, _GAP, _LEFT, _TOP = 270.0, 62.0, 58.0, 56.0


def compute_figure1(seed: int = 0) -> Record:
    """How samples move and where density goes under SCE and under MMC (paper Figure 1)."""
    panels = [panel(name, seed, steps=25, step_size=0.1, extent=5.0) for name in ("SCE", "MMC")]
    return {"figure": "figure1", "seed": seed, "title": "Samples follow their loss: SCE and MMC", "panels": panels}


def draw_figure1(record: Record) -> str:
    """SVG of ``compute_figure1``."""
    return draw_contours(record)


def compute_figure2(seed: int = 0) -> Record:
    """Where g-SCE with unequal precisions and the center loss send samples, against MMC (paper Figure 2)."""
    panels = [panel(name, seed, steps=25, step_size=0.1, extent=6.0) for name in ("g-SCE", "SCE + center", "MMC")]
    return {"figure": "figure2", "seed": seed, "title": "What lower loss asks for: away, or together", "panels": panels}


def draw_figure2(record: Record) -> str:
    """SVG of ``compute_figure2``."""
    return draw_contours(record)


def draw_contours(record: Record) -> str:
    """Panels side by side: level sets and descent of class 0's loss, samples before (rings) and after (dots)."""
    panels: Sequence[Record] = record["panels"]
    board = Board(record["title"], _LEFT + len(panels) * (_SIDE + _GAP), _TOP + _SIDE + 92)
    for place, each in enumerate(panels):
        extent = float(each["field"]["extent"])
        scale = Scale(-extent, extent)
        frame = Panel(board, scale, scale, _LEFT + place * (_SIDE + _GAP), _TOP, _SIDE, _SIDE)
        _draw_plane(frame, each)
        change = each["log_density_after"] - each["log_density_before"]
        frame.heading(each["loss"])
        frame.below(f"median density within a class: × {_power(change)}")
    board.legend(["class 0", "class 1", "class 2"], _LEFT, _TOP + _SIDE + 70)
    board.note("lines: equal loss of class 0; arrows: its descent; rings before, dots after", _LEFT, _TOP + _SIDE + 88)
    return board.render()


def compute_densities(seed: int = 0, dim: int = 8, samples: int = 200_000, shells: int = 9) -> Record:
    """Both theorems in a random setting each: counts, exact density, and the paper's power with its constant fitted."""
    panels = [
        _trial_record(trial, run_trial(trial, samples=samples, shells=shells))
        for trial in (gsce_trial(dim, seed), mmc_trial(dim, seed))
    ]
    return {
        "figure": "densities",
        "seed": seed,
        "dim": dim,
        "title": f"Sample density against loss in {dim} dimensions: counted, exact, and the paper's power",
        "panels": panels,
    }


def draw_densities(record: Record) -> str:
    """For each theorem the density against C, and below it everything as a ratio to the exact prediction."""
    low_height, gap = 150.0, 64.0
    board = Board(record["title"], _LEFT + 2 * (1.3 * _SIDE + _GAP), _TOP + _SIDE + low_height + gap + 84)
    for place, each in enumerate(record["panels"]):
        left = _LEFT + place * (1.3 * _SIDE + _GAP)
        places = Scale.around(each["losses"], log=True)
        levels = [*each["log_counted"], *each["log_exact"], *each["log_paper"]]
        above = Panel(board, places, Scale.around(levels), left, _TOP, 1.3 * _SIDE, _SIDE)
        above.heading(each["about"])
        above.axes("loss C", "log density" if place == 0 else "")
        order = sorted(range(len(each["losses"])), key=lambda index: float(each["losses"][index]))
        for slot, key in ((0, "log_exact"), (1, "log_paper")):
            above.line([(each["losses"][index], each[key][index]) for index in order], slot)
        for x, y in zip(each["losses"], each["log_counted"], strict=True):
            above.dot(x, y, 2)
        ratios, top = Scale.around(_ratios(each)), _TOP + _SIDE + gap
        below = Panel(board, places, ratios, left, top, 1.3 * _SIDE, low_height)
        _draw_ratios(below, each, order, place)
    names = ["exact: N·p(C)/|dV/dC|", "the paper's power, constant fitted", "counted, ± 3 standard errors"]
    board.legend(names, _LEFT, _TOP + _SIDE + gap + low_height + 66)
    return board.render()


def write_record(record: Record, path: Path) -> None:
    """The record as a file that figures can be drawn from again."""
    write_text_atomically(path, json.dumps(record) + "\n")


def _trial_record(trial: Trial, outcome: Outcome) -> Record:
    fitted = outcome.paper_expected.log() - outcome.log_volumes
    exact, paper = chi_square(outcome.counts, outcome.expected), chi_square(outcome.counts, outcome.paper_expected, 1)
    return {
        "about": trial.about,
        "samples": outcome.samples,
        "losses": outcome.losses.tolist(),
        "counts": outcome.counts.tolist(),
        "log_counted": (outcome.counts.double().log() - outcome.log_volumes).tolist(),
        "relative_errors": outcome.expected.rsqrt().tolist(),
        "log_exact": outcome.log_exact.tolist(),
        "log_paper": fitted.tolist(),
        "exact_chi_square": exact[0],
        "exact_p_value": exact[1],
        "paper_chi_square": paper[0],
        "paper_p_value": paper[1],
    }


def _draw_plane(frame: Panel, record: Record) -> None:
    field = record["field"]
    for each in field["levels"]:
        for line in each["lines"]:
            frame.line(line, 7, thin=True)
    reach = 0.06 * float(field["extent"])
    for (x, y), (down_x, down_y) in zip(field["places"], field["descent"], strict=True):
        length = (down_x**2 + down_y**2) ** 0.5
        if length > 1e-3:  # where the loss is flat to the eye there is no direction
            frame.arrow(x, y, x + reach * down_x / length, y + reach * down_y / length)
    for (x, y), label in zip(record["before"], record["labels"], strict=True):
        frame.ring(x, y, label)
    for (x, y), label in zip(record["after"], record["labels"], strict=True):
        frame.dot(x, y, label)
    for x, y in record["centers"]:
        frame.cross(x, y)


def _ratios(record: Record) -> list[float]:
    values = [1.0]
    for counted, exact, paper, error in zip(
        record["log_counted"], record["log_exact"], record["log_paper"], record["relative_errors"], strict=True
    ):
        values += [_times(counted - exact) + 3 * error, _times(counted - exact) - 3 * error, _times(paper - exact)]
    return values


def _draw_ratios(frame: Panel, record: Record, order: Sequence[int], place: int) -> None:
    frame.axes("loss C", "ratio to exact" if place == 0 else "")
    losses, exact = record["losses"], record["log_exact"]
    frame.line([(losses[index], 1.0) for index in order], 0)
    frame.line([(losses[index], _times(record["log_paper"][index] - exact[index])) for index in order], 1)
    for x, counted, predicted, error in zip(
        losses, record["log_counted"], exact, record["relative_errors"], strict=True
    ):
        ratio = _times(counted - predicted)
        frame.bar(x, ratio - 3 * error, ratio + 3 * error, 2)
        frame.dot(x, ratio, 2)


def _times(log_ratio: float) -> float:
    return math.exp(log_ratio)


def _power(log_ratio: float) -> str:
    return f"{_times(log_ratio):.3g}" if abs(log_ratio) < 13 else f"10^{log_ratio / math.log(10):.0f}"
