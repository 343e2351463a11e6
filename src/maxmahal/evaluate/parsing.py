"""Settings of suites from TOML: as everywhere, but a mistake is told with its file and its stage, and without --set."""

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.settings import Component, Table, convert, resolve_component


def parse_fields(cls: type[Any], table: Table, where: str, known: Sequence[str]) -> Table:
    """Every value as the dataclass has it; ``known`` is what a file may say there."""
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in table.items():
        if key not in known:
            raise SettingsError(f"{where}: '{key}' is not a setting of a suite; {did_you_mean(key, known)}")
        values[key] = parse(value, hints[key], f"{where}: {key}")
    return values


def parse_attack(
    table: Table, registry: Mapping[str, Callable[..., Any]], where: str, beside: Sequence[str]
) -> Component:
    """An attack with its options; ``beside`` is what else a stage may say, for those who misspell it."""
    options = dict(table)
    kind = options.pop("attack", None)
    if kind is None:
        raise SettingsError(f"{where}: it needs an attack; {did_you_mean('', registry)}")
    if not isinstance(kind, str) or kind not in registry:
        raise SettingsError(f"{where}: attack = {kind!r} is unknown; {did_you_mean(str(kind), registry)}")
    known = [key for key in inspect.signature(registry[kind]).parameters if key != "asked"]
    for key in options:
        if key not in known:
            nearest = did_you_mean(key, [*known, *beside])
            raise SettingsError(f"{where}: '{key}' is not an option of {kind}; {nearest}")
    try:
        return resolve_component({"name": kind, **options}, registry, {"asked"}, f"{where}: ")
    except SettingsError as error:
        raise _without_set(error) from error


def parse(value: object, annotation: Any, where: str) -> Any:
    """``value`` as ``annotation`` allows it."""
    try:
        return convert(value, annotation, where)
    except SettingsError as error:
        raise _without_set(error) from error


def _without_set(error: SettingsError) -> SettingsError:
    """The same without a way out that suites do not have: no command sets a key of theirs."""
    return SettingsError(str(error).removesuffix(" Change it in the TOML or --set."))
