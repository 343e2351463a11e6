"""Batch norm in eval mode is a fixed affine map: fold it into the convolution or linear layer right before it."""

import copy
from collections import Counter
from dataclasses import dataclass
from typing import cast

import torch
from torch import fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from maxmahal.models.layers import Float32Linear

LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Foldable:
    """Which batch norms can be folded, by the layer before each, of how many; why the network was traced in parts."""

    pairs: tuple[Pair, ...]
    batch_norms: int
    untraced: str | None


def find_foldable(network: nn.Module) -> Foldable:
    """Look for layers that nothing but one batch norm in eval mode reads; the network is not changed."""
    if not (batch_norms := _count_batch_norms(network)):
        return Foldable((), 0, None)
    # Tracing calls forward with proxies of tensors, which a network may keep in its attributes: so on a copy.
    pairs, untraced = _trace(copy.deepcopy(network))
    modules = dict(network.named_modules(remove_duplicate=False))
    names = Counter(id(module) for module in modules.values())
    fitting = tuple(
        (layer, norm)
        for layer, norm in pairs
        if names[id(modules[layer])] == names[id(modules[norm])] == 1 and _fit(modules[layer], modules[norm])
    )
    return Foldable(fitting, batch_norms, untraced)


def fold(network: nn.Module, pairs: tuple[Pair, ...]) -> None:
    """Give each layer the scale and shift of its batch norm, and leave an identity in the batch norm's place."""
    for layer_name, norm_name in pairs:
        layer, norm = network.get_submodule(layer_name), network.get_submodule(norm_name)
        network.set_submodule(layer_name, _folded(layer, norm))
        network.set_submodule(norm_name, nn.Identity().eval())


def short_reason(error: BaseException) -> str:
    """An error in one short line, for a note."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:150].rstrip('.')}" if lines else type(error).__name__


class _Tracer(fx.Tracer):
    """Enters no module with hooks, which are the caller's code, and no feature layer, which asks for a device."""

    proxy_buffer_attributes = True  # so that a forward that reads a batch norm's statistics by itself shows it

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return _has_hooks(m) or isinstance(m, Float32Linear) or super().is_leaf_module(m, module_qualified_name)


def _trace(network: nn.Module) -> tuple[list[Pair], str | None]:
    """The pairs in a network's graph, or in its parts' graphs and the reason where the whole cannot be traced."""
    try:
        graph = _Tracer().trace(network)
    except Exception as error:  # the caller's forward may raise anything when it is given a proxy
        return _pairs_of_parts(network, dict(network.named_children())), short_reason(error)
    entered_apart = {
        node.target: part
        for node in graph.nodes
        if node.op == "call_module" and _has_hooks(part := network.get_submodule(node.target))
    }
    return _pairs(graph) + _pairs_of_parts(network, entered_apart), None


def _pairs_of_parts(network: nn.Module, parts: dict[str, nn.Module]) -> list[Pair]:
    pairs = []
    for name, part in parts.items():
        if part is not network and not isinstance(part, BATCH_NORMS) and _count_batch_norms(part):
            pairs += [(f"{name}.{layer}", f"{name}.{norm}") for layer, norm in _trace(part)[0]]
    return pairs


def _pairs(graph: fx.Graph) -> list[Pair]:
    """One module called on nothing but another's output, both called once and neither's tensors read elsewhere."""
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    read = {str(node.target).rpartition(".")[0] for node in graph.nodes if node.op == "get_attr"}
    pairs = []
    for node in graph.nodes:
        before = node.args[0] if len(node.args) == 1 and not node.kwargs else None
        if node.op != "call_module" or not isinstance(before, fx.Node) or before.op != "call_module":
            continue
        layer, norm = str(before.target), str(node.target)
        if len(before.users) == 1 and calls[layer] == calls[norm] == 1 and not {layer, norm} & read:
            pairs.append((layer, norm))
    return pairs


def _fit(layer: nn.Module, norm: nn.Module) -> bool:
    """Whether both are plain layers, without hooks or a forward of their own, and the statistics are fixed."""
    # Subclasses may compute anything: only the exact types are known to be affine.
    if type(layer) not in LAYERS or type(norm) not in BATCH_NORMS:
        return False
    if any(_has_hooks(module) or "forward" in vars(module) for module in (layer, norm)):
        return False
    channels, weight = norm.num_features, layer._parameters.get("weight")
    fixed = not norm.training and norm.running_mean is not None and norm.running_var is not None
    return fixed and weight is not None and weight.is_floating_point() and len(weight) == channels


def _folded(layer: nn.Module, norm: nn.Module) -> nn.Module:
    first = next(layer.parameters())
    # Rounded only once, to the layer's own precision; Apple's GPUs have no float64.
    wide = torch.float32 if first.device.type == "mps" else torch.float64
    conv, batch_norm = (copy.deepcopy(module).to(wide).eval() for module in (layer, norm))
    # A linear layer's weight is laid out as a convolution's; torch's own function for it expects an affine batch norm.
    fused = fuse_conv_bn_eval(cast(nn.Conv2d, conv), cast(nn.BatchNorm2d, batch_norm))
    return fused.to(first.dtype).requires_grad_(False)


def _has_hooks(module: nn.Module) -> bool:
    return any(
        getattr(module, hooks)
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    )


def _count_batch_norms(network: nn.Module) -> int:
    return sum(isinstance(module, BATCH_NORMS) for module in network.modules())
