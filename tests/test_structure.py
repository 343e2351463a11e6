"""The promises about the tree itself: imports point one way, no name shadows a module, every mutant still applies."""

import ast
import importlib
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import maxmahal
import maxmahal.losses
from maxmahal.models import Head

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "maxmahal"
ORDER = [
    "data",
    "models",
    "centers",
    "losses",
    "attacks",
    "train",
    "zoo",
    "records",
    "report",
    "density",
    "evaluate",
    "uncertainty",
    "reproduce",
    "demo",
    "cli",
]
BASE = {"errors", "files", "imports", "random", "settings", "shipped", "version"}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    place = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in imports(path):
        top, _, rest = module.partition(".")
        if top in ("typer", "rich"):
            assert place == "cli", f"{path} imports {module}"
        if top != "maxmahal" or place in ("__init__", "__main__"):
            continue
        target = rest.partition(".")[0]
        if place in BASE:
            assert target in BASE, f"{path} imports {module}"
        elif place == "records":
            assert target in BASE | {"records"}, f"{path} imports {module}: records are read without torch"
        elif target not in BASE and target:
            assert ORDER.index(target) <= ORDER.index(place), f"{path} imports {module}"


def test_only_losses_ask_for_the_class_of_a_head() -> None:
    """A head states facts about itself, so that a new loss is one file and one line."""
    heads = {each.__name__ for each in subclasses(Head)}
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "paper").rglob("*.py")]:
        if "losses" in path.relative_to(ROOT).parts or "tests" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                assert not asked & heads, f"{path}:{node.lineno}"


def subclasses(cls: type) -> set[type]:
    """Every class below one."""
    return {each for child in cls.__subclasses__() for each in (child, *subclasses(child))}


def test_public_names_do_not_hide_packages() -> None:
    for folder in ORDER:
        assert isinstance(importlib.import_module(f"maxmahal.{folder}"), types.ModuleType)
        assert isinstance(getattr(maxmahal, folder), types.ModuleType), folder
    assert all(hasattr(maxmahal, name) for name in maxmahal.__all__)


def test_every_mutants_line_is_still_in_the_source(load_tool: Callable[[str], types.ModuleType]) -> None:
    mutants = load_tool("mutants").load_mutants()
    assert len(mutants) >= 8
    assert len({mutant.name for mutant in mutants}) == len(mutants)


def test_functions_fit_on_a_screen() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or 0) - node.body[0].lineno
                assert lines < 70, f"{path}:{node.lineno} {node.name} has {lines} lines"
