"""A user's own arrays, brought into the library's shape or refused with the reason."""

import numpy as np
import torch
from jaxtyping import Int, UInt8
from torch import Tensor

from maxmahal.data.notices import notice
from maxmahal.errors import DataError

_CHANNELS = (1, 3)
_NOTICED = 1e-3  # of a step between two bytes: floats that were bytes once are nearer to them
MOST_CLASSES = 1_000_000  # beyond any data set known; a label this high is an id or an error


def as_images(images: object, where: str) -> UInt8[Tensor, "n c h w"]:
    """Bytes NCHW from an array or tensor NHW, NHWC or NCHW of bytes, or of floats in [0, 1]."""
    array = _as_array(images, where)
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4:
        array = _channels_first(array, where)
    else:
        raise DataError(f"{where} must be images NHW, NHWC or NCHW; got the shape {array.shape}.")
    if array.size == 0:
        raise DataError(f"{where} must hold at least one image; got the shape {array.shape}.")
    return torch.from_numpy(np.ascontiguousarray(_as_bytes(array, where)))


def as_labels(labels: object, count: int, where: str) -> Int[Tensor, " n"]:
    """One whole number from 0 up for each of ``count`` images."""
    array = _as_array(labels, where)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise DataError(
            f"{where} must be {count} whole numbers, one for each image; got {array.dtype} of shape {array.shape}."
        )
    if array.min() < 0:
        raise DataError(f"{where} must number the classes from 0; got {array.min()}.")
    return torch.from_numpy(array.astype(np.int64))


def numbered_classes(highest: int, where: str) -> tuple[str, ...]:
    """Names "0", "1", … for classes that have none, up to the highest label."""
    if highest >= MOST_CLASSES:
        raise DataError(
            f"{where}: the highest label is {highest}, which would make as many classes; number the classes 0, 1, 2, … "
            "without gaps, or give class_names."
        )
    return tuple(str(label) for label in range(highest + 1))


def _as_array(values: object, where: str) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy has no bfloat16
    if isinstance(values, np.ndarray):
        return values
    raise DataError(f"{where} must be an array or a tensor; got a {type(values).__name__}.")


def _channels_first(array: np.ndarray, where: str) -> np.ndarray:
    first, last = array.shape[1] in _CHANNELS, array.shape[3] in _CHANNELS
    if first == last:
        raise DataError(
            f"{where} must have 1 or 3 channels, either right after the first dimension (NCHW) or last (NHWC); "
            f"the shape {array.shape} does not tell which."
        )
    return array if first else array.transpose(0, 3, 1, 2)


def _as_bytes(array: np.ndarray, where: str) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise DataError(f"{where} must be bytes (uint8) or floats in [0, 1]; got {array.dtype}.")
    missing = int(np.isnan(array).sum())
    if missing:
        raise DataError(
            f"{where} are floats and must lie in [0, 1]; found {missing} NaN among {array.size} values. "
            "Replace them, or leave those images out."
        )
    low, high = array.min(), array.max()
    if low < 0 or high > 1:
        raise DataError(
            f"{where} are floats and must lie in [0, 1]; found {low:g} to {high:g}. "
            "Divide them by their largest possible value, or store bytes (uint8)."
        )
    scaled = array * 255
    rounded = np.round(scaled)
    moved = float(np.abs(scaled - rounded).max())
    if moved > _NOTICED:
        notice(f"{where} are kept as bytes: pixels moved by up to {moved:.2g}/255.")
    return rounded.astype(np.uint8)
