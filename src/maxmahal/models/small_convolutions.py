"""A pass over compiled graphs that puts our own kernels where 3x3 convolutions have few channels."""

from typing import Any

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.lowering import make_fallback, tag_to_layout_constraint

from maxmahal.models import kernels

aten = torch.ops.aten
DEVICES, DTYPE = ("cuda",), torch.bfloat16  # what the kernels were made and measured for
MOST_CHANNELS = 32  # beyond, the vendor's kernels are as fast

# An operator that it does not know yet, torch 2.11 writes into a log, with all that its arguments
# were computed from. That text doubles with every residual block: at 110 layers compiling would never end.
for _operator in kernels.OPERATORS:
    make_fallback(_operator._opoverload, tag_to_layout_constraint(*kernels.LAYOUT))  # type: ignore[no-untyped-call]


class SmallConvolutions(CustomGraphPass):
    """Replaces the 3x3 convolutions of a compiled graph, and their gradients, where ``kernels`` has faster ones.

    The bias, the sum with a residual and the ReLU after a convolution go into its kernel, and backwards likewise.
    """

    def __call__(self, graph: fx.Graph) -> None:
        """Change the graph in place."""
        for node in list(graph.nodes):
            if node.target is aten.convolution.default:
                images, weight, bias, *how = node.args
                if _is_small(images, weight, *how):
                    _replace_forth(graph, node, images, weight, bias)
            elif node.target is aten.convolution_backward.default:
                gradient, images, weight, _, *how, wanted = node.args
                if wanted[2] or not _is_small(images, weight, *how):  # a bias has its own gradient
                    continue
                for user in list(node.users):
                    if user.args[1] == 0:
                        _replace_back(graph, user, gradient, weight)
                    else:
                        _replace(graph, user, kernels.convolve_weight._opoverload, images, gradient)
                graph.erase_node(node)

    def uuid(self) -> bytes:
        """The identity of what it does, for torch's cache of compiled graphs."""
        return get_hash_for_files((__file__, str(kernels.__file__)))


def _replace_forth(graph: fx.Graph, node: fx.Node, images: fx.Node, weight: fx.Node, bias: fx.Node | None) -> None:
    added, addend = _sum(node)
    end = _only_user(added)
    if end is not None and end.target is aten.relu.default:
        _replace(graph, end, kernels.convolve_and_add._opoverload, images, weight, bias, addend, True)
        _erase_between(graph, added, node)
    elif bias is not None:
        _replace(graph, node, kernels.convolve_and_add._opoverload, images, weight, bias, None, False)
    else:
        _replace(graph, node, kernels.convolve._opoverload, images, weight)


def _replace_back(graph: fx.Graph, node: fx.Node, gradient: fx.Node, weight: fx.Node) -> None:
    added, addend = _sum(node)
    end = _only_user(added)
    source = None if end is None else _through_relu(end, added)
    if end is not None and source is not None and source.meta["val"].dtype == node.meta["val"].dtype:
        _replace(graph, end, kernels.convolve_back_and_add._opoverload, gradient, weight, addend, source)
        _erase_between(graph, added, node)
    else:
        _replace(graph, node, kernels.convolve_back._opoverload, gradient, weight)


def _sum(node: fx.Node) -> tuple[fx.Node, fx.Node | None]:
    """The sum that a node alone goes into, with what it is added to; the node itself where there is none."""
    user = _only_user(node)
    if user is None or user.target is not aten.add.Tensor or user.kwargs:
        return node, None
    others = [each for each in user.args if each is not node]
    if len(others) != 1 or not isinstance(others[0], fx.Node) or not _are_alike(node, others[0]):
        return node, None
    return user, others[0]


def _through_relu(node: fx.Node, gradient: fx.Node) -> fx.Node | None:
    """What a ReLU gave, if the node is its gradient: ``where(given <= 0, 0, gradient)``."""
    if node.target is not aten.where.self or node.args[2] is not gradient:
        return None
    is_off: Any = node.args[0]
    zero: Any = node.args[1]
    if is_off.target is not aten.le.Scalar or is_off.args[1] != 0:
        return None
    given: fx.Node = is_off.args[0]
    is_zero = zero.target is aten.full.default and zero.args[1] == 0
    return given if is_zero and _are_alike(given, gradient) else None


def _are_alike(node: fx.Node, other: fx.Node) -> bool:
    """Whether both are images of one shape and type, so that nothing is broadcast or converted."""
    one, two = node.meta["val"], other.meta["val"]
    return isinstance(two, torch.Tensor) and one.dtype == two.dtype and one.shape == two.shape


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _erase_between(graph: fx.Graph, added: fx.Node, node: fx.Node) -> None:
    """The sum, if there was one, and the node, neither of which anybody uses any more."""
    for each in dict.fromkeys((added, node)):
        graph.erase_node(each)


def _is_small(images: fx.Node, weight: fx.Node, *how: Any) -> bool:
    stride, padding, dilation, transposed, _, groups = how
    seen, kernel = images.meta["val"], weight.meta["val"]
    plain = list(stride) == list(padding) == list(dilation) == [1, 1] and not transposed and groups == 1
    return (
        plain
        and seen.device.type in DEVICES
        and seen.dtype == kernel.dtype == DTYPE
        and tuple(kernel.shape[2:]) == (3, 3)
        and max(kernel.shape[:2]) <= MOST_CHANNELS
    )


def _replace(graph: fx.Graph, node: fx.Node, operation: Any, *arguments: fx.Node | bool | None) -> None:
    with graph.inserting_before(node):
        new = _add(graph, operation, *(_channels_last(graph, argument) for argument in arguments))
    node.replace_all_uses_with(new)
    graph.erase_node(node)


def _channels_last(graph: fx.Graph, argument: fx.Node | bool | None) -> fx.Node | bool | None:
    """The same values laid out as the kernels read them: said here, whatever makes them writes them so at once."""
    if not isinstance(argument, fx.Node) or argument.meta["val"].ndim != 4:
        return argument
    if argument.meta["val"].is_contiguous(memory_format=torch.channels_last):
        return argument
    return _add(graph, aten.clone.default, argument, memory_format=torch.channels_last)


def _add(graph: fx.Graph, operation: Any, *arguments: fx.Node | bool | None, **options: Any) -> fx.Node:
    node = graph.call_function(operation, arguments, options)
    values = (each.meta["val"] if isinstance(each, fx.Node) else each for each in arguments)
    node.meta["val"] = operation(*values, **options)
    return node
