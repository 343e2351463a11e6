"""The page's sections, in their order on the page."""

from collections.abc import Callable, Mapping, Sequence

from maxmahal.report.layout import ReportedModel, Section, render, stages_run
from maxmahal.report.sections.attacks import table_values
from maxmahal.report.sections.breakdown import breakdown_values
from maxmahal.report.sections.curves import curves_values
from maxmahal.report.sections.diagnostics import diagnostics_values
from maxmahal.report.sections.distortions import distortions_values
from maxmahal.report.sections.features import feature_space_values
from maxmahal.report.sections.gallery import gallery_values
from maxmahal.report.sections.training import training_values
from maxmahal.report.sections.transfer import transfer_values
from maxmahal.report.sections.verdict import verdict_values


def cost_values(models: Sequence[ReportedModel]) -> dict[str, object]:
    """The stages of each model that ran."""
    costs = [(model, stages) for model in models if (stages := stages_run(model.evaluation))]
    return {"models": costs} if costs else {}


SECTIONS: dict[str, tuple[str, str, Callable[[Sequence[ReportedModel]], Mapping[str, object]]]] = {
    "verdict": ("Verdict", "Verdict", verdict_values),
    "attacks": ("Accuracy under each attack", "Attacks", table_values),
    "curves": ("Accuracy against epsilon and effort", "Curves", curves_values),
    "training": ("Training", "Training", training_values),
    "breakdown": ("Which attack broke which samples", "Breakdown", breakdown_values),
    "gallery": ("Adversarial images", "Gallery", gallery_values),
    "features": ("Feature space", "Features", feature_space_values),
    "transfer": ("Transfer between models", "Transfer", transfer_values),
    "distortions": ("Distortion that C&W needs", "C&W", distortions_values),
    "diagnostics": ("Signs of false robustness", "Diagnostics", diagnostics_values),
    "cost": ("Cost", "Cost", cost_values),
    "reproduce": ("How to reproduce it", "Reproduce", lambda models: {"models": models}),
}
"""By their addresses: the title, the title in a word or two, and the values of the template of the same name.

No values: the records have nothing to show.
"""


def make_section(key: str, values: Mapping[str, object]) -> Section:
    """The section of that address, with these values in its template."""
    title, nav, _ = SECTIONS[key]
    return Section(key, title, nav, render(f"sections/{key}.html.j2", **values))
