"""Graphs from anywhere made into graphs the lowerings understand: ATen operators, functional, with sizes known.

A graph that is so already passes untouched.  Any other (torch functions, modules, in-place operators, operators that
are better taken apart) is traced again on fake tensors, without gradients.

The tracer is imported where a graph needs it: with sympy behind it that costs half a second, which a graph that is
ready (as one from aotgrad) must not pay.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from inductor.lowerings import LIBRARY, LOWERINGS

aten = torch.ops.aten

WHOLE = frozenset((
    aten.native_dropout.default, aten.upsample_nearest2d.default, aten.index_add.default, aten.linear_backward.default,
))  # fmt: skip
"""Operators that run better as they are than taken apart."""


TAKEN_APART = frozenset((
    aten.smooth_l1_loss.default, aten.huber_loss.default, aten.mse_loss.default, aten.binary_cross_entropy.default,
    aten.binary_cross_entropy_with_logits.default, aten.nll_loss_forward.default, aten.nll_loss2d_forward.default,
    aten.soft_margin_loss.default, aten.addr.default, aten.index_fill.int_Scalar, aten.glu.default,
    aten.linspace.default, aten.logspace.default, aten.nll_loss_backward.default,
    aten.native_group_norm_backward.default,
    aten.celu.default, aten.rrelu.default, aten.im2col.default, aten.col2im.default, aten.pixel_shuffle.default,
    aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.replication_pad2d.default,
    aten.replication_pad1d.default, aten.upsample_bilinear2d.vec, aten.upsample_bilinear2d.default,
    aten.log_sigmoid_forward.default, aten.log_sigmoid_backward.default, aten.elu_backward.default,
    aten.mse_loss_backward.default, aten.smooth_l1_loss_backward.default, aten.huber_loss_backward.default,
))  # fmt: skip
"""Operators that make a graph worth tracing again where its maker did not take them apart."""


def decompositions() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """What a tracer should take apart before it hands us a graph."""
    from torch._decomp import core_aten_decompositions

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
    if all(_is_ready(node) for node in gm.graph.nodes):
        return gm
    from torch.fx.experimental.proxy_tensor import make_fx

    mode = _mode_of(example_inputs)
    fakes = [_fake(mode, value) for value in example_inputs]
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with torch.no_grad(), mode:
            return make_fx(_functional(gm), decomposition_table=decompositions())(*fakes)
    finally:
        mode.allow_non_fake_inputs = allowed


def _mode_of(values: Sequence[Any]) -> Any:
    """The mode the inputs are fake in, or a new one."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    found = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return FakeTensorMode(allow_non_fake_inputs=True) if found is None else found


def _fake(mode: Any, value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach() if hasattr(value, "fake_mode") else mode.from_tensor(value.detach(), static_shapes=True)


def _is_ready(node: Node) -> bool:
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
    if node.target.namespace == "aten" and node.target._schema.is_mutable:
        return _writes_input(node)
    known = "val" in node.meta or not node.target._schema.returns
    return known and node.target not in TAKEN_APART and not _is_composite(node.target)


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
