"""A stage may ask to be searched without bfloat16: right at the decision boundary that rounding hides what is there."""

from pathlib import Path
from typing import Any

import pytest
from small_evaluations_helpers import SIDE, answers_only, curved, labelled_by, small_suite, stage
from torch import nn

from maxmahal.attacks import Prepared, prepare
from maxmahal.evaluate import evaluate_model, evaluated_model, evaluation
from maxmahal.evaluate.stage import StageInput, StageOutput, run_stage

pytestmark = pytest.mark.usefixtures("unchecked")


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 4)).eval()


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """The stage and the model it searches on, chunk by chunk; models are prepared as on a GPU, but not compiled."""
    seen: list[tuple[str, object]] = []

    def watched(task: StageInput) -> StageOutput:
        seen.append((task.stage.name, task.model))
        return run_stage(task)

    monkeypatch.setattr(evaluation, "run_stage", watched)
    monkeypatch.setattr(evaluated_model, "prepare", lambda model: prepare(model, precision="bfloat16", compile=False))
    return seen


def test_only_a_stage_that_says_so_is_searched_in_float32(tmp_path: Path, searched: list[tuple[str, object]]) -> None:
    model = convolutional()
    short: dict[str, Any] = {"attack": "apgd", "steps": 2, "scope": "all"}
    suite = small_suite(stage("coarse", **short), stage("fine", **short, search="precise"), stage("last", **short))
    evaluate_model(model, out=tmp_path, suite=suite, data=labelled_by(model))
    precisions: dict[str, set[str]] = {}
    for name, search in searched:
        assert isinstance(search, Prepared)
        assert search.original is model
        precisions.setdefault(name, set()).add(search.precision)
    assert precisions == {"clean": {"bfloat16"}, "coarse": {"bfloat16"}, "fine": {"float32"}, "last": {"bfloat16"}}
    fine = {id(search) for name, search in searched if name == "fine"}
    assert len(fine) == 1, "prepared once, not for every chunk"


def test_a_function_has_nothing_finer_to_search_on(tmp_path: Path, searched: list[tuple[str, object]]) -> None:
    suite = small_suite(stage("fine", "square", queries=2, search="precise"))
    evaluate_model(answers_only, out=tmp_path, suite=suite, data=labelled_by(curved()))
    assert {search for name, search in searched if name == "fine"} == {answers_only}
