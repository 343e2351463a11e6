"""Decode images: from files, from parts of files or from bytes; many of them in worker processes.

A worker runs this file as a program, so it imports neither torch nor numpy.
"""

import atexit
import io
import marshal
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from maxmahal.errors import DataError
from maxmahal.files import MOST_BYTES, opened, reading

_FORMATS = ("PNG", "JPEG")  # whatever a file is called: for some others, Pillow starts other programs
_WAY_OUT = "replace it with an image that opens in a viewer, or delete it."
_GREY_MODES = frozenset({"1", "L"})
_COLOUR_MODES = frozenset({"LA", "P", "RGB", "RGBA", "CMYK", "YCbCr"})
_FEW = 64  # images that are decoded in this process
_TASK = 16  # images that a worker decodes at once
_MOST_WORKERS = 16


class ImageSource(NamedTuple):
    """Where an image is: a file, ``size`` bytes of a file from ``offset`` on, or ``content`` itself."""

    name: str
    """What messages call it; the path of a file of its own."""
    path: str = ""
    offset: int = 0
    size: int = 0
    content: bytes | None = None


class Sizing(NamedTuple):
    """Scale the shorter side to ``resize`` pixels, then cut ``crop`` x ``crop`` pixels out of the center."""

    resize: int
    crop: int
    bicubic: bool = False


class DecodedImage(NamedTuple):
    """A decoded image: bytes, height by width by channels."""

    height: int
    width: int
    channels: int
    content: bytes

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width, as tensors have them."""
        return self.channels, self.height, self.width


def decode(place: ImageSource, colour: bool | None = None, sizing: Sizing | None = None) -> DecodedImage:
    """One image; if ``colour`` is None, the file decides whether it is grey."""
    with reading(Path(place.name), _WAY_OUT):
        if place.content is not None:
            return _decode(io.BytesIO(place.content), place.name, colour, sizing)
        with opened(Path(place.path or place.name)) as stream:
            if not place.path:
                return _decode(stream, place.name, colour, sizing)
            if place.size > MOST_BYTES:
                raise ValueError(f"it holds more than {MOST_BYTES >> 20} MiB")
            stream.seek(place.offset)
            return _decode(io.BytesIO(stream.read(place.size)), place.name, colour, sizing)


def _decode(
    stream: io.BufferedReader | io.BytesIO, name: str, colour: bool | None, sizing: Sizing | None
) -> DecodedImage:
    from PIL import Image, UnidentifiedImageError  # imported here because only this kind of data needs it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(stream, formats=_FORMATS) as image:
                grey = image.mode in _GREY_MODES
                if image.format == "PNG" and getattr(image, "is_animated", False):
                    raise ValueError("it is animated, and one image was expected")
                if "16" in str([tile[3] for tile in image.tile]):  # its layouts: Pillow would drop half of the bits
                    raise ValueError("its pixels have 16 bits, and are not 8-bit grey or colour")
                if not grey and image.mode not in _COLOUR_MODES:
                    raise ValueError(f"its pixels are '{image.mode}', not 8-bit grey or colour")
                if colour is False and not grey:
                    raise DataError(f"{name} is in colour but the first training image is grey; make them all alike.")
                plain = image.convert("L" if grey and not colour else "RGB")
                plain = plain if sizing is None else _resize(plain, sizing)
                return DecodedImage(plain.height, plain.width, len(plain.getbands()), plain.tobytes())
        except DataError:
            raise
        except UnidentifiedImageError as error:
            raise ValueError("it is not a PNG or JPEG image") from error
        except Exception as error:  # Pillow may raise anything on a damaged image
            raise ValueError(str(error) or type(error).__name__) from error


def _resize(image: Any, sizing: Sizing) -> Any:
    """As torchvision's ``Resize`` and ``CenterCrop`` do it."""
    from PIL import Image

    short = min(image.size)
    width, height = (sizing.resize * side // short for side in image.size)
    if width * height > (Image.MAX_IMAGE_PIXELS or 0):
        raise ValueError(f"it is {image.width}x{image.height} pixels, and would be {width}x{height}")
    method = Image.Resampling.BICUBIC if sizing.bicubic else Image.Resampling.BILINEAR
    left, top = round((width - sizing.crop) / 2), round((height - sizing.crop) / 2)
    return image.resize((width, height), method).crop((left, top, left + sizing.crop, top + sizing.crop))


def decode_all(places: Sequence[ImageSource], colour: bool, sizing: Sizing | None) -> Iterator[DecodedImage]:
    """The images in their order."""
    if len(places) <= _FEW:
        yield from (decode(place, colour, sizing) for place in places)
        return
    how = (colour, sizing and tuple(sizing))
    tasks = [[tuple(place) for place in places[start : start + _TASK]] for start in range(0, len(places), _TASK)]
    for answer in _threads().map(_ask, [(task, *how) for task in tasks]):
        if isinstance(answer, str):
            raise DataError(answer)
        yield from (DecodedImage(*each) for each in answer)


@cache
def _threads() -> ThreadPoolExecutor:
    """One thread for each worker process; OMP_NUM_THREADS is the share of a rank or job."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    most = int(asked) if asked.isdecimal() and int(asked) else _MOST_WORKERS
    return ThreadPoolExecutor(min(available, most, _MOST_WORKERS), "decode")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.cache_clear)  # a fork has none of the threads
_OWN = threading.local()


def _ask(task: tuple[list[tuple[Any, ...]], bool, tuple[Any, ...] | None]) -> list[tuple[Any, ...]] | str:
    """What this thread's worker answers: images or an error; a worker that was killed is replaced once."""
    for _ in range(2):
        if getattr(_OWN, "worker", None) is None:
            _OWN.worker = _start()
        try:
            marshal.dump(task, _OWN.worker.stdin)
            _OWN.worker.stdin.flush()
            return marshal.load(_OWN.worker.stdout)
        except (OSError, EOFError):
            _stop(_OWN.worker)
            _OWN.worker = None
    return f"The process that decodes images was ended twice, at {task[0][0][0]} or a little later; is memory short?"


def _start() -> subprocess.Popen[bytes]:
    # -P because this folder has a types.py; in a session of its own, so that Ctrl-C reaches the main process only.
    worker = subprocess.Popen(
        [sys.executable, "-P", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
    )
    atexit.register(_stop, worker)
    return worker


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """Without tasks it ends."""
    with suppress(OSError):
        worker.communicate()


def _serve() -> None:
    """Answer tasks until there are no more."""
    while True:
        try:
            places, colour, sizing = marshal.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            found = [decode(ImageSource(*place), colour, sizing and Sizing(*sizing)) for place in places]
            answer: list[tuple[Any, ...]] | str = [tuple(each) for each in found]
        except DataError as error:
            answer = str(error)
        marshal.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
