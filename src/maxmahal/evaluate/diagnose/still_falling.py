"""Would more steps or more starts have broken more?"""

from maxmahal.attacks import margin
from maxmahal.evaluate.diagnose.probe import Probe, check
from maxmahal.evaluate.diagnose.trials import auto_descent, percent, share
from maxmahal.evaluate.records import Finding

TITLE = "Accuracy against effort"
STEPS = (25, 50, 100)
RESTARTS = (1, 2, 4)
RESTART_STEPS = 50
# In accuracy, for the last doubling of the effort: an attack that has converged gains next to nothing there.
FLAG_FALL = 0.03


@check("still-falling")
def still_falling(probe: Probe) -> Finding:
    """APGD on the margin, with growing numbers of steps and then of starts."""
    if not probe.has_gradients:
        sentence = "Not applicable: without gradients there is no descent to take further."
        return Finding("still-falling", TITLE, False, sentence, "")
    by_steps = [share(~auto_descent(probe, margin(), steps=steps)) for steps in STEPS]
    by_restarts = [
        by_steps[STEPS.index(RESTART_STEPS)]
        if restarts == 1
        else share(~auto_descent(probe, margin(), steps=RESTART_STEPS, restarts=restarts))
        for restarts in RESTARTS
    ]
    numbers = {
        "steps": list(STEPS),
        "accuracy_by_steps": by_steps,
        "restarts": list(RESTARTS),
        "accuracy_by_restarts": by_restarts,
    }
    falls = {"steps": by_steps[-2] - by_steps[-1], "restarts": by_restarts[-2] - by_restarts[-1]}
    adds = tuple(name for name, fall in falls.items() if fall > FLAG_FALL)
    seen = (
        f"From {STEPS[-2]} to {STEPS[-1]} steps the accuracy goes from {percent(by_steps[-2])} to "
        f"{percent(by_steps[-1])}, from {RESTARTS[-2]} to {RESTARTS[-1]} starts from {percent(by_restarts[-2])} to "
        f"{percent(by_restarts[-1])}"
    )
    if not adds:
        sentence = f"{seen}: more effort finds next to nothing more, as it should be."
        return Finding("still-falling", TITLE, False, sentence, "", (), numbers)
    sentence = f"{seen}: it still falls, so what is left standing is a matter of patience."
    remedy = f"Attack with more {' and more '.join(adds)}."
    return Finding("still-falling", TITLE, True, sentence, remedy, adds, numbers)
