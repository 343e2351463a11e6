"""The names of the package itself: all there, each imported when it is first asked for."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import maxmahal
from processes import run

NOT_LAZY = {"__main__", "cli", "version"}  # none of them is for a caller to reach through the package
# One part imports others, which are then attributes of the package whether or not it knows them. So each part, one line
# of chains, starts from a package that has imported nothing; only torch and its like stay, which take seconds.
FORGET = """
import sys
def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "maxmahal"]:
        del sys.modules[name]
forget()
"""
RESOLVE = """
import importlib, operator, sys
for line in sys.argv[1:]:
    forget()
    package = importlib.import_module("maxmahal")
    for chain in line.split():
        try:
            operator.attrgetter(chain)(package)
        except AttributeError as error:
            print(f"{chain}: {error}")
"""


def fresh(script: str, *arguments: str) -> str:
    """What a script prints in a Python that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def fresh_but_for_torch(script: str, *arguments: str) -> str:
    """What a script prints in a Python that has imported no part of the package yet."""
    done = run(FORGET + script, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def dotted(node: ast.AST) -> str:
    """``a.b.c`` as it is written, or nothing where the node is something else."""
    if isinstance(node, ast.Attribute):
        return (before := dotted(node.value)) and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def chains_of_the_command_line() -> dict[str, set[str]]:
    """By part of the package, every name in it that the command line reaches through ``maxmahal``."""
    chains: dict[str, set[str]] = {}
    for path in (Path(maxmahal.__file__).parent / "cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            root, _, chain = dotted(node).partition(".")
            if root == "maxmahal" and chain:
                chains.setdefault(chain.partition(".")[0], set()).add(chain)
    return chains


def test_importing_the_package_does_not_import_torch() -> None:
    assert fresh("import sys, maxmahal; maxmahal.__version__; dir(maxmahal); print('torch' in sys.modules)") == "False"


@pytest.mark.parametrize(
    "script",
    [
        "import maxmahal; print(maxmahal.load.__module__)",
        "from maxmahal import load; print(load.__module__)",
        "from maxmahal import *; print(load.__module__)",
        "import maxmahal; print(maxmahal.zoo.load.__module__)",
        "from maxmahal import zoo; print(zoo.load.__module__)",
    ],
)
def test_every_way_to_import_leads_to_the_same_name(script: str) -> None:
    assert fresh_but_for_torch(script) == "maxmahal.zoo"


def test_a_type_checker_reads_the_names_that_python_finds() -> None:
    tree = ast.parse(Path(maxmahal.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    read = {
        alias.name: node.module for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    names = {name: module for name, module in read.items() if module != "maxmahal"}
    assert names.keys() == {*maxmahal.__all__} - {"__version__"}
    for name, module in names.items():
        assert getattr(maxmahal, name) is getattr(sys.modules[str(module)], name)
    assert all(getattr(maxmahal, name).__name__ == f"maxmahal.{name}" for name in read.keys() - names.keys())


def test_every_part_of_the_package_can_be_reached() -> None:
    parts = {module.name for module in pkgutil.iter_modules(maxmahal.__path__)}
    assert sorted(maxmahal._MODULES) == sorted(parts - NOT_LAZY)


def test_what_the_command_line_names_is_there_when_nothing_is_imported_yet() -> None:
    chains = chains_of_the_command_line()
    assert "train.presets.resumed_settings" in chains["train"]
    assert fresh_but_for_torch(RESOLVE, *(" ".join(sorted(part)) for part in chains.values())) == ""


def test_dir_lists_what_is_not_imported_yet() -> None:
    listed = fresh("import maxmahal; print(*dir(maxmahal))").split()
    assert {*maxmahal.__all__, "attacks", "density", "train"} <= {*listed}


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'maxmahal' has no attribute 'lode'"):
        getattr(maxmahal, "lo" + "de")
