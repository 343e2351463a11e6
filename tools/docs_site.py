"""Gather the documentation site in build/docs, for MkDocs or Zensical: ``python tools/docs_site.py``.

The site is docs/ and what its pages link to: results, cards of the zoo, the changelog. Neither builder takes pages from
outside of its folder, so they are copied here, with their links adjusted. A public name without a docstring or outside
of every API page is an error; broken links are found by the builders.
"""

import os
import re
import subprocess
import sys
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
LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
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
    """Copy every page of docs/ and, from there, whatever they link to; returns the pages."""
    waiting = sorted((ROOT / "docs").rglob("*.md"))
    done: dict[Path, Path] = {}
    for source in waiting:
        there = out / str(place(source))
        done[source] = there
        there.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            there.write_bytes(source.read_bytes())
            continue
        text, linked = adjusted(source)
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
        if ":" in found[2] or not target.is_file() or (there := place(target)) is None:
            return found[0]
        linked.append(target)
        return f"{found[1]}{os.path.relpath(there, here)}{found[3]}"

    return LINK.sub(replace, source.read_text(encoding="utf-8")), linked


def commands() -> str:
    """The help of every command as Markdown, below the title of its page."""
    words = [sys.executable, "-m", "typer", "maxmahal.cli.app", "utils", "docs", "--name", "maxmahal"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    _, _, rest = told.partition("## `maxmahal ")
    return "## `maxmahal " + re.sub(r"^\* `--help`.*\n", "", rest, flags=re.MULTILINE)


def undocumented() -> list[str]:
    """Public names without a docstring, or of a package that no API page shows."""
    package = griffe.load("maxmahal", search_paths=[ROOT / "src"], resolve_aliases=True)
    shown = set()
    for path in (ROOT / "docs" / "api").glob("*.md"):
        shown |= set(re.findall(r"^::: ([\w.]+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE))
    found = []
    for module in (package, *package.modules.values()):
        names = [str(name) for name in module.exports or () if name != "__version__"]
        if names and module.path not in {*shown, "maxmahal.cli"}:
            found.append(f"{module.path} is on no page of docs/api")
        for name in names:
            member = module.members[name]
            target = member.final_target if isinstance(member, griffe.Alias) else member
            if target.docstring is None:
                found.append(f"{module.path}.{name} has no docstring")
    return found


def main() -> None:
    """Gather the pages and check the public names."""
    if wrong := undocumented():
        raise SystemExit("\n".join(wrong))
    print(f"{len(gather())} pages in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
