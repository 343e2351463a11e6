"""A training run, from settings to a finished run folder: start, resume, measure, save."""

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from maxmahal.attacks import own_loss, pgd
from maxmahal.data import ImageData, to_unit_range
from maxmahal.errors import CheckpointError, SettingsError
from maxmahal.files import write_text_atomically
from maxmahal.imports import exits_as_errors, only_named
from maxmahal.models import Classifier, accuracy, eval_mode
from maxmahal.random import stream_key
from maxmahal.settings import Table, from_table, to_table, to_toml
from maxmahal.train.build import new_classifier
from maxmahal.train.checkpoint import (
    ModelCard,
    RunProgress,
    load_model,
    load_progress,
    load_state,
    save_model,
    save_state,
)
from maxmahal.train.config import Settings, extends, what_differs
from maxmahal.train.device import deterministic_algorithms, lay_out, pick_device
from maxmahal.train.folder import RunFolder
from maxmahal.train.loop import Metrics, Reporter, Silent, TrainingDivergedError, steps_per_epoch, train_epoch
from maxmahal.train.methods import METHODS, Adversary, TrainingMethod
from maxmahal.train.optimiser import WeightAverage, build_optimiser
from maxmahal.train.perturbations import Perturbations
from maxmahal.train.processes import Processes, joined, own_device
from maxmahal.train.reachable_centers import unreachable_centers
from maxmahal.train.splits import Splits, load_splits
from maxmahal.train.step import step_kind
from maxmahal.version import __version__

SAVE_SECONDS = 20.0
"""How often a state is saved, beside the first, the best and the last epoch: saving can take as long as an epoch."""


def train_model(
    settings: Settings,
    out: str | Path,
    *,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: torch.device | str = "auto",
    until: float | None = None,
    sharing: int = 1,
    reporter: Reporter | None = None,
) -> Table:
    """Train with ``settings`` into the run folder ``out``; returns the content of ``result.json``.

    With ``resume`` the run continues after its last saved epoch: on the CPU, and on a GPU with
    ``cuda.deterministic``, with the same result as without a stop. ``until`` is a time of ``time.monotonic()``: a run
    that cannot finish by then stops after the last epoch that fits and returns ``finished: False``. ``sharing``, the
    number of trainings on the device, is recorded, the largest of a resumed run. Under torchrun, all its processes
    train one model together.
    """
    device = own_device(pick_device(device))
    folder = RunFolder(out)
    folder.refuse_impossible()
    if not resume:
        folder.refuse_overwriting()
    data = load_splits(settings.data, data_dir, device)
    forked = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    determinism = deterministic_algorithms(settings.on(device))
    connected = joined(device, settings.train.batch_size, resume=resume)
    with only_named(to_table(settings)), exits_as_errors(), forked, determinism, connected as processes:
        # Dropout in a user's network uses torch's global generators, so they are part of the run.
        torch.manual_seed(stream_key("run", settings.train.seed))
        reporter = reporter if reporter is not None and processes.first else Silent()
        run = _Run(settings, folder, data, reporter, sharing, processes)
        # The folder is created last: a mistake in the settings must not leave an empty one.
        with folder.lock() if processes.first else nullcontext():
            if not resume:
                folder.refuse_overwriting()  # again: another process may have written it while the data was loading
            result = run.finish(until)
            del run  # with a recorded step: nccl waits until nothing can send its messages again
            return result


