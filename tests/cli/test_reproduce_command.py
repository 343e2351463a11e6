"""``maxmahal reproduce`` as a user types it."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from maxmahal.cli.reproduce import GridProgress
from maxmahal.reproduce import grid_names, load_grid, make_plan

pytestmark = pytest.mark.usefixtures("unchecked")
GRID = """
about = "one small model"
[[model]]
name = "digits-sce"
set = ["train.epochs=1", "data.limit=128", "data.test_limit=20"]
"""


def test_without_a_name_the_grids_are_listed(run) -> None:
    done = run("reproduce")
    assert done.code == 0
    assert all(name in done.out for name in grid_names())
    assert "white-box attacks on CIFAR-10" in done.out
    assert run("reproduce", "--list").out == done.out


def test_a_dry_run_shows_every_cell_and_writes_nothing(run, tmp_path: Path) -> None:
    words = ["--out", tmp_path / "out", "--device", "cpu", "--jobs", "2"]
    done = run("reproduce", "table1", "--dry-run", *words)
    assert done.code == 0, done.err
    assert done.out.count("training: missing, about") == 10
    assert done.out.count("autoattack: missing, about") == 8
    assert done.out.count("autoattack 1000: missing, about") == 6  # of the others, on fewer images
    assert "cifar10-at-tar-mmc-best" in done.out
    assert "In all: about" in done.out
    assert "(cpu), 2 at once." in done.out
    assert list(tmp_path.iterdir()) == []


def test_a_plan_names_the_models_that_the_zoo_holds_with_the_same_settings(run, tmp_path: Path) -> None:
    words = ["reproduce", "table3", "--dry-run", "--out", tmp_path, "--device", "cpu"]
    told = "Trained already with the same settings, in the zoo: 1 of 1 models (cifar10-mmc);"
    assert told in run(*words).out
    assert "in the zoo" not in run(*words, "--set", "train.lr=0.02").out


def test_data_that_is_not_here_is_told_once_and_nothing_is_started(run, tmp_path: Path) -> None:
    words = ["reproduce", "table1", "--out", tmp_path / "out", "--data-dir", tmp_path / "data", "--device", "cpu"]
    told = (
        f"cifar10 is not in {tmp_path / 'data'}; run `maxmahal data fetch cifar10 --data-dir {tmp_path / 'data'}`, "
        "or name a folder that has it with --data-dir."
    )
    dry = run(*words, "--dry-run")
    assert dry.code == 0, dry.err
    assert dry.out.splitlines()[-1] == f"Before it can start: {told}"
    done = run(*words)
    done.assert_refused(told)
    assert done.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["digits", "--budget", "8"], "write for example 90s, 8m or 1h30m"),
        (["digits", "--device", "tpu"], "--device tpu"),
        (["digits", "--jobs", "0"], "--jobs must be at least 1"),
        (["digits", "--set", "train.epoch=3"], "did you mean 'train.epochs'"),
        (["digits", "--out", "."], "--out"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(run, tmp_path: Path, monkeypatch, words: list[str], part: str) -> None:
    monkeypatch.chdir(tmp_path)
    run("reproduce", *words).assert_refused(part)
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_gets_plain_lines_then_a_terminal_the_table(run, on_a_terminal, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GRID)
    words = ["reproduce", str(path), "--out", str(tmp_path / "out"), "--device", "cpu"]
    done = run(*words)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "mine: one small model"
    assert "digits-sce, training: done" in lines
    assert lines[-1] == f"The report, to open in a browser: {tmp_path / 'out' / 'mine.html'}"
    assert "\x1b" not in done.out
    shown = on_a_terminal(*words)
    assert "\x1b[" in shown
    assert "everything is done" in shown


def test_the_live_table_follows_what_happens(tmp_path: Path) -> None:
    stream = io.StringIO()
    plan = make_plan(load_grid("digits"), tmp_path)
    sce, mmc, *_ = plan.cells
    with GridProgress(Console(file=stream, force_terminal=True, width=120)) as watcher:
        watcher.begin(plan, 2)
        watcher.update(sce, "started")
        watcher.update(mmc, "started")
        watcher.update(sce, "running", "epoch 3 of 30, [odd]")
        watcher.update(mmc, "failed", "out of [memory]")
    text = stream.getvalue()
    assert "digits-mmc, training: failed, out of [memory]" in text
    last = text[text.rindex("model") :]
    assert "epoch 3 of 30, [odd]" in last
    assert "failed" in last
    assert "waiting" in last
