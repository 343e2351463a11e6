"""``python -m paper.gallery figure NAME`` and ``python -m paper.gallery page``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from maxmahal.cli import main
from maxmahal.files import writable, write_text_atomically
from paper import gallery

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Records = Annotated[
    Path | None,
    typer.Option(
        "--records", help="The figures' records (default: paper/results/gallery, or the user's cache without it)."
    ),
]


@app.command("figure")
def figure_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A figure; without one they are listed.")] = None,
    records: Records = None,
    out: Annotated[Path | None, typer.Option(help="An .svg, .png, .gif or .html file (default: NAME.svg).")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Compute the record again, even if there is one.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder of the data sets (default: $MAXMAHAL_DATA).")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Compute a smaller record, for a first look.")] = False,
) -> None:
    """Draw a figure from its record; the record is computed if it is missing."""
    console, folder = Console(), gallery.default_folder() if records is None else records
    if name is None:
        _list(console, folder)
        return
    path = Path(f"{name}.svg") if out is None else out
    gallery.check_format(name, path)  # before minutes of computation
    if fresh or gallery.read_record(folder, name) is None:
        _say(console, f"Computing {name}.")
    record = gallery.obtain_record(folder, name, gallery.FigureOptions(data_dir, quick), fresh=fresh)
    gallery.write_figure(name, record, path)
    _say(console, f"Wrote {path} from {folder / name}.json.")


@app.command("page")
def gallery_command(
    out: Annotated[Path, typer.Option(help="The page.")],
    records: Records = None,
) -> None:
    """Make one page of all figures that have a record; if none has, of those that take a second."""
    folder, console = gallery.default_folder() if records is None else records, Console()
    writable(out)  # before records are computed
    if all(gallery.read_record(folder, name) is None for name in gallery.FIGURES):
        _say(console, f"{folder} holds no figure's record yet; computing those that take a second.")
        for name in (name for name, figure in gallery.FIGURES.items() if figure.cheap):
            gallery.obtain_record(folder, name, gallery.FigureOptions())
    kept = {name: record for name in gallery.FIGURES if (record := gallery.read_record(folder, name)) is not None}
    write_text_atomically(out, gallery.render_gallery(kept))
    missing = [name for name in gallery.FIGURES if name not in kept]
    if missing:
        _say(
            console,
            f"Left out, because they have no record: {', '.join(missing)}; the command `figure NAME` makes one.",
        )
    _say(console, f"Wrote {out}.")


def _list(console: Console, records: Path) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    for name, figure in gallery.FIGURES.items():
        state = "has a record" if gallery.read_record(records, name) is not None else "no record yet"
        table.add_row(name, figure.about, state)
    console.print(table)


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main(app)
