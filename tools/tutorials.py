"""Run the scripts of examples/ cell by cell and write each as a page with its output and pictures, and as a notebook.

python tools/tutorials.py            # runs them, minutes; writes docs/tutorials
python tools/tutorials.py centers    # one of them
"""

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "tutorials"
CELL = re.compile(r"^# %%(?P<kind> \[markdown\])?$", re.MULTILINE)


class Cell(NamedTuple):
    """Markdown or Python, without the comment signs that make Markdown a part of the script."""

    markdown: bool
    text: str


def cells(script: str) -> list[Cell]:
    """The cells of a script in the percent format, which editors show as a notebook."""
    found = list(CELL.finditer(script))
    ends = [each.start() for each in found[1:]] + [len(script)]
    made = []
    for each, end in zip(found, ends, strict=True):
        text = script[each.end() : end].strip("\n")
        if each["kind"]:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        made.append(Cell(bool(each["kind"]), text))
    return made


def page(name: str, told: list[str], pictures: list[list[str]]) -> str:
    """The page: every cell, with what it printed and drew."""
    parts = []
    for cell, words, drawn in zip(cells(script(name)), told, pictures, strict=True):
        parts.append(cell.text if cell.markdown else f"```python\n{cell.text}\n```")
        parts += [f"```text\n{wrapped(words)}\n```"] if words else []
        parts += [f"![What the code above draws]({each})" for each in drawn]
    links = (
        f"[This page as a notebook]({name}.ipynb). Written by `tools/tutorials.py`, which runs `examples/{name}.py`."
    )
    return "\n\n".join([*parts, links]) + "\n"


def wrapped(words: str) -> str:
    """Printed lines, broken where a page ends."""
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ") for line in words.splitlines())


def notebook(name: str) -> str:
    """The same cells in Jupyter's format, without outputs."""
    made: list[dict[str, object]] = []
    for number, cell in enumerate(cells(script(name))):
        kind: dict[str, object] = {"cell_type": "markdown"}
        if not cell.markdown:
            kind = {"cell_type": "code", "execution_count": None, "outputs": []}
        made.append({**kind, "id": f"cell-{number}", "metadata": {}, "source": cell.text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def script(name: str) -> str:
    """The text of an example."""
    return (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")


def run(name: str) -> tuple[list[str], list[list[str]]]:
    """What each cell prints, and the names of the pictures that it saves, which go to docs/tutorials."""
    told: list[str] = []
    pictures: list[list[str]] = []
    names: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for cell in cells(script(name)):
            printed = io.StringIO()
            before = {*Path().glob("*.png")}
            if not cell.markdown:
                with contextlib.redirect_stdout(printed):
                    exec(compile(cell.text, f"{name}.py", "exec"), names)
            drawn = sorted({*Path().glob("*.png")} - before)
            for each in drawn:
                (PAGES / each.name).write_bytes(each.read_bytes())
            told.append(printed.getvalue())
            pictures.append([each.name for each in drawn])
    return told, pictures


def main() -> None:
    """Write the page and the notebook of every example, or of those that are named."""
    os.environ["MPLBACKEND"] = "Agg"
    PAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or sorted(path.stem for path in (ROOT / "examples").glob("*.py")):
        (PAGES / f"{name}.md").write_text(page(name, *run(name)), encoding="utf-8")
        (PAGES / f"{name}.ipynb").write_text(notebook(name), encoding="utf-8")
        print(f"docs/tutorials/{name}.md")


if __name__ == "__main__":
    main()
