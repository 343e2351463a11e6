"""A scene as SVG that takes its colours from a style sheet."""

from collections.abc import Sequence
from html import escape

from paper.gallery.palette import fixed_rules
from paper.gallery.scene import Area, Dots, Line, Part, Point, Scene, Text, distinct

NAMESPACE = "http://www.w3.org/2000/svg"


def to_svg(scene: Scene) -> str:
    """The scene, colours by class names: a page's style sheet decides what they look like."""
    body = "".join(_part(part) for part in scene.parts)
    return (
        f'<svg xmlns="{NAMESPACE}" class="scene" viewBox="0 0 {_n(scene.width)} {_n(scene.height)}" role="img" '
        f'aria-label="{escape(scene.title)}"><title>{escape(scene.title)}</title>{body}</svg>'
    )


def stand_alone(svg: str) -> str:
    """The same drawing as a file of its own: with its colours, and a background to be seen on."""
    if 'class="scene"' not in svg:
        return svg  # drawn elsewhere, with colours of its own
    head, body = svg.split("</title>", 1)
    box = head.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    size = f' width="{box[0]}" height="{box[1]}"'
    head = head.replace(' role="img"', f'{size} role="img"', 1)
    ground = '<rect class="f-card" width="100%" height="100%"/>'
    return f"{head}</title><style>{fixed_rules()}</style>{ground}{body}"


def _part(part: Part) -> str:
    if isinstance(part, Dots):
        places = "".join(f"M{_n(x)} {_n(y)}h0" for x, y in distinct(part.points))
        width = f'stroke-width="{_n(2 * part.radius)}" stroke-linecap="round"'
        return f'<path class="k-{part.ink}" d="{places}" fill="none" {width}{_faint(part.opacity)}/>'
    if isinstance(part, Line):
        dash = ' stroke-dasharray="5 4"' if part.dash else ""
        style = f'stroke-width="{_n(part.width)}" stroke-linejoin="round" stroke-linecap="round"'
        return (
            f'<path class="k-{part.ink}" d="{_through(part.points)}" fill="none" {style}{dash}{_faint(part.opacity)}/>'
        )
    if isinstance(part, Area):
        return f'<path class="f-{part.ink}" d="{_through(part.points)}z"{_faint(part.opacity)}/>'
    return _text(part)


def _text(part: Text) -> str:
    place = f'x="{_n(part.x)}" y="{_n(part.y)}" font-size="{_n(part.size)}" text-anchor="{part.anchor}"'
    rim = ' stroke-width="3.5" paint-order="stroke" stroke-linejoin="round"' if part.halo else ""
    classes = f"f-{part.ink} k-card" if part.halo else f"f-{part.ink}"
    return f'<text class="{classes}" {place}{rim}>{escape(part.text)}</text>'


def _through(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points)


def _faint(opacity: float) -> str:
    return "" if opacity >= 1 else f' opacity="{_n(opacity)}"'


def _n(value: float) -> str:
    """To a hundredth: the eye sees no more, and files stay small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if round(value, 2) else "0"
