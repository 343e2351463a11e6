"""Which device a grid runs on."""

import torch

from maxmahal.errors import SettingsError


def choose_device(name: str) -> str:
    """``auto`` takes the GPU where there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise SettingsError(f"--device {name} is unknown; use auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("--device cuda was asked for, but torch sees no CUDA device here; use --device cpu.")
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return name
