"""One training, evaluation or report in a process of its own: ``python -m maxmahal.reproduce.worker SPEC.json``.

It may be killed at any moment: whatever it does goes on where it stopped.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from maxmahal.errors import MaxmahalError
from maxmahal.evaluate import evaluate_models
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.records import Finding
from maxmahal.reproduce.jobs import PROGRESS, WATCHED, EvaluateJob, Job, TrainJob, read_job
from maxmahal.settings import from_table
from maxmahal.train import Settings, train_model
from maxmahal.train.loop import Metrics, Silent


class TrainingLines(Silent):
    """A line an epoch."""

    def __init__(self) -> None:
        self._epochs = 0

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:  # noqa: ARG002
        """Remember how many there are."""
        self._epochs = epochs

    def epoch(self, metrics: Metrics) -> None:
        """How far, and how good."""
        robust = f", PGD-10 {metrics['validation_pgd10']:.1%}" if "validation_pgd10" in metrics else ""
        accuracy = f"test {metrics['test_accuracy']:.1%}"
        _say(f"{PROGRESS}epoch {metrics['epoch']:.0f} of {self._epochs}, {accuracy}{robust}")

    def note(self, text: str) -> None:
        """As it is."""
        _say(text)


class EvaluationLines(SilentReporter):
    """A line a chunk."""

    def __init__(self) -> None:
        self._title, self._planned, self._done = "", 0, 0

    def begin(self, name: str, samples: int) -> None:
        """Which model."""
        _say(f"{name}: {samples} samples")

    def stage(self, title: str, planned: int, done: int) -> None:
        """Remember what is running."""
        self._title, self._planned, self._done = title, planned, done

    def chunk(self, samples: int, robust: float) -> None:
        """How far, and what is left standing."""
        self._done += samples
        _say(f"{PROGRESS}{self._title}: {self._done} of {self._planned}, standing so far {robust:.1%}")

    def finding(self, finding: Finding) -> None:
        """What a check saw."""
        _say(f"{'! ' if finding.flagged else ''}{finding.title}: {finding.sentence}")

    def note(self, text: str) -> None:
        """As it is."""
        _say(text)


def run_job(job: Job, until: float | None) -> None:
    """Through the same functions as everybody else's trainings and evaluations."""
    if isinstance(job, TrainJob):
        train_model(
            from_table(Settings, job.settings),
            job.out,
            resume=True,
            data_dir=job.data_dir,
            device=job.device,
            reporter=TrainingLines(),
            until=until,
            sharing=job.sharing,
        )
    elif isinstance(job, EvaluateJob):
        evaluate_models(
            job.targets,
            data=job.data,
            out=job.out,
            suite=job.suite,
            limit=job.limit,
            epsilon=job.epsilon,
            transfer=job.transfer,
            trusted=job.trusted,
            data_dir=job.data_dir,
            device=job.device,
            reporter=EvaluationLines(),
            until=until,
        )
    else:
        # Only here: a machine that trains may lack what pages are made with.
        from maxmahal.reproduce.page import write_report

        write_report(job)


def main(arguments: list[str]) -> int:
    """Do what the file says; a user's mistake ends in one sentence."""
    if WATCHED in arguments:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    (spec,) = (word for word in arguments if word != WATCHED)
    try:
        run_job(*read_job(Path(spec)))
    except MaxmahalError as error:
        _say(str(error))
        return 2
    return 0


def _end_with_parent() -> None:
    """The parent holds the other end of our standard input; when it is gone, even by SIGKILL, so are we."""
    os.read(0, 1)  # never written to; and not through sys.stdin, which Python could not close at the end
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)  # with the processes that torch compiles in
    os._exit(1)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
