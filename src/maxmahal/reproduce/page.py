"""The report of a grid: a page about the evaluations of this grid, or about its trainings if it attacks nothing."""

from collections.abc import Mapping
from pathlib import Path

from maxmahal.errors import SettingsError
from maxmahal.evaluate import Evaluation, read_evaluations
from maxmahal.files import write_text_atomically
from maxmahal.records.schema import FILE
from maxmahal.report import write_page
from maxmahal.report.layout import html_page, reported_models
from maxmahal.report.sections.training import training_section
from maxmahal.reproduce.jobs import ReportJob
from maxmahal.reproduce.states import EvaluationKey
from maxmahal.train import RunFolder


def write_report(job: ReportJob) -> None:
    """Write the page, in the order of the grid; evaluations that have not started are left out."""
    if not job.wanted:
        page = _render_curves({name: Path(path) for name, path in job.runs.items()}, job.title)
        if not page:
            raise SettingsError("No model of this grid has finished an epoch yet, so there is nothing to report.")
        write_text_atomically(Path(job.out), page, within=Path(job.out).parent)
        return
    folder = Path(job.records)
    found = read_evaluations(folder) if (folder / FILE).is_file() else []
    known: dict[tuple[object, ...], Evaluation] = {_key(each): each for each in found}
    chosen = [known[key] for key in map(tuple, job.wanted) if key in known]
    if not chosen:
        raise SettingsError(f"{folder} holds no evaluation of this grid yet, so there is nothing to report.")
    write_page(chosen, Path(job.out))


def _key(each: Evaluation) -> EvaluationKey:
    return each.name, each.suite, each.seed, each.samples, each.norm, each.radius


def _render_curves(runs: Mapping[str, Path], title: str) -> str:
    """A page of test error against training time of all runs that have an epoch; empty if there is none."""
    begun = [_unattacked(name, RunFolder(path)) for name, path in runs.items() if RunFolder(path).read_metrics()]
    section = training_section(reported_models(begun)) if begun else None
    if section is None:
        return ""
    return html_page(title, ["trained, not attacked"], [section])


def _unattacked(name: str, folder: RunFolder) -> Evaluation:
    """An evaluation without attacks: a name and the training epochs, for the section about training."""
    return Evaluation(
        name=name,
        target=str(folder.path),
        data="",
        suite="",
        suite_version=1,
        suite_about="",
        seed=0,
        samples=0,
        norm="Linf",
        epsilon="0",
        radius=0.0,
        model_fingerprint="",
        data_fingerprint="",
        class_names=(),
        model={},
        environment={},
        training=folder.read_metrics(),
        stages=(),
        findings=(),
        pictures=(),
        points=(),
        centers_xy=None,
        plane="",
        finished=False,
    )
