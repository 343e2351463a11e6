"""Does the usual objective hide what another one finds?"""

from maxmahal.attacks import cross_entropy, margin
from maxmahal.evaluate.diagnose.probe import Probe, isolated
from maxmahal.evaluate.diagnose.trials import percent, plain_descent, share
from maxmahal.records import Finding

TITLE = "Cross-entropy against margin"
STEPS = 20
# In accuracy. Both objectives follow the same network, and on ordinary models, trained adversarially or not, they end
# within a few points of each other.
FLAG_GAP = 0.10


@isolated("objective-gap")
def check_objective_gap(probe: Probe) -> Finding:
    """The same PGD with each of the two."""
    if not probe.has_gradients:
        sentence = "Not applicable: without gradients there is no PGD whose objectives could be compared."
        return Finding("objective-gap", TITLE, False, sentence, "")
    entropy = share(~plain_descent(probe, cross_entropy(), steps=STEPS))
    other = share(~plain_descent(probe, margin(), steps=STEPS))
    numbers = {"cross_entropy": entropy, "margin": other, "steps": STEPS}
    seen = f"PGD-{STEPS} leaves {percent(entropy)} with the cross-entropy and {percent(other)} with the margin"
    if entropy - other > FLAG_GAP:
        sentence = (
            f"{seen}: what withstands the cross-entropy is the weakness of that objective, no strength of the model."
        )
        remedy = "Attack with the margin or the difference of logits ratio, with restarts and towards each class."
        return Finding("objective-gap", TITLE, True, sentence, remedy, ("scale-free",), numbers)
    sentence = f"{seen}: the choice of the objective hides nothing, as it should be."
    return Finding("objective-gap", TITLE, False, sentence, "", (), numbers)
