"""One training step, either run directly or recorded once as a CUDA graph and replayed."""

import time
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from maxmahal.attacks import Outputs, model_outputs
from maxmahal.errors import SettingsError
from maxmahal.models import Classifier
from maxmahal.train.config import CPUSettings, CUDASettings, TrainSettings
from maxmahal.train.device import accelerate, fastest_kernels
from maxmahal.train.methods import Batch, TrainingMethod
from maxmahal.train.optimiser import WeightAverage, perturbed_weights
from maxmahal.train.processes import ALONE, Processes, synchronise_batch_norm

NO_PERTURBATION = TrainSettings()
WARM_UP = 3  # steps before recording, in which kernels are compiled and memory is allocated


class Step:
    """Loss, gradients and update of the weights."""

    _crafted: Tensor

    def __init__(
        self,
        model: Classifier,
        optimiser: torch.optim.SGD,
        method: TrainingMethod,
        average: WeightAverage | None,
        settings: CPUSettings,
        train: TrainSettings = NO_PERTURBATION,
        processes: Processes = ALONE,
    ) -> None:
        self._original, self._settings, self._train = model, settings, train
        self._model = accelerate(model, settings)
        self._teacher = accelerate(average.model, settings) if average is not None and method.has_teacher else None
        self._optimiser, self._method, self._average = optimiser, method, average
        self._processes = processes
        self._apart = self._join() if processes.joined else []
        self._used: list[float] = []
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
        loss = self._take(replace(batch, draws=draws))
        if batch.last is not None:
            batch.last.keep(self._crafted - batch.images)
        if self._average is not None:
            self._average.update(batch.step, batch.steps)  # not recorded, because its rate is another in each step
        return loss

    def _take(self, batch: Batch) -> Tensor:
        with fastest_kernels(self._settings):
            if self._teacher is not None:
                batch = replace(batch, teacher=self._answers(self._teacher, batch))
            if self._perturbs(batch) or batch.last is not None:
                self._crafted = self._method.craft(self._model, batch)  # a recorded step writes to this address
                batch = replace(batch, attacked=self._crafted)
            if self._perturbs(batch):
                first = partial(self._loss, batch)
                with perturbed_weights(self._original, first, self._train.awp, self._processes.add_up):
                    loss = self._differentiate(batch)
            else:
                loss = self._differentiate(batch)
        self._optimiser.step()
        return loss

    @torch.no_grad()
    def _answers(self, teacher: Classifier, batch: Batch) -> Outputs:
        return model_outputs(teacher.eval(), batch.images)  # switching refreshes what was folded

    def _differentiate(self, batch: Batch) -> Tensor:
        before = [buffer.clone() for buffer in self._apart]
        loss = self._loss(batch)
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        loss = loss.detach()
        if self._processes.joined:
            self._combine(loss, before, len(batch.labels))
        return loss

    def _loss(self, batch: Batch) -> Tensor:
        """The loss, or the part of this process: all parts add up to the mean over the whole batch."""
        loss = self._method.loss(self._model, batch)
        return loss * (len(batch.labels) / self._train.batch_size) if self._processes.joined else loss

    def _join(self) -> list[Tensor]:
        """Let the processes compute one step; returns the buffers whose changes are averaged after it."""
        self._original.head.add_up = self._processes.add_up
        # One process must not stop while the others wait for its messages: the sum of the losses tells all of them.
        self._original.head._check_values = lambda features, labels: None  # type: ignore[method-assign]  # noqa: ARG005
        # After the network was copied for crafting: a batch norm with a forward of its own cannot be folded.
        whole = synchronise_batch_norm(self._original) if self._train.sync_batch_norm else []
        known = {id(buffer) for buffer in whole}
        return [each for each in self._original.buffers() if each.is_floating_point() and id(each) not in known]

    @torch.no_grad()
    def _combine(self, loss: Tensor, before: list[Tensor], samples: int) -> None:
        """Loss and gradients of the whole batch; buffers change by the mean of their changes."""
        share = samples / self._train.batch_size
        changes = [share * (buffer - old) for buffer, old in zip(self._apart, before, strict=True)]
        self._processes.add_up([loss, *self._gradients(loss), *changes])
        for buffer, old, change in zip(self._apart, before, changes, strict=True):
            buffer.copy_(old + change)

    def _gradients(self, loss: Tensor) -> list[Tensor]:
        """Of the same parameters in all processes, which may skip different layers: those that any of them used."""
        trained = [each for each in self._original.parameters() if each.requires_grad]
        if not (loss.is_cuda and torch.cuda.is_current_stream_capturing()):  # a recording trains those of the last step
            used = torch.tensor([float(each.grad is not None) for each in trained], device=loss.device)
            self._processes.add_up([used])
            self._used = used.tolist()
        for each, count in zip(trained, self._used, strict=True):
            each.grad = None if not count else torch.zeros_like(each) if each.grad is None else each.grad
        return [each.grad for each in trained if each.grad is not None]

    def _perturbs(self, batch: Batch) -> bool:
        return self._train.awp > 0 and batch.progress > self._train.awp_start


class RecordedStep(Step):
    """The first steps run directly; the next is recorded, and from then on a step is one launch instead of hundreds."""

    _recording: "_Recording | None" = None
    _taken = 0
    _perturbing = False

    def _take(self, batch: Batch) -> Tensor:
        if self._perturbs(batch) != self._perturbing:  # which is another sequence of operations: record it anew
            self._recording, self._taken, self._perturbing = None, 0, not self._perturbing
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
            mixed=None if batch.mixed is None else (batch.mixed[0].clone(), batch.mixed[1].clone()),
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
        pairs = zip((self.inputs.images, *self.inputs.targets), (batch.images, *batch.targets), strict=True)
        for known, new in (*pairs, (self.inputs.sample_ids, batch.sample_ids)):
            known.copy_(new)
        for name, drawn in batch.draws.items():
            self.inputs.draws[name].copy_(drawn)
        self.graph.replay()
        return self.loss


def step_kind(settings: CPUSettings) -> type[Step]:
    """The kind of step for the settings of this device."""
    return RecordedStep if isinstance(settings, CUDASettings) and settings.graph else Step
