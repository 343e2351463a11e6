"""The report's charts as files for papers and slides. A new one is one more function, and a line in ``FIGURES``."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import patheffects, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxmahal.errors import ArgumentError, did_you_mean
from maxmahal.files import write_atomically
from maxmahal.records.types import Evaluation, Points
from maxmahal.report import chart
from maxmahal.report.chart import CLASSES, MARGIN, Area, Drawing, DrawingPart, Key, Text, arranged, palette
from maxmahal.report.layout import ReportedModel, group_models, reported_models, stage_title
from maxmahal.report.sections.attacks import breakdowns
from maxmahal.report.sections.curves import curve_charts, distortion_histograms
from maxmahal.report.sections.samples import SIDE, bounds_of, choose, class_name, place_points
from maxmahal.report.sections.training import trained_models, training_chart
from maxmahal.report.sections.transfer import transfer_matrices
from maxmahal.report.sections.verdict import accuracy_scatters

# No dates: the same records give the same bytes.
METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {}, "pdf": {"CreationDate": None}}
# The user's own matplotlibrc changes nothing, and a dollar sign in a model's name starts no formula.
STYLE: list[str | dict[str, Any]] = ["default", {"text.parse_math": False}]
_DPI = 100  # at which a unit of a drawing is a pixel
_PICTURES = 8  # per model
_PICTURE = 92.0
_BAR = 420.0


def write_figures(evaluations: Sequence[Evaluation], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Every figure that the records have data for, in every format: ``folder/NAME.FORMAT``."""
    for wrong in [each for each in formats if each not in METADATA]:
        raise ArgumentError(f"Figures cannot be written as '{wrong}'; {did_you_mean(wrong, METADATA)}")
    models, written = reported_models(evaluations) if evaluations else [], []
    for name, draw in FIGURES.items():
        if models and (drawing := draw(models)) is not None:
            for each in formats:
                write_drawing(drawing, folder / f"{name}.{each}", each)
                written.append(folder / f"{name}.{each}")
    return written


def write_drawing(drawing: Drawing, path: Path, format: str) -> None:
    """An SVG as it is, or what matplotlib makes of it."""

    def write(temporary: Path) -> None:
        if format == "svg":
            temporary.write_text(drawing.file(), encoding="utf-8")
        else:
            with style.context(STYLE):
                paint(drawing).savefig(temporary, dpi=2 * _DPI, format=format, metadata=METADATA[format])

    write_atomically(path, write)


def paint(drawing: Drawing) -> Figure:
    """The drawing on matplotlib's canvas, in the colours of the light theme."""
    figure = Figure(figsize=(drawing.width / _DPI, drawing.height / _DPI), dpi=_DPI, facecolor=palette()["card"])
    axis = figure.add_axes((0, 0, 1, 1))
    axis.set_axis_off()
    for order, part in enumerate(drawing.parts):
        _paint(axis, part, order)
    axis.set_xlim(0, drawing.width)
    axis.set_ylim(drawing.height, 0)
    return figure


