"""Diagnostics: signs that a model only looks robust, and the attacks to add for each of them."""

from maxmahal.evaluate.diagnose import checks
from maxmahal.evaluate.diagnose.binarization import check_binarization
from maxmahal.evaluate.diagnose.bpda import bpda_model
from maxmahal.evaluate.diagnose.probe import PROBE_SIZE, Check, Probe, choose_probe, gives_gradients
from maxmahal.evaluate.diagnose.remedies import REMEDIES, plan_remedies

# Cheap ones first; a new check is a function and a line here.
CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        checks.check_randomness,
        checks.check_zero_gradients,
        checks.check_gradient_direction,
        checks.check_objective_gap,
        check_binarization,
        checks.check_black_box,
        checks.check_epsilon_growth,
        checks.check_still_falling,
    )
}

__all__ = [
    "CHECKS",
    "PROBE_SIZE",
    "REMEDIES",
    "Check",
    "Probe",
    "bpda_model",
    "choose_probe",
    "gives_gradients",
    "plan_remedies",
]
