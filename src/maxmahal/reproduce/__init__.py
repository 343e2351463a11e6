"""Grids of trainings and evaluations: planned, run several at once, stopped and resumed at any moment."""

from maxmahal.reproduce.grid import Grid, GridEvaluation, GridModel, grid_names, load_grid
from maxmahal.reproduce.plan import Cell, Plan, Row, make_plan
from maxmahal.reproduce.runner import Outcome, run_plan
from maxmahal.reproduce.watch import PlainLines, Quiet, Watcher, plan_lines

__all__ = [
    "Cell",
    "Grid",
    "GridEvaluation",
    "GridModel",
    "Outcome",
    "PlainLines",
    "Plan",
    "Quiet",
    "Row",
    "Watcher",
    "grid_names",
    "load_grid",
    "make_plan",
    "plan_lines",
    "run_plan",
]
