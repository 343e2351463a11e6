"""Recorded gradients: the same as the function's own for every batch, and left out where they are not."""

from collections.abc import Callable

import pytest
import torch
from small_models import Curved, predictions, uniform
from torch import Tensor

from maxmahal.attacks import carlini_wagner, engine, margin, prepare
from maxmahal.attacks.oracle import make_oracle
from maxmahal.attacks.prepare import cuda_graphs
from maxmahal.attacks.prepare.cuda_graphs import Found, Recorder, capture_cuda

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
IMAGES = uniform(1, 60, 1, 4, 4)
MODEL = Curved().eval()
LABELS = predictions(MODEL, IMAGES)


class Captures:
    """Stands in for CUDA graphs on a CPU: a replay computes anew and writes into the first outputs."""

    def __init__(self, change: float = 1.0, error: Exception | None = None) -> None:
        self.change, self.error, self.count, self.replays = change, error, 0, 0

    def __call__(self, function: Callable[[], Found]) -> tuple[Callable[[], None], Found]:
        self.count += 1
        if self.error is not None:
            raise self.error
        found = function()

        def replay() -> None:
            self.replays += 1
            for place, new in zip(found, function(), strict=True):
                place.copy_(new * self.change)

        return replay, found


def gradient(images: Tensor, labels: Tensor, targets: Tensor | None) -> Found:
    return make_oracle(MODEL, margin(), 512, 1).differentiate(images, labels, targets)


def ask(recorder: Recorder, start: int, stop: int, targeted: bool) -> None:
    """The recorder and the function on the same rows."""
    labels = LABELS[start:stop]
    batch = IMAGES[start:stop], labels, (labels + 1) % 4 if targeted else None
    for one, two in zip(recorder(*batch), gradient(*batch), strict=True):
        assert torch.allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("targeted", [False, True])
def test_replays_are_the_functions_own_for_batches_that_shrink_and_grow(
    targeted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "PATIENCE", 2)
    captures = Captures()
    recorder = Recorder(gradient, captures)
    large, middle, small = (
        [(0, 60), (0, 50), (10, 43), (5, 38)],
        [(0, 20), (1, 20), (3, 21)],
        [(40, 41), (7, 11), (0, 3)],
    )
    for start, stop in [*large, *middle, *small, (2, 60)]:
        ask(recorder, start, stop, targeted)
    assert captures.count == 3  # 64, 32 and 16 rows
    assert captures.replays == 3 + 5  # one each to check it, then every batch of a size but its first two


def test_what_is_returned_stays_when_the_next_batch_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "PATIENCE", 0)
    recorder = Recorder(gradient, Captures())
    first = recorder(IMAGES[:16], LABELS[:16], None)
    kept = [each.clone() for each in first]
    recorder(IMAGES[16:32], LABELS[16:32], None)
    assert all(torch.equal(one, two) for one, two in zip(first, kept, strict=True))


@pytest.mark.parametrize("captures", [Captures(change=1.1), Captures(change=torch.nan), Captures(error=RuntimeError())])
def test_a_recording_that_fails_or_differs_is_left_out(captures: Captures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "PATIENCE", 1)
    recorder = Recorder(gradient, captures)
    for _ in range(4):
        ask(recorder, 0, 30, targeted=False)
    assert captures.count == 1


def test_large_batches_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_graphs, "PATIENCE", 0)
    monkeypatch.setattr(cuda_graphs, "MOST", 32)
    captures = Captures()
    ask(Recorder(gradient, captures), 0, 33, targeted=False)
    assert captures.count == 0


@needs_cuda
@pytest.mark.parametrize("targets", [None, "random-other"])
def test_an_attack_on_a_gpu_finds_the_same_with_and_without_recording(
    targets: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured = []

    def capture(function: Callable[[], Found]) -> tuple[Callable[[], None], Found]:
        captured.append(function)
        return capture_cuda(function)

    monkeypatch.setattr(engine, "Recorder", lambda function: Recorder(function, capture))
    monkeypatch.setattr(cuda_graphs, "PATIENCE", 5)
    prepared = prepare(Curved().eval().cuda(), precision="float32", compile=False)
    found = []
    for most in (1024, 0):
        monkeypatch.setattr(cuda_graphs, "MOST", most)
        case = prepared, IMAGES.cuda(), LABELS.cuda()
        found.append(carlini_wagner(*case, constants="binary", steps=50, search_steps=3, targets=targets))
    assert captured
    assert torch.allclose(found[0].distances, found[1].distances, rtol=1e-3)
