"""How long the stages of an evaluation take: the passes of each attack times the seconds of a pass."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from maxmahal.attacks import L2, Engine, Linf, Passes, Threat, margin
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.method import Method
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.attacks.registry import find_attack
from maxmahal.attacks.square import RandomSquares
from maxmahal.data import ImageData
from maxmahal.evaluate.diagnose.probe import PROBE_SIZE
from maxmahal.evaluate.evaluated_model import EvaluatedModel
from maxmahal.evaluate.suite import Stage
from maxmahal.random import own_stream
from maxmahal.records.types import Rating

PROBE_STEPS = 10
PROBE_SECONDS = 0.3  # a probe that took less is repeated with more images, to be closer to a real batch
FIRST_PROBE, LARGEST_PROBE = 32, 2048
BROKEN = 0.1  # of an attack's passes, for a sample that it breaks: most successes come early
PATIENT = 0.5  # of the passes of an attack with patience: what samples take that it gives up
GRADIENT = 3.0  # queries: what a gradient costs where only queries were measured
# Estimated from the steps of the checks, for each of their samples that stays correct.
DIAGNOSTICS = Passes(forward=900, backward=500, queries=900)


@dataclass(frozen=True)
class Speed:
    """Seconds of one pass of one image."""

    gradient: float  # forward and backward
    query: float

    def seconds(self, passes: Passes) -> float:
        """The time of so many passes."""
        return self.gradient * passes.backward + self.query * (passes.forward - passes.backward)


class Forecast:
    """The time that an evaluation still needs, from the speed of its own chunks."""

    def __init__(self, samples: int, classes: int, draws: int) -> None:
        self._samples, self._classes, self._draws = samples, classes, draws
        self._spent: dict[str, tuple[float, int]] = {}
        self._stages: list[Stage] = []
        self._number, self._missing, self._robust = 0, 0, 1.0

    def plan(self, attacks: Sequence[Stage]) -> None:
        """The attacks that will run, in order."""
        self._stages = list(attacks)

    def begin(self, stage: Stage, missing: int, robust: float) -> None:
        """A stage starts that lacks ``missing`` samples; ``robust`` is the share that is still correct."""
        names = [each.name for each in self._stages]
        self._number = names.index(stage.name) + 1 if stage.name in names else 0
        self._missing, self._robust = missing, robust

    def learn(self, samples: int, rating: Rating) -> None:
        """A chunk of the current stage is done."""
        self._missing -= samples
        if self._number:  # the clean images only warm up
            self._spent = self._with(rating)

    def ahead(self) -> list[Stage]:
        """The current attack and those after it."""
        return self._stages[max(self._number - 1, 0) :]

    def seconds(self, samples: int, rating: Rating | None = None) -> float:
        """The time of so many samples of the current attack; 0 before anything is measured."""
        speed = self._speed(self._spent if rating is None else self._with(rating))
        return self._left(self.ahead()[0], samples, speed) if self._number else 0.0

    def outlook(self, done: float = 0.0, rating: Rating | None = None) -> str:
        """Such as "stage 3 of 10, about 4 min left"; ``done`` samples of the current chunk are, at that cost."""
        if not self._number:
            return ""
        place = f"stage {self._number} of {len(self._stages)}"
        speed = self._speed(self._spent if rating is None else self._with(rating))
        if speed is None:
            return place
        current, *later = self.ahead()
        left = self._left(current, self._missing - done, speed)
        robust, draws = self._robust, self._draws
        planned = stage_seconds(
            later, self._samples, speed, classes=self._classes, correct=robust, robust=robust, draws=draws
        )
        left += sum(seconds or 0.0 for seconds in planned)
        return f"{place}, about {duration(max(left, 1.0))} left"

    def _left(self, stage: Stage, samples: int | float, speed: Speed | None) -> float:
        if speed is None:
            return 0.0
        passes = find_attack(stage.attack.name).most_passes(dict(stage.attack.options), self._classes)
        return samples * speed.seconds(passes) * max(self._draws, stage.eot if self._draws > 1 else 1)

    def _with(self, rating: Rating) -> dict[str, tuple[float, int]]:
        """Seconds and passes of all attacks by gradients and by queries, with one more."""
        kind, passes = ("gradient", rating.backward) if rating.backward else ("query", rating.forward)
        seconds, before = self._spent.get(kind, (0.0, 0))
        return {**self._spent, kind: (seconds + rating.seconds, before + passes)}

    @staticmethod
    def _speed(spent: dict[str, tuple[float, int]]) -> Speed | None:
        known = {kind: seconds / passes for kind, (seconds, passes) in spent.items() if passes}
        if not known:
            return None
        query = known["query"] if "query" in known else known["gradient"] / GRADIENT
        return Speed(known.get("gradient", GRADIENT * query), query)


@dataclass(frozen=True)
class Probed:
    """What a short timed attack on a few images tells about a model."""

    speed: Speed
    images: int
    correct: float  # the share of clean images that are classified correctly
    robust: float  # the share that the short attack leaves


def probe(target: EvaluatedModel, data: ImageData, threat: Threat, *, gradients: bool) -> Probed:
    """Time PGD-10, if the model gives gradients, and 10 queries of Square on the first images."""
    most, count = min(len(data), LARGEST_PROBE), min(len(data), FIRST_PROBE)
    ball = threat if isinstance(threat, Linf | L2) else Linf(min(threat.radius, 1.0))  # all that Square knows
    while True:
        some = data.first(count).to(target.device)
        started = time.perf_counter()
        query, correct, robust = _timed(RandomSquares(ball, PROBE_STEPS, 0.8, 0), target, some)
        gradient = 0.0
        if gradients:
            descent = ProjectedDescent(threat, PROBE_STEPS, 2.5 * threat.radius / PROBE_STEPS, 0)
            gradient, correct, robust = _timed(descent, target, some)
        if count == most or time.perf_counter() - started > PROBE_SECONDS:
            return Probed(Speed(gradient, query), count, correct, robust)
        count = min(4 * count, most)


def _timed(method: Method, target: EvaluatedModel, data: ImageData) -> tuple[float, float, float]:
    """Seconds of one pass, and the shares of samples that are correct before and after."""
    images, labels = data.float_images(), data.labels
    case = Case(images, labels, 0, data.sample_ids)
    with own_stream(images.device, 0):
        for _ in range(2):  # the first run also compiles
            started = time.perf_counter()
            found = run(method, target.fast, case, objective=margin(), engine=Engine(early_exit=False))
            fooled = float(found.fooled.double().mean())  # waits for the device
            seconds = time.perf_counter() - started
        with torch.no_grad():
            right = float((target.model(images).argmax(dim=1) == labels).double().mean())
    return seconds / (PROBE_STEPS * len(images)), right, 1 - fooled


def stage_seconds(
    stages: Sequence[Stage],
    samples: int,
    speed: Speed,
    *,
    classes: int,
    correct: float,
    robust: float,
    draws: int = 1,
    patient: float = PATIENT,
) -> list[float | None]:
    """Planned seconds of stages that follow each other; None where the passes of an attack are not known.

    ``correct`` and ``robust`` are shares of the samples: the attacks are expected to leave the latter. Attacks with
    patience are expected to take the share ``patient`` of their passes.
    """
    planned: list[float | None] = []
    left = correct
    for stage in stages:
        attack, options = find_attack(stage.attack.name), dict(stage.attack.options)
        attacked = left if stage.scope == "survivors" else 1.0
        exits = attack.changes_images and not attack.finds_smallest and options.get("keep") != "last" and draws == 1
        whole = min(attacked, robust) if exits else attacked
        count = min(samples, stage.limit or samples) * (whole + BROKEN * (attacked - whole))
        each = speed.seconds(attack.most_passes(options, classes)) * max(draws, stage.eot if draws > 1 else 1)
        each *= patient if options.get("patience") else 1.0
        planned.append(count * each if each else None)
        if stage.counts and attack.changes_images:
            left = min(left, robust)
    return planned


def diagnostics_seconds(samples: int, speed: Speed, robust: float) -> float:
    """Planned seconds of all checks for false robustness."""
    return min(samples, PROBE_SIZE) * (robust + BROKEN * (1 - robust)) * speed.seconds(DIAGNOSTICS)


def duration(seconds: float) -> str:
    """For people: "40 s", "5 min", "2.5 h", "30 days"."""
    units = ((1.0, "s", 90.0), (60.0, "min", 90.0), (3600.0, "h", 36.0), (86_400.0, "days", math.inf))
    count, unit = next((seconds / size, unit) for size, unit, most in units if seconds / size < most)
    tenths = unit in ("h", "days") and count < 9.95
    return f"{f'{count:.1f}'.removesuffix('.0') if tenths else f'{count:.0f}'} {unit}"
