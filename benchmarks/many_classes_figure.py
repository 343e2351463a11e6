"""The picture of the many-classes benchmark: time and memory over the number of classes, for light and dark."""

import math
from typing import Any

from markupsafe import Markup

from many_classes_measures import fit_power
from maxmahal.report.scales import Axis
from maxmahal.report.svg import Chart, element
from paper.pages.drawing import as_file

WIDTH, HEIGHT, TOP, LINE = 350.0, 300.0, 62.0, 20.0
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
    parts = [element("text", title, class_="head", x=14.0, y=LINE)]
    for place, (field, (name, unit)) in enumerate(CHARTS.items()):
        parts.append(element("text", name, class_="name", x=place * WIDTH + 52, y=2.3 * LINE))
        parts.append(_placed(_chart(record["rows"], field, name, unit), place * WIDTH))
    for slot, name in enumerate(NAMES.values()):
        x, y = 24.0 + slot % 3 * WIDTH, TOP + HEIGHT + LINE * (1 + slot // 3)
        parts.append(element("rect", class_=f"bar s{slot}", x=x, y=y - 9, width=10.0, height=10.0, rx=2))
        parts.append(element("text", name, class_="name", x=x + 15, y=y))
    return as_file(title, parts, len(CHARTS) * WIDTH, TOP + HEIGHT + 3 * LINE)


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
                power = fit_power([row["num_classes"] for row in line], [row[field] for row in line])
                found.append({"what": what, "of": field, "from": start, **vars(power)})
    return found


def _placed(chart: Chart, x: float) -> Markup:
    place = f'<svg x="{x:g}" y="{TOP - 10:g}" width="{WIDTH:g}" height="{HEIGHT:g}" '
    return Markup(str(chart.render()).replace("<svg ", place, 1))
