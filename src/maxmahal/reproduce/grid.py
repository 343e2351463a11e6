"""Grids: which models to train and which suites to run on them; shipped or own TOML files."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from maxmahal.errors import SettingsError, did_you_mean
from maxmahal.files import check_folder_name
from maxmahal.settings import Table, convert, from_table, read_toml
from maxmahal.shipped import find_file, seen_from, shipped_files
from maxmahal.train import Settings, load_settings

Checkpoint = Literal["last", "best"]
MOST_SEEDS = 1000
_MOST_COMBINATIONS = 1000


@dataclass(frozen=True)
class GridModel:
    """One training; grids that name the same model share it."""

    name: str
    """The name of its run folder, and of the model in the records."""
    preset: str = ""
    """A preset's name or file; by default the model's name."""
    set: tuple[str, ...] = ()
    """Overrides, such as "train.seed=1"."""
    checkpoints: tuple[Checkpoint, ...] = ("last",)
    """Which to evaluate; the subject of ``best`` is called NAME-best."""
    seeds: int = 0
    """The number of models with different seeds, called NAME-seed0, NAME-seed1, …; NAME then means all of them, and
    "{seed}" in an override is replaced by the seed."""

    def __post_init__(self) -> None:
        if not 0 <= self.seeds <= MOST_SEEDS:
            raise SettingsError(
                f"{self.name}: seeds is the number of models, and must lie in 0..{MOST_SEEDS}; got {self.seeds}."
            )
        check_folder_name(self.name, "model")
        if not self.checkpoints:
            raise SettingsError(f"{self.name}: checkpoints is empty; write ['last'], ['best'] or both.")

    def each(self) -> list["GridModel"]:
        """One model per seed, or the model itself without seeds."""
        models = [] if self.seeds else [self]
        for seed in range(self.seeds):
            changes = (*(each.replace("{seed}", str(seed)) for each in self.set), f"train.seed={seed}")
            preset = self.preset or self.name
            models.append(replace(self, name=f"{self.name}-seed{seed}", preset=preset, set=changes, seeds=0))
        return models

    def settings(self, overrides: Sequence[str] = ()) -> Settings:
        """Its training settings, with the overrides of the whole grid."""
        return load_settings(self.preset or self.name, [*self.set, *overrides])

    def subjects(self, among: Collection[Checkpoint] = ()) -> dict[str, Checkpoint]:
        """The names under which its checkpoints are evaluated; only those in ``among`` if it is not empty."""
        chosen = [each for each in self.checkpoints if not among or each in among]
        return {self.name if each == "last" else f"{self.name}-{each}": each for each in chosen}


@dataclass(frozen=True)
class GridEvaluation:
    """One suite on some of the models."""

    suite: str
    models: tuple[str, ...] = ()
    """By default all models of the grid."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """By default all checkpoints that the models name."""
    limit: int | None = None
    """The number of test images, taken from the start; by default all."""
    epsilon: str | None = None
    """Such as "1/255"; by default that of the suite."""
    transfer: bool = False
    """Whether attacks are transferred between all of its models, which are then evaluated together."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise SettingsError(f"{self.suite}: limit must be at least 1; got {self.limit}.")


@dataclass(frozen=True)
class Grid:
    """The models and evaluations of one grid file."""

    name: str
    about: str
    models: tuple[GridModel, ...]
    evaluations: tuple[GridEvaluation, ...] = ()

    def __post_init__(self) -> None:
        if not self.models:
            raise SettingsError(f"Grid {self.name} has no models; add a [[model]], or include a grid that has some.")
        for evaluation in self.evaluations:
            self.chosen(evaluation)

    def chosen(self, evaluation: GridEvaluation) -> list[GridModel]:
        """The models of an evaluation, in its order."""
        known = {model.name: model for model in self.models}
        return [model for name in evaluation.models or known for model in _pick(known, name, self.name)]


def grid_names() -> list[str]:
    """The grids shipped with the package."""
    return list(shipped_files("grid"))


def list_grids() -> list[tuple[str, str]]:
    """Name and description of every shipped grid."""
    return [(name, load_grid(name).about) for name in grid_names()]


