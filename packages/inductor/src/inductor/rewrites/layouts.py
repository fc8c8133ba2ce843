"""Which images lie in memory with their channels innermost, chosen for whole chains of convolutions.

oneDNN convolves such images without rearranging them first, but small ones are better left as they are; cuDNN's fast
kernels for half precision know no other layout, so it rearranges whatever lies otherwise, twice per call.  What lies
between two convolutions costs the same either way, so it lies as they want it.  The user sees eager's strides: what is
visible keeps them, and a convolution whose input is visible (as in training, where backward sees it) is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten

Layout: TypeAlias = Literal["channels last", "contiguous"]

SMALLEST_IMAGE = 64
"""Points of an output below which windows are better moved over one channel after the other."""


def image_layouts(graph: Graph, visible: Collection[Node]) -> Mapping[Node, Layout]:
    """How the convolutions of a graph read and write, and how what lies between them does.

    Nodes that are not named keep the tracer's strides."""
    layouts: dict[Node, Layout] = {}
    for node in graph.nodes:
        if node.target is aten.convolution.default and _is_ours(node, visible):
            layouts[node] = _wanted(node)
    if "channels last" not in layouts.values():
        return {}
    for node in reversed(graph.nodes):
        if node not in layouts and _follows(node, visible):
            asked = {layouts[user] for user in _readers(node) if user in layouts}
            if asked:
                layouts[node] = "channels last" if "channels last" in asked else "contiguous"
    for node in graph.nodes:
        behind = any(layouts.get(given) == "channels last" for given in node.all_input_nodes)
        if behind and node not in layouts and _follows(node, visible):
            layouts[node] = "channels last"
    return layouts


def _is_ours(node: Node, visible: Collection[Node]) -> bool:
    image, transposed = node.args[0], node.args[6]
    assert isinstance(image, Node)
    seen = node in visible or (image in visible and image.op != "placeholder")
    return _is_image(node) and not transposed and not seen


def _wanted(node: Node) -> Layout:
    weight = node.args[1]
    assert isinstance(weight, Node)
    window, groups = weight.meta["val"].shape[2:], node.args[8]
    height, width = node.meta["val"].shape[2:]
    if node.meta["val"].device.type == "cuda":
        return "channels last"
    by_channel = groups != 1 and weight.meta["val"].shape[1] == 1
    return "channels last" if by_channel or max(window) == 1 or height * width >= SMALLEST_IMAGE else "contiguous"


def _follows(node: Node, visible: Collection[Node]) -> bool:
    """True for what is computed element by element, or window by window: it may lie in any way."""
    return node.op == "call_function" and node not in visible and _is_image(node)


def _readers(node: Node) -> list[Node]:
    """The users, through what takes a tuple apart."""
    return [reader for user in node.users for reader in (user, *(user.users if not _is_image(user) else ()))]


def _is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 4
        and (value.device.type == "cpu" or value.dtype in (torch.float16, torch.bfloat16))
        and value.is_floating_point()
        and all(isinstance(size, int) for size in value.shape)
    )
