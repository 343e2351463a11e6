"""A forest plot: differences on one axis, a row each, with intervals; narrow, so that a telephone shows it unscaled."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from maxmahal.report.scales import Axis
from maxmahal.report.svg import element
from paper.pages.drawing import LINE, MARGIN, as_file, wrapped

_WIDTH = 400.0
_LEFT, _RIGHT = 66.0, 236.0  # where the axis begins and ends
_DIFFERENCE, _VALUES = 286.0, _WIDTH - MARGIN  # where the columns of numbers end
_ZERO = 1e-9  # a tick that is the zero line
_DOT = "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z"
_DIAMOND = "M0-5.5L5.5 0L0 5.5L-5.5 0z"


@dataclass(frozen=True)
class Row:
    """One difference, in points."""

    label: str
    value: float
    values: str
    """What it is the difference of."""
    interval: tuple[float, float] | None = None
    is_mean: bool = False


@dataclass(frozen=True)
class Group:
    """Rows under a heading of their own."""

    heading: str
    rows: tuple[Row, ...]


def forest(title: str, what: str, columns: tuple[str, str], groups: Sequence[Group], note: str) -> str:
    """The groups one below the other, zero marked, as an SVG file; ``columns`` head the numbers on the right."""
    axis = _axis(what, [row for group in groups for row in group.rows])
    head = wrapped(title, MARGIN, LINE, _WIDTH, "head")
    top = LINE * (1.6 + len(head))
    parts: list[Markup] = []
    spans: list[tuple[float, float]] = []
    for text, x in zip(columns, (_DIFFERENCE, _VALUES), strict=True):
        parts.append(element("text", text, class_="note", x=x, y=top - 2, text_anchor="end"))
    y = top + 0.4 * LINE
    for group in groups:
        parts.append(element("text", group.heading, class_="name", x=MARGIN, y=y + 14))
        y += 1.3 * LINE
        spans.append((y, y + LINE * len(group.rows)))
        for row in group.rows:
            parts += _drawn(row, axis, y)
            y += LINE
        y += 0.4 * LINE
    below = wrapped(note, MARGIN, y + 2.9 * LINE, _WIDTH)
    height = y + (2.6 + len(below)) * LINE
    return as_file(title, [*head, *_frame(axis, spans, y), *parts, *below], _WIDTH, height)


def _axis(what: str, rows: Sequence[Row]) -> Axis:
    ends = [0.0, *(row.value for row in rows), *(end for row in rows for end in row.interval or ())]
    room = 0.06 * (max(ends) - min(ends)) or 1.0
    return Axis(what, min(ends) - room, max(ends) + room, text=_tick)


def _tick(value: float) -> str:
    return "0" if abs(value) <= _ZERO else f"{value:+.3g}".replace("-", "−")


def signed(value: float) -> str:
    """Two digits behind the point, and a sign but for zero."""
    text = f"{abs(value):.2f}"
    return text if text == "0.00" else f"{'−' if value < 0 else '+'}{text}"


def _at(axis: Axis, value: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * axis.place(value)


def _frame(axis: Axis, spans: Sequence[tuple[float, float]], floor: float) -> list[Markup]:
    """The axis, and its lines behind the rows but not behind the headings."""
    parts = [element("path", class_="axis", d=f"M{_LEFT:g} {floor:g}H{_RIGHT:g}")]
    for tick in axis.ticks():
        x = _at(axis, tick)
        line = "rule" if abs(tick) <= _ZERO else "grid"
        through = "".join(f"M{x:.2f} {top:g}V{bottom:g}" for top, bottom in spans)
        parts.append(element("path", class_=line, d=f"{through}M{x:.2f} {floor:g}v4"))
        parts.append(element("text", axis.text(tick), class_="tick", x=x, y=floor + 16, text_anchor="middle"))
    middle = (_LEFT + _RIGHT) / 2
    return [*parts, element("text", axis.label, class_="name", x=middle, y=floor + 34, text_anchor="middle")]


def _drawn(row: Row, axis: Axis, y: float) -> list[Markup]:
    middle, slot = y + LINE / 2, 1 if row.is_mean else 0
    parts = [element("text", row.label, class_="note", x=MARGIN, y=middle + 4)]
    if row.interval is not None:
        low, high = (_at(axis, end) for end in row.interval)
        parts.append(element("path", class_=f"line s{slot}", d=f"M{low:.2f} {middle:g}H{high:.2f}"))
    move = f"translate({_at(axis, row.value):.2f} {middle:g})"
    parts.append(element("path", class_=f"mark s{slot}", d=_DIAMOND if row.is_mean else _DOT, transform=move))
    for text, x, look in ((signed(row.value), _DIFFERENCE, "name"), (row.values, _VALUES, "note")):
        parts.append(element("text", text, class_=look, x=x, y=middle + 4, text_anchor="end"))
    return parts
