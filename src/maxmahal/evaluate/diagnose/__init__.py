"""Diagnosis: signs that a model only looks robust, and the attacks that put the verdict right."""

from importlib import import_module

from maxmahal.evaluate.diagnose.binarization import check_binarization
from maxmahal.evaluate.diagnose.black_box import check_black_box
from maxmahal.evaluate.diagnose.epsilon_growth import check_epsilon_growth
from maxmahal.evaluate.diagnose.gradient_direction import check_gradient_direction
from maxmahal.evaluate.diagnose.objective_gap import check_objective_gap
from maxmahal.evaluate.diagnose.probe import PROBE_SIZE, Check, Probe, choose_probe, gives_gradients
from maxmahal.evaluate.diagnose.randomness import check_randomness
from maxmahal.evaluate.diagnose.remedies import REMEDIES, plan_remedies
from maxmahal.evaluate.diagnose.revive import revive
from maxmahal.evaluate.diagnose.still_falling import check_still_falling
from maxmahal.evaluate.diagnose.zero_gradients import check_zero_gradients

# Cheap ones first; a new check is a file and a line here.
CHECKS: dict[str, Check] = {
    "randomness": check_randomness,
    "zero-gradients": check_zero_gradients,
    "gradient-direction": check_gradient_direction,
    "objective-gap": check_objective_gap,
    "binarization": check_binarization,
    "black-box-wins": check_black_box,
    "epsilon-growth": check_epsilon_growth,
    "still-falling": check_still_falling,
}

TITLES: dict[str, str] = {name: import_module(check.__module__).TITLE for name, check in CHECKS.items()}
"""What each check is called before it has an answer."""

__all__ = [
    "CHECKS",
    "PROBE_SIZE",
    "REMEDIES",
    "TITLES",
    "Check",
    "Probe",
    "choose_probe",
    "gives_gradients",
    "plan_remedies",
    "revive",
]
