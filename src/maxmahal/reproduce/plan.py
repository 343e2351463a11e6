"""The plan of a grid: a row for each model, a cell for its training and each of its evaluations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from maxmahal.errors import SettingsError
from maxmahal.imports import named_functions
from maxmahal.reproduce.asked import Asked, asked_of
from maxmahal.reproduce.grid import Grid, GridEvaluation, GridModel
from maxmahal.reproduce.jobs import EvaluateJob, Job, ReportJob, TrainJob
from maxmahal.reproduce.needs import missing_data
from maxmahal.reproduce.speeds import count_images, evaluation_seconds, training_seconds
from maxmahal.reproduce.states import Identity, State, look_at_records, training_state, unless_diverged
from maxmahal.settings import to_table
from maxmahal.train import METHODS, RunFolder, Settings

TRAINING = "training"
TRANSFER = "transfer"


@dataclass(frozen=True)
class Cell:
    """One training or one evaluation."""

    row: str
    column: str
    job: Job
    look: Callable[[], State]
    """How far it has come, looked up on the disk now."""
    state: State
    """How far it had come when the plan was made."""
    seconds: float
    """Planned for what was missing then."""
    needs: tuple[str, ...] = ()
    """Models that have to be trained first."""
    identities: tuple[Identity, ...] = ()

    @property
    def key(self) -> str:
        """Its own among all cells, and fit for a file's name."""
        return f"{self.row}--{self.column}".replace(" ", "-").replace("/", "-")


@dataclass(frozen=True)
class Row:
    """One model as it is evaluated: its last checkpoint, its best one, or all models together."""

    name: str
    cells: tuple[Cell, ...]

    @property
    def seconds(self) -> float:
        """Planned for what is missing."""
        return sum(cell.seconds for cell in self.cells)


@dataclass(frozen=True)
class Plan:
    """All there is to do, done or not."""

    grid: Grid
    out: Path
    device: str
    rows: tuple[Row, ...]
    missing_data: str = ""
    """Which data sets are not here though something is to be done with them, and how to get them, as a sentence."""

    @property
    def cells(self) -> list[Cell]:
        """Trainings first, so that nothing waits for them longer than it must."""
        every = [cell for row in self.rows for cell in row.cells]
        return sorted(every, key=lambda cell: cell.column != TRAINING)

    @property
    def seconds(self) -> float:
        """Planned for what is missing, one after another."""
        return sum(row.seconds for row in self.rows)

    @property
    def page(self) -> Path:
        """Where the report goes."""
        return self.out / f"{self.grid.name}.html"

    def report(self) -> ReportJob:
        """The page about this grid alone; the records hold other grids' evaluations too."""
        wanted: list[list[str | int | float]] = [[*identity] for cell in self.cells for identity in cell.identities]
        runs = {model.name: str(self.out / "models" / model.name) for model in self.grid.models}
        return ReportJob(str(self.out / "records"), wanted, runs, self.grid.about or self.grid.name, str(self.page))


