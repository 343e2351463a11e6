"""``maxmahal evaluate`` and ``maxmahal suites``."""

import os
from itertools import combinations, compress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

import maxmahal
from maxmahal.cli import common
from maxmahal.cli.common import Console, print_line
from maxmahal.cli.progress import EvaluationProgress
from maxmahal.errors import SettingsError

if TYPE_CHECKING:
    import torch

_Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET",
        autocompletion=common.completing("zoo"),
        help="A run folder, a checkpoint, a name of the zoo or package.module:factory; NAME=TARGET names it.",
    ),
]
_Out = Annotated[Path, typer.Option(help="The folder of records; run the same command again to resume.")]
_Suite = Annotated[
    str,
    typer.Option(autocompletion=common.completing("suite"), help="quick, medium, strict, autoattack or a .toml file."),
]
_Transfer = Annotated[
    bool, typer.Option("--transfer", help="Also transfer attacks between all models, as in the paper.")
]
_SaveImages = Annotated[
    bool, typer.Option("--save-images", help="Save adversarial images: float32, and PNG, re-checked after rounding.")
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the stages and how long they will take; record nothing.")
]

_Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N",
        help="Compute part I of N, then `maxmahal records merge OUT`; auto: from the variables of Slurm or torchrun.",
    ),
]

_On = Annotated[str | None, typer.Option(help="ray: on all workers of a Ray cluster, or of this machine.")]


def evaluate_command(
    targets: _Targets,
    out: _Out = Path("runs/evaluations"),
    suite: _Suite = "strict",
    data: common.Data = None,
    trust: common.Trusted = None,
    limit: common.Limit = None,
    seed: Annotated[int, typer.Option(help="Seed of the attacks.")] = 0,
    epsilon: Annotated[str | None, typer.Option(help="Such as 4/255 (default: the suite's or the data set's).")] = None,
    norm: Annotated[str | None, typer.Option(help="Replace the suite's norm: Linf, L2 or package.module:name.")] = None,
    transfer: _Transfer = False,
    save_images: _SaveImages = False,
    dry_run: _DryRun = False,
    shard: _Shard = None,
    on: _On = None,
    budget: common.Budget = None,
    tensorboard: common.TensorBoard = None,
    wandb: common.WeightsAndBiases = None,
    data_dir: common.DataDir = None,
    device: common.Device = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")] = False,
) -> None:
    """Attack models with a suite, record every sample, and print the verdict."""
    if str(out) == ".":
        raise SettingsError("--out would write records into the current folder; name one, such as --out runs/eval.")

    from maxmahal.evaluate.reporter import logged

    reproduce, console = maxmahal.reproduce, Console()
    until = None if budget is None else reproduce.Deadline.after(reproduce.parse_budget(budget)).end
    progress = EvaluationProgress(console, quiet=quiet and not dry_run)
    logs = (None, None) if dry_run else (tensorboard, wandb)
    with progress as display, logged(display, *logs) as reporter:
        found = maxmahal.evaluate.evaluate_models(
            targets,
            out=out,
            suite=suite,
            data=data,
            limit=limit,
            seed=seed,
            norm=norm,
            epsilon=epsilon,
            transfer=transfer,
            trusted=trust or (),
            data_dir=data_dir,
            device=device if on else _device(device, shard),
            save_images=save_images,
            reporter=reporter,
            until=until,
            dry_run=dry_run,
            shard=shard,
            on=on,
        )
    if shard is None and not dry_run:
        print_verdicts(console, found)
    if not quiet and not dry_run and (shard is not None or any(map(_has_records, found))):
        merge = f"after all shards, `maxmahal records merge {out}` collects them"
        report = f"`maxmahal report {out} --out report.html` makes a report of them"
        print_line(console, f"Records in {out}; {report if shard is None else merge}.")


def _device(name: str, shard: str | None) -> "torch.device | str":
    """As asked; by default, each process that torchrun started on a machine takes a GPU of its own.

    ``auto`` is left to the library, because a factory's model that lies on a GPU is used there.
    """
    found = maxmahal.train.device.pick_device(name)
    rank = os.environ.get("LOCAL_RANK", "")
    if name == "auto" and shard == "auto" and found.type == "cuda" and rank.isdecimal():
        import torch

        return torch.device("cuda", int(rank) % torch.cuda.device_count())
    return name


def suites_command(show: common.Show = None) -> None:
    """List the suites and their attacks."""
    if show is not None:
        common.show_shipped("suite", show)
        return
    console = Console()
    for name in maxmahal.evaluate.suite_names():
        suite = maxmahal.evaluate.suite.load_suite(name)
        console.print(f"[bold]{name}[/bold] (version {suite.version}): {suite.about}", highlight=False)
        for stage in suite.stages:
            print_line(console, f"    {stage.title}")


def _has_records(evaluation: "maxmahal.evaluate.Evaluation") -> bool:
    return any(len(stage.columns) for stage in evaluation.stages)


def print_verdicts(console: Console, evaluations: list["maxmahal.evaluate.Evaluation"]) -> None:
    """A table with one row per model, one sentence per model, and the comparisons between models."""
    begun = [_has_records(evaluation) for evaluation in evaluations]
    for evaluation, has_records in zip(evaluations, begun, strict=True):
        if not has_records:
            print_line(console, f"{evaluation.name}: not started; run the same command to continue.")
    evaluations = list(compress(evaluations, begun))
    if not evaluations:
        return
    worst = "worst case" if all(evaluation.comparison for evaluation in evaluations) else "robust accuracy"
    numbers = ("clean", worst, "attacks succeed on")
    verdicts = [maxmahal.evaluate.give_verdict(evaluation) for evaluation in evaluations]
    rows = []
    for evaluation, verdict in zip(evaluations, verdicts, strict=True):
        robust = verdict.robust.with_interval if evaluation.comparison else str(verdict.robust)
        robust += "" if evaluation.finished else " so far"
        success = "-" if verdict.success is None else f"{verdict.success.value:.1%}"
        attacked = (robust, success) if verdict.attacked else ("-", "-")
        rows.append((evaluation.name, f"{verdict.clean.value:.1%}", *attacked))
    common.print_table(console, ("model", *numbers), rows, right=numbers, ruled=True)
    for evaluation, verdict in zip(evaluations, verdicts, strict=True):
        console.print(f"[bold]{escape(evaluation.name)}[/bold]: {escape(verdict.sentence)}", highlight=False)
        for finding in evaluation.findings:
            if finding.flagged:
                print_line(console, f"    {finding.title}: {finding.sentence}")
    _print_comparisons(console, evaluations)


def _print_comparisons(console: Console, evaluations: list["maxmahal.evaluate.Evaluation"]) -> None:
    attacked = [each for each in evaluations if each.finished and maxmahal.records.was_attacked(each)]
    # The accuracies of stochastic models are means over draws, which no count of images compares.
    steady = [each for each in attacked if not each.model.get("stochastic")]
    for first, second in combinations(steady, 2):
        pair = maxmahal.evaluate.compare(first, second)
        if not pair.difference:
            print_line(console, f"{first.name} and {second.name} are equally robust on these images.")
            continue
        ahead, behind = (first, second) if pair.difference > 0 else (second, first)
        print_line(
            console,
            f"{ahead.name} is {abs(pair.difference) * 100:.1f} points more robust on the same images than "
            f"{behind.name} (exact McNemar test: p = {pair.p_value:.2g}).",
        )
    for spread in maxmahal.evaluate.seed_spreads(evaluations):
        names = ", ".join(spread.names)
        print_line(console, f"Over the training seeds of {names}: {spread.mean:.1%} ± {spread.deviation:.1%}.")
