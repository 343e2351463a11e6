"""A run from settings to a finished folder: start, resume, measure, save."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch

from maxmahal.attacks import own_loss, pgd
from maxmahal.data import ImageData, load_dataset, to_unit_range, train_validation_split
from maxmahal.errors import CheckpointError
from maxmahal.models import Classifier, accuracy, eval_mode
from maxmahal.random import stream_key
from maxmahal.settings import Table, to_table
from maxmahal.train.build import new_classifier
from maxmahal.train.checkpoint import ModelCard, load_model, save_model
from maxmahal.train.config import Settings
from maxmahal.train.ema import WeightAverage
from maxmahal.train.folder import Record, RunFolder
from maxmahal.train.loop import Metrics, Reporter, steps_per_epoch, train_epoch
from maxmahal.train.methods import METHODS, Adversary, Method
from maxmahal.train.optimiser import build_optimiser
from maxmahal.train.state import Progress, load_state, save_state

SELECTION_STEPS = 10  # PGD-10 on the validation split picks the best checkpoint of a robust method


class Silent:
    """A reporter that says nothing."""

    def start(self, epochs: int, epochs_done: int, steps_per_epoch: int) -> None:
        """Nothing."""

    def step(self) -> None:
        """Nothing."""

    def epoch(self, metrics: Metrics) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""


@dataclass(frozen=True)
class RunData:
    """The three parts of a data set as one run uses them."""

    train: ImageData
    validation: ImageData
    test: ImageData


def load_run_data(settings: Settings, data_dir: str | Path | None, device: torch.device | str) -> RunData:
    """Load, split, cut to the limits, and move to the training device once and for all."""
    source = settings.data
    train, validation = train_validation_split(
        load_dataset(source.source, "train", data_dir), source.validation, source.split_seed
    )
    test = load_dataset(source.source, "test", data_dir).first(source.test_limit)
    return RunData(train.first(source.limit).to(device), validation.to(device), test.to(device))


def train(
    settings: Settings,
    out: str | Path,
    *,
    resume: bool = False,
    data_dir: str | Path | None = None,
    device: torch.device | str = "cpu",
    reporter: Reporter | None = None,
) -> Record:
    """Train as ``settings`` say, into the run folder ``out``; returns what ``result.json`` holds.

    With ``resume`` the run goes on after its last finished epoch, on the CPU to the same bits as if never stopped.
    """
    reporter = Silent() if reporter is None else reporter
    folder = RunFolder(out)
    if not resume:
        folder.refuse_overwriting()
    data = load_run_data(settings, data_dir, device)
    with torch.random.fork_rng():
        # Dropout in a user's network draws from torch's own generator, so that one belongs to the run as well.
        torch.manual_seed(stream_key("run", settings.train.seed))
        run = _Run(settings, folder, data, reporter)
        # The folder is made last: a mistake in the settings must not leave an empty one behind.
        with folder.lock():
            return run.finish()


class _Run:
    def __init__(self, settings: Settings, folder: RunFolder, data: RunData, reporter: Reporter) -> None:
        self.settings = settings
        self.folder = folder
        self.data = data
        self.reporter = reporter
        self.method: Method = settings.method.build(METHODS)
        self.steps = steps_per_epoch(data.train, settings.train.batch_size)
        self.model = new_classifier(settings, data.train)
        self.average = WeightAverage(self.model, settings.train.ema) if settings.train.ema else None
        self.optimiser = build_optimiser(self.model, settings.train)
        self.progress = Progress(threads=torch.get_num_threads(), settings=json.dumps(to_table(settings)))
        if self._selects and not len(data.validation):
            reporter.note(
                "No validation images are held out (data.validation = 0), so only the last checkpoint is kept."
            )

    @property
    def _selects(self) -> bool:
        return self.method.adversary is not None

    @property
    def _evaluated(self) -> Classifier:
        """The model that is measured and saved: the average of the weights, where there is one."""
        if self.average is None:
            return self.model
        assert isinstance(self.average.model, Classifier)
        return self.average.model

    def finish(self) -> Record:
        """Every epoch that is still missing, then the summary."""
        self._resume_or_begin()
        epochs = self.settings.train.epochs
        self.reporter.start(epochs, self.progress.epoch, self.steps)
        while self.progress.epoch < epochs:
            self._epoch()
        return self._summarise()

    def _resume_or_begin(self) -> None:
        if not self.folder.state.exists():
            self.folder.write_settings(self.settings)
            self.folder.keep_metrics(0)
            return
        saved = load_state(self.folder.state, self.model, self.optimiser, self.average)
        difference = first_difference(json.loads(saved.settings), json.loads(self.progress.settings))
        if difference:
            raise CheckpointError(
                f"{self.folder.path} was started with other settings ({difference}); "
                "resume it with its own settings.toml, or choose another --out."
            )
        if saved.threads != self.progress.threads:
            self.reporter.note(
                f"This run was started with {saved.threads} threads and goes on with {self.progress.threads}: "
                f"its weights will differ in the last bits. Set OMP_NUM_THREADS={saved.threads} to avoid that."
            )
        self.progress = saved
        self.folder.keep_metrics(saved.epoch)

    def _epoch(self) -> None:
        summary = train_epoch(
            self.model,
            self.optimiser,
            self.method,
            self.data.train,
            self.settings,
            self.progress.epoch,
            self.average,
            self.reporter,
        )
        self.progress.epoch += 1
        self.progress.train_seconds += summary.seconds
        metrics: Metrics = {
            "epoch": self.progress.epoch,
            "lr": summary.lr,
            "train_loss": summary.loss,
            "test_accuracy": accuracy(self._evaluated, self.data.test),
            "train_seconds": self.progress.train_seconds,
        }
        metrics |= self._validate()
        # The order matters: whatever a kill leaves behind, the state is either older than these files, and the epoch
        # is repeated to the same result, or it was written after all of them.
        self._keep_best(metrics)
        save_model(self.folder.last, self._evaluated, self._card(self.progress.epoch))
        self.folder.append_metrics(metrics)
        save_state(self.folder.state, self.model, self.optimiser, self.average, self.progress)
        self.reporter.epoch(metrics)

    def _validate(self) -> Metrics:
        if not len(self.data.validation):
            return {}
        scores = {"validation_accuracy": accuracy(self._evaluated, self.data.validation)}
        if self.method.adversary is not None:
            scores["validation_pgd10"] = pgd_accuracy(self._evaluated, self.data.validation, self.method.adversary)
        return scores

    def _keep_best(self, metrics: Metrics) -> None:
        score = metrics.get("validation_pgd10")
        if score is not None and score > self.progress.best_score:
            self.progress.best_score, self.progress.best_epoch = score, self.progress.epoch
            save_model(self.folder.best, self._evaluated, self._card(self.progress.epoch))

    def _summarise(self) -> Record:
        epochs = self.settings.train.epochs
        result: Record = {
            "settings": to_table(self.settings),
            "train_seconds": self.progress.train_seconds,
            "last": {"epoch": epochs, **self._test_scores(self._evaluated)},
        }
        if self.progress.best_epoch:
            best = load_model(self.folder.best, device=self.data.test.device, backbone=self._own_backbone())
            result["best"] = {
                "epoch": self.progress.best_epoch,
                "validation_pgd10": self.progress.best_score,
                **self._test_scores(best),
            }
        self.folder.write_result(result)
        return result

    def _own_backbone(self) -> torch.nn.Module | None:
        """A network from the user's factory is not rebuilt from a file; the weights are loaded into a copy of ours."""
        if ":" not in self.settings.model.backbone:
            return None
        return new_classifier(self.settings, self.data.train).backbone

    def _test_scores(self, model: Classifier) -> Metrics:
        scores = {"test_accuracy": accuracy(model, self.data.test)}
        if self.method.adversary is not None:
            scores["test_pgd10"] = pgd_accuracy(model, self.data.test, self.method.adversary)
        return scores

    def _card(self, epoch: int) -> ModelCard:
        train = self.data.train
        return ModelCard(self.settings, train.image_shape, train.class_names, epoch)


def pgd_accuracy(model: Classifier, data: ImageData, adversary: Adversary, batch_size: int = 500) -> float:
    """Accuracy under untargeted PGD-10 on the model's own loss: to choose a checkpoint, not to claim robustness."""
    right = 0
    with eval_mode(model):
        for start in range(0, len(data), batch_size):
            chosen = slice(start, start + batch_size)
            labels = data.labels[chosen]
            adversarial = pgd(
                model,
                to_unit_range(data.images[chosen]),
                labels,
                objective=own_loss(model.head),
                threat=adversary.threat,
                steps=SELECTION_STEPS,
                step_size=adversary.step_size,
                seed=0,
                sample_ids=data.sample_ids[chosen],
            )
            with torch.no_grad():
                right += int((model(adversarial).argmax(dim=1) == labels).sum())
    return right / len(data)


def first_difference(old: Table, new: Table, where: str = "") -> str:
    """The first setting in which two runs differ, or nothing."""
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            difference = first_difference(before, after, f"{where}{key}.")
            if difference:
                return difference
        elif before != after:
            return f"{where}{key} was {before!r} and is now {after!r}"
    return ""
