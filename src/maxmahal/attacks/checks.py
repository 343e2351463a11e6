"""Checks of what callers give: each mistake is answered with one sentence before any work is done."""

import inspect
import math
from numbers import Real

import torch
from torch import Tensor, nn

from maxmahal.attacks.model_outputs import check_answers, is_out_of_memory, predicted_classes
from maxmahal.attacks.objectives import NamedObjective, Objective, Outputs, zero_is_success
from maxmahal.attacks.oracle import Model, Oracle, Samples
from maxmahal.attacks.prepare import Prepared
from maxmahal.attacks.prepare.folding import BATCH_NORMS, short_reason
from maxmahal.attacks.threats import L2, UNIT, Bounds, Linf, Threat, as_threat
from maxmahal.errors import ArgumentError, MaxmahalError, check_count, did_you_mean, warn_caller

_A_FUNCTION = "objective must be a function of outputs, labels and targets"
_OBJECTIVES = (
    "class_logit()",
    "cross_entropy()",
    "dlr()",
    "margin()",
    "nearest_center(head)",
    "own_loss(head)",
    "own_loss_difference(head)",
)
PROBABILITIES = (
    "The model seems to return probabilities: after a softmax gradients vanish and attacks look weaker than they are. "
    "Attack the logits before it."
)
AN_OBJECTIVE = (
    "an objective takes (outputs, labels, targets), where outputs.logits and outputs.features are tensors and targets "
    "may be None."
)


def check_positive(name: str, value: float) -> None:
    """A positive, finite number."""
    if not (isinstance(value, Real) and value > 0 and math.isfinite(value)):
        raise ArgumentError(f"{name} must be positive; got {value}.")


def check_patience(patience: int | None, objective: Objective) -> None:
    """None, or a whole number and an objective that tells how far a sample is from being broken."""
    if patience is None:
        return
    check_count("patience", patience)
    if not zero_is_success(objective):
        raise ArgumentError(
            "patience needs an objective that is negative exactly where the model is wrong, such as margin(); "
            "leave patience out."
        )


def check_seed(seed: int) -> None:
    """A whole number: 3 and 3.0, or a numpy 3, would give other random numbers."""
    if not isinstance(seed, int):
        raise ArgumentError(f"seed must be a whole number; got {seed!r}. Convert it with int().")


def check_objective(objective: Objective) -> None:
    """A function of three arguments, not a name and not the factory that makes it."""
    function = objective.function if isinstance(objective, NamedObjective) else objective
    if not callable(function):
        raise ArgumentError(f"{_A_FUNCTION}; got {function!r}. {_call_what_makes(str(function))}")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a built-in that does not tell; the first look will
        return
    try:
        signature.bind(None, None, None)
    except TypeError as error:
        if str(getattr(function, "__module__", "")).startswith("maxmahal."):
            name = name_of(function)
            raise ArgumentError(f"{_A_FUNCTION}; got {name}. {_call_what_makes(name)}") from error
        takes = ", ".join(signature.parameters)
        raise ArgumentError(f"{_A_FUNCTION}; {name_of(function)} takes ({takes}), but {AN_OBJECTIVE}") from error


def _call_what_makes(name: str) -> str:
    return f"Call what makes it, as in objective=margin(); {did_you_mean(name, _OBJECTIVES)}"


def name_of(function: object) -> str:
    """What to call an objective or another function in a sentence."""
    return getattr(function, "name", None) or getattr(function, "__name__", None) or type(function).__name__


def check_threat(threat: Threat | str | float, images: Tensor) -> Threat:
    """The threat that a caller means; a warning if no classifier can resist inside a ball that large."""
    ball = as_threat(threat)
    if not isinstance(ball, Linf | L2):
        return ball
    low, high = ball.bounds
    largest = 0.5 * (high - low)
    if isinstance(ball, L2):
        largest *= 0.5 * math.sqrt(math.prod(getattr(images, "shape", ())[1:]))
    if ball.radius >= largest:
        warn_caller(
            f"{type(ball).__name__}({ball.radius:g}) lets an attacker turn these images into almost anything "
            f"(from {largest:.3g} on they can all look alike): a low accuracy says nothing about the model."
        )
    return ball


def check_images(images: Tensor, labels: Tensor, sample_ids: Tensor | None, bounds: Bounds) -> None:
    """Shapes, types, devices and ranges."""
    if not isinstance(images, Tensor) or images.ndim != 4 or images.dtype not in (torch.float32, torch.float64):
        got = f"{images.dtype} of shape {tuple(images.shape)}" if isinstance(images, Tensor) else type(images).__name__
        hint = " Divide bytes by 255: images / 255." if getattr(images, "dtype", None) == torch.uint8 else ""
        raise ArgumentError(f"images must be a float32 tensor of shape (n, channels, height, width); got {got}.{hint}")
    _check_one_each("labels", labels, images)
    if sample_ids is not None:
        _check_one_each("sample_ids", sample_ids, images)
    if not len(images):
        raise ArgumentError("images must hold at least one image; got none.")
    low, high = (float(value) for value in images.detach().aminmax())
    if math.isnan(low):
        raise ArgumentError("images must be numbers; some of these pixels are NaN.")
    if not (bounds[0] <= low and high <= bounds[1]):
        hint = "Divide bytes by 255, and let the model normalise." if bounds == UNIT else "Check the threat's bounds."
        raise ArgumentError(f"images must lie in [{bounds[0]:g}, {bounds[1]:g}]; got {low:g}..{high:g}. {hint}")


