"""A stand-in through which gradients flow, for a model whose own gradients stop or mislead."""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from maxmahal.attacks import Prepared, straight_through
from maxmahal.attacks.speedups import NO_SPEEDUPS
from maxmahal.evaluate.diagnose.flowing import Flowing, FlowingModel, Outside
from maxmahal.evaluate.diagnose.probe import pull_back

_IMAGES = 16  # to try modules on: enough that no unit is silent for all of them by chance
# Of a module's input, by size: how far its output may lie from it for the identity to be a fair stand-in.
_NEAR_IDENTITY = 0.25
# Of the inputs' range: about the size of an attack's perturbation, and so what its gradient should speak of.
_STEP = 0.05
# A gradient that foretells less than half or more than twice the change of its own module misleads.
_HONEST = (0.5, 2.0)


def revive(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Prepared | None:
    """The model to decide, and a copy to search on in which whatever stops the gradient passes it on; None if nothing.

    Modules without parameters that keep the shape of their input and pass no useful gradient are wrapped in
    ``straight_through``; rounding, detaching and the like written inside a forward are passed by ``Flowing``.
    """
    images = images[:_IMAGES].detach()
    try:
        stand_in = copy.deepcopy(model).requires_grad_(False)
    except Exception:  # a model may hold anything: locks, handles, tensors inside a graph
        return None
    wrapped = _wrap_what_misleads(stand_in, images)
    inline = _inline_steps(stand_in, images)
    flowing = FlowingModel(stand_in)
    before, after = _gradient(model, images), _gradient(flowing, images)
    if after is None or not bool(after.nan_to_num(0.0, 0.0, 0.0).any()):
        return None
    if before is not None and torch.allclose(before, after, equal_nan=True):
        return None
    notes = {"modules": f"straight-through gradients for {', '.join(wrapped)}"} if wrapped else {}
    if inline:
        notes["inline"] = f"straight-through gradients for steps inside a forward ({inline})"
    return Prepared(model, flowing, NO_SPEEDUPS, notes)


def _wrap_what_misleads(model: nn.Module, images: Tensor) -> list[str]:
    """Exchange modules for straight-through ones in place; which, with their types, for people to read."""
    wrapped = []
    for name, inputs in _candidates(model, images).items():
        module = model.get_submodule(name)
        if _misleads(module, inputs):
            parent, _, own = name.rpartition(".")
            setattr(model.get_submodule(parent), own, straight_through(Outside(module)))
            wrapped.append(f"{name} ({type(module).__name__})")
    return wrapped


def _candidates(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """Modules without parameters that keep their input's shape, outermost ones only, with an input each."""
    found: dict[str, Tensor] = {}
    handles = []
    for name, module in model.named_modules():
        if name and not any(True for _ in module.parameters()):
            handles.append(module.register_forward_hook(_keeper(found, name)))
    try:
        with torch.no_grad(), torch.random.fork_rng([images.device] if images.is_cuda else []):
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return {name: seen for name, seen in found.items() if not any(name.startswith(f"{other}.") for other in found)}


def _keeper(found: dict[str, Tensor], name: str) -> Callable[[nn.Module, tuple[object, ...], object], None]:
    def keep(module: nn.Module, inputs: tuple[object, ...], output: object) -> None:  # noqa: ARG001
        first = inputs[0] if len(inputs) == 1 else None
        both = [tensor for tensor in (first, output) if isinstance(tensor, Tensor) and tensor.is_floating_point()]
        if len(both) == 2 and both[0].shape == both[1].shape:
            found[name] = both[0].detach().clone()

    return keep


def _misleads(module: nn.Module, inputs: Tensor) -> bool:
    """Whether a module's gradient is missing, zero, or nothing like its change over an attack's step."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, inputs.shape, generator=generator).to(inputs) * 2 - 1
    step = _STEP * float(inputs.max() - inputs.min())
    above, here, below = (_call(module, inputs + way * step * signs) for way in (1.0, 0.0, -1.0))
    change = above - below
    if not bool(change.any()):
        return False  # a constant: nothing to pass on
    gradient = pull_back(lambda moved: _call(module, moved), inputs, change)
    if gradient is None or not bool(gradient.any()):
        return True
    if float((here - inputs).norm()) > _NEAR_IDENTITY * float(inputs.norm()):
        return False  # the identity would mislead as well
    foretold = 2 * step * float((gradient * signs).sum())
    ratio = foretold / float(change.square().sum())
    return not _HONEST[0] <= ratio <= _HONEST[1]


def _call(module: nn.Module, inputs: Tensor) -> Tensor:
    """The module's output, with the same draws at every call if it draws."""
    with torch.random.fork_rng([inputs.device] if inputs.is_cuda else []):
        torch.manual_seed(0)
        output: Tensor = module(inputs)
    return output


def _inline_steps(model: nn.Module, images: Tensor) -> int:
    """How many steps inside forwards would have stopped a gradient."""
    with torch.enable_grad():
        mode = Flowing()
        with mode:
            _call(model, images.clone().requires_grad_())
    return mode.count


def _gradient(model: nn.Module, images: Tensor) -> Tensor | None:
    """Of a sum of the logits, with one weight a class: equal ones would cancel where logits sum to the same."""
    with torch.no_grad():
        classes = _call(model, images[:1]).shape[1]
    weights = torch.arange(1.0, 1.0 + classes, device=images.device)
    return pull_back(lambda moved: _call(model, moved), images, weights)
