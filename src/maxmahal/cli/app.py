"""All commands in one place."""

from collections.abc import Callable
from typing import Annotated

import typer

import maxmahal
from maxmahal.cli import data, demo, evaluate, features, report, reproduce, train, zoo
from maxmahal.cli.common import PlainCommand, PlainGroup

app = typer.Typer(
    cls=PlainGroup,
    help="Robust classification: training with preset class centers, and evaluation of any model by strong attacks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "train": train.train_command,
    "presets": train.presets_command,
    "evaluate": evaluate.evaluate_command,
    "report": report.report_command,
    "records": report.records_command,
    "suites": evaluate.suites_command,
    "density": features.density_command,
    "uncertainty": features.uncertainty_command,
    "tree": features.tree_command,
    "reproduce": reproduce.reproduce_command,
    "demo": demo.demo_command,
    "zoo": zoo.zoo_command,
    "doctor": data.doctor_command,
}
for name, command in COMMANDS.items():
    app.command(name, cls=PlainCommand)(command)
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(maxmahal.__version__)
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
