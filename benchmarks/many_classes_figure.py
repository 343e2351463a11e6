"""The picture of the many-classes benchmark: time and memory over the number of classes, for light and dark."""

import math
from typing import Any

import numpy as np
from scipy.stats import linregress

from maxmahal.report.chart import Axis, Chart, Key, arranged

WIDTH, HEIGHT = 350.0, 300.0
NAMES = {
    "mmc_loss": "MMC, training: loss and gradient",
    "sce_step": "SCE, training: head, loss, update",
    "arcface_step": "ArcFace, training: head, loss, update",
    "mmc_logits": "MMC, prediction",
    "centers": "making the centers, once",
}
CHARTS = {
    "ms": ("time of one call", "milliseconds"),
    "peak_mb": ("memory of one call", "MB at the peak"),
    "held_mb": ("memory held between calls (SCE as ArcFace)", "MB"),
}
# Below these sizes something else than the classes dominates; centers are made in another way there.
FITTED_FROM, CENTERS_FITTED_FROM = 1_000, 3_000


def draw(record: dict[str, Any]) -> str:
    """Three charts side by side under one legend."""
    title = f"Many classes: d = {record['dim']}, batch {record['batch_size']}, {record['device']}"
    charts = [_chart(record["rows"], field, name, unit) for field, (name, unit) in CHARTS.items()]
    legend = [Key(f"s{slot}", name) for slot, name in enumerate(NAMES.values())]
    return arranged(title, charts, len(charts), legend).file()


def _chart(rows: list[dict[str, Any]], field: str, name: str, unit: str) -> Chart:
    lines = {key: [row for row in rows if row["what"] == key and row.get(field)] for key in NAMES}
    values = [row[field] for line in lines.values() for row in line]
    low, high = (10.0 ** step(math.log10(pick(values))) for step, pick in ((math.floor, min), (math.ceil, max)))
    sizes = sorted({float(row["num_classes"]) for row in rows})
    chart = Chart(
        name,
        Axis("classes", sizes[0], sizes[-1], "log", text=_short),
        Axis(unit, low, high, "log", text=_short),
        width=WIDTH,
        height=HEIGHT,
    )
    for slot, line in enumerate(lines.values()):
        if line:
            xs, ys = [float(row["num_classes"]) for row in line], [row[field] for row in line]
            chart.line(xs, ys, slot)
            chart.points(xs, ys, slot, [f"{x:,.0f} classes: {y:.3g} {unit}" for x, y in zip(xs, ys, strict=True)])
    return chart


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def exponents(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The powers of the number of classes that time and memory grow with, over the largest decades."""
    found = []
    for what in dict.fromkeys(row["what"] for row in rows):
        start = CENTERS_FITTED_FROM if what == "centers" else FITTED_FROM
        line = [row for row in rows if row["what"] == what and row["num_classes"] >= start]
        for field in CHARTS:
            if len(line) >= 3 and all(row.get(field) for row in line):
                power = linregress(*np.log([[row["num_classes"], row[field]] for row in line]).T)
                slope, error = float(power.slope), float(power.stderr)
                found.append({"what": what, "of": field, "from": start, "exponent": slope, "standard_error": error})
    return found
