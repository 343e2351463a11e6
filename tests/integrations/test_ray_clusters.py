"""Evaluations and grids on a Ray cluster record what one machine records, whatever dies meanwhile."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from test_evaluate_kill import SUITE

from maxmahal.records import read_evaluations
from maxmahal.records.schema import FILE
from maxmahal.train import load_settings, train_model

# A cluster of nodes that are processes of their own; each line that it reads removes the last node.
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]))]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for _ in sys.stdin:
    cluster.remove_node(nodes.pop(), allow_graceful=False)
    print("removed", flush=True)
cluster.shutdown()
"""
COLUMNS = {
    "findings": "*",
    "stages": "*",
    "chunks": "evaluation, stage, number, forward, backward, queries",
    "records": "*",
    "pictures": "*",
    "points": "*",
}


class Nodes:
    """A running cluster, and its processes by a mark in their environment."""

    def __init__(self, process: subprocess.Popen[str], address: str, mark: str) -> None:
        self.address, self.mark, self._process = address, mark, process

    def remove(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "removed\n"

    def workers(self, name: str) -> list[int]:
        """The processes that run an actor or a task of that name."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                ours = self.mark.encode() in (path / "environ").read_bytes()
                if ours and (path / "cmdline").read_bytes().startswith(f"ray::{name}".encode()):
                    found.append(int(path.name))
            except OSError:
                continue
        return found


@pytest.fixture
def cluster(library: Callable[[str], ModuleType]) -> Iterator[Callable[[int], Nodes]]:
    library("ray")
    started = []

    def start(nodes: int) -> Nodes:
        mark = f"mark-{uuid.uuid4()}"
        process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "MAXMAHAL_TEST_MARK": mark, "OMP_NUM_THREADS": "1"},
        )
        started.append(process)
        assert process.stdout is not None
        return Nodes(process, process.stdout.readline().strip(), mark)

    yield start
    for process in started:
        process.communicate()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "model"
    train_model(load_settings("digits-mmc", ["train.epochs=2"]), folder)
    return folder


def evaluate(model: Path, out: Path, suite: str, nodes: Nodes | None = None) -> subprocess.Popen[str]:
    file = out.with_suffix(".toml")
    file.write_text(suite)
    words = ["evaluate", f"model={model}", "--suite", f"{file}", "--out", f"{out}", "--limit", "120"]
    place = [] if nodes is None else ["--on", "ray"]
    address = {} if nodes is None else {"RAY_ADDRESS": nodes.address}
    return subprocess.Popen(
        [sys.executable, "-m", "maxmahal", *words, "--device", "cpu", *place],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **address},
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    return out


def told(out: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row, but for times and devices."""
    connection = sqlite3.connect(out / FILE)
    try:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2, 3").fetchall()
            for table, columns in COLUMNS.items()
        }
    finally:
        connection.close()


def recorded(out: Path) -> int:
    try:
        return len(told(out)["chunks"])
    except sqlite3.Error:
        return 0


def test_two_nodes_record_what_one_process_records(
    model: Path, tmp_path: Path, cluster: Callable[[int], Nodes]
) -> None:
    suite = SUITE.format(chunk=25, diagnose="true", steps=10, queries=50)
    finish(evaluate(model, tmp_path / "one", suite))
    said = finish(evaluate(model, tmp_path / "ray", suite, cluster(2)))
    assert told(tmp_path / "ray") == told(tmp_path / "one")
    assert told(tmp_path / "one")["findings"]
    assert "Robust accuracy" in said


def test_a_node_that_is_removed_in_the_middle(model: Path, tmp_path: Path, cluster: Callable[[int], Nodes]) -> None:
    suite = SUITE.format(chunk=10, diagnose="false", steps=60, queries=600)
    finish(evaluate(model, tmp_path / "one", suite))
    nodes = cluster(3)
    running = evaluate(model, tmp_path / "ray", suite, nodes)
    whole = recorded(tmp_path / "one")
    while running.poll() is None and recorded(tmp_path / "ray") < whole // 2:
        time.sleep(0.05)
    assert running.poll() is None, "the removal must find the evaluation under way"
    nodes.remove()
    finish(running)
    assert told(tmp_path / "ray") == told(tmp_path / "one")


