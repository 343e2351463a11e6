"""The tool that breaks the source on purpose: what its judges may be."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> Any:
    return load_tool("mutants")


@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("assert False", 1)])
def test_green_and_red_are_told_apart(tool: Any, tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {body}\n")
    assert tool.run_tests("test_it.py", tmp_path) == code


def test_tests_that_are_all_skipped_judge_nothing(tool: Any, tmp_path: Path) -> None:
    """They look green with every mutant, which once passed for a mutant that the tests let through."""
    (tmp_path / "test_it.py").write_text("import pytest\n\n\ndef test_it():\n    pytest.skip('no tools')\n")
    with pytest.raises(SystemExit, match=r"test_it\.py skips every test"):
        tool.run_tests("test_it.py", tmp_path)
