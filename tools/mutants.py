"""Break the source on purpose, one line at a time, and fail if the tests do not notice.

    python tools/mutants.py            # every mutant
    python tools/mutants.py scale      # those whose name contains a word

Each mutant is applied to a copy of the tree, never to the tree itself, and judged by the tests named with it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "mutants.toml"
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Mutant:
    """One line of one file, made wrong."""

    name: str
    file: str
    old: str
    new: str
    tests: str


def load_mutants() -> list[Mutant]:
    """All mutants in the list; one whose line is no longer in the source is an error, not a pass."""
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]
    for mutant in mutants:
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        if source.count(mutant.old) != 1:
            count = source.count(mutant.old)
            raise SystemExit(f"mutant '{mutant.name}': its line stands {count} times in {mutant.file}, expected once.")
        # A mutant that is no Python would be caught by any test at all, and prove nothing.
        compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
    return mutants


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether the tests stay green with the mutant in place."""
    path = tree / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return run_tests(mutant.tests, tree) == 0
    finally:
        path.write_text(original, encoding="utf-8")


def run_tests(tests: str, tree: Path) -> int:
    """The exit code of pytest on the copied tree: 0 green, 1 red, anything else is an accident.

    So is a green without a test that passed: tests that need what the copy lacks are skipped there, and judge nothing.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not soak", *tests.split()]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"pytest could not run {tests}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    if done.returncode == 0 and not re.search(r"\b[1-9]\d* passed\b", done.stdout):
        raise SystemExit(f"{tests} skips every test in a copy of the tree, so it can judge no mutant; name others.")
    return done.returncode


def main() -> None:
    """Judge every mutant and say which the tests let through."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    mutants = [mutant for mutant in load_mutants() if word in mutant.name]
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in ("src", "tests", "paper", "examples"):
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py", "README.md"):
            shutil.copy(ROOT / name, tree / name)
        for tests in sorted({mutant.tests for mutant in mutants}):
            if run_tests(tests, tree) != 0:
                raise SystemExit(f"{tests} is red without any mutant; mend that first.")
        for mutant in mutants:
            alive = survives(mutant, tree)
            print(f"{'SURVIVED' if alive else 'caught  '}  {mutant.name}", flush=True)
            if alive:
                survivors.append(mutant.name)
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants caught")
    if survivors:
        raise SystemExit(f"The tests stay green with: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
