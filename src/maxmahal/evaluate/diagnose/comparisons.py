"""Attacks compared: the cross-entropy should not hide what the margin finds, and black boxes should not break more."""

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from maxmahal.attacks import Engine, Model, prepare
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.objectives import CROSS_ENTROPY, MARGIN
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.evaluate.diagnose.effort import EPSILON_STEPS, RESTART_STEPS
from maxmahal.evaluate.diagnose.probe import (
    Probe,
    auto_descent,
    check,
    gives_gradients,
    in_batches,
    is_many,
    passed,
    percent,
    plain_descent,
    random_squares,
    share,
    warning,
)
from maxmahal.records import Finding

OBJECTIVE_STEPS = 20
# In accuracy. With both objectives the same network is attacked, and on ordinary models, trained adversarially or not,
# the accuracies differ by a few points.
FLAG_GAP = 0.10
QUERIES = 300
TRANSFER_STEPS = 20
# Of all samples. Queries and other models know less than gradients: a few samples are chance, more mean that the
# gradient is misleading.
FLAG_SHARE = 0.03


@check("objective-gap", "Cross-entropy against margin")
def check_objective_gap(probe: Probe) -> Finding:
    """The same PGD with each of the two."""
    if not probe.has_gradients:
        return passed("Not applicable: without gradients there is no PGD whose objectives could be compared.")
    entropy = share(~plain_descent(probe, CROSS_ENTROPY, steps=OBJECTIVE_STEPS))
    other = share(~plain_descent(probe, MARGIN, steps=OBJECTIVE_STEPS))
    numbers = {"cross_entropy": entropy, "margin": other, "steps": OBJECTIVE_STEPS}
    seen = (
        f"The accuracy under PGD-{OBJECTIVE_STEPS} is {percent(entropy)} with the cross-entropy and {percent(other)} "
        "with the margin"
    )
    if entropy - other > FLAG_GAP:
        sentence = f"{seen}: the cross-entropy is a weak objective here, and the model is not that robust."
        remedy = "Attack with the margin or the difference of logits ratio, with restarts and towards each class."
        return warning(sentence, remedy, ("scale-free",), numbers)
    return passed(f"{seen}: the choice of the objective hides nothing, as it should be.", numbers)


@check("black-box-wins", "Black box against white box")
def check_black_box(probe: Probe) -> Finding:
    """Square and transfer on the samples that white-box attacks do not break."""
    robust = probe.is_right.clone()
    if probe.has_gradients:
        # Attacks that other checks run too: they are shared.
        for objective in (MARGIN, CROSS_ENTROPY):
            robust &= ~plain_descent(probe, objective, steps=OBJECTIVE_STEPS, among=robust)
        for objective in (MARGIN, CROSS_ENTROPY):
            robust &= ~auto_descent(probe, objective, steps=EPSILON_STEPS, among=robust)
        for start in range(2):
            robust &= ~auto_descent(probe, MARGIN, steps=RESTART_STEPS, start=start, among=robust)
    substitutes = {name: other for name, other in probe.others.items() if gives_gradients(other, probe.images)}
    squares = random_squares(probe, queries=QUERIES, among=robust)
    by_source = {name: robust & _transferred(probe, name, other) for name, other in substitutes.items()}
    transferred = torch.stack([torch.zeros_like(robust), *by_source.values()]).any(dim=0)
    numbers = {
        "white_box": share(robust),
        "square": share(squares),
        "transfer": share(transferred),
        "substitutes": len(substitutes),
        "sources": [name for name, fooled in by_source.items() if is_many(share(fooled), FLAG_SHARE, probe)],
    }
    seen = f"The accuracy under white-box attacks is {percent(share(robust))}"
    if not probe.has_gradients:
        seen = "White-box attacks need gradients, and this model has none"
    seen += f"; of all images, {QUERIES} queries of Square break another {percent(share(squares))}"
    if substitutes:
        seen += f" and images crafted on other models ({len(substitutes)}) {percent(share(transferred))}"
    if not is_many(share(squares | transferred), FLAG_SHARE, probe):
        return passed(f"{seen}: black-box attacks do not break more, as it should be.", numbers)
    adds = ("black-box", "straight-through") + (("transfer",) if numbers["sources"] else ())
    sentence = f"{seen}: attacks that know less break more, so the gradients are misleading."
    remedy = "Attack by queries with a large budget, through straight-through gradients, and from other models."
    return warning(sentence, remedy, adds, numbers)


def _transferred(probe: Probe, name: str, source: Model) -> Bool[Tensor, " n"]:
    """Whether the last image of PGD on another model breaks this model too."""
    step_size = 2.5 * probe.threat.radius / TRANSFER_STEPS
    method = ProjectedDescent(probe.threat, TRANSFER_STEPS, step_size, probe.keyed("transfer", name))
    parts = (*source.parameters(), *source.buffers()) if isinstance(source, nn.Module) else ()
    device = next((part.device for part in parts), probe.images.device)
    case = Case(probe.images.to(device), probe.labels.to(device), probe.seed, probe.sample_ids.to(device))
    search = prepare(source) if isinstance(source, nn.Module) else source
    # To the last step: images just across the other model's boundary seldom transfer.
    engine = Engine(progress=probe.progress)
    crafted = run(method, search, case, objective=MARGIN, engine=engine, keep="last", bounds=probe.threat.bounds)
    return in_batches(probe.model, crafted.images.to(probe.images.device)).argmax(dim=1) != probe.labels
