"""All commands in one place."""

from typing import Annotated

import typer

import maxmahal
from maxmahal.cli import data, demo, density, doctor, evaluate, report, reproduce, train, tree, uncertainty, zoo

app = typer.Typer(
    help="Robust classification: training with preset class centers, and evaluation of any model by strong attacks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("train")(train.train_command)
app.command("presets")(train.presets_command)
app.command("evaluate")(evaluate.evaluate_command)
app.command("report")(report.report_command)
app.command("records")(report.records_command)
app.command("suites")(evaluate.suites_command)
app.command("density")(density.density_command)
app.command("uncertainty")(uncertainty.uncertainty_command)
app.command("tree")(tree.tree_command)
app.command("reproduce")(reproduce.reproduce_command)
app.command("demo")(demo.demo_command)
app.command("zoo")(zoo.zoo_command)
app.command("doctor")(doctor.doctor_command)
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
