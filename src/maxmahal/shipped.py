"""The TOML files of the package by name, and the user's own by path."""

from importlib import resources
from pathlib import Path
from typing import Literal

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.files import user_path

FileKind = Literal["preset", "suite", "grid"]


def shipped_files(kind: FileKind) -> dict[str, Path]:
    """All shipped files of a kind, by name."""
    folder = Path(str(resources.files("maxmahal") / f"{kind}s"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_file(kind: FileKind, name: str | Path) -> Path:
    """The shipped file of that name; a name that ends in .toml is the path of the user's own file."""
    shipped = shipped_files(kind)
    if str(name).endswith(".toml"):
        return user_path(name)
    if name in shipped:
        return shipped[str(name)]
    raise SettingsError(
        f"There is no {kind} '{name}'; {did_you_mean(str(name), shipped)} The path of a .toml file works too."
    )


def seen_from(path: Path, kind: FileKind, name: str) -> str:
    """What a name in a file means: paths are relative to it; names are first those of ``../presets``, ``../suites``."""
    if name.endswith(".toml"):
        return str(path.parent / user_path(name))
    neighbour = user_path(path.parent.parent / f"{kind}s" / f"{name}.toml")
    return str(neighbour) if neighbour.is_file() and neighbour != shipped_files(kind).get(name) else name
