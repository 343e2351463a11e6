"""Unique names of evaluations: the model's name, with what distinguishes it from others of the same model."""

from collections.abc import Sequence

from maxmahal.records.types import Evaluation


def tell_apart(evaluations: Sequence[Evaluation]) -> list[str]:
    """One unique name per evaluation: "a", or "a (30 samples)" if there is another evaluation of the same model.

    If two do not differ, as in a folder and its copy, they are numbered.
    """
    names = [_name(each, [other for other in evaluations if other.name == each.name]) for each in evaluations]
    return [
        f"{name} (no. {names[:place].count(name) + 1})" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _name(evaluation: Evaluation, twins: Sequence[Evaluation]) -> str:
    columns = zip(*map(_marks, twins), strict=True)
    differing = [mark for mark, column in zip(_marks(evaluation), columns, strict=True) if len(set(column)) > 1]
    return f"{evaluation.name} ({', '.join(differing)})" if differing else evaluation.name


def _marks(evaluation: Evaluation) -> tuple[str, ...]:
    return (
        evaluation.data,
        evaluation.suite,
        f"version {evaluation.suite_version}",
        f"{evaluation.norm} {evaluation.epsilon}",
        f"seed {evaluation.seed}",
        f"{evaluation.samples} samples",
        evaluation.model_fingerprint[:8],
    )
