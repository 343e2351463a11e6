"""Drawings as lists of plain parts in named colours, and the charts made of them; the only drawing code of the project.

A drawing is written as SVG here and painted by matplotlib in ``figures``. Its colours are variables of the report's
style sheet, so it follows the reader's light or dark theme; a file of its own brings these variables along.
"""

import base64
import io
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import numpy as np
from jaxtyping import Float
from markupsafe import Markup
from PIL import Image

from maxmahal.report.templates import asset, render
from maxmahal.report.wording import plain, short

Point = tuple[float, float]
SERIES, CLASSES = 8, 10  # colours for models and for classes that readers with any colour vision can distinguish
LINE, MARGIN = 20.0, 14.0  # the height of a line of text, and the space around everything
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 12.0, 46.0  # the space for a chart's axes
_BOLD_LETTER, _LETTER = 7.2, 6.8  # generous widths, as nothing here can measure text
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_SCALES: dict[str, Callable[[float], float]] = {"linear": float, "log": math.log10, "root": math.sqrt}
_SHAPES = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.4L4.4 0L0 4.4L-4.4 0z",
    "M0-4L4 3.2H-4z",
)


@dataclass(frozen=True)
class Dots:
    """Round dots of one colour."""

    points: Sequence[Point]
    ink: str
    radius: float = 2.0
    opacity: float = 1.0


@dataclass(frozen=True)
class Line:
    """A line through points."""

    points: Sequence[Point]
    ink: str
    width: float = 2.0
    dash: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Area:
    """A filled polygon; ``tip`` is shown when a reader points at it."""

    points: Sequence[Point]
    ink: str
    opacity: float = 1.0
    tip: str = ""


@dataclass(frozen=True)
class Mark:
    """One measured value; its shape distinguishes models where colour does not."""

    x: float
    y: float
    ink: str
    shape: int = 0
    tip: str = ""


@dataclass(frozen=True)
class Text:
    """Words that start, have their middle or end at ``x``, as the anchor says."""

    x: float
    y: float
    text: str
    ink: str = "soft"
    size: float = 12.5
    anchor: Literal["start", "middle", "end"] = "start"
    bold: bool = False
    halo: bool = False  # with an outline in the colour of the background, to be legible on top of other parts
    upright: bool = False  # turned to run from bottom to top


@dataclass(frozen=True, eq=False)
class Pixels:
    """An image in [0, 1] in a square, its top left corner at (x, y)."""

    x: float
    y: float
    side: float
    image: Float[np.ndarray, "c h w"]


DrawingPart = Dots | Line | Area | Mark | Text | Pixels


@dataclass(frozen=True)
class Key:
    """One entry of a legend."""

    ink: str
    text: str
    dash: bool = False


@dataclass
class Drawing:
    """Parts, painted in order."""

    title: str
    width: float
    height: float
    parts: list[DrawingPart] = field(default_factory=list)

    def svg(self, class_: str = "chart") -> Markup:
        """For a page that has the style sheet; arrow keys step through the parts that have a tip."""
        tips = any(getattr(part, "tip", "") for part in self.parts)
        return self._render(style="", class_=f"{class_} marks" if tips else class_, tips=tips)

    def file(self) -> str:
        """A file of its own, with colours for light and dark viewers and a background."""
        used = {"card", *(part.ink for part in self.parts if not isinstance(part, Pixels))}
        light, dark = (
            ";".join(f"--{name}:{colour}" for name, colour in palette(dark).items() if name in used)
            for dark in (False, True)
        )
        style = f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}text{{font-family:sans-serif}}"
        return str(self._render(style=style))

    def _render(self, **values: object) -> Markup:
        tools = {"path": _path, "dots_path": _dots_path, "data_uri": data_uri, "shapes": _SHAPES}
        return render("drawing.svg.j2", drawing=self, **tools, **values)


@dataclass(frozen=True)
class Axis:
    """One direction of a chart: what it measures, from where to where."""

    label: str
    low: float
    high: float
    scale: Literal["linear", "log", "root"] = "linear"
    """"root" spreads out small values, as a logarithm does, and has a place for zero."""
    text: Callable[[float], str] = short
    at: tuple[float, ...] = ()  # ticks at these values instead of round ones

    @classmethod
    def around(cls, label: str, values: Sequence[float], scale: Literal["linear", "log"] = "linear") -> "Axis":
        """From the smallest to the largest finite value, with some space at both ends."""
        finite = [value for value in values if math.isfinite(value) and (value > 0 or scale == "linear")] or [1.0]
        low, high = min(finite), max(finite)
        if scale == "log":
            return cls(label, low / 1.15, high * 1.15, "log")
        room = 0.06 * (high - low) or 1.0
        return cls(label, low - room, high + room)

    def place(self, value: float) -> float:
        """Where a value is, 0 at the low end and 1 at the high end."""
        low, high, here = (_SCALES[self.scale](each) for each in (self.low, self.high, max(value, self.low)))
        return (here - low) / (high - low) if high > low else 0.5

    def ticks(self) -> list[float]:
        """Values to write beside the axis."""
        if self.at:
            return list(self.at)
        return log_ticks(self.low, self.high) if self.scale == "log" else linear_ticks(self.low, self.high)


