"""Suites: which attacks, in which order, how hard; named and versioned TOML files, the package's or the user's."""

import dataclasses
import inspect
import math
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from maxmahal.attacks import L2, Linf, Threat, parse_epsilon
from maxmahal.attacks.objectives import find_objective
from maxmahal.attacks.registry import ATTACKS, find_attack
from maxmahal.attacks.targets import find_targets
from maxmahal.data.registry import SOURCES
from maxmahal.errors import ArgumentError, SettingsError, did_you_mean
from maxmahal.files import check_folder_name
from maxmahal.imports import call_function, import_function, names_a_function, only_named
from maxmahal.records.types import Origin, Scope
from maxmahal.settings import Component, Table, convert, read_toml, to_table
from maxmahal.shipped import find_file, seen_from, shipped_files

NORMS: dict[str, type[Linf | L2]] = {"Linf": Linf, "L2": L2}


@dataclass(frozen=True)
class Stage:
    """One attack of a suite."""

    name: str
    attack: Component
    title: str = ""
    scope: Scope = "survivors"
    counts: bool = True
    epsilon: str | None = None
    """Its own, where it differs from the suite's; such a stage does not count towards the worst case."""
    limit: int | None = None
    """Only the first so many samples."""
    search: Literal["fast", "precise", "straight-through"] = "fast"
    """What it searches on: the prepared model, the same without bfloat16, which is too coarse right at the decision
    boundary, or one whose dead steps pass gradients through (BPDA)."""
    eot: int = 1
    """Draws to average over at each look at a model that draws."""
    with_draws: bool = True
    """Whether it is worth its price on a model that draws, where every look costs many."""
    origin: Origin = "suite"
    because: str = ""
    """The check that asked for it."""
    remedy: str = ""

    def __post_init__(self) -> None:
        for label, value in (("limit", self.limit), ("eot", self.eot)):
            if value is not None and value < 1:
                raise SettingsError(f"{self.name}: {label} must be at least 1; got {value}.")
        if self.epsilon is not None and self.counts:
            raise SettingsError(
                f"{self.name} has an epsilon of its own, so it cannot count towards the suite's worst case; "
                "set counts = false."
            )
        if self.limit is not None and self.counts:
            raise SettingsError(
                f"{self.name} has a limit, so most samples would count as robust without being attacked; "
                "set counts = false and scope = 'all'."
            )
        if not self.counts and self.scope == "survivors":
            raise SettingsError(f"{self.name} does not count, so it must run on all samples; set scope = 'all'.")
        with only_named(self.attack.name):
            attack = find_attack(self.attack.name)
        if self.counts and attack.changes_images and not attack.stays_in_ball:
            raise SettingsError(
                f"{self.name}: {self.attack.name} stays in no ball, so it cannot count towards the suite's worst case; "
                "set counts = false and scope = 'all'."
            )
        check_folder_name(self.name, "stage")
        _check_options(self)


