"""A pass over compiled graphs that puts our own kernels where 3x3 convolutions have few channels."""

from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from maxmahal.models import kernels

DEVICES, DTYPE = ("cuda",), torch.bfloat16  # what the kernels were made and measured for
MOST_CHANNELS = 32  # beyond, the vendor's kernels are as fast


class SmallConvolutions(CustomGraphPass):
    """Replaces the 3x3 convolutions of a compiled graph, and their gradients, where ``kernels`` has faster ones."""

    def __call__(self, graph: fx.Graph) -> None:
        """Change the graph in place."""
        aten = torch.ops.aten
        for node in list(graph.nodes):
            if node.target is aten.convolution.default:
                images, weight, bias, *how = node.args
                if bias is None and _is_small(images, weight, *how):
                    _replace(graph, node, kernels.convolve._opoverload, images, weight)
            elif node.target is aten.convolution_backward.default:
                gradient, images, weight, _, *how, wanted = node.args
                if wanted[2] or not _is_small(images, weight, *how):  # a bias has its own gradient
                    continue
                parts = {
                    0: (kernels.convolve_back._opoverload, gradient, weight),
                    1: (kernels.convolve_weight._opoverload, images, gradient),
                }
                for user in list(node.users):
                    _replace(graph, user, *parts[user.args[1]])
                graph.erase_node(node)

    def uuid(self) -> bytes:
        """The identity of what it does, for torch's cache of compiled graphs."""
        return get_hash_for_files((__file__, str(kernels.__file__)))


def _is_small(
    images: fx.Node,
    weight: fx.Node,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],  # noqa: ARG001
    groups: int,
) -> bool:
    seen, kernel = images.meta["val"], weight.meta["val"]
    plain = list(stride) == list(padding) == list(dilation) == [1, 1] and not transposed and groups == 1
    return (
        plain
        and seen.device.type in DEVICES
        and seen.dtype == kernel.dtype == DTYPE
        and tuple(kernel.shape[2:]) == (3, 3)
        and max(kernel.shape[:2]) <= MOST_CHANNELS
    )


def _replace(graph: fx.Graph, node: fx.Node, operation: Any, *arguments: fx.Node) -> None:
    with graph.inserting_before(node):
        new = _add(graph, operation, *(_channels_last(graph, argument) for argument in arguments))
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _channels_last(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """The same values laid out as the kernels read them: said here, whatever makes them writes them so at once."""
    if node.meta["val"].is_contiguous(memory_format=torch.channels_last):
        return node
    return _add(graph, torch.ops.aten.clone.default, node, memory_format=torch.channels_last)


def _add(graph: fx.Graph, operation: Any, *arguments: fx.Node, **options: Any) -> fx.Node:
    node = graph.call_function(operation, arguments, options)
    node.meta["val"] = operation(*(argument.meta["val"] for argument in arguments), **options)
    return node
