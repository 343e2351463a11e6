"""Frozen settings from TOML: every key and type is checked, and every error is one sentence.

A section is a frozen dataclass, or a ``Component``: a registered name with options from the signature of the registered
function or class.
"""

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.files import parse_toml, read_text
from maxmahal.imports import call_function, import_function, may_import, names_a_function

T = TypeVar("T")
Table = dict[str, Any]
_MOST_PARTS = 10  # of a key; no setting has more than three
LARGEST = 3e38
"""Numbers end here: tensors of float32 hold no larger one."""


@dataclass(frozen=True)
class Component:
    """A choice from a registry with all its options, defaults included."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def build(self, registry: Mapping[str, Callable[..., T]], *args: object, **context: object) -> T:
        """Call the registered function with the options, and with the values of the context that it accepts."""
        target = find_entry(self.name, registry)
        wanted = inspect.signature(target).parameters
        settings = {key: value for key, value in context.items() if key in wanted} | dict(self.options)
        if self.name in registry:
            return target(*args, **settings)
        return call_function(self.name, partial(target, **settings), *args)


def component(
    registry: Mapping[str, Callable[..., Any]],
    default: str,
    context: Iterable[str] = (),
    outside: Callable[[str, Any], None] | None = None,
) -> Any:
    """A dataclass field that holds a ``Component``; ``context`` names arguments that settings do not give.

    ``outside`` checks the object that ``package.module:name`` names; without it only registered names are accepted.
    """
    given = frozenset(context)
    return dataclasses.field(
        default_factory=lambda: resolve_component({"name": default}, registry, given, ""),
        metadata={"registry": registry, "context": given, "default": default, "outside": outside},
    )


def find_entry(name: str, registry: Mapping[str, Callable[..., T]]) -> Callable[..., T]:
    """The object of a name: an entry of the registry, or the user's own ``package.module:name``."""
    return registry[name] if name in registry else import_function(name)


def from_table(cls: type[T], table: Table, where: str = "") -> T:
    """Build the dataclass ``cls`` from a TOML table, refusing unknown keys and wrong types."""
    table = _as_table(table, where.removesuffix("."))
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values: Table = {}
    for key, value in table.items():
        path = f"{where}{key}"
        if key not in fields:
            raise SettingsError(f"'{path}' is not a setting; {_suggest(cls, key, where)}")
        about = fields[key].metadata
        if "registry" in about:
            options = {"name": about["default"]} | _as_table(value, path)
            given = (about["registry"], about["context"], f"{path}.", about["outside"])
            values[key] = resolve_component(options, *given)
        elif dataclasses.is_dataclass(hints[key]):
            values[key] = from_table(typing.cast(type[Any], hints[key]), _as_table(value, path), f"{path}.")
        else:
            values[key] = convert(value, hints[key], path)
    return cls(**values)


def to_table(settings: Any) -> Table:
    """The inverse of ``from_table``, with all defaults."""
    if isinstance(settings, Component):
        return {"name": settings.name, **{key: _plain(value) for key, value in settings.options}}
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def convert(value: object, annotation: Any, path: str) -> Any:
    """``value`` checked against ``annotation``; integers are accepted as floats, and nothing else is converted."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        # On a command line `label_source=true` is a boolean of TOML; if "true" is a valid choice, the text is meant.
        if isinstance(value, bool) and str(value).lower() in arguments:
            return str(value).lower()
        if value not in arguments:
            raise SettingsError(f"{path} = {_show(value)} is not a choice; {did_you_mean(str(value), arguments)}")
        return value
    if origin in (Union, types.UnionType):
        for choice in arguments:
            try:
                return convert(value, choice, path)
            except SettingsError:
                continue
    elif origin is tuple:
        if isinstance(value, list | tuple):
            return tuple(convert(item, arguments[0], f"{path}[{index}]") for index, item in enumerate(value))
    elif annotation is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) < LARGEST:  # not for NaN
            return float(value)
    elif (annotation is int and isinstance(value, int) and not isinstance(value, bool)) or (
        annotation in (str, bool) and isinstance(value, annotation)
    ):
        return value
    raise SettingsError(f"{path} must be {_describe(annotation)}; got {_show(value)}. Change it in the TOML or --set.")


def read_toml(path: Path) -> Table:
    """A TOML file as a table; errors are one sentence with the place."""
    try:
        return parse_toml(read_text(path))
    except ValueError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from error
    except OSError as error:
        raise SettingsError(f"Cannot read {path}: {error.strerror}.") from error


def parse_override(text: str) -> tuple[list[str], object]:
    """``train.epochs=5`` as a path and a value; a value that is not TOML is taken as text."""
    key, equals, raw = text.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path) or len(path) > _MOST_PARTS:
        raise SettingsError(f"--set {text} is not KEY=VALUE; write for example --set train.epochs=5.")
    try:
        return path, parse_toml(f"value = {raw}")["value"]
    except ValueError:
        return path, raw.strip()


def fold_overrides(overrides: Iterable[str]) -> Table:
    """All ``section.key=value`` overrides as one table, so that their order does not matter."""
    changes: Table = {}
    for override in overrides:
        path, value = parse_override(override)
        node = changes
        for depth, key in enumerate(path[:-1]):
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise SettingsError(f"--set {override}: {'.'.join(path[: depth + 1])} is a value, not a section.")
        node[path[-1]] = value
    return changes


def first_difference(old: Table, new: Table, where: str = "") -> str:
    """The first difference between two tables, as part of a sentence, or nothing."""
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            difference = first_difference(before, after, f"{where}{key}.")
            if difference:
                return difference
        elif before != after:
            return f"{where}{key} was {before!r} and is now {after!r}"
    return ""


def merge(base: Table, changes: Table) -> Table:
    """``base`` with ``changes`` applied; a section with another name starts without the old options."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            renamed = "name" in value and value["name"] != old.get("name")
            merged[key] = dict(value) if renamed else merge(old, value)
        else:
            merged[key] = value
    return merged


