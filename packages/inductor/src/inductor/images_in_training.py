"""The memory layout of images in training: in a joint graph of forward and backward, before it is cut apart.

Backward reads what forward leaves, so both are told at once how the images between them lie; each of the two graphs
then finds its inputs and outputs laid that way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node

from inductor.errors import NotAGraph
from inductor.lowerings import LOWERINGS
from inductor.rewrites.layouts import CHANNELS_INNERMOST, follows, image_layouts, is_image, lies_innermost, sees_layouts
from inductor.rewrites.views import behind_outputs, is_view
from inductor.torch_versions import FakeTensor, aten, pytree

Boxed: TypeAlias = Callable[[list[Any]], tuple[Any, ...]]


def lay_out_images(graph: Graph) -> None:
    """Changes the strides in a joint graph of forward and backward for images between convolutions on GPUs; what it
    returns keeps eager's."""
    if not isinstance(graph, Graph):
        raise NotAGraph(f"inductor.lay_out_images takes a torch.fx.Graph, not a {type(graph).__name__}")
    visible = behind_outputs(graph, sees_layouts)
    laid = [node for node, layout in image_layouts(graph, LOWERINGS).items() if layout == "channels last"]
    laid = [node for node in laid if isinstance(node.meta["val"], torch.Tensor)]  # what gives several is no image
    if not any(node.meta["val"].device.type == "cuda" for node in laid):
        return
    # cuDNN would rearrange a gradient that lies otherwise than the image and the weight beside it.
    convolved = {node.args[:2] for node in laid if node.target is aten.convolution.default}
    for node in graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient = node.args[0]
        if node.args[1:3] in convolved and isinstance(gradient, Node) and follows(gradient, visible, LOWERINGS):
            laid.append(gradient)
    for node in laid:
        _lay_channels_innermost(node)
    # Again: now that gradients lie so, backward's convolutions want it of their neighbours as well.
    for node, layout in image_layouts(graph, LOWERINGS).items():
        if layout == "channels last" and is_image(node):
            _lay_channels_innermost(node)


def _lay_channels_innermost(node: Node) -> None:
    """Gives a value the strides of an image with its channels innermost, unless it is a view."""
    value = node.meta["val"]
    if lies_innermost(node) or not isinstance(value, FakeTensor) or not value.is_contiguous():
        return
    # The tuple and the item taken out of it both describe the value.
    if node.target is operator.getitem:
        source, position = node.args
        assert isinstance(source, Node)
        parts: list[Any] = list(source.meta["val"])
        parts[position] = node.meta["val"] = _innermost(value)
        source.meta["val"] = tuple(parts)
    elif not is_view(node):
        node.meta["val"] = _innermost(value)
    else:
        return
    node.meta[CHANNELS_INNERMOST] = True


def _innermost(value: FakeTensor) -> torch.Tensor:
    with value.fake_mode:
        return torch.empty_like(value, memory_format=torch.channels_last)


def as_eager_lays(gm: GraphModule, run: Callable[[list[Any]], Sequence[Any]]) -> Boxed:
    """``run``, which knows eager's strides alone, in the place of the compiled graph: its inputs are brought to eager's
    layout before, its results to the graph's after."""
    inputs = [CHANNELS_INNERMOST in node.meta for node in gm.graph.find_nodes(op="placeholder")]
    returned = pytree.tree_leaves(gm.graph.output_node().args)
    outputs = [isinstance(node, Node) and CHANNELS_INNERMOST in node.meta for node in returned]
    # The usual case costs nothing.
    if not any(inputs) and not any(outputs):
        return lambda given: tuple(run(given))

    def call(given: list[Any]) -> tuple[Any, ...]:
        given[:] = [value.contiguous() if laid else value for value, laid in zip(given, inputs, strict=True)]
        results = zip(run(given), outputs, strict=True)
        innermost = torch.channels_last
        return tuple(value.contiguous(memory_format=innermost) if laid else value for value, laid in results)

    return call
