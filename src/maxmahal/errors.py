"""The errors that a user can fix: one sentence that says what is wrong, where, and what to do.

The command line prints that sentence and exits with code 2; any other exception is a bug and keeps its traceback.
"""

import difflib
import sys
import unicodedata
import warnings
from collections.abc import Iterable

_LONGEST = 300


class MaxmahalError(Exception):
    """Base class of all errors that a user can fix; what a message quotes from a file is made printable and short."""

    def __init__(self, message: str) -> None:
        text = printable(" ".join(str(message).split()))
        # The middle goes: the start says what is wrong, the end says what to do.
        super().__init__(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 121]} … {text[-118:]}")


def printable(text: str) -> str:
    """The text with escapes in place of what a terminal would obey: control characters, changes of direction."""
    if text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() or each == "\n" or unicodedata.category(each) == "Zs"
        else each.encode("unicode_escape").decode()
        for each in text
    )


class ArgumentError(MaxmahalError, ValueError):
    """An argument breaks a rule of the function it was passed to."""


class NotFiniteError(ArgumentError):
    """Values are NaN or infinite."""


class SettingsError(MaxmahalError, ValueError):
    """A preset, a TOML file or a ``--set`` override is not valid."""


class DataError(MaxmahalError, ValueError):
    """A data set is missing, damaged or not what its name says."""


class MaxmahalWarning(UserWarning):
    """A warning of this package: the command line prints its sentence alone."""


def warn_caller(sentence: str, category: type[MaxmahalWarning] = MaxmahalWarning) -> None:
    """A warning that points at the caller's line, however deep inside the package it is raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("maxmahal."):
        frame, level = frame.f_back, level + 1
    warnings.warn(sentence, category, stacklevel=level)


class DataNotice(MaxmahalWarning):
    """The data are valid, but were changed, for example rounded."""


class CheckpointError(MaxmahalError, ValueError):
    """A run folder or a checkpoint cannot be read or does not fit."""


def check_choice(name: str, value: str, choices: Iterable[str], error: type[MaxmahalError] = ArgumentError) -> None:
    """Refuse a word that is not one of the choices."""
    if value not in (known := tuple(choices)):
        raise error(f"{name} = '{value}' is unknown; {did_you_mean(str(value), known)}")


def check_count(name: str, value: object, least: int = 1) -> None:
    """Refuse anything but a whole number of at least ``least``; True and 3.0 are not whole numbers here."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(f"{name} must be a whole number of at least {least}; got {value!r}.")


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """The end of an error message: the most similar valid word, or all valid words if none is similar."""
    choices = {choice.lower(): choice for choice in sorted(valid)}
    near = difflib.get_close_matches(wrong[:100].lower(), choices, n=1, cutoff=0.5)
    return f"did you mean '{choices[near[0]]}'?" if near else f"choose one of: {', '.join(choices.values())}."
