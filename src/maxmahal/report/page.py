"""The report page: one HTML file that needs only a browser, and no JavaScript to be read or printed."""

import base64
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from maxmahal.files import write_text_atomically
from maxmahal.records.types import Evaluation
from maxmahal.report.layout import Panel, ReportedModel, html_page, reported_models
from maxmahal.report.sections import make_sections
from maxmahal.report.sections.samples import sample_record
from maxmahal.report.tables import results_tables, to_csv
from maxmahal.report.templates import asset
from maxmahal.report.wording import listed, whole
from maxmahal.version import __version__


def write_page(evaluations: Sequence[Evaluation], path: Path) -> None:
    """Everything that the records say about these models, as one self-contained page."""
    write_text_atomically(path, render_page(evaluations))


def render_page(evaluations: Sequence[Evaluation]) -> str:
    """The page's HTML: the verdict on every model, then a panel that compares them and one for each."""
    models = reported_models(evaluations)
    if len(models) == 1:
        panels = [Panel("report", models[0].label, make_sections(models, ("compare", "model", "both")))]
    else:
        panels = [Panel("compare", "Compare", make_sections(models, ("compare", "both")))]
        for key, model in {f"model-{model.place + 1}": model for model in models}.items():
            panels.append(Panel(key, model.label, make_sections([model], ("model", "both"), f"{key}-"), model))
    unfinished = [model for model in models if not model.evaluation.finished]
    names, every = [model.label for model in models], [model.evaluation for model in models]
    subtitle = [
        _distinct(each.data for each in every),
        _distinct(model.threat for model in models),
        f"suite{'s' if len({each.suite for each in every}) > 1 else ''} {_distinct(each.suite for each in every)}",
        f"{_distinct(map(whole, sorted({each.samples for each in every})))} samples",
    ]
    title = f"Robustness of {listed(names) if len(names) <= 2 else f'{len(names)} models'}"
    top = make_sections(models, ("top",))
    return html_page(title, subtitle, top, panels, unfinished, _downloads(models))


def _downloads(models: Sequence[ReportedModel]) -> dict[str, tuple[str, str]]:
    """Files inside the page, each as its own address, for links that need no script."""
    tables = [to_csv(table) for table in results_tables([model.evaluation for model in models])]
    facts = {"maxmahal": __version__, "models": [sample_record(model) for model in models]}
    files = {
        "CSV": ("robustness.csv", "text/csv", "\n".join(tables)),
        "JSON": ("robustness.json", "application/json", json.dumps(facts, separators=(",", ":"))),
        "BibTeX": ("maxmahal.bib", "text/x-bibtex", asset("maxmahal.bib").replace("VERSION", __version__)),
    }
    encoded = {label: base64.b64encode(text.encode()).decode("ascii") for label, (_, _, text) in files.items()}
    return {label: (name, f"data:{kind};base64,{encoded[label]}") for label, (name, kind, _) in files.items()}


def _distinct(texts: Iterable[str]) -> str:
    return listed(list(dict.fromkeys(texts)))
