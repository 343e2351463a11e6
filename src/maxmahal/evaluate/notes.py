"""What a user must know before trusting the numbers: sentences that the verdict ends with.

They are about mistakes that no attack shows: probabilities in place of logits, images that the model does not expect,
images of a few classes only, an epsilon that was not set.
"""

import math
from contextlib import suppress

import torch
from torch import Tensor

from maxmahal.attacks.checks import PROBABILITIES, are_probabilities
from maxmahal.attacks.oracle import judge
from maxmahal.data import ImageData
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.evaluated_model import SHOWN, EvaluatedModel
from maxmahal.evaluate.suite import Suite
from maxmahal.random import generator

_FEWEST = 32  # images that tell a wrong normalisation from bad luck
_BETTER = 0.25  # of the images: so many more must be right
_RANGES = {
    "with ImageNet's mean and deviation": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "with CIFAR-10's mean and deviation": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "with MNIST's mean and deviation": ((0.1307,), (0.3081,)),
    "to [-1, 1]": ((0.5,), (0.5,)),
    "to [0, 255]": ((0.0,), (1 / 255,)),
}


def notes_on(target: EvaluatedModel, suite: Suite, data: ImageData) -> list[str]:
    """One sentence for each mistake, none for most models."""
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
        return [
            f"The model is right on {right} of {count} images as they are, in [0, 1], and on {then[best]} of them "
            f"normalised {best}: put that into the model."
        ]
    chance = count / classes
    if right <= chance + 2 * math.sqrt(chance * (1 - 1 / classes)):
        return [
            f"The model is right on {right} of {count} clean images, about as often as by chance: check that it "
            "normalises images in [0, 1] itself, and the numbers of the classes."
        ]
    return []
