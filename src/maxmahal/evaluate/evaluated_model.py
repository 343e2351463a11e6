"""The model under evaluation: loaded from wherever it is, checked against the data, prepared for attacks."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from maxmahal.attacks import Model, Prepared, prepare
from maxmahal.attacks.checks import PROBABILITIES, are_probabilities, check_model
from maxmahal.attacks.model_outputs import (
    ONE_LOGIT,
    check_answers,
    check_logits_of,
    check_unchanged,
    is_out_of_memory,
    predicted_classes,
    way_out,
)
from maxmahal.attacks.oracle import full_float32, judge
from maxmahal.data import DataSource, ImageData, dataset_names, load_dataset
from maxmahal.data.arrays import numbered_classes
from maxmahal.errors import ArgumentError, CheckpointError, DataError, DataNotice, SettingsError, warn_caller
from maxmahal.evaluate.fingerprints import fingerprint_model, short_name
from maxmahal.evaluate.suite import Suite
from maxmahal.files import check_folder_name, recorded_path, user_path
from maxmahal.imports import call_function, check_call, exits_as_errors, import_function, names_a_function, only_named
from maxmahal.models import Classifier, Head
from maxmahal.random import generator, own_stream
from maxmahal.settings import Table, to_table
from maxmahal.train import RunFolder, load_model
from maxmahal.train.checkpoint import ModelCard, load_card
from maxmahal.train.device import pick_device
from maxmahal.zoo import PREFIX, names_a_model, zoo_checkpoint, zoo_models

SHOWN = 64  # images that a model is tried on before anything is recorded
ALONE = 4  # of them that it is also shown one by one
CHANNELS = (1, 3)
DRAWS = 20  # predictions of a stochastic model per image: its accuracy is their mean
EOT = 10  # draws per gradient of a stochastic model; more sharpen the gradient less than another step would
# Relative to the range of a sample's logits: the order of a float32 sum changes them by a millionth, random noise that
# could stop an attack by far more.
ROUNDING = 1e-3
# Share of the samples: rounding may change one that lies at a kink, a random layer changes nearly all.
STOCHASTIC_SHARE = 0.02
_FEWEST = 32  # images that tell a wrong normalisation from bad luck
_FEWEST_IN_RUNS = 10  # images that tell a sorted data set from a mixed one
_BETTER = 0.25  # of the images: so many more must be right
_RANGES = {
    "with ImageNet's mean and deviation": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "with CIFAR-10's mean and deviation": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "with MNIST's mean and deviation": ((0.1307,), (0.3081,)),
    "to [-1, 1]": ((0.5,), (0.5,)),
    "to [0, 255]": ((0.0,), (1 / 255,)),
}
Target = str | Path | nn.Module | Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class EvaluatedModel:
    """One model; ``card`` and ``training`` are known for our own runs only."""

    name: str
    target: str
    model: Model
    fingerprint: str
    card: ModelCard | None = None
    training: list[dict[str, Any]] = field(default_factory=list)

    @property
    def head(self) -> Head | None:
        """The loss it was trained with, if it is one of ours."""
        return self.model.head if isinstance(self.model, Classifier) else None

    @cached_property
    def fast(self) -> Model:
        """The prepared model that attacks search on; the model itself confirms the results."""
        return prepare(self.model) if isinstance(self.model, nn.Module) else self.model

    @property
    def device(self) -> torch.device:
        """The device of its weights."""
        if isinstance(self.model, nn.Module):
            for tensor in (*self.model.parameters(), *self.model.buffers()):
                return tensor.device
        return torch.device("cpu")

    def about(self) -> Table:
        """How the records describe it."""
        is_module = isinstance(self.model, nn.Module)
        kind = "classifier" if isinstance(self.model, Classifier) else "module" if is_module else "function"
        parameters = self.model.parameters() if isinstance(self.model, nn.Module) else ()
        about: Table = {"kind": kind, "parameters": sum(each.numel() for each in parameters)}
        if self.card is None:
            return {**about, "loss": "", "backbone": "", "settings": {}, "table": "", "epoch": 0}
        trained = self.card.settings
        settings = to_table(trained)
        settings["data"]["source"] = recorded_path(settings["data"]["source"])
        return {
            **about,
            "loss": trained.loss.name,
            "backbone": trained.model.backbone,
            "settings": settings,
            "table": trained.table,
            "epoch": self.card.epoch,
        }


def load_target(
    target: Target, *, name: str = "", trusted: Sequence[str] = (), device: torch.device | str = "auto"
) -> EvaluatedModel:
    """The model that ``target`` stands for: a run folder, a checkpoint, ``module:factory``, a zoo's name, or itself.

    A path that exists wins over a name, as it does for ``maxmahal.load``. Code that a checkpoint names runs only if it
    is in ``trusted``. A model that is given as itself stays on its device.
    """
    if isinstance(target, nn.Module):
        return _own(target, name or type(target).__name__, "a model passed from Python")
    if not isinstance(target, (str, Path)):
        return _own(target, name or short_name(target), "a function passed from Python")
    text = str(target)
    with only_named(text, trusted):
        if not user_path(text).exists():
            # Before the zoo, which need not be there for a function; zoo:NAME reads as one too.
            if names_a_function(text) and not text.startswith(PREFIX):
                return _from_factory(text, name or re.split("[:/]", text)[-1], trusted, device)
            if text.startswith(PREFIX) or (names_a_model(text) and text in zoo_models()):
                bare = text.removeprefix(PREFIX)
                known = _from_checkpoint(zoo_checkpoint(bare), name or bare, trusted, device)
                return replace(known, target=PREFIX + bare)
        return _from_checkpoint(user_path(text), name, trusted, device)


def load_targets(
    targets: Sequence[Target] | Mapping[str, Target], trusted: Sequence[str], device: torch.device | str
) -> dict[str, EvaluatedModel]:
    """Several models by their names; a text may be ``NAME=TARGET``."""
    if not targets:
        raise ArgumentError("Name at least one model to evaluate.")
    models: dict[str, EvaluatedModel] = {}
    pairs = targets.items() if isinstance(targets, Mapping) else (("", target) for target in targets)
    for given, asked in pairs:
        is_text = not isinstance(targets, Mapping) and isinstance(asked, str) and not Path(asked).exists()
        name, target = split_name(str(asked)) if is_text else (given, asked)
        model = load_target(target, name=name, trusted=trusted, device=device)
        if model.name in models:
            raise SettingsError(f"Two models are called '{model.name}'; name one of them with NAME=TARGET.")
        check_folder_name(model.name, "model")
        models[model.name] = model
    return models


def load_images(
    models: Mapping[str, EvaluatedModel], data: DataSource | None, data_dir: str | Path | None, limit: int | None = None
) -> ImageData:
    """The test part of ``data``; without it, of the data that the models were trained on.

    The first images of a user's own may lack some classes: they get as many as the models know.
    """
    if isinstance(data, ImageData):
        return data
    if data is None:
        trained_on = {model.card.settings.data.source for model in models.values() if model.card is not None}
        if len(trained_on) != 1:
            raise SettingsError("Say which images to use as data (--data); these models do not tell.")
        (data,) = trained_on
    images = load_dataset(data, "test", data_dir, limit=limit, stream=True)
    numbers = numbered_classes(images.num_classes - 1, images.name)
    # A known data set has all its classes; the labels of a user's own may lack the last ones.
    if images.class_names != numbers or (isinstance(data, str | Path) and str(data) in dataset_names()):
        return images
    with suppress(Exception):  # a model that cannot take the images is told so when all of them are tried
        known = [judge(each.model, images.first(1).to(each.device).float_images()) for each in models.values()]
        highest = max(images.num_classes, *(each.logits.shape[1] for each in known)) - 1
        images = replace(images, class_names=numbered_classes(highest, images.name))
    return images


def first_images(images: ImageData, limit: int | None) -> ImageData:
    """The first so many of them, or all; a notice if they are sorted by class, so that the limit leaves classes out."""
    if limit is not None and limit < 1:
        raise SettingsError(f"limit must be at least 1; got {limit}.")
    some = images.first(limit)
    shown, classes = len(torch.unique(some.labels)), len(torch.unique(images.labels))
    in_runs = shown == len(torch.unique_consecutive(some.labels)) <= len(some) / 2
    if shown < classes and in_runs and len(some) >= _FEWEST_IN_RUNS:
        warn_caller(
            f"The first {len(some)} images come from {shown} of {classes} classes, because the images are sorted by "
            "class: mix them, or evaluate more.",
            DataNotice,
        )
    return some


def split_name(text: str) -> tuple[str, str]:
    """``NAME=TARGET`` as its two parts; without a name the first is empty."""
    name, equals, target = text.partition("=")
    if not equals:
        return "", text
    if not name or not target:
        raise SettingsError(f"'{text}' is not NAME=TARGET; write for example mmc=runs/digits-mmc.")
    return name, target


def check_fit(target: EvaluatedModel, data: ImageData) -> None:
    """Try the model on some images of the data: it must accept their shape and know their classes."""
    images = data.first(SHOWN).to(target.device).float_images()
    before = images.clone()
    with _naming(target):
        check_model(target.model, images)
    while not (answers := _first_answers(target, images, data)):
        images = images[: len(images) // 2]
    (logits,) = answers
    with _naming(target):
        check_logits_of(logits, len(images))
        if logits.shape[1] == 1:
            raise ArgumentError(ONE_LOGIT.format(join="cat"))
        check_unchanged(images, before[: len(images)])
    if logits.shape[1] != data.num_classes:
        fewer = data.num_classes < logits.shape[1]  # a user's own images may lack the last classes
        raise ArgumentError(
            f"{target.target} returns {logits.shape[1]} logits per image and {data.name} has {data.num_classes} "
            f"class{'es' * (data.num_classes != 1)}; choose the data it was trained for"
            f"{', or name all its classes (class_names)' if fewer else ''}."
        )
    with _naming(target):
        check_answers(predicted_classes(logits))
        _check_alone(target.model, images, logits)


def _first_answers(target: EvaluatedModel, images: Float[Tensor, "n c h w"], data: ImageData) -> list[Any]:
    """What the model returns, as the only element; nothing if memory ran out and fewer images may fit."""
    try:
        with torch.no_grad(), full_float32(images.device):
            return [target.model(images)]
    except (Exception, SystemExit) as error:  # any model may raise anything on images it was not made for
        if is_out_of_memory(error):
            if len(images) > 1:
                return []
            raise ArgumentError(
                f"{target.target} runs out of memory on a single image of {data.name}; free memory of "
                f"{images.device}, or choose another device or a smaller model."
            ) from error
        if layout := _explain_layout(target.model, images, target.target, data.name):
            raise ArgumentError(layout) from error
        reason, known = " ".join(str(error).split())[:200], way_out(target.model, images)
        raise ArgumentError(
            f"{target.target} cannot take the images of {data.name}, of shape {tuple(data.image_shape)} in [0, 1] "
            f"({type(error).__name__}: {reason}){known or '; choose other data or wrap the model'}."
        ) from error


@contextmanager
def _naming(target: EvaluatedModel) -> Iterator[None]:
    """Errors begin with the name that the user gave to the model."""
    try:
        yield
    except ArgumentError as error:
        raise ArgumentError(f"{target.target}: {error}") from error


def _check_alone(model: Model, images: Float[Tensor, "n c h w"], logits: Float[Tensor, "n l"]) -> None:
    """Refuse a model whose answer for an image depends on the other images; a stochastic one shows nothing here."""
    alone = torch.cat([judge(model, image[None]).logits for image in images[:ALONE]])
    if share_that_differs(logits[:ALONE], alone) >= 0.5 and not is_stochastic(model, images):
        raise ArgumentError(
            "Its logits for an image depend on the other images of the batch, so no accuracy is defined; leave out "
            "what is computed over the batch, such as batch norm in train mode or a softmax over dim 0."
        )


def _explain_layout(model: Model, images: Float[Tensor, "n c h w"], target: str, data: str) -> str:
    """Why a model failed on images, if the reason is channels first or last; empty otherwise."""
    channels, height, width = images.shape[1:]
    seen = f"(n, {channels}, {height}, {width})"
    # Three at the end are colours; one may also be the width of a signal (n, c, length, 1).
    if channels not in CHANNELS and (width == 3 or (width == 1 and _takes(model, images.permute(0, 3, 1, 2)))):
        return (
            f"The images of {data} have the shape {seen}, with their channels last, and {target} is shown images with "
            "their channels first (n, c, h, w); pass images.permute(0, 3, 1, 2)."
        )
    layers = model.modules() if isinstance(model, nn.Module) else ()
    made_for = {layer.in_channels for layer in layers if isinstance(layer, nn.Conv2d)} or CHANNELS
    if channels in CHANNELS and channels in made_for and _takes(model, images.permute(0, 2, 3, 1)):
        return (
            f"{target} takes images with channels last, and those of {data} are shown to it with channels first, in "
            f"the shape {seen}; let it begin with images.permute(0, 2, 3, 1)."
        )
    return ""


def _takes(model: Model, images: Tensor) -> bool:
    try:
        with torch.no_grad():
            logits = model(images.contiguous())
    except (Exception, SystemExit):  # any model may raise anything
        return False
    return isinstance(logits, Tensor) and logits.ndim == 2 and len(logits) == len(images)


@contextmanager
def code_gate(
    targets: Sequence[Target] | Mapping[str, Target], data: DataSource | None, suite: Suite, trusted: Sequence[str]
) -> Iterator[None]:
    """Inside the block only code that the call names is imported, and none of it can end the process."""
    asked = list(targets.values() if isinstance(targets, Mapping) else targets)
    with exits_as_errors(), only_named(asked, data, suite.to_table(), trusted):
        yield


@contextmanager
def loaded(
    targets: Sequence[Target] | Mapping[str, Target],
    data: DataSource | None,
    suite: Suite,
    limit: int | None,
    *,
    trusted: Sequence[str],
    data_dir: str | Path | None,
    device: torch.device | str,
) -> Iterator[tuple[dict[str, EvaluatedModel], ImageData, Suite]]:
    """The models, their images and the suite for these, inside the gate."""
    with code_gate(targets, data, suite, trusted):
        models = load_targets(targets, trusted, device)
        count = suite.samples if limit is None else limit
        images = load_images(models, data, data_dir, count)
        some = _some(images, count)
        for model in models.values():
            check_fit(model, some)
        yield models, some, suite.for_data(str(data) if isinstance(data, str | Path) else images.name)


def _some(images: ImageData, limit: int | None) -> ImageData:
    if not len(images):
        raise DataError(f"{images.name} holds no images to attack; choose other data.")
    some = first_images(images, limit)
    ids, counts = torch.unique(some.sample_ids, return_counts=True)
    if len(ids) < len(some):
        raise DataError(
            f"{images.name}: {int(counts.max())} images have the sample id {int(ids[counts.argmax()])}; number the "
            "samples without repetition, because records tell them apart by their ids."
        )
    return some


def _own(model: Model, name: str, target: str) -> EvaluatedModel:
    if isinstance(model, Prepared):
        raise ArgumentError("Pass the model itself; evaluation prepares it on its own.")
    if not callable(model):
        raise ArgumentError(f"A target must be a path, module:factory, an nn.Module or a function; got {model!r}.")
    if isinstance(model, nn.Module) and model.training:
        raise ArgumentError(f"{target} is in train mode, where batch norm mixes samples; call model.eval() first.")
    try:
        return EvaluatedModel(name, target, model, fingerprint_model(model))
    except NotImplementedError as error:  # of torch, which finds no values to copy
        reason = "has weights without values (on the device meta)"
        raise ArgumentError(f"{target} {reason}; load its weights first.") from error


def _from_factory(text: str, name: str, trusted: Sequence[str], device: torch.device | str) -> EvaluatedModel:
    factory = import_function(text)
    if text.startswith("hub:"):  # its config may name code, as a checkpoint may
        factory = partial(factory, trusted=trusted)
    check_call(text, factory, "no arguments, to return a model")
    made = call_function(text, factory)
    if not callable(made):
        raise ArgumentError(
            f"{text} must return an nn.Module in eval mode or a function from images to logits; "
            f"it returned a {type(made).__name__}."
        )
    known = _own(made, name, text)
    if isinstance(made, nn.Module) and not (device == "auto" and known.device.type != "cpu"):
        made.to(pick_device(device))
    return known


def _from_checkpoint(path: Path, name: str, trusted: Sequence[str], device: torch.device | str) -> EvaluatedModel:
    file = path / "last.safetensors" if path.is_dir() else path
    if path.is_dir() and not file.exists():
        runs = sorted(str(each.parent) for each in path.glob("*/last.safetensors"))
        if runs:
            raise CheckpointError(f"{path} is a folder of runs; evaluate one or more of them: {' '.join(runs)}.")
    if not file.exists():
        raise CheckpointError(
            f"There is no run folder, checkpoint, function or model of the zoo '{path}'; give a folder that "
            "`maxmahal train` made, a .safetensors file, a name of `maxmahal zoo`, or package.module:factory."
        )
    model = load_model(file, trusted=trusted, device=device)
    folder = RunFolder(file.parent)
    training = folder.read_metrics()
    default = path.name if path.is_dir() else f"{path.parent.resolve().name}-{path.stem}"
    name = name or default or "model"
    return EvaluatedModel(name, str(path), model, fingerprint_model(model), load_card(file), training)


def notes_on(target: EvaluatedModel, suite: Suite, data: ImageData) -> list[str]:
    """What a user must know before trusting the numbers, as sentences: mistakes that no attack shows."""
    rows = torch.randperm(len(data), generator=generator("notes"))[:SHOWN]
    some = data.select(rows.sort().values).to(target.device)
    images = some.float_images()
    logits = judge(target.model, images).logits
    notes = [PROBABILITIES] if are_probabilities(logits) else []
    right = int((logits.argmax(dim=1) == some.labels).sum())
    if len(some) >= _FEWEST:
        notes += _note_on_accuracy(target, images, some.labels, right, logits.shape[1])
    shown = len(torch.unique(data.labels))
    if len(data) >= _FEWEST and shown < min(len(data), data.num_classes) / 4:
        notes.append(
            f"The {len(data)} images show {shown} of {data.num_classes} classes, perhaps because they are sorted by "
            "class: evaluate more, or a mixed list of them."
        )
    if suite.assumed:
        notes.append(
            f"No epsilon was given for {data.name}, so {suite.epsilon} was taken, which is usual for CIFAR; "
            "set an epsilon that fits your data (--epsilon)."
        )
    return notes


def _note_on_accuracy(target: EvaluatedModel, images: Tensor, labels: Tensor, right: int, classes: int) -> list[str]:
    count = len(images)
    if count - right < _BETTER * count:
        return []
    then = {}
    for how, (mean, deviation) in _RANGES.items():
        if len(mean) in (1, images.shape[1]):
            low, width = (images.new_tensor(each).view(-1, 1, 1) for each in (mean, deviation))
            with suppress(ArgumentError):  # a model may refuse images outside of [0, 1]
                then[how] = int((judge(target.model, (images - low) / width).predictions == labels).sum())
    best = max(then, key=then.__getitem__, default="")
    if best and then[best] - right >= _BETTER * count:
        said = f"The model is right on {right} of {count} images as they are, in [0, 1], and on {then[best]} of them"
        return [f"{said} normalised {best}: put that into the model."]
    chance = count / classes
    if right <= chance + 2 * math.sqrt(chance * (1 - 1 / classes)):
        return [
            f"The model is right on {right} of {count} clean images, about as often as by chance: check that it "
            "normalises images in [0, 1] itself, and the numbers of the classes."
        ]
    return []


def mean_correct(
    model: Model, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"], draws: int
) -> Float[Tensor, " n"]:
    """How often the model predicts each image's label, over so many draws."""
    right = torch.zeros(len(images), device=images.device)
    for _ in range(draws):
        right += (judge(model, images).predictions == labels).float()
    return right / draws


def is_stochastic(model: Model, images: Float[Tensor, "n c h w"]) -> bool:
    """Whether two passes of the same images differ by more than rounding can explain."""
    with own_stream(images.device, 0):
        first, second = judge(model, images).logits, judge(model, images).logits
    return share_that_differs(first, second) > STOCHASTIC_SHARE


def share_that_differs(first: Float[Tensor, "n l"], second: Float[Tensor, "n l"]) -> float:
    """The share of samples whose logits differ by more than rounding can explain."""
    spread = (first.amax(dim=1) - first.amin(dim=1)).clamp_min(torch.finfo(first.dtype).tiny)
    return float(((first - second).abs().amax(dim=1) > ROUNDING * spread).double().mean())
