"""The training loop."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from maxmahal.data import ImageData, augmentation
from maxmahal.errors import MaxmahalError, SettingsError
from maxmahal.models import Classifier
from maxmahal.random import generator, stream_key, uniform
from maxmahal.train.config import Settings
from maxmahal.train.ema import WeightAverage
from maxmahal.train.methods import Batch, Method
from maxmahal.train.schedule import learning_rate

Metrics = dict[str, int | float]


class TrainingDivergedError(MaxmahalError, ArithmeticError):
    """The loss stopped being a number."""


@runtime_checkable
class Reporter(Protocol):
    """Who wants to know how training goes; the command line shows a bar or prints lines."""

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Training begins, or goes on."""

    def step(self) -> None:
        """A step is done. Nothing is passed along: reading the loss back would stall a GPU."""

    def epoch(self, metrics: Metrics) -> None:
        """An epoch is done, measured and saved."""

    def note(self, text: str) -> None:
        """Something worth knowing."""


class Silent:
    """A reporter that says nothing."""

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Nothing."""

    def step(self) -> None:
        """Nothing."""

    def epoch(self, metrics: Metrics) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True)
class EpochSummary:
    """What one pass over the data gave."""

    loss: float
    lr: float
    seconds: float


def steps_per_epoch(data: ImageData, batch_size: int) -> int:
    """Whole batches only: the remainder of each shuffled epoch waits for the next."""
    if len(data) < batch_size:
        raise SettingsError(
            f"train.batch_size = {batch_size} is larger than the {len(data)} training images; make it smaller."
        )
    return len(data) // batch_size


def batches(data: ImageData, settings: Settings, epoch: int) -> Iterator[Batch]:
    """One epoch of augmented batches. Order and augmentation are functions of the seed, the epoch and the sample."""
    seed, size = settings.train.seed, settings.train.batch_size
    order = torch.randperm(len(data), generator=generator("order", seed, epoch)).to(data.device)
    uniforms = uniform(data.sample_ids, (3,), "augment", seed, epoch)
    transform = augmentation(settings.data.augment)
    for step in range(steps_per_epoch(data, size)):
        chosen = order[step * size : (step + 1) * size]
        yield Batch(
            images=transform(data.images[chosen], uniforms[chosen]),
            labels=data.labels[chosen],
            sample_ids=data.sample_ids[chosen],
            random_seed=stream_key("craft", seed, epoch),
        )


def train_epoch(
    model: Classifier,
    optimiser: torch.optim.SGD,
    method: Method,
    data: ImageData,
    settings: Settings,
    epoch: int,
    average: WeightAverage | None,
    reporter: Reporter,
) -> EpochSummary:
    """One pass over the data: the whole of what changes the weights."""
    started = time.perf_counter()
    model.train()
    steps = steps_per_epoch(data, settings.train.batch_size)
    total = torch.zeros((), device=data.device)
    lr = settings.train.lr
    for step, batch in enumerate(batches(data, settings, epoch)):
        lr = learning_rate(settings.train, epoch * steps + step, settings.train.epochs * steps)
        for group in optimiser.param_groups:
            group["lr"] = lr
        loss = method.loss(model, batch)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if average is not None:
            average.update(model)
        total += loss.detach()
        reporter.step()
    mean = float(total) / steps
    # The loss was taken before the last update, so the weights are looked at as well before anyone saves them.
    if not math.isfinite(mean) or not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        raise TrainingDivergedError(
            f"Training diverged in epoch {epoch + 1} (mean loss {mean:g}); lower train.lr (now {settings.train.lr}) "
            "or add train.warmup. The last good epoch is saved."
        )
    return EpochSummary(mean, lr, time.perf_counter() - started)
