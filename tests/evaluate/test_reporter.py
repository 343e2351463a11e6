"""What TensorBoard shows of trainings and evaluations, read back with its own reader."""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_evaluations_helpers import curved, labelled_by, small_suite, stage

from maxmahal.errors import ArgumentError
from maxmahal.evaluate import evaluate_model, evaluate_models, evaluation, give_verdict
from maxmahal.evaluate.reporter import LoggedEvaluation, SilentReporter
from maxmahal.evaluate.reporter import logged as logged_evaluation
from maxmahal.records import Finding
from maxmahal.train import Settings, train_model
from maxmahal.train.loop import Silent
from maxmahal.train.tensorboard import logged as logged_training

pytestmark = pytest.mark.usefixtures("unchecked")
SUITE = small_suite(stage("pgd", "pgd", steps=2), stage("mim", "mim", steps=2, scope="all"), chunk=6)


@pytest.fixture(autouse=True)
def _their_warnings() -> Iterator[None]:
    """TensorBoard's own use of protobuf and numpy is not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_a_training_is_logged_epoch_by_epoch(tmp_path: Path, tiny_settings: Callable[..., Settings]) -> None:
    with logged_training(Silent(), tmp_path / "log") as reporter:
        train_model(tiny_settings("digits-mmc"), tmp_path / "run", reporter=reporter)
    log = read(tmp_path / "log")
    loss = log.Scalars("train/train_loss")
    assert [event.step for event in loss] == [1, 2, 3]
    assert loss[-1].value < loss[0].value
    assert "train/test_accuracy" in log.Tags()["scalars"]
    assert "train/epoch" not in log.Tags()["scalars"]


def test_an_evaluation_is_logged_against_the_samples_recorded(tmp_path: Path) -> None:
    targets = {"one": curved(), "two": curved(3)}
    data = labelled_by(targets["one"])
    with logged_evaluation(SilentReporter(), tmp_path / "log") as reporter:
        found = evaluate_models(targets, out=tmp_path / "out", suite=SUITE, data=data, reporter=reporter)
    log = read(tmp_path / "log")
    for each in found:
        events = log.Scalars(f"{each.name}/robust accuracy so far")
        total = sum(records.planned for records in each.stages)
        blocks = each.stage("pgd").columns.sample // 6
        assert [event.step for event in events][:5] == [6, 12, 18, 24, 24 + (blocks == blocks[0]).sum()]
        assert events[-1].step == total
        assert events[-1].value == pytest.approx(give_verdict(each).robust.value)
        assert events[3].value == pytest.approx(give_verdict(each).clean.value)


def test_a_curve_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = curved()
    data, inner, count = labelled_by(model), evaluation.run_stage, [0]

    def dies(*arguments: Any) -> Any:
        count[0] += 1
        if count[0] == 6:
            raise KeyboardInterrupt
        return inner(*arguments)

    def evaluate() -> None:
        with logged_evaluation(SilentReporter(), tmp_path / "log") as reporter:
            evaluate_model(model, out=tmp_path / "out", suite=SUITE, data=data, reporter=reporter)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "run_stage", dies)
        with pytest.raises(KeyboardInterrupt):
            evaluate()
    evaluate()
    steps = [event.step for event in read(tmp_path / "log").Scalars("Curved/robust accuracy so far")]
    assert steps == sorted(set(steps))
    assert steps[:6] == [6, 12, 18, 24, 30, 36]


def test_findings_are_logged_as_text_and_everything_is_passed_on() -> None:
    class Log:
        def __init__(self) -> None:
            self.lines: list[tuple[Any, ...]] = []

        def add_text(self, *line: Any) -> None:
            self.lines.append(line)

        def add_scalar(self, *line: Any) -> None:
            self.lines.append(line)

    class Listener(SilentReporter):
        def __init__(self) -> None:
            self.heard: list[str] = []

        def __getattribute__(self, name: str) -> Any:
            if name in ("begin", "stage", "within", "chunk", "finding", "note"):
                return lambda *_: self.heard.append(name)
            return super().__getattribute__(name)

    log, listener = Log(), Listener()
    reporter = LoggedEvaluation(listener, log)
    finding = Finding("zero-gradients", "Zero", True, "All zero.", "")
    reporter.begin("m", 5)
    reporter.stage("pgd", 5, 2)
    reporter.within(1.0, "stage 1 of 2")
    reporter.chunk(3, 0.5)
    reporter.finding(finding)
    reporter.note("hello")
    assert listener.heard == ["begin", "stage", "within", "chunk", "finding", "note"]
    assert log.lines == [("m/robust accuracy so far", 0.5, 5), ("m/zero-gradients", "FLAG: All zero.")]


@pytest.mark.parametrize("logged", [logged_training, logged_evaluation])
def test_without_the_package_one_sentence(logged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ArgumentError, match=r"pip install 'maxmahal\[tensorboard\]'"), logged(object(), tmp_path / "l"):
        pass
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize("logged", [logged_training, logged_evaluation])
def test_nobody_logs_without_a_folder(logged: Any) -> None:
    reporter = object()
    with logged(reporter, None) as same:
        assert same is reporter
