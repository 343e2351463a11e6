"""The parts of a data set as one run uses them."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from maxmahal.data import ImageData, disagreement, load_dataset, train_validation_split
from maxmahal.errors import DataError
from maxmahal.random import integers, uniform
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
    train = mislabel(train.first(settings.limit), settings.label_noise, settings.noise_seed)
    return DataParts(train.to(device), validation.to(device), test.first(settings.test_limit).to(device))


def mislabel(data: ImageData, share: float, seed: int) -> ImageData:
    """Give each sample, with the chance ``share``, one of the other classes; its id alone decides, not its place.

    The samples that a smaller share mislabels are among those of a larger one, and get the same wrong label.
    """
    if share == 0:
        return data
    if data.num_classes < 2:
        raise DataError(f"data.label_noise needs another class to mistake a label for; {data.name} has one.")
    chosen = uniform(data.sample_ids, (), seed, "label noise") < share
    step = 1 + integers(data.sample_ids, data.num_classes - 1, seed, "wrong label")
    return replace(data, labels=torch.where(chosen, (data.labels + step) % data.num_classes, data.labels))
