"""Does the model answer the same question twice in the same way?"""

import torch
from torch import nn

from maxmahal.attacks.rounding import full_float32
from maxmahal.evaluate.diagnose.probe import Probe, in_batches, isolated
from maxmahal.evaluate.diagnose.trials import percent
from maxmahal.evaluate.judging import DRAWN_SHARE, share_that_differs
from maxmahal.records import Finding

TITLE = "The same answer twice"


@isolated("randomness")
def check_randomness(probe: Probe) -> Finding:
    """Two looks at one batch, and a third at its images in other company."""
    images = probe.images
    with full_float32(images.device):
        first, second = (in_batches(probe.model, images) for _ in range(2))
        order = torch.arange(len(images) - 1, -1, -1, device=images.device)
        half = max(len(images) // 2, 1)
        apart = torch.cat([in_batches(probe.model, images[part]) for part in torch.split(order, half)])[order]
    redrawn, company = share_that_differs(first, second), share_that_differs(first, apart)
    changed = float((first.argmax(dim=1) != second.argmax(dim=1)).double().mean())
    training = _in_train_mode(probe)
    numbers = {"differ": redrawn, "differ_in_other_company": company, "predictions_differ": changed}
    hint = f" These layers are still in train mode: {', '.join(training[:5])}." if training else ""
    if redrawn > DRAWN_SHARE:
        sentence = (
            f"Asked twice about the same images, the model changes its logits on {percent(redrawn)} of them and its "
            f"prediction on {percent(changed)}: it draws random numbers, and an attack that looks once follows noise."
        )
        remedy = "Average every step over several draws (expectation over transformation), or switch the noise off."
        return Finding("randomness", TITLE, True, sentence + hint, remedy, ("eot",), numbers)
    if company > DRAWN_SHARE:
        sentence = (
            f"The logits of {percent(company)} of the images depend on which other images are in the batch, as in "
            "batch norm left in train mode: an attacker who chooses the batch chooses the answer."
        )
        remedy = "Put every layer into eval mode and evaluate again."
        return Finding("randomness", TITLE, True, sentence + hint, remedy, (), numbers)
    sentence = "Asked twice, and in other company, the model answers the same, as it should."
    return Finding("randomness", TITLE, False, sentence, "", (), numbers)


def _in_train_mode(probe: Probe) -> list[str]:
    if not isinstance(probe.model, nn.Module):
        return []
    return [name or type(module).__name__ for name, module in probe.model.named_modules() if module.training]
