"""Templates to HTML: everything that comes from a record is escaped, and a name nobody set is an error."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from maxmahal.report import wording


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading of its own."""

    key: str
    """Its address within the page."""
    title: str
    nav: str
    """The title in a word or two."""
    body: Markup


def asset(name: str) -> str:
    """A file of assets/ as it was installed."""
    return files("maxmahal.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def render(template: str, **context: object) -> Markup:
    """A template of assets/ with its values filled in."""
    return Markup(_environment().get_template(template).render(context))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("typeset", "percent", "rate_cell", "points", "p_value", "whole", "short", "duration"):
        environment.filters[name] = getattr(wording, name)
    environment.filters["exact"] = _exact
    environment.globals["DASH"] = wording.DASH
    return environment


def _exact(value: float | int | np.generic) -> str:
    """Every digit, so that a test can compare a cell with the record."""
    return repr(value.item() if isinstance(value, np.generic) else value)
