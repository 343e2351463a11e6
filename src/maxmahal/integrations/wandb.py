"""Curves in Weights & Biases: ``maxmahal train PRESET --wandb PROJECT``; ``WANDB_MODE=offline`` sends nothing."""

from maxmahal.errors import ArgumentError
from maxmahal.imports import optional


class WandbLog:
    """A run of a project, with the methods of TensorBoard's writer. It says nothing about the machine or the user."""

    def __init__(self, project: str) -> None:
        wandb = optional("wandb", "pip install 'maxmahal[wandb]'")
        on = ("silent", "disable_code", "disable_git", "x_disable_machine_info", "x_disable_meta", "x_disable_stats")
        switches = {**dict.fromkeys(on, True), **dict.fromkeys(("save_code", "x_save_requirements"), False)}
        quiet = wandb.Settings(console="off", host="host", **switches)
        try:
            self._run = wandb.init(project=project, settings=quiet)
        except wandb.Error as error:
            raise ArgumentError(
                f"Weights & Biases cannot start ({error}); run `wandb login` first, or set WANDB_MODE=offline."
            ) from error

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """One point of a curve."""
        # Each curve counts its own steps: the samples of a second model begin again at 0, which W&B's step must not.
        self._run.define_metric(name, step_metric=f"{name} (step)")
        self._run.log({name: value, f"{name} (step)": step})

    def add_text(self, name: str, text: str) -> None:
        """A sentence, in the summary of the run."""
        self._run.summary[name] = text

    def close(self) -> None:
        """Everything is written, and sent unless W&B is offline."""
        self._run.finish()
