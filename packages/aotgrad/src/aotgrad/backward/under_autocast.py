"""Backward that is called within a region of autocast.

Eager's formulas run their operators in the mode of the moment: products that were of floats in forward are of halves
where backward is called within autocast.  A graph is traced outside of it; here it gets the casts that autocast would
make, which autocast itself is asked for, once for each mode that it is called in.
Must not know: how graphs are compiled, how a compiled pair is called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import fx

from aotgrad.eager import Boxed
from aotgrad.graph_modules import graph_module
from aotgrad.recording.recorder import OWN_AUTOCAST
from aotgrad.torch_versions import (
    DisableAutocast,
    OpOverload,
    TorchDispatchMode,
    aten,
    is_any_autocast_enabled,
    maybe_current_level,
)

Mode: TypeAlias = tuple[tuple[str, torch.dtype], ...]
"""The devices for which autocast is on, each with the type that it casts to."""


def casting_no_more(inner: Boxed) -> Boxed:
    """`inner` as it was traced wherever it is called: what it computes of forward has its casts already."""

    def run(inputs: list[object]) -> Sequence[object]:
        if not is_any_autocast_enabled():
            return inner(inputs)
        with DisableAutocast():
            return inner(inputs)

    return run


def as_the_mode_is(
    plain: Boxed, module: Callable[[], fx.GraphModule], make: Callable[[fx.GraphModule], Boxed]
) -> Boxed:
    """`plain`, a backward graph that was made without autocast, and in each mode in which that casts operators of it
    what `make` makes of it with the casts."""
    outside, lock = casting_no_more(plain), threading.Lock()
    made: dict[Mode, Boxed] = {}

    def run(inputs: list[object]) -> Sequence[object]:
        # Within a transform nothing is traced: its tensors would be subject to that.
        if not is_any_autocast_enabled() or maybe_current_level() is not None:
            return outside(inputs)
        mode = _mode_now()
        with lock:
            if mode not in made:
                cast = with_casts(module())
                made[mode] = outside if cast is None else casting_no_more(make(cast))
        return made[mode](inputs)

    return run


def _mode_now() -> Mode:
    on = (device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device))
    return tuple((device, torch.get_autocast_dtype(device)) for device in on)


def with_casts(module: fx.GraphModule) -> fx.GraphModule | None:
    """The graph with the casts to halves that autocast, as it is now, makes for the operators of backward; None where
    it makes none."""
    with torch.no_grad():
        casts = {node: kind for node in module.graph.nodes if (kind := _cast_to(node)) is not None}
    if not casts:
        return None
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    graph.output(graph.graph_copy(module.graph, copies)).meta.update(module.graph.output_node().meta)
    with torch.no_grad(), DisableAutocast():
        for node, kind in casts.items():
            _cast(graph, copies[node], kind)
    return graph_module(module, graph)


def _cast(graph: fx.Graph, node: fx.Node, kind: torch.dtype) -> None:
    """Has a node compute in another type, and its result cast to the type that readers know."""
    before = node.meta["val"]
    with graph.inserting_before(node):
        operands = {each: _converted(graph, each, kind) for each in node.all_input_nodes if _is_cast(each, kind)}
    node.args = fx.map_arg(node.args, lambda each: operands.get(each, each))
    node.kwargs = fx.map_arg(node.kwargs, lambda each: operands.get(each, each))
    node.meta = {**node.meta, "val": _of_kind(before, kind)}
    with graph.inserting_after(node):
        back = _converted(graph, node, before.dtype)
    node.replace_all_uses_with(back, lambda user: user is not back)


def _converted(graph: fx.Graph, node: fx.Node, kind: torch.dtype) -> fx.Node:
    converted = graph.call_function(aten._to_copy.default, (node,), {"dtype": kind})
    converted.meta = {"val": _of_kind(node.meta["val"], kind), "phase": "backward"}
    return converted


def _of_kind(value: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return value.new_empty_strided(value.shape, value.stride(), dtype=kind)


def _is_cast(node: fx.Node, kind: torch.dtype) -> bool:
    value = node.meta.get("val")
    is_real = isinstance(value, torch.Tensor) and value.is_floating_point()
    return is_real and value.dtype not in (kind, torch.float64)


def _cast_to(node: fx.Node) -> torch.dtype | None:
    """The type of halves that autocast casts operands of a formula's operator to; None where it leaves them."""
    of_formulas = node.meta.get("phase") == "backward" and OWN_AUTOCAST not in node.meta
    if not of_formulas or not isinstance(node.target, OpOverload) or not isinstance(node.meta.get("val"), torch.Tensor):
        return None
    operands = [each.meta.get("val") for each in node.all_input_nodes]
    kinds = {each.dtype for each in operands if isinstance(each, torch.Tensor)}
    if torch.float32 not in kinds or node.target is aten._to_copy.default:
        return None
    asked = _Asked()
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    try:
        with asked:
            node.target(*args, **kwargs)
    except (RuntimeError, NotImplementedError):  # it fails on fakes, once it is cast or anyway
        pass
    return next((kind for kind in asked.kinds if kind in (torch.bfloat16, torch.float16)), None)


class _Asked(TorchDispatchMode):
    """Sees the casts that come to operators from above."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[object] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would otherwise wrap every call in a guard against its own compiler

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if func is aten._to_copy.default:
            self.kinds.append((kwargs or {}).get("dtype"))
        return func(*args, **(kwargs or {}))
