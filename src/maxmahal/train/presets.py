"""Named settings: TOML files shipped with the package, or the user's own."""

import json
from collections.abc import Sequence
from pathlib import Path

from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.imports import named_functions, only_named
from maxmahal.settings import Table, fold_overrides, from_table, merge, read_toml, to_table
from maxmahal.shipped import find_file, seen_from, shipped_files
from maxmahal.train.config import Settings
from maxmahal.train.folder import RunFolder
from maxmahal.train.state import load_progress


def preset_names() -> list[str]:
    """Every preset shipped with the package."""
    return list(shipped_files("preset"))


def load_settings(preset: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings of a preset (a name, or the path of a TOML file), ``section.key=value`` overrides laid over it.

    The TOML file counts as the user's own words: code that it names may run. Use only TOML files that you trust.
    """
    table = merge(_table(find_file("preset", preset)), fold_overrides(overrides))
    with only_named(table):
        return from_table(Settings, table)


def resumed_settings(preset: str | Path, overrides: Sequence[str], folder: RunFolder) -> Settings:
    """What to go on with in a run folder: its own settings where it was begun with this preset, overrides over them.

    A shipped preset is known by what it says about itself. A file of the user's own may have been changed since, so
    it counts as it is now. Code that the run folder names must be named in this call, too.
    """
    settings = load_settings(preset, overrides)
    if str(preset) not in shipped_files("preset") or not folder.state.exists():
        return settings
    begun = json.loads(load_progress(folder.state).settings)
    if (begun.get("about"), begun.get("table")) != (settings.about, settings.table):
        return settings
    table, asked = merge(begun, fold_overrides(overrides)), to_table(settings)
    if unnamed := sorted(named_functions(table) - named_functions(asked)):
        raise CheckpointError(
            f"The run in {folder.path} uses '{unnamed[0]}', and a file may not choose what code to run; if you trust "
            f"that code, give the setting that names it again, such as --set data.source={unnamed[0]}."
        )
    with only_named(asked):
        return from_table(Settings, table)


def _table(path: Path, seen: tuple[Path, ...] = ()) -> Table:
    if path in seen:
        circle = " -> ".join(each.stem for each in (*seen, path))
        raise SettingsError(f"Presets extend each other in a circle: {circle}.")
    table = read_toml(path)
    parent = table.pop("extends", None)
    if parent is None:
        return table
    if not isinstance(parent, str):
        raise SettingsError(f"{path}: extends must name a preset; got {parent}.")
    extended = _table(find_file("preset", seen_from(path, "preset", parent)), (*seen, path))
    # What a parent says about itself (its title, its row in the paper) is not true of the child.
    inherited = {key: value for key, value in extended.items() if isinstance(value, dict)}
    return merge(inherited, table)
