"""Runs one training, evaluation or report in its own process: ``python -m maxmahal.reproduce.worker JOB.json``.

It may be killed at any time: the next call resumes its work.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from maxmahal.errors import MaxmahalError, SettingsError
from maxmahal.evaluate import evaluate_models, read_evaluations
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.files import parse_json, read_text, write_text_atomically
from maxmahal.records import Finding
from maxmahal.records.schema import FILE
from maxmahal.report import write_page
from maxmahal.report.chart import SERIES
from maxmahal.report.layout import html_page
from maxmahal.report.sections import make_section
from maxmahal.report.sections.training import TrainedModel, measured_epochs, training_chart
from maxmahal.reproduce.jobs import END_WITH_PARENT, PROGRESS, Job
from maxmahal.reproduce.reporter import write_line
from maxmahal.settings import from_table
from maxmahal.train import RunFolder, Settings, train_model
from maxmahal.train.loop import Metrics


class _Lines(SilentReporter):
    """Reports one line per epoch of a training and per chunk of an evaluation."""

    def __init__(self) -> None:
        self._title, self._planned, self._done = "", 0, 0

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:  # noqa: ARG002
        self._planned = epochs

    def step(self) -> None:
        pass

    def epoch(self, metrics: Metrics) -> None:
        shown = {"test_accuracy": "test", "validation_pgd10": "PGD-10"}
        scores = [f", {name} {metrics[key]:.1%}" for key, name in shown.items() if key in metrics]
        write_line(f"{PROGRESS}epoch {metrics['epoch']:.0f} of {self._planned}{''.join(scores)}")

    def begin(self, name: str, samples: int) -> None:
        write_line(f"{name}: {samples} samples")

    def stage(self, title: str, planned: int, done: int) -> None:
        self._title, self._planned, self._done = title, planned, done

    def chunk(self, samples: int, robust: float) -> None:
        self._done += samples
        write_line(f"{PROGRESS}{self._title}: {self._done} of {self._planned}, robust so far: {robust:.1%}")

    def finding(self, finding: Finding) -> None:
        write_line(f"{'! ' if finding.flagged else ''}{finding.title}: {finding.sentence}")

    def note(self, text: str) -> None:
        write_line(text)


def run_job(job: Job) -> None:
    """Train, evaluate or report with the public functions of the library."""
    arguments = dict(job.arguments)
    until = None if job.until is None else time.monotonic() + job.until - time.time()
    if job.kind == "train":
        settings = from_table(Settings, arguments.pop("settings"))
        train_model(settings, **arguments, resume=True, reporter=_Lines(), until=until)
    elif job.kind == "evaluate":
        evaluate_models(**arguments, reporter=_Lines(), until=until)
    else:
        write_report(**arguments)


def write_report(
    *, records: str, wanted: Sequence[Sequence[str | int | float]], runs: Mapping[str, str], title: str, out: str
) -> None:
    """A page about the ``wanted`` evaluations in ``records``, each an ``EvaluationKey``, as far as they have started.

    For a grid that evaluates nothing, it is about the trainings in the folders ``runs``.
    """
    if not wanted:
        read = {name: measured_epochs(RunFolder(Path(path)).read_metrics()) for name, path in runs.items()}
        begun = [(name, epochs) for name, epochs in read.items() if epochs]
        if not begun:
            raise SettingsError("No model of this grid has finished an epoch yet, so there is nothing to report.")
        models = [TrainedModel(name, place % SERIES, epochs) for place, (name, epochs) in enumerate(begun)]
        section = make_section("training", {"chart": training_chart(models), "models": models})
        page = html_page(title, ["trained, not attacked"], [section])
        write_text_atomically(Path(out), page, within=Path(out).parent)
        return
    folder = Path(records)
    found = read_evaluations(folder) if (folder / FILE).is_file() else []
    known = {attrgetter("name", "suite", "seed", "samples", "norm", "radius")(each): each for each in found}
    chosen = [known[key] for key in map(tuple, wanted) if key in known]
    if not chosen:
        raise SettingsError(f"{folder} holds no evaluation of this grid yet, so there is nothing to report.")
    write_page(chosen, Path(out))


def main(arguments: list[str]) -> int:
    """Run the job in a file; a user's mistake is printed as one sentence."""
    if END_WITH_PARENT in arguments:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    (spec,) = (word for word in arguments if word != END_WITH_PARENT)
    try:
        run_job(Job(**parse_json(read_text(Path(spec)))))
    except MaxmahalError as error:
        write_line(str(error))
        return 2
    return 0


def _end_with_parent() -> None:
    """End this process when the parent ends, even by SIGKILL, which closes our standard input."""
    os.read(0, 1)  # never written to; not sys.stdin, which Python could not close at the end
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)  # with torch's compile processes
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
