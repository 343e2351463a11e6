"""Feed changed files to the readers: ``python -m tests.fuzz.run --reader npz --seed 7 --count 10000``.

Prints a table of inputs and failures per reader, and each cause of failures with an input that shows it, which
``--only NAME`` repeats. ``--costs`` prints what each input of the corpus takes.
"""

import argparse
import importlib
import json
import math
import os
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.harness import Failure
from tests.fuzz.readers import READERS, make_examples
from tests.processes import Started

CODE = "from tests.fuzz.harness import main; main()"


@dataclass
class Outcome:
    """What the inputs of one reader did."""

    reader: str
    seed: int
    inputs: int
    seconds: float = 0.0
    failures: list[tuple[str, Failure]] = field(default_factory=list)
    """With the name of the input."""
    costs: dict[str, tuple[float, int]] = field(default_factory=dict)
    """The seconds and bytes of each input that came to an end."""

    def explain(self) -> str:
        """One line per cause, with the first input that shows it."""
        first: dict[tuple[str, str], tuple[str, Failure]] = {}
        for name, failure in self.failures:
            first.setdefault((failure.kind, failure.place), (name, failure))
        counts = Counter((failure.kind, failure.place) for _, failure in self.failures)
        return "".join(
            f"{self.reader}: {failure.kind} at {failure.place or '?'} ({counts[cause]}x): {failure.message} "
            f"[--reader {self.reader} --seed {self.seed} --only '{name}']\n"
            for cause, (name, failure) in first.items()
        )


def fuzz(
    reader: str,
    seed: int,
    count: int,
    examples: Path,
    only: str | None = None,
    *,
    table: str = "tests.fuzz.readers",
) -> Outcome:
    """Read the corpus and ``count`` changed files; where a process dies or hangs, another one goes on."""
    entry = importlib.import_module(table).READERS[reader]
    keys = [only] if only else [*entry.known, *map(str, range(round(count * entry.share)))]
    outcome, started = Outcome(reader, seed, len(keys)), time.perf_counter()
    while keys:
        process = Started(CODE, table, reader, seed, examples)
        process.stdin.write(json.dumps(keys) + "\n")
        process.stdin.flush()
        begun = ""
        for line in process.stdout:
            begun, *ended = json.loads(line)
            if ended:
                keys.remove(begun)
                outcome.failures += [(begun, Failure(**each)) for each in ended[0]]
                outcome.costs[begun] = ended[1], ended[2]
                begun = ""
        _, errors = process.communicate()
        if keys and (not begun or "most recent call last" in errors):
            raise RuntimeError(f"The process that reads {reader} failed at {begun or 'its start'}: {errors}")
        if begun:
            keys.remove(begun)
            outcome.failures.append((begun, _death(process.returncode, errors)))
    outcome.seconds = time.perf_counter() - started
    return outcome


def _death(code: int | None, errors: str) -> Failure:
    """What faulthandler wrote before the end."""
    frames = [line for line in errors.splitlines() if "/maxmahal/" in line]
    place = frames[0].rpartition("/maxmahal/")[2].replace('", line ', ":").partition(" ")[0] if frames else ""
    first = errors.strip().partition("\n")[0][:200]
    return Failure("hangs" if "Timeout" in first else f"process dies with {code}", place, first)


def to_markdown(outcomes: list[Outcome]) -> str:
    """The table: reader × inputs × failures × seconds."""
    lines = ["| reader | seed | inputs | failures | seconds |", "|---|---|---|---|---|"]
    for each in outcomes:
        lines.append(f"| {each.reader} | {each.seed} | {each.inputs:,} | {len(each.failures)} | {each.seconds:.0f} |")
    inputs, failures = sum(each.inputs for each in outcomes), sum(len(each.failures) for each in outcomes)
    lines.append(f"| all | | {inputs:,} | {failures} | {sum(each.seconds for each in outcomes):.0f} |")
    return "\n".join(lines) + "\n"


def costs_to_markdown(outcome: Outcome) -> str:
    """What each input of the corpus takes; NaN if it did not end."""
    rows = []
    for name in READERS[outcome.reader].known:
        seconds, most = outcome.costs.get(name, (math.nan, 0))
        rows.append(f"| {outcome.reader} | {name} | {seconds:.2f} s | {most >> 20} MiB |\n")
    return "".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", action="append", choices=READERS, help="may be given several times (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300, help="changed files per reader, fewer where one is slow")
    parser.add_argument("--only", help="one input by its name")
    parser.add_argument("--costs", action="store_true", help="what each input of the corpus takes")
    parser.add_argument("--out", type=Path, help="write the table to this file")
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as workers:
        examples = Path(folder)
        make_examples(examples)

        def work(name: str) -> Outcome:
            return fuzz(name, options.seed, options.count, examples, options.only)

        for outcome in workers.map(work, options.reader or READERS):
            outcomes.append(outcome)
            sys.stdout.write(f"{outcome.reader}: {outcome.inputs} inputs, {outcome.seconds:.0f} s\n{outcome.explain()}")
            sys.stdout.write(costs_to_markdown(outcome) if options.costs else "")
            sys.stdout.flush()
    sys.stdout.write("\n" + to_markdown(outcomes))
    if options.out:
        options.out.write_text(to_markdown(outcomes))
    sys.exit(any(each.failures for each in outcomes))


if __name__ == "__main__":
    main()
