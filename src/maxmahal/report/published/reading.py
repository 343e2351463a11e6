"""Reading a folder of summaries; two models or two data sets under one name would make tables of nothing."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from maxmahal.evaluate.records.schema import RecordsError
from maxmahal.evaluate.summary import Summary, read_run, read_summary
from maxmahal.report.published.shelf import Shelf, Steps

EVALUATIONS, RUNS = "evaluations", "runs"
STEPS = "train_engine_cuda.json"
"""What the benchmark of the training engine found, among the benchmarks' results."""

_COMPARED = re.compile(r"engine, batch (\d+), SCE")  # the row of that benchmark that MMC's steps are set against


def read_shelf(folder: Path, benchmarks: Path | None = None) -> Shelf:
    """The summaries below a folder, in the order of their files' names; none at all where there is no folder.

    The times of training steps come from a folder of the benchmarks' results, where one is given.
    """
    evaluations = {path: read_summary(path) for path in sorted((folder / EVALUATIONS).glob("*.json"))}
    _refuse_two(evaluations, lambda each: each.model_fingerprint, lambda each: (each.name,), "weights")
    _refuse_two(evaluations, lambda each: each.data, lambda each: (each.name,), "data")
    _refuse_two(evaluations, lambda each: each.data_fingerprint, lambda each: (each.name, each.samples), "images")
    runs = tuple(read_run(path) for path in sorted((folder / RUNS).glob("*.json")))
    return Shelf(tuple(evaluations.values()), runs, None if benchmarks is None else _read_steps(benchmarks / STEPS))


def _read_steps(path: Path) -> Steps | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        batches = [match for row in found["rows"] if (match := _COMPARED.fullmatch(row["name"]))]
        return Steps(found["device"], int(batches[0][1]), float(found["mmc_over_sce"]), found["command"])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise RecordsError(
            f"{path} is not what the benchmark of the training engine writes ({error}); run that again."
        ) from error


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
