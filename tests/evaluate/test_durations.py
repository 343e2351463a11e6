"""Planned times: what attacks cost, the speed of a model, the forecast of a run, and the end of a budget."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from small_evaluations_helpers import curved, labelled_by, small_suite, stage

from maxmahal.attacks import Progress
from maxmahal.attacks.registry import ATTACKS
from maxmahal.evaluate import evaluate_model, evaluate_models, evaluation
from maxmahal.evaluate.durations import BROKEN, PATIENT, Forecast, Speed, stage_seconds
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.evaluate.stage import run_attack
from maxmahal.imports import only_named
from maxmahal.records.types import Rating

pytestmark = pytest.mark.usefixtures("unchecked")
SPEED = Speed(gradient=0.03, query=0.01)


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.outlooks: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    def within(self, done: float, outlook: str) -> None:
        self.outlooks.append(outlook)


def my_attack(model: Any, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Says nothing about its cost."""
    return images


@pytest.mark.parametrize(
    ("attack", "options", "gradients", "queries"),
    [
        ("fgsm", {}, 1, 0),
        ("pgd", {"steps": 7, "restarts": 3}, 21, 0),
        ("apgd", {"steps": 5, "targets": "top-9"}, 15, 0),  # of four classes, three are wrong
        ("apgd", {"steps": 5, "targets": "all-others"}, 15, 0),
        ("mim", {"steps": 4}, 4, 0),
        ("fmn", {"steps": 6}, 6, 0),
        ("square", {"queries": 30}, 0, 30),
        ("spsa", {"steps": 2, "evaluations": 8}, 0, 18),
        ("carlini", {"steps": 60, "search_steps": 4}, 100, 0),
        ("carlini", {"steps": 6, "search_steps": 4, "constants": "binary", "abort_early": False}, 24, 0),
    ],
    ids=str,
)
def test_the_registry_knows_what_a_sample_costs_that_is_not_broken(
    attack: str, options: dict[str, Any], gradients: int, queries: int
) -> None:
    made = stage("s", attack, scope="all", counts=False, **options)
    most = ATTACKS[attack].most_passes(dict(made.attack.options), 4)
    assert (most.backward, most.forward - most.backward) == (gradients, queries)
    # The same, counted: in so small a ball nothing breaks.
    model, count = curved(), 6
    data = labelled_by(model).first(count)
    reports: list[Progress] = []
    task = evaluation.StageInput(
        stage=made,
        target=load_target(model, name="m"),
        model=model,
        images=data.float_images(),
        labels=data.labels,
        sample_ids=data.sample_ids,
        threat=small_suite(made, epsilon="1e-6").threat_of(None),
        seed=0,
        engine=evaluation.Engine(early_exit=False, progress=reports.append),
        others={},
    )
    passes = run_attack(task).passes
    assert passes.backward == pytest.approx(count * gradients, abs=count)
    looks = 6 * count  # before and after each attempt
    assert passes.forward - passes.backward == pytest.approx(count * queries, abs=looks)


def test_stages_cost_what_the_samples_before_them_left() -> None:
    stages = [
        stage("first", "pgd", steps=10),
        stage("second", "square", queries=30),
        stage("again", "pgd", steps=10, scope="all", counts=False, limit=20),
    ]
    with only_named(own := f"{__name__}:my_attack"):
        planned = stage_seconds([*stages, stage("own", own)], 100, SPEED, classes=4, correct=0.9, robust=0.5)
    attacked = [100 * (0.5 + BROKEN * 0.4), 100 * 0.5, 20 * (0.5 + BROKEN * 0.5)]
    assert planned == [*(pytest.approx(0.3 * count) for count in attacked), None]
    nearest = [stage("nearest", "fmn", steps=10, scope="all", counts=False)]
    assert stage_seconds(nearest, 100, SPEED, classes=4, correct=0.9, robust=0.5) == [pytest.approx(30)]
    every = stage_seconds(stages[:1], 100, SPEED, classes=4, correct=0.9, robust=0.5, draws=10)
    assert every == [pytest.approx(0.3 * 90 * 10)]
    patient = [stage("square", "square", queries=100, patience=10)]
    for options, share in (({}, PATIENT), ({"patient": 1.0}, 1.0)):
        planned = stage_seconds(patient, 100, SPEED, classes=4, correct=0.5, robust=0.5, **options)
        assert planned == [pytest.approx(50 * share)]


def test_a_forecast_learns_from_chunks() -> None:
    attacks = [stage("pgd", "pgd", steps=10), stage("square", "square", queries=100), stage("mim", "mim", steps=10)]
    forecast = Forecast(samples=200, classes=4, draws=1)
    forecast.plan(attacks)
    forecast.begin(stage("clean", "clean", scope="all"), 200, 1.0)
    assert forecast.outlook() == ""
    forecast.begin(attacks[0], 200, 1.0)
    assert forecast.outlook() == "stage 1 of 3"
    # 100 samples done in the middle of a chunk, 20 ms a gradient; a query costs a third.
    left = 100 * 10 * 0.02 + 200 * 100 * 0.02 / 3 + 200 * 10 * 0.02
    assert forecast.outlook(100.0, Rating(20.0, 1000, 1000, 1000)) == f"stage 1 of 3, about {left / 60:.0f} min left"
    forecast.learn(200, Rating(40.0, 2000, 2000, 2000))
    forecast.begin(attacks[1], 50, 0.25)
    forecast.learn(25, Rating(25.0, 2500, 0, 2500))  # 10 ms a query
    assert forecast.outlook() == "stage 2 of 3, about 35 s left"
    assert forecast.seconds(10) == pytest.approx(10.0)
    assert [each.name for each in forecast.ahead()] == ["square", "mim"]


