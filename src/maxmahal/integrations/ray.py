"""Evaluations and jobs on a Ray cluster: ``maxmahal evaluate TARGET --on ray``.

The cluster is that of ``RAY_ADDRESS``, or one that runs on this machine, or one that is started for this call. Ray
places the workers, one per GPU or CPU core. This process hands out chunks and is the only one that writes records: if a
worker or a node dies, its chunk is computed again elsewhere; if this process dies, the same command continues.
"""

import logging
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError, DataError, MaxmahalError, SettingsError
from maxmahal.evaluate.diagnose.checks import CHECKS
from maxmahal.evaluate.durations import duration
from maxmahal.evaluate.evaluated_model import EvaluatedModel, code_gate, loaded
from maxmahal.evaluate.evaluation import EvaluationRun, PlannedEvaluation
from maxmahal.evaluate.fingerprints import describe_device, fingerprint_data
from maxmahal.evaluate.plan import blocks, lower_shares, samples_of
from maxmahal.evaluate.stage import StageOutput
from maxmahal.evaluate.suite import Stage
from maxmahal.imports import optional
from maxmahal.records import Finding
from maxmahal.settings import Table

ray = optional("ray", "pip install 'maxmahal[ray]'")
LOOK = 1.0  # seconds between looks at the clock and at the size of the cluster
RESOURCES = {"cpu": "CPU", "cuda": "GPU"}
MOST_RESTARTS = 3  # of a job whose worker died
MOST_DEATHS = 20  # in a row: then it is not chance that workers die


@contextmanager
def connected() -> Iterator[None]:
    """Connect to the cluster, which is started if there is none."""
    if ray.is_initialized():
        yield
        return
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise ArgumentError(f"Ray cannot start ({error}); see `ray status`, or unset RAY_ADDRESS.") from error
    try:
        yield
    finally:
        ray.shutdown()


class ChunkWorker:
    """Holds the models and images of an evaluation on one GPU or core, and computes the chunks that it is sent."""

    def load(self, folder: str, paths: list[str], packed: bytes) -> None:
        """Load what the driver has loaded, and make sure that it is the same."""
        node = f"The node {ray.util.get_node_ip_address()}"
        try:
            os.chdir(folder)  # paths and modules of the user's are relative to the driver's folder
        except OSError:  # absolute paths and names do not need it
            node += f" has no folder {folder} and"
        sys.path += [path for path in paths if path not in sys.path]
        given, *expected = pickle.loads(packed)
        self._gate = partial(code_gate, *(given[name] for name in ("targets", "data", "suite", "trusted")))
        way_out = "put the files of the driver there, at the same place."
        try:
            with loaded(**given) as (self._models, self._data, self._suite):
                same = _fingerprints(self._models, self._data) == expected
        except MaxmahalError as error:
            raise DataError(f"{node} cannot load the model or its images ({error}); {way_out}") from error
        if not same:
            raise DataError(f"{node} has another model or other images under the same name; {way_out}")
        self._planned: dict[str, PlannedEvaluation] = {}

    def compute(self, planned: Table, stage: Stage, *chunk: Any) -> tuple[StageOutput, str]:
        """One chunk, without its images, and the device."""
        with self._gate():
            evaluation = self._evaluation(planned)
            output = evaluation.compute(stage, *chunk)
            return replace(output, images=output.images[:0].cpu()), describe_device(evaluation.target.device)

    def check(self, planned: Table, name: str) -> Finding:
        """One diagnostic."""
        with self._gate():
            return CHECKS[name](self._evaluation(planned).probe())

    def _evaluation(self, planned: Table) -> PlannedEvaluation:
        if planned["name"] not in self._planned:
            made = PlannedEvaluation(suite=self._suite, data=self._data, others=self._models, **planned)
            self._planned[planned["name"]] = made
        return self._planned[planned["name"]]


def _fingerprints(models: Mapping[str, EvaluatedModel], data: ImageData) -> list[Any]:
    return [{name: model.fingerprint for name, model in models.items()}, fingerprint_data(data)]


@dataclass(frozen=True, eq=False)
class Task:
    """A call of a worker's method."""

    method: str
    arguments: tuple[Any, ...]
    key: Any = None


def _pick_device(device: str) -> str:
    """The kind of device that the cluster gives to each worker."""
    kind, gpus = device.partition(":")[0], ray.cluster_resources().get("GPU", 0)
    if kind not in ("auto", *RESOURCES):
        raise SettingsError(f"--device {device} is not supported; use auto, cpu or cuda.")
    if kind == "cuda" and gpus < 1:
        raise ArgumentError("--device cuda was asked for, but the Ray cluster has no GPU; use --device cpu.")
    return "cuda" if kind != "cpu" and gpus >= 1 else "cpu"


