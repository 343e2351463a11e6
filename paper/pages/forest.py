"""A forest plot: differences with intervals on one axis, one row each; narrow enough for a phone."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.report.chart import LINE, MARGIN, Axis, Drawing, Line, Mark, Part, Text, wrapped

_WIDTH = 400.0
_LEFT, _RIGHT = 66.0, 236.0  # where the axis begins and ends
_DIFFERENCE, _VALUES = 286.0, _WIDTH - MARGIN  # where the columns of numbers end
_ZERO = 1e-9  # a tick that is the zero line
_DOT, _DIAMOND = 0, 2


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
    inner = _WIDTH - 2 * MARGIN
    head = wrapped(title, MARGIN, LINE, inner, bold=True)
    top = LINE * (1.6 + len(head))
    parts: list[Part] = [
        Text(x, top - 2, text, anchor="end") for text, x in zip(columns, (_DIFFERENCE, _VALUES), strict=True)
    ]
    spans: list[tuple[float, float]] = []
    y = top + 0.4 * LINE
    for group in groups:
        parts.append(Text(MARGIN, y + 14, group.heading, "ink"))
        y += 1.3 * LINE
        spans.append((y, y + LINE * len(group.rows)))
        for row in group.rows:
            parts += _drawn(row, axis, y + LINE / 2)
            y += LINE
        y += 0.4 * LINE
    below = wrapped(note, MARGIN, y + 2.9 * LINE, inner)
    drawn = [*head, *_frame(axis, spans, y), *parts, *below]
    return Drawing(title, _WIDTH, y + (2.6 + len(below)) * LINE, drawn).file()


def _axis(what: str, rows: Sequence[Row]) -> Axis:
    ends = [0.0, *(row.value for row in rows), *(end for row in rows for end in row.interval or ())]
    axis = Axis.around(what, ends)
    return Axis(what, axis.low, axis.high, text=_tick)


def _tick(value: float) -> str:
    return "0" if abs(value) <= _ZERO else f"{value:+.3g}".replace("-", "−")


def signed(value: float) -> str:
    """Two digits after the point, and a sign except for zero."""
    text = f"{abs(value):.2f}"
    return text if text == "0.00" else f"{'−' if value < 0 else '+'}{text}"


def _at(axis: Axis, value: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * axis.place(value)


def _frame(axis: Axis, spans: Sequence[tuple[float, float]], floor: float) -> list[Part]:
    """The axis, and its lines behind the rows but not behind the headings."""
    parts: list[Part] = [Line([(_LEFT, floor), (_RIGHT, floor)], "soft", 1.0)]
    for tick in axis.ticks():
        x, zero = _at(axis, tick), abs(tick) <= _ZERO
        for top, bottom in (*spans, (floor, floor + 4)):
            parts.append(Line([(x, top), (x, bottom)], "ink" if zero else "line", 1.0, dash=zero))
        parts.append(Text(x, floor + 16, axis.text(tick), anchor="middle"))
    return [*parts, Text((_LEFT + _RIGHT) / 2, floor + 34, axis.label, "ink", anchor="middle")]


def _drawn(row: Row, axis: Axis, y: float) -> list[Part]:
    ink = "s1" if row.is_mean else "s0"
    parts: list[Part] = [Text(MARGIN, y + 4, row.label)]
    if row.interval is not None:
        parts.append(Line([(_at(axis, end), y) for end in row.interval], ink))
    parts.append(Mark(_at(axis, row.value), y, ink, _DIAMOND if row.is_mean else _DOT))
    parts.append(Text(_DIFFERENCE, y + 4, signed(row.value), "ink", anchor="end"))
    return [*parts, Text(_VALUES, y + 4, row.values, anchor="end")]