class Chart(Drawing):
    """Axes and what is drawn between them; values are in the axes' units."""

    def __init__(self, title: str, x: Axis, y: Axis, *, width: float = 460.0, height: float = 300.0) -> None:
        super().__init__(title, width, height)
        self.x, self.y = x, y
        self._floor = height - _BOTTOM
        self._draw_axes()

    def line(self, xs: Sequence[float], ys: Sequence[float], slot: int, *, steps: bool = False) -> None:
        """A line in the colour of a series; ``steps`` for shares that only change at the points themselves."""
        if steps:
            xs, ys = [x for x in xs for _ in (0, 1)][1:], [y for y in ys for _ in (0, 1)][:-1]
        self.parts.append(Line([self.place(x, y) for x, y in zip(xs, ys, strict=True)], f"s{slot}"))

    def points(self, xs: Sequence[float], ys: Sequence[float], slot: int, tips: Sequence[str] = ()) -> None:
        """Marks, each with what it says when pointed at."""
        for x, y, tip in zip(xs, ys, tips or [""] * len(xs), strict=True):
            self.parts.append(Mark(*self.place(x, y), f"s{slot}", slot % len(_SHAPES), tip))

    def bar(self, x0: float, x1: float, height: float, slot: int, tip: str) -> None:
        """A bar from the x axis up."""
        (left, top), (right, _) = self.place(x0, height), self.place(x1, height)
        left, right = left + 0.5, max(right - 0.5, left + 1)
        self.parts.append(Area(_box(left, top, right, max(self._floor, top)), f"s{slot}", tip=tip))

    def upright(self, x: float, text: str) -> None:
        """A dashed line at one value of x, with a word beside it."""
        here, _ = self.place(x, self.y.low)
        first = here < self.width * 0.7
        anchor: Literal["start", "end"] = "start" if first else "end"
        self.parts += [
            Line([(here, _TOP), (here, self._floor)], "ink", 1.0, dash=True),
            Text(here + (5 if first else -5), _TOP + 9, text, anchor=anchor),
        ]

    def place(self, x: float, y: float) -> Point:
        """Where values of the two axes are in the drawing."""
        across, up = self.x.place(x), self.y.place(y)
        return _LEFT + (self.width - _LEFT - _RIGHT) * across, self._floor - (self._floor - _TOP) * up

    def _draw_axes(self) -> None:
        floor, right = self._floor, self.width - _RIGHT
        for tick in self.y.ticks():
            _, here = self.place(self.x.low, tick)
            self.parts.append(Line([(_LEFT, here), (right, here)], "line", 1.0))
            self.parts.append(Text(_LEFT - 8, here + 4, self.y.text(tick), anchor="end"))
        self.parts.append(Line([(_LEFT, floor), (right, floor)], "soft", 1.0))
        for tick in self.x.ticks():
            here, _ = self.place(tick, self.y.low)
            self.parts.append(Line([(here, floor), (here, floor + 4)], "soft", 1.0))
            self.parts.append(Text(here, floor + 18, self.x.text(tick), anchor="middle"))
        self.parts += [
            Text((_LEFT + right) / 2, self.height - 6, self.x.label, "ink", anchor="middle"),
            Text(12.0, (_TOP + floor) / 2, self.y.label, "ink", anchor="middle", upright=True),
        ]


