"""Break the source on purpose, one line at a time, and check that the tests fail.

    python tools/mutants.py            # every mutant
    python tools/mutants.py scale      # those with this word in their name

Each mutant is applied to a copy of the tree, and checked by the tests that it names.
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
    """One changed line of one file."""

    name: str
    file: str
    old: str
    new: str
    tests: str


def load_mutants() -> list[Mutant]:
    """All mutants in the list; it is an error if a line or a test no longer exists."""
    mutants = [Mutant(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]]
    for mutant in mutants:
        source = (ROOT / mutant.file).read_text(encoding="utf-8")
        if source.count(mutant.old) != 1:
            count = source.count(mutant.old)
            raise SystemExit(f"mutant '{mutant.name}': its line is {count} times in {mutant.file}, expected once.")
        for tests in mutant.tests.split():
            if not (ROOT / tests).exists():
                raise SystemExit(f"mutant '{mutant.name}': {tests} does not exist.")
        # Any test would catch a mutant that is not valid Python, which would prove nothing.
        compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
    return mutants


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether the tests pass with the mutant."""
    path = tree / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return run_tests(mutant.tests, tree) == 0
    finally:
        path.write_text(original, encoding="utf-8")


def run_tests(tests: str, tree: Path) -> int:
    """The exit code of pytest on the copied tree: 0 passed, 1 failed; anything else is an error.

    It is also an error if all tests are skipped, because they need something that the copy lacks.
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
        raise SystemExit(f"{tests} skips every test in a copy of the tree; name other tests.")
    return done.returncode


def main() -> None:
    """Check every mutant and print which ones the tests did not catch."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    mutants = [mutant for mutant in load_mutants() if word in mutant.name]
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        for name in ("src", "tests", "paper", "examples", "docs"):
            if (ROOT / name).exists():
                shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py", "README.md"):
            shutil.copy(ROOT / name, tree / name)
        for tests in sorted({mutant.tests for mutant in mutants}):
            if run_tests(tests, tree) != 0:
                raise SystemExit(f"{tests} fails without any mutant; fix that first.")
        for mutant in mutants:
            alive = survives(mutant, tree)
            print(f"{'SURVIVED' if alive else 'caught  '}  {mutant.name}", flush=True)
            if alive:
                survivors.append(mutant.name)
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants caught")
    if survivors:
        raise SystemExit(f"The tests pass with: {', '.join(survivors)}")


if __name__ == "__main__":
    main()
