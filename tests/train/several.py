"""What each of several processes does for test_several_processes.py: some steps together, and the same steps alone.

In float64: there the two differ by less than 1e-10, and any mistake by far more. In float32 the rounding of one step
grows in the next ones as that of another number of threads does.
"""

import json
import math
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.imports import only_named
from maxmahal.models import Classifier
from maxmahal.train import Settings, load_settings, new_classifier
from maxmahal.train.loop import batches
from maxmahal.train.methods import METHODS, Batch
from maxmahal.train.optimiser import WeightAverage, build_optimiser
from maxmahal.train.processes import ALONE, Processes, joined
from maxmahal.train.splits import load_splits
from maxmahal.train.step import step_kind
from processes import Started

STEPS = 6


def start(count: int, code: str, *arguments: object, **environment: str) -> list[Started]:
    """``python -c code arguments`` by ``count`` processes, as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    common |= {"TORCHELASTIC_RUN_ID": "test", "GLOO_SOCKET_IFNAME": "lo", **environment}
    words = {name: str(value) for name, value in common.items()}
    return [Started(code, *arguments, **words, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(count)]


class Skipping(nn.Module):
    """A network that skips layers: parts of even and of odd size take another one, and none takes the third."""

    def __init__(self, inputs: int, features: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(inputs, inputs) for _ in range(3))
        self.last = nn.Linear(inputs, features)

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        features: Tensor = self.last(flat + self.layers[len(images) % 2](flat))
        return features


def skipping(image_shape: tuple[int, int, int], feature_dim: int) -> nn.Module:
    return Skipping(math.prod(image_shape), feature_dim)


def take_steps(settings: Settings, data: ImageData, processes: Processes) -> tuple[list[float], dict[str, Tensor]]:
    """The losses of some steps; then all weights and buffers, and their average."""
    model = new_classifier(settings, data).double()
    average = WeightAverage(model, settings.train) if settings.train.averaged else None
    method, optimiser = settings.method.build(METHODS), build_optimiser(model, settings.train)
    step = step_kind(settings.cpu)(model, optimiser, method, average, settings.cpu, settings.train, processes)
    model.train()
    losses: list[float] = []
    while len(losses) < STEPS:
        for batch in batches(data, settings, len(losses), processes):
            losses.append(float(step(double(batch), settings.train.lr)))
    state = model.state_dict() | {f"average.{name}": value for name, value in averaged(average).items()}
    return losses, {name: value.clone() for name, value in state.items()}


def double(batch: Batch) -> Batch:
    return replace(batch, images=batch.images.double())


def averaged(average: WeightAverage | None) -> dict[str, Tensor]:
    return {} if average is None else average.model.state_dict()


def local_statistics(settings: Settings, data: ImageData, count: int) -> tuple[list[float], dict[str, Tensor]]:
    """By hand: each part of a batch passes a model of its own, whose gradients and running statistics are averaged."""
    model = new_classifier(settings, data).double().train()
    optimiser = build_optimiser(model, settings.train)
    losses: list[float] = []
    while len(losses) < STEPS:
        parts = [batches(data, settings, len(losses), Processes(rank, count)) for rank in range(count)]
        for mine in zip(*parts, strict=True):
            losses.append(step_by_hand(model, optimiser, [double(part) for part in mine], settings))
    return losses, model.state_dict()


def step_by_hand(model: Classifier, optimiser: torch.optim.SGD, parts: list[Batch], settings: Settings) -> float:
    for group in optimiser.param_groups:
        group["lr"] = settings.train.lr
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimiser.zero_grad()
    total, changes = 0.0, {name: torch.zeros_like(value) for name, value in model.named_buffers()}
    for part in parts:
        model.load_state_dict(before)
        share = len(part.labels) / settings.train.batch_size
        loss = share * settings.method.build(METHODS).loss(model, part)
        loss.backward()
        total += float(loss)
        for name, buffer in model.named_buffers():
            changes[name] += (share * (buffer - before[name])).to(buffer.dtype) if buffer.is_floating_point() else 0
    model.load_state_dict(before | {name: before[name] + change for name, change in changes.items()})
    for name, buffer in model.named_buffers():
        buffer += 1 if name.endswith("num_batches_tracked") else 0
    optimiser.step()
    return total


def main() -> None:
    """Arguments: a preset and its overrides. Compares, and leaves the largest difference in the file ``RESULT``."""
    with only_named(sys.argv):
        compare(load_settings(sys.argv[1], sys.argv[2:]))


def compare(settings: Settings) -> None:
    data = load_splits(settings.data, None, "cpu").train
    with joined(torch.device("cpu"), settings.train.batch_size, resume=False) as processes:
        losses, state = take_steps(settings, data, processes)
        for name, value in state.items():
            firsts = value.clone()
            dist.broadcast(firsts, 0)
            assert torch.equal(firsts, value), f"{name} differs between the processes"
    by_hand = not settings.train.sync_batch_norm
    expected = local_statistics(settings, data, processes.count) if by_hand else take_steps(settings, data, ALONE)
    pairs = [(torch.tensor(losses), torch.tensor(expected[0])), *((state[name], expected[1][name]) for name in state)]
    worst = max(float((one - two).abs().max() / two.abs().max().clamp_min(1)) for one, two in pairs)
    if processes.first:
        Path(os.environ["RESULT"]).write_text(json.dumps({"worst": worst, "losses": losses}))