def _paint(axis: Axes, part: DrawingPart, order: int) -> None:
    unit = 72 / _DPI  # matplotlib measures lines and letters in points
    if isinstance(part, chart.Pixels):
        image = np.clip(part.image, 0, 1)
        shown = image.transpose(1, 2, 0) if len(image) == 3 else image[0]
        extent = (part.x, part.x + part.side, part.y + part.side, part.y)
        axis.imshow(shown, "gray", vmin=0, vmax=1, extent=extent, aspect="auto", interpolation="nearest", zorder=order)
        return
    colour = palette()[part.ink]
    if isinstance(part, Text):
        halo = [patheffects.withStroke(linewidth=3.5 * unit, foreground=palette()["card"])] if part.halo else []
        look: dict[str, Any] = {"ha": {"start": "left", "middle": "center", "end": "right"}[part.anchor]}
        look |= {"va": "baseline", "rotation": 90, "rotation_mode": "anchor"} if part.upright else {"va": "baseline"}
        look |= {"weight": "bold" if part.bold else "normal", "path_effects": halo, "zorder": order}
        axis.text(part.x, part.y, part.text, color=colour, size=part.size * unit, **look)
    elif isinstance(part, chart.Mark):
        look = {"markersize": 7 * unit, "markeredgecolor": palette()["card"], "markeredgewidth": unit}
        axis.plot(part.x, part.y, "osD^"[part.shape], color=colour, zorder=order, **look)
    elif isinstance(part, Area):
        axis.fill(*zip(*part.points, strict=True), color=colour, alpha=part.opacity, linewidth=0, zorder=order)
    elif isinstance(part, chart.Dots):
        look = {"markersize": 2 * part.radius * unit, "markeredgewidth": 0, "linestyle": "none"}
        axis.plot(*zip(*part.points, strict=True), marker="o", color=colour, alpha=part.opacity, zorder=order, **look)
    else:
        dash = (0, (5 / part.width, 4 / part.width)) if part.dash else "-"
        look = {"linewidth": part.width * unit, "linestyle": dash, "solid_capstyle": "round"}
        axis.plot(*zip(*part.points, strict=True), color=colour, alpha=part.opacity, zorder=order, **look)


def _curves(models: Sequence[ReportedModel], title: str, check: str) -> Drawing | None:
    found = [each for group in group_models(models) for each in curve_charts(group) if each.check == check]
    if not found:
        return None
    slots = {line.model.label: line.model.slot for each in found for line in each.lines}
    return arranged(title, [each.chart for each in found], 2, [Key(f"s{slot}", label) for label, slot in slots.items()])


def _charts(
    models: Sequence[ReportedModel], title: str, find: Callable[[Sequence[ReportedModel]], Sequence[Drawing]]
) -> Drawing | None:
    charts = find(models)
    return arranged(title, charts, 2) if charts else None


def _distortions(models: Sequence[ReportedModel]) -> list[Drawing]:
    return [each.chart for group in group_models(models) for each in distortion_histograms(group)]


def training_curves(models: Sequence[ReportedModel]) -> Drawing | None:
    """Test error against training time (paper Fig. 3a)."""
    # Several suites share one training: it is drawn once.
    trained = list({each.evaluation.model_fingerprint: each.evaluation for each in reversed(models)}.values())[::-1]
    once = trained_models(reported_models(trained))
    if not once:
        return None
    drawing = training_chart(once)
    return arranged(drawing.title, [drawing], legend=[Key(f"s{model.slot}", model.label) for model in once])


def broken_bars(models: Sequence[ReportedModel]) -> Drawing | None:
    """Which attack broke what share of the samples, in the order of the plan."""
    bars = breakdowns(models)
    outcomes = dict.fromkeys(part.title for bar in bars for part in bar.parts if part.kind == "broke" and part.count)
    if not outcomes:
        return None
    names = 16 + 7.2 * max(len(bar.model.label) for bar in bars)
    inks = {title: f"s{slot % chart.SERIES}" for slot, title in enumerate(outcomes)}
    parts: list[DrawingPart] = []
    for row, bar in enumerate(bars):
        left, top = names, 30.0 * row
        parts.append(Text(names - 8, top + 16, bar.model.label, "ink", anchor="end"))
        for each in (share for share in bar.parts if share.count):
            right = left + _BAR * each.share
            box = [(left, top), (right, top), (right, top + 22), (left, top + 22)]
            parts.append(Area(box, inks.get(each.title, each.kind), tip=f"{each.title}: {100 * each.share:.1f} %"))
            left = right
    legend = [Key("wrong", "wrong without an attack"), *(Key(ink, title) for title, ink in inks.items())]
    drawing = Drawing("Which attack broke which samples", names + _BAR, 30.0 * len(bars), parts)
    return arranged(drawing.title, [drawing], legend=[*legend, Key("stand", "robust")])


