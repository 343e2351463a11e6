"""How to reproduce each evaluation."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.report.layout import ReportedModel, Section, render


@dataclass(frozen=True)
class ReproductionSteps:
    """One evaluation."""

    model: ReportedModel
    command: str
    facts: tuple[tuple[str, str], ...]
    stages: tuple[tuple[StageRecords, str], ...]
    """With the settings of each, as JSON."""
    training: str


def reproduce_section(models: Sequence[ReportedModel]) -> Section | None:
    """Never None."""
    body = render("sections/reproduce.html.j2", recipes=[_recipe(model) for model in models])
    return Section("reproduce", "How to reproduce it", "Reproduce", body)


def _recipe(model: ReportedModel) -> ReproductionSteps:
    each = model.evaluation
    settings = each.model.get("settings") or {}
    return ReproductionSteps(
        model,
        str(each.environment.get("command") or ""),
        tuple((name, value) for name, value in _facts(each) if value),
        tuple((stage, _json(stage.settings)) for stage in each.stages),
        _json(settings) if settings else "",
    )


def _facts(evaluation: Evaluation) -> list[tuple[str, str]]:
    environment, model = evaluation.environment, evaluation.model
    versions = environment.get("versions") or {}
    stochastic = f"stochastic; {model.get('draws')} draws per sample" if model.get("stochastic") else "deterministic"
    parameters = model.get("parameters")
    return [
        ("Suite", f"{evaluation.suite}, version {evaluation.suite_version}: {evaluation.suite_about}"),
        ("Threat", f"{evaluation.norm} {evaluation.epsilon} (radius {evaluation.radius!r})"),
        ("Target", evaluation.target),
        ("Data", f"{evaluation.data}, {evaluation.samples:,} samples"),
        ("Seed", str(evaluation.seed)),
        ("Model", f"{model.get('kind', '')}" + (f", {parameters:,} parameters" if isinstance(parameters, int) else "")),
        ("Loss", str(model.get("loss") or "")),
        ("Predictions", stochastic),
        ("Model fingerprint", evaluation.model_fingerprint),
        ("Data fingerprint", evaluation.data_fingerprint),
        ("Commit", str(environment.get("commit") or "")),
        ("Device", str(environment.get("device") or "")),
        ("Threads", str(environment.get("threads") or "")),
        ("Started", str(environment.get("started") or "")),
        ("Versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
    ]


def _json(settings: dict[str, object]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False, default=str)