def _check_one_each(name: str, tensor: Tensor, images: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"{name} must be a torch.int64 tensor; got a {type(tensor).__name__}.")
    if tensor.shape != images.shape[:1]:
        got = len(tensor) if tensor.ndim == 1 else f"the shape {tuple(tensor.shape)}"
        raise ArgumentError(f"{name} must hold one value for each of the {len(images)} images; got {got}.")
    if tensor.dtype != torch.int64:
        raise ArgumentError(f"{name} must be torch.int64; got {tensor.dtype}. Convert them with .long().")
    if tensor.device != images.device:
        raise ArgumentError(f"images are on {images.device} and {name} on {tensor.device}; move one to the other.")


def check_model(model: Model, images: Tensor) -> None:
    """Mode and device of a module; a function is not checked."""
    module = model.original if isinstance(model, Prepared) else model
    if not isinstance(module, nn.Module):
        return
    if module.training:
        raise ArgumentError(
            "The model is in train mode, where batch norm mixes samples and dropout is random; call model.eval() first."
        )
    batch_norms = [each for each in module.modules() if isinstance(each, BATCH_NORMS)]
    if any(each.training or not each.track_running_stats for each in batch_norms):
        raise ArgumentError(
            "A batch norm of the model uses the statistics of the batch, so each answer depends on the other images; "
            "call model.eval(), and let every batch norm keep running statistics."
        )
    first = next(module.parameters(), next(module.buffers(), None))
    if first is not None and first.device != images.device:
        raise ArgumentError(
            f"The model is on {first.device} and the images on {images.device}; move one to the other's device."
        )
    if images.dtype == torch.float64 and first is not None and first.dtype == torch.float32:
        raise ArgumentError("images are float64 and the model's weights float32; convert the images with .float().")


def check_logits(logits: Tensor, labels: Tensor) -> None:
    """The outputs for the clean images: shape, NaN, and whether the labels fit."""
    classes = logits.shape[1]
    if classes < 2:
        raise ArgumentError(f"The model must tell at least two classes apart to be attacked; it has {classes}.")
    check_answers(predicted_classes(logits))
    low, high = (int(value) for value in labels.aminmax())
    if low < 0 or high >= classes:
        raise ArgumentError(
            f"labels must lie in 0..{classes - 1} because the model has {classes} classes; got {low}..{high}."
        )
    if are_probabilities(logits):
        warn_caller(PROBABILITIES)


def are_probabilities(logits: Tensor) -> bool:
    """Whether a model seems to end with a softmax."""
    sums_to_one = (logits.sum(dim=1) - 1).abs().amax() < 1e-4
    return bool(sums_to_one & (logits.amin() >= 0) & (logits.amax() <= 1))


def warn_about_lost(lost: Tensor, success: Tensor) -> None:
    """At the end of an attack: if the objective was not finite, samples that survived may not be robust."""
    count, kept = torch.stack([lost > 0, (lost > 0) & ~success]).sum(dim=1).tolist()
    if count:
        outcome = f"{kept} of them survived, perhaps only for that" if kept else "all of them are broken even so"
        warn_caller(
            f"The objective or its gradient was NaN or infinite, if only in some pixels, for {count} of {len(lost)} "
            f"samples and told the attack nothing there: {outcome}. Look for a root of 0 or a division by 0, or use "
            "square."
        )


def check_first_values(oracle: Oracle, answers: Outputs, samples: Samples) -> None:
    """Refuse an objective that fails on the clean images, or is NaN there although the logits are finite."""
    name = name_of(oracle.objective)
    try:
        look = oracle.judged(answers, samples)
    except (Exception, SystemExit) as error:  # the caller's code may raise anything
        if isinstance(error, MaxmahalError) or is_out_of_memory(error):
            raise
        raise ArgumentError(
            f"The objective {name} failed on the model's outputs ({short_reason(error)}); {AN_OBJECTIVE}"
        ) from error
    lost = look.values.isnan() & look.logits.isfinite().all(dim=1)
    if bool(lost.any()):
        raise ArgumentError(
            f"The objective {name} is NaN for {int(lost.sum())} of {len(lost)} clean images, though the model's logits "
            "are finite, so an attack on it would prove nothing; look for a division by 0 or a root of less than 0."
        )
