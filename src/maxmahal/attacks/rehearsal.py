"""Whether a sped-up model still gives what the model gives, tried on the first images of an attack."""

import warnings
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from maxmahal.attacks.fold import short_reason
from maxmahal.attacks.objectives import Outputs
from maxmahal.attacks.speedups import NO_SPEEDUPS, Plan, Search, bucket_for, build, pad

CHECKED_IMAGES = 4
# Shares of the largest value that rounding stays below (float32 on a GPU may mean TF32); a network that was folded
# where it must not be is off by far more.
FLOAT32_TOLERANCE = 1e-2
BFLOAT16_TOLERANCE = 0.25


class Rehearsal:
    """The first images of an attack, on which a speed-up must give what the snapshot gives."""

    def __init__(self, snapshot: nn.Module, images: Tensor, with_gradient: bool) -> None:
        self._snapshot = snapshot
        self._batch = len(images)
        self._with_gradient = with_gradient
        with torch.inference_mode(False), torch.no_grad(), _same_draws(images.device):
            self._images = images[:CHECKED_IMAGES].detach().clone()
            self._expected = build(snapshot, NO_SPEEDUPS)(self._images)

    def attempt(self, plan: Plan) -> Search | str:
        """The search of this plan, or why it will not do."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # compilers warn about their own innards, which helps no caller
                search = build(self._snapshot, plan)
                outputs = self._outputs(search)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # the model's own code, or the compiler's
            return short_reason(error)
        tolerance = BFLOAT16_TOLERANCE if "bfloat16" in plan.speedups else FLOAT32_TOLERANCE
        off = _relative_difference(outputs, self._expected)
        return search if off <= tolerance else f"outputs would change by {off:.2g} of the largest"

    def _outputs(self, search: Search) -> Outputs:
        with torch.inference_mode(False), torch.set_grad_enabled(self._with_gradient):
            images = self._images
            if search.buckets is not None:  # the size of the attack's own batch, so that it is compiled only once
                images = pad(images, bucket_for(min(self._batch, search.buckets[0]), search.buckets))
            images = images.detach().requires_grad_(self._with_gradient)
            with _same_draws(images.device):
                outputs = search(images)
            if outputs.logits.requires_grad:
                torch.autograd.grad(outputs.logits.sum(), images, allow_unused=True)
        return outputs


def _same_draws(device: torch.device) -> AbstractContextManager[None]:
    """Generators are put back afterwards: a model that draws draws the same each time, and nothing from the caller."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@torch.no_grad()
def _relative_difference(outputs: Outputs, expected: Outputs) -> float:
    pairs = [(outputs.logits, expected.logits)]
    if outputs.features is not None and expected.features is not None:
        pairs.append((outputs.features, expected.features))
    off = [(one[: len(two)] - two).abs().max() / two.abs().max().clamp_min(1e-30) for one, two in pairs]
    return float(torch.stack(off).nan_to_num(torch.inf).max())
