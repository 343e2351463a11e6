"""The training loop."""

import math
import time
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import torch

from maxmahal.data import ImageData, augmentation, cutmix
from maxmahal.errors import MaxmahalError, NotFiniteError, SettingsError
from maxmahal.models import Classifier
from maxmahal.random import generator, integers, stream_key, uniform
from maxmahal.train.config import Settings
from maxmahal.train.methods import Batch
from maxmahal.train.optimiser import learning_rate
from maxmahal.train.perturbations import Perturbations
from maxmahal.train.processes import ALONE, Processes
from maxmahal.train.step import Step

Metrics = dict[str, int | float]
TRANSFORMED_AT_ONCE = 8192


class TrainingDivergedError(MaxmahalError, ArithmeticError):
    """The loss is not finite."""


@runtime_checkable
class Reporter(Protocol):
    """Receives the progress of a training; the command line shows a bar or prints lines."""

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Training starts or resumes."""

    def step(self) -> None:
        """A step is done. The loss is not passed, because reading it would stall a GPU."""

    def epoch(self, metrics: Metrics) -> None:
        """An epoch is done, measured and saved."""

    def note(self, text: str) -> None:
        """A message for the user."""


class Silent:
    """A reporter that prints nothing."""

    def note(self, *_: object, **__: object) -> None:
        """Nothing."""

    start = step = epoch = note


def steps_per_epoch(data: ImageData, batch_size: int) -> int:
    """The number of full batches; the remainder of each shuffled epoch is dropped."""
    if len(data) < batch_size:
        raise SettingsError(
            f"train.batch_size = {batch_size} is larger than the {len(data)} training images; make it smaller."
        )
    return len(data) // batch_size


def batches(
    data: ImageData,
    settings: Settings,
    epoch: int,
    processes: Processes = ALONE,
    perturbations: Perturbations | None = None,
) -> Iterator[Batch]:
    """One epoch of augmented batches, of each the part of this process; a function of seed, epoch and sample only."""
    seed, size = settings.train.seed, settings.train.batch_size
    order = torch.randperm(len(data), generator=generator("order", seed, epoch)).to(data.device)
    steps = steps_per_epoch(data, size)
    order = order[: steps * size].view(steps, size)[:, processes.part(size)]
    size = order.shape[1]
    transform = augmentation(settings.data.augment)
    uniforms = uniform(data.sample_ids, (transform.columns,), "augment", seed, epoch)
    # Small transformations are slow on a GPU, so it augments several batches at once.
    together = max(1, TRANSFORMED_AT_ONCE // size) if data.device.type == "cuda" else 1
    step = epoch * steps
    for block in torch.split(order.reshape(-1), together * size):
        transformed, mixed = transform(data.images[block], uniforms[block]), None
        if settings.data.cutmix:
            others = integers(data.sample_ids[block], len(data), "partner", seed, epoch)
            pasted = transform(data.images[others], uniforms[others])
            places = uniform(data.sample_ids[block], (4,), "cutmix", seed, epoch)
            transformed, shares = cutmix(transformed, pasted, places, settings.data.cutmix)
            mixed = data.labels[others], shares
        for start in range(0, len(block), size):
            part = slice(start, start + size)
            yield Batch(
                images=transformed[part],
                labels=data.labels[block[part]],
                sample_ids=data.sample_ids[block[part]],
                random_seed=stream_key("craft", seed, epoch),
                mixed=None if mixed is None else (mixed[0][part], mixed[1][part]),
                last=None if perturbations is None else perturbations.of(block[part], uniforms[block[part]]),
                step=step,
                steps=settings.train.scheduled * steps,
            )
            step += 1


def train_epoch(
    model: Classifier,
    take_step: Step,
    data: ImageData,
    settings: Settings,
    epoch: int,
    reporter: Reporter,
    processes: Processes = ALONE,
    perturbations: Perturbations | None = None,
) -> Metrics:
    """One pass over the data: its loss, learning rate and seconds, and those for compiling and recording the step."""
    started, setup_before = time.perf_counter(), take_step.setup_seconds
    model.train()
    steps = steps_per_epoch(data, settings.train.batch_size)
    total = torch.zeros((), device=data.device)
    lr = settings.train.lr
    for batch in batches(data, settings, epoch, processes, perturbations):
        lr = learning_rate(settings.train, batch.step, batch.steps)
        try:
            total += take_step(batch, lr)
        except NotFiniteError as error:  # only checked in every step on the CPU
            raise _diverged(epoch, "features that are not finite", settings) from error
        reporter.step()
    mean = float(total) / steps
    # The loss is from before the last update, so the weights are checked as well before they are saved.
    if not math.isfinite(mean) or not all(bool(parameter.isfinite().all()) for parameter in model.parameters()):
        raise _diverged(epoch, f"mean loss {mean:g}", settings)
    setup = take_step.setup_seconds - setup_before
    seconds = time.perf_counter() - started - setup
    return {"train_loss": mean, "lr": lr, "seconds": seconds, "setup_seconds": setup}


def _diverged(epoch: int, seen: str, settings: Settings) -> TrainingDivergedError:
    return TrainingDivergedError(
        f"Training diverged in epoch {epoch + 1} ({seen}); lower train.lr (now {settings.train.lr}) or add "
        "train.warmup. The last saved epoch is intact."
    )
