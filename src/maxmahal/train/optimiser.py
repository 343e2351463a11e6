"""Momentum SGD with weight decay where the paper's code has it."""

import torch
from torch import Tensor, nn

from maxmahal.train.config import TrainSettings


def build_optimiser(model: nn.Module, settings: TrainSettings) -> torch.optim.SGD:
    """SGD over all trainable parameters; only convolution kernels (or all weight matrices) decay."""
    decayed = decayed_parameters(model, settings)
    others = [parameter for parameter in model.parameters() if all(parameter is not one for one in decayed)]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    device = (decayed or others)[0].device
    if device.type != "cuda":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum)
    # On a GPU the rate and the momentum lie in fixed places from the start, so that a step can be recorded.
    lr = torch.tensor(settings.lr, device=device)
    optimiser = torch.optim.SGD(groups, lr=lr, momentum=settings.momentum, fused=True)
    for parameter in model.parameters():
        optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def decayed_parameters(model: nn.Module, settings: TrainSettings) -> list[nn.Parameter]:
    """The parameters that weight decay acts on."""
    kinds: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    if settings.decay == "weights":
        kinds = (*kinds, nn.Linear)
    weights = {id(module.weight): module.weight for module in model.modules() if isinstance(module, kinds)}
    return list(weights.values())  # type: ignore[arg-type]  # a weight that two layers share must step only once


def momentum_tensors(model: nn.Module, optimiser: torch.optim.SGD) -> dict[str, Tensor]:
    """The optimiser's memory by parameter name, for a checkpoint."""
    return {
        name: optimiser.state[parameter]["momentum_buffer"]
        for name, parameter in model.named_parameters()
        if optimiser.state.get(parameter, {}).get("momentum_buffer") is not None
    }


def restore_momentum(model: nn.Module, optimiser: torch.optim.SGD, tensors: dict[str, Tensor]) -> None:
    """Put back what ``momentum_tensors`` saved."""
    for name, parameter in model.named_parameters():
        if name not in tensors and not (parameter.requires_grad and optimiser.param_groups[0]["momentum"]):
            continue  # it never had any
        # The saved tensor is dense; the parameter may be channels_last, and the update must not change layout.
        optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(tensors[name])
