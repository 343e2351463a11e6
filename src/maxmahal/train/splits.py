"""The training, validation and test images of one run."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from maxmahal.data import ImageData, disagreement, load_dataset, train_validation_split
from maxmahal.errors import DataError
from maxmahal.random import integers, uniform
from maxmahal.train.config import DataSettings


@dataclass(frozen=True)
class Splits:
    """The images to train on, to choose the best checkpoint with, and to test on."""

    train: ImageData
    validation: ImageData
    test: ImageData


def load_splits(settings: DataSettings, data_dir: str | Path | None, device: torch.device | str) -> Splits:
    """Load, split, apply the limits, and move to the training device once."""
    whole = load_dataset(settings.source, "train", data_dir)
    test = load_dataset(settings.source, "test", data_dir)
    problem = disagreement(whole, test)
    if problem is not None:
        raise DataError(f"{settings.source}: {problem}; both splits must have the same kind of images.")
    if not len(test):
        raise DataError(f"{settings.source} has no test images, so nothing could be measured; add some.")
    train, validation = train_validation_split(whole, settings.validation, settings.split_seed)
    train = mislabel(train.first(settings.limit), settings.label_noise, settings.noise_seed)
    return Splits(train.to(device), validation.to(device), test.first(settings.test_limit).to(device))


def mislabel(data: ImageData, share: float, seed: int) -> ImageData:
    """Replace each label, with probability ``share``, by another class; a larger share mislabels the same and more."""
    if share == 0:
        return data
    if data.num_classes < 2:
        raise DataError(f"data.label_noise needs at least two classes; {data.name} has one.")
    chosen = uniform(data.sample_ids, (), seed, "label noise") < share
    step = 1 + integers(data.sample_ids, data.num_classes - 1, seed, "wrong label")
    return replace(data, labels=torch.where(chosen, (data.labels + step) % data.num_classes, data.labels))
