"""Trainings of the deep network at other learning rates than its row of Table 5: what they ended at."""

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published.models import title_of
from maxmahal.report.published.shelf import Shelf
from maxmahal.report.published.trainings import learning_rate
from maxmahal.report.wording import listed

_DEEP, _OTHER = "-resnet110", "-lr"


def rates_tried(shelf: Shelf, models: tuple[str, ...]) -> str:
    """What the deep networks among ``models`` ended at with other rates, beside the shallow ones; empty without any."""
    told = [_told(shelf, model, run) for model in models if model.endswith(_DEEP) for run in _tried(shelf, model)]
    if not told:
        return ""
    return f"The deep network at another learning rate, by the trainings' own count of test images: {listed(told)}."


def _tried(shelf: Shelf, model: str) -> list[RunSummary]:
    return [run for run in shelf.runs if run.name.startswith(model + _OTHER) and run.finished]


def _told(shelf: Shelf, model: str, run: RunSummary) -> str:
    shallow = shelf.run(model.removesuffix(_DEEP))
    beside = f" (the shallow network {_ended(shallow)})" if shallow is not None and shallow.finished else ""
    return f"{title_of(shelf, model)} ended at {_ended(run)}{beside}"


def _ended(run: RunSummary) -> str:
    last = run.epochs[-1]
    told = f"{100 * last['test_accuracy']:.1f} % and a training loss of {last['train_loss']:.3g}"
    return f"{told} at {learning_rate(run):g}"
