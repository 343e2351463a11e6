"""A small drawing board: charts as inline SVG that take every colour from the page's style sheet."""

from collections.abc import Sequence

from markupsafe import Markup

from maxmahal.report.scales import Axis

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 12.0, 46.0
_SHAPES = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.4L4.4 0L0 4.4L-4.4 0z",
    "M0-4L4 3.2H-4z",
)


def element(tag: str, content: str = "", /, **attributes: object) -> Markup:
    """One element; underscores in names become hyphens, ``class_`` is ``class``, and everything is escaped."""
    pairs = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _plain(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), pairs, content)


def picture(
    title: str, parts: Sequence[Markup], width: float, height: float, class_: str = "chart", *, stretch: bool = False
) -> Markup:
    """The parts under a title that a screen reader says; arrow keys walk through what carries a tip."""
    inside = Markup("").join([element("title", title), *parts])
    speaks = any("data-tip" in part for part in parts)
    box = f"0 0 {_plain(width)} {_plain(height)}"
    return element(
        "svg",
        inside,
        class_=f"{class_} marks" if speaks else class_,
        viewBox=box,
        role="img",
        tabindex=0 if speaks else None,
        aria_label=title,
        preserveAspectRatio="none" if stretch else None,
    )


def dots_path(xs: Sequence[float], ys: Sequence[float]) -> str:
    """The data of a path through points of the drawing."""
    steps = (f"{_plain(x)} {_plain(y)}" for x, y in zip(xs, ys, strict=True))
    return "M" + "L".join(steps)


class Chart:
    """Axes and whatever is drawn between them; values are in the axes' units."""

    def __init__(self, title: str, x: Axis, y: Axis, *, width: float = 460.0, height: float = 300.0) -> None:
        self.title, self.x, self.y, self.width, self.height = title, x, y, width, height
        self._parts: list[Markup] = [*self._x_axis(), *self._y_axis()]

    def line(self, xs: Sequence[float], ys: Sequence[float], slot: int, *, steps: bool = False) -> None:
        """A line in a model's colour; ``steps`` for shares that only change at the points themselves."""
        if steps:
            xs, ys = [x for x in xs for _ in (0, 1)][1:], [y for y in ys for _ in (0, 1)][:-1]
        data = dots_path([self._left(x) for x in xs], [self._up(y) for y in ys])
        self._parts.append(element("path", class_=f"line s{slot}", d=data))

    def points(self, xs: Sequence[float], ys: Sequence[float], slot: int, tips: Sequence[str]) -> None:
        """Marks that say something when pointed at; their shape tells models apart where colour does not."""
        shape = _SHAPES[slot % len(_SHAPES)]
        for x, y, tip in zip(xs, ys, tips, strict=True):
            move = f"translate({_plain(self._left(x))} {_plain(self._up(y))})"
            self._parts.append(element("path", class_=f"mark s{slot}", d=shape, transform=move, data_tip=tip))

    def bar(self, x0: float, x1: float, height: float, slot: int, tip: str) -> None:
        """A bar from the x axis up."""
        left, right, top = self._left(x0), self._left(x1), self._up(height)
        self._parts.append(
            element(
                "rect",
                class_=f"bar s{slot}",
                x=left + 0.5,
                y=top,
                width=max(right - left - 1, 0.5),
                height=max(self._up(self.y.low) - top, 0.0),
                data_tip=tip,
            )
        )

    def upright(self, x: float, text: str) -> None:
        """A dashed line at one value of x, with a word beside it."""
        here = self._left(x)
        after = here < self.width * 0.7
        self._parts += [
            element("path", class_="rule", d=f"M{_plain(here)} {_plain(_TOP)}V{_plain(self.height - _BOTTOM)}"),
            element(
                "text",
                text,
                class_="tick",
                x=here + (5 if after else -5),
                y=_TOP + 9,
                text_anchor="start" if after else "end",
            ),
        ]

    def render(self) -> Markup:
        """The finished drawing."""
        return picture(self.title, self._parts, self.width, self.height)

    def _left(self, value: float) -> float:
        return _LEFT + (self.width - _LEFT - _RIGHT) * self.x.place(value)

    def _up(self, value: float) -> float:
        return self.height - _BOTTOM - (self.height - _TOP - _BOTTOM) * self.y.place(value)

    def _x_axis(self) -> list[Markup]:
        floor = self.height - _BOTTOM
        parts = [element("path", class_="axis", d=f"M{_plain(_LEFT)} {_plain(floor)}H{_plain(self.width - _RIGHT)}")]
        for tick in self.x.ticks():
            here = self._left(tick)
            parts.append(element("path", class_="axis", d=f"M{_plain(here)} {_plain(floor)}v4"))
            parts.append(element("text", self.x.text(tick), class_="tick", x=here, y=floor + 18, text_anchor="middle"))
        middle = (_LEFT + self.width - _RIGHT) / 2
        name = element("text", self.x.label, class_="name", x=middle, y=self.height - 6, text_anchor="middle")
        return [*parts, name]

    def _y_axis(self) -> list[Markup]:
        parts = []
        for tick in self.y.ticks():
            here = self._up(tick)
            parts.append(
                element("path", class_="grid", d=f"M{_plain(_LEFT)} {_plain(here)}H{_plain(self.width - _RIGHT)}")
            )
            parts.append(element("text", self.y.text(tick), class_="tick", x=_LEFT - 8, y=here + 4, text_anchor="end"))
        middle = (_TOP + self.height - _BOTTOM) / 2
        turn = f"translate(12 {_plain(middle)}) rotate(-90)"
        return [*parts, element("text", self.y.label, class_="name", transform=turn, text_anchor="middle")]


def _plain(value: object) -> str:
    """Coordinates to a hundredth: the eye sees no more, and pages stay small."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"
    return str(value)
