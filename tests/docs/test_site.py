"""The documentation site: gathered from the repository, and built strictly by both builders."""

import os
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from blocks import ROOT

ORDER = [
    *("Quickstart", "Evaluate your model", "Reading the report", "Threats and suites", "Signs of false robustness"),
    *("Attacks", "Adversarial training", "Losses and centers", "Training and settings", "Data", "Extending", "Zoo"),
    *("Reproducing the paper", "Results", "Performance", "Beyond one machine", "Command line", "API", "FAQ"),
]
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("docs_site")


def files(nav: object) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert hasattr(parts, "__iter__")
    return [file for part in parts for file in files(part)]


def test_the_pages_are_in_the_promised_order() -> None:
    sections = [section for part in SETTINGS["nav"] for section in part.values()]
    assert [title for section in sections for page in section for title in page] == ORDER


def test_every_page_is_in_the_navigation(tool: ModuleType, tmp_path: Path) -> None:
    pages = {path.relative_to(tmp_path).as_posix() for path in tool.gather(tmp_path)}
    linked_only = SETTINGS["not_in_nav"].split()
    shown = {page for page in pages if not any(fnmatch(f"/{page}", each) for each in linked_only)}
    assert shown == {*files(SETTINGS["nav"])}
    for name in ("train", "evaluate", "records", "data fetch"):
        assert f"`maxmahal {name}`" in (tmp_path / "command-line.md").read_text(encoding="utf-8")


def test_links_are_adjusted_to_the_site(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("docs/sub/a.md", "docs/b.md", "zoo/README.md", "src/code.py", "paper/results/runs/x.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    page = tmp_path / "docs" / "sub" / "a.md"
    page.write_text(
        "[b](../b.md#x) ![z](../../zoo/README.md) [w](https://a.b/c.md) [r](../../paper/results/runs) [n](n.md)"
    )
    text, linked = tool.adjusted(page)
    assert text == "[b](../b.md#x) ![z](../zoo/index.md) [w](https://a.b/c.md) r [n](n.md)"
    assert linked == [tmp_path / "docs/b.md", tmp_path / "zoo/README.md"]
    page.write_text("[code](../../src/code.py)")
    assert tool.adjusted(page) == ("[code](../../src/code.py)", []), "the builders report it as broken"


def test_public_names_have_docstrings_and_a_page(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tool.undocumented() == []
    package = tmp_path / "src" / "maxmahal"
    (package / "part").mkdir(parents=True)
    (package / "__init__.py").write_text('"""A package."""\n__all__ = []\n')
    (package / "part" / "__init__.py").write_text('"""A part."""\n\n__all__ = ["f"]\n\n\ndef f():\n    pass\n')
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    tool.package.cache_clear()
    monkeypatch.setattr(tool, "package", tool.package.__wrapped__)
    assert tool.undocumented() == ["maxmahal.part is on no page of docs/api", "maxmahal.part.f has no docstring"]


def test_both_builders_accept_the_site(tool: ModuleType) -> None:
    tool.gather()
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    for words in (["mkdocs", "build", "--strict", "--site-dir", "build/mkdocs"], ["zensical", "build", "--strict"]):
        run = [sys.executable, "-m", *words]
        done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for site in ("mkdocs", "site"):
        for part in tool.packages():
            html = (ROOT / "build" / site / "api" / f"{part.name}.html").read_text(encoding="utf-8")
            assert {*import_module(part.path).__all__} == {*tool.exported(part)}
            for path, _ in tool.exported(part).values():
                assert f'id="{path}"' in html, f"{path} is not on the page of {part.path}"
