"""SVG files with their own style sheet, for light pages and dark ones; every rule is bound to this drawing alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LIGHT = "--page:#ffffff;--rim:#dfdcd5;--ink:#1b1d20;--soft:#565b62"
_DARK = "--page:#121417;--rim:#343a41;--ink:#e9ebee;--soft:#a7aeb7"
_LIGHT_SERIES = ("#17659f", "#bb4d0b", "#14795f", "#99437f", "#7d6200", "#2d7f9e", "#5a56c4", "#8b9098")
_DARK_SERIES = ("#63b1f0", "#ff9a5a", "#4ccba8", "#e394cb", "#dfc057", "#8bd0ea", "#a9a7ff", "#7c838c")
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """One direction of a panel, from where to where."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: Sequence[float], *, log: bool = False) -> "Scale":
        """From the least to the largest finite value, with a little room."""
        finite = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(finite), max(finite)
        if log:
            return cls(low / 1.15, high * 1.15, log=True)
        room = 0.06 * (high - low) or 1.0
        return cls(low - room, high + room)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high end, and never outside."""
        low, high, here = ((math.log(max(each, 1e-300)) if self.log else each) for each in (self.low, self.high, value))
        return min(max((here - low) / (high - low), 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Round values within the scale."""
        if self.log:
            few = math.log10(self.high / self.low) < 2.5
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            tried = [factor * 10.0**decade for decade in decades for factor in ((1, 2, 5) if few else (1,))]
        else:
            rough = (self.high - self.low) / 5
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(factor * power for factor in _STEPS if factor * power >= rough * (1 - 1e-9))
            tried = [number * step for number in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [tick for tick in tried if self.low <= tick <= self.high]


class Board:
    """A whole drawing: panels, a title above and a legend below."""

    def __init__(self, title: str, width: float, height: float) -> None:
        self.title, self.width, self.height = title, width, height
        self.parts = [_text(title, 14.0, 20.0, "head")]

    def legend(self, names: Sequence[str], x: float, y: float) -> None:
        """A coloured square and a name for each slot, from left to right."""
        for slot, name in enumerate(names):
            self.entry(name, slot, x, y)
            x += 40 + 6.6 * len(name)

    def entry(self, name: str, slot: int, x: float, y: float) -> None:
        """One square and its name."""
        self.parts.append(_tag("rect", class_=f"bar s{slot}", x=x, y=y - 9, width=10.0, height=10.0, rx=2.0))
        self.parts.append(_text(name, x + 15, y, "name"))

    def note(self, text: str, x: float, y: float) -> None:
        """A line of small words."""
        self.parts.append(_text(text, x, y, "tick"))

    def render(self) -> str:
        """The file's text."""
        box = f"0 0 {_short(self.width)} {_short(self.height)}"
        page = _tag("rect", class_="page", width=self.width, height=self.height)
        inside = "\n".join([_tag("title", escape(self.title)), f"<style>{_style()}</style>", page, *self.parts])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mm-density" viewBox="{box}" width="{_short(self.width)}" '
            f'height="{_short(self.height)}" role="img" aria-label="{escape(self.title)}">{inside}</svg>\n'
        )


