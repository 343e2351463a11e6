"""Reading a folder of summaries; two models or two data sets under one name would make tables of nothing."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from maxmahal.records.schema import RecordsError
from paper.pages.models import ADVERSARIAL_CIFAR100, LONG, SHORT
from paper.pages.shelf import STRONG, Shelf
from paper.pages.steps import StepPairs, Steps
from paper.summaries import BEST, RunSummary, Summary, read_run, read_summary

EVALUATIONS, RUNS = "evaluations", "runs"
STEPS = "train_step_cuda.json"
"""What the benchmark of training steps found, among the benchmarks' results."""

_WITH_BEST = (*LONG, *SHORT, *ADVERSARIAL_CIFAR100)
_NETWORK = "resnet32"  # the one that the claims on training are about


def read_shelf(folder: Path, benchmarks: Path | None = None) -> Shelf:
    """The summaries below a folder, in the order of their files' names; none at all where there is no folder.

    The times of training steps come from a folder of the benchmarks' results, where one is given.
    """
    evaluations = {path: read_summary(path) for path in sorted((folder / EVALUATIONS).glob("*.json"))}
    _refuse_two(evaluations, lambda each: each.model_fingerprint, lambda each: (each.name,), "weights")
    _refuse_two(evaluations, lambda each: each.data, lambda each: (each.name,), "data")
    _refuse_two(evaluations, lambda each: each.data_fingerprint, lambda each: (each.name, each.samples), "images")
    runs = tuple(read_run(path) for path in sorted((folder / RUNS).glob("*.json")))
    known = tuple(evaluations.values())
    return Shelf(
        (*known, *_of_best(known, runs)), runs, None if benchmarks is None else _read_steps(benchmarks / STEPS)
    )


def _of_best(known: Sequence[Summary], runs: Sequence[RunSummary]) -> Iterator[Summary]:
    """The careful evaluations of best checkpoints that are the last ones: attacks on the same weights find the same.

    Of models whose best checkpoints are compared; one that was evaluated with other weights is left as it is.
    """
    same = {run.name: last for run in runs if (last := run.weights.get("last")) and last == run.weights.get("best")}
    weights = {each.name: each.model_fingerprint for each in known}
    seen = {_attacked(each) for each in known}
    for each in known:
        best = replace(each, name=f"{each.name}{BEST}")
        own = {same.get(each.name), weights.get(best.name, each.model_fingerprint)} == {each.model_fingerprint}
        if own and each.name in _WITH_BEST and each.suite in STRONG and _attacked(best) not in seen:
            yield best


def _attacked(summary: Summary) -> tuple[object, ...]:
    return summary.name, summary.suite, summary.norm, summary.radius, summary.samples, summary.seed


def _read_steps(path: Path) -> Steps | None:
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(
            StepPairs(
                int(row["batch_size"]),
                int(row["pairs"]),
                *(float(row[key]) for key in ("mmc_over_sce", "low_quartile", "high_quartile")),
            )
            for row in found["rows"]
            if row["backbone"] == _NETWORK
        )
        if not rows:
            raise ValueError(f"no row of {_NETWORK}")
        return Steps(found["device"], found["command"], rows)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordsError(
            f"{path} is not what the benchmark of training steps writes ({error}); run that again."
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
