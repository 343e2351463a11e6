"""Help, the version and the answer to a mistyped word import no torch, and a torch that is broken is told."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from maxmahal.cli import data
from maxmahal.cli.app import app
from maxmahal.uncertainty import CHANGES

COMMANDS = [
    *((command.name,) for command in app.registered_commands),
    *(("data", command.name) for command in data.app.registered_commands),
]
QUICK = [
    (),
    ("--help",),
    ("--version",),
    ("data", "--help"),
    *((*command, "--help") for command in COMMANDS),
    ("trian",),
    ("train", "digits-mmc", "--epoch", "3"),
    ("evaluate",),
    ("evaluate", "runs/x", "--out", "."),
    ("density", "runs/x", "--limit", "0"),
    ("tree", "runs/x", "--out", "tree.txt"),
]
# The words come on standard input, so that one process can answer them all and none pays for another's start.
SCRIPT = """
import contextlib, io, sys
from maxmahal.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["maxmahal", *line.split()]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as shown:
        main()
    slow = {"torch", "numpy", "matplotlib"} & set(sys.modules)
    print("slow" if slow else "quick", len(shown.getvalue()), line)
    if slow:
        break
"""


def test_no_answer_that_needs_no_work_imports_torch() -> None:
    lines = [" ".join(words) for words in QUICK]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    answers = [answer.split(" ", 2) for answer in done.stdout.splitlines()]
    assert [line for speed, _, line in answers if speed == "slow"] == []
    assert [line for _, _, line in answers] == lines
    assert all(int(length) > 100 for _, length, line in answers if line.endswith("--help"))


LIBRARY = "libcublas.so.12: cannot open shared object file: No such file or directory"


def typed(*words: str, folder: Path, package: str, code: str) -> subprocess.CompletedProcess[str]:
    """A command in its own process, where importing ``package`` runs this code instead."""
    (folder / package).mkdir()
    (folder / package / "__init__.py").write_text(code, encoding="utf-8")
    paths = [str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "maxmahal", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("words", [("presets",), ("doctor",), ("data", "list")], ids=" ".join)
@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (f"def load():\n    raise OSError('{LIBRARY}')\nload()", f"OSError: {LIBRARY}"),
        ("raise ImportError('torch._C is\\n  not built')", "ImportError: torch._C is not built"),
        ("raise ValueError('libcublas.so not found')", "ValueError: libcublas.so not found"),
        ("import torch.lost", "ModuleNotFoundError: No module named 'torch.lost'"),
    ],
    ids=["OSError", "ImportError", "ValueError", "a missing part"],
)
def test_a_torch_that_cannot_be_imported_is_told(words: tuple[str, ...], code: str, cause: str, tmp_path: Path) -> None:
    done = typed(*words, folder=tmp_path, package="torch", code=code)
    told = f"maxmahal: torch cannot be imported ({cause}); reinstall torch in this environment.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_a_missing_torch_is_told() -> None:
    # With None in its place Python raises what it raises for a package that is not installed.
    script = "import sys; sys.modules['torch'] = None; from maxmahal.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "presets"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("maxmahal: torch cannot be imported (ModuleNotFoundError: ")


def test_torch_is_not_blamed_for_another_package(tmp_path: Path) -> None:
    done = typed("presets", folder=tmp_path, package="safetensors", code=f"raise OSError('{LIBRARY}')")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"maxmahal: {LIBRARY}.\n")


@pytest.mark.parametrize("error", [ValueError("a bug"), ImportError("no such name", name="torch")], ids=repr)
def test_any_other_error_keeps_its_traceback(error: Exception, run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxmahal.train.preset_names", Mock(side_effect=error))
    with pytest.raises(type(error)) as raised:
        run("presets")
    assert raised.value is error


def test_what_the_system_refuses_is_still_the_users_to_mend(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxmahal.train.preset_names", Mock(side_effect=OSError(28, "No space left", "torch.log")))
    run("presets").assert_refused("maxmahal: torch.log: No space left.\n")


# A signature writes out what the library holds, because importing it would import torch.
def test_help_names_every_kind_of_out_of_distribution_images(run) -> None:
    assert f"Out-of-distribution images: {', '.join(CHANGES)}, a data set" in run("uncertainty", "--help").out