class Panel:
    """A frame on a board, with values in the scales' units."""

    def __init__(self, board: Board, x: Scale, y: Scale, left: float, top: float, width: float, height: float) -> None:
        self.board, self.x, self.y = board, x, y
        self.left, self.top, self.width, self.height = left, top, width, height
        board.parts.append(_tag("rect", class_="frame", x=left, y=top, width=width, height=height))

    def heading(self, text: str) -> None:
        """Above the frame."""
        self.board.parts.append(_text(text, self.left, self.top - 8, "name"))

    def below(self, text: str) -> None:
        """Under the frame."""
        self.board.parts.append(_text(text, self.left, self.top + self.height + 20, "tick"))

    def axes(self, x_name: str, y_name: str) -> None:
        """Ticks and names."""
        floor = self.top + self.height
        for tick in self.x.ticks():
            here = self._right(tick)
            self.board.parts.append(_tag("path", class_="axis", d=f"M{_short(here)} {_short(floor)}v4"))
            self.board.parts.append(_text(_tick(tick), here, floor + 17, "tick", anchor="middle"))
        for tick in self.y.ticks():
            here = self._down(tick)
            line = f"M{_short(self.left)} {_short(here)}h{_short(self.width)}"
            self.board.parts.append(_tag("path", class_="grid", d=line))
            self.board.parts.append(_text(_tick(tick), self.left - 6, here + 4, "tick", anchor="end"))
        self.board.parts.append(_text(x_name, self.left + self.width, floor + 34, "name", anchor="end"))
        turn = f"translate(13 {_short(self.top + self.height / 2)}) rotate(-90)"
        self.board.parts.append(_tag("text", escape(y_name), class_="name", transform=turn, text_anchor="middle"))

    def line(self, points: Sequence[Sequence[float]], slot: int, *, thin: bool = False) -> None:
        """Through points in order."""
        data = "M" + "L".join(f"{_short(self._right(x))} {_short(self._down(y))}" for x, y in points)
        self.board.parts.append(_tag("path", class_=f"{'level' if thin else 'line'} s{slot}", d=data))

    def arrow(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """From one place to another, with a head."""
        start, end = (self._right(x), self._down(y)), (self._right(to_x), self._down(to_y))
        angle, barb = math.atan2(end[1] - start[1], end[0] - start[0]), 3.0
        wings = [
            (end[0] - barb * math.cos(angle + turn), end[1] - barb * math.sin(angle + turn)) for turn in (0.6, -0.6)
        ]
        path = [start, end, wings[0], end, wings[1]]
        data = "M" + "L".join(f"{_short(a)} {_short(b)}" for a, b in path)
        self.board.parts.append(_tag("path", class_="arrow", d=data))

    def dot(self, x: float, y: float, slot: int) -> None:
        """A filled mark."""
        self._circle("mark", x, y, 2.6, slot)

    def ring(self, x: float, y: float, slot: int) -> None:
        """A hollow, faint mark."""
        self._circle("ring", x, y, 2.2, slot)

    def cross(self, x: float, y: float) -> None:
        """A center."""
        here, down = self._right(x), self._down(y)
        data = f"M{_short(here - 5)} {_short(down - 5)}l10 10m0-10l-10 10"
        self.board.parts.append(_tag("path", class_="cross", d=data))

    def bar(self, x: float, low: float, high: float, slot: int) -> None:
        """An upright interval."""
        data = f"M{_short(self._right(x))} {_short(self._down(low))}V{_short(self._down(high))}"
        self.board.parts.append(_tag("path", class_=f"line s{slot}", d=data))

    def _circle(self, kind: str, x: float, y: float, size: float, slot: int) -> None:
        if self.x.low <= x <= self.x.high and self.y.low <= y <= self.y.high:
            place = {"cx": self._right(x), "cy": self._down(y)}
            self.board.parts.append(_tag("circle", class_=f"{kind} s{slot}", r=size, **place))

    def _right(self, value: float) -> float:
        return self.left + self.width * self.x.place(value)

    def _down(self, value: float) -> float:
        return self.top + self.height * (1 - self.y.place(value))


def _style() -> str:
    def colours(base: str, series: Sequence[str]) -> str:
        return ";".join([base, *(f"--k{slot}:{value}" for slot, value in enumerate(series))])

    own = "svg.mm-density"
    light, dark = colours(_LIGHT, _LIGHT_SERIES), colours(_DARK, _DARK_SERIES)
    rules = {
        "text": "fill:var(--soft);font:12px system-ui,sans-serif",
        ".name,.head": "fill:var(--ink)",
        ".page": "fill:var(--page)",
        ".frame": "fill:none;stroke:var(--rim)",
        ".axis": "stroke:var(--soft);fill:none",
        ".grid": "stroke:var(--rim);fill:none",
        ".line": "stroke:var(--hue);stroke-width:2;fill:none;stroke-linejoin:round",
        ".level": "stroke:var(--hue);stroke-width:1;fill:none",
        ".arrow": "stroke:var(--soft);stroke-width:0.8;fill:none;opacity:0.75",
        ".mark": "fill:var(--hue);stroke:var(--page);stroke-width:0.6",
        ".ring": "fill:none;stroke:var(--hue);opacity:0.45",
        ".bar": "fill:var(--hue)",
        ".cross": "stroke:var(--ink);stroke-width:2.2;fill:none",
    }
    scoped = "".join(f"{','.join(f'{own} {one}' for one in name.split(','))}{{{rule}}}" for name, rule in rules.items())
    slots = "".join(f"{own} .s{slot}{{--hue:var(--k{slot})}}" for slot in range(len(_LIGHT_SERIES)))
    return (
        f"{own}{{{light};max-width:100%;height:auto}}"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]) {own},{own}:root{{{dark}}}}}"
        f"[data-theme=dark] {own}{{{dark}}}{slots}{scoped}{own} .head{{font-weight:600}}"
    )


def _tag(name: str, content: str = "", /, **attributes: object) -> str:
    pairs = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value) if isinstance(value, float) else str(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{pairs}>{content}</{name}>"


def _text(text: str, x: float, y: float, class_: str, anchor: str = "start") -> str:
    return _tag("text", escape(text), class_=class_, x=x, y=y, text_anchor=anchor)


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def _tick(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1e5 else f"{value:.0f}"
