"""Gather the documentation site in build/docs, for MkDocs or Zensical: ``python tools/docs_site.py``.

The site is docs/ and what its pages link to: results, cards of the zoo, the changelog. Neither builder takes pages from
outside of its folder, so they are copied here, with their links adjusted. A public name without a docstring or outside
of every API page is an error; broken links are found by the builders.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "docs"
PLACES = {
    "docs": "",
    "paper/results": "results",
    "paper/README.md": "laboratory.md",
    "zoo": "zoo",
    "benchmarks/results": "benchmarks",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "readme.md",
}
"""What may be on the site: where it lies here, and where on the site."""
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)([^)]*\))")
NAMES = re.compile(r"^::: (maxmahal[\w.]*)$", re.MULTILINE)
"""Replaced by the public names of a package."""
COMMANDS = "<!-- commands -->"
"""Replaced by the help of every command."""


def place(source: Path) -> str | None:
    """Where a file of the repository lies on the site; None if it does not belong there."""
    path = source.relative_to(ROOT).as_posix()
    for folder, there in PLACES.items():
        if path == folder:
            return there
        if path.startswith(f"{folder}/"):
            name = f"{there}/{path.removeprefix(f'{folder}/')}".lstrip("/")
            return f"{name.removesuffix('README.md')}index.md" if name.endswith("README.md") else name
    return None


def gather(out: Path = OUT) -> list[Path]:
    """Copy the style and every page of docs/ and, from there, whatever they link to; returns the pages."""
    waiting = [ROOT / "docs" / "site.css", *sorted((ROOT / "docs").rglob("*.md"))]
    done: dict[Path, Path] = {}
    for source in waiting:
        there = out / str(place(source))
        done[source] = there
        there.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            there.write_bytes(source.read_bytes())
            continue
        text, linked = adjusted(source)
        text = NAMES.sub(lambda found: api(found[1]), text)
        there.write_text(text.replace(COMMANDS, commands()) if COMMANDS in text else text, encoding="utf-8")
        waiting += [each for each in linked if each not in waiting]
    for stale in {path for path in out.rglob("*") if path.is_file()} - {*done.values()}:
        stale.unlink()
    return [there for source, there in done.items() if source.suffix == ".md"]


def adjusted(source: Path) -> tuple[str, list[Path]]:
    """A page with its links as they are on the site, and the files that it links to."""
    here = Path(str(place(source))).parent
    linked: list[Path] = []

    def replace(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / found[2]))
        if target.is_dir():  # of records, which are not on the site
            return found[1]
        if ":" in found[2] or not target.is_file() or (there := place(target)) is None:
            return found[0]
        linked.append(target)
        return f"[{found[1]}]({os.path.relpath(there, here)}{found[3]}"

    return LINK.sub(replace, source.read_text(encoding="utf-8")), linked


def commands() -> str:
    """The help of every command as Markdown, below the title of its page."""
    words = [sys.executable, "-m", "typer", "maxmahal.cli.app", "utils", "docs", "--name", "maxmahal"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    _, _, rest = told.partition("## `maxmahal ")
    return "## `maxmahal " + re.sub(r"^\* `--help`.*\n", "", rest, flags=re.MULTILINE)


@cache
def package() -> griffe.Module:
    """The library as its source says, without importing it."""
    loaded = griffe.load("maxmahal", search_paths=[ROOT / "src"], resolve_aliases=True)
    assert isinstance(loaded, griffe.Module)
    return loaded


def exported(module: griffe.Module) -> dict[str, tuple[str, griffe.Object]]:
    """Every public name of a package, with its path and what it is: functions first, then types, then constants."""
    names = sorted(str(name) for name in module.exports or () if name != "__version__")
    found = {name: resolved(module, name) for name in names}
    return dict(sorted(found.items(), key=lambda pair: (pair[1][1].is_attribute, pair[1][1].is_class)))


def resolved(module: griffe.Module, name: str) -> tuple[str, griffe.Object]:
    """A name as Python finds it: what a package imports hides its file of the same name."""
    path = f"{module.path}.{name}"
    thing = target(path)
    if isinstance(thing, griffe.Module):
        path = module.imports[name]
        thing = target(path)
        if isinstance(thing, griffe.Module) and isinstance(thing.parent, griffe.Module):
            return resolved(thing.parent, name)
    return path, thing


def target(path: str) -> griffe.Object:
    """What a path leads to in the end."""
    found = package()[path.removeprefix("maxmahal.")]
    return found.final_target if isinstance(found, griffe.Alias) else found


def packages() -> list[griffe.Module]:
    """The packages with public names."""
    parts = [each for each in package().modules.values() if isinstance(each, griffe.Module) and each.exports]
    return [each for each in parts if each.path != "maxmahal.cli"]


def api(module: str) -> str:
    """A table of the names of a package and where they are explained, then each name if that is on the same page."""
    homes = {id(thing): (part.name, path) for part in packages() for path, thing in exported(part).values()}
    part = next(each for each in (package(), *packages()) if each.path == module)
    rows = ["| name | what it is |", "|---|---|"]
    for name, (_, thing) in exported(part).items():
        page, path = homes.get(id(thing), ("", ""))
        words = thing.docstring.value.split("\n\n")[0].replace("\n", " ").replace("|", "\\|") if thing.docstring else ""
        rows.append(f"| [`{name}`]({page}.md#{path}) | {words} |" if page else f"| `{name}` | {words} |")
    names = [] if part is package() else [f"::: {path}" for path, _ in exported(part).values()]
    return "\n\n".join(["\n".join(rows), *names])


def undocumented() -> list[str]:
    """Public names without a docstring, or of a package that no API page shows."""
    shown = set()
    for path in (ROOT / "docs" / "api").glob("*.md"):
        shown |= set(NAMES.findall(path.read_text(encoding="utf-8")))
    found = []
    for module in (package(), *packages()):
        if module.exports and module.path not in shown:
            found.append(f"{module.path} is on no page of docs/api")
        found += [f"{path} has no docstring" for path, thing in exported(module).values() if thing.docstring is None]
    return found


def main() -> None:
    """Gather the pages and check the public names."""
    if wrong := undocumented():
        raise SystemExit("\n".join(wrong))
    print(f"{len(gather())} pages in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
