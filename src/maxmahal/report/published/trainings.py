"""What the trainings cost and what their settings were chosen from, as tables; from the runs alone."""

from collections.abc import Sequence

from maxmahal.evaluate.summary import RunSummary
from maxmahal.report.published.models import DATA, data_of
from maxmahal.report.published.shelf import NOT_RUN, TUNING, Shelf
from maxmahal.report.published.tables import markdown
from maxmahal.report.wording import duration


def cost_table(shelf: Shelf) -> str:
    """What each training took; runs of one machine and batch size can be compared, others cannot."""
    body = []
    for run in shelf.runs:
        if run.name.startswith(TUNING):
            continue
        train, count = run.settings.get("train", {}), len(run.epochs)
        state = "" if run.finished else " (not finished)"
        speed = f"{run.train_seconds / count:.2f} s" if count else NOT_RUN
        facts = [str(count), str(train.get("batch_size", "")), _place(run), speed]
        body.append([f"{run.name}{state}", *facts, duration(run.train_seconds), _final_error(run.epochs)])
    header = ["run", "epochs", "batch", "device", "an epoch", "in all", "test error at the end (%)"]
    return markdown(header, body) if body else "No training has been collected yet."


def tuning_table(shelf: Shelf) -> str:
    """The trials that settings were chosen from; empty where none was collected."""
    body = []
    for run in shelf.runs:
        if run.name.startswith(TUNING):
            train, loss = run.settings.get("train", {}), run.settings.get("loss", {}).get("name", "")
            facts = [str(train.get(key, "")) for key in ("epochs", "batch_size", "lr", "weight_decay")]
            scores = [_best(run.epochs, key) for key in ("validation_accuracy", "validation_pgd10")]
            body.append([run.name, _data(run), str(loss), *facts, *scores])
    header = ["trial", "data", "loss", "epochs", "batch", "lr", "weight decay", "best validation"]
    return markdown([*header, "best validation PGD-10"], body, 3) if body else ""


def schedules(shelf: Shelf, models: Sequence[str]) -> str:
    """How these models were trained, each way once, as a sentence; empty where nothing is known of any."""
    ways: list[str] = []
    for model in models:
        known = [each.model.get("settings", {}) for each in shelf.evaluations if each.name == model]
        known += [run.settings for run in [shelf.run(model)] if run is not None]
        train = next((settings["train"] for settings in known if "lr" in settings.get("train", {})), None)
        if train is not None:
            ways.append(
                f"{train['epochs']} epochs in batches of {train['batch_size']}, learning rate {train['lr']:g}, "
                f"weight decay {train['weight_decay']:g}"
            )
    return f"Trained for {'; or for '.join(dict.fromkeys(ways))}." if ways else ""


def _data(run: RunSummary) -> str:
    source = str(run.settings.get("data", {}).get("source", data_of(run.name)))
    return DATA.get(source, source)


def _place(run: RunSummary) -> str:
    """Where it ran, and beside how many others."""
    where = run.gpu or run.device or "unknown"
    return f"{where}, shared by {run.sharing}" if run.sharing > 1 else where


def _best(epochs: Sequence[dict[str, object]], key: str) -> str:
    values = [value for entry in epochs if isinstance(value := entry.get(key), float)]
    return f"{100 * max(values):.1f}" if values else "–"


def _final_error(epochs: Sequence[dict[str, object]]) -> str:
    accuracy = epochs[-1].get("test_accuracy") if epochs else None
    return f"{100 - 100 * accuracy:.1f}" if isinstance(accuracy, float) else NOT_RUN
