"""No file ends in a traceback, a hang or gigabytes: a few hundred inputs per reader; `make soak` reads 10,000."""

from pathlib import Path

import pytest

from tests.fuzz.readers import READERS
from tests.fuzz.run import fuzz
from tests.processes import run


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    # In a process of its own, which does not check shapes at run time as the tests do.
    done = run("import sys; from tests.fuzz.readers import make_examples; make_examples(sys.argv[1])", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_every_input_is_read_or_refused_in_one_sentence(examples: Path, reader: str) -> None:
    outcome = fuzz(reader, seed=0, count=200, examples=examples)
    assert not outcome.failures, f"\n{outcome.explain()}"
