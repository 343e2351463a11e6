"""Options and output that several commands share."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rich.console
import typer
from rich import box
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from maxmahal.errors import SettingsError, did_you_mean, printable
from maxmahal.imports import names_a_function
from maxmahal.shipped import FileKind, shipped_files

if TYPE_CHECKING:
    import torch


def _check_trusted(names: list[str] | None) -> list[str] | None:
    for name in names or []:
        if not names_a_function(name):
            raise SettingsError(f"--trust {name} is not of the form package.module:function.")
    return names


DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the data sets (default: $MAXMAHAL_DATA).")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Data = Annotated[
    str | None, typer.Option(help="A data set, an .npz, a folder or package.module:function (default: the run's).")
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N images.", metavar="N")]
Show = Annotated[
    str | None, typer.Option("--show", metavar="NAME", help="Print its TOML file, a starting point for your own.")
]
TensorBoard = Annotated[Path | None, typer.Option(help="Also log to TensorBoard, into this folder.")]
Trusted = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        "--backbone",
        metavar="MODULE:FUNCTION",
        callback=_check_trusted,
        help="Code that the run names and that may run, such as your network; may be given several times.",
    ),
]


def pick_device(name: str) -> "torch.device":
    """``auto`` is the GPU if there is one, otherwise the CPU."""
    import maxmahal.train.device

    return maxmahal.train.device.pick_device(name)


def show_shipped(kind: FileKind, name: str) -> None:
    """Print a shipped file with its comments."""
    shipped = shipped_files(kind)
    if name not in shipped:
        raise SettingsError(f"There is no {kind} '{name}' to show; {did_you_mean(name, shipped)}")
    typer.echo(shipped[name].read_text(encoding="utf-8"), nl=False)


class Console(rich.console.Console):
    """Prints what files say, such as the names of classes, without control characters that a terminal would obey."""

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does it; its own control codes, which move the cursor, stay."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def echo(text: str) -> None:
    """Print a line in the same way."""
    typer.echo(printable(text))


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    ruled: bool = False,
    caption: str | None = None,
) -> None:
    """Print texts as they are, in columns; ``ruled`` tables have a line below their header."""
    table = Table(box=box.SIMPLE_HEAD if ruled else None, padding=(0, 1, 0, 0), pad_edge=ruled, caption=caption)
    for column in columns:
        table.add_column(escape(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def print_facts(console: Console, facts: Iterable[tuple[str, str]]) -> None:
    """Print names, in bold, and their values."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(escape(name), escape(value))
    console.print(table)


def print_line(console: rich.console.Console, text: str) -> None:
    """Print a text as it is: no markup, no highlighting, no line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
