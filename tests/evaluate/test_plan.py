"""The plan of an evaluation: which stages, which samples, why not; and that nothing but settings and records decide."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_evaluations_helpers import answers_only, classifier, curved, labelled_by, small_suite, stage
from torch import Tensor, nn

from maxmahal.errors import SettingsError
from maxmahal.evaluate import evaluate_model, evaluate_models, give_verdict
from maxmahal.evaluate.evaluated_model import EvaluatedModel, load_target
from maxmahal.evaluate.plan import (
    CLEAN,
    Traits,
    blocks,
    describe_stage,
    plan_remedies,
    plan_stages,
    samples_of,
    split,
    transfer_stage,
    why_not,
)
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.evaluate.suite import load_suite, stage_from_table
from maxmahal.records import Finding

pytestmark = pytest.mark.usefixtures("unchecked")
WHOLE = Traits(classes=10, stochastic=False, differentiable=True, bpda=True, sources=frozenset({"module"}))
FLAGGED = Finding("zero-gradients", "Zero gradients", True, "All zero.", "Add attacks.", ("scale-free", "steps"))


def test_the_plan_is_clean_then_the_suite_then_transfer_then_remedies() -> None:
    others = {"a": load_target(curved(), name="a"), "b": load_target(curved(1), name="b")}
    suite = small_suite(stage("one", "pgd"), stage("two", "square"), mend=True)
    names = [each.name for each in plan_stages(suite, [FLAGGED], others, transfer=True)]
    assert names[:5] == ["clean", "one", "two", "transfer-a", "transfer-b"]
    assert len(names) > 5
    assert all(name.startswith("remedy-") for name in names[5:])
    for changed in (replace(FLAGGED, flagged=False), None):
        findings = [] if changed is None else [changed]
        assert [each.name for each in plan_stages(suite, findings, others, transfer=False)] == ["clean", "one", "two"]
    only_looks = replace(suite, mend=False)
    assert len(plan_stages(only_looks, [FLAGGED], others, transfer=False)) == 3


def test_a_remedy_says_which_check_asked_for_it() -> None:
    other = replace(FLAGGED, check="still-falling", adds=("steps",))
    stages = {each.name: each for each in map(stage_from_table, plan_remedies([FLAGGED, other]))}
    assert all(each.origin == "diagnosis" and each.counts for each in stages.values())
    assert stages["remedy-steps"].because == "zero-gradients, still-falling"
    assert stages["remedy-scale-free"].because == "zero-gradients"


@pytest.mark.parametrize(
    ("options", "target", "traits", "part"),
    [
        ({"attack": "pgd"}, "module", WHOLE, ""),
        ({"attack": "square"}, "function", replace(WHOLE, differentiable=False), ""),
        ({"attack": "pgd"}, "function", replace(WHOLE, differentiable=False), "needs gradients"),
        ({"attack": "pgd", "search": "straight-through"}, "module", replace(WHOLE, differentiable=False), ""),
        ({"attack": "pgd", "search": "straight-through"}, "module", replace(WHOLE, bpda=False), "straight"),
        ({"attack": "pgd", "with_draws": False}, "module", replace(WHOLE, stochastic=True), "draws"),
        ({"attack": "pgd", "with_draws": False}, "module", WHOLE, ""),
        ({"attack": "pgd", "objective": "own"}, "module", WHOLE, "is not known"),
        ({"attack": "pgd", "objective": "own"}, "classifier", WHOLE, ""),
        ({"attack": "pgd", "objective": "nearest-center"}, "module", WHOLE, "has none"),
        ({"attack": "pgd", "objective": "nearest-center"}, "classifier", WHOLE, ""),
        ({"attack": "pgd", "objective": "dlr"}, "module", replace(WHOLE, classes=3), "four classes"),
        ({"attack": "pgd", "objective": "dlr"}, "module", WHOLE, ""),
        ({"attack": "transfer", "source": "nobody"}, "module", WHOLE, "no model 'nobody'"),
        ({"attack": "transfer", "source": "module"}, "function", replace(WHOLE, differentiable=False), ""),
        ({"attack": "transfer", "source": "function"}, "module", WHOLE, "needs gradients of 'function'"),
    ],
)
def test_why_a_stage_will_not_run(options: dict[str, Any], target: str, traits: Traits, part: str) -> None:
    subjects: dict[str, EvaluatedModel] = {
        "module": load_target(curved(), name="module"),
        "classifier": load_target(classifier(), name="classifier"),
        "function": load_target(answers_only, name="function"),
    }
    reason = why_not(stage("s", **options), subjects[target], traits, subjects)
    assert part in reason
    assert bool(reason) == bool(part)


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(SettingsError, match="did you mean 'margin'"):
        stage("s", "pgd", objective="margn")


@given(
    st.lists(st.sampled_from([0.0, 0.45, 0.5, 1.0]), min_size=1, max_size=40),
    st.integers(1, 50),
    st.none() | st.integers(1, 50),
)
@example([1.0] * 5, 2, 3)  # a limit inside of the samples is seldom drawn
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_samples_are_the_standing_ones_in_order_and_chunks_hold_each_once(
    shares: list[float], chunk: int, limit: int | None
) -> None:
    ids = [1000 + 3 * row for row in range(len(shares))]
    known = dict(zip(ids, shares, strict=True))
    on_survivors, on_all = stage("s", "pgd"), stage("s", "pgd", scope="all")
    if limit is not None:
        on_all = replace(on_all, limit=limit, counts=False)
    everyone = range(len(ids))
    standing = samples_of(on_survivors, everyone, known, ids)
    assert standing == [row for row, share in enumerate(shares) if share > 0]
    assert samples_of(on_all, everyone, known, ids) == list(everyone)
    parts = split(everyone, chunk)
    assert [row for part in parts for row in part] == list(everyone)
    assert all(len(part) == chunk for part in parts[:-1])
    assert not split([], chunk)
    pieces = blocks(on_all, len(ids), chunk)
    assert [row for piece in pieces for row in piece] == list(everyone)[:limit]
    assert all(row // chunk == number for number, piece in enumerate(pieces) for row in piece)


def test_what_the_records_say_of_a_stage() -> None:
    suite = load_suite("paper")
    described = {each.name: describe_stage(each, suite, 5) for each in (CLEAN, *suite.stages)}
    assert described["clean"]["threat"] == ""
    assert described["cw-un"]["threat"] == ""
    assert described["pgd10-un-8"]["threat"] == "Linf 8/256"
    assert described["pgd10-un-16"]["threat"] == "Linf 16/256"
    assert described["pgd10-un-16"]["counts"] is False
    assert described["pgd10-un-8"]["settings"]["seed"] == 5
    assert described["pgd10-un-8"]["settings"]["step_size"] == "2/256"
    assert described["pgd10-un-8"]["kind"] == "pgd"
    assert transfer_stage("a").origin == "transfer"


def test_transfer_crafts_on_every_model_and_skips_those_without_gradients(tmp_path: Path) -> None:
    model = curved()
    suite = small_suite(stage("square", "square", queries=3))
    targets = {"ours": model, "theirs": curved(5), "blind": answers_only, "stairs": Staircase().eval()}
    found = evaluate_models(targets, out=tmp_path, suite=suite, data=labelled_by(model), transfer=True)
    for each in found:
        assert each.finished
        assert [name.name for name in each.stages][2:] == [f"transfer-{source}" for source in targets]
        assert "needs gradients of 'blind'" in each.stage("transfer-blind").skipped
        assert "needs gradients of 'stairs'" in each.stage("transfer-stairs").skipped
    own, blind = found[0].stage("transfer-ours").columns, found[2].stage("transfer-ours").columns
    assert own.broken.sum() > 5
    assert own.prediction.tolist() == blind.prediction.tolist(), "the function is the same model"
    across = found[0].stage("transfer-theirs").columns
    assert across.broken.sum() < own.broken.sum()


class Staircase(nn.Module):
    """No gradient comes back."""

    def forward(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return curved()(images)


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_attacks_that_cannot_run_are_skipped_with_a_reason_and_the_rest_counts(tmp_path: Path) -> None:
    model, notes = Staircase().eval(), Notes()
    suite = small_suite(stage("pgd", "pgd", steps=2), stage("square", "square", queries=30), epsilon="0.3")
    found = evaluate_model(model, out=tmp_path, suite=suite, data=labelled_by(model), reporter=notes)
    assert notes.lines == [f"  pgd: skipped. {found.stage('pgd').skipped}"]
    assert "gradient" in found.stage("pgd").skipped
    assert found.finished
    verdict = give_verdict(found)
    assert "need gradients did not run, because none reaches the images); diagnostics were not run" in verdict.sentence
    assert verdict.robust.count < verdict.clean.count
    assert verdict.stages[1].accuracy is None or verdict.stages[1].accuracy == verdict.clean
    function = evaluate_model(answers_only, out=tmp_path, suite=suite, data=labelled_by(curved()))
    assert "(those that need gradients did not run, because it is a function)" in function.verdict.sentence


def test_attacks_that_do_not_apply_to_an_ordinary_model_are_not_told_of(tmp_path: Path) -> None:
    notes, centers = Notes(), stage("pgd", "pgd", steps=2, objective="nearest-center")
    suite = small_suite(centers, stage("square", "square", queries=30))
    found = evaluate_model(curved(), out=tmp_path, suite=suite, data=labelled_by(curved()), reporter=notes)
    assert found.stage("pgd").skipped
    assert not notes.lines
    assert "of small that applies to it; diagnostics were not run" in found.verdict.sentence
