"""How many samples are recorded together depends on the device; an evaluation goes on as it began."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_evaluations_helpers import curved, identity, labelled_by, rows, small_suite, stage

from maxmahal.evaluate import evaluate_models, evaluation
from maxmahal.evaluate.evaluation import chunk_size
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.records.store import Store

pytestmark = pytest.mark.usefixtures("unchecked")
SUITE = small_suite(stage("apgd", "apgd", steps=3), stage("square", "square", queries=6))


def test_a_gpu_takes_more_samples_at_once() -> None:
    assert chunk_size(torch.device("cpu"), SUITE, (3, 32, 32)) == 5
    assert chunk_size(torch.device("cuda"), SUITE, (3, 32, 32)) == 40


def test_large_images_make_small_chunks() -> None:
    suite = small_suite(stage("apgd", "apgd", steps=3), chunk=250)
    sizes = {side: chunk_size(torch.device("cuda"), suite, (3, side, side)) for side in (32, 224, 448, 20_000)}
    assert sizes == {32: 2000, 224: 500, 448: 125, 20_000: 1}


class Clock(SilentReporter):
    """Time is up after three chunks."""

    LIMIT = 3.5

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def chunk(self, samples: int, robust: float) -> None:
        self.now += 1.0


def chunks(folder: Path) -> list[int]:
    """How many chunks each stage was cut into."""
    return [count for _, _, count in rows(folder, "stages", "evaluation, position, chunks")]


def test_an_evaluation_begun_on_one_device_goes_on_elsewhere_with_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = curved()
    data = labelled_by(model)
    (alone,) = evaluate_models({"m": model}, out=tmp_path / "small", suite=SUITE, data=data)
    monkeypatch.setattr(evaluation, "AT_ONCE", {"cpu": 2})
    clock = Clock()
    monkeypatch.setattr(evaluation, "time", clock)
    (half,) = evaluate_models(
        {"m": model}, out=tmp_path / "large", suite=SUITE, data=data, until=Clock.LIMIT, reporter=clock
    )
    assert not half.finished
    monkeypatch.undo()
    (whole,) = evaluate_models({"m": model}, out=tmp_path / "large", suite=SUITE, data=data)
    assert whole.finished
    assert identity(whole) == identity(alone)
    assert chunks(tmp_path / "small")[0] == 5
    assert chunks(tmp_path / "large")[0] == 3, "the size it began with, not that of where it went on"


class Watching(SilentReporter):
    """Remembers the robust share that it is told after each chunk."""

    def __init__(self) -> None:
        self.robust: list[float] = []

    def chunk(self, samples: int, robust: float) -> None:
        self.robust.append(robust)


def test_the_records_are_read_as_often_whatever_the_number_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ask = curved(), Store.worst_shares
    data, reads, told = labelled_by(model), Counter(), {}

    def worst_shares(store: Store, *arguments: int, **options: int) -> dict[int, float]:
        reads[size] += 1
        return ask(store, *arguments, **options)

    monkeypatch.setattr(Store, "worst_shares", worst_shares)
    for size in (2, 24):
        told[size] = Watching()
        suite = replace(SUITE, chunk=size, stages=(*SUITE.stages, stage("weak", "square", queries=1, scope="all")))
        (found,) = evaluate_models({"m": model}, out=tmp_path / str(size), suite=suite, data=data, reporter=told[size])
        assert told[size].robust[-1] == found.verdict.robust.value
    assert len(told[2].robust) > 2 * len(told[24].robust)
    assert reads[2] == reads[24]
    ends = [told[2].robust[last] for last in (11, -1)]  # the clean images, in 12 chunks; all attacks
    assert ends == [told[24].robust[last] for last in (0, -1)]
