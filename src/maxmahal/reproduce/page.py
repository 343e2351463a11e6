"""The report of a grid: a page about the evaluations of this grid, or about its trainings if it attacks nothing."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from maxmahal.errors import SettingsError
from maxmahal.evaluate import read_evaluations
from maxmahal.files import write_text_atomically
from maxmahal.records.schema import FILE
from maxmahal.report import write_page
from maxmahal.report.chart import SERIES
from maxmahal.report.layout import html_page
from maxmahal.report.sections import make_section
from maxmahal.report.sections.training import TrainedModel, measured_epochs, training_chart
from maxmahal.train import RunFolder


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