class Workers:
    """As many workers as the cluster has room for."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(_pick_device(device))
        self._resource = RESOURCES[self.device.type]
        self._make = ray.remote(ChunkWorker).options(**{f"num_{self._resource.lower()}s": 1})
        self._subject: tuple[Any, ...] = ()
        self._starting: dict[Any, Any] = {}
        self._busy: dict[Any, tuple[Any, Task]] = {}
        self._idle: list[Any] = []
        self._deaths = 0

    @property
    def room(self) -> int:
        """How many workers the cluster can hold."""
        return max(1, int(ray.cluster_resources().get(self._resource, 0)))

    @property
    def count(self) -> int:
        """How many are ready or at work."""
        return len(self._busy) + len(self._idle)

    def hold(
        self, given: Table, models: Mapping[str, EvaluatedModel], data: ImageData
    ) -> "Callable[..., EvaluationRun]":
        """Let the workers load the same models and images; returns what makes an evaluation that uses the workers."""
        try:
            packed = ray.cloudpickle.dumps(({**given, "device": self.device}, *_fingerprints(models, data)))
        except Exception as error:  # a model may hold anything: locks, handles, tensors inside a graph
            raise ArgumentError(
                f"The model or its images cannot be sent to workers ({error}); name them as package.module:function."
            ) from error
        self._subject = str(Path.cwd()), sys.path, ray.put(packed)
        return partial(RayRun, workers=self)

    def close(self) -> None:
        """End all workers."""
        for worker in [*self._starting.values(), *(worker for worker, _ in self._busy.values()), *self._idle]:
            ray.kill(worker)

    def run(self, waiting: deque[Task], check_time: Callable[[], None]) -> Iterator[tuple[Task, Any]]:
        """Each task with its result, in the order in which they end; the caller may add tasks meanwhile."""
        while waiting or self._busy:
            check_time()
            wanted = min(self.room, len(waiting) + len(self._busy))
            while self.count + len(self._starting) < wanted:
                worker = self._make.remote()
                self._starting[worker.load.remote(*self._subject)] = worker
            while waiting and self._idle:
                worker, task = self._idle.pop(), waiting.popleft()
                self._busy[getattr(worker, task.method).remote(*task.arguments)] = worker, task
            ready, _ = ray.wait([*self._busy, *self._starting], timeout=LOOK)
            for call in ready:
                yield from self._collect(call, waiting)

    def _collect(self, call: Any, waiting: deque[Task]) -> Iterator[tuple[Task, Any]]:
        worker, task = (self._starting.pop(call), None) if call in self._starting else self._busy.pop(call)
        try:
            result = ray.get(call)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except (
            ray.exceptions.RayError
        ) as error:  # the worker or its node is gone; another one starts where there is room
            ray.kill(worker)
            waiting.extendleft([task] if task is not None else [])
            self._deaths += 1
            if self._deaths >= MOST_DEATHS:
                raise ArgumentError(
                    f"Workers died {MOST_DEATHS} times in a row ({error}); see Ray's logs, for memory above all."
                ) from error
        else:
            self._idle.append(worker)
            if task is not None:
                self._deaths = 0
                yield task, result


@contextmanager
def open_workers(device: torch.device | str) -> Iterator[Workers]:
    """The workers of the cluster until the end of the block."""
    with connected():
        workers = Workers(str(device))
        try:
            yield workers
        finally:
            workers.close()


@dataclass(kw_only=True)
class RayRun(EvaluationRun):
    """An evaluation whose chunks are computed by workers; a block of samples goes on to its next stage by itself."""

    workers: Workers

    @property
    def _planned(self) -> Table:
        names = ("name", "stochastic", "transfer", "seed", "images_folder")
        return {name: getattr(self, name) for name in names}

    def _findings(self, missing: Mapping[str, int]) -> Iterator[tuple[str, Finding]]:
        tasks = deque(Task("check", (self._planned, name), name) for name in missing)
        for task, finding in self.workers.run(tasks, lambda: self._check_time(0.0)):
            yield task.key, finding

    def _run_all(self, stages: Sequence[tuple[int, Stage]]) -> None:
        progress = _Blocks(self, stages)
        title = stages[0][1].title if len(stages) == 1 else f"{len(stages)} attacks"
        self.reporter.stage(title, progress.planned, progress.done)
        tasks = deque(task for number in range(progress.count) if (task := progress.next_task(number)) is not None)
        begun, before = time.monotonic(), progress.done
        try:
            for task, (output, device) in self.workers.run(tasks, lambda: self._check_time(0.0)):
                position, number = task.key
                progress.record(position, number, output, device)
                following = progress.next_task(number)
                tasks.extend([] if following is None else [following])
                fresh, seconds = progress.done - before, time.monotonic() - begun
                left = duration(max(seconds / fresh * (progress.planned - progress.done), 1.0))
                self.reporter.within(0.0, f"{self.workers.count} workers, about {left} left")
        finally:
            for stage in progress.unfinished()[:1]:
                self._forecast.begin(stage, 0, 0.0)
            self.store.count_samples(self.number)


class _Blocks:
    """How far each block of samples has come, and what is next for it."""

    def __init__(self, run: RayRun, stages: Sequence[tuple[int, Stage]]) -> None:
        if "block" not in run._body:
            raise ArgumentError("An earlier version of maxmahal began this evaluation; continue it without --on ray.")
        self._run, self._stages = run, dict(stages)
        self._parts = {position: blocks(stage, len(run.data), run._body["block"]) for position, stage in stages}
        # Each block has been through its stages in order, so what is recorded of it are the stages before the next.
        self._shares = run.store.worst_shares(run.number)
        self._clean = run.store.clean_predictions(run.number)
        self._recorded = {position: run.store.done_chunks(run.number, position) for position in self._stages}
        for position, parts in self._parts.items():
            run.store.size(run.number, position, None, len(parts))
        self.count = max(map(len, self._parts.values()), default=0)
        self.planned = sum(len(part) for parts in self._parts.values() for part in parts)
        recorded = ((position, number) for position, numbers in self._recorded.items() for number in numbers)
        self.done = sum(len(self._parts[position][number]) for position, number in recorded)

    def unfinished(self) -> list[Stage]:
        """The stages that lack a chunk."""
        return [stage for at, stage in self._stages.items() if len(self._recorded[at]) < len(self._parts[at])]

    def next_task(self, number: int) -> Task | None:
        """The next chunk of a block; None at its end."""
        run = self._run
        for position, stage in self._stages.items():
            if number in self._recorded[position] or number >= len(self._parts[position]):
                continue
            if rows := samples_of(stage, self._parts[position][number], self._shares, run._ids):
                before = {run._ids[row]: self._clean[run._ids[row]] for row in rows} if position else None
                return Task("compute", (run._planned, stage, number, rows, before, run._plane), (position, number))
            run.store.add_empty_chunks(run.number, position, [number], describe_device(run.target.device))
            self._settle(position, number)
        return None

    def record(self, position: int, number: int, output: StageOutput, device: str) -> None:
        """A chunk is done."""
        if self._stages[position].counts:
            lower_shares(self._shares, output.columns)
        self._run.store.add_chunk(self._run.number, position, number, output, device)
        self._settle(position, number)

    def _settle(self, position: int, number: int) -> None:
        self._recorded[position].add(number)
        samples = len(self._parts[position][number])
        self.done += samples
        self._run.reporter.chunk(samples, sum(self._shares.values()) / max(len(self._shares), 1))


class RayProcess:
    """A job of a grid as a task of Ray; it starts again if its worker or node dies, and resumes its work."""

    def __init__(self, execute: Callable[..., int], options: Table, spec: Path, log: Path, threads: int) -> None:
        # Ray itself would restart a job that is killed for its memory without end, whatever the number of retries.
        task = ray.remote(execute).options(**options, num_cpus=threads, max_retries=0)
        self._start = partial(task.remote, str(Path.cwd()), str(spec), str(log), threads)
        self._call, self._restarts = self._start(), MOST_RESTARTS

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None if it still runs after ``seconds``."""
        ready, _ = ray.wait([self._call], timeout=seconds)
        try:
            return int(ray.get(self._call)) if ready else None
        except ray.exceptions.RayError as error:
            if isinstance(error, ray.exceptions.RayTaskError) or not self._restarts:
                raise ArgumentError(str(error)) from error
            self._restarts -= 1
            self._call = self._start()
            return self.wait(seconds)

    def stop(self) -> None:
        """End it, if it has not ended."""
        ray.cancel(self._call, force=True)


@contextmanager
def open_place(execute: Callable[..., int], device: str, jobs: int | None) -> Iterator[tuple[Any, int, int, str]]:
    """How to launch a job on the cluster, how many run at once, and the threads and the device of each."""
    with connected():
        room, kind = ray.cluster_resources(), _pick_device(device)
        count = jobs or max(1, int(room.get(RESOURCES[kind], 1)))
        options = {} if kind == "cpu" else {"num_gpus": 1}
        # A job runs on one node: asked for more threads than any has, Ray would wait for ever.
        most = [node["Resources"].get("CPU", 1) for node in ray.nodes() if RESOURCES[kind] in node["Resources"]]
        threads = max(1, int(min(room.get("CPU", 1) // count, max(most, default=1))))
        yield partial(RayProcess, execute, options), count, threads, kind
