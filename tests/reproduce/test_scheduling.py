"""Who runs when, on a GPU that is not there: workers and NVIDIA's service are stand-ins."""

import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from small_grids import write_grid

from maxmahal.errors import SettingsError
from maxmahal.reproduce import load_grid, make_plan, plan_lines, run_plan, runner
from maxmahal.reproduce.jobs import MPS_CONTROL, shared_gpu
from maxmahal.reproduce.reporter import makespan
from maxmahal.reproduce.states import CellState


class FakeWorker:
    """Makes progress at its third look and ends at its fifth."""

    running: ClassVar[set[str]] = set()
    together: ClassVar[list[tuple[str, int]]] = []

    def __init__(self, name: str, *_: object, **__: object) -> None:
        self._name, self._looks = name, 0
        self.running.add(name)
        self.together.append((name, len(self.running)))

    def progress(self) -> str:
        self._looks += 1
        if self._looks == 3:
            self.together.append(("progress", len(self.running)))
        return "epoch 1" if self._looks >= 3 else ""

    def stop(self) -> None:
        self.running.discard(self._name)

    def wait(self, seconds: float | None) -> int | None:
        if seconds == 0.0 and self._looks < 5:
            return None
        self.running.discard(self._name)
        return 0


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    FakeWorker.running, FakeWorker.together = set(), []
    monkeypatch.setattr(runner, "Worker", FakeWorker)
    monkeypatch.setattr("maxmahal.reproduce.plan.missing_data", lambda *_: "")
    monkeypatch.setattr(runner, "POLL", 0.0)
    monkeypatch.setenv("PATH", "")
    return FakeWorker


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    """A grid of two models with two seeds each."""
    path = tmp_path / "seeds.toml"
    path.write_text("".join(f'[[model]]\nname = "cifar10-{loss}"\nseeds = 2\n' for loss in ("sce", "mmc")))
    return path


def starts(fakes: type[FakeWorker]) -> list[tuple[str, int]]:
    return [event for event in fakes.together if "report" not in event[0]]


def test_the_first_on_a_gpu_runs_alone_until_it_makes_progress(
    fakes: type[FakeWorker], seeds: Path, tmp_path: Path, unchecked: None
) -> None:
    plan = make_plan(load_grid(seeds), tmp_path / "out", device="cuda")
    run_plan(plan)
    first, progress, *others = starts(fakes)
    assert first == ("cifar10-sce-seed0--training", 1)
    assert progress == ("progress", 1)
    assert [event for event in others if event[0] != "progress"][:2] == [
        ("cifar10-sce-seed1--training", 2),
        ("cifar10-mmc-seed0--training", 3),
    ]
    assert max(count for _, count in others) == 3


def test_one_after_another_with_one_job(fakes: type[FakeWorker], seeds: Path, tmp_path: Path, unchecked: None) -> None:
    run_plan(make_plan(load_grid(seeds), tmp_path / "out", device="cuda"), jobs=1)
    assert {count for _, count in starts(fakes)} == {1}


def test_evaluations_wait_for_their_models(fakes: type[FakeWorker], tmp_path: Path, unchecked: None) -> None:
    """Stand-ins train nothing, so no evaluation may start; one whose model is there starts at once."""
    plan = make_plan(load_grid("digits"), tmp_path / "out")
    outcome = run_plan(plan, jobs=4)
    assert [name for name, _ in starts(fakes) if name != "progress"] == ["digits-sce--training", "digits-mmc--training"]
    assert len(outcome.left) == 4
    fakes.together.clear()
    trained = next(cell for cell in plan.cells if cell.key == "digits-mmc--training")
    object.__setattr__(trained, "state", CellState("done", share=1.0))
    run_plan(plan, jobs=4)
    assert [name for name, _ in starts(fakes) if name != "progress"] == ["digits-sce--training", "digits-mmc--quick"]


def service(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for NVIDIA's control program that writes down what it is asked."""
    program = folder / MPS_CONTROL
    program.write_text(
        f'#!/bin/sh\nHEARD={folder}/heard\nif [ "$1" = "-d" ]; then WORD=start; else read WORD; fi\n{text}'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder / "heard"


def test_the_service_is_started_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = service(tmp_path, "echo $WORD >> $HEARD; [ $WORD != get_server_list ]\n", monkeypatch)
    notes: list[str] = []
    with shared_gpu(notes.append):
        assert heard.read_text().split() == ["get_server_list", "start"]
    assert heard.read_text().split() == ["get_server_list", "start", "quit"]
    assert notes == []


def test_a_service_that_runs_already_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = service(tmp_path, "echo $WORD >> $HEARD\n", monkeypatch)
    with shared_gpu(pytest.fail):
        pass
    assert heard.read_text().split() == ["get_server_list"]


def test_a_service_that_does_not_start_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = service(tmp_path, "echo $WORD >> $HEARD; exit 1\n", monkeypatch)
    notes: list[str] = []
    with shared_gpu(notes.append):
        pass
    assert heard.read_text().split() == ["get_server_list", "start"]
    assert len(notes) == 1
    assert "take turns" in notes[0]


def test_the_time_of_workers_is_that_of_the_last_one(tmp_path: Path) -> None:
    """Two trainings of 30 s and two evaluations of 10 s, each after its training."""
    plan = make_plan(load_grid(write_grid(tmp_path)), tmp_path / "out")
    cells = {
        name: [replace(cell, seconds=30.0 if cell.column == "training" else 10.0) for cell in row]
        for name, row in plan.rows.items()
    }
    plan = replace(plan, rows=cells)
    assert [makespan(plan, workers) for workers in (1, 2, 4, 8)] == [80.0, 40.0, 40.0, 40.0]
    assert "4 at once: about 40 s on 4 workers." in "".join(plan_lines(plan, 4, on="ray"))
    assert "workers" not in "".join(plan_lines(plan, 4))


def test_an_unknown_cluster_is_refused(seeds: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--on slrm is unknown; did you mean 'slurm'"):
        run_plan(make_plan(load_grid(seeds), tmp_path / "out"), on="slrm")
