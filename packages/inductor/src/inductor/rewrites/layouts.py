"""The choice of memory layout for images: channels innermost or not, for whole chains of convolutions.

oneDNN convolves such images without rearranging them first, but small ones are better left as they are; cuDNN's fast
kernels for half precision know no other layout, so it rearranges whatever lies otherwise, twice per call.  What lies
between two convolutions costs the same either way, so it lies as they want it.  The user sees eager's strides: what is
visible keeps them, and a convolution whose input is visible is left alone.

Nobody but operators that are known to take an image however it lies is given one that lies otherwise than eager's:
those with a lowering, which know elements by their indices and not by their places in memory.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import torch
from torch.fx import Graph, Node

from inductor import costs
from inductor.rewrites.views import behind_outputs, is_view, reads_memory
from inductor.torch_versions import OpOverload, aten, schema_of

Layout: TypeAlias = Literal["channels last", "contiguous"]

CHANNELS_INNERMOST = "channels_innermost"
"""The key in a node's ``meta`` that marks a value with its channels innermost where eager's has them outermost."""


def image_layouts(graph: Graph, lowered: Collection[object]) -> Mapping[Node, Layout]:
    """The layouts of the convolutions in a graph, and of the images between them; ``lowered`` are the operators that
    have a lowering.

    Nodes that are not in it keep the tracer's strides.
    """
    visible = behind_outputs(graph, sees_layouts)
    layouts: dict[Node, Layout] = {}
    for node in graph.nodes:
        if node.target is aten.convolution.default and _is_ours(node, visible):
            layouts[node] = _wanted(node)
        elif node.target is aten.convolution_backward.default and _comes_innermost(node):
            layouts[node] = "channels last"
    if "channels last" not in layouts.values():
        return {}
    # Backwards first: a value takes the layout that its readers ask for, so that chains before a convolution follow it.
    for node in reversed(graph.nodes):
        if node not in layouts and follows(node, visible, lowered):
            asked = {layouts[user] for user in _readers(node) if user in layouts}
            if asked:
                layouts[node] = "channels last" if "channels last" in asked else "contiguous"
    for node in graph.nodes:
        # Then forwards: values behind an image with its channels innermost keep that layout, unless all readers would
        # copy them into eager's.
        behind = any(layouts.get(given) == "channels last" for given in node.all_input_nodes)
        if behind and node not in layouts and follows(node, visible, lowered):
            copied = (user not in layouts and _copies(user, visible, lowered) for user in node.users)
            if not all(copied):
                layouts[node] = "channels last"
    return layouts


def sees_layouts(node: Node) -> bool:
    """True for operators to which it matters how their operands lie, and which are no fallbacks that copy those: they
    draw numbers in the order of memory, read or write it by strides, give views of it, are attention, whose kernels
    read rows, or of other libraries than torch."""
    target = node.target
    if not isinstance(target, OpOverload):
        return node.op == "call_function" and target is not operator.getitem
    if target.namespace not in ("aten", "prims") or torch.Tag.nondeterministic_seeded in target.tags:
        return True
    writes = schema_of(target).is_mutable and target is not aten.copy_.default  # which stores element by element
    return writes or reads_memory(node) or schema_of(target).name.startswith("aten::_scaled_dot_product")


def _is_ours(node: Node, visible: Collection[Node]) -> bool:
    """True for a convolution whose layout may be chosen: neither its result nor its image is visible to the user."""
    image, transposed = node.args[0], node.args[6]
    assert isinstance(image, Node)
    seen = _is_fixed(node, visible) or (_is_fixed(image, visible) and image.op != "placeholder")
    return is_image(node) and _has_layouts(node) and not transposed and not seen


def _comes_innermost(node: Node) -> bool:
    """True for a backward of a convolution whose incoming gradient has its channels innermost already."""
    gradient = node.args[0]
    return isinstance(gradient, Node) and lies_innermost(gradient) and _has_layouts(gradient)


def _has_layouts(node: Node) -> bool:
    """True if the library convolves images in either layout: on GPUs only those of half precision."""
    value: torch.Tensor = node.meta["val"]
    return value.device.type == "cpu" or value.dtype in (torch.float16, torch.bfloat16)


def _is_fixed(node: Node, visible: Collection[Node]) -> bool:
    """True if the node's value is visible to the user in eager's layout, with its channels outermost."""
    return node in visible and not lies_innermost(node)


def _wanted(node: Node) -> Layout:
    """The layout in which the library convolves this image fastest."""
    weight = node.args[1]
    assert isinstance(weight, Node)
    window, groups = weight.meta["val"].shape[2:], node.args[8]
    height, width = node.meta["val"].shape[2:]
    if node.meta["val"].device.type == "cuda":
        return "channels last"
    by_channel = groups != 1 and weight.meta["val"].shape[1] == 1
    return (
        "channels last"
        if by_channel or max(window) == 1 or height * width >= costs.CPU.smallest_image
        else "contiguous"
    )


def follows(node: Node, visible: Collection[Node], lowered: Collection[object]) -> bool:
    """True for values that are computed element by element, or window by window: they may have any layout."""
    if node.op != "call_function" or not is_image(node) or _is_fixed(node, visible) or sees_layouts(node):
        return False
    return node.target in lowered or is_view(node)


def _copies(node: Node, visible: Collection[Node], lowered: Collection[object]) -> bool:
    """True for library calls that want eager's layout: of operators without a lowering, and of convolutions that the
    user sees."""
    if node.op != "call_function" or is_view(node):
        return False
    is_convolution = node.target is aten.convolution.default
    return node.target not in lowered or (is_convolution and not follows(node, visible, lowered))


def _readers(node: Node) -> list[Node]:
    """The users of a node, and those of the parts that they take out of it."""
    return [reader for user in node.users for reader in (user, *(user.users if not is_image(user) else ()))]


def is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 4
        and value.is_floating_point()
        and all(isinstance(size, int) for size in value.shape)
    )


def lies_innermost(node: Node) -> bool:
    if not is_image(node):
        return False
    value: torch.Tensor = node.meta["val"]
    return value.stride(1) == 1 and not value.is_contiguous()
