"""Where the jobs of a grid run, on clusters that are not there: their libraries are asked as little as possible."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from maxmahal.cli.reproduce import reproduce_command
from maxmahal.errors import MaxmahalError
from maxmahal.evaluate import evaluate_models
from maxmahal.evaluate.evaluation import _OutOfTimeError
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.evaluate.suite import load_suite
from maxmahal.imports import integration
from maxmahal.reproduce.jobs import Job, Place, Worker
from maxmahal.reproduce.runner import open_place


@pytest.fixture
def ray(library: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Ray, connected to a cluster of nodes with these resources."""
    library("ray")

    def connect(*nodes: dict[str, float], **more: Any) -> ModuleType:
        names = {name for node in nodes for name in node}
        calls: dict[str, Any] = {
            "is_initialized": lambda: True,
            "cluster_resources": lambda: {name: sum(node.get(name, 0) for node in nodes) for name in names},
            "nodes": lambda: [{"Resources": node} for node in nodes],
            **more,
        }
        module = integration("ray")
        for name, call in calls.items():
            monkeypatch.setattr(module.ray, name, call)
        return module

    return connect


def planned(folder: Path, capsys: pytest.CaptureFixture[str], on: str, device: str, jobs: int | None = None) -> str:
    reproduce_command("digits", folder, dry_run=True, on=on, device=device, jobs=jobs)
    return capsys.readouterr().out


def test_slurm_is_told_the_device_and_says_how_many_jobs_it_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], library: Callable[[str], ModuleType]
) -> None:
    library("submitit")
    assert " on 64 workers." in planned(tmp_path, capsys, "slurm", "cuda")
    assert " on 1 worker." in planned(tmp_path, capsys, "slurm", "cpu", jobs=1)
    with pytest.raises(MaxmahalError, match="--on slurm needs --device cuda or --device cpu"):
        planned(tmp_path, capsys, "slurm", "auto")


def test_ray_says_which_devices_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ray: Callable[..., ModuleType]
) -> None:
    ray({"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0, "GPU": 2.0})
    for device in ("auto", "cuda"):
        assert "(cuda), 4 at once" in planned(tmp_path, capsys, "ray", device)
    assert "(cpu), 16 at once" in planned(tmp_path, capsys, "ray", "cpu")
    with pytest.raises(MaxmahalError, match="--device tpu is not supported"):
        planned(tmp_path, capsys, "ray", "tpu")


def test_a_gpu_that_ray_does_not_have_is_refused(ray: Callable[..., ModuleType]) -> None:
    module = ray({"CPU": 4.0})
    for asked in (lambda: open_place("ray", "cuda", None), lambda: module.open_workers("cuda")):
        with pytest.raises(MaxmahalError, match="the Ray cluster has no GPU; use --device cpu"), asked():
            pass


def test_a_job_needs_no_more_threads_than_a_node_of_its_kind_has(ray: Callable[..., ModuleType]) -> None:
    ray({"CPU": 64.0}, {"CPU": 4.0, "GPU": 1.0})
    with open_place("ray", "auto", None) as place:
        assert (place.jobs, place.threads, place.device) == (1, 4, "cuda")


class Calls:
    """A task of Ray, each call of which ends with an error."""

    def __init__(self, error: Exception) -> None:
        self.made: list[object] = []
        self.asked: dict[str, object] = {}
        self._error = error

    def options(self, **options: object) -> "Calls":
        self.asked = options
        return self

    def remote(self, *arguments: object) -> object:
        self.made.append(arguments)
        return len(self.made)

    def get(self, _: object) -> int:
        raise self._error


def failed(folder: Path, module: ModuleType, calls: Calls) -> str:
    launch = partial(module.RayProcess, lambda *_: 0, {})
    worker = Worker("job", Job("train", {}), folder / "logs", Place(launch, 1, 1))
    assert worker.wait(0.0) == 1
    assert calls.asked["max_retries"] == 0
    return worker.last_line()


def test_a_job_whose_worker_dies_restarts_a_few_times_and_says_why(
    tmp_path: Path, ray: Callable[..., ModuleType]
) -> None:
    """Not by Ray's own retries: one that is killed for memory would restart for ever."""
    error = pytest.importorskip("ray").exceptions.OutOfMemoryError("Task was killed due to memory.\nSome advice.")
    calls = Calls(error)
    module = ray(remote=lambda _: calls, wait=lambda calls, timeout: (calls, []), get=calls.get)
    assert failed(tmp_path, module, calls) == "Task was killed due to memory."
    assert len(calls.made) == 1 + module.MOST_RESTARTS
    assert "Some advice." in (tmp_path / "logs" / "job.log").read_text()


def test_a_job_that_cannot_run_on_its_node_says_why(tmp_path: Path, ray: Callable[..., ModuleType]) -> None:
    text = 'ray::execute()\n  File "jobs.py", line 1\nFileNotFoundError: [Errno 2] No such file or directory: /grid'
    calls = Calls(pytest.importorskip("ray").exceptions.RayTaskError("execute", text, FileNotFoundError()))
    module = ray(remote=lambda _: calls, wait=lambda calls, timeout: (calls, []), get=calls.get)
    assert failed(tmp_path, module, calls).endswith("FileNotFoundError: [Errno 2] No such file or directory: /grid")
    assert len(calls.made) == 1


def test_a_job_of_slurm_that_fails_says_why(tmp_path: Path, library: Callable[[str], ModuleType]) -> None:
    """By submitit's local executor."""
    library("submitit")
    process = partial(integration("submitit").SlurmProcess, int, 0)  # a job that cannot be called
    worker = Worker("job", Job("train", {}), tmp_path / "logs", Place(process, 1, 1))
    assert worker.wait(None) == 1
    assert worker.last_line().startswith("TypeError: int() takes at most 2 arguments")


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("echo 'sbatch: error: Invalid account' >&2; echo >&2; exit 1", "sbatch: error: Invalid account"),
        ("echo ok", "ok"),
        (None, "sbatch"),
    ],
)
def test_a_job_that_slurm_does_not_take_is_one_sentence(
    tmp_path: Path,
    library: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    lines: str | None,
    reason: str,
) -> None:
    library("submitit")
    for name, text in {"srun": "exit 0", "sbatch": lines}.items():
        if text is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    process = partial(integration("submitit").SlurmProcess, int, 0)
    with pytest.raises(MaxmahalError) as caught:
        Worker("job", Job("train", {}), tmp_path / "logs", Place(process, 1, 1))
    text = str(caught.value)
    assert text.startswith("Slurm did not take the job")
    assert reason in text
    assert "SBATCH_ACCOUNT" in text
    assert "\n" not in text


