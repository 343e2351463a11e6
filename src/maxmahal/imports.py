"""Code of the user's own, named as ``package.module:function`` on the command line or in a settings file."""

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from maxmahal.errors import ArgumentError, did_you_mean

_PATTERN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def names_a_function(text: str) -> bool:
    """Whether ``text`` reads as ``package.module:function``."""
    return _PATTERN.fullmatch(text) is not None


def import_function(name: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names, the current folder being importable."""
    if not names_a_function(name):
        raise ArgumentError(f"'{name}' is not of the form package.module:function.")
    module_name, function_name = name.split(":")
    with _current_folder_importable():
        module = _import(name, module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [word for word in vars(module) if not word.startswith("_") and callable(vars(module)[word])]
        ending = did_you_mean(function_name, callables) if callables else "define it there."
        raise ArgumentError(f"{name}: {module_name} has no function '{function_name}'; {ending}")
    return function  # type: ignore[no-any-return]


def _import(name: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, but something it needs is not: its own traceback says it best
        raise ArgumentError(
            f"{name}: there is no module '{error.name}' here or among the installed packages; "
            f"run the command from the folder that holds it, or install it."
        ) from error


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    # An installed command, unlike `python -m`, does not look for modules in the current folder.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path.remove(here)
