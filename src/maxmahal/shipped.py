"""The TOML files of the package by their names, and the user's own by their paths."""

from importlib import resources
from pathlib import Path
from typing import Literal

from maxmahal.errors import SettingsError, did_you_mean

Kind = Literal["preset", "suite", "grid"]


def shipped_files(kind: Kind) -> dict[str, Path]:
    """Every shipped file of a kind by its name."""
    folder = Path(str(resources.files("maxmahal") / f"{kind}s"))
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def find_file(kind: Kind, name: str | Path) -> Path:
    """The shipped file of that name; a name that ends in .toml is the path of a file of the user's own."""
    shipped = shipped_files(kind)
    if str(name).endswith(".toml"):
        return Path(name).expanduser()
    if name in shipped:
        return shipped[str(name)]
    raise SettingsError(
        f"There is no {kind} '{name}'; {did_you_mean(str(name), shipped)} The path of a .toml file works too."
    )


def seen_from(path: Path, kind: Kind, name: str) -> str:
    """What a file means by a name: paths are relative to its folder, and names are those of its neighbours first.

    The neighbours of ``mine/grids/a.toml`` are the files in ``mine/grids``, ``mine/presets`` and ``mine/suites``.
    """
    if name.endswith(".toml"):
        return str(path.parent / Path(name).expanduser())
    neighbour = path.parent.parent / f"{kind}s" / f"{name}.toml"
    return str(neighbour) if neighbour.is_file() and neighbour != shipped_files(kind).get(name) else name
