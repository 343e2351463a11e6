"""A tree of classes from the errors of a trained run, on images outside the test set."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from maxmahal.centers import ClassTree, cluster_mistakes, cut_merges
from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import ArgumentError, CheckpointError
from maxmahal.evaluate.evaluated_model import EvaluatedModel, check_fit, load_target
from maxmahal.imports import only_named
from maxmahal.models import predict_labels
from maxmahal.train.splits import load_splits


def learn_tree(
    run: str | Path,
    *,
    superclasses: int,
    data: str | None = None,
    train: bool = False,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "auto",
) -> ClassTree:
    """Classes that a run mistakes for one another in ``superclasses`` groups, by average linkage.

    The mistakes are those on the run's held-out images, or on its training images if it has no others or with
    ``train``; with other ``data`` than its own, those on the training part of it. Code that the run names
    (``package.module:function``) is called only if it is in ``trusted``.
    """
    with only_named(str(run), data, trusted):
        model = load_target(run, trusted=trusted, device=device)
        images, where = _images(model, data, train, data_dir)
    check_fit(model, images)
    counts = confusion_matrix(model, images)
    tree = cut_merges(cluster_mistakes(counts), superclasses)
    wrong = int(counts.sum() - np.trace(counts))
    about = (
        f"{superclasses} groups of classes that {model.name} mistakes for one another: {wrong} mistakes on "
        f"{len(images)} {where} images of {images.name}, average linkage"
    )
    return ClassTree(tree, images.class_names, about)


def confusion_matrix(model: EvaluatedModel, images: ImageData) -> Int[np.ndarray, "l l"]:
    """How many images of class i (rows) the model takes for class j."""
    if not isinstance(model.model, torch.nn.Module):
        raise ArgumentError(f"{model.name} is a function; give a run folder or a checkpoint of `maxmahal train`.")
    predicted = predict_labels(model.model, images).cpu().numpy()
    counts = np.zeros((images.num_classes, images.num_classes), dtype=np.int64)
    np.add.at(counts, (images.labels.cpu().numpy(), predicted), 1)
    return counts


def _images(model: EvaluatedModel, data: str | None, train: bool, data_dir: str | Path | None) -> tuple[ImageData, str]:
    """Never the test part, on which the next model is judged."""
    own = None if model.card is None else model.card.settings.data
    if data is not None and (own is None or data != own.source):
        return load_dataset(data, "train", data_dir).to(model.device), "training"
    if own is None:
        raise CheckpointError(
            f"{model.target} does not say which data it was trained on; give --data, whose training images are taken."
        )
    parts = load_splits(own, data_dir, model.device)
    if train or not len(parts.validation):
        return parts.train, "training"
    return parts.validation, "held-out"