def load_grid(grid: str | Path) -> Grid:
    """A shipped grid by its name, or a TOML file."""
    path = find_file("grid", grid)
    table = read_toml(path)
    known = _known_models(path, table, (path,))
    names = convert(table.pop("models", list(known)), tuple[str, ...], f"{path.name}: models")
    about = convert(table.pop("about", ""), str, f"{path.name}: about")
    evaluations = tuple(
        GridEvaluation(**{**vars(each), "suite": seen_from(path, "suite", each.suite)})
        for each in _sections(GridEvaluation, table.pop("evaluation", []), path, "evaluation")
    )
    for key in table:
        if key not in ("include", "model"):
            valid = ("about", "include", "models", "model", "evaluation")
            raise SettingsError(f"{path.name}: '{key}' is not a setting of a grid; {did_you_mean(key, valid)}")
    models = tuple(model for name in names for model in _pick(known, name, path.stem))
    return Grid(path.stem, about, models, evaluations)


def _known_models(path: Path, table: Table, seen: tuple[Path, ...]) -> dict[str, GridModel]:
    """The models of a grid and of the grids that it includes, by name."""
    known: dict[str, GridModel] = {}
    for name in convert(table.get("include", []), tuple[str, ...], f"{path.name}: include"):
        other = find_file("grid", seen_from(path, "grid", name))
        if other in seen:
            circle = " -> ".join(each.stem for each in (*seen, other))
            raise SettingsError(f"Grids include each other in a circle: {circle}.")
        known |= _known_models(other, read_toml(other), (*seen, other))
    models = table.get("model", [])
    if isinstance(models, list):
        models = [each for model in models for each in _combinations(model)]
    for section in _sections(GridModel, models, path, "model"):
        preset = seen_from(path, "preset", section.preset or section.name)
        for model in replace(section, preset=preset).each():
            if model.name in known:
                raise SettingsError(f"{path.name}: there are two models called '{model.name}'; rename one.")
            known[model.name] = model
    return known


def _combinations(section: object) -> list[object]:
    """One section for each combination of the values in its ``vary``, which replace "{key}" in all of its texts."""
    if not isinstance(section, dict) or "vary" not in section:
        return [section]
    given = section["vary"]
    if not isinstance(given, dict):
        raise SettingsError('model.vary must be a table, such as vary = { lr = ["0.1", "0.2"] }.')
    values = {key: convert(each, tuple[str | int | float, ...], f"model.vary.{key}") for key, each in given.items()}
    if (count := math.prod(map(len, values.values()))) > _MOST_COMBINATIONS:
        raise SettingsError(f"model.vary has {count} combinations; at most {_MOST_COMBINATIONS} are possible.")

    def filled(content: Any, chosen: Mapping[str, str]) -> Any:
        if isinstance(content, list):
            return [filled(each, chosen) for each in content]
        for key, text in chosen.items():
            content = content.replace(f"{{{key}}}", text) if isinstance(content, str) else content
        return content

    rest = {key: content for key, content in section.items() if key != "vary"}
    combinations = [dict(zip(values, map(str, each), strict=True)) for each in product(*values.values())]
    return [{key: filled(content, each) for key, content in rest.items()} for each in combinations]


def _sections(cls: type[Any], tables: object, path: Path, key: str) -> list[Any]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise SettingsError(f"{path.name}: write each {key} as a [[{key}]] section.")
    needed = "suite" if cls is GridEvaluation else "name"
    for table in tables:
        if needed not in table:
            raise SettingsError(f"{path.name}: every [[{key}]] needs a {needed}.")
    return [from_table(cls, table, f"{key}.") for table in tables]


def _pick(known: Mapping[str, GridModel], name: str, grid: str) -> list[GridModel]:
    """The model of that name, or the models of all its seeds."""
    if name in known:
        return [known[name]]
    seeds = [model for other, model in known.items() if re.fullmatch(rf"{re.escape(name)}-seed\d+", other)]
    if not seeds:
        raise SettingsError(f"Grid {grid} has no model '{name}'; {did_you_mean(name, known)}")
    return seeds
