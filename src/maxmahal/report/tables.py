"""Tables of results with the paper's numbers beside them, written as Markdown, CSV or LaTeX."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from maxmahal.files import parse_toml
from maxmahal.records.export import csv_text
from maxmahal.records.statistics import Rate
from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN
from maxmahal.report.layout import ReportedModel, reported_models


@dataclass(frozen=True)
class TableCell:
    """The text, and the unrounded number behind it (None if it is no single number)."""

    text: str
    value: float | int | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class ResultsTable:
    """A title, a header and rows as wide as it; accuracies are in percent."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]


@dataclass(frozen=True)
class PaperNumber:
    """One cell of the paper's tables."""

    source: str  # the table and its row, such as "Table 1, MMC-10"
    text: str  # as printed: "36.0", "<= 1"
    value: float  # in percent, or a mean L2 distance for the Carlini-Wagner attacks; of a bound, the bound itself
    bound: bool  # whether the paper only says that the number is at most this


_Column = tuple[str, list[TableCell]]
_NOT_YET = TableCell("not run yet")
_BOUND = "<= "


def results_tables(evaluations: Sequence[Evaluation]) -> list[ResultsTable]:
    """One table for each suite, data set and threat: only within these can models be compared."""
    groups: dict[str, list[Evaluation]] = {}
    for each in evaluations:
        threat, version = f"{each.norm} {each.epsilon}", f"{each.suite} version {each.suite_version}"
        groups.setdefault(f"{each.data}, {threat}, suite {version}", []).append(each)
    return [_results_table(title, group) for title, group in groups.items()]


def _results_table(title: str, evaluations: Sequence[Evaluation]) -> ResultsTable:
    """One row per model, and a column for every attack on any of them."""
    rows = reported_models(evaluations)
    counts = [(row.verdict.clean.total if row.verdict else 0, row.evaluation.samples) for row in rows]
    columns: list[_Column] = [
        ("model", [TableCell(row.label) for row in rows]),
        ("samples", [TableCell(str(n) if n == every else f"{n} of {every}", n) for n, every in counts]),
        ("clean (%)", [_rate_cell(row.verdict.clean) if row.verdict else _NOT_YET for row in rows]),
        *_paper_column("clean (%)", CLEAN, rows),
    ]
    for key, header in _stage_headers(rows).items():
        columns += [(header, [_stage_cell(row, *key) for row in rows]), *_paper_column(header, key[0], rows)]
    columns.append(("worst case (%)", [_worst_case(row) for row in rows]))
    headers, cells = zip(*columns, strict=True)
    return ResultsTable(title, headers, tuple(zip(*cells, strict=True)))


def paper_number(table: str, stage_name: str) -> list[PaperNumber]:
    """What each table prints for the rows that a preset's ``table`` names, in order; they need not agree."""
    numbers = []
    for place in table.split(";"):
        name, _, row = place.strip().partition(", ")
        for source in (name, *_tables().get(name, {}).get("also", ())):
            content = _tables().get(source, {"rows": {}})
            if row in content["rows"] and stage_name in content["stages"]:
                text = content["rows"][row][content["stages"].index(stage_name)]
                value, bound = float(text.removeprefix(_BOUND)), text.startswith(_BOUND)
                numbers.append(PaperNumber(f"{source}, {row}", text, value, bound))
    return numbers


def to_markdown(table: ResultsTable) -> str:
    """A pipe table below its title."""
    lines = [_markdown_row(table.header), "|---|" + "---:|" * (len(table.header) - 1)]
    lines += [_markdown_row([cell.text for cell in row]) for row in table.rows]
    return "\n".join([f"**{_escape_markdown(table.title)}**", "", *lines, ""])


def to_csv(table: ResultsTable) -> str:
    """Unrounded numbers, and text if a cell is no number; an interval gets two columns of its own."""
    wide = [any(row[place].interval for row in table.rows) for place in range(len(table.header))]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = []
    for name, spread in zip(table.header, wide, strict=True):
        header += [name, f"{name} low", f"{name} high"] if spread else [name]
    writer.writerow(map(csv_text, header))
    for row in table.rows:
        fields: list[object] = []
        for cell, spread in zip(row, wide, strict=True):
            fields.append(csv_text(cell.text) if cell.value is None else cell.value)
            fields += (cell.interval or ("", "")) if spread else ()
        writer.writerow(fields)
    return stream.getvalue()


