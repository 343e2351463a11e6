"""The commands and snippets of a page of the documentation, in reading order."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"(?:^|\n\n)(?P<text>(?: {4}\S[^\n]*\n)+)")
OUTPUT = {"text", "bibtex", "json", "console"}
"""Languages of blocks that show something and are not run."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file that it is (``title="mine.toml"``) or "", and its text."""

    language: str
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page; an indented one holds commands if it begins with one, and a picture in text if not."""
    found: list[tuple[int, Block]] = []
    for fence in FENCE.finditer(page):
        language, _, rest = fence["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        lines = [line.removeprefix(fence["indent"]) for line in fence["text"].splitlines()]
        found.append((fence.start(), Block(language, title[1] if title else "", "\n".join(lines) + "\n")))
    for plain in INDENTED.finditer(FENCE.sub(lambda fence: "\n" * len(fence[0]), page)):
        lines = [line.removeprefix("    ") for line in plain["text"].splitlines()]
        language = "sh" if re.match(r"(maxmahal|make|pip|python) ", lines[0]) else "text"
        found.append((plain.start(), Block(language, "", "\n".join(lines) + "\n")))
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def commands(block: Block) -> list[str]:
    """The lines of a block of commands, without comments and with continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [command for line in lines if (command := re.sub(r"(^|\s)#.*", "", line).strip())]


def pages() -> list[Path]:
    """What is written by hand or by template, and shown on the site or beside it."""
    folders = [
        ROOT / "docs",
        ROOT / "docs" / "api",
        ROOT / "docs" / "tutorials",
        ROOT / "paper" / "results",
        ROOT / "zoo",
    ]
    found = [path for folder in folders for path in sorted(folder.glob("*.md"))]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "paper" / "README.md", *found]
