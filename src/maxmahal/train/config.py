"""The settings of a training run, as frozen dataclasses checked when they are built."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from maxmahal.centers.registry import CENTERS, CONTEXT
from maxmahal.data import augmentations
from maxmahal.data.augment import MOVES
from maxmahal.errors import SettingsError, check_choice
from maxmahal.files import portable_path
from maxmahal.imports import names_a_function
from maxmahal.losses import LOSSES, check_own_loss
from maxmahal.models import BACKBONES
from maxmahal.models.classifier import NORMALIZATIONS
from maxmahal.settings import LARGEST, Component, Table, component, first_difference, to_table
from maxmahal.train.methods import METHODS

_COMPONENTS = ("loss", "centers", "method")
MOST_FEATURES = 100_000  # far beyond any network here; more is a typo
RETIRED = (("cuda", "own_kernels"), ("cuda", "tune"))
"""Settings of earlier versions that run folders and checkpoints may name; they affected speed and rounding only."""


@dataclass(frozen=True)
class DataSettings:
    """The images of a run."""

    source: str = "cifar10"
    """A registered data set, an .npz file, a folder of images by class, or package.module:function."""
    augment: str = "shift-flip"
    validation: int = 0
    """The number of training images to hold out, in proportion to the classes; 0 trains on all of them."""
    split_seed: int = 0
    limit: int | None = None
    """Use only the first training images (after the split)."""
    test_limit: int | None = None
    cutmix: float = 0.0
    """The share of training images into which a rectangle of another one is pasted; the loss then has both labels."""
    label_noise: float = 0.0
    """The share of training labels that are replaced by another class; validation and test labels stay correct."""
    noise_seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", portable_path(self.source))  # which is saved with the model
        check_choice("data.augment", self.augment, augmentations(), SettingsError)
        _check_least("data.validation", self.validation, 0)
        for name, share, what in (("label_noise", self.label_noise, "labels"), ("cutmix", self.cutmix, "images")):
            if not 0 <= share <= 1:
                raise SettingsError(f"data.{name} is a share of the training {what}, in [0, 1]; got {share}.")
        for name, value in (("data.limit", self.limit), ("data.test_limit", self.test_limit)):
            if value is not None:
                _check_least(name, value, 1)


@dataclass(frozen=True)
class ModelSettings:
    """The network in front of the head."""

    backbone: str = "resnet32"
    """A registered network, or package.module:function for your own."""
    feature_dim: int = 256
    normalize: str = "pixel-mean"

    def __post_init__(self) -> None:
        if not names_a_function(self.backbone):
            check_choice("model.backbone", self.backbone, BACKBONES, SettingsError)
        check_choice("model.normalize", self.normalize, NORMALIZATIONS, SettingsError)
        _check_least("model.feature_dim", self.feature_dim, 1)
        if self.feature_dim > MOST_FEATURES:
            raise SettingsError(f"model.feature_dim must be at most {MOST_FEATURES}; got {self.feature_dim}.")


@dataclass(frozen=True)
class TrainSettings:
    """Momentum SGD, its schedule and its seed."""

    epochs: int = 200
    batch_size: int = 50
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 2e-4
    decay: Literal["convolutions", "weights"] = "convolutions"
    """Decay convolution kernels only, or every weight matrix as well; biases and batch norm never."""
    schedule: Literal["step", "cosine", "linear"] = "step"
    milestones: tuple[float, ...] = (0.5, 0.75)
    """For ``step``: the shares of the training after which the learning rate is multiplied by ``factor``."""
    factor: float = 0.1
    warmup: float = 0.0
    """The share of the training over which the learning rate rises to ``lr``."""
    ema: float = 0.0
    """Decay of the moving average of the weights that is evaluated and saved; 0 switches it off."""
    ema_warmup: bool = False
    """Use the decay (1 + t) / (10 + t) after step t as long as it is smaller."""
    swa: float = 1.0
    """The share of the training after which all weights are averaged equally, instead of ``ema``; 1 switches it off."""
    awp: float = 0.0
    """Adversarial weight perturbation: move each layer's weights by this share of their norm; 0 switches it off."""
    awp_start: float = 0.0
    """The share of the training after which ``awp`` begins; from the first step on it can prevent learning."""
    sync_batch_norm: bool = True
    """Of several processes: whether batch norm uses the statistics of the whole batch, or each process those of its
    part; the running statistics are then the mean over the processes."""
    seed: int = 0
    schedule_epochs: int | None = None
    """The epochs that the schedule spans, if fewer than all: a run that was extended stays at its last rate."""
    measure_every: int = 1
    """Epochs between measurements on test and validation images; the last epoch is always measured."""

    @property
    def scheduled(self) -> int:
        """The epochs that the schedule spans."""
        return self.epochs if self.schedule_epochs is None else self.schedule_epochs

    def __post_init__(self) -> None:
        _check_least("train.epochs", self.epochs, 1)
        _check_least("train.measure_every", self.measure_every, 1)
        if self.schedule_epochs is not None:
            if not 1 <= self.schedule_epochs < self.epochs:
                raise SettingsError(
                    f"train.schedule_epochs must lie below train.epochs = {self.epochs}; got {self.schedule_epochs}."
                )
            if self.schedule != "step":
                raise SettingsError(
                    f"A {self.schedule} schedule ends at a learning rate of 0, so more epochs would change nothing; "
                    f"train a new run with train.epochs={self.epochs}."
                )
        _check_least("train.batch_size", self.batch_size, 2)  # batch norm needs at least two images
        if not 0 < self.lr < LARGEST:
            raise SettingsError(f"train.lr must be positive and finite; got {self.lr}.")
        if not 0 <= self.weight_decay < LARGEST:
            raise SettingsError(f"train.weight_decay must not be negative or infinite; got {self.weight_decay}.")
        if not 0 <= self.factor <= 1:
            raise SettingsError(f"train.factor lowers the learning rate and lies in [0, 1]; got {self.factor}.")
        for name in ("momentum", "warmup", "ema", "awp", "awp_start"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise SettingsError(f"train.{name} must lie in [0, 1); got {value}.")
        if not 0 < self.swa <= 1:
            raise SettingsError(f"train.swa is a share of the training, in (0, 1]; got {self.swa}.")
        if self.ema and self.swa < 1:
            raise SettingsError("train.ema and train.swa are two averages of the weights; set one of them.")
        if self.ema_warmup and not self.ema:
            raise SettingsError("train.ema_warmup needs train.ema, such as 0.999.")
        if any(not 0 < share < 1 for share in self.milestones) or list(self.milestones) != sorted(self.milestones):
            raise SettingsError(
                f"train.milestones are rising shares of the training between 0 and 1, such as [0.5, 0.75]; "
                f"got {list(self.milestones)}."
            )

    @property
    def averaged(self) -> bool:
        """Whether an average of the weights is evaluated and saved."""
        return bool(self.ema) or self.swa < 1


@dataclass(frozen=True)
class CPUSettings:
    """How a CPU computes a run; this affects rounding."""

    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the network before its feature layer; our feature layers and all losses are always in float32."""
    channels_last: bool = False
    compile: bool = False

    @property
    def compiled(self) -> bool:
        """Whether the network is compiled."""
        return self.compile

    @property
    def plain(self) -> bool:
        """Whether the model is used without changes."""
        return self.precision == "float32" and not self.channels_last and not self.compiled


@dataclass(frozen=True)
class CUDASettings(CPUSettings):
    """How a GPU computes a run; fast by default."""

    precision: Literal["float32", "bfloat16"] = "bfloat16"
    channels_last: bool = True
    compile: bool = True
    graph: bool = True
    """Record the whole step, crafting included, as one CUDA graph."""
    deterministic: bool = False
    """Identical results in every run, resumed or not; without compilation, and slower."""

    @property
    def compiled(self) -> bool:
        """Not if deterministic: compiled reductions are tuned by timing, so their order may vary."""
        return self.compile and not self.deterministic


@dataclass(frozen=True)
class Settings:
    """All settings of a run; on one CPU, equal settings give equal weights."""

    about: str = ""
    table: str = ""
    """The row of the paper that this reproduces, such as "Table 1, MMC-10"."""
    data: DataSettings = field(default_factory=DataSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    centers: Component = component(CENTERS, "max-mahalanobis", CONTEXT)
    loss: Component = component(LOSSES, "mmc", ("self", "num_classes", "feature_dim", "centers"), check_own_loss)
    train: TrainSettings = field(default_factory=TrainSettings)
    method: Component = component(METHODS, "standard", context=("self",))
    cpu: CPUSettings = field(default_factory=CPUSettings)
    cuda: CUDASettings = field(default_factory=CUDASettings)

    def on(self, device: torch.device) -> CPUSettings:
        """The settings of that device."""
        return self.cuda if device.type == "cuda" else self.cpu

    def __post_init__(self) -> None:
        method = self.method.build(METHODS)  # runs the method's own checks
        if method.has_teacher and not self.train.averaged:
            raise SettingsError("method.distill learns from the averaged weights; set train.ema, such as 0.998.")
        if method.reused is not None and self.data.augment not in MOVES:
            raise SettingsError(
                f"method.start = 'last' needs an augmentation that only moves pixels ({', '.join(MOVES)}); got "
                f"data.augment = '{self.data.augment}'."
            )
        if method.reused is not None and self.data.cutmix:
            raise SettingsError(
                f"method.start = 'last' cannot follow mixed images; set data.cutmix = 0 (now {self.data.cutmix})."
            )


def drop_retired(table: Any) -> Any:
    """The table of settings out of a file that this package wrote, without those that it has no longer."""
    for section, key in RETIRED:
        if isinstance(table, dict) and isinstance(table.get(section), dict):
            table[section].pop(key, None)
    return table


def what_counts(settings: Settings) -> Table:
    """All settings that affect the result: without the description of the preset."""
    return {key: value for key, value in to_table(settings).items() if key not in ("about", "table")}


def what_differs(begun: Settings, now: Settings) -> str:
    """The most important difference between the settings of two runs, as part of a sentence, or nothing."""
    old, new = what_counts(begun), what_counts(now)
    for section, key in (("data", "source"), ("model", "backbone"), *((part, "name") for part in _COMPONENTS)):
        # Choices first: another loss, for example, also changes its options.
        difference = first_difference({key: old[section][key]}, {key: new[section][key]}, f"{section}.")
        if difference:
            return difference
    return first_difference(old, new)


def extends(begun: Settings, now: Settings) -> bool:
    """Whether a run differs from the one that was begun only by more epochs after the same schedule."""
    if now.train.epochs <= begun.train.epochs or now.train.scheduled != begun.train.scheduled:
        return False
    longer = replace(begun.train, epochs=now.train.epochs, schedule_epochs=now.train.schedule_epochs)
    return what_counts(replace(begun, train=longer)) == what_counts(now)


def _check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise SettingsError(f"{name} must be at least {least}; got {value}.")
