"""The templates of assets/: records are escaped, and a missing value is an error."""

import json
from functools import cache, partial
from importlib.resources import files

import numpy as np
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from maxmahal.report import wording


def asset(name: str) -> str:
    """The text of an installed file of assets/."""
    return files("maxmahal.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def render(template: str, **context: object) -> Markup:
    """A template with its values filled in."""
    return Markup(_environment().get_template(template).render(context))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    for name in ("typeset", "percent", "rate_cell", "points", "p_value", "whole", "short", "duration", "plain"):
        environment.filters[name] = getattr(wording, name)
    as_json = partial(json.dumps, indent=2, ensure_ascii=False, default=str)
    environment.filters |= {"exact": _exact, "as_json": as_json}
    environment.globals["DASH"] = wording.DASH
    return environment


def _exact(value: float | int | np.generic) -> str:
    """Every digit, so that a test can compare a cell with the record."""
    return repr(value.item() if isinstance(value, np.generic) else value)
