"""The same network, computed the way its device is fastest: memory layout, precision, compilation."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.models import Classifier
from maxmahal.models.compiling import compile_apart
from maxmahal.train.config import CPUSettings, CUDASettings
from maxmahal.train.folded import folded_twin


class FastBackbone(nn.Module):
    """A classifier's normalisation and backbone: its own modules and weights, run as ``settings`` say."""

    def __init__(self, model: Classifier, settings: CPUSettings) -> None:
        super().__init__()
        self.normalize = model.normalize
        self.backbone = model.backbone
        run = _runner(self.normalize, self.backbone, settings)
        self._run = self._run_in_eval = compile_apart(run, dynamic=False) if settings.compiled else run
        precision = torch.bfloat16 if settings.precision == "bfloat16" else torch.float32
        twin = folded_twin(self.backbone, precision) if settings.compiled else None
        self._twins = () if twin is None else (twin,)  # not submodules: their weights are nobody's to train
        if twin is not None:
            self._run_in_eval = compile_apart(_runner(self.normalize, twin, settings), dynamic=False)

    def train(self, mode: bool = True) -> "FastBackbone":
        """Switching to eval mode, as crafting does, takes over the weights that it will use."""
        super().train(mode)
        for twin in () if mode else self._twins:
            twin.refresh()
        return self

    def forward(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n d"]:
        """Feature vectors in float32, whatever the precision before them."""
        return self._run(images) if self.training else self._run_in_eval(images)


def _runner(normalize: nn.Module, backbone: nn.Module, settings: CPUSettings) -> Callable[[Tensor], Tensor]:
    layout = torch.channels_last if settings.channels_last else torch.contiguous_format
    bfloat16 = settings.precision == "bfloat16"

    def run(images: Tensor) -> Tensor:
        images = images.to(memory_format=layout)
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bfloat16):
            features: Tensor = backbone(normalize(images))
        # The loss tells classes apart by small differences of large numbers, so it never sees bfloat16.
        return features.float() if bfloat16 else features

    return run


def lay_out(model: Classifier, settings: CPUSettings) -> None:
    """Give the weights the memory layout of the settings, before anything else refers to them."""
    if settings.channels_last:
        for parameter in model.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def accelerate(model: Classifier, settings: CPUSettings) -> Classifier:
    """A classifier that shares all weights with ``model`` and computes faster, or the model where nothing is asked."""
    return model if settings.plain else Classifier(FastBackbone(model, settings), model.head)


@contextmanager
def same_bits(settings: CPUSettings) -> Iterator[None]:
    """Only algorithms that give the same bits in every run, where the settings ask for that."""
    if not (isinstance(settings, CUDASettings) and settings.deterministic):
        yield
        return
    # Without it cuBLAS may split sums as it likes. It is read once, so taking it away again would change nothing.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_deterministic_debug_mode()
    try:
        torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


@contextmanager
def fastest_kernels(settings: CPUSettings) -> Iterator[None]:
    """Let cuDNN try its algorithms for every shape it meets.

    Around a training step alone, whose shapes never change: an attack's batches shrink, and each of their sizes would
    be tried anew.
    """
    cudnn: Any = torch.backends.cudnn
    before = cudnn.benchmark
    try:
        cudnn.benchmark = isinstance(settings, CUDASettings) and not settings.deterministic
        yield
    finally:
        cudnn.benchmark = before