def transfer_matrix(models: Sequence[ReportedModel]) -> Drawing | None:
    """Accuracy of each model on images crafted on another."""
    maps = []
    for matrix in (matrix for group in group_models(models) for matrix in transfer_matrices(group)):
        rates = [[rate.value if rate else None for _, _, rate in cells] for _, cells in matrix.rows]
        names = [target.label for target in matrix.targets]
        maps.append(chart.heat_map(matrix.title, [source for source, _ in matrix.rows], names, rates))
    return arranged("Accuracy in %: crafted on (rows), target (columns)", maps) if maps else None


def feature_space(models: Sequence[ReportedModel]) -> Drawing | None:
    """Two-dimensional views of the features in the colours of their classes; centers as crosses."""
    shown = [model for model in models if model.evaluation.points]
    if not shown:
        return None
    names = {model.evaluation.class_names for model in shown}
    legend = [Key(f"c{label}", name) for label, name in enumerate(shown[0].evaluation.class_names)]
    few = len(names) == 1 and len(legend) <= CLASSES  # with more classes than colours, a colour names no class
    columns = max(len(model.evaluation.points) for model in shown)
    panels = []
    for model in shown:  # one row per model
        row = [_scatter(model, points) for points in model.evaluation.points]
        panels += row + [Drawing("", SIDE, SIDE)] * (columns - len(row))
    return arranged("Feature space", panels, columns, legend if few else ())


def _scatter(model: ReportedModel, points: Points) -> Drawing:
    evaluation, bounds = model.evaluation, bounds_of(model.evaluation)
    places, finite = place_points(points.xy, bounds).tolist(), np.isfinite(points.xy).all(axis=1)
    parts: list[DrawingPart] = []
    for label in np.unique(points.label):
        chosen = [tuple(places[row]) for row in np.flatnonzero(finite & (points.label == label))]
        parts.append(chart.Dots(chosen, f"c{label % CLASSES}", 2.6, 0.7))
    if evaluation.centers_xy is not None:
        parts += [part for x, y in place_points(evaluation.centers_xy, bounds).tolist() for part in chart.cross(x, y)]
    return Drawing(f"{model.label}: {stage_title(evaluation, points.stage)}", SIDE, SIDE, parts)


def adversarial_images(models: Sequence[ReportedModel]) -> Drawing | None:
    """Clean images above the adversarial ones, with the model's predictions."""
    rows = []
    for model in (model for model in models if model.evaluation.pictures):
        parts: list[DrawingPart] = []
        for place, each in enumerate(choose(model.evaluation.pictures)[:_PICTURES]):
            x = place * (_PICTURE + MARGIN)
            pair = ((each.clean, each.clean_prediction), (each.adversarial, each.prediction))
            for line, (image, prediction) in enumerate(pair):
                y = line * (_PICTURE + 24)
                parts.append(Text(x, y + 12, class_name(model.evaluation, prediction), "ink"))
                parts.append(chart.Pixels(x, y + 18, _PICTURE, image))
        rows.append(Drawing(model.label, x + _PICTURE, 2 * (_PICTURE + 24), parts))
    return arranged("Clean and adversarial images", rows) if rows else None


FIGURES: dict[str, Callable[[Sequence[ReportedModel]], Drawing | None]] = {
    "accuracy-by-epsilon": partial(_curves, title="Accuracy against epsilon", check="epsilon-growth"),
    "accuracy-by-budget": partial(_curves, title="Accuracy against steps and restarts", check="still-falling"),
    "clean-robust": partial(_charts, title="Clean and worst-case accuracy", find=accuracy_scatters),
    "training": training_curves,
    "broken-by": broken_bars,
    "transfer": transfer_matrix,
    "distortion": partial(_charts, title="Distortion that C&W needs", find=_distortions),
    "features": feature_space,
    "gallery": adversarial_images,
}
