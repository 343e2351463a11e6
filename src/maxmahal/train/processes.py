"""Several processes that train one model, started by torchrun: parts, sums and batch norm over all of them.

Not DistributedDataParallel: a step here may take several passes through parts of the model, ask for gradients by
``torch.autograd.grad``, and be recorded as a CUDA graph.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.modules.batchnorm import _BatchNorm

from maxmahal.errors import MaxmahalError, SettingsError


class ProcessError(MaxmahalError):
    """A message between the processes of a training failed, mostly because one of them has ended."""


@dataclass(frozen=True)
class Processes:
    """The processes of one training, and which of them this one is."""

    rank: int = 0
    count: int = 1
    joined: bool = False
    """Whether they exchange tensors; also true for one process under torchrun, which takes the same way as several."""

    @property
    def first(self) -> bool:
        """Whether this one writes the files and prints the progress."""
        return self.rank == 0

    def part(self, size: int) -> slice:
        """This process's part of ``size`` things in order; parts differ by one at most."""
        return slice(size * self.rank // self.count, size * (self.rank + 1) // self.count)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message."""
        if not self.joined:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        sum_over_processes(flat)
        for tensor, total in zip(tensors, torch.split(flat, [each.numel() for each in tensors]), strict=True):
            tensor.copy_(total.view(tensor.shape))

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by the first process's."""
        with _message_errors():
            for tensor in tensors if self.joined else ():
                dist.broadcast(tensor, 0)


ALONE = Processes()


def sum_over_processes(tensor: Tensor) -> None:
    """Replace a tensor by its sum over all processes."""
    with _message_errors():
        dist.all_reduce(tensor)


@contextmanager
def _message_errors() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # of gloo; nccl ends the process instead
        reason = " ".join(str(error).split())[:200]
        raise ProcessError(
            f"The processes of this training cannot exchange tensors ({reason}); if one of them has ended, its own "
            "message says why. Run the same command with --resume to continue after the last saved epoch."
        ) from error


def is_first() -> bool:
    """Whether this is the first process of a torchrun, or not one of a torchrun."""
    return not dist.is_torchelastic_launched() or os.environ["RANK"] == "0"


def own_device(device: torch.device) -> torch.device:
    """Under torchrun, the GPU of this process instead of any."""
    if device.type != "cuda" or not dist.is_torchelastic_launched():
        return device
    local, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if local >= gpus:
        raise SettingsError(
            f"torchrun starts {os.environ['LOCAL_WORLD_SIZE']} processes here, and torch sees {gpus} CUDA devices; "
            f"use --nproc-per-node {gpus}, or --device cpu."
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextmanager
def joined(device: torch.device, batch_size: int, *, resume: bool) -> Iterator[Processes]:
    """The processes that torchrun started, connected; or this one alone."""
    if not dist.is_torchelastic_launched():
        yield ALONE
        return
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if batch_size < 2 * count:  # batch norm needs at least two images
        raise SettingsError(
            f"train.batch_size = {batch_size} leaves fewer than two images for each of {count} processes; use at most "
            f"{batch_size // 2}."
        )
    if not resume and int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        raise SettingsError(
            "torchrun --max-restarts runs the same command again, which must continue what is finished; add --resume "
            "(in Python: resume=True)."
        )
    ours = not dist.is_initialized()
    if ours:
        # torchrun keeps its store when it starts processes again, and the addresses in it are those of ended ones.
        backend, gpu = ("nccl", device) if device.type == "cuda" else ("gloo", None)
        with _message_errors():
            store, _, _ = next(rendezvous("env://"))
            attempt = PrefixStore(f"{os.environ.get('TORCHELASTIC_RESTART_COUNT')}/{count}", store)
            dist.init_process_group(backend, store=attempt, rank=rank, world_size=count, device_id=gpu)
    yield Processes(rank, count, joined=True)
    if ours:  # not after an error: it could wait for processes that have ended
        with _message_errors():
            dist.barrier()  # so that none leaves while another still reads its messages
        dist.destroy_process_group()


def synchronise_batch_norm(model: nn.Module) -> list[Tensor]:
    """Let each batch norm train on the whole batch, as torch's own does on GPUs alone; returns their buffers."""
    norms = [each for each in model.modules() if getattr(each.forward, "__func__", None) is _BatchNorm.forward]
    apart = torch.compiler.disable(whole_batch_norm)  # type: ignore[no-untyped-call]  # it cannot trace messages
    for norm in norms:
        # On the instance: its class and the names of its weights must stay.
        norm.forward = MethodType(apart, norm)
    return [buffer for norm in norms for buffer in norm.buffers()]


def whole_batch_norm(norm: _BatchNorm, inputs: Float[Tensor, "n c ..."]) -> Float[Tensor, "n c ..."]:
    """weight·(x - mean)/√(variance + eps) + bias, with mean and variance over all processes; gradients flow to all."""
    if not norm.training:
        return _BatchNorm.forward(norm, inputs)
    values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))
    axes, shape = [0, *range(2, inputs.ndim)], [1, -1, *[1] * (inputs.ndim - 2)]
    number = values.new_full((1,), values.numel() / norm.num_features)
    sums = _total(torch.cat([values.sum(axes), number]))
    count = sums[-1].detach()
    mean = sums[:-1] / count
    centered = values - mean.view(shape)
    variance = _total(centered.square().sum(axes)) / count
    if norm.running_mean is not None and norm.running_var is not None and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)  # the running statistics move as those of ``nn.BatchNorm2d`` do
        rate = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
        norm.running_mean.lerp_(mean.detach().to(norm.running_mean.dtype), rate)
        norm.running_var.lerp_((variance.detach() * count / (count - 1)).to(norm.running_var.dtype), rate)
    scale = (variance + norm.eps).rsqrt()
    scale = scale if norm.weight is None else scale * norm.weight
    outputs = centered * scale.view(shape)
    return (outputs if norm.bias is None else outputs + norm.bias.view(shape)).to(inputs.dtype)


def _total(part: Tensor) -> Tensor:
    """The sum over all processes."""
    return _Total.apply(part)  # type: ignore[no-untyped-call]


class _Total(torch.autograd.Function):
    """Every process's loss depends on the sum, so the gradient of a part is the sum of their gradients."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:  # noqa: ARG004
        total = part.clone()
        sum_over_processes(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        return _total(gradients[0])
