"""Feed changed files to the readers: ``python -m tests.fuzz.run --reader npz --seed 7 --count 10000``.

Prints a table of inputs and failures per reader, and what failed with the input's name; ``--only NAME`` repeats one.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.harness import SECONDS, Failure
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

    def explain(self) -> str:
        """One line per cause, with the first input that shows it."""
        first: dict[tuple[str, str], tuple[str, Failure]] = {}
        for name, failure in self.failures:
            first.setdefault((failure.kind, failure.place), (name, failure))
        counts = Counter((failure.kind, failure.place) for _, failure in self.failures)
        return "\n".join(
            f"{self.reader}: {failure.kind} at {failure.place or '?'} ({counts[cause]}x): {failure.message} "
            f"[--reader {self.reader} --seed {self.seed} --only '{name}']"
            for cause, (name, failure) in first.items()
        )


def fuzz(reader: str, seed: int, count: int, examples: Path, only: str | None = None) -> Outcome:
    """Read the corpus and ``count`` changed files; a process that dies or hangs is one failure, and the next goes on."""
    numbers = range(max(1, round(count * READERS[reader].share)))
    keys = [only] if only else [*READERS[reader].known, *map(str, numbers)]
    outcome, started = Outcome(reader, seed, len(keys)), time.perf_counter()
    while keys:
        process = Started(CODE, reader, seed, examples)
        process.stdin.write(json.dumps(keys) + "\n")
        process.stdin.flush()
        begun = ""
        for line in process.stdout:
            begun, found = json.loads(line)
            if found is not None:
                keys.remove(begun)
                outcome.failures += [(begun, Failure(**each)) for each in found]
                begun = ""
        _, errors = process.communicate()
        if begun:
            keys.remove(begun)
            outcome.failures.append((begun, _death(process.returncode, errors)))
        elif keys:
            raise RuntimeError(f"{reader}: the process ended before the first input: {errors}")
    outcome.seconds = time.perf_counter() - started
    return outcome


def _death(code: int | None, errors: str) -> Failure:
    """What faulthandler wrote before the end."""
    frames = [line.strip() for line in errors.splitlines() if "/maxmahal/" in line]
    place = frames[0].rpartition("/maxmahal/")[2].replace('", line ', ":").partition(" ")[0] if frames else ""
    kind = f"hangs over {SECONDS} s" if "Timeout" in errors else f"process dies with {code}"
    return Failure(kind, place, errors.strip().partition("\n")[0][:200])


def to_markdown(outcomes: list[Outcome]) -> str:
    """The table: reader × inputs × failures × seconds."""
    lines = ["| reader | seed | inputs | failures | seconds |", "|---|---|---|---|---|"]
    for each in outcomes:
        lines.append(f"| {each.reader} | {each.seed} | {each.inputs:,} | {len(each.failures)} | {each.seconds:.0f} |")
    failures, seconds = sum(len(each.failures) for each in outcomes), sum(each.seconds for each in outcomes)
    return "\n".join([*lines, f"| all | | {sum(each.inputs for each in outcomes):,} | {failures} | {seconds:.0f} |"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reader", action="append", choices=READERS, help="may be given several times (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=300, help="changed files per reader")
    parser.add_argument("--only", help="one input by its name")
    parser.add_argument("--out", type=Path, help="write the table to this file")
    options = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        make_examples(Path(folder))
        for reader in options.reader or READERS:
            outcomes.append(fuzz(reader, options.seed, options.count, Path(folder), options.only))
            sys.stdout.write(f"{reader}: {outcomes[-1].inputs} inputs, {outcomes[-1].seconds:.1f} s\n")
            sys.stdout.write(outcomes[-1].explain() + "\n" if outcomes[-1].failures else "")
            sys.stdout.flush()
    sys.stdout.write("\n" + to_markdown(outcomes))
    if options.out:
        options.out.write_text(to_markdown(outcomes))
    sys.exit(any(each.failures for each in outcomes))


if __name__ == "__main__":
    main()
