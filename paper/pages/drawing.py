"""Charts as files of their own: the page's drawings with a legend and a style sheet inside, for light and dark."""

import textwrap
from collections.abc import Sequence

from markupsafe import Markup

from maxmahal.report.svg import Chart, element

LINE, MARGIN, _LETTER = 20.0, 14.0, 7.2  # a line of the legend; around everything; a letter's width, generously
_LETTER_OF_A_NOTE = 6.3  # text of many letters comes closer to the mean
_Palette = dict[str, str | tuple[str, ...]]
_LIGHT: _Palette = {
    "page": "#ffffff",
    "line": "#dfdcd5",
    "ink": "#1b1d20",
    "soft": "#565b62",
    "low": "#f3f5f8",
    "high": "#86b6e0",
    "series": ("#17659f", "#bb4d0b", "#14795f", "#99437f", "#7d6200", "#2d7f9e", "#5a56c4", "#5f646b"),
}
_DARK: _Palette = {
    "page": "#121417",
    "line": "#343a41",
    "ink": "#e9ebee",
    "soft": "#a7aeb7",
    "low": "#1c2229",
    "high": "#2a608f",
    "series": ("#63b1f0", "#ff9a5a", "#4ccba8", "#e394cb", "#dfc057", "#8bd0ea", "#a9a7ff", "#b3b9c1"),
}
COLOURS = 8


def with_legend(chart: Chart, legend: Sequence[tuple[int, str]], note: str = "", more: Sequence[Chart] = ()) -> str:
    """A chart with its title above, its legend below and perhaps a note under that, as an SVG file.

    More charts of the same width and the same legend stand below the first, each under a title of its own.
    """
    rows, places, left = 0, [], MARGIN
    for slot, label in legend:
        width = 36 + _LETTER * len(label)
        if left > MARGIN and left + width > chart.width:
            rows, left = rows + 1, MARGIN
        places.append((left, rows, slot, label))
        left += width
    below, parts = 0.0, []
    for each in (chart, *more):
        parts += [_title(each.title, below), _placed(each, below + 1.5 * LINE)]
        below += 2 * LINE + each.height
    for x, line, slot, label in places:
        y = below + line * LINE + 8
        parts.append(element("rect", class_=f"bar s{slot}", x=x, y=y - 9, width=10.0, height=10.0, rx=2))
        parts.append(element("text", label, class_="name", x=x + 15, y=y))
    below += (rows + 1) * LINE
    lines = wrapped(note, MARGIN, below + 8, chart.width)
    return as_file(chart.title, [*parts, *lines], chart.width, below + LINE * len(lines) + (4 if lines else 0))


def wrapped(text: str, x: float, y: float, width: float, class_: str = "note") -> list[Markup]:
    """Lines of text, a line's height apart, that stay within a width and its margin."""
    letter = _LETTER if class_ == "head" else _LETTER_OF_A_NOTE
    lines = textwrap.wrap(text, int((width - x - MARGIN) / letter))
    return [element("text", line, class_=class_, x=x, y=y + LINE * place) for place, line in enumerate(lines)]


def as_file(title: str, parts: Sequence[Markup], width: float, height: float) -> str:
    """A whole SVG document."""
    inside = [element("title", title), element("style", Markup(_style()))]
    inside.append(element("rect", class_="page", width=width, height=height))
    whole = element(
        "svg",
        Markup("\n").join([*inside, *parts]),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
    )
    return f"{whole}\n"


def heat_map(title: str, rows: Sequence[str], columns: Sequence[str], shares: Sequence[Sequence[float | None]]) -> str:
    """A matrix of shares in percent; a cell that was not measured stays empty."""
    side, high = max([96.0, *(16 + _LETTER * len(name) for name in columns)]), 34.0
    left = 24 + _LETTER * max((len(name) for name in rows), default=0)
    top = 3 * LINE
    parts = [_title(title)]
    for place, name in enumerate(columns):
        x = left + side * (place + 0.5)
        parts.append(element("text", name, class_="name", x=x, y=top - 8, text_anchor="middle"))
    for line, (name, values) in enumerate(zip(rows, shares, strict=True)):
        y = top + high * line
        parts.append(element("text", name, class_="name", x=left - 8, y=y + high / 2 + 4, text_anchor="end"))
        for place, share in enumerate(values):
            x, text = left + side * place, "not run" if share is None else f"{100 * share:.1f}"
            box = {"x": x + 1, "y": y + 1, "width": side - 2, "height": high - 2}
            parts.append(element("rect", class_="low", **box))
            if share is not None:
                parts.append(element("rect", class_="high", opacity=float(share), **box))
            parts.append(element("text", text, class_="name", x=x + side / 2, y=y + high / 2 + 4, text_anchor="middle"))
    width = max(left + side * len(columns), MARGIN + _LETTER * len(title)) + MARGIN
    return as_file(title, parts, width, top + high * len(rows) + MARGIN)


def _title(text: str, above: float = 0.0) -> Markup:
    return element("text", text, class_="head", x=MARGIN, y=above + LINE)


def _placed(chart: Chart, y: float) -> Markup:
    inner = str(chart.render())
    return Markup(inner.replace("<svg ", f'<svg x="0" y="{y:g}" width="{chart.width:g}" height="{chart.height:g}" ', 1))


def _style() -> str:
    light, dark = (_colours(palette) for palette in (_LIGHT, _DARK))
    slots = "".join(f".s{slot}{{--series:var(--s{slot})}}" for slot in range(COLOURS))
    return (
        f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}{slots}"
        "text{fill:var(--soft);font:12px system-ui,sans-serif}.name,.head{fill:var(--ink)}.head{font-weight:600}"
        ".page{fill:var(--page)}.low{fill:var(--low)}.high{fill:var(--high)}.axis{stroke:var(--soft);fill:none}"
        ".grid{stroke:var(--line);fill:none}.rule{stroke:var(--ink);stroke-dasharray:3 3;fill:none}"
        ".line{stroke:var(--series);stroke-width:2;fill:none;stroke-linejoin:round}"
        ".mark{fill:var(--series);stroke:var(--page)}.bar{fill:var(--series)}"
    )


def _colours(palette: _Palette) -> str:
    named = [f"--{name}:{value}" for name, value in palette.items() if name != "series"]
    return ";".join([*named, *(f"--s{slot}:{value}" for slot, value in enumerate(palette["series"]))])
