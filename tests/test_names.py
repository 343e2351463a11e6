"""The names of the package itself: all there, each imported when it is first asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import maxmahal


def fresh(script: str) -> str:
    """What a script prints in a Python that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.strip()


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
    assert fresh(script) == "maxmahal.zoo"


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


def test_dir_lists_what_is_not_imported_yet() -> None:
    listed = fresh("import maxmahal; print(*dir(maxmahal))").split()
    assert {*maxmahal.__all__, "attacks", "density", "train"} <= {*listed}


def test_a_wrong_name_is_told() -> None:
    with pytest.raises(AttributeError, match="module 'maxmahal' has no attribute 'lode'"):
        getattr(maxmahal, "lo" + "de")
