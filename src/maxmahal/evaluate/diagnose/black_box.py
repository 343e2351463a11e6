"""Does an attacker who knows less break more?"""

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from maxmahal.attacks import Model, cross_entropy, margin, prepare
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.pgd import ProjectedDescent
from maxmahal.evaluate.diagnose.probe import Probe, gives_gradients, in_batches, isolated
from maxmahal.evaluate.diagnose.trials import auto_descent, is_many, percent, plain_descent, random_squares, share
from maxmahal.records import Finding

TITLE = "Black box against white box"
STEPS = 40
QUERIES = 300
TRANSFER_STEPS = 20
# Of all samples. Queries and substitutes know less than gradients, so a few samples are luck, and more are a gradient
# that leads astray.
FLAG_SHARE = 0.03


@isolated("black-box-wins")
def check_black_box(probe: Probe) -> Finding:
    """Square and transfer on the samples that white-box attacks leave standing."""
    standing = probe.is_right.clone()
    if probe.has_gradients:
        standing &= ~plain_descent(probe, margin(), steps=STEPS)
        for start, objective in enumerate((cross_entropy(), margin(), margin())):
            standing &= ~auto_descent(probe, objective, steps=STEPS, start=start, among=standing)
    substitutes = {name: other for name, other in probe.others.items() if gives_gradients(other, probe.images)}
    squares = random_squares(probe, queries=QUERIES, among=standing)
    by_source = {name: standing & _fooled_by_images_of(probe, name, other) for name, other in substitutes.items()}
    transferred = torch.stack([torch.zeros_like(standing), *by_source.values()]).any(dim=0)
    numbers = {
        "white_box": share(standing),
        "square": share(squares),
        "transfer": share(transferred),
        "substitutes": len(substitutes),
        "sources": [name for name, fooled in by_source.items() if is_many(share(fooled), FLAG_SHARE, probe)],
    }
    seen = _describe(probe, numbers)
    if not is_many(share(squares | transferred), FLAG_SHARE, probe):
        sentence = f"{seen}: who knows less does not break more, as it should be."
        return Finding("black-box-wins", TITLE, False, sentence, "", (), numbers)
    adds = ("black-box", "straight-through") + (("transfer",) if numbers["sources"] else ())
    sentence = f"{seen}: an attacker who knows less breaks more, so the gradients mislead."
    remedy = "Attack by queries with a large budget, through straight-through gradients, and from other models."
    return Finding("black-box-wins", TITLE, True, sentence, remedy, adds, numbers)


def _describe(probe: Probe, numbers: dict[str, Any]) -> str:
    left = f"White-box attacks leave {percent(numbers['white_box'])} of the images standing"
    if not probe.has_gradients:
        left = "White-box attacks need gradients, and this model has none"
    seen = f"{left}; of all images, {QUERIES} queries of Square break another {percent(numbers['square'])}"
    if numbers["substitutes"]:
        seen += f" and images crafted on other models ({numbers['substitutes']}) {percent(numbers['transfer'])}"
    return seen


def _fooled_by_images_of(probe: Probe, name: str, source: Model) -> Bool[Tensor, " n"]:
    """Whether the image that a substitute's own PGD ends at fools the model as well."""
    step_size = 2.5 * probe.threat.radius / TRANSFER_STEPS
    method = ProjectedDescent(probe.threat, TRANSFER_STEPS, step_size, probe.keyed("transfer", name))
    parts = (*source.parameters(), *source.buffers()) if isinstance(source, nn.Module) else ()
    device = next((part.device for part in parts), probe.images.device)
    case = Case(probe.images.to(device), probe.labels.to(device), probe.seed, probe.sample_ids.to(device))
    search = prepare(source) if isinstance(source, nn.Module) else source
    # To the last step: images just across the substitute's boundary seldom cross another model's.
    crafted = run(method, search, case, objective=margin(), keep="last", bounds=probe.threat.bounds)
    return in_batches(probe.model, crafted.images.to(probe.images.device)).argmax(dim=1) != probe.labels
