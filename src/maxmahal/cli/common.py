"""Options and output that several commands share."""

import errno
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import rich.console
import typer
import typer.core
from rich import box
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

import maxmahal
from maxmahal.errors import SettingsError, did_you_mean, printable
from maxmahal.imports import names_a_function
from maxmahal.shipped import FileKind, shipped_files


def _check_trusted(names: list[str] | None) -> list[str] | None:
    for name in names or []:
        if not names_a_function(name):
            raise SettingsError(f"--trust {name} is not of the form package.module:function.")
    return names


DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Folder of the data sets (default: $MAXMAHAL_DATA).")]
Budget = Annotated[
    str | None, typer.Option(help="Stop within this time (90s, 8m, 1h30m); run the same command to continue.")
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Data = Annotated[
    str | None, typer.Option(help="A data set, .npz, folder, .tar or package.module:function (default: the run's).")
]
Limit = Annotated[int | None, typer.Option(help="Use only the first N images.", metavar="N")]
Show = Annotated[
    str | None, typer.Option("--show", metavar="NAME", help="Print its TOML file, a starting point for your own.")
]
TensorBoard = Annotated[Path | None, typer.Option(help="Also log to TensorBoard, into this folder.")]
WeightsAndBiases = Annotated[
    str | None, typer.Option("--wandb", metavar="PROJECT", help="Also log to Weights & Biases, into this project.")
]
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


def completing(*kinds: FileKind | Literal["zoo"]) -> Callable[[str], list[str]]:
    """What a shell completes: the names of these kinds; folders and files are the shell's own."""

    def complete(incomplete: str) -> list[str]:
        names = [
            name for kind in kinds for name in (maxmahal.zoo.zoo_models() if kind == "zoo" else shipped_files(kind))
        ]
        return [name for name in names if name.startswith(incomplete)]

    return complete


class _PlainFlags:
    """Help shows flags as flags, without the type that they do not take."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As typer lists them."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the class that this one is mixed into
        for param in params:
            if getattr(param, "is_bool_flag", False):
                param.metavar = ""
        return params


class PlainCommand(_PlainFlags, typer.core.TyperCommand):
    """One command."""


class PlainGroup(_PlainFlags, typer.core.TyperGroup):
    """A command with commands of its own."""


def show_shipped(kind: FileKind, name: str) -> None:
    """Print a shipped file with its comments."""
    shipped = shipped_files(kind)
    if name not in shipped:
        raise SettingsError(f"There is no {kind} '{name}' to show; {did_you_mean(name, shipped)}")
    typer.echo(shipped[name].read_text(encoding="utf-8"), nl=False)


class Console(rich.console.Console):
    """Prints what files say, such as the names of classes, without control characters that a terminal would obey."""

    def on_broken_pipe(self) -> NoReturn:
        """The output was closed: not rich's silent exit, which looks like one of the user's model."""
        self.quiet = True
        raise BrokenPipeError(errno.EPIPE, "the output was closed")

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich does it; its own control codes, which move the cursor, stay."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def echo(text: str) -> None:
    """Print a line in the same way."""
    typer.echo(printable(text))


LEAST_PROSE = 24  # columns of the terminal for a column of sentences


def print_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Collection[str] = (),
    ruled: bool = False,
    caption: str | None = None,
) -> None:
    """Print texts as they are, in columns; ``ruled`` tables have a line below their header.

    Names and numbers are never broken: where they do not fit side by side, each row is a paragraph.
    """
    rows = list(rows)
    prose = [any(" " in row[place] for row in rows) for place in range(len(columns))]
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    needed = sum(min(width, LEAST_PROSE) if long else width for width, long in zip(widths, prose, strict=True))
    if needed + len(columns) + 2 * ruled > console.width:
        for first, *others in rows:
            told = ", ".join(f"{name} {value}" for name, value in zip(columns[1:], others, strict=True))
            lines = textwrap.wrap(told, console.width - 4, break_long_words=False, break_on_hyphens=False)
            print_line(console, "\n    ".join([first, *lines]))
        return
    table = Table(box=box.SIMPLE_HEAD if ruled else None, padding=(0, 1, 0, 0), pad_edge=ruled, caption=caption)
    for column, long in zip(columns, prose, strict=True):
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(escape(column), justify=justify, overflow="fold", no_wrap=not long)
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


def counted(count: int, noun: str) -> str:
    """Such as "1 sample" and "2,000 samples"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def per_second(rate: float) -> str:
    """Such as "3,680/s" and "1.4/s"."""
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def print_line(console: rich.console.Console, text: str) -> None:
    """Print a text as it is: no markup, no highlighting, no line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
