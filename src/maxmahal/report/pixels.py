"""Images as PNGs inside the page."""

import base64
import io
import math

import numpy as np
from jaxtyping import Float
from PIL import Image

_GREY = 0.5


def data_uri(image: Float[np.ndarray, "c h w"]) -> str:
    """An image in [0, 1], grey or RGB, as the address of its own PNG."""
    pixels = (np.clip(image, 0, 1) * 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels[0] if len(pixels) != 3 else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
    stream = io.BytesIO()
    picture.save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def amplify(perturbation: Float[np.ndarray, "c h w"]) -> tuple[Float[np.ndarray, "c h w"], float]:
    """The perturbation around mid-grey, as strong as it goes without clipping, and how many times that is."""
    largest = float(np.abs(perturbation).max(initial=0.0))
    factor = _two_digits_down(_GREY / largest) if largest else 1.0
    return _GREY + factor * perturbation, factor


def _two_digits_down(value: float) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.floor(value / unit + 1e-6) * unit
