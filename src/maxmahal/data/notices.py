"""What a user should know about their data, though nothing is wrong with it."""

import sys
import warnings

from maxmahal.errors import DataNotice


def notice(sentence: str) -> None:
    """A warning that points at the caller's line, however deep inside the package it is raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("maxmahal."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, DataNotice, stacklevel=level)
