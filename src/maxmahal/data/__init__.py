"""Images and labels: published data sets, the user's own data, splits and augmentation."""

from maxmahal.data.augment import Augmentation, augmentation, augmentations
from maxmahal.data.check import CheckReport, CheckRow, check_dataset
from maxmahal.data.cifar import CIFAR100_SUPERCLASSES
from maxmahal.data.fetch import DownloadReporter, fetch_dataset
from maxmahal.data.idbh import cutmix
from maxmahal.data.load import DataSource, load_dataset, resolve_data_dir
from maxmahal.data.registry import dataset_names
from maxmahal.data.types import ImageData, disagreement, to_unit_range, train_validation_split
from maxmahal.errors import DataNotice

__all__ = [
    "CIFAR100_SUPERCLASSES",
    "Augmentation",
    "CheckReport",
    "CheckRow",
    "DataNotice",
    "DataSource",
    "DownloadReporter",
    "ImageData",
    "augmentation",
    "augmentations",
    "check_dataset",
    "cutmix",
    "dataset_names",
    "disagreement",
    "fetch_dataset",
    "load_dataset",
    "resolve_data_dir",
    "to_unit_range",
    "train_validation_split",
]
