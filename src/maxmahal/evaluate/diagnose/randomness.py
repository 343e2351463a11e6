"""Does the model give the same answer twice?"""

import torch
from torch import nn

from maxmahal.attacks.oracle import full_float32
from maxmahal.evaluate.diagnose.probe import Probe, check, in_batches, passed, percent, share, warning
from maxmahal.evaluate.predictions import STOCHASTIC_SHARE, share_that_differs
from maxmahal.records import Finding


@check("randomness", "The same answer twice")
def check_randomness(probe: Probe) -> Finding:
    """Two passes of one batch, and a third of the same images in other batches."""
    images = probe.images
    with full_float32(images.device):
        first, second = (in_batches(probe.model, images) for _ in range(2))
        order = torch.arange(len(images) - 1, -1, -1, device=images.device)
        half = max(len(images) // 2, 1)
        apart = torch.cat([in_batches(probe.model, images[part]) for part in torch.split(order, half)])[order]
    again, elsewhere = share_that_differs(first, second), share_that_differs(first, apart)
    changed = share(first.argmax(dim=1) != second.argmax(dim=1))
    numbers = {"differ": again, "differ_in_other_company": elsewhere, "predictions_differ": changed}
    layers = probe.model.named_modules() if isinstance(probe.model, nn.Module) else ()
    training = [name or type(module).__name__ for name, module in layers if module.training]
    hint = f" These layers are still in train mode: {', '.join(training[:5])}." if training else ""
    if again > STOCHASTIC_SHARE:
        sentence = (
            f"In a second pass of the same images the logits of {percent(again)} of them change, and the prediction of "
            f"{percent(changed)}: the model is stochastic, and an attack that uses one pass follows noise."
        )
        remedy = "Average every step over several draws (expectation over transformation), or switch the noise off."
        return warning(sentence + hint, remedy, ("eot",), numbers)
    if elsewhere > STOCHASTIC_SHARE:
        sentence = (
            f"The logits of {percent(elsewhere)} of the images depend on which other images are in the batch, as in "
            "batch norm left in train mode: the prediction depends on the rest of the batch."
        )
        return warning(sentence + hint, "Put every layer into eval mode and evaluate again.", (), numbers)
    return passed("Two passes, and passes in other batches, give the same answer, as they should.", numbers)
