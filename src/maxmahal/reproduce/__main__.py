"""``python -m maxmahal.reproduce NAME``: the command in plain lines, for machines without typer and rich."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from maxmahal.errors import MaxmahalError
from maxmahal.reproduce.budget import Deadline, parse_budget
from maxmahal.reproduce.call import OUT, last_words, list_grids, plan_from_words
from maxmahal.reproduce.runner import default_jobs, run_plan
from maxmahal.reproduce.watch import PlainLines, Quiet, plan_lines

INTERRUPTED = 130


def main(words: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 where a cell failed or is impossible, 2 after a mistake in one sentence, 130 after Ctrl-C."""
    arguments = _parser().parse_args(words)
    try:
        return _run(arguments)
    except MaxmahalError as error:
        sys.stderr.write(f"maxmahal: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("maxmahal: stopped; what was finished is saved, and the same command goes on.\n")
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    deadline = None if arguments.budget is None else Deadline.after(parse_budget(arguments.budget))
    if arguments.grid is None or arguments.list:
        _say([f"{name}: {about}" for name, about in list_grids()])
        return 0
    plan = plan_from_words(
        arguments.grid,
        out=arguments.out,
        device=arguments.device,
        overrides=arguments.set,
        data_dir=arguments.data_dir,
    )
    if arguments.dry_run:
        _say(plan_lines(plan, arguments.jobs or default_jobs(plan.device)))
        return 0
    watcher = Quiet() if arguments.quiet else PlainLines()
    outcome = run_plan(plan, jobs=arguments.jobs, deadline=deadline, watcher=watcher)
    _say(last_words(plan, outcome))
    return 0 if outcome.whole else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m maxmahal.reproduce", description=__doc__)
    parser.add_argument("grid", nargs="?", help="a grid's name or a .toml file; none lists them")
    parser.add_argument("--out", type=Path, default=Path(OUT), help="runs, records, logs and the report go there")
    parser.add_argument("--data-dir", type=Path, help="where the data sets lie")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dry-run", action="store_true", help="say what is done and what is missing; start nothing")
    parser.add_argument("--budget", help="stop before so much time is over: 90s, 8m, 1h30m")
    parser.add_argument("--jobs", type=int, help="how many at once (default: 1 on the CPU, 3 on a GPU)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting everywhere")
    parser.add_argument("--list", action="store_true", help="list the grids")
    parser.add_argument("--quiet", action="store_true", help="print only what came of it")
    return parser


def _say(lines: list[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
