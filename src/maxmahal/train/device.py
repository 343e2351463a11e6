"""How a device computes the network fastest: memory layout, precision, compilation, folded batch norm."""

import copy
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks.pgd import Compiler
from maxmahal.attacks.prepare.folding import Pair, find_foldable, fold, short_reason
from maxmahal.errors import SettingsError
from maxmahal.models import Classifier
from maxmahal.models.layers import Function, compile_apart, to_channels_last
from maxmahal.train.config import CPUSettings, CUDASettings


def pick_device(name: torch.device | str) -> torch.device:
    """``auto`` is the GPU if there is one, otherwise the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"--device {name} is unknown; use auto, cpu or cuda.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"--device {name} is not supported; use auto, cpu or cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise SettingsError(
            f"--device {name} was asked for, but torch sees {count} CUDA devices here; use --device cpu."
        )
    return device


class FastBackbone(nn.Module):
    """A classifier's normalisation and backbone: its own modules and weights, run as ``settings`` say."""

    def __init__(self, model: Classifier, settings: CPUSettings) -> None:
        super().__init__()
        self.normalize = model.normalize
        self.backbone = model.backbone
        run = _runner(self.normalize, self.backbone, settings)
        self._run = self._run_in_eval = compile_apart(run, dynamic=False) if settings.compiled else run
        precision = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        folded = folded_copy(self.backbone, precision) if settings.compiled else None
        self._folded = () if folded is None else (folded,)  # a tuple: not a submodule, so it is not trained
        self._codes: dict[str, types.CodeType] = {}
        self._section = "cuda" if isinstance(settings, CUDASettings) else "cpu"
        self.compiler: Compiler | None = self._compile if settings.compiled else None
        if folded is not None:
            self._run_in_eval = compile_apart(_runner(self.normalize, folded, settings), dynamic=False)

    def _compile(self, function: Function) -> Function:
        """Once for each function around the network, whose closure is made anew in every step."""
        code = self._codes.setdefault(function.__qualname__, function.__code__.replace())
        compiled = compile_apart(function, dynamic=False, code=code)

        def run(*arguments: Tensor | None) -> object:
            try:
                return compiled(*arguments)
            except (RuntimeError, AssertionError) as error:  # torch 2.11 ends some compilations with the latter
                if isinstance(error, RuntimeError) and not type(error).__module__.startswith("torch._dynamo"):
                    raise
                raise SettingsError(
                    f"Crafting with this loss cannot be compiled ({short_reason(error)}); set "
                    f"{self._section}.compile=false."
                ) from error

        return cast(Function, run)

    def train(self, mode: bool = True) -> "FastBackbone":
        """Switching to eval mode, as crafting does, copies the current weights into the folded copy."""
        super().train(mode)
        for folded in () if mode else self._folded:
            folded.refresh()
        return self

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors, always in float32."""
        return self._run(images) if self.training else self._run_in_eval(images)


def _runner(normalize: nn.Module, backbone: nn.Module, settings: CPUSettings) -> Callable[[Tensor], Tensor]:
    layout = torch.channels_last if settings.channels_last else torch.contiguous_format
    bfloat16 = settings.precision == "bfloat16"

    def run(images: Tensor) -> Tensor:
        images = images.to(memory_format=layout)
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bfloat16):
            features: Tensor = backbone(normalize(images))
        # The loss depends on small differences of large numbers, so it is never computed in bfloat16.
        return features.float() if bfloat16 else features

    return run


def lay_out(model: Classifier, settings: CPUSettings) -> None:
    """Give the weights the memory layout of the settings, before anything else refers to them."""
    if settings.channels_last:
        to_channels_last(model)


def accelerate(model: Classifier, settings: CPUSettings) -> Classifier:
    """A faster classifier that shares all weights with ``model``, or the model itself under plain settings."""
    return model if settings.plain else Classifier(FastBackbone(model, settings), model.head)


@contextmanager
def deterministic_algorithms(settings: CPUSettings) -> Iterator[None]:
    """Use deterministic algorithms only, if the settings ask for them."""
    if not (isinstance(settings, CUDASettings) and settings.deterministic):
        yield
        return
    # cuBLAS is deterministic only with it. It is read once, so there is no point in removing it afterwards.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_deterministic_debug_mode()
    try:
        torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


@contextmanager
def fastest_kernels(settings: CPUSettings) -> Iterator[None]:
    """Let cuDNN time its algorithms for every new shape: only around a training step, whose shapes never change."""
    cudnn: Any = torch.backends.cudnn
    before = cudnn.benchmark
    try:
        cudnn.benchmark = isinstance(settings, CUDASettings) and not settings.deterministic
        yield
    finally:
        cudnn.benchmark = before


class FoldedCopy(nn.Module):
    """A copy of a network for eval mode, with batch norm folded into the layers before it; ``refresh`` updates it."""

    def __init__(self, network: nn.Module, pairs: tuple[Pair, ...], precision: torch.dtype) -> None:
        super().__init__()
        self.copied = copy.deepcopy(network).eval().requires_grad_(False)
        fold(self.copied, pairs)
        # Linear layers and other batch norms have the same attributes as these types.
        self._layers = [
            cast(
                tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d],
                (network.get_submodule(layer), network.get_submodule(norm), self.copied.get_submodule(layer)),
            )
            for layer, norm in pairs
        ]
        for layer, _, ours in self._layers:
            ours.to(precision)
            ours.weight.data = torch.empty_like(layer.weight, dtype=precision)  # in the same memory layout
        folded = {name for pair in pairs for name in pair}
        theirs, own = _tensors(network), _tensors(self.copied)
        self._others = [(theirs[name], own[name]) for name in own if name.rpartition(".")[0] not in folded]
        self.refresh()

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """The network's output in eval mode, with the weights of the last refresh."""
        return self.copied(images)

    @torch.no_grad()
    def refresh(self) -> None:
        """Fold the network's current weights, without synchronising the device."""
        for theirs, other in self._others:
            other.copy_(theirs)
        for layer, norm, ours in self._layers:
            mean, variance = cast(Tensor, norm.running_mean), cast(Tensor, norm.running_var)
            scale = torch.rsqrt(variance + norm.eps)
            scale = scale if norm.weight is None else scale * norm.weight
            shift = torch.zeros_like(mean) if norm.bias is None else norm.bias
            mean = mean if layer.bias is None else mean - layer.bias
            torch.mul(layer.weight, scale.view(-1, *[1] * (layer.weight.ndim - 1)), out=ours.weight)
            torch.addcmul(shift, mean, scale, value=-1, out=ours.bias)


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    """All parameters and buffers by name, also buffers that checkpoints do not hold."""
    parameters, buffers = (
        tensors(remove_duplicate=False) for tensors in (network.named_parameters, network.named_buffers)
    )
    return {**dict(parameters), **dict(buffers)}


def folded_copy(network: nn.Module, precision: torch.dtype) -> FoldedCopy | None:
    """A folded copy of the network, or None if it cannot be copied or has no batch norm to fold."""
    try:
        frozen = copy.deepcopy(network).eval()
    except Exception:  # a user's network may hold locks or handles; it is then used as it is
        return None
    pairs = find_foldable(frozen).pairs
    return FoldedCopy(network, pairs, precision) if pairs else None
