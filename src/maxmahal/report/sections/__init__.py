"""The page's sections, in their order on the page."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from maxmahal.report.layout import ReportedModel, Section
from maxmahal.report.sections.attacks import breakdown_values, table_values
from maxmahal.report.sections.curves import curves_values, distortions_values
from maxmahal.report.sections.samples import across_values, feature_space_values, samples_values
from maxmahal.report.sections.training import training_values
from maxmahal.report.sections.transfer import transfer_values
from maxmahal.report.sections.verdict import diagnostics_values, differences_values, verdict_values
from maxmahal.report.templates import render

SectionScope = Literal["top", "compare", "model", "both"]

SECTIONS: dict[str, tuple[str, str, SectionScope, Callable[[Sequence[ReportedModel]], Mapping[str, object]]]] = {
    "verdict": ("Verdict", "Verdict", "top", verdict_values),
    "numbers": ("The numbers", "Numbers", "model", lambda models: {"model": models[0]} if models[0].verdict else {}),
    "differences": ("Clean and robust accuracy", "Differences", "compare", differences_values),
    "attacks": ("Accuracy under each attack", "Attacks", "both", table_values),
    "breakdown": ("Which attack broke which samples", "Breakdown", "both", breakdown_values),
    "diagnostics": ("Signs of false robustness", "Diagnostics", "model", diagnostics_values),
    "across": ("One sample across models", "One sample", "compare", across_values),
    "samples": ("Samples and adversarial images", "Samples", "model", samples_values),
    "curves": ("Accuracy against epsilon and effort", "Curves", "both", curves_values),
    "features": ("Feature space", "Features", "model", feature_space_values),
    "transfer": ("Transfer between models", "Transfer", "compare", transfer_values),
    "distortions": ("Distortion that C&W needs", "C&W", "compare", distortions_values),
    "training": ("Training", "Training", "compare", training_values),
    "reproduce": ("How to reproduce it", "Reproduce", "model", lambda models: {"model": models[0]}),
}
"""By their addresses: the title, the title in a word or two, where it is shown, and the values of its template.

A page about one model shows all in one panel. No values: the records have nothing to show.
"""


def make_sections(
    models: Sequence[ReportedModel], scopes: Sequence[SectionScope], prefix: str = ""
) -> tuple[Section, ...]:
    """The sections of these scopes that have something to show; the prefix keeps their addresses apart."""
    found = {key: values(models) for key, (_, _, scope, values) in SECTIONS.items() if scope in scopes}
    return tuple(make_section(key, values, prefix) for key, values in found.items() if values)


def make_section(key: str, values: Mapping[str, object], prefix: str = "") -> Section:
    """The section of that address, with these values in its template."""
    title, nav, *_ = SECTIONS[key]
    return Section(prefix + key, title, nav, render(f"sections/{key}.html.j2", **values))
