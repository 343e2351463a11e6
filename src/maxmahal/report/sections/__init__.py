"""The page's sections, one file each, listed in their order on the page."""

from collections.abc import Callable, Sequence

from maxmahal.report.layout import ReportedModel, Section
from maxmahal.report.sections.breakdown import breakdown_section
from maxmahal.report.sections.cost import cost_section
from maxmahal.report.sections.curves import curves_section
from maxmahal.report.sections.diagnostics import diagnostics_section
from maxmahal.report.sections.distortions import distortions_section
from maxmahal.report.sections.feature_space import feature_space_section
from maxmahal.report.sections.gallery import gallery_section
from maxmahal.report.sections.reproduce import reproduce_section
from maxmahal.report.sections.table import table_section
from maxmahal.report.sections.training import training_section
from maxmahal.report.sections.transfer import transfer_section
from maxmahal.report.sections.verdict import verdict_section

SECTIONS: list[Callable[[Sequence[ReportedModel]], Section | None]] = [
    verdict_section,
    table_section,
    curves_section,
    training_section,
    breakdown_section,
    gallery_section,
    feature_space_section,
    transfer_section,
    distortions_section,
    diagnostics_section,
    cost_section,
    reproduce_section,
]
"""Each gives None where the records have nothing for it to show."""
