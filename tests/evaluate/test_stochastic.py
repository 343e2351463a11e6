"""Models that draw: a mean over draws, attacks that average over them, and the same result when repeated."""

from pathlib import Path

import numpy as np
import pytest
import torch
from small_evaluations_helpers import Noisy, curved, identity, labelled_by, small_suite, stage

from maxmahal.attacks.oracle import judge
from maxmahal.evaluate import Evaluation, evaluate_model, evaluation, give_verdict
from maxmahal.evaluate.evaluated_model import DRAWS, EOT, is_stochastic, mean_correct
from maxmahal.evaluate.stage import StageInput, StageOutput, run_stage

pytestmark = pytest.mark.usefixtures("unchecked")
MODEL = Noisy().eval()
DATA = labelled_by(curved(), 20)
SUITE = small_suite(
    stage("apgd", "apgd", steps=3),
    stage("square", "square", queries=5),
    stage("dear", "pgd", steps=2, with_draws=False),
    stage("more", "pgd", steps=2, eot=12, scope="all"),
)


def evaluate(out: Path, seed: int = 0) -> Evaluation:
    return evaluate_model(MODEL, out=out, suite=SUITE, data=DATA, seed=seed)


def test_which_models_draw() -> None:
    images = DATA.float_images()
    assert is_stochastic(MODEL, images)
    assert not is_stochastic(curved(), images)
    state = torch.random.get_rng_state()
    is_stochastic(MODEL, images)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_accuracy_is_a_mean_over_twenty_draws(tmp_path: Path) -> None:
    found = evaluate(tmp_path)
    assert DRAWS == 20
    assert found.model["stochastic"]
    assert found.model["draws"] == 20
    for each in found.stages:
        twentieths = each.columns.right_share * 20
        assert np.allclose(twentieths, twentieths.round(), atol=1e-5), each.name
    clean = found.stage("clean").columns
    between = (clean.right_share > 0.01) & (clean.right_share < 0.99)
    assert between.sum() > 3, "a model that draws is not always right or always wrong"
    assert (clean.broken == (clean.right_share < 0.5)).all()
    verdict = give_verdict(found)
    assert verdict.clean.count == pytest.approx(clean.right_share.sum())
    assert verdict.robust.count < verdict.clean.count
    assert not found.stage("dear").skipped, "nothing was planned in its stead"


def test_attacks_average_over_draws_and_do_not_stop_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def watched(task: StageInput) -> StageOutput:
        seen[task.stage.name] = (task.engine.eot_samples, task.engine.early_exit)
        return run_stage(task)

    monkeypatch.setattr(evaluation, "run_stage", watched)
    evaluate(tmp_path / "noisy")
    assert seen["apgd"] == (EOT, False)
    assert seen["more"] == (12, False)
    evaluate_model(curved(), out=tmp_path / "still", suite=SUITE, data=DATA)
    assert seen["apgd"] == (1, True)


def test_the_same_seed_gives_the_same_records_and_another_one_others(tmp_path: Path) -> None:
    torch.manual_seed(1)
    first = evaluate(tmp_path / "first")
    torch.manual_seed(2)
    second, other = evaluate(tmp_path / "second"), evaluate(tmp_path / "other", seed=1)
    assert identity(first) == identity(second)
    shares = [[each.columns.right_share.tolist() for each in run.stages] for run in (first, second, other)]
    assert shares[0] == shares[1]
    assert shares[0] != shares[2]


def test_shares_of_a_model_that_does_not_draw() -> None:
    images, labels = DATA.float_images(), DATA.labels
    right = judge(curved(), images).predictions == labels
    assert mean_correct(curved(), images, labels, 3).tolist() == right.float().tolist()
