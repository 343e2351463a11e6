"""Accuracy against effort: it should fall as epsilon grows, and more steps or starts should change little."""

import math
from itertools import pairwise

from maxmahal.attacks import Linf
from maxmahal.attacks.objectives import CROSS_ENTROPY, MARGIN
from maxmahal.evaluate.diagnose.probe import (
    Probe,
    auto_descent,
    check,
    is_many,
    passed,
    percent,
    random_squares,
    share,
    warning,
)
from maxmahal.records import Finding

EPSILON_STEPS = 25
QUERIES = 200
# In accuracy, in the ball in which every image can be made grey: no classifier can be right there, and what is left is
# what the attack did not find. Short attacks may miss a little.
FLAG_LEFT = 0.05
# In accuracy, from one ball to a larger one that contains it: a short attack may lose a few samples by chance.
FLAG_RISE = 0.05
STEPS = (25, 50, 100)
RESTARTS = (1, 2, 4)
RESTART_STEPS = STEPS[1]  # so that the first start is known already
# In accuracy, for the last doubling of the effort: a converged attack gains at most 3.5 points on ordinary models; with
# shattered gradients it gains more.
FLAG_FALL = 0.05


@check("epsilon-growth", "Accuracy against epsilon")
def check_epsilon_growth(probe: Probe) -> Finding:
    """One short strong attack at each of several epsilons."""
    epsilons = _epsilons(probe)
    accuracies = [share(probe.is_right)] + [_accuracy(probe, epsilon) for epsilon in epsilons[1:]]
    numbers = {"epsilons": epsilons, "accuracies": accuracies}
    rise, place = max((after - before, i) for i, (before, after) in enumerate(pairwise(accuracies)))
    last = f"epsilon {epsilons[-1]:.3g}, where every image can be made grey,"
    remedy = "Attack with another objective, through straight-through gradients and by queries alone."
    adds = ("scale-free", "straight-through", "black-box")
    if is_many(accuracies[-1], FLAG_LEFT, probe):
        sentence = (
            f"At {last} the accuracy is still {percent(accuracies[-1])}, which is impossible: the attack does not find "
            "what must exist."
        )
        return warning(sentence, remedy, adds, numbers)
    if is_many(rise, FLAG_RISE, probe):
        sentence = (
            f"From epsilon {epsilons[place]:.3g} to {epsilons[place + 1]:.3g} the accuracy rises from "
            f"{percent(accuracies[place])} to {percent(accuracies[place + 1])}, though the larger ball contains the "
            "smaller one: the attack fails."
        )
        return warning(sentence, remedy, adds, numbers)
    return passed(
        f"With growing epsilon the accuracy falls to {percent(accuracies[-1])} at {last} as it should.", numbers
    )


@check("still-falling", "Accuracy against effort")
def check_still_falling(probe: Probe) -> Finding:
    """APGD on the margin, with growing numbers of steps and then of starts."""
    if not probe.has_gradients:
        return passed("Not applicable: without gradients there is no descent to continue.")
    fooled = {steps: auto_descent(probe, MARGIN, steps=steps) for steps in STEPS}
    by_steps = [share(~fooled[steps]) for steps in STEPS]
    robust = ~fooled[RESTART_STEPS]
    by_restarts = [share(robust)]
    for before, after in pairwise(RESTARTS):
        for start in range(before, after):
            robust = robust & ~auto_descent(probe, MARGIN, steps=RESTART_STEPS, start=start, among=robust)
        by_restarts.append(share(robust))
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
        return passed(f"{seen}: more effort finds almost nothing more, as it should be.", numbers)
    sentence = f"{seen}: it still falls, so a longer attack would find more."
    return warning(sentence, f"Attack with more {' and more '.join(adds)}.", adds, numbers)


def _epsilons(probe: Probe) -> list[float]:
    """Zero, two balls inside the evaluation's own, that one, its double and the geometric mean on the way to grey."""
    low, high = probe.threat.bounds
    half = (high - low) / 2  # how far any pixel is from the middle at most
    grey = half if isinstance(probe.threat, Linf) else half * math.sqrt(probe.images[0].numel())
    own = probe.threat.radius
    larger = [radius for radius in (2 * own, math.sqrt(2 * own * grey)) if 2 * own < grey]
    return sorted({0.0, own / 4, own / 2, own, *larger, max(own, grey)})


def _accuracy(probe: Probe, epsilon: float) -> float:
    own = probe.threat  # itself, and not an equal one, so that its attacks are shared
    threat = own if epsilon == own.radius else type(own)(epsilon, own.bounds)
    if not probe.has_gradients:
        return share(~random_squares(probe, queries=QUERIES, threat=threat))
    fooled = auto_descent(probe, MARGIN, steps=EPSILON_STEPS, threat=threat)
    return share(~(fooled | auto_descent(probe, CROSS_ENTROPY, steps=EPSILON_STEPS, threat=threat, among=~fooled)))
