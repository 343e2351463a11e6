"""A scene as pixels, and several as a moving picture."""

import io
from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from matplotlib import font_manager
from PIL import Image, ImageColor, ImageDraw, ImageFont

from paper.gallery.palette import palette
from paper.gallery.scene import Area, Dots, Line, Part, Point, Scene, Text, distinct

OVERSAMPLING = 2  # Pillow draws hard edges: twice the size and then half of it makes them soft
_ANCHORS = {"start": "ls", "middle": "ms", "end": "rs"}


def to_image(scene: Scene, scale: float = 1.0) -> Image.Image:
    """The scene by day, ``scale`` pixels a unit."""
    factor = scale * OVERSAMPLING
    size = (round(scene.width * factor), round(scene.height * factor))
    image = Image.new("RGB", size, palette()["card"])
    canvas = ImageDraw.Draw(image)
    for part in scene.parts:
        _paint(canvas, part, factor, _mixed(part.ink, 1.0 if isinstance(part, Text) else part.opacity))
    return image.resize((size[0] // OVERSAMPLING, size[1] // OVERSAMPLING), Image.Resampling.BOX)


def png_bytes(scene: Scene, scale: float = 2.0) -> bytes:
    """A PNG file."""
    stream = io.BytesIO()
    to_image(scene, scale).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def gif_bytes(scenes: Iterable[Scene], milliseconds: int = 120) -> bytes:
    """An animated GIF that starts over after resting on its last frame."""
    images = [to_image(scene).quantize(128, dither=Image.Dither.NONE) for scene in scenes]
    durations = [milliseconds] * (len(images) - 1) + [1500]
    stream = io.BytesIO()
    images[0].save(
        stream, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=True, disposal=1
    )
    return stream.getvalue()


def _mixed(ink: str, opacity: float) -> str:
    """A see-through ink as it looks on the bare background: masks would take seconds a frame."""
    fore, back = (ImageColor.getrgb(palette()[name]) for name in (ink, "card"))
    blend = (round(opacity * f + (1 - opacity) * b) for f, b in zip(fore, back, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*blend)


def _paint(canvas: ImageDraw.ImageDraw, part: Part, factor: float, colour: str) -> None:
    if isinstance(part, Text):
        rim = {"stroke_width": round(1.7 * factor), "stroke_fill": palette()["card"]} if part.halo else {}
        place = (part.x * factor, part.y * factor)
        font = _font(round(part.size * factor))
        canvas.text(place, part.text, fill=colour, font=font, anchor=_ANCHORS[part.anchor], **rim)  # type: ignore[arg-type]
        return
    points = [(x * factor, y * factor) for x, y in part.points]
    if isinstance(part, Dots):
        radius = part.radius * factor
        for x, y in ((x * factor, y * factor) for x, y in distinct(part.points)):
            canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    elif isinstance(part, Area):
        canvas.polygon(points, fill=colour)
    else:
        _line(canvas, part, points, factor, colour)


def _line(canvas: ImageDraw.ImageDraw, part: Line, points: list[Point], factor: float, colour: str) -> None:
    width = max(1, round(part.width * factor))
    if not part.dash:
        canvas.line(points, fill=colour, width=width, joint="curve")
        return
    for piece in dashes(points, 5 * factor, 4 * factor):
        canvas.line(piece, fill=colour, width=width)


def dashes(points: list[Point], on: float, off: float) -> list[list[Point]]:
    """The pieces of a line that a dash pattern leaves visible."""
    pieces: list[list[Point]] = []
    walked = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        here = 0.0
        while here < length - 1e-9:
            phase = (walked + here) % (on + off)
            visible = phase < on - 1e-9
            step = min(length - here, (on if visible else on + off) - phase)
            if step < 1e-6:
                step = min(length - here, off if not visible else on)
            if visible:
                ends = [(x0 + (x1 - x0) * at / length, y0 + (y1 - y0) * at / length) for at in (here, here + step)]
                pieces.append(ends)
            here += step
        walked += length
    return pieces


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    # matplotlib carries a font that knows the paper's symbols; a machine may have none of its own.
    return ImageFont.truetype(font_manager.findfont("DejaVu Sans"), size)
