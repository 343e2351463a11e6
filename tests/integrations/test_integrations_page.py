"""The blocks of docs/integrations.md that need a library; the site's own test runs the others."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from commands import runner
from maxmahal.attacks import Linf

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")


def test_the_callback_of_the_page_is_accepted(
    library: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library("lightning.pytorch")
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```text\n(from lightning.*?)```", PAGE, re.DOTALL)
    exec(text, {"Linf": Linf})


@pytest.mark.parametrize("section", ["timm", "wandb"])
def test_the_commands_run(
    section: str,
    library: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """All but those that download weights."""
    found = library(section)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = runner(monkeypatch, capfd)
    lines = [
        line for line in PAGE.splitlines() if re.match(rf"(WANDB_MODE=offline )?maxmahal .*(runs/){section}", line)
    ]
    assert len(lines) == 2
    small = {
        "train": ["--set", "train.epochs=1", "--set", "data.limit=64"],
        "evaluate": ["--suite", "quick", "--limit", "4"],
    }
    for line in lines:
        words = shlex.split(line.removeprefix("WANDB_MODE=offline ").removeprefix("maxmahal "))
        outcome = run(*words, *small[words[0]], "--quiet")
        assert outcome.code == 0, outcome.err
    if section == "wandb":
        found.teardown()
