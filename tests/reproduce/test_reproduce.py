"""Grids that really run: several at once, killed, failing, out of time; the same call ends with the same records."""

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_grids import GRID, write_grid

from maxmahal.evaluate import evaluate_models, read_evaluations
from maxmahal.reproduce import GridOutcome, GridPlan, PlanCell, load_grid, make_plan, result_lines, run_plan, runner
from maxmahal.reproduce.jobs import LocalProcess, threads_each
from maxmahal.reproduce.reporter import CellEvent, GridLines
from maxmahal.reproduce.runner import Deadline
from maxmahal.reproduce.states import CellState
from maxmahal.reproduce.worker import run_job
from maxmahal.train import RunFolder

RECORD = "name, stage, sample, label, prediction, right_before, broken, right_share, records.forward, records.backward"
LONG = GRID.replace("train.epochs=6", "train.epochs=100000")


class Heard(GridLines):
    """What a reporter is called with."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.events: list[tuple[str, str]] = []
        self.texts: dict[str, str] = {}

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        if event == "running":
            self.texts[cell.key] = text
        else:
            self.events.append((event, cell.key))


def records(out: Path) -> list[tuple[object, ...]]:
    """What happened to every sample; in which order evaluations were begun, and when, does not count."""
    connection = sqlite3.connect(out / "records" / "records.sqlite")
    try:
        join = "records JOIN evaluations ON evaluations.id = records.evaluation"
        return connection.execute(f"SELECT {RECORD} FROM {join} WHERE finished = 1 ORDER BY 1, 2, 3").fetchall()
    finally:
        connection.close()


def epochs(out: Path, name: str) -> int:
    return len(RunFolder(out / "models" / name).read_metrics())


def wait_for(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline, "nothing happened for too long"
        time.sleep(0.02)


def test_a_whole_grid_ends_in_records_and_a_page_of_its_own(undisturbed: tuple[GridPlan, GridOutcome]) -> None:
    plan, outcome = undisturbed
    found = read_evaluations(plan.out / "records")
    assert sorted(each.name for each in found) == ["mmc", "sce"]
    assert all(each.finished and each.samples == 30 for each in found)
    assert len(records(plan.out)) > 2 * 2 * 30
    assert outcome.page == plan.out / "small.html"
    text = outcome.page.read_text()
    assert "Robustness of sce and mmc" in text


def test_a_second_call_starts_nothing(undisturbed: tuple[GridPlan, GridOutcome]) -> None:
    plan, _ = undisturbed
    before = {path: path.stat().st_mtime_ns for path in (plan.out / "logs").iterdir() if "report" not in path.name}
    heard = Heard()
    assert run_plan(make_plan(plan.grid, plan.out), jobs=2, reporter=heard).failed == {}
    assert heard.events == []
    after = {path: path.stat().st_mtime_ns for path in (plan.out / "logs").iterdir() if "report" not in path.name}
    assert before == after


def start_and_kill(grid: Path, out: Path) -> None:
    """SIGKILL to the parent as soon as a first epoch is saved."""
    words = [sys.executable, "-m", "maxmahal", "reproduce", str(grid), "--out", str(out), "--jobs", "2"]
    parent = subprocess.Popen([*words, "--device", "cpu", "--quiet"])
    wait_for(lambda: epochs(out, "sce") or epochs(out, "mmc"))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for name in ("sce", "mmc"):
        wait_for(lambda name=name: is_free(out / "models" / name / ".lock"))


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    start_and_kill(write_grid(tmp_path, LONG), tmp_path / "out")
    assert not list((tmp_path / "out" / "models").glob("*/result.json"))


@pytest.mark.soak
def test_after_a_kill_the_next_call_makes_the_same_records(
    undisturbed: tuple[GridPlan, GridOutcome], grid_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    start_and_kill(grid_file, out)
    assert not (out / "records").exists(), "the kill must find trainings under way"
    heard = Heard()
    outcome = run_plan(make_plan(load_grid(grid_file), out), jobs=2, reporter=heard)
    assert (outcome.failed, outcome.left) == ({}, [])
    assert heard.events.count(("done", "sce--short-30")) == 1
    assert records(out) == records(undisturbed[0].out)


def is_free(lock: Path) -> bool:
    if not lock.exists():
        return True
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.soak
def test_a_row_that_diverges_does_not_stop_the_others_and_is_not_tried_again(tmp_path: Path) -> None:
    text = GRID.replace('"train.epochs=6"', '"train.epochs=1", "train.lr=1e30"', 1) + 'models = ["sce"]\n'
    path = write_grid(tmp_path, text)
    plan = make_plan(load_grid(path), tmp_path / "out")
    heard = Heard()
    outcome = run_plan(plan, jobs=2, reporter=heard)
    assert list(outcome.failed) == ["sce--training"]
    assert "lower train.lr" in outcome.failed["sce--training"]
    assert ("done", "mmc--training") in heard.events
    assert ("started", "sce--short-30") not in heard.events
    assert outcome.left == []
    assert [cell.key for cell in outcome.impossible] == ["sce--training", "sce--short-30"]
    assert outcome.page is None
    words = "\n".join(result_lines(plan, outcome))
    assert "failed: sce--training: Training diverged in epoch 1 (features that are not finite)" in words
    assert "run the same command" not in words
    assert run_plan(make_plan(plan.grid, plan.out)).ok is False
    assert (plan.out / "logs" / "sce--training.log").read_text().count("started ") == 1


@pytest.mark.soak
def test_a_row_that_fails_is_tried_again(tmp_path: Path) -> None:
    path = write_grid(tmp_path, GRID + 'models = ["sce"]\n')
    plan = make_plan(load_grid(path), tmp_path / "out")
    (plan.out / "models" / "sce").mkdir(parents=True)
    (plan.out / "models" / "sce" / "state.safetensors").write_text("damaged")
    outcome = run_plan(plan, jobs=2)
    assert list(outcome.failed) == ["sce--training"]
    assert [cell.key for cell in outcome.left] == ["sce--training", "sce--short-30"]
    assert (outcome.impossible, outcome.page) == ([], None)
    assert "run the same command to try again" in "\n".join(result_lines(plan, outcome))
    assert run_plan(make_plan(plan.grid, plan.out)).ok is False
    assert (plan.out / "logs" / "sce--training.log").read_text().count("started ") == 2


class Impatient(Heard):
    """Presses Ctrl-C at the first progress."""

    def update(self, cell: PlanCell, event: CellEvent, text: str = "") -> None:
        super().update(cell, event, text)
        if event == "running":
            raise KeyboardInterrupt


def test_out_of_time_it_stops_and_goes_on_and_so_after_ctrl_c(tmp_path: Path) -> None:
    plan = make_plan(load_grid(write_grid(tmp_path, LONG)), tmp_path / "out")
    for seconds in (20, 60, 180):  # on a busy machine the first epoch may take longer to begin
        heard, moment = Heard(), time.monotonic()
        deadline = Deadline(workers=moment + seconds, stop=moment + seconds + 70, end=moment + seconds + 100)
        outcome = run_plan(plan, jobs=1, deadline=deadline, reporter=heard)
        if epochs(plan.out, "sce"):
            break
    # A slow machine stops before an epoch that would not fit, and may begin the next model in what is left.
    assert heard.events[:2] == [("started", "sce--training"), ("stopped", "sce--training")]
    assert {event for event, _ in heard.events} == {"started", "stopped"}
    assert outcome.failed == {}
    assert [cell.key for cell in outcome.left] == [cell.key for cell in plan.cells]
    assert "Run the same command to continue." in result_lines(plan, outcome)
    done = epochs(plan.out, "sce")
    impatient = Impatient()
    with pytest.raises(KeyboardInterrupt):
        run_plan(make_plan(plan.grid, plan.out), jobs=1, reporter=impatient)
    assert 0 < done < int(impatient.texts["sce--training"].split()[1])  # "epoch 12 of 100000, ..."
    assert is_free(plan.out / "models" / "sce" / ".lock"), "the worker must be gone"


def test_a_worker_that_does_not_stop_in_time_is_stopped(tmp_path: Path) -> None:
    plan = make_plan(load_grid(write_grid(tmp_path, LONG)), tmp_path / "out")
    moment = time.monotonic()
    heard = Heard()
    outcome = run_plan(plan, jobs=2, deadline=Deadline(moment + 900, moment + 1.5, moment + 2), reporter=heard)
    assert outcome.failed == {}
    assert outcome.page is None
    assert [event for event, _ in heard.events] == ["started", "started", "stopped", "stopped"]


def test_an_evaluation_out_of_time_is_not_finished_and_goes_on_to_the_same_records(
    undisturbed: tuple[GridPlan, GridOutcome], tmp_path: Path
) -> None:
    plan, _ = undisturbed
    targets = {name: plan.out / "models" / name for name in ("sce", "mmc")}
    suite = plan.out.parent / "short.toml"
    out = tmp_path / "records"
    found = evaluate_models(targets, out=out, suite=suite, limit=30, until=time.monotonic())
    assert [each.finished for each in found] == [False, False]
    assert all(len(stage.columns) == 0 for each in found for stage in each.stages)
    found = evaluate_models(targets, out=out, suite=suite, limit=30, until=time.monotonic() + 3600)
    assert [each.finished for each in found] == [True, True]
    assert records(tmp_path) == records(plan.out)


def test_a_workers_limit_reaches_what_it_runs(undisturbed: tuple[GridPlan, GridOutcome], tmp_path: Path) -> None:
    plan, _ = undisturbed
    for cell, look in ((plan.cells[0], "models/sce"), (plan.cells[2], "records")):
        out = tmp_path / look
        run_job(replace(cell.job, arguments={**cell.job.arguments, "out": str(out)}, until=time.monotonic()))
    assert not (tmp_path / "models" / "sce" / "result.json").exists()
    assert records(tmp_path) == []
    (found,) = read_evaluations(tmp_path / "records")
    assert not found.finished


def test_a_chunk_that_would_not_fit_is_left(
    undisturbed: tuple[GridPlan, GridOutcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that a chunk moves by ten seconds: three fit into 35, a fourth would not."""
    from maxmahal.evaluate import evaluation

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock, run_stage = Clock(), evaluation.run_stage

    def slow(*arguments: object) -> object:
        clock.now += 10.0
        return run_stage(*arguments)

    monkeypatch.setattr(evaluation, "time", clock)
    monkeypatch.setattr(evaluation, "run_stage", slow)
    plan, _ = undisturbed
    suite = tmp_path / "one.toml"
    suite.write_text(
        (plan.out.parent / "short.toml").read_text().replace("chunk = 10", "chunk = 25")
    )  # a fifth with a limit
    (found,) = evaluate_models(
        {"sce": plan.out / "models" / "sce"}, out=tmp_path / "records", suite=suite, limit=30, until=35.0
    )
    assert not found.finished
    assert len(found.stage("clean").columns) == 15


