"""The plan of a grid: one row per model, with one cell for its training and one for each of its evaluations."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

from maxmahal.data import resolve_data_dir
from maxmahal.data.registry import SOURCES
from maxmahal.errors import MaxmahalError, SettingsError
from maxmahal.evaluate.suite import Suite, load_suite
from maxmahal.files import user_path
from maxmahal.imports import named_functions
from maxmahal.reproduce import states
from maxmahal.reproduce.grid import Grid, GridEvaluation, GridModel
from maxmahal.reproduce.jobs import Job
from maxmahal.reproduce.states import CellState, EvaluationKey
from maxmahal.settings import Table, to_table
from maxmahal.train import METHODS, RunFolder, load_card
from maxmahal.train.config import what_counts
from maxmahal.zoo import zoo_models

SEED = 0  # of the attacks
TRAINING = "training"
TRANSFER = "transfer"


@dataclass(frozen=True)
class PlanCell:
    """One training or one evaluation."""

    row: str
    column: str
    job: Job
    look: Callable[[], CellState]
    """Reads its current state from disk."""
    state: CellState
    """Its state when the plan was made."""
    seconds: float
    """Planned for what was missing then."""
    needs: tuple[str, ...] = ()
    """Models that must be trained first."""
    evaluations: tuple[EvaluationKey, ...] = ()
    zoo: str = ""
    """For a training: the model of the zoo that was trained with the same settings, if there is one."""

    @property
    def key(self) -> str:
        """Unique among all cells, and valid as a file name."""
        return f"{self.row}--{self.column}".replace(" ", "-").replace("/", "-")


@dataclass(frozen=True)
class GridPlan:
    """All trainings and evaluations of a grid, done or not."""

    grid: Grid
    out: Path
    device: str
    rows: Mapping[str, Sequence[PlanCell]]
    """By the model as it is evaluated: its last checkpoint, its best one, or all models together."""
    missing_data: str = ""
    """Which data sets are needed and missing, and how to get them, as a sentence."""

    @property
    def cells(self) -> list[PlanCell]:
        """All cells, trainings first, because evaluations wait for them."""
        every = [cell for cells in self.rows.values() for cell in cells]
        return sorted(every, key=lambda cell: cell.column != TRAINING)

    @property
    def seconds(self) -> float:
        """Planned for what is missing, without parallel workers."""
        return sum(cell.seconds for cell in self.cells)

    @property
    def page(self) -> Path:
        """The file of the report."""
        return self.out / f"{self.grid.name}.html"

    def report(self) -> Job:
        """The report of this grid only; the records may hold evaluations of other grids."""
        arguments = {
            "records": str(self.out / "records"),
            "wanted": [[*key] for cell in self.cells for key in cell.evaluations],
            "runs": {model.name: str(self.out / "models" / model.name) for model in self.grid.models},
            "title": self.grid.about or self.grid.name,
            "out": str(self.page),
        }
        return Job("report", arguments)


@dataclass
class GridOutcome:
    """The result of running a plan."""

    page: Path | None = None
    """The report, if there was something to report and time to write it."""
    failed: dict[str, str] = field(default_factory=dict)
    """The error of each failed cell, by its key."""
    left: list[PlanCell] = field(default_factory=list)
    """What is still to be done, failed cells included."""
    impossible: list[PlanCell] = field(default_factory=list)
    """Trainings that diverged, now or before, and the evaluations that need them; they are not tried again."""

    @property
    def ok(self) -> bool:
        """Whether nothing failed; cells for which there was no time have not failed."""
        return not self.failed and not self.impossible


def make_plan(
    grid: Grid,
    out: str | Path,
    *,
    device: str = "cpu",
    overrides: Sequence[str] = (),
    data_dir: str | Path | None = None,
) -> GridPlan:
    """What of a grid is done, partly done or missing in the folder ``out``; nothing is written."""
    folder = user_path(out)
    maker = _Planner(grid, folder, device, overrides, data_dir)
    rows = maker.rows()
    unfinished = [cell for cells in rows.values() for cell in cells if not cell.state.ended]
    return GridPlan(grid, folder, device, rows, missing_data(maker.sources(unfinished), data_dir))


class _Planner:
    def __init__(
        self, grid: Grid, out: Path, device: str, overrides: Sequence[str], data_dir: str | Path | None
    ) -> None:
        self._grid, self._out, self._kind = grid, out, device.partition(":")[0]
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._where = {"device": device, "data_dir": None if data_dir is None else str(data_dir)}
        self._settings = {model.name: model.settings(overrides) for model in grid.models}
        self._planned: dict[EvaluationKey, bool] = {}
        self._trainings: dict[str, Callable[[], CellState]] = {}
        for name in (model.name for model in grid.models if "best" in model.checkpoints):
            settings = self._settings[name]
            if settings.method.build(METHODS).adversary is None or not settings.data.validation:
                raise SettingsError(
                    f"{name}: checkpoints asks for 'best', which only adversarial training with data.validation keeps; "
                    "evaluate 'last'."
                )

    def rows(self) -> dict[str, list[PlanCell]]:
        rows: dict[str, list[PlanCell]] = {}
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
        return rows

    def sources(self, cells: Sequence[PlanCell]) -> list[str]:
        """The data sets of these cells."""
        owners = [owner for cell in cells for owner in cell.needs or (cell.row,)]
        return [self._settings[owner].data.source for owner in owners]

    def _training(self, model: GridModel) -> PlanCell:
        settings, folder = self._settings[model.name], self._out / "models" / model.name
        look = self._trainings[model.name] = partial(states.training_state, folder, settings)
        state = look()
        seconds = states.training_seconds(settings, state, self._kind, self._data_dir)
        job = Job("train", {"settings": to_table(settings), "out": str(folder), **self._where})
        same = (name for name, card in _zoo_settings().items() if card == what_counts(settings))
        return PlanCell(model.name, TRAINING, job, look, state, seconds, zoo=next(same, ""))

    def _evaluations(self, evaluation: GridEvaluation) -> list[PlanCell]:
        files, models = {}, {}
        for model in self._grid.chosen(evaluation):
            folder = RunFolder(self._out / "models" / model.name)
            for name, checkpoint in model.subjects(evaluation.checkpoints).items():
                files[name] = str(folder.path if checkpoint == "last" else folder.best)
                models[name] = model.name
        cells = []
        for names in [list(files)] if evaluation.transfer else [[name] for name in files]:
            targets, owners = {name: files[name] for name in names}, {name: models[name] for name in names}
            cells.append(self._evaluation(evaluation, targets, owners))
        return [cell for cell in cells if cell is not None]

    def _evaluation(
        self, evaluation: GridEvaluation, targets: dict[str, str], owners: dict[str, str]
    ) -> PlanCell | None:
        needs = tuple(dict.fromkeys(owners.values()))
        source = self._source(needs)
        usual = suite = load_suite(evaluation.suite).for_data(source)
        if evaluation.epsilon is not None:
            suite = load_suite(evaluation.suite, epsilon=evaluation.epsilon)
        radius, usual_radius = suite.threat_of(None).radius, usual.threat_of(None).radius
        changed = not math.isclose(radius, usual_radius)
        keys = tuple(
            (name, suite.name, SEED, self._samples(evaluation, suite, owner), suite.norm, radius)
            for name, owner in owners.items()
        )
        if self._is_planned(keys, evaluation.transfer):
            return None
        stages = 1 + len(suite.stages) + len(targets) * evaluation.transfer
        # Code that the grid and its presets name: what the checkpoints may ask for.
        trusted = sorted(named_functions([to_table(self._settings[owner]) for owner in needs]))
        recorded = partial(
            states.evaluation_state, self._out / "records", targets, keys, stages, suite.version, trusted
        )
        look = partial(self._unless_diverged, recorded, needs)
        state = look()
        # In a ball smaller than the usual one, more images take every attack.
        price = partial(states.evaluation_seconds, smaller=changed and radius < usual_radius)
        seconds = sum(
            price(self._settings[owners[name]], suite, samples, state, self._kind) for name, _, _, samples, *_ in keys
        )
        arguments = {
            "targets": targets,
            "data": source,
            "out": str(self._out / "records"),
            "suite": evaluation.suite,
            "limit": evaluation.limit,
            "epsilon": evaluation.epsilon,
            "transfer": evaluation.transfer,
            "trusted": trusted,
        }
        row = f"{TRANSFER} {'+'.join(targets)}" if evaluation.transfer else next(iter(targets))
        parts = (suite.name, suite.epsilon if changed else "", evaluation.limit or "")
        column = " ".join(str(part) for part in parts if part)  # "strict", "strict 1000", "strict 1/255 1000"
        return PlanCell(row, column, Job("evaluate", arguments | self._where), look, state, seconds, needs, keys)

    def _unless_diverged(self, look: Callable[[], CellState], needs: Sequence[str]) -> CellState:
        """The state of an evaluation; it is impossible if a training that it needs has diverged."""
        state = look()
        diverged = [name for name in needs if self._trainings[name]().kind == "impossible"]
        if state.kind == "done" or not diverged:
            return state
        return replace(state, kind="impossible", detail=f"impossible because {' and '.join(diverged)} diverged")

    def _source(self, owners: tuple[str, ...]) -> str:
        """The data set that the grid names for these models; a name in a checkpoint could not run code."""
        sources = {self._settings[owner].data.source for owner in owners}
        if len(sources) > 1:
            raise SettingsError(
                f"Grid {self._grid.name} transfers attacks between models of different data "
                f"({', '.join(sorted(sources))}); put them into separate evaluations."
            )
        return sources.pop()

    def _is_planned(self, keys: tuple[EvaluationKey, ...], transfer: bool) -> bool:
        """Whether another section of the grid has the same evaluation; a conflicting one is an error."""
        known = [self._planned[key] for key in keys if key in self._planned]
        if any(other != transfer for other in known):
            raise SettingsError(
                f"Grid {self._grid.name} runs suite {keys[0][1]} on '{keys[0][0]}' with transfer and "
                "without, and the records can hold only one of them; use two suites, or another limit."
            )
        self._planned |= dict.fromkeys(keys, transfer)
        return len(known) == len(keys)

    def _samples(self, evaluation: GridEvaluation, suite: Suite, owner: str) -> int:
        every = states.count_images(self._settings[owner].data.source, "test", self._data_dir)
        limit = suite.samples if evaluation.limit is None else evaluation.limit
        return every if limit is None else min(limit, every)


@cache
def _zoo_settings() -> dict[str, Table]:
    """What each model of the zoo was trained with; a file that cannot be read is left out."""
    found = {}
    for name, path in zoo_models().items():
        with suppress(MaxmahalError):
            found[name] = what_counts(load_card(path).settings)
    return found


def missing_data(sources: Iterable[str], data_dir: str | Path | None) -> str:
    """Which published data sets are missing and how to get them, as a sentence; empty if none is.

    The user's own files are read while the plan is made, so they are not checked again.
    """
    folder = resolve_data_dir(data_dir)
    published = [name for name in dict.fromkeys(sources) if name in SOURCES]
    missing = [name for name in published if any(file.find(folder) is None for file in SOURCES[name].files)]
    if not missing:
        return ""
    elsewhere = "" if data_dir is None else f" --data-dir {data_dir}"
    ways = " and ".join(f"`maxmahal data fetch {name}{elsewhere}`" for name in missing)
    are = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {are} not in {folder}; run {ways}, or name a folder that has it with --data-dir."
