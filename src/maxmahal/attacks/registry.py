"""Every attack by name, with all the facts about it. A new one is one new file and one line here.

The parameters of an attack's function, all but ``GIVEN``, are its options in a suite. An attack from outside is named
``package.module:name``: such a function, or an ``Attack`` that states more about one.
"""

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from maxmahal.attacks.apgd import apgd
from maxmahal.attacks.autoattack import FEWEST_CLASSES, autoattack_part
from maxmahal.attacks.carlini import carlini_wagner
from maxmahal.attacks.checks import name_of
from maxmahal.attacks.fgsm import fgsm
from maxmahal.attacks.mim import mim
from maxmahal.attacks.minimum_norm import fmn
from maxmahal.attacks.objectives import NamedObjective, Objective
from maxmahal.attacks.oracle import Model, judge
from maxmahal.attacks.pgd import pgd
from maxmahal.attacks.result import Passes, Result, Spent
from maxmahal.attacks.spsa import spsa
from maxmahal.attacks.square import square
from maxmahal.attacks.targets import Targets
from maxmahal.attacks.threats import Threat
from maxmahal.attacks.transfer import craft_for_transfer
from maxmahal.attacks.transforms import worst_of_noise, worst_of_rotations
from maxmahal.errors import ArgumentError, SettingsError, did_you_mean
from maxmahal.imports import import_function, names_a_function

# What an evaluation gives to each attack whose function asks for it.
GIVEN = ("model", "images", "labels", "threat", "norm", "bounds", "seed", "sample_ids", "engine")


@dataclass(frozen=True)
class Option:
    """One option of an attack in a suite; without a default it must be given."""

    type: Any
    default: Any = inspect.Parameter.empty


@dataclass(frozen=True)
class Attack:
    """A function of (model, images, labels, …) that returns a ``Result`` or images, and what is known about it."""

    function: Callable[..., Result | Tensor]
    needs_gradients: bool = True
    stays_in_ball: bool = True
    """Whether its images lie in the threat's ball: only then it may count towards the worst case."""
    changes_images: bool = True
    finds_smallest: bool = False
    """Whether it looks for the smallest perturbation and returns a ``Nearest``."""
    crafts_on_source: bool = False
    """Whether it attacks another model of the evaluation, which the option ``source`` names."""
    fewest_classes: Callable[[Mapping[str, Any]], int] = lambda _: 2
    """The number of classes that it needs with these options."""
    passes: Callable[[Mapping[str, Any]], Passes] = lambda options: by_gradients(options.get("steps") or 0)
    """Those of a sample that it does not break, in one restart towards one target; none if not known."""
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Options of a suite beside those of the function, or with another default."""

    def __call__(self, *given: Any, **options: Any) -> Result | Tensor:
        """What the function finds."""
        return self.function(*given, **options)

    def most_passes(self, options: Mapping[str, Any], classes: int) -> Passes:
        """Those of a sample that it does not break, with every restart and target."""
        few = re.fullmatch(r"top-(\d+)", str(options.get("targets")))
        others = int(few[1]) if few else classes if options.get("targets") == "all-others" else 1
        times = max(min(others, classes - 1), 1) * int(options.get("restarts") or 1)
        each = self.passes(options)
        return Passes(times * each.forward, times * each.backward, times * each.queries)

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of the function's parameters."""
        return frozenset(inspect.signature(self.function).parameters)

    @cached_property
    def knows_any_threat(self) -> bool:
        """Whether it takes every ``Threat``; some attacks are made for L∞ and L2."""
        threat = typing.get_type_hints(self.function).get("threat", Threat)
        return "norm" not in self.parameters and (threat in (Any, Threat) or Threat in typing.get_args(threat))

    @cached_property
    def options(self) -> dict[str, Option]:
        """The function's parameters as options of a suite: objectives and targets by their names."""
        hints = typing.get_type_hints(self.function)
        options = {key: Option(type(value), value) for key, value in self.defaults.items()}
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name in GIVEN or name in options:
                continue
            if name not in hints:
                raise ArgumentError(
                    f"{name_of(self.function)}: give the parameter '{name}' a type, such as {name}: int."
                )
            annotation, default = hints[name], parameter.default
            if annotation == Objective:
                annotation, default = str, default.name if isinstance(default, NamedObjective) else default
            elif annotation == Targets:
                annotation = str | None
            options[name] = Option(annotation, default)
        return options


def by_gradients(count: int) -> Passes:
    """So many gradients, of one sample."""
    return Passes(count, count, count)


def by_queries(count: int) -> Passes:
    """So many looks without a gradient, of one sample."""
    return Passes(count, 0, count)


def clean(model: Model, images: Float[Tensor, "n c h w"], labels: Int[Tensor, " n"]) -> Result:
    """The images as they are."""
    predictions = judge(model, images).predictions
    zeros, ones = torch.zeros_like(labels), torch.ones_like(labels)
    passes = Passes(len(images), 0, len(images))
    return Result(images, predictions, predictions != labels, None, passes, spent=Spent(zeros, ones, zeros, ones))


def _carlini_passes(options: Mapping[str, Any]) -> Passes:
    steps, constants = options["steps"], options["search_steps"]
    tracked = min(steps, max(50, steps // 10)) * -(-constants // 3)
    return by_gradients(tracked if options["constants"] == "tracked" else steps * constants)


def _autoattack_passes(options: Mapping[str, Any]) -> Passes:
    if options["part"] == "square":
        return by_queries(options["queries"])
    return by_gradients(options["steps"] * (9 if options["part"].endswith("-t") else 1))


_UNBOUND: dict[str, Any] = {"needs_gradients": False, "stays_in_ball": False}

ATTACKS: dict[str, Attack] = {
    "clean": Attack(clean, **_UNBOUND, changes_images=False, passes=lambda _: by_queries(1)),
    "fgsm": Attack(fgsm, passes=lambda _: by_gradients(1)),
    "pgd": Attack(pgd),
    "mim": Attack(mim),
    "apgd": Attack(apgd),
    "spsa": Attack(spsa, needs_gradients=False, passes=lambda o: by_queries(o["steps"] * (o["evaluations"] + 1))),
    "square": Attack(square, needs_gradients=False, passes=lambda o: by_queries(o["queries"])),
    "carlini": Attack(carlini_wagner, stays_in_ball=False, finds_smallest=True, passes=_carlini_passes),
    "fmn": Attack(fmn, stays_in_ball=False, finds_smallest=True),
    "noise": Attack(worst_of_noise, **_UNBOUND, passes=lambda o: by_queries(o["tries"])),
    "rotation": Attack(worst_of_rotations, **_UNBOUND, passes=lambda o: by_queries(o["tries"])),
    "autoattack": Attack(
        autoattack_part, fewest_classes=lambda o: FEWEST_CLASSES[o["part"]], passes=_autoattack_passes
    ),
    "transfer": Attack(
        craft_for_transfer, needs_gradients=False, crafts_on_source=True, defaults={"source": "", "objective": "paper"}
    ),
}
"""Attacks by the name that suites use, with what is known about each."""


def find_attack(name: str) -> Attack:
    """The attack that a suite names: one of the registry, or the user's own ``package.module:name``."""
    if name in ATTACKS:
        return ATTACKS[name]
    if not names_a_function(name):
        raise SettingsError(f"attack = {name!r} is unknown; {did_you_mean(name, ATTACKS)}")
    found = import_function(name)
    return found if isinstance(found, Attack) else Attack(found)
