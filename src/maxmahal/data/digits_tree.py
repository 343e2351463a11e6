"""The embedded digits with superclasses, as ``data.source = "maxmahal.data.digits_tree:by_shape"``, or by value."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from maxmahal.data.digits import DIGITS
from maxmahal.data.source import Split
from maxmahal.data.types import ImageData

BY_SHAPE = {"closed loop": (0, 6, 8, 9), "straight strokes": (1, 4, 7), "open curve": (2, 3, 5)}
"""How a digit is written: digits of similar shape are the ones that networks confuse."""
BY_VALUE = {"low": (0, 1, 2, 3), "middle": (4, 5, 6), "high": (7, 8, 9)}
"""A control with groups of the same sizes whose digits are not similar."""


def _with_tree(split: Split, groups: dict[str, tuple[int, ...]]) -> ImageData:
    data = DIGITS.load(Path(), split)
    parents = {digit: place for place, group in enumerate(groups.values()) for digit in group}
    superclasses = tuple(parents[digit] for digit in range(data.num_classes))
    coarse = torch.tensor(superclasses)[data.labels]
    return replace(data, coarse_labels=coarse, coarse_names=tuple(groups), superclasses=superclasses)


by_shape, by_value = partial(_with_tree, groups=BY_SHAPE), partial(_with_tree, groups=BY_VALUE)