@pytest.mark.soak
def test_workers_and_drivers_that_are_killed(
    model: Path, tmp_path: Path, cluster: Callable[[int], Nodes], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whenever there was progress a worker is killed soon after, and at times the driver."""
    suite = SUITE.format(chunk=10, diagnose="false", steps=60, queries=400)
    nodes, moments = cluster(2), random.Random(1)
    started = time.perf_counter()
    finish(evaluate(model, tmp_path / "ray", suite, nodes))
    undisturbed = time.perf_counter() - started
    killed, drivers, progress = 0, 0, [0]
    started = time.perf_counter()
    running = evaluate(model, tmp_path / "killed", suite, nodes)
    while running.poll() is None:
        time.sleep(0.1)
        if recorded(tmp_path / "killed") <= progress[-1]:
            continue
        time.sleep(moments.uniform(0, 1))  # soon: a fast machine must not finish before three drivers are killed
        progress.append(recorded(tmp_path / "killed"))
        if workers := nodes.workers("ChunkWorker"):
            os.kill(moments.choice(workers), signal.SIGKILL)
            killed += 1
        if drivers < 3 and running.poll() is None:
            running.send_signal(signal.SIGKILL)
            running.communicate()
            drivers += 1
            running = evaluate(model, tmp_path / "killed", suite, nodes)
    finish(running)
    disturbed = time.perf_counter() - started
    assert told(tmp_path / "killed") == told(tmp_path / "ray")
    finish(evaluate(model, tmp_path / "one", suite))
    assert told(tmp_path / "killed") == told(tmp_path / "one")
    assert drivers == 3
    assert progress == sorted(progress)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{killed} workers and {drivers} drivers killed: {disturbed:.0f} s beside {undisturbed:.0f} s\n"
        )


GRID = """
about = "two small models under two suites"

[[model]]
name = "sce"
preset = "digits-sce"
set = ["train.epochs=8", "data.limit=192", "data.test_limit=50"]

[[model]]
name = "mmc"
preset = "digits-mmc"
set = ["train.epochs=8", "data.limit=192", "data.test_limit=50"]

[[evaluation]]
suite = "one.toml"
limit = 30

[[evaluation]]
suite = "two.toml"
limit = 20
"""


def reproduce(folder: Path, out: str, *words: str, **variables: str) -> subprocess.Popen[str]:
    for name in ("one", "two"):
        (folder / f"{name}.toml").write_text(SUITE.format(chunk=10, diagnose="false", steps=5, queries=20))
    (folder / "grid.toml").write_text(GRID)
    return subprocess.Popen(
        [sys.executable, "-m", "maxmahal", "reproduce", "grid.toml", "--out", out, "--device", "cpu", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )


def outcomes(out: Path) -> dict[tuple[str, str], list[object]]:
    """What each attack did to each sample, by model and suite: the order in which evaluations end may differ."""
    return {
        (each.name, each.suite): [(stage.name, stage.columns.prediction.tolist()) for stage in each.stages]
        for each in read_evaluations(out / "records")
        if each.finished
    }


@pytest.mark.soak
def test_a_grid_of_which_a_worker_is_killed_ends_whole(tmp_path: Path, cluster: Callable[[int], Nodes]) -> None:
    nodes = cluster(2)
    running = reproduce(tmp_path, "ray", "--on", "ray", RAY_ADDRESS=nodes.address)
    killed = 0
    while running.poll() is None:
        time.sleep(0.2)
        trained = list((tmp_path / "ray" / "models").glob("*/metrics*"))
        if not killed and trained and (workers := nodes.workers("execute")):
            os.kill(workers[0], signal.SIGKILL)
            killed += 1
    said = finish(running)
    assert killed
    assert (tmp_path / "ray" / "grid.html").exists(), said
    finish(reproduce(tmp_path, "here"))
    assert len(outcomes(tmp_path / "here")) == 4
    assert outcomes(tmp_path / "ray") == outcomes(tmp_path / "here")


def test_a_grid_on_slurm(tmp_path: Path, library: Callable[[str], ModuleType]) -> None:
    """By submitit's local executor, which it takes where there is no Slurm."""
    library("submitit")
    said = finish(reproduce(tmp_path, "slurm", "--on", "slurm", "--jobs", "2"))
    assert (tmp_path / "slurm" / "grid.html").exists(), said
    assert len(outcomes(tmp_path / "slurm")) == 4
    assert "everything is done" in finish(reproduce(tmp_path, "slurm", "--on", "slurm", "--dry-run"))