def to_latex(table: ResultsTable) -> str:
    r"""A ``tabular`` for the booktabs package; its title is a comment, as the caption is the author's."""
    lines = [
        f"% {' '.join(table.title.split())}",
        rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}",
        r"\toprule",
        _latex_row(table.header),
        r"\midrule",
        *(_latex_row([cell.text for cell in row]) for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([*lines, ""])


@cache
def _tables() -> dict[str, Any]:
    text = (resources.files("maxmahal") / "report" / "assets" / "paper.toml").read_text(encoding="utf-8")
    return parse_toml(text)


def _worst_case(row: ReportedModel) -> TableCell:
    if row.verdict is None:
        return _NOT_YET
    if not row.verdict.attacked:
        return TableCell("no attack applies" if row.evaluation.finished else "no attack finished yet")
    robust = row.verdict.robust
    low, high = robust.interval
    text = str(robust).replace(" %", "") + ("" if row.evaluation.finished else " so far")
    return TableCell(text, 100 * robust.count / robust.total, (100 * low, 100 * high))


def _stage_headers(rows: Sequence[ReportedModel]) -> dict[tuple[str, bool], str]:
    """Headers by the stage's name and whether it is cumulative; a title that two stages share gets their names."""
    found: dict[tuple[str, bool], StageRecords] = {}
    for row in rows:
        for column in row.verdict.stages if row.verdict else ():
            if column.stage.name != CLEAN:
                found.setdefault((column.stage.name, column.cumulative), column.stage)
    names: dict[str, set[str]] = {}
    for stage in found.values():
        names.setdefault(stage.title, set()).add(stage.name)
    headers = {}
    for (name, cumulative), stage in found.items():
        title = stage.title if len(names[stage.title]) == 1 else f"{stage.title} ({name})"
        unit = "mean distortion" if stage.is_minimum_norm else "%, cumulative" if cumulative else "%"
        headers[name, cumulative] = f"{title} ({unit})"
    return headers


def _stage_cell(row: ReportedModel, name: str, cumulative: bool) -> TableCell:
    found = row.verdict.stages if row.verdict else ()
    column = next((each for each in found if (each.stage.name, each.cumulative) == (name, cumulative)), None)
    if column is None:
        return TableCell("")
    stage = column.stage
    if stage.skipped:
        return TableCell("skipped")
    if column.accuracy is None:
        return _NOT_YET
    if stage.is_minimum_norm:
        distance = stage.mean_distortion
        cell = TableCell("none broken") if distance is None else TableCell(f"{distance:.3f}", distance)
    else:
        cell = _rate_cell(column.accuracy)
    return cell if stage.finished else TableCell(f"{cell.text} so far", cell.value)


def _paper_column(header: str, stage_name: str, rows: Sequence[ReportedModel]) -> list[_Column]:
    """A column of the paper's numbers, unless it has none for any of these models."""

    def cell(row: ReportedModel) -> TableCell:
        numbers = paper_number(row.evaluation.model.get("table", ""), stage_name)
        if len({number.text for number in numbers}) > 1:
            return TableCell(", ".join(f"{number.text} ({number.source.partition(',')[0]})" for number in numbers))
        return TableCell(numbers[0].text, None if numbers[0].bound else numbers[0].value) if numbers else TableCell("")

    cells = [cell(row) for row in rows]
    return [(f"paper: {header}", cells)] if any(each.text for each in cells) else []


def _rate_cell(rate: Rate) -> TableCell:
    """Without its interval, unless it is 0 or 100 %: a bare 0.0 would claim more than the samples show."""
    extreme = rate.count in (0, rate.total)
    percent = 100 * rate.count / rate.total
    return TableCell(str(rate).replace(" %", "") if extreme else f"{percent:.1f}", percent)


def _markdown_row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(_escape_markdown, texts))} |"


def _escape_markdown(text: str) -> str:
    # "<= 1" opens no tag and "[18.7, 81.3]" no link: these stay readable.
    return re.sub(r"([\\`*_|]|<(?=[A-Za-z/!?])|\](?=[(\[:]))", r"\\\1", " ".join(text.split()))


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<=": r"$\leq$",
    ">=": r"$\geq$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
_LATEX_SPECIAL = re.compile("|".join(map(re.escape, _LATEX)))


def _latex_row(texts: Sequence[str]) -> str:
    # A row that begins with "[" would be read as an argument of the line break before it.
    cells = (_LATEX_SPECIAL.sub(lambda found: _LATEX[found.group()], " ".join(text.split())) for text in texts)
    return " & ".join(f"{{{cell}}}" if cell.startswith(("[", "*")) else cell for cell in cells) + r" \\"
