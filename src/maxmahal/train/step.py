"""One training step, either run directly or recorded once as a CUDA graph and replayed."""

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from maxmahal.errors import SettingsError
from maxmahal.models import Classifier
from maxmahal.train.config import CPUSettings, CUDASettings
from maxmahal.train.device import accelerate, fastest_kernels
from maxmahal.train.methods import Batch, TrainingMethod
from maxmahal.train.optimiser import WeightAverage

WARM_UP = 3  # steps before recording, in which kernels are compiled and memory is allocated


class Step:
    """Loss, gradients and update of the weights."""

    def __init__(
        self,
        model: Classifier,
        optimiser: torch.optim.SGD,
        method: TrainingMethod,
        average: WeightAverage | None,
        settings: CPUSettings,
    ) -> None:
        self._original, self._settings = model, settings
        self._model = accelerate(model, settings)
        self._optimiser, self._method, self._average = optimiser, method, average
        self.setup_seconds = 0.0
        """Time for compiling and recording, not for training."""

    def __call__(self, batch: Batch, lr: float) -> Tensor:
        """Train on one batch; returns its loss, on the device."""
        draws = self._method.draw(batch, self._original.head.num_classes)
        for group in self._optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)  # a recorded step reads the rate from this address
            else:
                group["lr"] = lr
        return self._take(replace(batch, draws=draws))

    def _take(self, batch: Batch) -> Tensor:
        with fastest_kernels(self._settings):
            loss = self._method.loss(self._model, batch)
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        if self._average is not None:
            self._average.update(self._original)
        return loss.detach()


class RecordedStep(Step):
    """The first steps run directly; the next is recorded, and from then on a step is one launch.

    Launching several hundred small kernels takes the CPU longer than the GPU takes to run them.
    """

    _recording: "_Recording | None" = None
    _taken = 0

    def _take(self, batch: Batch) -> Tensor:
        if self._recording is not None:
            return self._recording.replay(batch)
        started = time.perf_counter()
        if self._taken < WARM_UP:
            loss = self._aside(batch)
        else:
            self._recording = self._record(batch)
            loss = self._recording.replay(batch)
        torch.cuda.synchronize()
        self._taken += 1
        self.setup_seconds += time.perf_counter() - started
        return loss

    def _aside(self, batch: Batch) -> Tensor:
        """A step on a separate stream, like the recording: libraries set up their state per stream."""
        here = torch.cuda.current_stream()
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            loss = super()._take(batch)
        here.wait_stream(aside)
        return loss

    def _record(self, batch: Batch) -> "_Recording":
        inputs = replace(
            batch,
            images=batch.images.clone(),
            labels=batch.labels.clone(),
            sample_ids=batch.sample_ids.clone(),
            draws={name: drawn.clone() for name, drawn in batch.draws.items()},
        )
        graph = torch.cuda.CUDAGraph()
        self._optimiser.zero_grad(set_to_none=True)
        try:
            with torch.cuda.graph(graph):
                loss = super()._take(inputs)
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:200]
            raise SettingsError(
                f"The training step cannot be recorded as a CUDA graph ({reason}); set cuda.graph=false."
            ) from error
        return _Recording(graph, inputs, loss)


@dataclass(frozen=True)
class _Recording:
    """A recorded step: it reads ``inputs`` and writes its loss to ``loss``."""

    graph: torch.cuda.CUDAGraph
    inputs: Batch
    loss: Tensor

    def replay(self, batch: Batch) -> Tensor:
        """Run the step on another batch."""
        self.inputs.images.copy_(batch.images)
        self.inputs.labels.copy_(batch.labels)
        self.inputs.sample_ids.copy_(batch.sample_ids)
        for name, drawn in batch.draws.items():
            self.inputs.draws[name].copy_(drawn)
        self.graph.replay()
        return self.loss


def make_step(
    model: Classifier,
    optimiser: torch.optim.SGD,
    method: TrainingMethod,
    average: WeightAverage | None,
    settings: CPUSettings,
) -> Step:
    """The step for the settings of this device."""
    kind = RecordedStep if isinstance(settings, CUDASettings) and settings.graph else Step
    return kind(model, optimiser, method, average, settings)
