"""The report of a grid: the page that any folder of records makes, of this grid's evaluations alone."""

from pathlib import Path

from maxmahal.errors import SettingsError
from maxmahal.evaluate import Evaluation, read_evaluations
from maxmahal.files import write_text_atomically
from maxmahal.records.schema import FILE
from maxmahal.report import write_page
from maxmahal.reproduce.curves import render_curves
from maxmahal.reproduce.jobs import ReportJob
from maxmahal.reproduce.states import Identity


def write_report(job: ReportJob) -> None:
    """In the order of the grid; evaluations that have not begun are left out, unfinished ones say so."""
    if not job.wanted:
        page = render_curves({name: Path(path) for name, path in job.runs.items()}, job.title)
        if not page:
            raise SettingsError("No model of this grid has finished an epoch yet, so there is nothing to report.")
        write_text_atomically(Path(job.out), page, within=Path(job.out).parent)
        return
    folder = Path(job.records)
    found = read_evaluations(folder) if (folder / FILE).is_file() else []
    known: dict[tuple[object, ...], Evaluation] = {_identity(each): each for each in found}
    chosen = [known[key] for key in map(tuple, job.wanted) if key in known]
    if not chosen:
        raise SettingsError(f"{folder} holds no evaluation of this grid yet, so there is nothing to report.")
    write_page(chosen, Path(job.out))


def _identity(each: Evaluation) -> Identity:
    return each.name, each.suite, each.seed, each.samples, each.norm, each.radius