@dataclass(frozen=True)
class Suite:
    """An evaluation as it is planned; ``version`` grows whenever a number could change."""

    name: str
    version: int
    about: str
    stages: tuple[Stage, ...]
    norm: str = "Linf"
    """Linf, L2, or the user's own ``package.module:name``, which is called with epsilon and returns a ``Threat``."""
    epsilon: str = "8/255"
    samples: int | None = None
    """How many samples to take where the user does not say; all by default."""
    chunk: int = 250
    """Samples that are attacked and recorded together: what a kill can cost."""
    diagnose: bool = False
    """Whether to look for signs of false robustness."""
    mend: bool = False
    """Whether to add the attacks that such signs call for."""
    comparison: bool = False
    """Whether it repeats the paper's protocol, to be compared with its tables, and so is no measure of robustness."""
    assumed: bool = False
    """Whether epsilon is a default: set neither by the file or the user nor by the data set."""

    def __post_init__(self) -> None:
        check_folder_name(self.name, "suite")
        for label, value in (("version", self.version), ("chunk", self.chunk), ("samples", self.samples)):
            if value is not None and value < 1:
                raise SettingsError(f"Suite {self.name}: {label} must be at least 1; got {value}.")
        if not self.stages:
            raise SettingsError(f"Suite {self.name} has no attacks; add at least one [[stage]].")
        names = [stage.name for stage in self.stages]
        for name in names:
            if names.count(name) > 1 or name == "clean":
                raise SettingsError(f"Suite {self.name} has two stages called '{name}'; rename one.")
        for stage in (None, *self.stages):
            try:
                _check_norm(self, stage)
            except ArgumentError as error:
                where = f"Suite {self.name}" if stage is None else f"Suite {self.name}, {stage.name}"
                raise SettingsError(f"{where}: {error}") from error

    def for_data(self, name: str) -> "Suite":
        """With the epsilon of that data set, unless one was chosen."""
        source = SOURCES.get(name)
        if not self.assumed or self.norm != "Linf" or source is None or source.epsilon is None:
            return self
        return replace(self, epsilon=source.epsilon, assumed=False)

    def epsilon_of(self, stage: Stage | None) -> str:
        """How far a stage, or the suite, goes."""
        return self.epsilon if stage is None or stage.epsilon is None else stage.epsilon

    def threat_of(self, stage: Stage | None) -> Threat:
        """The ball in which a stage, or the suite, looks."""
        kind, epsilon = NORMS.get(self.norm), self.epsilon_of(stage)
        return _own_threat(self.norm, epsilon) if kind is None else kind(epsilon)

    def to_table(self) -> Table:
        """Every setting with every default, for the records."""
        # How the numbers are to be read is no setting of theirs: records from before this was said can go on.
        aside = ("stages", "comparison", "assumed")
        table = {key: value for key, value in vars(self).items() if key not in aside and value is not None}
        # By name, so that what differs between two suites can be said in a few words.
        stages = {stage.name: stage_to_table(stage) for stage in self.stages}
        return {**table, "order": list(stages), "stages": stages}


_PLANNERS = ("origin", "because", "remedy")  # set by the plan, not by users
# What a file may say at its top.
_TOP = [
    "[[stage]]",
    "include",
    *(field.name for field in dataclasses.fields(Suite) if field.name not in ("stages", "assumed")),
]


def suite_names() -> list[str]:
    """The suites shipped with the package."""
    return list(shipped_files("suite"))


def load_suite(suite: str | Path, *, norm: str | None = None, epsilon: str | None = None) -> Suite:
    """A shipped suite by its name, or a TOML file; with another ball where one is given."""
    path = find_file("suite", suite)
    own = {key: value for key, value in read_toml(path).items() if key not in ("include", "stages", "stage")}
    tables = _stages(path)
    values = _parse_fields(Suite, {"name": path.stem} | own, path.name, _TOP)
    for needed in ("version", "about"):
        if needed not in values:
            raise SettingsError(f"{path.name} needs a '{needed}'; add it at the top.")
    with only_named([table for table, _ in tables]):
        stages = tuple(stage_from_table(table, where) for table, where in tables)
    assumed = epsilon is None and "epsilon" not in own
    found = Suite(**values, stages=stages, assumed=assumed)
    if assumed and norm is None and found.norm != "Linf":
        raise SettingsError(
            f"{path.name}: norm = '{found.norm}' needs an epsilon; add one at the top, such as epsilon = \"0.5\"."
        )
    return _within(found, norm, epsilon)


