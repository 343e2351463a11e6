"""How severe errors are, by hand, on records made by hand, and end to end on the digits."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_evaluations_helpers import made_up
from small_evaluations_helpers import stage_of as stage

from maxmahal import evaluate_models, train_model
from maxmahal.data import load_dataset
from maxmahal.errors import ArgumentError
from maxmahal.evaluate import Evaluation
from maxmahal.records.types import Columns, StageRecords
from maxmahal.records.verdict import give_verdict
from maxmahal.train import load_settings
from paper.summaries.severity import Severity, measure_severity

SUPERCLASSES = (0, 0, 0, 1, 1)


def rows(samples: Sequence[int], labels: Sequence[int], predictions: Sequence[int], broken: Sequence[int]) -> Columns:
    count, wrong = np.zeros(len(samples), dtype=np.int64), np.array(broken, dtype=bool)
    return Columns(
        sample=np.array(samples),
        label=np.array(labels),
        clean_prediction=np.array(labels),
        prediction=np.array(predictions),
        right_before=np.ones(len(samples), dtype=bool),
        broken=wrong,
        right_share=np.where(wrong, 0.0, 1.0),
        distortion=np.zeros(len(samples)),
        iterations=count,
        forward=count,
        backward=count,
        queries=count,
    )


def evaluation(*stages: StageRecords) -> Evaluation:
    return made_up(*stages, class_names=("a", "b", "c", "d", "e"))


# Samples 10..14 with the labels 0, 1, 2, 3, 4: on clean images 11 is near, 12 is far.
CLEAN = stage("clean", rows([10, 11, 12, 13, 14], [0, 1, 2, 3, 4], [0, 0, 4, 3, 4], [0, 1, 1, 0, 0]))


def test_counts_by_hand() -> None:
    found = Severity((6, 3, 1))
    assert found.superclass_accuracy.value == 0.9
    assert found.within is not None
    assert (found.within.count, found.within.total) == (3, 4)


def test_without_errors_no_share_of_them_is_within() -> None:
    found = Severity((7, 0, 0))
    assert found.within is None
    assert found.superclass_accuracy.value == 1


@pytest.mark.parametrize("counts", [(3,), (0, 0, 0), (1, -1, 3)])
def test_counts_that_mean_nothing_are_refused(counts: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="three counts"):
        Severity(counts)


def test_clean_errors() -> None:
    found = measure_severity(evaluation(CLEAN), SUPERCLASSES)
    assert found["clean"].counts == found["worst"].counts == (3, 1, 1)


def test_under_attack_the_worst_of_every_counting_stage_and_of_the_clean_image_counts() -> None:
    first = stage("p", rows([10, 12, 13], [0, 2, 3], [1, 0, 3], [1, 1, 0]))
    second = stage("q", rows([10, 14], [0, 4], [4, 3], [1, 1]))
    ignored = stage("r", rows([13], [3], [0], [1]), counts=False)
    found = measure_severity(evaluation(CLEAN, first, second, ignored), SUPERCLASSES)
    # 10: near, then far; 11: near as it was; 12: far as it was; 13: right; 14: near.
    assert found["worst"].counts == (1, 2, 2)
    assert found["clean"].counts == (3, 1, 1)


def test_the_record_decides_whether_a_sample_is_broken_not_the_prediction() -> None:
    """A stochastic model may be wrong on average and correct in the recorded draw, and the other way round."""
    clean = stage("clean", rows([1, 2], [0, 0], [0, 4], [1, 0]))
    assert measure_severity(evaluation(clean), SUPERCLASSES)["clean"].counts == (1, 1, 0)


def test_superclasses_of_other_data_are_refused() -> None:
    with pytest.raises(ArgumentError, match="on 5 classes, and there are 2 superclasses"):
        measure_severity(evaluation(CLEAN), (0, 1))


def test_an_evaluation_without_a_chunk_is_refused() -> None:
    none_yet = CLEAN.columns
    cut = {name: value[:0] for name, value in vars(none_yet).items() if value is not None}
    for none in (evaluation(), evaluation(replace(CLEAN, columns=replace(none_yet, **cut)))):
        with pytest.raises(ArgumentError, match="no finished chunk yet"):
            measure_severity(none, SUPERCLASSES)


def test_the_digits_end_to_end(tmp_path: Path) -> None:
    """The accuracies are those of the verdict, and no superclass is worse off than its classes."""
    source = "maxmahal.data.digits_tree:by_shape"
    settings = load_settings("digits-mmc-hierarchical", ["train.epochs=2", "data.limit=300", "data.test_limit=100"])
    train_model(settings, tmp_path / "run")
    suite = tmp_path / "small.toml"
    suite.write_text(
        'version = 1\nabout = "x"\nepsilon = "0.1"\n[[stage]]\nname = "p"\ntitle = "P"\nattack = "pgd"\nsteps = 3\n'
    )
    (found,) = evaluate_models({"m": tmp_path / "run"}, suite=suite, out=tmp_path / "records", data=source)
    superclasses = load_dataset(source, "test").superclasses
    assert superclasses is not None
    severity, verdict = measure_severity(found, superclasses), give_verdict(found)
    assert severity["clean"].counts[0] == verdict.clean.count
    assert severity["worst"].counts[0] == verdict.robust.count
    assert 0 < sum(severity["clean"].counts[1:]) < sum(severity["worst"].counts[1:])
    columns = found.stage("clean").columns
    same = np.array(superclasses)[columns.label] == np.array(superclasses)[columns.prediction]
    assert severity["clean"].superclass_accuracy.count == same.sum()
