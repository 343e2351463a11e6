"""Reading a folder of summaries; two models or two data sets under one name would make tables of nothing."""

from collections.abc import Callable, Mapping
from pathlib import Path

from maxmahal.evaluate.records.schema import RecordsError
from maxmahal.evaluate.summary import Summary, read_run, read_summary
from maxmahal.report.published.shelf import Shelf

EVALUATIONS, RUNS = "evaluations", "runs"


def read_shelf(folder: Path) -> Shelf:
    """The summaries below a folder, in the order of their files' names; none at all where there is no folder."""
    evaluations = {path: read_summary(path) for path in sorted((folder / EVALUATIONS).glob("*.json"))}
    _refuse_two(evaluations, lambda each: each.model_fingerprint, lambda each: (each.name,), "weights")
    _refuse_two(evaluations, lambda each: each.data, lambda each: (each.name,), "data")
    _refuse_two(evaluations, lambda each: each.data_fingerprint, lambda each: (each.name, each.samples), "images")
    return Shelf(tuple(evaluations.values()), tuple(read_run(path) for path in sorted((folder / RUNS).glob("*.json"))))


def _refuse_two(
    evaluations: Mapping[Path, Summary],
    what: Callable[[Summary], str],
    per: Callable[[Summary], tuple[object, ...]],
    word: str,
) -> None:
    first: dict[tuple[object, ...], Path] = {}
    for path, summary in evaluations.items():
        other = first.setdefault(per(summary), path)
        if what(evaluations[other]) != what(summary):
            raise RecordsError(
                f"{other} and {path.name} are both of '{summary.name}' but of different {word} "
                f"({what(evaluations[other])} and {what(summary)}); remove the older one, or collect both again."
            )
