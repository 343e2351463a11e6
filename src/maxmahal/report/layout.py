"""What every section of a page is made from: the models on it, and the page around the sections."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from maxmahal.errors import ArgumentError
from maxmahal.records.types import Evaluation, unique_names
from maxmahal.records.verdict import CLEAN, LITTLE, MOST, Verdict, give_verdict
from maxmahal.report.chart import SERIES
from maxmahal.report.templates import asset
from maxmahal.report.templates import render as render
from maxmahal.version import __version__


@dataclass(frozen=True)
class ReportedModel:
    """One evaluation on the page."""

    evaluation: Evaluation
    verdict: Verdict | None  # None until the first chunk of clean images is evaluated
    label: str  # the model's name, with what distinguishes it if another evaluation has the same name
    place: int  # its number on the page, from 0

    @property
    def slot(self) -> int:
        """Which of the page's colours this model has in every chart."""
        return self.place % SERIES

    @property
    def level(self) -> Literal["unknown", "low", "middle", "high"]:
        """How robust it is, for the style sheet; a suite that does not measure robustness leaves it unknown."""
        if not (self.verdict and self.verdict.attacked) or self.evaluation.comparison:
            return "unknown"
        share = self.verdict.robust.value
        return "low" if share < LITTLE else "middle" if share < MOST else "high"

    @property
    def threat(self) -> str:
        """Such as "Linf 8/255"."""
        return f"{self.evaluation.norm} {self.evaluation.epsilon}"


@dataclass(frozen=True)
class ModelGroup:
    """Models that can be compared: one suite, one data set, one threat."""

    title: str
    models: tuple[ReportedModel, ...]


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading of its own."""

    key: str  # its address within the page
    title: str
    nav: str  # the title in a word or two
    body: Markup


@dataclass(frozen=True)
class Panel:
    """What one tab shows: the comparison, or one model."""

    key: str
    title: str
    sections: tuple[Section, ...]
    model: ReportedModel | None = None


def reported_models(evaluations: Sequence[Evaluation]) -> list[ReportedModel]:
    """In the order given; without clean images a model has no verdict."""
    if not evaluations:
        raise ArgumentError("There is no evaluation to report on; evaluate a model first.")
    models = []
    for index, (each, label) in enumerate(zip(evaluations, unique_names(evaluations), strict=True)):
        has_begun = any(stage.name == CLEAN and len(stage.columns) for stage in each.stages)
        models.append(ReportedModel(each, give_verdict(each) if has_begun else None, label, index))
    return models


def group_models(models: Sequence[ReportedModel]) -> list[ModelGroup]:
    """In the order of their first members."""
    found: dict[tuple[str, int, str, str], list[ReportedModel]] = {}
    for model in models:
        each = model.evaluation
        found.setdefault((each.suite, each.suite_version, each.data, model.threat), []).append(model)
    return [
        ModelGroup(f"{data}, {threat}, suite {suite} (version {version})", tuple(members))
        for (suite, version, data, threat), members in found.items()
    ]


def stage_title(evaluation: Evaluation, name: str) -> str:
    """The title of the stage of that name; the name itself if there is none."""
    return next((stage.title for stage in evaluation.stages if stage.name == name), name)


def html_page(
    title: str,
    subtitle: Sequence[str],
    sections: Sequence[Section],
    panels: Sequence[Panel] = (),
    unfinished: Sequence[ReportedModel] = (),
    downloads: Mapping[str, tuple[str, str]] | None = None,
    kicker: str = "Robustness report",
) -> str:
    """One HTML file with its style and script inside; the browser refuses any other script.

    ``downloads`` are names and addresses of files, by what their links say.
    """
    script = asset("script.js")
    digest = hashlib.sha256(script.encode()).digest()  # by which a content security policy names a script that may run
    code = {"script": Markup(script), "script_hash": base64.b64encode(digest).decode("ascii")}
    frame = {"title": title, "kicker": kicker, "subtitle": subtitle, "style": Markup(asset("style.css"))}
    content = {"sections": sections, "panels": panels, "unfinished": unfinished, "downloads": downloads or {}}
    return str(render("template.html.j2", **frame, **content, **code, version=__version__))
