"""Named settings: TOML files that are shipped with the package, or the user's own."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.imports import named_functions, only_named
from maxmahal.settings import Table, fold_overrides, from_table, merge, read_toml, to_table
from maxmahal.shipped import find_file, seen_from, shipped_files
from maxmahal.train.checkpoint import load_progress
from maxmahal.train.config import Settings, drop_retired
from maxmahal.train.folder import RunFolder


def preset_names() -> list[str]:
    """The presets that are shipped with the package."""
    return list(shipped_files("preset"))


def load_settings(preset: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """The settings of a preset (a name, or the path of a TOML file), changed by ``section.key=value`` overrides.

    Code that the TOML file names may run: use only TOML files that you trust.
    """
    table = merge(_table(find_file("preset", preset)), fold_overrides(overrides))
    with only_named(table):
        return from_table(Settings, table)


def resumed_settings(preset: str | Path, overrides: Sequence[str], folder: RunFolder) -> Settings:
    """The settings to resume a run folder with: its own settings if it was started with this preset, plus overrides.

    A shipped preset is recognised by its description; of the user's own file the current content is used. With more
    epochs the run is extended at its last learning rate. Code that the folder names must be named in this call, too.
    """
    settings = load_settings(preset, overrides)
    if not folder.state.exists():
        return settings
    begun = load_progress(folder.state).table
    if any(each.startswith("train.epochs=") for each in overrides):
        # A run that gets more epochs keeps its schedule: the same as if it had begun so.
        train, epochs = begun["train"], settings.train.epochs
        scheduled = train.get("schedule_epochs")
        if epochs > train["epochs"] or (epochs == train["epochs"] and scheduled is not None):
            overrides = [*overrides, f"train.schedule_epochs={scheduled or train['epochs']}"]
            settings = load_settings(preset, overrides)
    if str(preset) not in shipped_files("preset"):
        return settings
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
    table, folder = read_toml(path), RunFolder(path.parent)
    if path == folder.settings and folder.metrics.exists():
        table = drop_retired(table)
    parent = table.pop("extends", None)
    if parent is None:
        return table
    if not isinstance(parent, str):
        raise SettingsError(f"{path}: extends must name a preset; got {parent}.")
    extended = _table(find_file("preset", seen_from(path, "preset", parent)), (*seen, path))
    # The parent's description and its row in the paper do not hold for the child.
    inherited = {key: value for key, value in extended.items() if isinstance(value, dict)}
    return merge(inherited, table)
