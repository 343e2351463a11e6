"""Does a larger ball break more, up to one in which every image can be made grey?"""

import math
from itertools import pairwise

from maxmahal.attacks import Linf, cross_entropy, margin
from maxmahal.evaluate.diagnose.probe import Probe, isolated
from maxmahal.evaluate.diagnose.trials import auto_descent, is_many, percent, random_squares, share
from maxmahal.records import Finding

TITLE = "Accuracy against epsilon"
STEPS = 25
QUERIES = 200
# In accuracy, at the ball in which all images can look alike: nothing can be told apart there, and what an attack
# leaves is what it did not find. A little is left to short attacks.
FLAG_LEFT = 0.05
# In accuracy, from one ball to a larger one that contains it: a short attack may lose a few samples by chance.
FLAG_RISE = 0.05


@isolated("epsilon-growth")
def check_epsilon_growth(probe: Probe) -> Finding:
    """One short strong attack at each of several epsilons."""
    epsilons = _epsilons(probe)
    accuracies = [share(probe.is_right)] + [_accuracy(probe, epsilon) for epsilon in epsilons[1:]]
    numbers = {"epsilons": epsilons, "accuracies": accuracies}
    rise, place = max((after - before, i) for i, (before, after) in enumerate(pairwise(accuracies)))
    last = f"epsilon {epsilons[-1]:.3g}, where every image can be made grey,"
    if is_many(accuracies[-1], FLAG_LEFT, probe):
        sentence = (
            f"At {last} the attack still leaves {percent(accuracies[-1])} standing, which no model can earn: it fails "
            "to find what must exist."
        )
        return _flagged(sentence, numbers)
    if is_many(rise, FLAG_RISE, probe):
        sentence = (
            f"From epsilon {epsilons[place]:.3g} to {epsilons[place + 1]:.3g} the accuracy rises from "
            f"{percent(accuracies[place])} to {percent(accuracies[place + 1])}, though the larger ball holds the "
            "smaller one: the attack loses its way."
        )
        return _flagged(sentence, numbers)
    sentence = f"With growing epsilon the accuracy falls to {percent(accuracies[-1])} at {last} as it should."
    return Finding("epsilon-growth", TITLE, False, sentence, "", (), numbers)


def _flagged(sentence: str, numbers: dict[str, list[float]]) -> Finding:
    remedy = "Attack with another objective, through straight-through gradients and by queries alone."
    adds = ("scale-free", "straight-through", "black-box")
    return Finding("epsilon-growth", TITLE, True, sentence, remedy, adds, numbers)


def _epsilons(probe: Probe) -> list[float]:
    """Zero, two balls inside the evaluation's own, that one, its double and the geometric mean on the way to grey."""
    own, grey = probe.threat.radius, _grey_radius(probe)
    larger = [radius for radius in (2 * own, math.sqrt(2 * own * grey)) if 2 * own < grey]
    return sorted({0.0, own / 4, own / 2, own, *larger, max(own, grey)})


def _grey_radius(probe: Probe) -> float:
    """The ball around any image that reaches the middle of the pixel range everywhere."""
    low, high = probe.threat.bounds
    half = (high - low) / 2
    return half if isinstance(probe.threat, Linf) else half * math.sqrt(probe.images[0].numel())


def _accuracy(probe: Probe, epsilon: float) -> float:
    threat = type(probe.threat)(epsilon, probe.threat.bounds)
    if not probe.has_gradients:
        return share(~random_squares(probe, queries=QUERIES, threat=threat))
    fooled = auto_descent(probe, margin(), steps=STEPS, threat=threat)
    return share(~(fooled | auto_descent(probe, cross_entropy(), steps=STEPS, threat=threat, among=~fooled)))
