"""Every command and snippet of the documentation runs, from the top of its page to the end, in an empty folder.

What would take minutes is made smaller first, by the rules below: fewer epochs and images, ``quick`` instead of
``strict``. Data sets are replaced by small ones of the same names, and nothing is downloaded.
"""

import contextlib
import importlib.util
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from blocks import OUTPUT, ROOT, Block, blocks, commands, pages

import maxmahal
from commands import Outcome

SMALLER = [(r'suite="\w+"', 'suite="quick"'), (r"\(\d+, 64\), generator", "(20, 64), generator")]
"""What is replaced in Python."""
SHORT = ["train.epochs=1", "train.lr=0.001", "data.limit=64", "data.validation=10"]
"""Settings of a training that takes a second."""
FEW = ["train.batch_size=8", "data.limit=8"]
"""Only for the small copies of published data: a page's own data must be enough for its batch size."""
TOO_LONG = {
    "evaluate": ["--limit", "4", "--suite", "quick"],
    "reproduce": ["--dry-run"],
    "demo": ["--epochs", "1", "--limit", "4"],
}
"""Words that end a command in a second; an option that is given twice is taken as it is given last."""


BEFORE = {"report.md": "maxmahal evaluate mymodule:make_model --data mine.npz --epsilon 8/255 --out runs/eval"}
"""What the reader of a page has done already."""


def run_now(path: Path) -> bool:
    """Cards of the zoo are written from one template: two of them are enough for ``make test``."""
    return not path.name.startswith("cifar") or path.stem in ("cifar10-at-mmc", "cifar100-mmc")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if run_now(path) else pytest.mark.soak) for path in pages()],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of other libraries
def test_a_page_runs_from_top_to_bottom(
    path: Path,
    reader: Path,
    names: dict[str, object],
    command: Callable[..., Outcome],
    unchecked: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(maxmahal.data, "fetch_dataset", lambda *words, **options: reader)
    monkeypatch.setattr(maxmahal, "load_settings", lambda preset: maxmahal.train.load_settings(preset, shorter(preset)))
    monkeypatch.syspath_prepend(str(reader))
    before = {*sys.modules}
    if path.name in BEFORE and path.parent.name == "docs":
        run_command(BEFORE[path.name], command)
    for block in blocks(path.read_text(encoding="utf-8")):
        run_block(block, names, command)
    for name in {*sys.modules} - before:  # the next page's mymodule is another
        if str(reader) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run_block(block: Block, names: dict[str, object], command: Callable[..., Outcome]) -> None:
    if block.file and block.language != "sh":
        Path(block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "python":
        text = block.text
        for pattern, smaller in SMALLER:
            text = re.sub(pattern, smaller, text)
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, "snippet", "exec"), names)
    elif block.language == "sh":
        for line in commands(block):
            run_command(line, command)
    else:
        assert block.language in OUTPUT, f"```{block.language} is neither run nor known as output"


def shorter(preset: str) -> list[str]:
    return SHORT if preset.startswith("digits") else [*SHORT, *FEW]


def run_command(line: str, command: Callable[..., Outcome]) -> None:
    line, _, file = line.partition(" > ")
    words = shlex.split(line)
    if words[0] != "maxmahal":
        check_other(words)
        return
    smaller = TOO_LONG.get(words[1], [])
    if words[1] == "train":
        smaller = [word for setting in shorter(words[2]) for word in ("--set", setting)]
    if words[1] == "reproduce" and ({"--list", "--show"} & {*words} or len(words) == 2):
        smaller = []
    if words[1] == "evaluate" and any(word.endswith(".toml") for word in words):
        smaller = ["--limit", "4"]  # a suite of the page is run as it is
    done = command(*words[1:], *smaller)
    assert done.code == 0, f"{line}\n{done.err}"
    if file:
        Path(file).write_text(done.out, encoding="utf-8")


def check_other(words: list[str]) -> None:
    """Installations, make's targets and scripts: that they exist. They have tests of their own."""
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for named in re.findall(r"\[([\w,]+)\]", " ".join(words)):
            assert {*named.split(",")} <= {*extras}, words
    elif words[0] == "torchrun":
        assert words[words.index("-m") + 1] == "maxmahal", words
    elif words[:2] == ["python", "-m"]:
        assert importlib.util.find_spec(words[2]), words
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file(), words
    else:
        assert words[0] in ("cd", "git"), f"{shlex.join(words)} is not run by a test"


@pytest.mark.parametrize("head", ["SCE", "CenterLoss", "LGM", "GSCE", "CosFace", "ArcFace"])
def test_every_head_learns_in_the_loop_of_the_readme(head: str, names: dict[str, Any], unchecked: None) -> None:
    (loop,) = (each.text for each in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if "step()" in each.text)
    first, _, _ = loop.partition("for chosen")
    mine = f"{head}(num_classes=10, feature_dim=32)"
    text = first.replace("MMC(max_mahalanobis_centers(num_classes=10, dim=32))", f"maxmahal.losses.{mine}")
    run_block(Block("python", "", f"import maxmahal.losses\n{text}"), names, pytest.fail)
    trained = [each for group in names["optimiser"].param_groups for each in group["params"]]
    own = [*names["head"].parameters()]
    assert own
    assert {*map(id, own)} <= {*map(id, trained)}


def test_fenced_and_indented_blocks_are_found_in_order() -> None:
    page = 'a\n\n    maxmahal zoo  # lists\n    maxmahal doctor\n\n```python title="a.py"\nx = 1\n```\n\n    a -> b\n'
    found = blocks(page)
    assert [block.language for block in found] == ["sh", "python", "text"]
    assert commands(found[0]) == ["maxmahal zoo", "maxmahal doctor"]
    assert (found[1].file, found[1].text) == ("a.py", "x = 1\n")
    assert commands(Block("sh", "", "maxmahal train x \\\n  --out y\n")) == ["maxmahal train x    --out y"]


@pytest.mark.parametrize("text", ["raise ValueError", "open('nowhere')"])
def test_a_broken_snippet_fails(text: str, names: dict[str, object], command: Callable[..., Outcome]) -> None:
    with pytest.raises((ValueError, FileNotFoundError)):
        run_block(Block("python", "", text), names, command)


@pytest.mark.parametrize(
    "line", ["maxmahal train no-such-preset", "make nothing", "pip install 'maxmahal[nothing]'", "rm x"]
)
def test_a_broken_command_fails(
    line: str, reader: Path, names: dict[str, object], command: Callable[..., Outcome]
) -> None:
    with pytest.raises(AssertionError):
        run_block(Block("sh", "", line), names, command)
