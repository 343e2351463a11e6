"""Would more steps or more starts have broken more?"""

from itertools import pairwise

from maxmahal.attacks import margin
from maxmahal.evaluate.diagnose.probe import Probe, isolated
from maxmahal.evaluate.diagnose.trials import auto_descent, is_many, percent, share
from maxmahal.records import Finding

TITLE = "Accuracy against effort"
STEPS = (25, 50, 100)
RESTARTS = (1, 2, 4)
RESTART_STEPS = STEPS[1]  # so that the first start is known already
# In accuracy, for the last doubling of the effort: an attack that has converged gains at most 3.5 points there on
# ordinary models, a shattered gradient costs it more.
FLAG_FALL = 0.05


@isolated("still-falling")
def check_still_falling(probe: Probe) -> Finding:
    """APGD on the margin, with growing numbers of steps and then of starts."""
    if not probe.has_gradients:
        sentence = "Not applicable: without gradients there is no descent to take further."
        return Finding("still-falling", TITLE, False, sentence, "")
    fooled = {steps: auto_descent(probe, margin(), steps=steps) for steps in STEPS}
    by_steps = [share(~fooled[steps]) for steps in STEPS]
    standing = ~fooled[RESTART_STEPS]
    by_restarts = [share(standing)]
    for before, after in pairwise(RESTARTS):
        for start in range(before, after):
            standing = standing & ~auto_descent(probe, margin(), steps=RESTART_STEPS, start=start, among=standing)
        by_restarts.append(share(standing))
    numbers = {
        "steps": list(STEPS),
        "accuracy_by_steps": by_steps,
        "restarts": list(RESTARTS),
        "accuracy_by_restarts": by_restarts,
    }
    falls = {"steps": by_steps[-2] - by_steps[-1], "restarts": by_restarts[-2] - by_restarts[-1]}
    adds = tuple(name for name, fall in falls.items() if is_many(fall, FLAG_FALL, probe))
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
