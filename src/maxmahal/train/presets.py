"""Named settings: TOML files shipped with the package, or the user's own."""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.settings import Table, fold_overrides, from_table, merge, read_toml
from maxmahal.train.config import Settings
from maxmahal.train.folder import RunFolder
from maxmahal.train.state import load_progress


def preset_names() -> list[str]:
    """Every preset shipped with the package."""
    return sorted(_shipped())


def load_settings(preset: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings of a preset (a name, or the path of a TOML file), ``section.key=value`` overrides laid over it."""
    return from_table(Settings, merge(_table(str(preset)), fold_overrides(overrides)))


def resumed_settings(preset: str | Path, overrides: Sequence[str], folder: RunFolder) -> Settings:
    """What to go on with in a run folder: its own settings where it was begun with this preset, overrides over them.

    A shipped preset is known by what it says about itself. A file of the user's own may have been changed since, so
    it counts as it is now.
    """
    settings = load_settings(preset, overrides)
    if str(preset) not in _shipped() or not folder.state.exists():
        return settings
    begun = json.loads(load_progress(folder.state).settings)
    if (begun.get("about"), begun.get("table")) != (settings.about, settings.table):
        return settings
    return from_table(Settings, merge(begun, fold_overrides(overrides)))


def preset_path(preset: str) -> Path:
    """The file of a preset, shipped or the user's own."""
    shipped = _shipped()
    if preset in shipped:
        return shipped[preset]
    if preset.endswith(".toml"):
        return Path(preset).expanduser()
    raise SettingsError(
        f"There is no preset '{preset}'; {did_you_mean(preset, shipped)} "
        "`maxmahal presets` tells them apart, and the path of a .toml file works too."
    )


def _table(preset: str, seen: tuple[str, ...] = ()) -> Table:
    if preset in seen:
        raise SettingsError(f"Presets extend each other in a circle: {' -> '.join([*seen, preset])}.")
    shipped, path = _shipped(), preset_path(preset)
    table = read_toml(path)
    parent = table.pop("extends", None)
    if parent is None:
        return table
    if not isinstance(parent, str):
        raise SettingsError(f"{path}: extends must name a preset; got {parent}.")
    if parent not in shipped and not Path(parent).is_absolute():
        parent = str(path.parent / parent)  # a file extends its neighbour, wherever the command is run from
    # What a parent says about itself (its title, its row in the paper) is not true of the child.
    inherited = {key: value for key, value in _table(parent, (*seen, preset)).items() if isinstance(value, dict)}
    return merge(inherited, table)


def _shipped() -> dict[str, Path]:
    folder = Path(str(resources.files("maxmahal") / "presets"))
    return {path.stem: path for path in folder.glob("*.toml")}
