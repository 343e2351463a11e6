"""A training that diverged is not started again, and what needs it is not waited for."""

import io
import shutil
from pathlib import Path

import pytest
from small_grids import GRID, write_grid

from commands import runner
from maxmahal.cli.common import Console
from maxmahal.cli.reproduce import GridProgress
from maxmahal.reproduce import (
    GridLines,
    GridOutcome,
    GridPlan,
    PlanCell,
    load_grid,
    make_plan,
    result_lines,
    run_plan,
)
from maxmahal.reproduce.reporter import CellEvent
from maxmahal.reproduce.worker import run_job
from maxmahal.train.loop import TrainingDivergedError

WILD = GRID.replace('"train.epochs=6"', '"train.epochs=6", "train.lr=1e30", "train.warmup=0"')


class Started(GridLines):
    """Which cells were."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.keys: list[str] = []

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        if event == "started":
            self.keys.append(cell.key)


@pytest.fixture
def diverged(tmp_path: Path) -> tuple[Path, Path]:
    """A grid of two models that have both diverged, and its folder."""
    path, out = write_grid(tmp_path, WILD), tmp_path / "out"
    for cell in make_plan(load_grid(path), out).cells[:2]:
        with pytest.raises(TrainingDivergedError):
            run_job(cell.job)
    return path, out


def states(plan: GridPlan) -> dict[str, tuple[str, str]]:
    return {cell.key: (cell.state.kind, cell.state.detail) for cell in plan.cells}


def test_nothing_is_started_again_and_nothing_is_left_to_do(diverged: tuple[Path, Path]) -> None:
    path, out = diverged
    plan, started = make_plan(load_grid(path), out), Started()
    assert states(plan) == {
        "sce--training": ("impossible", "diverged at epoch 1"),
        "mmc--training": ("impossible", "diverged at epoch 1"),
        "sce--short-30": ("impossible", "impossible because sce diverged"),
        "mmc--short-30": ("impossible", "impossible because mmc diverged"),
    }
    assert plan.seconds == 0.0
    outcome = run_plan(plan, reporter=started)
    assert started.keys == []
    assert (outcome.failed, outcome.left, outcome.page) == ({}, [], None)
    assert not (out / "logs").exists()
    assert result_lines(plan, outcome) == [
        f"sce training: diverged at epoch 1; delete {out / 'models' / 'sce'} to try again.",
        f"mmc training: diverged at epoch 1; delete {out / 'models' / 'mmc'} to try again.",
        "sce short 30: impossible because sce diverged.",
        "mmc short 30: impossible because mmc diverged.",
    ]


def test_a_dry_run_shows_it_and_the_exit_status_says_that_the_grid_is_not_whole(
    diverged: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path, out = diverged
    run = runner(monkeypatch, capfd)
    words = ["reproduce", path, "--out", out, "--device", "cpu"]
    dry = run(*words, "--dry-run")
    assert dry.code == 0
    text = dry.out
    assert f"training: diverged at epoch 1; delete {out / 'models' / 'sce'} to try again\n" in text
    assert "short 30: impossible because sce diverged\n" in text
    assert text.endswith("In all: everything that can be done is done.\n")
    assert "sce  done" not in text
    done = run(*words, "--quiet")
    assert done.code == 1
    assert "Left to do" not in done.out


def test_other_settings_or_a_deleted_folder_try_again(diverged: tuple[Path, Path]) -> None:
    path, out = diverged
    shutil.rmtree(out / "models" / "mmc")
    plan = make_plan(load_grid(path), out)
    assert [kind for kind, _ in states(plan).values()] == ["impossible", "missing", "impossible", "missing"]
    assert plan.seconds > 0
    path.write_text(GRID)
    assert {kind for kind, _ in states(make_plan(load_grid(path), out)).values()} == {"missing"}


def test_the_call_in_which_it_diverges_does_not_promise_to_try_again(diverged: tuple[Path, Path]) -> None:
    path, out = diverged
    plan = make_plan(load_grid(path), out)
    outcome = run_plan(plan)
    outcome.failed["sce--training"] = "Training diverged in epoch 1."
    words = result_lines(plan, outcome)
    assert words[:2] == ["failed: sce--training: Training diverged in epoch 1.", f"The logs are in {out / 'logs'}."]
    outcome = GridOutcome(failed={"mmc--short-30": "no memory"})
    assert f"The logs are in {out / 'logs'}; run the same command to try again." in result_lines(plan, outcome)


def test_a_grid_across_models_is_impossible_if_one_of_them_diverged(diverged: tuple[Path, Path]) -> None:
    path, out = diverged
    path.write_text(WILD + "transfer = true\n")
    shutil.rmtree(out / "models" / "sce")
    plan = make_plan(load_grid(path), out)
    assert plan.cells[-1].state.detail == "impossible because mmc diverged"


def test_the_live_table_shows_it(diverged: tuple[Path, Path]) -> None:
    path, out = diverged
    stream = io.StringIO()
    with GridProgress(Console(file=stream, force_terminal=True, width=120)) as watcher:
        watcher.begin(make_plan(load_grid(path), out), 1)
    last = stream.getvalue()[stream.getvalue().rindex("model") :]
    assert last.count("\x1b[31mdiverged at epoch 1") == 2
    assert "waiting" not in last
