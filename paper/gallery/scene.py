"""A drawing as a list of plain parts, so that one description serves SVG and pixels alike."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

Point = tuple[float, float]
TITLE_HEIGHT, GAP, KEY_HEIGHT = 30.0, 24.0, 24.0


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
    width: float = 1.5
    dash: bool = False
    opacity: float = 1.0


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    points: Sequence[Point]
    ink: str
    opacity: float = 1.0


@dataclass(frozen=True)
class Text:
    """Words; ``x`` is where they start, their middle or their end, as the anchor says."""

    x: float
    y: float
    text: str
    ink: str = "ink"
    size: float = 13.0
    anchor: str = "start"
    halo: bool = False
    """With a rim in the colour of the background, to be read on top of other parts."""


Part = Dots | Line | Area | Text


@dataclass(frozen=True)
class Scene:
    """Parts on a board, painted in order."""

    title: str
    width: float
    height: float
    parts: Sequence[Part]


def distinct(points: Sequence[Point]) -> list[Point]:
    """The points to half a unit: dots that nobody can tell apart need drawing only once."""
    return list(dict.fromkeys((round(2 * x) / 2, round(2 * y) / 2) for x, y in points))


def moved(part: Part, dx: float, dy: float) -> Part:
    """The same part elsewhere."""
    if isinstance(part, Text):
        return replace(part, x=part.x + dx, y=part.y + dy)
    return replace(part, points=[(x + dx, y + dy) for x, y in part.points])


def haloed(points: Sequence[Point], ink: str, width: float = 2.0, dash: bool = False) -> list[Part]:
    """A line that stays visible on top of others: a wider one in the background's colour lies under it."""
    return [Line(points, "card", width + 2.5), Line(points, ink, width, dash)]


def cross(x: float, y: float, ink: str = "ink", size: float = 5.0) -> list[Part]:
    """An x where a center is."""
    arms = [[(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]]
    return [*(Line(arm, "card", 4.5) for arm in arms), *(Line(arm, ink, 2.0) for arm in arms)]


def arrow(start: Point, end: Point, ink: str, width: float = 1.3, head: float = 4.5) -> list[Part]:
    """A line with a head at its end."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    if length < 1e-9:
        return [Dots([start], ink, width)]
    ux, uy = dx / length, dy / length
    foot = (end[0] - head * ux, end[1] - head * uy)
    side = 0.55 * head
    tip = [end, (foot[0] - side * uy, foot[1] + side * ux), (foot[0] + side * uy, foot[1] - side * ux)]
    return [Line([start, foot], ink, width), Area(tip, ink)]


def beside(title: str, scenes: Sequence[Scene], columns: int, legend: Sequence[tuple[str, str, bool]] = ()) -> Scene:
    """Scenes in rows and columns under their titles, and a legend (ink, text, dashed) below."""
    columns = min(columns, len(scenes))
    width = max(scene.width for scene in scenes)
    height = max(scene.height for scene in scenes) + TITLE_HEIGHT
    parts: list[Part] = []
    for place, scene in enumerate(scenes):
        left, top = GAP + place % columns * (width + GAP), GAP / 2 + place // columns * (height + GAP)
        parts.append(Text(left, top + 18, scene.title, size=15.0))
        parts += [moved(part, left, top + TITLE_HEIGHT) for part in scene.parts]
    whole = GAP + columns * (width + GAP)
    below = GAP / 2 + -(-len(scenes) // columns) * (height + GAP)
    key_width = 60 + 7.5 * max((len(text) for _, text, _ in legend), default=0)  # a letter is about so wide
    in_row = max(1, int((whole - 2 * GAP) // key_width))
    for place, (ink, text, dash) in enumerate(legend):
        x, y = GAP + place % in_row * key_width, below + place // in_row * KEY_HEIGHT
        parts.append(Line([(x, y), (x + 26, y)], ink, 3.0, dash))
        parts.append(Text(x + 34, y + 4.5, text))
    rows = -(-len(legend) // in_row)
    return Scene(title, whole, below + rows * KEY_HEIGHT, parts)
