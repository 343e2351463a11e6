"""The report's colours, read from its style sheet: one place says what class 3 looks like, by day and by night."""

import re
from functools import cache

from maxmahal.report.render import asset

CLASSES = 10
_PLAIN = ("ink", "soft", "line", "card", "accent", "bad", "good")
INKS = (*_PLAIN, *(f"c{label}" for label in range(CLASSES)), *(f"s{slot}" for slot in range(8)))
_DARK = ':root[data-theme="dark"] {'
_LIGHT = ":root {"


@cache
def palette(dark: bool = False) -> dict[str, str]:
    """The hexadecimal colour of each ink."""
    sheet = asset("style.css")
    start = sheet.index(_DARK if dark else _LIGHT)
    block = sheet[start : sheet.index("}", start)]
    found = dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", block))
    return {ink: found[ink] for ink in INKS}


def ink_rules() -> str:
    """CSS for a page that defines the colours as variables: ``f-INK`` fills with an ink, ``k-INK`` strokes with it."""
    return "\n".join(f".f-{ink} {{ fill: var(--{ink}); }} .k-{ink} {{ stroke: var(--{ink}); }}" for ink in INKS)


def fixed_rules() -> str:
    """CSS for an SVG file that stands alone: the colours themselves, darker or lighter as the viewer's theme is."""

    def rules(dark: bool) -> str:
        colours = palette(dark).items()
        return "".join(f".f-{ink}{{fill:{colour}}}.k-{ink}{{stroke:{colour}}}" for ink, colour in colours)

    text = "text{font-family:system-ui,'Segoe UI','DejaVu Sans',sans-serif}"
    return f"{text}{rules(False)}@media (prefers-color-scheme:dark){{{rules(True)}}}"
