"""Code of the user's own, named as ``package.module:function``, and the gate that it has to pass.

The gate: code is imported by its name only if the user gave that very name in this call, as an option, as an argument,
or in a TOML file that the call names; a name out of a checkpoint, a run folder or records is refused. Every function
that takes names from its caller opens a block of ``only_named`` with them; a block inside another block adds nothing,
so what a file says cannot widen what the user said. Models of other libraries pass the same gate.
"""

import importlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from maxmahal.errors import ArgumentError, CheckpointError, MaxmahalError, did_you_mean

LIBRARIES = ("hub", "robustbench", "timm", "torchvision")
"""The integrations that have models by name: ``find_model`` of ``maxmahal.integrations.NAME`` returns their factory."""
_PATTERN = re.compile(rf"[A-Za-z_][\w.]*:[A-Za-z_]\w*|(?:{'|'.join(LIBRARIES)}):\w[\w./-]*")
_NAMED: ContextVar[frozenset[str] | None] = ContextVar("code that the user named in this call", default=None)


def names_a_function(text: str) -> bool:
    """Whether ``text`` has the form ``package.module:function``."""
    return _PATTERN.fullmatch(text) is not None


def named_functions(given: object) -> frozenset[str]:
    """Every ``package.module:function`` among texts, lists and tables; of ``KEY=VALUE`` the value counts."""
    if isinstance(given, str | Path):
        value = str(given).rpartition("=")[2]
        return frozenset([value]) if names_a_function(value) else frozenset()
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else ()
    return frozenset(name for part in parts for name in named_functions(part))


@contextmanager
def only_named(*given: object) -> Iterator[None]:
    """Inside the block, only code that ``given`` names can be imported; a block inside another one adds nothing."""
    outer = _NAMED.get()
    with _naming(named_functions(given) if outer is None else outer):
        yield


@contextmanager
def nothing_named() -> Iterator[None]:
    """Inside the block no code can be imported by name, whatever the user named."""
    with _naming(frozenset()):
        yield


def may_import(name: str) -> bool:
    """Whether the user named this code in this call."""
    return name in (_NAMED.get() or ())


def import_function(name: str) -> Callable[..., Any]:
    """The function that ``package.module:function`` names, the current folder being importable."""
    if not names_a_function(name):
        raise ArgumentError(f"'{name}' is not of the form package.module:function.")
    if not may_import(name):
        raise CheckpointError(
            f"A file names '{name}', and a file may not choose what code to run; if you trust that code, say "
            f"--trust {name} (in Python: trusted=['{name}'])."
        )
    module_name, function_name = name.split(":")
    if module_name in LIBRARIES:
        return integration(module_name).find_model(function_name)
    # An installed command, unlike `python -m`, does not look for modules in the current folder.
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        with _naming(None):
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # importing runs the user's code, which may raise anything
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            if module_name.endswith(".py"):
                asked = f"{module_name.removesuffix('.py')}:{function_name}"
                raise ArgumentError(f"{name}: a module is named without .py; write {asked}.") from error
            raise ArgumentError(
                f"{name}: there is no module '{missing}' here or among the installed packages; "
                f"run the command from the folder that holds it, or install it."
            ) from error
        raise ArgumentError(f"{name} cannot be imported: {_describe(error)}") from error
    finally:
        sys.path.remove(here)
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [word for word in vars(module) if not word.startswith("_") and callable(vars(module)[word])]
        ending = did_you_mean(function_name, callables) if callables else "define it there."
        raise ArgumentError(f"{name}: {module_name} has no function '{function_name}'; {ending}")
    return function


def integration(name: str) -> ModuleType:
    """A module of ``maxmahal.integrations``; by name, because they use everything and nothing else imports them."""
    return importlib.import_module(f"maxmahal.integrations.{name}")


def optional(module: str, install: str) -> ModuleType:
    """A library that is not a dependency; ``install`` is the command that installs it."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # torchvision raises a RuntimeError if it was built for another torch
        raise ArgumentError(f"{module} cannot be imported ({error}); install it: {install}.") from error


def check_call(name: str, function: Callable[..., Any], words: str, *arguments: object) -> None:
    """Refuse a function that cannot be called with these arguments; ``words`` describe them to the user."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some functions written in C have no signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        # As its author wrote it: ``net(image_shape)``.
        shown = f"{getattr(function, '__name__', 'it')}({', '.join(map(str, signature.parameters.values()))})"
        raise ArgumentError(
            f"{name} is called with {words}, and {shown} cannot take that ({error}); change its parameters."
        ) from error


def call_function(name: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Call the user's function; an error inside it is reported with its place in the code."""
    try:
        with _naming(None):
            return function(*arguments)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        if isinstance(error, MaxmahalError) and name.partition(":")[0] in LIBRARIES:
            raise  # of an integration, which says what to do
        raise ArgumentError(f"{name} failed: {_describe(error)}") from error


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """The user's code that ends the process, perhaps with exit code 0, would look like work that is done."""
    try:
        yield
    except SystemExit as stop:
        raise ArgumentError(
            f"The code of a model, its data or an attack tried to end the program (SystemExit: {stop.code}); "
            "let it return or raise an error."
        ) from stop


def _describe(error: BaseException) -> str:
    """The error's type, its text and its line of code, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{place}."


@contextmanager
def _naming(names: frozenset[str] | None) -> Iterator[None]:
    """None is for the user's own code, whose calls of this library are calls of the user."""
    token = _NAMED.set(names)
    try:
        yield
    finally:
        _NAMED.reset(token)