def _stages(path: Path, seen: tuple[Path, ...] = ()) -> list[tuple[Table, str]]:
    """The stages of included suites, then the file's own, or those that it names; each with the name of its file."""
    if path in seen:
        circle = " -> ".join(each.stem for each in (*seen, path))
        raise SettingsError(f"Suites include each other in a circle: {circle}.")
    table, where = read_toml(path), path.name
    known = []
    for name in _parse(table.get("include", []), tuple[str, ...], f"{where}: include"):
        known += _stages(find_file("suite", seen_from(path, "suite", name)), (*seen, path))
    own = table.get("stage", [])
    if not isinstance(own, list) or not all(isinstance(stage, dict) for stage in own):
        raise SettingsError(f"{where}: stages are written as [[stage]] sections, one an attack.")
    known += [(stage, where) for stage in own]
    if "stages" not in table:
        return known
    by_name = {str(stage.get("name")): (stage, file) for stage, file in known}
    names = table["stages"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(
            f"{where}: 'stages' only names stages to take, such as stages = ['apgd-margin']; "
            "write each attack as a [[stage]] section, without the s."
        )
    for name in names:
        if name not in by_name:
            raise SettingsError(f"{where}: there is no stage '{name}' to take; {did_you_mean(name, by_name)}")
    return [by_name[name] for name in names]


def stage_from_table(table: Table, where: str = "the suite") -> Stage:
    """One stage: what is said about it, and the options of its attack; ``where`` is the file it stands in."""
    own = [field.name for field in dataclasses.fields(Stage) if field.name != "attack"]
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise SettingsError(f"{where}: every stage needs a name, such as name = 'apgd-margin'.")
    try:
        said = _parse_fields(Stage, {key: table[key] for key in table if key in own}, name, own)
        options = {key: value for key, value in table.items() if key not in own}
        attack = _parse_attack(options, name, [key for key in own if key not in _PLANNERS])
        stage = Stage(attack=attack, **said)
    except SettingsError as error:
        raise SettingsError(f"{where}, stage {error}") from error
    return stage if stage.title else replace(stage, title=name)


def stage_to_table(stage: Stage) -> Table:
    """The inverse of ``stage_from_table``, with every default written out."""
    attack = to_table(stage.attack)
    named = {key: value for key, value in vars(stage).items() if key != "attack" and value not in (None, "")}
    return {**named, "attack": attack.pop("name"), **{key: value for key, value in attack.items() if value is not None}}


def title_for(stage: Stage, classes: int) -> str:
    """A stage's title for a model of so many classes: one of few has fewer wrong ones than "each of 9 classes" says."""
    few = re.fullmatch(r"top-(\d+)", str(dict(stage.attack.options).get("targets")))
    if few is None or int(few[1]) < classes:
        return stage.title
    others = "the other class" if classes == 2 else f"{classes - 1} classes"
    named = rf"(each of )?\b{few[1]} classes"
    return re.sub(named, lambda found: others if classes == 2 else f"{found[1] or ''}{others}", stage.title)


def _check_options(stage: Stage) -> None:
    """What an attack would refuse once it runs, told before anything is recorded."""
    for key, value in stage.attack.options if stage.attack.name in ATTACKS else ():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise SettingsError(f"{stage.name}: {key} must be at least 1; got {value}.")
        if isinstance(value, float) and value < 0:
            raise SettingsError(f"{stage.name}: {key} must not be negative; got {value}.")
        if key == "evaluations" and value % 2:
            raise SettingsError(f"{stage.name}: evaluations come in mirrored pairs, so make them even; got {value}.")
        try:
            if key == "objective":
                find_objective(str(value))
            if key == "targets" and value is not None:
                find_targets(str(value))
            if key == "step_size" and value is not None:
                parse_epsilon(value, "step_size")
        except (ArgumentError, SettingsError) as error:
            raise SettingsError(f"{stage.name}: {error}") from error


def _own_threat(norm: str, epsilon: str) -> Threat:
    """The user's own ball."""
    radius = parse_epsilon(epsilon, largest=math.inf)
    with only_named(norm):
        threat = call_function(norm, import_function(norm), radius)
    if not isinstance(threat, Threat):
        lacking = [name for name in vars(Threat) if not name.startswith("_") and not hasattr(threat, name)]
        missing = " and no ".join(lacking)
        raise ArgumentError(f"{norm} must return a threat, and {type(threat).__name__} has no {missing}.")
    if threat.radius != radius:
        raise ArgumentError(f"{norm} was given the epsilon {radius:g}, and its radius is {threat.radius}; keep it.")
    return threat


def _check_norm(suite: Suite, stage: Stage | None) -> None:
    """Refuse a ball that does not exist, and what knows L∞ and L2 alone in another one."""
    if suite.norm not in NORMS and not names_a_function(suite.norm):
        raise ArgumentError(f"norm = '{suite.norm}' is unknown; {did_you_mean(suite.norm, NORMS)}")
    suite.threat_of(stage)
    if suite.norm in NORMS:
        return
    if stage is None and suite.diagnose:
        raise ArgumentError("the checks for false robustness know Linf and L2; set diagnose = false.")
    if stage is not None:
        with only_named(stage.attack.name):
            if not find_attack(stage.attack.name).knows_any_threat:
                raise ArgumentError(f"{stage.attack.name} knows Linf and L2 alone; leave this stage out.")


def _within(suite: Suite, norm: str | None, epsilon: str | None) -> Suite:
    """The suite in another ball; one whose stages have epsilons of their own cannot follow."""
    if norm is None and epsilon is None:
        return suite
    if any(stage.epsilon is not None for stage in suite.stages):
        raise SettingsError(
            f"Suite {suite.name} fixes the ball of each attack, so norm and epsilon do not apply; "
            "choose another suite, or write a .toml of your own."
        )
    norm = norm or suite.norm
    try:
        other = replace(suite, norm=norm, epsilon=epsilon or suite.epsilon)
    except SettingsError as error:
        given = f"epsilon = {epsilon}" if norm == suite.norm else f"norm = {norm}"
        raise SettingsError(f"{given}: {error}") from error
    if norm != suite.norm and epsilon is None:
        raise SettingsError(f"norm = {norm} needs an epsilon too: the suite's own is meant for {suite.norm}.")
    return other


def _parse_fields(cls: type[Any], table: Table, where: str, known: Sequence[str]) -> Table:
    """Every value as the dataclass has it; ``known`` is what a file may say there."""
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in table.items():
        if key not in known:
            raise SettingsError(f"{where}: '{key}' is not a setting of a suite; {did_you_mean(key, known)}")
        values[key] = _parse(value, hints[key], f"{where}: {key}")
    return values


def _parse_attack(table: Table, where: str, beside: Sequence[str]) -> Component:
    """An attack with its options; ``beside`` are the other keys of a stage, to correct typos in them."""
    given = dict(table)
    name = given.pop("attack", None)
    if name is None:
        raise SettingsError(f"{where}: it needs an attack; {did_you_mean('', ATTACKS)}")
    try:
        options = find_attack(str(name)).options
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from error
    values = {key: option.default for key, option in options.items()}
    for key, value in given.items():
        if key not in options:
            raise SettingsError(
                f"{where}: '{key}' is not an option of {name}; {did_you_mean(key, [*options, *beside])}"
            )
        values[key] = _parse(value, options[key].type, f"{where}: {key}")
    missing = [key for key, value in values.items() if value is inspect.Parameter.empty]
    if missing:
        raise SettingsError(f"{where}: {name} needs the option '{missing[0]}'; add it to the stage.")
    return Component(str(name), tuple(values.items()))


def _parse(value: object, annotation: Any, where: str) -> Any:
    """``value`` as ``annotation`` allows it."""
    try:
        return convert(value, annotation, where)
    except SettingsError as error:
        # Without a way out that suites do not have: no command sets a key of theirs.
        raise SettingsError(str(error).removesuffix(" Change it in the TOML or --set.")) from error


def option_defaults(name: str) -> Table:
    """The options of an attack by default, which records of earlier versions lack if they were added since."""
    if name not in ATTACKS:
        return {}
    return {key: option.default for key, option in ATTACKS[name].options.items() if option.default is not None}
