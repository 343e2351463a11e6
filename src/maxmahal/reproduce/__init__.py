"""Grids of trainings and evaluations: planned, run in parallel, stopped and resumed at any time."""

from maxmahal.reproduce.grid import Grid, GridEvaluation, GridModel, grid_names, list_grids, load_grid
from maxmahal.reproduce.plan import GridOutcome, GridPlan, PlanCell, make_plan
from maxmahal.reproduce.reporter import GridLines, GridReporter, plan_lines, result_lines
from maxmahal.reproduce.runner import Deadline, default_jobs, parse_budget, run_plan

__all__ = [
    "Deadline",
    "Grid",
    "GridEvaluation",
    "GridLines",
    "GridModel",
    "GridOutcome",
    "GridPlan",
    "GridReporter",
    "PlanCell",
    "default_jobs",
    "grid_names",
    "list_grids",
    "load_grid",
    "make_plan",
    "parse_budget",
    "plan_lines",
    "result_lines",
    "run_plan",
]