def make_plan(
    grid: Grid,
    out: str | Path,
    *,
    device: str = "cpu",
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> Plan:
    """What of a grid is done in the folder ``out``, half done or missing; nothing is written."""
    folder = Path(out).expanduser()
    maker = _Maker(grid, folder, device, overrides, data_dir)
    rows = maker.rows()
    unfinished = [cell for row in rows for cell in row.cells if not cell.state.ended]
    return Plan(grid, folder, device, rows, missing_data(maker.sources(unfinished), data_dir))


class _Maker:
    def __init__(
        self,
        grid: Grid,
        out: Path,
        device: str,
        overrides: Sequence[str],
        data_dir: str | Path | None,
    ) -> None:
        self._grid, self._out, self._device = grid, out, device
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._settings = {model.name: model.settings(overrides) for model in grid.models}
        self._taken: dict[Identity, bool] = {}
        self._trainings: dict[str, Callable[[], State]] = {}
        for model in grid.models:
            _check_checkpoints(model, self._settings[model.name])

    def rows(self) -> tuple[Row, ...]:
        rows: dict[str, list[Cell]] = {}
        for model in self._grid.models:
            rows[model.name] = [self._training(model)]
            for subject in model.subjects():
                if subject in rows and subject != model.name:
                    raise SettingsError(f"Grid {self._grid.name}: '{subject}' names two models; rename one.")
                rows.setdefault(subject, [])
        for evaluation in self._grid.evaluations:
            for cell in self._evaluations(evaluation):
                rows.setdefault(cell.row, []).append(cell)
        keys = [cell.key for cells in rows.values() for cell in cells]
        for key in keys:
            if keys.count(key) > 1:
                raise SettingsError(f"Grid {self._grid.name}: two of its cells are called '{key}'; rename a model.")
        return tuple(Row(name, tuple(cells)) for name, cells in rows.items())

    def sources(self, cells: Sequence[Cell]) -> list[str]:
        """The data sets that some of the cells work on."""
        owners = [owner for cell in cells for owner in cell.needs or (cell.row,)]
        return [self._settings[owner].data.source for owner in owners]

    def _training(self, model: GridModel) -> Cell:
        settings, folder = self._settings[model.name], self._out / "models" / model.name
        look = self._trainings[model.name] = partial(training_state, folder, settings)
        state = look()
        seconds = training_seconds(settings, state, self._kind, self._data_dir)
        job = TrainJob(to_table(settings), str(folder), self._device, self._data_text)
        return Cell(model.name, TRAINING, job, look, state, seconds)

    def _evaluations(self, evaluation: GridEvaluation) -> list[Cell]:
        asked = asked_of(evaluation)
        models = self._grid.chosen(evaluation)
        groups = [models] if evaluation.transfer else [[model] for model in models]
        cells = []
        for group in groups:
            subjects = {
                name: (model, checkpoint)
                for model in group
                for name, checkpoint in model.subjects(evaluation.checkpoints).items()
            }
            several = [list(subjects)] if evaluation.transfer else [[name] for name in subjects]
            for names in several:
                targets = {name: str(self._checkpoint(*subjects[name])) for name in names}
                owners = {name: subjects[name][0].name for name in names}
                cells.append(self._evaluation(evaluation, asked, targets, owners))
        return [cell for cell in cells if cell is not None]

    def _evaluation(
        self, evaluation: GridEvaluation, asked: Asked, targets: dict[str, str], owners: dict[str, str]
    ) -> Cell | None:
        suite = asked.suite
        identities = tuple(asked.identity(name, self._samples(asked, owner)) for name, owner in owners.items())
        if self._is_planned(identities, evaluation.transfer):
            return None
        stages = 1 + len(suite.stages) + len(targets) * evaluation.transfer
        trusted = self._named(tuple(owners.values()))
        needs = tuple(dict.fromkeys(owners.values()))
        recorded = partial(look_at_records, self._out / "records", targets, identities, stages, suite.version, trusted)
        look = partial(unless_diverged, recorded, {name: self._trainings[name] for name in needs})
        state = look()
        seconds = sum(
            evaluation_seconds(
                self._settings[owners[name]], suite.name, samples, state, self._kind, smaller=asked.smaller
            )
            for name, _, _, samples, *_ in identities
        )
        job = EvaluateJob(
            targets,
            self._source(tuple(owners.values())),
            str(self._out / "records"),
            evaluation.suite,
            evaluation.limit,
            evaluation.transfer,
            self._device,
            self._data_text,
            trusted,
            evaluation.epsilon,
        )
        row = f"{TRANSFER} {'+'.join(targets)}" if evaluation.transfer else next(iter(targets))
        return Cell(row, asked.column, job, look, state, seconds, needs, identities)

    def _source(self, owners: tuple[str, ...]) -> str:
        """What the models were trained on by the grid's own word: a checkpoint's word would not do for code."""
        sources = {self._settings[owner].data.source for owner in owners}
        if len(sources) > 1:
            raise SettingsError(
                f"Grid {self._grid.name} crafts across models of different data ({', '.join(sorted(sources))}); "
                "put them into evaluations of their own."
            )
        return sources.pop()

    def _named(self, owners: tuple[str, ...]) -> list[str]:
        """Code that the grid and its presets name: what the checkpoints may ask for."""
        return sorted(named_functions([to_table(self._settings[owner]) for owner in owners]))

    def _is_planned(self, identities: tuple[Identity, ...], transfer: bool) -> bool:
        """Whether another section of the grid asks for the same; one that asks for something else is refused."""
        known = [self._taken[identity] for identity in identities if identity in self._taken]
        if any(other != transfer for other in known):
            raise SettingsError(
                f"Grid {self._grid.name} runs suite {identities[0][1]} on '{identities[0][0]}' with transfer and "
                "without, and the records hold one of them; use two suites, or another limit."
            )
        self._taken |= dict.fromkeys(identities, transfer)
        return len(known) == len(identities)

    def _samples(self, asked: Asked, owner: str) -> int:
        every = count_images(self._settings[owner].data.source, "test", self._data_dir)
        limit = asked.suite.samples if asked.limit is None else asked.limit
        return every if limit is None else min(limit, every)

    def _checkpoint(self, model: GridModel, checkpoint: str) -> Path:
        folder = RunFolder(self._out / "models" / model.name)
        return folder.path if checkpoint == "last" else folder.best

    @property
    def _kind(self) -> str:
        return self._device.partition(":")[0]

    @property
    def _data_text(self) -> str | None:
        return None if self._data_dir is None else str(self._data_dir)


def _check_checkpoints(model: GridModel, settings: Settings) -> None:
    keeps_best = settings.method.build(METHODS).adversary is not None and settings.data.validation > 0
    if "best" in model.checkpoints and not keeps_best:
        raise SettingsError(
            f"{model.name}: checkpoints asks for 'best', which only adversarial training with data.validation keeps; "
            "evaluate 'last'."
        )
