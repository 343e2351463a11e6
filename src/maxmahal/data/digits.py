"""scikit-learn's 8x8 handwritten digits: small, and available without a download."""

from pathlib import Path

import numpy as np
import torch

from maxmahal.data.source import DatasetSource, Split
from maxmahal.data.types import ImageData

_CLASSES = 10
_TEST_PER_CLASS = 50
_BRIGHTEST = 16


def _load(_data_dir: Path, split: Split) -> ImageData:
    """The last 50 images of every class are the test set: the file is ordered by writer, so most writers are new."""
    from sklearn.datasets import load_digits  # imported here because it takes a second that no other data set needs

    bunch = load_digits()
    images = np.round(bunch.images * (255 / _BRIGHTEST)).astype(np.uint8)
    labels = bunch.target
    is_test = np.zeros(len(labels), dtype=bool)
    for digit in range(_CLASSES):
        is_test[np.flatnonzero(labels == digit)[-_TEST_PER_CLASS:]] = True
    indices = np.flatnonzero(is_test if split == "test" else ~is_test)
    return ImageData(
        name="digits",
        images=torch.from_numpy(images[indices]).unsqueeze(1),
        labels=torch.from_numpy(labels[indices]).to(torch.int64),
        class_names=tuple(str(digit) for digit in range(_CLASSES)),
        sample_ids=torch.from_numpy(indices),
    )


DIGITS = DatasetSource(
    load=_load,
    class_counts={"train": (128, 132, 127, 133, 131, 132, 131, 129, 124, 130), "test": (_TEST_PER_CLASS,) * _CLASSES},
    epsilon="0.15",
)