class _Run:
    """Everything that changes during a run."""

    def __init__(
        self,
        settings: Settings,
        folder: RunFolder,
        data: Splits,
        reporter: Reporter,
        sharing: int,
        processes: Processes,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.data = data
        self.reporter, self.processes = reporter, processes
        self.method: TrainingMethod = settings.method.build(METHODS)
        self.perturbations: Perturbations | None = None
        if (ball := self.method.reused) is not None:
            if processes.count > 1:
                raise SettingsError("method.start = 'last' trains in one process only; start it without torchrun.")
            self.perturbations = Perturbations(data.train, settings.data.augment, ball.radius)
        self.steps = steps_per_epoch(data.train, settings.train.batch_size)
        self.model = new_classifier(settings, data.train)
        processes.copy_from_first(self.model.state_dict().values())  # a user's network may start anyhow
        lay_out(self.model, settings.on(data.train.device))
        self.average = WeightAverage(self.model, settings.train) if settings.train.averaged else None
        self.optimiser = build_optimiser(self.model, settings.train)
        device = settings.on(data.train.device)
        self.step = step_kind(device)(
            self.model, self.optimiser, self.method, self.average, device, settings.train, processes
        )
        self._saved_epoch, self._saved_at = 0, -math.inf
        self.progress = RunProgress(
            threads=torch.get_num_threads(),
            processes=processes.count,
            sharing=sharing,
            settings=json.dumps(to_table(settings)),
        )

    @property
    def _evaluated(self) -> Classifier:
        """The model that is measured and saved: the weight average, if there is one."""
        return self.model if self.average is None else self.average.model

    def finish(self, until: float | None) -> Table:
        """Train the missing epochs, as long as there is time, then write the summary."""
        if self.folder.state.exists():
            self._resume()
        elif self.processes.first and self.folder.metrics.exists():
            self.folder.keep_metrics(0)  # from a first epoch that was killed before it was saved
        if self._total(self.progress.epoch) != self.progress.epoch * self.processes.count:
            raise CheckpointError(
                f"{self.folder.path} is not the same folder for all processes; choose one that all of them can read."
            )
        if not self.progress.epoch and (warning := unreachable_centers(self.model, self.data.train)):
            self.reporter.note(warning)
        if self.method.adversary is not None and not len(self.data.validation):
            self.reporter.note(
                "No validation images are held out (data.validation = 0): only the last checkpoint is kept."
            )
        epochs = self.settings.train.epochs
        self.reporter.start(epochs, self.progress.epoch, self.steps)
        if self.processes.first:
            self.folder.diverged.unlink(missing_ok=True)  # it is tried again
        longest = 0.0
        while self.progress.epoch < epochs:
            started, setup = time.monotonic(), self.step.setup_seconds
            if until is not None and self._total(int(started + longest >= until)):
                self._save()
                return {"finished": False, "epoch": self.progress.epoch, "epochs": epochs}
            self._epoch()
            longest = max(longest, time.monotonic() - started - (self.step.setup_seconds - setup))
        return self._summarise()

    def _resume(self) -> None:
        saved = load_progress(self.folder.state)
        # Parsed, not compared as text: settings that this version added have their defaults.
        begun = from_table(Settings, saved.table)
        difference = what_differs(begun, self.settings)
        if difference and extends(begun, self.settings):
            self.reporter.note(
                f"The run is extended from {begun.train.epochs} to {self.settings.train.epochs} epochs, at its last "
                "learning rate (train.schedule_epochs)."
            )
            saved.settings = self.progress.settings
            if self.processes.first:
                self.folder.result.unlink(missing_ok=True)  # of the shorter run
        elif difference:
            raise CheckpointError(
                f"{self.folder.path} was started with other settings ({difference}); "
                f"resume it with its own settings, {self.folder.settings}, or choose another folder."
            )
        if saved.threads != self.progress.threads:
            self.reporter.note(
                f"This run was started with {saved.threads} threads and is resumed with {self.progress.threads}: "
                f"its weights will differ by rounding. Set OMP_NUM_THREADS={saved.threads} to avoid that."
            )
        if saved.processes != self.processes.count:
            how = "by rounding" if self.settings.train.sync_batch_norm else "because batch norm sees other parts"
            self.reporter.note(
                f"This run was started with {saved.processes} processes and is resumed with {self.processes.count}: "
                f"its weights will differ {how}."
            )
        load_state(self.folder.state, self.model, self.optimiser, self.average, self.perturbations)
        saved.sharing = max(saved.sharing, self.progress.sharing)
        self.progress, self._saved_epoch, self._saved_at = saved, saved.epoch, time.monotonic()
        if self.processes.first:
            self.folder.keep_metrics(saved.epoch)
            self._publish()

    def _epoch(self) -> None:
        settings, epoch = self.settings, self.progress.epoch
        data, held_out = self.data.train, self.data.validation
        if not self.processes.first:  # a stream of its own for dropout, which the state does not hold
            torch.manual_seed(stream_key("run", settings.train.seed, self.processes.rank, epoch))
        try:
            summary = train_epoch(
                self.model, self.step, data, settings, epoch, self.reporter, self.processes, self.perturbations
            )
        except TrainingDivergedError:
            if self.processes.first:
                self.folder.write_diverged(epoch + 1, settings)
            raise
        self.progress.epoch += 1
        self.progress.train_seconds += summary["seconds"]
        metrics: Metrics = {
            "epoch": self.progress.epoch,
            "lr": summary["lr"],
            "train_loss": summary["train_loss"],
            "train_seconds": self.progress.train_seconds,
            **({"setup_seconds": setup} if (setup := summary["setup_seconds"]) else {}),
        }
        if self.progress.epoch == settings.train.epochs or self.progress.epoch % settings.train.measure_every == 0:
            metrics["test_accuracy"] = self._share(partial(accuracy, self._evaluated), self.data.test)
            metrics |= self._scores("validation", held_out, self._evaluated) if len(held_out) else {}
        score = metrics.get("validation_pgd10", -1.0)
        if score > self.progress.best_score:
            self.progress.best_score, self.progress.best_epoch = score, self.progress.epoch
        if self.processes.first:
            # Nothing is written before the first epoch is done: a run that fails at once can be started again.
            write_text_atomically(self.folder.settings, to_toml(to_table(settings)))  # can be used as a preset
            self.folder.append_metrics(metrics)
        best, last = self.progress.best_epoch == self.progress.epoch, self.progress.epoch == settings.train.epochs
        if best or last or time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self._save()
        self.reporter.epoch(metrics)

    def _save(self) -> None:
        """Write the state of the last epoch, if it is not yet on disk."""
        if self.processes.first and self._saved_epoch < self.progress.epoch:
            save_state(self.folder.state, self.model, self.optimiser, self.average, self.perturbations, self.progress)
            self._publish()
        self._saved_epoch, self._saved_at = self.progress.epoch, time.monotonic()

    def _publish(self) -> None:
        """Write the checkpoints that follow from the state, which is written first: after a kill, resuming does it."""
        save_model(self.folder.last, self._evaluated, self._card())
        if self.progress.best_epoch == self.progress.epoch:
            save_model(self.folder.best, self._evaluated, self._card())

    def _summarise(self) -> Table:
        result: Table = {
            "finished": True,
            "settings": to_table(self.settings),
            "train_seconds": self.progress.train_seconds,
            "device": str(self.data.train.device),
            "gpu": torch.cuda.get_device_name(device) if (device := self.data.train.device).type == "cuda" else "",
            "sharing": self.progress.sharing,
            "threads": self.progress.threads,
            "processes": self.progress.processes,
            "torch": torch.__version__,
            "maxmahal": __version__,
            "last": {"epoch": self.progress.epoch, **self._scores("test", self.data.test, self._evaluated)},
        }
        if self.progress.best_epoch:
            scores = {key: value for key, value in result["last"].items() if key != "epoch"}
            if self.progress.best_epoch != self.progress.epoch:
                trusted = [self.settings.model.backbone]  # a name of the user's own code
                best = load_model(self.folder.best, trusted=trusted, device=self.data.test.device)
                scores = self._scores("test", self.data.test, best)
            chosen = {"epoch": self.progress.best_epoch, "validation_pgd10": self.progress.best_score}
            result["best"] = chosen | scores
        if self.processes.first:
            write_text_atomically(self.folder.result, json.dumps(result, indent=2) + "\n")
        return result

    def _scores(self, split: str, data: ImageData, model: Classifier) -> Metrics:
        scores: Metrics = {f"{split}_accuracy": self._share(partial(accuracy, model), data)}
        if self.method.adversary is not None:
            scores[f"{split}_pgd10"] = self._share(partial(pgd_accuracy, model, self.method.adversary), data)
        return scores

    def _share(self, measure: Callable[[ImageData], float], data: ImageData) -> float:
        """The share of right predictions on ``data``, of which every process measures a part."""
        part = torch.arange(len(data))[self.processes.part(len(data))]
        own = data if len(part) == len(data) else data.select(part)
        return self._total(round(measure(own) * len(own)) if len(own) else 0) / len(data)

    def _total(self, number: int) -> int:
        """The sum over all processes."""
        total = torch.tensor(number, device=self.data.train.device)
        self.processes.add_up([total])
        return int(total)

    def _card(self) -> ModelCard:
        train = self.data.train
        return ModelCard(self.settings, train.image_shape, train.class_names, self.progress.epoch)


def pgd_accuracy(model: Classifier, adversary: Adversary, data: ImageData, batch_size: int = 500) -> float:
    """Accuracy under untargeted PGD-10 on the model's own loss: for choosing a checkpoint, not a robustness claim."""
    right = 0
    with eval_mode(model):
        for start in range(0, len(data), batch_size):
            chosen = slice(start, start + batch_size)
            attacked = pgd(
                model,
                to_unit_range(data.images[chosen]),
                data.labels[chosen],
                objective=own_loss(model.head),
                threat=adversary.threat,
                steps=10,
                step_size=adversary.step_size,
                seed=0,
                sample_ids=data.sample_ids[chosen],
            )
            right += int((~attacked.fooled).sum())
    return right / len(data)
