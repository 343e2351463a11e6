"""Figures from records, as files for papers and slides. A new one is one more function, and a line in ``FIGURES``."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from maxmahal.errors import ArgumentError, did_you_mean
from maxmahal.files import write_atomically
from maxmahal.records.naming import tell_apart
from maxmahal.records.types import Evaluation, Finding, Picture, StageRecords
from maxmahal.records.verdict import CLEAN, give_verdict, stands

# No dates, and ids that are drawn from a fixed salt: the same records give the same bytes.
METADATA: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
# The user's own matplotlibrc changes nothing, and a dollar sign in a model's name opens no formula.
_STYLE: list[str | dict[str, Any]] = ["default", {"svg.hashsalt": "maxmahal", "text.parse_math": False}]
_Numbers = Sequence[Any]  # out of JSON: whole ones among them, and None where something was not measured
_PICTURES = 8  # of each model in the gallery
_COLORS = 10  # that matplotlib goes through before it begins again


def write_figures(evaluations: Sequence[Evaluation], folder: Path, formats: Sequence[str]) -> list[Path]:
    """Every figure that the records have something for, in every format: ``folder/NAME.FORMAT``."""
    for wrong in [each for each in formats if each not in METADATA]:
        raise ArgumentError(f"Figures cannot be written as '{wrong}'; {did_you_mean(wrong, METADATA)}")
    written = []
    with style.context(_STYLE):
        for name, draw in FIGURES.items():
            if (figure := draw(evaluations)) is not None:
                written += [_save(figure, folder / f"{name}.{each}", each) for each in formats]
    return written


def epsilon_curves(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Accuracy against epsilon."""
    return _curves(evaluations, "epsilon-growth", [("epsilons", "accuracies", "epsilon")])


