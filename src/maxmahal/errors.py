"""What the library raises when the caller, not the library, must change something.

Every message is one sentence that names what is wrong, where, and the way out. The command line prints exactly that
sentence and exits with code 2; anything else that escapes is a bug and keeps its traceback.
"""

import difflib
from collections.abc import Iterable


class MaxmahalError(Exception):
    """Base of every error a user can mend."""


class ArgumentError(MaxmahalError, ValueError):
    """An argument breaks a rule of the function it was passed to."""


class NotFiniteError(ArgumentError):
    """Values that should be numbers are NaN or infinity."""


class SettingsError(MaxmahalError, ValueError):
    """A preset, a TOML file or a ``--set`` override is not valid."""


class DataError(MaxmahalError, ValueError):
    """A data set is missing, damaged or not what its name says."""


class DataNotice(UserWarning):
    """The data are used otherwise than they were given; a warning, because nothing is wrong with them."""


class CheckpointError(MaxmahalError, ValueError):
    """A run folder or a checkpoint cannot be read, or does not fit."""


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """The end of a sentence that names the nearest valid word, or all of them when none is near."""
    choices = {choice.lower(): choice for choice in sorted(valid)}
    near = difflib.get_close_matches(wrong.lower(), choices, n=1, cutoff=0.5)
    return f"did you mean '{choices[near[0]]}'?" if near else f"choose one of: {', '.join(choices.values())}."