def to_toml(table: Table) -> str:
    """Two-level tables of plain values as TOML text."""
    top = [_toml_line(key, value) for key, value in table.items() if not isinstance(value, dict)]
    sections = [
        "\n".join([f"[{key}]", *(_toml_line(name, item) for name, item in value.items())])
        for key, value in table.items()
        if isinstance(value, dict)
    ]
    return "\n\n".join(["\n".join(top), *sections] if top else sections) + "\n"


def _suggest(cls: type[Any], key: str, where: str) -> str:
    """The most similar valid key with its section; also for a key without its section."""
    hints = typing.get_type_hints(cls)
    sections = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint) and hint is not Component}
    for name, section in sections.items():
        if any(field.name == key for field in dataclasses.fields(section)):
            return f"did you mean '{where}{name}.{key}'?"
    return did_you_mean(f"{where}{key}", [f"{where}{name}" for name in hints])


def resolve_component(
    table: Table,
    registry: Mapping[str, Callable[..., Any]],
    context: Collection[str],
    where: str,
    outside: Callable[[str, Any], None] | None = None,
) -> Component:
    """A name and its options; those that ``table`` does not give have their defaults.

    Code that a file names and the user did not name in this call is not imported: its options stay as recorded.
    """
    options = dict(table)
    name = options.pop("name", None)
    is_outside = outside is not None and isinstance(name, str) and name not in registry and names_a_function(name)
    if not isinstance(name, str) or not (name in registry or is_outside):
        raise SettingsError(f"{where}name = {_show(name)} is unknown; {did_you_mean(str(name), registry)}")
    if is_outside and not may_import(name):
        return Component(name, tuple(options.items()))
    target = find_entry(name, registry)
    if outside is not None and is_outside:
        outside(name, target)
    hints = typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)
    known = {key: item for key, item in inspect.signature(target).parameters.items() if key not in context}
    for key in options:
        if key not in known:
            nearest = did_you_mean(f"{where}{key}", [f"{where}{word}" for word in ("name", *known)])
            raise SettingsError(f"'{where}{key}' is not an option of {name}; {nearest}")
    resolved = {key: item.default for key, item in known.items()}
    resolved |= {key: convert(value, hints.get(key, str), f"{where}{key}") for key, value in options.items()}
    for key, value in resolved.items():
        if value is inspect.Parameter.empty:
            raise SettingsError(f"{name} needs the option {where}{key}; give it a value.")
    return Component(name, tuple(resolved.items()))


def _as_table(value: object, path: str) -> Table:
    if isinstance(value, dict):
        return value
    raise SettingsError(f"{path} is a section; write [{path}] and put its settings below, or --set {path}.KEY=VALUE.")


def _describe(annotation: Any) -> str:
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return " or ".join(_describe(choice) for choice in arguments if choice is not type(None))
    if typing.get_origin(annotation) is tuple:
        return f"a list of {_describe(arguments[0]).removeprefix('a ').removeprefix('an ')}s"
    names = {int: "an integer", float: "a finite number", str: "a text", bool: "true or false"}
    return names.get(annotation, str(annotation))


def _show(value: object) -> str:
    return f"'{value:.100}'" if isinstance(value, str) else f"{value!s:.100}"


def _plain(value: object) -> object:
    if isinstance(value, Component) or dataclasses.is_dataclass(value):
        return to_table(value)
    return list(value) if isinstance(value, tuple) else value


def _toml_line(key: str, value: object) -> str:
    return f"{key if re.fullmatch(r'[A-Za-z0-9_-]+', key) else _toml_value(key)} = {_toml_value(value)}"


def _toml_value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the only one that TOML adds
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
