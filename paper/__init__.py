"""The reproduction of the paper and our studies: pages, claims, figures and grids made with the library."""

from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent


def own(kind: Literal["preset", "suite", "grid"], name: str) -> str:
    """The file of a preset, suite or grid of this folder; one of the package is its name."""
    path = ROOT / "paper" / f"{kind}s" / f"{name}.toml"
    return str(path) if path.is_file() else name


def reproduce(grid: str) -> str:
    """The command that runs a grid, typed in the root of the repository."""
    path = Path("paper", "grids", f"{grid}.toml")
    return f"`maxmahal reproduce {path if (ROOT / path).is_file() else grid}`"
