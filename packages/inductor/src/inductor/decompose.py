"""Graphs from anywhere made into graphs the lowerings understand: ATen operators, functional, with sizes known.

A graph that is so already passes untouched.  Any other (torch functions, modules, in-place operators, operators that
are better taken apart) is traced again on fake tensors, without gradients.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from inductor.lowerings import LIBRARY, LOWERINGS

aten = torch.ops.aten

WHOLE = frozenset((
    aten.native_dropout.default, aten.upsample_nearest2d.default, aten.index_add.default, aten.linear_backward.default,
))  # fmt: skip
"""Operators that run better as they are than taken apart."""


def decompositions() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """What a tracer should take apart before it hands us a graph."""
    return {
        overload: function
        for overload, function in core_aten_decompositions().items()
        if isinstance(overload, torch._ops.OpOverload)
        and overload not in LOWERINGS
        and overload not in LIBRARY
        and overload not in WHOLE
        and torch.Tag.nondeterministic_seeded not in overload.tags
    }


def prepare(gm: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
    """A functional ATen graph with ``meta['val']`` that computes what ``gm`` does."""
    table = decompositions()
    if all(_is_ready(node, table) for node in gm.graph.nodes):
        return gm
    mode = next((value.fake_mode for value in example_inputs if isinstance(value, FakeTensor)), None)
    if mode is None:
        mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [_fake(mode, value) for value in example_inputs]
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with torch.no_grad(), mode:
            return make_fx(_functional(gm), decomposition_table=table)(*fakes)
    finally:
        mode.allow_non_fake_inputs = allowed


def _fake(mode: FakeTensorMode, value: Any) -> Any:
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return mode.from_tensor(value.detach(), static_shapes=True)
    return value.detach() if isinstance(value, torch.Tensor) else value


def _is_ready(node: Node, table: dict[torch._ops.OpOverload, Callable[..., Any]]) -> bool:
    """True if the lowerings can take the node as it is."""
    if node.op == "output":
        return True
    if node.op == "get_attr":
        return True
    if node.op == "placeholder":
        return "val" in node.meta
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return isinstance(node.args[1], int) and not isinstance(node.args[0].meta.get("val"), torch.Tensor)  # type: ignore[union-attr]
    if not isinstance(node.target, torch._ops.OpOverload):
        return "val" in node.meta and isinstance(node.meta["val"], torch.SymInt | torch.SymFloat | torch.SymBool)
    if node.target in table and node.target not in LOWERINGS:
        return False
    if node.target.namespace == "aten" and node.target._schema.is_mutable:
        return _writes_input(node)
    return "val" in node.meta and not _is_composite(node.target)


def _writes_input(node: Node) -> bool:
    """``copy_`` into a graph input is how functional graphs say that it is changed."""
    target = node.args[0]
    return node.target is aten.copy_.default and isinstance(target, Node) and target.op == "placeholder"


def _is_composite(overload: torch._ops.OpOverload) -> bool:
    composite = overload.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
    return composite and overload not in LOWERINGS and overload not in LIBRARY


def _functional(gm: GraphModule) -> Callable[..., Any]:
    """``gm`` with its mutations replayed on the inputs at the end, and none in between."""

    def run(*args: Any) -> Any:
        wrapped = [torch._to_functional_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
        torch._enable_functionalization(reapply_views=True)
        try:
            outputs = gm(*wrapped)
        finally:
            torch._disable_functionalization()
        for arg, functional in zip(args, wrapped, strict=True):
            if isinstance(arg, torch.Tensor):
                torch._sync(functional)
                changed = torch._from_functional_tensor(functional)
                if changed is not arg:
                    arg.copy_(changed)
        return torch.utils._pytree.tree_map(_unwrapped, outputs)

    return run


def _unwrapped(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and torch._is_functional_tensor(value):
        torch._sync(value)
        return torch._from_functional_tensor(value)
    return value
