"""Help, the version and the answer to a mistyped word come at once: none of them imports torch."""

import inspect
import subprocess
import sys
from pathlib import Path

from maxmahal.cli import data
from maxmahal.cli.app import app
from maxmahal.cli.reproduce import reproduce_command
from maxmahal.reproduce.call import OUT, RESULTS
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
    ("evaluate", "runs/x"),
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


# Two signatures write out what the library holds, because importing it would import torch.
def test_help_names_every_way_to_make_strange_images(run) -> None:
    assert f"Strange images: {', '.join(CHANGES)}, a data set" in run("uncertainty", "--help").out


def test_both_commands_that_reproduce_have_the_same_folders() -> None:
    parameters = inspect.signature(reproduce_command).parameters
    assert (parameters["out"].default, parameters["results"].default) == (Path(OUT), Path(RESULTS))