def test_images_are_not_saved_on_other_machines(tmp_path: Path) -> None:
    with pytest.raises(MaxmahalError, match="--save-images writes on the machine that attacks; leave out --on ray"):
        evaluate_models(["zoo:digits-mmc"], out=tmp_path, on="ray", save_images=True)


SUITE = """
version = 1
about = "two attacks"
epsilon = "0.1"
chunk = 10
diagnose = false

[[stage]]
name = "first"
title = "the first"
attack = "fgsm"
scope = "all"

[[stage]]
name = "second"
title = "the second"
attack = "pgd"
objective = "margin"
steps = 2
scope = "all"
"""


@pytest.mark.parametrize("folder", ["there", "nowhere"])
def test_a_node_without_the_files_of_the_driver_says_so(
    folder: str, tmp_path: Path, ray: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ray({"CPU": 1.0})
    monkeypatch.setattr(module.ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)
    given = {"targets": ["runs/mmc"], "data": None, "suite": load_suite("quick"), "limit": None, "trusted": ()}
    packed = pickle.dumps(({**given, "data_dir": None, "device": "cpu"}, {}, ""))
    lacks, named = ("has no folder .*nowhere and ", "") if folder == "nowhere" else ("", "runs/mmc.*")
    with pytest.raises(MaxmahalError, match=rf"^The node 10\.0\.0\.7 {lacks}cannot load .*{named}put the files of"):
        module.ChunkWorker().load(str(tmp_path / folder), [], packed)


def test_an_evaluation_on_ray_that_runs_out_of_time_tells_what_is_left(
    tmp_path: Path, ray: Callable[..., ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three chunks of clean images, three of the first attack and one of the second."""
    module = ray({"CPU": 1.0})

    class Here(module.Workers):  # type: ignore[misc, name-defined]
        left, count = 7, 1

        def hold(self, given: Any, models: Any, data: Any) -> Any:
            self.worker = module.ChunkWorker()
            self.worker.load(".", [], pickle.dumps((given, *module._fingerprints(models, data))))
            return partial(module.RayRun, workers=self)

        def run(self, waiting: Any, check_time: Any) -> Any:
            while waiting:
                if not self.left:
                    raise _OutOfTimeError
                task, self.left = waiting.popleft(), self.left - 1
                yield task, getattr(self.worker, task.method)(*task.arguments)

    monkeypatch.setattr(module, "Workers", Here)
    (tmp_path / "two.toml").write_text(SUITE)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    notes: list[str] = []
    reporter = SilentReporter()
    monkeypatch.setattr(reporter, "note", notes.append)
    (found,) = evaluate_models(
        {"model": model},
        (torch.randint(256, (30, 1, 4, 4), dtype=torch.uint8), torch.arange(30) % 3),
        out=tmp_path / "out",
        suite=tmp_path / "two.toml",
        reporter=reporter,
        on="ray",
    )
    assert notes[-1].endswith("Left to do: the second.")
    assert [stage.planned for stage in found.stages] == [30, 30, 10]
