"""The choice of memory layout for images: channels innermost or not, for whole chains of convolutions.

oneDNN convolves such images without rearranging them first, but small ones are better left as they are; cuDNN's fast
kernels for half precision know no other layout, so it rearranges whatever lies otherwise, twice per call.  What lies
between two convolutions costs the same either way, so it lies as they want it.  The user sees eager's strides: what is
visible keeps them, and a convolution whose input is visible is left alone.

In training backward reads what forward leaves, so both are told at once, by ``lay_out_images``, how the images between
them lie; each of the two graphs then finds its inputs and outputs laid that way.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch.fx import Graph, GraphModule, Node

from inductor import costs
from inductor.errors import NotAGraph
from inductor.rewrites.views import behind_outputs, is_view
from inductor.torch_versions import FakeTensor, OpOverload, aten, pytree, schema_of

Layout: TypeAlias = Literal["channels last", "contiguous"]
Boxed: TypeAlias = Callable[[list[Any]], tuple[Any, ...]]


def image_layouts(graph: Graph) -> Mapping[Node, Layout]:
    """The layouts of the convolutions in a graph, and of the images between them.

    Nodes that are not in it keep the tracer's strides.
    """
    visible = behind_outputs(graph, _sees_layouts)
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
        if node not in layouts and _follows(node, visible):
            asked = {layouts[user] for user in _readers(node) if user in layouts}
            if asked:
                layouts[node] = "channels last" if "channels last" in asked else "contiguous"
    for node in graph.nodes:
        # Then forwards: values behind an image with its channels innermost keep that layout.
        behind = any(layouts.get(given) == "channels last" for given in node.all_input_nodes)
        if behind and node not in layouts and _follows(node, visible):
            layouts[node] = "channels last"
    return layouts


def _sees_layouts(node: Node) -> bool:
    """True for operators to which it matters how their operands lie: those that draw numbers in the order of memory,
    attention, whose kernels read rows, and those of other libraries than torch."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    if target.namespace not in ("aten", "prims") or torch.Tag.nondeterministic_seeded in target.tags:
        return True
    return schema_of(target).name.startswith("aten::_scaled_dot_product")


def _is_ours(node: Node, visible: Collection[Node]) -> bool:
    """True for a convolution whose layout may be chosen: neither its result nor its image is visible to the user."""
    image, transposed = node.args[0], node.args[6]
    assert isinstance(image, Node)
    seen = _is_fixed(node, visible) or (_is_fixed(image, visible) and image.op != "placeholder")
    return _is_image(node) and _has_layouts(node) and not transposed and not seen


def _comes_innermost(node: Node) -> bool:
    """True for a backward of a convolution whose incoming gradient has its channels innermost already."""
    gradient = node.args[0]
    return isinstance(gradient, Node) and _lies_innermost(gradient) and _has_layouts(gradient)


def _has_layouts(node: Node) -> bool:
    """True if the library convolves images in either layout: on GPUs only those of half precision."""
    value: torch.Tensor = node.meta["val"]
    return value.device.type == "cpu" or value.dtype in (torch.float16, torch.bfloat16)


def _is_fixed(node: Node, visible: Collection[Node]) -> bool:
    """True if the node's value is visible to the user in eager's layout, with its channels outermost."""
    return node in visible and not _lies_innermost(node)


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


def _follows(node: Node, visible: Collection[Node]) -> bool:
    """True for values that are computed element by element, or window by window: they may have any layout."""
    is_free = node.op == "call_function" and not _is_fixed(node, visible) and not _sees_layouts(node)
    return is_free and _is_image(node)


def _readers(node: Node) -> list[Node]:
    """The users of a node, and those of the parts that they take out of it."""
    return [reader for user in node.users for reader in (user, *(user.users if not _is_image(user) else ()))]


def _is_image(node: Node) -> bool:
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 4
        and value.is_floating_point()
        and all(isinstance(size, int) for size in value.shape)
    )


def _lies_innermost(node: Node) -> bool:
    if not _is_image(node):
        return False
    value: torch.Tensor = node.meta["val"]
    return value.stride(1) == 1 and not value.is_contiguous()


# -- forward and backward at once -------------------------------------------------------------------------------------

CHANNELS_INNERMOST = "channels_innermost"
"""The key in a node's ``meta`` that marks a value with its channels innermost where eager's has them outermost."""


def lay_out_images(graph: Graph) -> None:
    """Changes the strides in a joint graph of forward and backward for images between convolutions on GPUs; what it
    returns keeps eager's."""
    if not isinstance(graph, Graph):
        raise NotAGraph(f"inductor.lay_out_images takes a torch.fx.Graph, not a {type(graph).__name__}")
    visible = behind_outputs(graph, _sees_layouts)
    laid = [node for node, layout in image_layouts(graph).items() if layout == "channels last"]
    laid = [node for node in laid if isinstance(node.meta["val"], torch.Tensor)]  # what gives several is no image
    if not any(node.meta["val"].device.type == "cuda" for node in laid):
        return
    # cuDNN would rearrange a gradient that lies otherwise than the image and the weight beside it.
    convolved = {node.args[:2] for node in laid if node.target is aten.convolution.default}
    for node in graph.find_nodes(op="call_function", target=aten.convolution_backward.default):
        gradient = node.args[0]
        if node.args[1:3] in convolved and isinstance(gradient, Node) and _follows(gradient, visible):
            laid.append(gradient)
    for node in laid:
        _lay_channels_innermost(node)
    # Again: now that gradients lie so, backward's convolutions want it of their neighbours as well.
    for node, layout in image_layouts(graph).items():
        if layout == "channels last" and _is_image(node):
            _lay_channels_innermost(node)


def _lay_channels_innermost(node: Node) -> None:
    """Gives a value the strides of an image with its channels innermost, unless it is a view."""
    value = node.meta["val"]
    if _lies_innermost(node) or not isinstance(value, FakeTensor) or not value.is_contiguous():
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
