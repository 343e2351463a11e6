"""A picture of two-dimensional feature spaces, one panel a model."""

from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.files import write_atomically


@dataclass(frozen=True)
class FeaturePanel:
    """The features of one model's test images; ``centers`` is None where the loss has none."""

    title: str
    features: Float[Tensor, "n 2"]
    labels: Int[Tensor, " n"]
    centers: Float[Tensor, "l 2"] | None


def plot_features(panels: list[FeaturePanel], class_names: tuple[str, ...], path: Path) -> None:
    """Scatter each model's features in the colours of their classes, its centers as crosses, and save a PNG."""
    # The object interface draws without a display and leaves the caller's pyplot state alone.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * len(panels), 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, panel in zip(axes, panels, strict=True):
        for label, name in enumerate(class_names):
            points = panel.features[panel.labels == label]
            axis.scatter(points[:, 0], points[:, 1], s=9, alpha=0.7, linewidths=0, color=f"C{label % 10}", label=name)
        if panel.centers is not None:
            axis.scatter(
                panel.centers[:, 0], panel.centers[:, 1], marker="x", s=60, color="black", linewidths=1.5, zorder=3
            )
        axis.set_title(panel.title)
        axis.set_aspect("equal", adjustable="datalim")
        axis.grid(alpha=0.2)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), markerscale=2.5, frameon=False)
    write_atomically(path, lambda temporary: figure.savefig(temporary, dpi=130, format="png"))
