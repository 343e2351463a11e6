"""A tree of the classes from the mistakes of a trained run, on images that are not the test set."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int

from maxmahal.centers import ClassTree, cluster_mistakes, cut_merges
from maxmahal.data import ImageData, load_dataset
from maxmahal.errors import ArgumentError, CheckpointError
from maxmahal.evaluate.subject import Subject, check_fit, load_subject
from maxmahal.imports import only_named
from maxmahal.models import predict_labels
from maxmahal.train.splits import load_splits

Part = Literal["validation", "train"]


def learn_tree(
    run: str | Path,
    *,
    superclasses: int,
    data: str | None = None,
    part: Part | None = None,
    trusted: Sequence[str] = (),
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
) -> ClassTree:
    """Classes that a run mistakes for one another in ``superclasses`` groups, by average linkage.

    The mistakes are those on the run's held-out images where it has any, else on the images it was trained on; with
    other ``data`` than its own, those on the training part of it. Code that the run names (``package.module:function``)
    is called only if it is in ``trusted``.
    """
    with only_named(str(run), data, trusted):
        subject = load_subject(run, trusted=trusted, device=device)
        images, where = _images(subject, data, part, data_dir, device)
    check_fit(subject, images)
    counts = confusion_matrix(subject, images)
    tree = cut_merges(cluster_mistakes(counts), superclasses)
    wrong = int(counts.sum() - np.trace(counts))
    about = (
        f"{superclasses} groups of classes that {subject.name} mistakes for one another: {wrong} mistakes on "
        f"{len(images)} {where} images of {images.name}, average linkage"
    )
    return ClassTree(tree, images.class_names, about)


def confusion_matrix(subject: Subject, images: ImageData) -> Int[np.ndarray, "l l"]:
    """How many images of class i (rows) the model takes for class j."""
    if not isinstance(subject.model, torch.nn.Module):
        raise ArgumentError(f"{subject.name} is a function; give a run folder or a checkpoint of `maxmahal train`.")
    predicted = predict_labels(subject.model, images).cpu().numpy()
    counts = np.zeros((images.num_classes, images.num_classes), dtype=np.int64)
    np.add.at(counts, (images.labels.cpu().numpy(), predicted), 1)
    return counts


def _images(
    subject: Subject, data: str | None, part: Part | None, data_dir: str | Path | None, device: torch.device | str
) -> tuple[ImageData, str]:
    """Never the test part: the centers of the next model would be chosen on what it is judged by."""
    own = None if subject.card is None else subject.card.settings.data
    if data is not None and (own is None or data != own.source):
        return load_dataset(data, "train", data_dir).to(device), "training"
    if own is None:
        raise CheckpointError(
            f"{subject.target} does not say which data it was trained on; give --data, whose training images are taken."
        )
    parts = load_splits(own, data_dir, device)
    if part == "validation" and not len(parts.validation):
        raise ArgumentError(
            f"{subject.name} held out no images (data.validation = 0); take its training images, or train it again."
        )
    if part == "train" or not len(parts.validation):
        return parts.train, "training"
    return parts.validation, "held-out"
