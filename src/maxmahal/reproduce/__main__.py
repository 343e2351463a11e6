"""``python -m maxmahal.reproduce NAME``: the command ``maxmahal reproduce`` for machines without typer and rich."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from maxmahal.errors import MaxmahalError
from maxmahal.reproduce.grid import list_grids
from maxmahal.reproduce.plan import OUT, plan_grid
from maxmahal.reproduce.reporter import GridLines, plan_lines, result_lines
from maxmahal.reproduce.runner import Deadline, default_jobs, parse_budget, run_plan

INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """The exit code: 0; 1 if a cell failed or is impossible; 2 after a user's mistake; 130 after Ctrl-C."""
    arguments = _parser().parse_args(words)
    try:
        return _run(arguments)
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("maxmahal: stopped; finished work is saved, and the same command continues.\n")
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    deadline = None if arguments.budget is None else Deadline.after(parse_budget(arguments.budget))
    if arguments.grid is None or arguments.list:
        _print([f"{name}: {about}" for name, about in list_grids()])
        return 0
    plan = plan_grid(
        arguments.grid,
        out=arguments.out,
        device=arguments.device,
        overrides=arguments.set,
        data_dir=arguments.data_dir,
    )
    if arguments.dry_run:
        _print(plan_lines(plan, arguments.jobs or default_jobs(plan.device)))
        return 0
    reporter = GridLines(quiet=arguments.quiet)
    outcome = run_plan(plan, jobs=arguments.jobs, deadline=deadline, reporter=reporter)
    _print(result_lines(plan, outcome))
    return 0 if outcome.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m maxmahal.reproduce", description=__doc__)
    parser.add_argument("grid", nargs="?", help="a grid's name or a .toml file; without it, list the grids")
    parser.add_argument("--out", type=Path, default=Path(OUT), help="folder of runs, records, logs and the report")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dry-run", action="store_true", help="print what is done and what is missing; start nothing")
    parser.add_argument("--budget", help="stop within this time: 90s, 8m, 1h30m")
    parser.add_argument("--jobs", type=int, help="parallel workers (default: 1 on the CPU, 3 on a GPU)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of every training"
    )
    parser.add_argument("--list", action="store_true", help="list the grids")
    parser.add_argument("--quiet", action="store_true", help="print only the summary")
    return parser


def _print(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
