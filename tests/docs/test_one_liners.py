"""The page of ten jobs in four libraries counts its lines correctly."""

import re

from blocks import ROOT, Block, blocks

PAGE = (ROOT / "docs" / "one-liners.md").read_text(encoding="utf-8")
LIBRARIES = ("maxmahal", "torchattacks", "foolbox", "ART")


def lines_of_code(block: Block) -> int:
    lines = [line for line in block.text.splitlines() if line.strip()]
    return sum(not line.startswith(("import ", "from ")) for line in lines)


def counted() -> list[str]:
    """The rows of the table, from the snippets."""
    rows = []
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title = section.partition("\n")[0]
        cells = []
        for library in LIBRARIES:
            said = re.search(rf"^\*\*{library}\*\*\n\n(```python\n.*?^```)$", section, flags=re.DOTALL | re.MULTILINE)
            assert said or f"\n{library}: not offered." in section, (title, library)
            cells.append(str(lines_of_code(blocks(said[1])[0])) if said else "–")
        rows.append(f"| {title[0].lower() if title == 'Setup' else title[0]}{title[1:]} | {' | '.join(cells)} |")
    return rows


def test_the_table_counts_the_lines_of_the_snippets() -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| ")][1:]
    assert table == counted()
    assert len(table) == 11  # ten jobs and the setup
    assert all(row.split("|")[2].strip() in ("0", "1") for row in table), "ours are one-liners"