def test_workers_do_not_share_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_each(jobs) for jobs in (1, 3, 40)] == [16, 5, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert [threads_each(jobs) for jobs in (1, 3, 8)] == [4, 4, 2]


def test_the_last_words_count_what_is_left_of_what_was_planned(undisturbed: tuple[GridPlan, GridOutcome]) -> None:
    plan, _ = undisturbed
    half = replace(
        plan.cells[0], seconds=600.0, state=CellState("half", share=0.5), look=lambda: CellState("half", share=0.75)
    )
    whole = replace(plan.cells[1], seconds=60.0, state=CellState("missing"), look=lambda: CellState("missing"))
    (line, _) = result_lines(plan, GridOutcome(left=[half, whole]))
    assert line == "Left to do, about 6 min: sce training, mmc training."


def test_a_grid_that_attacks_nothing_ends_in_its_curves(undisturbed: tuple[GridPlan, GridOutcome]) -> None:
    plan, _ = undisturbed
    path = plan.out.parent / "curves.toml"
    path.write_text(GRID.partition("[[evaluation]]")[0])
    outcome = run_plan(make_plan(load_grid(path), plan.out))
    assert outcome.page is not None
    text = outcome.page.read_text()
    assert "Test error against training time" in text
    assert "false robustness" not in text


def test_a_job_elsewhere_continues_what_this_machine_began(
    undisturbed: tuple[GridPlan, GridOutcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time limit makes the chunks smaller than those that the job would choose."""
    before, _ = undisturbed
    shutil.copytree(before.out / "models", tmp_path / "out" / "models")
    cell = next(cell for cell in make_plan(before.grid, tmp_path / "out").cells if cell.key == "sce--short-30")
    run_job(replace(cell.job, until=time.time() + 600))
    connection = sqlite3.connect(tmp_path / "out" / "records" / "records.sqlite")
    connection.execute("UPDATE evaluations SET finished = 0")
    for table in ("chunks", "records", "pictures", "points"):
        connection.execute(f"DELETE FROM {table} WHERE stage = 2")
    connection.commit()
    connection.close()

    @contextmanager
    def open_place(*_: object) -> Iterator[tuple[object, int, int, str]]:
        yield LocalProcess, 1, 1, "cpu"

    monkeypatch.setattr(runner, "integration", lambda _: SimpleNamespace(open_place=open_place))
    plan = make_plan(before.grid, tmp_path / "out")
    assert [cell.key for cell in plan.cells if cell.state.kind == "half"] == ["sce--short-30"]
    outcome = run_plan(plan, on="ray")
    assert (outcome.failed, outcome.left) == ({}, [])
    assert len(records(tmp_path / "out")) == len(records(before.out))
