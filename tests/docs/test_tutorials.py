"""The tutorials: pages and notebooks say what the scripts say, and the scripts run."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from blocks import ROOT, blocks

NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("tutorials")


def test_a_script_falls_into_cells(tool: ModuleType) -> None:
    text = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 1\n\n\n# %%\nprint(x)\n"
    assert tool.cells(text) == [(True, "# Title\n\nWords."), (False, "x = 1"), (False, "print(x)")]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_shows_the_script(name: str, tool: ModuleType) -> None:
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    code = [block.text.rstrip("\n") for block in blocks(page) if block.language == "python"]
    assert code == [cell.text for cell in tool.cells(tool.script(name)) if not cell.markdown]
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page)
    assert len(pictures) >= 2
    for picture in pictures:
        content = (TUTORIALS / picture).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 100_000


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_holds_the_script(name: str, tool: ModuleType) -> None:
    text = (TUTORIALS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert text == tool.notebook(name)
    notebook = json.loads(text)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for cell in notebook["cells"]:
        assert cell.keys() == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_the_script_runs_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    assert "Robust accuracy" in done.stdout
    assert len(list(tmp_path.glob("*.png"))) >= 2
