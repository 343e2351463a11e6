"""Settings of suites from TOML: as everywhere, but a mistake is told with its file and its stage, and without --set."""

import inspect
import typing
from collections.abc import Sequence
from typing import Any

from maxmahal.attacks.registry import ATTACKS, find_attack
from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.settings import Component, Table, convert


def parse_fields(cls: type[Any], table: Table, where: str, known: Sequence[str]) -> Table:
    """Every value as the dataclass has it; ``known`` is what a file may say there."""
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in table.items():
        if key not in known:
            raise SettingsError(f"{where}: '{key}' is not a setting of a suite; {did_you_mean(key, known)}")
        values[key] = parse(value, hints[key], f"{where}: {key}")
    return values


def parse_attack(table: Table, where: str, beside: Sequence[str]) -> Component:
    """An attack with its options; ``beside`` are the other keys of a stage, to correct typos in them."""
    given = dict(table)
    name = given.pop("attack", None)
    if name is None:
        raise SettingsError(f"{where}: it needs an attack; {did_you_mean('', ATTACKS)}")
    try:
        options = find_attack(str(name)).options
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error
    values = {key: option.default for key, option in options.items()}
    for key, value in given.items():
        if key not in options:
            raise SettingsError(
                f"{where}: '{key}' is not an option of {name}; {did_you_mean(key, [*options, *beside])}"
            )
        values[key] = parse(value, options[key].type, f"{where}: {key}")
    missing = [key for key, value in values.items() if value is inspect.Parameter.empty]
    if missing:
        raise SettingsError(f"{where}: {name} needs the option '{missing[0]}'; add it to the stage.")
    return Component(str(name), tuple(values.items()))


def parse(value: object, annotation: Any, where: str) -> Any:
    """``value`` as ``annotation`` allows it."""
    try:
        return convert(value, annotation, where)
    except SettingsError as error:
        # Without a way out that suites do not have: no command sets a key of theirs.
        raise SettingsError(str(error).removesuffix(" Change it in the TOML or --set.")) from error


def option_defaults(name: str) -> Table:
    """What a stage's table says about an attack's options if the file says nothing; empty for an unknown attack.

    Records of earlier versions do not have the options that were added since.
    """
    if name not in ATTACKS:
        return {}
    return {key: option.default for key, option in ATTACKS[name].options.items() if option.default is not None}