def arranged(
    title: str, drawings: Sequence[Drawing], columns: int = 1, legend: Sequence[Key] = (), note: str = ""
) -> Drawing:
    """Drawings in rows and columns, each under its own title, with one legend and a note below."""
    columns = min(columns, len(drawings))
    width = max(drawing.width for drawing in drawings)
    keys = [50 + _BOLD_LETTER * len(key.text) for key in legend]
    whole = MARGIN + max(columns * (width + MARGIN), *keys, 0.0)
    top = MARGIN
    parts: list[DrawingPart] = []
    if title != drawings[0].title:
        parts += wrapped(title, MARGIN, top + 12, whole - 2 * MARGIN, bold=True)
        top += LINE * len(parts) + 6
    for first in range(0, len(drawings), columns):
        row = drawings[first : first + columns]
        heads = [wrapped(drawing.title, 0.0, 12.0, width, bold=True) for drawing in row]
        above = LINE * max(map(len, heads)) + 6
        for place, (drawing, head) in enumerate(zip(row, heads, strict=True)):
            left = MARGIN + place * (width + MARGIN)
            parts += [
                *(moved(part, left, top) for part in head),
                *(moved(part, left, top + above) for part in drawing.parts),
            ]
        top += above + max(drawing.height for drawing in row) + MARGIN
    left = MARGIN
    for key, size in zip(legend, keys, strict=True):
        if left > MARGIN and left + size > whole:
            left, top = MARGIN, top + LINE
        parts += [
            Line([(left, top), (left + 24, top)], key.ink, 3.0, key.dash),
            Text(left + 31, top + 4, key.text, "ink"),
        ]
        left += size
    top += LINE if legend else 0
    notes = wrapped(note, MARGIN, top + 6, whole - 2 * MARGIN)
    return Drawing(title, whole, top + LINE * len(notes) + (4 if notes else 0), [*parts, *notes])


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], shares: Sequence[Sequence[float | None]]
) -> Drawing:
    """A matrix of shares in percent; a cell that was not measured says so."""
    side, high = max([96.0, *(16 + _BOLD_LETTER * len(name) for name in columns)]), 34.0
    left, top = MARGIN + 10 + _BOLD_LETTER * max(map(len, rows), default=0), LINE + 8
    parts: list[DrawingPart] = [
        Text(left + side * (place + 0.5), LINE, name, "ink", anchor="middle") for place, name in enumerate(columns)
    ]
    for line, (name, values) in enumerate(zip(rows, shares, strict=True)):
        y = top + high * line
        parts.append(Text(left - 8, y + high / 2 + 4, name, "ink", anchor="end"))
        for place, share in enumerate(values):
            x = left + side * place
            box = _box(x + 1, y + 1, x + side - 1, y + high - 1)
            parts += [Area(box, "heat-low"), *([] if share is None else [Area(box, "heat-high", float(share))])]
            text = "not run" if share is None else f"{100 * share:.1f}"
            parts.append(Text(x + side / 2, y + high / 2 + 4, text, "ink", anchor="middle"))
    return Drawing(title, max(left + side * len(columns), 320.0), top + high * len(rows), parts)


def wrapped(text: str, x: float, y: float, width: float, *, bold: bool = False) -> list[DrawingPart]:
    """Lines of text that stay within a width."""
    lines = textwrap.wrap(text, max(int(width / (_BOLD_LETTER if bold else _LETTER)), 1))
    ink = "ink" if bold else "soft"
    return [Text(x, y + LINE * place, line, ink, 12.5, bold=bold) for place, line in enumerate(lines)]


def moved(part: DrawingPart, dx: float, dy: float) -> DrawingPart:
    """The same part elsewhere."""
    if isinstance(part, Dots | Line | Area):
        return replace(part, points=[(x + dx, y + dy) for x, y in part.points])
    return replace(part, x=part.x + dx, y=part.y + dy)


def cross(x: float, y: float, ink: str = "ink", size: float = 5.0) -> list[DrawingPart]:
    """An x, for a class center."""
    arms = [[(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]]
    return [*(Line(arm, "card", 4.5) for arm in arms), *(Line(arm, ink, 2.0) for arm in arms)]


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within [low, high], about so many."""
    if high <= low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within [low, high], with 2 and 5 of each decade where there are few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if math.log10(high / low) < 2.5 else (1,)
    ticks = [factor * 10.0**decade for decade in decades for factor in factors]
    return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def data_uri(image: Float[np.ndarray, "c h w"]) -> str:
    """An image in [0, 1], grey or RGB, as the address of its own PNG."""
    pixels = (np.clip(image, 0, 1) * 255).round().astype(np.uint8)
    shown = Image.fromarray(pixels[0] if len(pixels) != 3 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    stream = io.BytesIO()
    shown.save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


@cache
def palette(dark: bool = False) -> dict[str, str]:
    """The hexadecimal colours of the style sheet by their names."""
    sheet = asset("style.css")
    start = sheet.index(':root[data-theme="dark"] {' if dark else ":root {")
    return dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", sheet[start : sheet.index("}", start)]))


def _box(left: float, top: float, right: float, bottom: float) -> list[Point]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _path(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{plain(x)} {plain(y)}" for x, y in points)


def _dots_path(points: Sequence[Point]) -> str:
    """To half a unit: dots that look the same are drawn once."""
    distinct = dict.fromkeys((round(2 * x) / 2, round(2 * y) / 2) for x, y in points)
    return "".join(f"M{plain(x)} {plain(y)}h0" for x, y in distinct)
