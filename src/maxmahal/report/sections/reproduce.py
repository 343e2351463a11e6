"""How to reproduce each evaluation."""

from collections.abc import Sequence

from maxmahal.report.layout import ReportedModel, Section, render


def reproduce_section(models: Sequence[ReportedModel]) -> Section | None:
    """Never None."""
    body = render("sections/reproduce.html.j2", models=models)
    return Section("reproduce", "How to reproduce it", "Reproduce", body)
