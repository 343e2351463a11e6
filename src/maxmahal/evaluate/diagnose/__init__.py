"""Diagnosis: signs that a model only looks robust, and the attacks that put the verdict right."""

from maxmahal.evaluate.diagnose.binarization import binarization
from maxmahal.evaluate.diagnose.black_box import black_box_wins
from maxmahal.evaluate.diagnose.epsilon_growth import epsilon_growth
from maxmahal.evaluate.diagnose.gradient_direction import gradient_direction
from maxmahal.evaluate.diagnose.objective_gap import objective_gap
from maxmahal.evaluate.diagnose.probe import PROBE_SIZE, Check, Probe, choose_probe, gives_gradients
from maxmahal.evaluate.diagnose.randomness import randomness
from maxmahal.evaluate.diagnose.remedies import REMEDIES, plan_remedies
from maxmahal.evaluate.diagnose.revive import revive
from maxmahal.evaluate.diagnose.still_falling import still_falling
from maxmahal.evaluate.diagnose.zero_gradients import zero_gradients

# Cheap ones first; a new check is a file and a line here.
CHECKS: dict[str, Check] = {
    "randomness": randomness,
    "zero-gradients": zero_gradients,
    "gradient-direction": gradient_direction,
    "objective-gap": objective_gap,
    "binarization": binarization,
    "black-box-wins": black_box_wins,
    "epsilon-growth": epsilon_growth,
    "still-falling": still_falling,
}

__all__ = [
    "CHECKS",
    "PROBE_SIZE",
    "REMEDIES",
    "Check",
    "Probe",
    "choose_probe",
    "gives_gradients",
    "plan_remedies",
    "revive",
]
