"""No file ends in a traceback, a hang or gigabytes: a few hundred inputs per reader; `make soak` reads 10,000."""

from pathlib import Path

import pytest

from tests.fuzz.readers import READERS, make_examples
from tests.fuzz.run import fuzz


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    make_examples(folder)
    return folder


@pytest.mark.parametrize("reader", READERS)
def test_every_input_is_read_or_refused_in_one_sentence(examples: Path, reader: str) -> None:
    outcome = fuzz(reader, seed=0, count=200, examples=examples)
    assert not outcome.failures, f"\n{outcome.explain()}"
