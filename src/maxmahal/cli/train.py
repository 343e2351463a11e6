"""``maxmahal train`` and ``maxmahal presets``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import maxmahal
from maxmahal.cli.progress import TrainingProgress
from maxmahal.cli.showing import Show
from maxmahal.errors import SettingsError
from maxmahal.settings import to_table, to_toml

if TYPE_CHECKING:
    import torch

DataDir = Annotated[Path | None, typer.Option("--data-dir", help="Where the data sets lie (else $MAXMAHAL_DATA).")]


def pick_device(name: str) -> "torch.device":
    """``auto`` takes the GPU where there is one."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingsError(f"--device {name} is unknown; use auto, cpu or cuda.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingsError(f"--device {name} is not supported; use auto, cpu or cuda.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise SettingsError(
            f"--device {name} was asked for, but torch sees {count} CUDA devices here; use --device cpu."
        )
    return device


def train_command(
    preset: Annotated[str, typer.Argument(help="A preset's name (see `maxmahal presets`) or a .toml file.")],
    out: Annotated[Path | None, typer.Option(help="The run folder (default: runs/PRESET).")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. train.epochs=5.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    tensorboard: Annotated[Path | None, typer.Option(help="Also log to TensorBoard, into this folder.")] = None,
    data_dir: DataDir = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="On a GPU: the same bits in every run, resumed or not; slower.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Train a model as a preset says, into a run folder that can be resumed."""
    changes = [*(overrides or []), *(["cuda.deterministic=true"] if deterministic else [])]
    folder = Path("runs") / Path(preset).stem if out is None else out
    if str(folder) == "." and out is not None:
        raise SettingsError("--out would write the run into the current folder; name one for it, such as --out runs/x.")

    from maxmahal.train.tensorboard import logged

    if resume:
        settings = maxmahal.train.presets.resumed_settings(preset, changes, maxmahal.train.RunFolder(folder))
    else:
        settings = maxmahal.train.load_settings(preset, changes)
    console = Console()
    with TrainingProgress(console, quiet=quiet) as display, logged(display, tensorboard) as reporter:
        result = maxmahal.train.train_model(
            settings, folder, resume=resume, data_dir=data_dir, device=pick_device(device), reporter=reporter
        )
    if not quiet:
        _print_result(console, result, folder)


def presets_command(show: Show = None) -> None:
    """List the presets and the rows of the paper they stand for."""
    if show is not None:
        # With every default written out: the shipped files build on one another.
        typer.echo(to_toml(to_table(maxmahal.train.load_settings(show))), nl=False)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("preset", "about", "row in the paper"):
        table.add_column(column, overflow="fold")
    for name in maxmahal.train.preset_names():
        settings = maxmahal.train.load_settings(name)
        table.add_row(name, settings.about, settings.table)
    Console().print(table)


def _print_result(console: Console, result: dict[str, Any], folder: Path) -> None:
    for name in ("last", "best"):
        if name in result:
            scores = result[name]
            robust = f", PGD-10 {scores['test_pgd10']:.2%}" if "test_pgd10" in scores else ""
            line = f"{name} checkpoint (epoch {scores['epoch']}): test accuracy {scores['test_accuracy']:.2%}{robust}"
            console.print(line, highlight=False)
    console.print(f"Saved in {folder}.", highlight=False, markup=False, soft_wrap=True)