def budget_curves(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Accuracy against the number of steps and of restarts."""
    panels = [("steps", "accuracy_by_steps", "steps"), ("restarts", "accuracy_by_restarts", "restarts")]
    return _curves(evaluations, "still-falling", panels)


def training_curves(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Test error against training time (paper Fig. 3a)."""
    lines = []
    # Several suites share one training: it is drawn once.
    trained = list({each.model_fingerprint: each for each in evaluations}.values())
    for evaluation in trained:
        measured = [entry for entry in evaluation.training if entry.get("test_accuracy") is not None]
        seconds = [entry["train_seconds"] for entry in measured]
        lines.append((_name(evaluation, trained), seconds, [1 - entry["test_accuracy"] for entry in measured]))
    figure, (axis,) = _panels(1)
    _lines(axis, lines, "training time (s)", "test error (%)")
    return figure if axis.lines else None


def broken_bars(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Which attack broke what, in the order of the plan."""
    started = [each for each in evaluations if _started(each)]
    shares: dict[str, dict[int, float]] = {}
    for row, evaluation in enumerate(started):
        total = len(evaluation.stage(CLEAN).columns)
        standing = int(stands(evaluation).sum())
        broke = [(each.stage.title, each.broke) for each in give_verdict(evaluation).stages if each.broke]
        wrong = total - standing - sum(count for _, count in broke)
        for part, count in [("still right", standing), *broke, ("wrong before", wrong)]:
            of_part = shares.setdefault(part, {})  # two stages may share a title
            of_part[row] = of_part.get(row, 0.0) + 100 * count / total
    if not any(part not in ("still right", "wrong before") for part in shares):
        return None
    figure, (axis,) = _panels(1, height=1.6 + 0.4 * len(started))
    left = np.zeros(len(started))
    for part in sorted(shares, key=lambda part: (part != "still right", part == "wrong before")):
        widths = np.array([shares[part].get(row, 0.0) for row in range(len(started))])
        color = {"still right": "#d9d9d9", "wrong before": "#525252"}.get(part)
        axis.barh(np.arange(len(started)), widths, left=left, label=_legible(part), color=color)
        left += widths
    axis.set_yticks(np.arange(len(started)), [_name(each, evaluations) for each in started])
    axis.invert_yaxis()
    axis.set_xlabel("samples (%)")
    axis.set_xlim(0, 100)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def transfer_matrix(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Accuracy of each model (rows) on images crafted on another (columns); the lower where a pair has several."""
    cells: dict[tuple[str, str], float] = {}
    for evaluation in evaluations:
        for stage in _stages(evaluation, "transfer"):
            key = (_name(evaluation, evaluations), str(stage.settings.get("source", stage.title)))
            cells[key] = min(cells.get(key, 1.0), float(stage.columns.right_share.mean()))
    if not cells:
        return None
    models, sources = (list(dict.fromkeys(key[place] for key in cells)) for place in (0, 1))
    grid = np.array([[cells.get((model, source), np.nan) for source in sources] for model in models])
    figure, (axis,) = _panels(1, width=2.5 + 0.9 * len(sources), height=1.8 + 0.6 * len(models))
    image = axis.imshow(100 * grid, vmin=0, vmax=100, cmap="viridis", aspect="auto")
    for (row, column), share in np.ndenumerate(grid):
        text = "" if np.isnan(share) else f"{100 * share:.1f}"
        axis.text(column, row, text, ha="center", va="center", color="black" if share > 0.6 else "white")
    axis.set_xticks(np.arange(len(sources)), sources, rotation=30, ha="right")
    axis.set_yticks(np.arange(len(models)), models)
    axis.set_xlabel("crafted on")
    axis.set_ylabel("shown to")
    figure.colorbar(image, label="accuracy (%)")
    return figure


def distortion_histograms(evaluations: Sequence[Evaluation]) -> Figure | None:
    """How far the Carlini-Wagner attacks had to go, one panel an attack."""
    panels: dict[str, dict[str, np.ndarray]] = {}
    for evaluation in evaluations:
        for stage in _stages(evaluation, "carlini"):
            columns = stage.columns
            found = columns.distortion[columns.broken & columns.right_before & np.isfinite(columns.distortion)]
            if len(found):
                panels.setdefault(stage.title, {})[_name(evaluation, evaluations)] = found
    if not panels:
        return None
    figure, axes = _panels(len(panels))
    for axis, (title, models) in zip(axes, panels.items(), strict=True):
        bins = np.linspace(0, max(found.max() for found in models.values()) or 1.0, 31).tolist()
        for name, found in models.items():
            axis.hist(found, bins=bins, histtype="step", linewidth=1.5, label=_legible(name))
        axis.set_title(title)
        axis.set_xlabel("distance of the nearest adversarial image")
        axis.set_ylabel("samples")
        axis.legend(frameon=False)
    return figure


def feature_space(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Features in the plane in the colours of their classes, a row a model and a column a stage; centers as crosses."""
    shown = [each for each in evaluations if each.points]
    if not shown:
        return None
    width = max(len(each.points) for each in shown)
    figure = Figure(figsize=(4.0 * width, 3.6 * len(shown)), layout="constrained")
    for row, axes in zip(shown, figure.subplots(len(shown), width, squeeze=False), strict=True):
        for axis in axes[len(row.points) :]:
            axis.set_axis_off()
        for axis, points in zip(axes, row.points, strict=False):
            colors = [f"C{label % _COLORS}" for label in points.label]
            axis.scatter(points.xy[:, 0], points.xy[:, 1], s=9, alpha=0.7, linewidths=0, c=colors)
            if row.centers_xy is not None:
                axis.scatter(row.centers_xy[:, 0], row.centers_xy[:, 1], marker="x", s=60, color="black", zorder=3)
            titles = {stage.name: stage.title for stage in row.stages}
            axis.set_title(f"{_name(row, evaluations)}: {titles.get(points.stage, points.stage)}", fontsize=9)
            axis.set_aspect("equal", adjustable="datalim")
            axis.grid(alpha=0.2)
    names = {each.class_names for each in shown}
    if len(names) == 1 and len(shown[0].class_names) <= _COLORS:  # beyond that a colour names no class
        handles = [
            Line2D([], [], color=f"C{label}", marker="o", linestyle="", label=_legible(name))
            for label, name in enumerate(shown[0].class_names)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False)
    return figure


def gallery(evaluations: Sequence[Evaluation]) -> Figure | None:
    """Clean images above those that broke them, two rows of pictures a model."""
    shown = [each for each in evaluations if each.pictures]
    if not shown:
        return None
    width = min(_PICTURES, max(len(each.pictures) for each in shown))
    figure = Figure(figsize=(1.3 * width + 1, 3.2 * len(shown)), layout="constrained")
    grid = figure.subplots(2 * len(shown), width, squeeze=False)
    for axis in grid.flat:
        axis.set_axis_off()
    for row, evaluation in enumerate(shown):
        for column, picture in enumerate(evaluation.pictures[:_PICTURES]):
            _show_pair(grid[2 * row, column], grid[2 * row + 1, column], picture, evaluation.class_names)
        grid[2 * row, 0].text(0, 1.35, _name(evaluation, evaluations), transform=grid[2 * row, 0].transAxes, fontsize=9)
    return figure


FIGURES: dict[str, Callable[[Sequence[Evaluation]], Figure | None]] = {
    "accuracy-by-epsilon": epsilon_curves,
    "accuracy-by-budget": budget_curves,
    "training": training_curves,
    "broken-by": broken_bars,
    "transfer": transfer_matrix,
    "distortion": distortion_histograms,
    "features": feature_space,
    "gallery": gallery,
}


def _save(figure: Figure, path: Path, each: str) -> Path:
    options: dict[str, Any] = {"dpi": 130, "format": each, "metadata": METADATA[each]}
    write_atomically(path, lambda temporary: figure.savefig(temporary, **options), within=path.parent)
    return path


def _panels(count: int, width: float = 4.8, height: float = 3.6) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(width * count, height), layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _curves(evaluations: Sequence[Evaluation], check: str, panels: Sequence[tuple[str, str, str]]) -> Figure | None:
    """One panel for each pair of lists that a check's findings hold, one line a model."""
    found = [(each, finding) for each in evaluations for finding in each.findings if finding.check == check]
    pairs = [panel for panel in panels if any(_has(finding, *panel[:2]) for _, finding in found)]
    if not pairs:
        return None
    figure, axes = _panels(len(pairs))
    for axis, (x, y, label) in zip(axes, pairs, strict=True):
        having = [(each, finding.numbers) for each, finding in found if _has(finding, x, y)]
        lines = [(_name(each, evaluations), numbers[x], numbers[y]) for each, numbers in having]
        _lines(axis, lines, label, "accuracy (%)")
    return figure


def _has(finding: Finding, x: str, y: str) -> bool:
    return bool(finding.numbers.get(x)) and bool(finding.numbers.get(y))


def _lines(axis: Axes, lines: Sequence[tuple[str, _Numbers, _Numbers]], x: str, y: str) -> None:
    for name, places, shares in lines:
        if places:
            axis.plot(places, 100 * np.array(shares, dtype=float), marker="o", markersize=3, label=_legible(name))
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.2)
    if axis.lines:
        axis.legend(frameon=False)


def _show_pair(above: Axes, below: Axes, picture: Picture, names: Sequence[str]) -> None:
    pairs = ((above, picture.clean, picture.clean_prediction), (below, picture.adversarial, picture.prediction))
    for axis, image, prediction in pairs:
        gray = image.shape[0] == 1
        pixels = image[0] if gray else image.transpose(1, 2, 0)
        axis.imshow(np.clip(pixels, 0, 1), cmap="gray" if gray else None, vmin=0, vmax=1)
        axis.set_title(names[prediction] if prediction < len(names) else str(prediction), fontsize=8)


def _started(evaluation: Evaluation) -> bool:
    return any(stage.name == CLEAN and len(stage.columns) for stage in evaluation.stages)


def _stages(evaluation: Evaluation, kind: str) -> list[StageRecords]:
    """The stages of a kind that say something about every sample, not only about who was left."""
    return [each for each in evaluation.stages if each.kind == kind and each.scope == "all" and len(each.columns)]


def _name(evaluation: Evaluation, among: Sequence[Evaluation]) -> str:
    """The model's name, with what tells it from others of the same name."""
    return next(name for each, name in zip(among, tell_apart(among), strict=True) if each is evaluation)


def _legible(label: str) -> str:
    return f" {label}" if label.startswith("_") else label  # matplotlib leaves out labels with an underscore in front
