"""The published data sets by name. A new one is one new file in this folder and one line here."""

from maxmahal.data.cifar import CIFAR10, CIFAR100
from maxmahal.data.digits import DIGITS
from maxmahal.data.mnist import FASHION_MNIST, MNIST
from maxmahal.data.source import DatasetSource

SOURCES: dict[str, DatasetSource] = {
    "digits": DIGITS,
    "mnist": MNIST,
    "fashion-mnist": FASHION_MNIST,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
}


def dataset_names() -> tuple[str, ...]:
    """The names of the published data sets."""
    return tuple(SOURCES)
