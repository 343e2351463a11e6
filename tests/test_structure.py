"""The promises about the tree itself: imports point one way, no name shadows a module, every mutant still applies."""

import ast
import importlib
import re
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
    "evaluate",
    "density",
    "uncertainty",
    "integrations",
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


def test_no_module_imports_itself_through_others() -> None:
    """No cycles, of imports at the top of a file: those inside functions run later."""
    modules = {module_name(path): path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    graph = {name: {each for each in top_imports(path) if each in modules} for name, path in modules.items()}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, " -> ".join((*above, name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*above, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def top_imports(path: Path) -> set[str]:
    """The modules that a file imports when it is imported."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_the_library_does_not_use_the_laboratory() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not any(module.partition(".")[0] == "paper" for module in imports(path)), path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not re.match(r"(paper/)?results(/|$)", node.value), f"{path}:{node.lineno} reads results"


def test_functions_fit_on_a_screen() -> None:
    for path in [*SOURCE.rglob("*.py"), *(ROOT / "paper").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= 60, f"{path}:{node.lineno} {node.name} has {lines} lines"


def test_no_public_type_name_is_used_twice() -> None:
    places: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.name] if isinstance(node, ast.ClassDef) else type_aliases(node)
            for name in names:
                if not name.startswith("_") and len(name) > 1:
                    places.setdefault(name, []).append(path.relative_to(SOURCE))
    twice = {name: sorted(map(str, paths)) for name, paths in places.items() if len(paths) > 1}
    assert not twice, twice


def type_aliases(node: ast.stmt) -> list[str]:
    """The names of ``Name = Literal[...]`` and other aliases of types: assignments to names in CamelCase."""
    if not isinstance(node, ast.Assign) or isinstance(node.value, ast.Call):
        return []
    names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if re.fullmatch(r"[A-Z][a-z]\w*", name)]


# Idioms of an earlier version, each with what to write instead. The list is not complete.
PHRASES = {
    r"not to be told apart": "does not differ significantly from",
    r"whoever is left": "the samples that are still correct",
    r"leaves nobody right": "breaks every sample",
    r"draws? lots|drawing lots": "is stochastic",
    r"\b(row|line|value|cell|entry|number) an? (sample|model|epoch|chunk|class|stage|attack)\b": "per",
    r"gets caught less": "gets stuck less",
    r"measure of doubt|strange images": "uncertainty, out-of-distribution images",
    r"stands on \S+ points": "is … points more robust",
    r"standing so far": "robust so far",
    r"mended after": "attacks added after warnings",
    r"looked at once more": "re-checked after rounding to PNG",
    r"what came of it": "the summary",
    r"slip of the keyboard": "a typo",
    r"nobody wrote": "if not recorded",
    r"whole or absent": "atomic",
    r"stranger's TOML": "TOML files that you trust",
    r"stand for the paper's": "instead of the paper's",
    r"\bless (MMC|SCE|HM|AT|itself)\b": "−",
    r"makes the difference was not measured": "we did not measure which of these causes the difference",
    r"for whom not": "when … help",
}


def test_plain_english() -> None:
    wrong = []
    for path in texts():
        text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
        for phrase, better in PHRASES.items():
            if found := re.search(phrase, text, re.IGNORECASE):
                wrong.append(f"{path.relative_to(ROOT)}: '{found[0]}'; write '{better}'")
    assert not wrong, "\n".join(wrong)


def texts() -> list[Path]:
    """Sources, tests, templates and documents, but for this file."""
    folders = [SOURCE, *(ROOT / name for name in ("paper", "docs", "tests", "tools", "examples", "benchmarks", "zoo"))]
    endings = {".py", ".md", ".toml", ".j2", ".js", ".html"}
    found = [path for folder in folders for path in folder.rglob("*") if path.suffix in endings]
    return [path for path in [*found, *ROOT.glob("*.md")] if path.is_file() and path != Path(__file__).resolve()]


def test_no_module_defines_a_name_twice() -> None:
    """Joining two files must not let one constant replace another."""
    for path in SOURCE.rglob("*.py"):
        names: list[str] = []
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            elif isinstance(node, ast.Assign):
                names += [each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        assert len(names) == len(set(names)), path
