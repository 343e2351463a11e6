"""Trained models side by side: from run folders, checkpoints and zoo names to one record, a table and a page."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import torch

from maxmahal.data import load_dataset
from maxmahal.density.measure import QUANTILES, DensityRecord, measure_model
from maxmahal.errors import ArgumentError
from maxmahal.evaluate.evaluated_model import first_images, load_target
from maxmahal.files import write_text_atomically
from maxmahal.imports import only_named
from maxmahal.models import Classifier
from maxmahal.report.chart import SERIES, Axis, Chart, Drawing, Key, Text, arranged
from maxmahal.report.layout import Section, html_page, render
from maxmahal.report.wording import short

FORMAT = "maxmahal-density-1"
DASH = "-"


def compare_models(
    targets: Sequence[str | Path],
    *,
    data: str | None = None,
    split: Literal["train", "test"] = "test",
    limit: int | None = None,
    trusted: Sequence[str] = (),
    data_dir: Path | None = None,
    device: torch.device | str = "auto",
) -> DensityRecord:
    """Measure every model on the same part of its data (or of ``data``); code in files runs only if ``trusted``."""
    if not targets:
        raise ArgumentError("Name at least one model: a run folder, a checkpoint or a name of the zoo.")
    models = []
    with only_named(data, trusted, targets):
        for target in targets:
            loaded = load_target(target, trusted=trusted, device=device)
            if loaded.card is None or not isinstance(loaded.model, Classifier):
                raise ArgumentError(
                    f"{loaded.name} shows no features; give a run folder or a checkpoint of `maxmahal train`."
                )
            images = load_dataset(data or loaded.card.settings.data.source, split, data_dir)
            images = first_images(images, limit).to(loaded.device)
            found = measure_model(loaded.model, images)
            models.append({"name": loaded.name, "data": images.name, "split": split} | found)
    return {"format": FORMAT, "models": models}


def table(record: DensityRecord) -> tuple[list[str], list[list[str]]]:
    """The names of the columns, a model each, and the rows under a first column of what is measured."""
    models = record["models"]
    rows = [
        ["loss", *(f"{each['loss']} in {each['dim']} dimensions" for each in models)],
        ["images", *(f"{each['samples']} of {each['data']}, {each['split']}" for each in models)],
        ["accuracy", *(f"{100 * each['accuracy']:.1f} %" for each in models)],
        ["mean loss", *(_number(each["losses"]["mean"]) for each in models)],
        *(
            [f"loss at {100 * place:.0f} %", *(_number(each["losses"]["quantiles"][str(place)]) for each in models)]
            for place in QUANTILES
        ),
        ["distance to class mean", *(_number(each["spread"]["to_mean"]) for each in models)],
        ["distance to class center", *(_number(each["spread"]["to_center"]) for each in models)],
        ["distance between class means", *(_number(each["spread"]["between_means"]) for each in models)],
        ["angles between class means", *(_angles(each["angles"]["means"]) for each in models)],
        ["angles between centers", *(_angles(each["angles"]["centers"]) for each in models)],
        *(
            [f"log density at loss {100 * quantile:.0f} %", *(_shell_density(each["shells"], place) for each in models)]
            for place, quantile in enumerate(QUANTILES)
        ),
        ["log density by neighbours", *(_number(each["neighbours"]["log_density"]) for each in models)],
        ["  with class distance as unit", *(_number(each["neighbours"]["unit_free"]) for each in models)],
        ["samples of a class, mean", *(_number(fmean(each["runners_up"]["class_counts"])) for each in models)],
        [
            "  with one runner-up, mean",
            *(_number(each["samples"] / each["classes"] / max(each["classes"] - 1, 1)) for each in models),
        ],
        ["  with its commonest runner-up", *(_commonest(each) for each in models)],
    ]
    return ["", *(each["name"] for each in models)], rows


def write_density_page(record: DensityRecord, path: Path) -> None:
    """The comparison as one HTML file."""
    write_text_atomically(path, render_density_page(record))


def render_density_page(record: DensityRecord) -> str:
    """The page's HTML: the table, and the distributions of the losses."""
    head, rows = table(record)
    body = render("density.html.j2", head=head, rows=rows, chart=draw_losses(record))
    section = Section("density", "Comparison", "Comparison", body)
    return html_page("Sample density in feature space", head[1:], [section], kicker="Density report")


def draw_losses(record: DensityRecord) -> Drawing:
    """Each model's distribution of losses on a logarithmic axis; losses of different models have different units."""
    models = [each for each in record["models"] if each["losses"]["counts"]]
    title = "Share of samples per step of log C"
    if not models:
        return Drawing(title, 400.0, 40.0, [Text(14.0, 24.0, "Every loss is 0 in double precision.")])
    shares = [[count / each["samples"] for count in each["losses"]["counts"]] for each in models]
    across = Axis.around("loss C", [edge for each in models for edge in each["losses"]["edges"]], "log")
    chart = Chart(title, across, Axis("share of samples", 0.0, 1.1 * max(map(max, shares))), width=640.0)
    for slot, (each, heights) in enumerate(zip(models, shares, strict=True)):
        chart.line(each["losses"]["edges"], [*heights, heights[-1]], slot % SERIES, steps=True)
    legend = [Key(f"s{slot % SERIES}", each["name"]) for slot, each in enumerate(models)]
    return arranged(title, [chart], legend=legend)


def _shell_density(shells: DensityRecord, place: int) -> str:
    found = shells["log_density"][place]
    return shells["why_none"] or DASH if found is None else short(found)


def _commonest(model: DensityRecord) -> str:
    """The mean share of a class that its most frequent runner-up takes; 1/(L-1) if they were all alike."""
    rows = [row for row in model["runners_up"]["pair_counts"] if sum(row)]
    return f"{100 * fmean([max(row) / sum(row) for row in rows]):.0f} %"


def _angles(found: DensityRecord | None) -> str:
    if found is None:
        return DASH
    return f"{found['smallest']:.0f}° to {found['largest']:.0f}°, mean {found['mean']:.0f}°"


def _number(value: float | int | None) -> str:
    return DASH if value is None else short(value)
