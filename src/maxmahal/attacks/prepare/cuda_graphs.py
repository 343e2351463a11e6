"""Gradients of small batches as CUDA graphs: one launch instead of several hundred.

Launching the kernels of a small network takes the processor longer than running them takes the GPU.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from maxmahal.errors import ArgumentError

MOST = 1024  # images; a GPU takes longer over larger batches than the processor takes to launch them
LEAST = 16
PATIENCE = 100  # batches of one size before it is worth recording
WARM_UP = 2  # calls on the recording's own stream: kernels are compiled and chosen
TOLERANCE = 0.01  # of the largest value, between a replay and the function itself on the same batch

Found = tuple[Tensor, Tensor, Tensor]
"""Logits, objective and gradient."""
Gradient = Callable[[Tensor, Tensor, Tensor | None], Found]
"""Of images, the labels to move away from, and targets."""
Capture = Callable[[Callable[[], Found]], tuple[Callable[[], None], Found]]


def pad(rows: Tensor, size: int) -> Tensor:
    """The last row repeated up to ``size``."""
    missing = size - len(rows)
    return torch.cat([rows, rows[-1:].expand(missing, *rows.shape[1:])]) if missing > 0 else rows


def capture_cuda(function: Callable[[], Found]) -> tuple[Callable[[], None], Found]:
    """Record the kernels that ``function`` launches; what is returned replays them and holds their outputs."""
    here = torch.cuda.current_stream()
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        for _ in range(WARM_UP):
            function()
    here.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = function()
    return graph.replay, found


@dataclass
class Recorder:
    """``function``, recorded for each power of two of batch size that is asked for often enough."""

    function: Gradient
    capture: Capture = capture_cuda
    _asked: Counter[int] = field(default_factory=Counter)
    _recordings: dict[int, "_Recording | None"] = field(default_factory=dict)

    def __call__(self, images: Tensor, labels: Tensor, targets: Tensor | None) -> Found:
        """What the function returns for the same batch, up to rounding."""
        size = max(LEAST, 1 << (len(images) - 1).bit_length())
        self._asked[size] += 1
        if size > MOST or self._asked[size] <= PATIENCE:
            return self.function(images, labels, targets)
        if size not in self._recordings:
            self._recordings[size] = self._record(size, images, labels, targets)
        recording = self._recordings[size]
        if recording is None:
            return self.function(images, labels, targets)
        return recording.replay(images, labels, targets)

    def _record(self, size: int, images: Tensor, labels: Tensor, targets: Tensor | None) -> "_Recording | None":
        """None for a model that cannot be recorded, or whose recording computes something else."""
        inputs = [None if each is None else pad(each, size).clone() for each in (images, labels, targets)]
        try:
            replay, found = self.capture(lambda: self.function(*inputs))  # type: ignore[arg-type]
            replay()
        except (RuntimeError, ArgumentError):  # what cannot be captured: a model that reads values back, no memory
            return None
        expected = self.function(*inputs)  # type: ignore[arg-type]
        same = all(relative_difference(one, two) <= TOLERANCE for one, two in zip(found, expected, strict=True))
        return _Recording(replay, inputs, found) if same else None


@dataclass(frozen=True)
class _Recording:
    """A graph that reads ``inputs`` and leaves what it computes in ``found``."""

    launch: Callable[[], None]
    inputs: list[Tensor | None]
    found: Found

    def replay(self, images: Tensor, labels: Tensor, targets: Tensor | None) -> Found:
        """The rows beyond the batch keep what they held; no row depends on another."""
        count = len(images)
        for place, given in zip(self.inputs, (images, labels, targets), strict=True):
            if place is not None and given is not None:
                place[:count].copy_(given)
        self.launch()
        logits, values, gradient = (each[:count].clone() for each in self.found)
        return logits, values, gradient


def relative_difference(one: Tensor, two: Tensor) -> float:
    """The largest difference, as a share of the largest value; infinite for NaN."""
    off = (one - two).abs().max() / two.abs().max().clamp_min(1e-30)
    return float(off.nan_to_num(torch.inf))
