"""``maxmahal figure`` and ``maxmahal gallery``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from maxmahal.errors import SettingsError
from maxmahal.files import write_text_atomically
from maxmahal.gallery import (
    FIGURES,
    FOLDER,
    Options,
    check_format,
    obtain_record,
    read_record,
    render_gallery,
    write_figure,
)

Records = Annotated[Path, typer.Option("--records", help="The folder of the figures' records.")]


def figure_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A figure; without one they are listed.")] = None,
    records: Records = FOLDER,
    out: Annotated[Path | None, typer.Option(help="An .svg, .png, .gif or .html file (default: NAME.svg).")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute the record anew, even if there is one.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data sets lie (else $MAXMAHAL_DATA).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compute a smaller record, for a first look.")] = False,
) -> None:
    """Draw a figure from its record; the record is computed only where it is missing."""
    console = Console()
    if name is None:
        _list(console, records)
        return
    path = Path(f"{name}.svg") if out is None else out
    check_format(name, path)  # before minutes of computation
    if fresh or read_record(records, name) is None:
        _say(console, f"Computing {name}.")
    record = obtain_record(records, name, Options(data_dir, quick), fresh=fresh)
    write_figure(name, record, path)
    _say(console, f"Wrote {path} from {records / name}.json.")


def gallery_command(
    out: Annotated[Path, typer.Option(help="The page.")],
    records: Records = FOLDER,
) -> None:
    """Make one page of all figures that have a record."""
    kept = {name: record for name in FIGURES if (record := read_record(records, name)) is not None}
    if not kept:
        raise SettingsError(f"{records} holds no figure's record yet; `maxmahal figure NAME` makes one.")
    write_text_atomically(out, render_gallery(kept))
    console = Console()
    missing = [name for name in FIGURES if name not in kept]
    if missing:
        _say(console, f"Without a record, so left out: {', '.join(missing)}; `maxmahal figure NAME` makes one.")
    _say(console, f"Wrote {out}.")


def _list(console: Console, records: Path) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    for name, figure in FIGURES.items():
        state = "has a record" if read_record(records, name) is not None else "no record yet"
        table.add_row(name, figure.about, state)
    console.print(table)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
