"""The comparison of models as one HTML file without scripts: the table, and the losses' distributions."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from maxmahal.density.compare import table
from maxmahal.density.drawing import Board, Panel, Scale
from maxmahal.files import write_text_atomically
from maxmahal.version import __version__

Record = dict[str, Any]
_TITLE = "Sample density in feature space"
_STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1b1d20;--soft:#565b62;--rim:#dfdcd5}
@media (prefers-color-scheme:dark){:root{--page:#121417;--ink:#e9ebee;--soft:#a7aeb7;--rim:#343a41}}
body{background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;
padding:0 1.25rem}
p,footer{color:var(--soft);max-width:44rem}footer{font-size:.85rem;margin-top:3rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;padding:.4rem 1rem .4rem 0;border-bottom:1px solid var(--rim);font-weight:400}
thead th{font-weight:600;overflow-wrap:anywhere}tbody th{color:var(--soft);white-space:pre}
"""
_WORDS = (
    "The sample density near a feature is the number of samples between two contours of the training loss over the "
    "volume between them (paper Eq. 2). Volumes are exact where the contours close; logarithms are natural, and per "
    "unit of feature volume, so that they compare models of one dimension only. With the mean distance between class "
    "means as the unit of length, the size of the features drops out."
)


def write_density_page(record: Record, path: Path) -> None:
    """``render_density_page`` as a file."""
    write_text_atomically(path, render_density_page(record))


def render_density_page(record: Record) -> str:
    """The page's HTML, made from a record of ``compare_models`` alone."""
    head, rows = table(record)
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in row[1:])}</tr>'
        for row in rows
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{_TITLE}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><h1>{_TITLE}</h1><p>{_WORDS}</p>"
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
        f"<h2>Distribution of the losses</h2>{draw_losses(record)}"
        f"<footer>maxmahal {escape(__version__)}</footer></body></html>\n"
    )


def draw_losses(record: Record) -> str:
    """Each model's share of samples by loss, on a logarithmic axis; models have losses of their own, so read shapes."""
    models: Sequence[Record] = [each for each in record["models"] if each["losses"]["counts"]]
    board = Board("Losses of the models: share of samples in each step of log C", 640.0, 330.0 + 18 * len(models))
    if not models:
        board.note("every loss is 0 to double precision", 60.0, 80.0)
        return board.render()
    shares = [[count / each["samples"] for count in each["losses"]["counts"]] for each in models]
    across = Scale.around([edge for each in models for edge in each["losses"]["edges"]], log=True)
    frame = Panel(board, across, Scale(0.0, 1.1 * max(map(max, shares))), 60.0, 44.0, 560.0, 230.0)
    frame.axes("loss C", "share of samples")
    for slot, (each, heights) in enumerate(zip(models, shares, strict=True)):
        edges = each["losses"]["edges"]
        corners = [(edge, height) for place, height in enumerate(heights) for edge in edges[place : place + 2]]
        frame.line(corners, slot % 7)
        board.entry(each["name"], slot % 7, 60.0, 334.0 + 18 * slot)
    return board.render()
