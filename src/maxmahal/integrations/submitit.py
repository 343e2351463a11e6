"""Jobs of a grid on Slurm: ``maxmahal reproduce GRID --on slurm``; without Slurm, submitit runs them on this machine.

Variables of sbatch, such as ``SBATCH_PARTITION`` and ``SBATCH_ACCOUNT``, apply to the jobs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from maxmahal.errors import ArgumentError, SettingsError
from maxmahal.imports import optional

submitit = optional("submitit", "pip install 'maxmahal[slurm]'")
AT_ONCE = 64  # jobs in the queue
MINUTES = 24 * 60  # of one job; a job that needs more is resumed by the same command
CORES = 4  # of a job on a GPU


class SlurmProcess:
    """A job of a grid as a job of Slurm."""

    def __init__(self, execute: Callable[..., int], gpus: int, spec: Path, log: Path, threads: int) -> None:
        executor = submitit.AutoExecutor(folder=log.parent / "slurm")
        executor.update_parameters(
            name=spec.stem, timeout_min=MINUTES, cpus_per_task=threads, gpus_per_node=gpus, tasks_per_node=1
        )
        try:
            self._job = executor.submit(execute, str(Path.cwd()), str(spec), str(log), threads)
        except (RuntimeError, OSError) as error:  # of sbatch, or because it is not there
            raise ArgumentError(
                f"Slurm did not take the job ({' '.join(str(error).split())}); correct the variables of sbatch, "
                "such as SBATCH_PARTITION and SBATCH_ACCOUNT, and run the same command again."
            ) from error

    def wait(self, seconds: float | None) -> int | None:
        """The exit status, or None if it still runs after ``seconds``."""
        if seconds is not None and not self._job.done():
            return None
        try:
            return int(self._job.result())
        except submitit.core.utils.UncompletedJobError as error:
            raise ArgumentError(str(error)) from error

    def stop(self) -> None:
        """End it, if it has not ended."""
        if not self._job.done():
            self._job.cancel()


@contextmanager
def open_place(execute: Callable[..., int], device: str, jobs: int | None) -> Iterator[tuple[Any, int, int, str]]:
    """How to launch a job, how many are in the queue at once, and the threads and the device of each."""
    if device not in ("cpu", "cuda"):
        raise SettingsError(
            "--on slurm needs --device cuda or --device cpu, because this host does not see the others."
        )
    on_gpu = device == "cuda"
    yield partial(SlurmProcess, execute, int(on_gpu)), jobs or AT_ONCE, CORES if on_gpu else 1, device
