"""``maxmahal report`` and ``maxmahal records``."""

from pathlib import Path
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli.common import Console, print_line, print_table
from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.files import write_text_atomically

TABLES = ("md", "csv", "latex")
FIGURES = ("png", "svg", "pdf")
ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".csv": "csv", ".tex": "latex"}
EXPORTS = ("csv", "json", "parquet", "robustbench")
ROWS_SHOWN = 20
_Names = dict["maxmahal.records.types.Identity", str]
_Evaluations = list["maxmahal.records.Evaluation"]


def report_command(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR", help="Folders of records.")],
    out: Annotated[Path, typer.Option(help="The page, the file of tables, or the folder of figures.")],
    format: Annotated[
        str | None,
        typer.Option(
            help="html, md, csv or latex for tables; png, svg or pdf for figures (default: by the file's ending)."
        ),
    ] = None,
) -> None:
    """Make a page, tables or figures from records."""
    kind = _format_of(out, format)

    evaluations = _read(folders)
    console = Console()
    if kind in FIGURES:
        for path in maxmahal.report.write_figures(evaluations, out, [kind]):
            print_line(console, f"Wrote {path}.")
        return
    if kind == "html":
        maxmahal.report.write_page(evaluations, out)
    else:
        report = maxmahal.report
        write = {"md": report.to_markdown, "csv": report.to_csv, "latex": report.to_latex}[kind]
        tables = [write(table).rstrip("\n") for table in report.results_tables(evaluations)]
        write_text_atomically(out, "\n\n".join(tables) + "\n")
    named = zip(evaluations, maxmahal.records.unique_names(evaluations), strict=True)
    unfinished = [name for evaluation, name in named if not evaluation.finished]
    if unfinished:
        print_line(console, f"Not finished: {', '.join(unfinished)}.")
    print_line(console, f"Wrote {out}.")


def _format_of(out: Path, format: str | None) -> str:
    """The given format, or that of the file's ending; a page without either."""
    ending = out.suffix.lower()
    known = ["html", *TABLES, *FIGURES]
    if format is not None and format not in known:
        raise SettingsError(f"--format {format} is unknown; {did_you_mean(format, known)}")
    if ending.lstrip(".") in FIGURES and not out.is_dir():
        raise SettingsError(
            f"--out {out} names one file, and figures go into a folder; "
            f"write for example --out {out.with_suffix('')} --format {ending.lstrip('.')}."
        )
    by_ending = ENDINGS.get(ending)
    if format is None:
        if ending and by_ending is None:
            raise SettingsError(
                f"The ending of '{out.name}' is not a known format; choose a --format: {', '.join(known)}."
            )
        return by_ending or "html"
    if by_ending not in (None, format):
        raise SettingsError(
            f"--format {format} does not fit --out {out}, whose ending means {by_ending}; "
            "change one of them, or leave --format out."
        )
    return format


def records_command(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="[merge] DIR...",
            help="A folder of records; `merge DIR...` collects its shards, and those of further folders, in the first.",
        ),
    ],
    model: Annotated[str | None, typer.Option(help="Only this model.")] = None,
    attack: Annotated[str | None, typer.Option(help="Only this attack.")] = None,
    sample: Annotated[int | None, typer.Option(help="Only the sample of this id.")] = None,
    broken: Annotated[
        bool | None,
        typer.Option("--broken/--standing", help="Only samples that an attack broke, or only those that it did not."),
    ] = None,
    export: Annotated[Path | None, typer.Option(help="Write them to this file instead of showing them.")] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, json, parquet or robustbench (default: by the file's ending).")
    ] = None,
) -> None:
    """Show, filter and export records, or merge the shards of an evaluation."""
    console = Console()
    if folders[0] == Path("merge") and len(folders) > 1:
        defaults = maxmahal.evaluate.suite.option_defaults
        for line in maxmahal.records.merge_records(folders[1], folders[2:], defaults):
            print_line(console, line)
        return

    from maxmahal.records.export import of_model, select, write_records, write_robustbench

    evaluations = _read(folders)
    chosen = select(evaluations, model=model, attack=attack, broken=broken, sample=sample)
    if not any(len(stage.columns) for evaluation in chosen for stage in evaluation.stages):
        print_line(console, "No record matches.")
        return
    names = dict(zip((each.identity for each in evaluations), maxmahal.records.unique_names(evaluations), strict=True))
    if export is None:
        _show_stages(console, chosen, names)
        if model or attack or broken is not None or sample is not None:
            _show_rows(console, chosen, names)
        return
    kind = format or export.suffix.lstrip(".")
    if kind not in EXPORTS:
        raise SettingsError(f"Records cannot be written as '{kind}'; choose one of: {', '.join(EXPORTS)}.")
    if kind == "robustbench":
        if attack or broken is not None or sample is not None:
            raise SettingsError(
                "RobustBench's card describes a complete evaluation; leave out --attack, --broken, --standing "
                "and --sample."
            )
        # Complete ones: the card must also know the attacks that were skipped and have no rows.
        complete = of_model(evaluations, model)
        if len(complete) != 1:
            choices = " or ".join(f"--model '{names[each.identity]}'" for each in complete)
            raise SettingsError(f"RobustBench's card describes one evaluation; choose {choices}.")
        written = write_robustbench(complete[0], export)
    else:
        written = export
        write_records(chosen, written, kind)
    print_line(console, f"Wrote {written}.")


def _read(folders: list[Path]) -> _Evaluations:
    if evaluations := maxmahal.records.read_evaluations(folders):
        return evaluations
    raise SettingsError(f"{', '.join(map(str, folders))} has no evaluation yet; `maxmahal evaluate` makes one.")


def _show_stages(console: Console, evaluations: _Evaluations, names: _Names) -> None:
    rows = []
    for evaluation in evaluations:
        for stage in evaluation.stages:
            state = "skipped" if stage.skipped else "finished" if stage.finished else "not finished"
            counts = f"{len(stage.columns)}", f"{stage.columns.broken.sum()}", f"{stage.rating.seconds:.1f}"
            rows.append((names[evaluation.identity], evaluation.suite, stage.name, *counts, state))
    numbers = ("attacked", "broken", "seconds")
    print_table(console, ("model", "suite", "attack", *numbers, "state"), rows, right=numbers)


def _show_rows(console: Console, evaluations: _Evaluations, names: _Names) -> None:
    rows, count = [], 0
    for evaluation in evaluations:
        for stage in evaluation.stages:
            columns = stage.columns
            for row in range(min(len(columns), max(0, ROWS_SHOWN - count))):
                values = (columns.sample, columns.label, columns.clean_prediction, columns.prediction, columns.broken)
                told = [str(value[row]) for value in values]
                cost = f"{columns.distortion[row]:.4g}", f"{columns.iterations[row]}"
                rows.append((names[evaluation.identity], stage.name, *told, *cost))
            count += len(columns)
    header = ("model", "attack", "sample", "label", "before", "after", "broken", "distortion", "iterations")
    print_table(console, header, rows)
    if count > ROWS_SHOWN:
        print_line(console, f"... and {count - ROWS_SHOWN} more; --export FILE.csv writes all of them.")
