"""``maxmahal train`` and ``maxmahal presets``."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

import maxmahal
from maxmahal.cli import common
from maxmahal.cli.common import Console, print_line
from maxmahal.cli.progress import TrainingProgress
from maxmahal.errors import SettingsError
from maxmahal.settings import to_table, to_toml


def train_command(
    preset: Annotated[
        str,
        typer.Argument(
            autocompletion=common.completing("preset"), help="A preset's name (see `maxmahal presets`) or a .toml file."
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The run folder (default: runs/PRESET).")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. train.epochs=5.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run in the folder, if there is one.")] = False,
    tensorboard: common.TensorBoard = None,
    wandb: common.WeightsAndBiases = None,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="On a GPU: identical results in every run, resumed or not; slower.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train a model with the settings of a preset, into a run folder that can be resumed."""
    changes = [*(overrides or []), *(["cuda.deterministic=true"] if deterministic else [])]
    folder = Path("runs") / Path(preset).stem if out is None else out
    if str(folder) == "." and out is not None:
        raise SettingsError("--out would write the run into the current folder; name one for it, such as --out runs/x.")

    from maxmahal.train.processes import is_first
    from maxmahal.train.tensorboard import logged

    if not is_first():
        quiet, tensorboard, wandb = True, None, None
    if resume:
        settings = maxmahal.train.presets.resumed_settings(preset, changes, maxmahal.train.RunFolder(folder))
    else:
        settings = maxmahal.train.load_settings(preset, changes)
    console = Console()
    with TrainingProgress(console, quiet=quiet) as display, logged(display, tensorboard, wandb) as reporter:
        result = maxmahal.train.train_model(
            settings,
            folder,
            resume=resume,
            data_dir=data_dir,
            device=maxmahal.train.device.pick_device(device),
            reporter=reporter,
        )
    if not quiet:
        _print_result(console, result, folder)


def presets_command(show: common.Show = None) -> None:
    """List the presets and the rows of the paper that they reproduce."""
    if show is not None:
        # With all defaults, because the shipped files extend each other.
        common.echo(to_toml(to_table(maxmahal.train.load_settings(show))).removesuffix("\n"))
        return
    presets = {name: maxmahal.train.load_settings(name) for name in maxmahal.train.preset_names()}
    rows = [(name, settings.about, settings.table) for name, settings in presets.items()]
    common.print_table(Console(), ("preset", "about", "row in the paper"), rows)


def _print_result(console: Console, result: dict[str, Any], folder: Path) -> None:
    for name in ("last", "best"):
        if name in result:
            scores = result[name]
            robust = f", PGD-10 {scores['test_pgd10']:.2%}" if "test_pgd10" in scores else ""
            line = f"{name} checkpoint (epoch {scores['epoch']}): test accuracy {scores['test_accuracy']:.2%}{robust}"
            console.print(line, highlight=False)
    print_line(console, f"Saved in {folder}; `maxmahal evaluate {shlex.quote(str(folder))}` measures its robustness.")
