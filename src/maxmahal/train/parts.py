"""The parts of a data set as one run uses them."""

from dataclasses import dataclass
from pathlib import Path

import torch

from maxmahal.data import ImageData, disagreement, load_dataset, train_validation_split
from maxmahal.errors import DataError
from maxmahal.train.config import DataSettings


@dataclass(frozen=True)
class DataParts:
    """What is trained on, what chooses the best checkpoint, and what is only measured."""

    train: ImageData
    validation: ImageData
    test: ImageData


def load_parts(settings: DataSettings, data_dir: str | Path | None, device: torch.device | str) -> DataParts:
    """Load, split, cut to the limits, and move to the training device once and for all."""
    whole = load_dataset(settings.source, "train", data_dir)
    test = load_dataset(settings.source, "test", data_dir)
    problem = disagreement(whole, test)
    if problem is not None:
        raise DataError(f"{settings.source}: {problem}; both parts must be of one kind.")
    if not len(test):
        raise DataError(f"{settings.source} has no test images, so nothing could be measured; add some.")
    train, validation = train_validation_split(whole, settings.validation, settings.split_seed)
    return DataParts(
        train.first(settings.limit).to(device), validation.to(device), test.first(settings.test_limit).to(device)
    )