def test_a_dry_run_lists_the_stages_and_writes_nothing(tmp_path: Path) -> None:
    model, notes = curved(), Notes()
    suite = small_suite(stage("pgd", "pgd", steps=20), stage("own", "pgd", objective="own", steps=2), chunk=6)
    arguments: dict[str, Any] = {"out": tmp_path / "out", "suite": suite, "data": labelled_by(model)}
    assert evaluate_models({"m": model}, **arguments, dry_run=True, reporter=notes) == []
    assert not (tmp_path / "out").exists()
    assert notes.lines[0].startswith("m: small on 24 samples at Linf ")
    assert any(line.startswith("  pgd: about ") for line in notes.lines)
    assert any(line.startswith("  own: skipped. It follows the loss") for line in notes.lines)
    assert notes.lines[-2].startswith("In all about ")
    assert "ms per gradient" in notes.lines[-1]
    evaluate_models({"m": model}, **arguments)
    again = Notes()
    evaluate_models({"m": model}, **arguments, dry_run=True, reporter=again)
    assert again.lines[1] == "  already recorded: clean; pgd"
    assert not any(line.startswith("  pgd") for line in again.lines)


def test_a_dry_run_predicts_the_time_of_several_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """24 samples in 4 chunks: of 3 workers, one computes two of them; more than 4 are of no use."""
    model, lines = curved(), {}
    monkeypatch.setattr(evaluation, "stage_seconds", lambda *_, **__: [80.0])
    suite = small_suite(stage("pgd", "pgd", steps=20, scope="all"), chunk=6)
    for shard in ("1/2", "1/3", "1/9"):
        notes = Notes()
        options: dict[str, Any] = {"out": tmp_path, "suite": suite, "data": labelled_by(model), "shard": shard}
        evaluate_models({"m": model}, **options, dry_run=True, reporter=notes)
        lines[shard] = notes.lines[-2]
    assert "In all about 80 s (40 s on 2 workers, with chunks of 6), and" in lines["1/2"]
    assert "(40 s on 3 workers" in lines["1/3"]
    assert "(20 s on 9 workers" in lines["1/9"]


def test_a_function_is_probed_by_queries(tmp_path: Path) -> None:
    model, notes = curved(), Notes()
    suite = small_suite(stage("square", "square", queries=20))
    options: dict[str, Any] = {"out": tmp_path, "suite": suite, "data": labelled_by(model)}
    evaluate_models({"m": lambda images: model(images).detach()}, **options, dry_run=True, reporter=notes)
    assert "gradient" not in notes.lines[-1]
    assert "ms per query" in notes.lines[-1]


def test_a_budget_ends_a_chunk_and_the_same_call_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that every report of an attack moves by a second."""
    model, notes = curved(), Notes()
    data = labelled_by(model)
    suite = small_suite(stage("pgd", "pgd", steps=4), stage("square", "square", queries=50), chunk=24, epsilon="1e-6")

    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    clock = Clock()

    class Ticking(Notes):
        def within(self, done: float, outlook: str) -> None:
            clock.now += 1.0

    ticking = Ticking()
    whole = evaluate_model(model, out=tmp_path / "whole", suite=suite, data=data, reporter=notes)
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "time", clock)
        cut = evaluate_model(model, out=tmp_path / "cut", suite=suite, data=data, until=40.0, reporter=ticking)
    assert not cut.finished
    assert cut.stage("pgd").finished
    assert not cut.stage("square").finished
    assert "so far: the evaluation is not finished" in cut.verdict.sentence
    (told,) = (line for line in ticking.lines if line.startswith("Out of time"))
    assert "Left to do: square." in told
    assert "The next " in told
    assert 40.0 <= clock.now < 45.0
    again = evaluate_model(model, out=tmp_path / "cut", suite=suite, data=data)
    assert again.finished
    for name in ("clean", "pgd", "square"):
        assert (again.stage(name).columns.prediction == whole.stage(name).columns.prediction).all()
    assert "stage 2 of 2" in notes.outlooks[-1]
    assert "left" in notes.outlooks[-1]


def test_diagnostics_end_with_the_budget_too(tmp_path: Path) -> None:
    model = curved()
    suite = small_suite(stage("pgd", "pgd", steps=2), diagnose=True)
    calls = []

    class Late(Notes):
        def note(self, text: str) -> None:
            calls.append(text)
            if "Cross-entropy against margin" in text:
                time.sleep(max(0.0, until - time.monotonic()))

    until = time.monotonic() + 20
    found = evaluate_model(model, out=tmp_path, suite=suite, data=labelled_by(model), until=until, reporter=Late())
    assert not found.finished
    assert calls[-1].startswith("Out of time")
    assert len(found.findings) == 3


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_chunks_are_small_where_time_may_run_out(device: str) -> None:
    suite = small_suite(stage("pgd", "pgd", steps=2), chunk=250)
    hurried = evaluation.chunk_size(torch.device(device), suite, (1, 4, 4), hurried=True)
    assert hurried == (50 if device == "cpu" else evaluation.chunk_size(torch.device(device), suite, (1, 4, 4)))
