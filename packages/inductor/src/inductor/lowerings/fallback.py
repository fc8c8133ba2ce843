"""Calls of torch's own operators: library kernels, and whatever has no lowering or was declined.

The arguments get memory with eager's strides, the results have the strides the tracer saw.  Nothing is refused here
but results that are neither tensors nor an integer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from inductor.deps import gives_views, is_custom
from inductor.errors import UnsupportedGraph
from inductor.ir.index import ONE, ZERO, Index
from inductor.ir.program import Buffer, Ref
from inductor.lowerings.context import OF_IMAGES, Context, same_strides
from inductor.lowerings.reals import Real
from inductor.lowerings.registry import LIBRARY
from inductor.lowerings.sizes import contiguous_strides
from inductor.lowerings.values import Tensor, broadcast_to, load, positions, reindex, strided
from inductor.rewrites.layouts import CHANNELS_INNERMOST
from inductor.torch_versions import OpOverload, aten, pytree, schema_of

_OF_ANY_LAYOUT = frozenset((
    aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default, aten.addmv.default, aten.mv.default,
    aten.dot.default, aten._int_mm.default, aten.linear.default,
))  # fmt: skip
"""Operators that give the same, and lay it out the same, however their operands lie.  Convolutions lay out what they
give as their operands: those that are called here get eager's."""
LIBRARY.update(_OF_ANY_LAYOUT, (
    aten.convolution.default, aten.convolution_backward.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_efficient_attention.default, aten._scaled_dot_product_cudnn_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
    aten._scaled_dot_product_flash_attention_backward.default,
    aten._scaled_dot_product_efficient_attention_backward.default,
    aten._scaled_dot_product_cudnn_attention_backward.default,
))  # fmt: skip


def call_operator(
    ctx: Context, node: Node, args: object, kwargs: object, reason: str | None, *, unimplemented: bool = False
) -> Any:
    """Emits the call and returns its results in the operator's own structure."""
    target = node.target
    assert isinstance(target, OpOverload)
    if target not in _OF_ANY_LAYOUT and not schema_of(target).is_mutable:
        args, kwargs = _as_eager_lays(ctx, node, (args, kwargs))
    if target in LIBRARY:
        reason, unimplemented = None, False
    return _emit(ctx, target, args, kwargs, node.meta.get("val"), reason, unimplemented)


def _as_eager_lays(ctx: Context, node: Node, operands: tuple[object, object]) -> tuple[object, object]:
    """The operands, of which those that lie otherwise than eager's are brought into memory that lies so: kernels of
    torch's may need that, draw numbers in that order, and lay their results out by it."""
    leaves, structure = pytree.tree_flatten(operands)
    given = pytree.tree_leaves((node.args, node.kwargs))
    if len(given) != len(leaves):
        return operands
    # What was decided to have its channels innermost is made of what has them so.
    turned = any(CHANNELS_INNERMOST in result.meta for result in _results(node))
    custom = isinstance(node.target, OpOverload) and is_custom(node.target)
    laid = [_laid(ctx, *pair, turned, custom) for pair in zip(leaves, given, strict=True)]
    result: tuple[object, object] = pytree.tree_unflatten(laid, structure)
    return result


def _results(node: Node) -> list[Node]:
    """The nodes that are results of a call: its own, or those that take one out of several."""
    return [node, *(user for user in node.users if user.target is operator.getitem)]


def _repeated(ctx: Context, value: Tensor, wanted: Sequence[Index]) -> Tensor:
    """A value that eager repeats by strides of 0, computed once: a program's own operator may ask for strides."""
    once = [step == ZERO for step in wanted]
    sizes = tuple(ONE if repeats else size for size, repeats in zip(value.sizes, once, strict=True))
    places = [ZERO if repeats else at for at, repeats in zip(positions(value.sizes), once, strict=True)]
    strides = tuple(ONE if repeats else step for step, repeats in zip(wanted, once, strict=True))
    return broadcast_to(ctx.realize(reindex(value, sizes, places), strides), value.sizes)


def _laid(ctx: Context, value: object, source: object, as_told: bool, custom: bool) -> object:
    traced = source.meta.get("val") if isinstance(source, Node) else None
    if not isinstance(value, Tensor) or not isinstance(traced, torch.Tensor) or traced.layout is not torch.strided:
        return value
    wanted = ctx.sizes.strides(traced.stride())
    if isinstance(source, Node) and CHANNELS_INNERMOST in source.meta and not as_told:
        wanted = contiguous_strides(value.sizes)  # as they are in eager
    if custom and value.base is None and ZERO in wanted:
        return _repeated(ctx, value, wanted)
    value = ctx.realize(value)
    layout = strided(value)
    if layout is None or any(step == ZERO for step in wanted):
        return value
    if not same_strides(value.sizes, layout[0], wanted):
        return ctx.realize(replace(value, base=None), wanted, gaps=True)
    if value.base is None or ONE not in value.sizes or len(wanted) not in OF_IMAGES:
        return value
    # By the strides of dimensions of one element, too, the library tells how an image lies.
    ref = ctx.ref(value)
    made = ctx.views[ref.name].buffer if ref.name in ctx.views else ctx.buffers[ref.name]
    return ref if made.strides == wanted else Ref(ctx.window(value.base, value, wanted, layout[1]))


def _emit(
    ctx: Context, target: Any, args: Any, kwargs: Any, metas: Any, reason: str | None, unimplemented: bool
) -> Any:
    """Emits the call, with buffers for its results, and reads from them the sizes that only they tell."""
    if metas is None and [str(result.type) for result in schema_of(target).returns] == ["Tensor"]:
        raise UnsupportedGraph(f"{ctx.node}, of which the tracer does not say what it returns")
    refs = _with_refs(ctx)
    call_args, call_kwargs = _map(refs, args), {name: _map(refs, value) for name, value in kwargs.items()}
    if isinstance(metas, torch.SymInt):
        number = ctx.sizes.number(metas)
        ctx.call(target, call_args, call_kwargs, [], reason, number, unimplemented=unimplemented)
        return Index.of(number)
    leaves, structure = pytree.tree_flatten(metas)
    buffers = [_result(ctx, leaf) for leaf in leaves]
    ctx.call(target, call_args, call_kwargs, buffers, reason, unimplemented=unimplemented)
    tensors = [buffer for buffer in buffers if buffer is not None]
    # Sizes that are not understood are read from the result that has them.
    for place, dim, symbol in ctx.sizes.to_read:
        ctx.call(aten.sym_size.int, [Ref(tensors[place].name), dim], {}, [], None, symbol)
    _note_views(ctx, target, call_args, [tensor.name for tensor in tensors])
    for name in written(ctx, target, call_args, call_kwargs):
        ctx.mutated.add(name)
    results = [leaf if buffer is None else load(buffer) for leaf, buffer in zip(leaves, buffers, strict=True)]
    return pytree.tree_unflatten(results, structure)


def _map(refs: Callable[[Any], Any], value: object) -> Any:
    if isinstance(value, list | tuple):
        return [_map(refs, item) for item in value]
    return refs(value)


def _with_refs(ctx: Context) -> Callable[[Any], Any]:
    """A function that turns operands into arguments of a call: tensors get memory, floats made of sizes become
    expressions."""

    def refs(value: object) -> Any:
        if isinstance(value, Tensor):
            return ctx.ref(value)
        return value.expr if isinstance(value, Real) else value

    return refs


def _result(ctx: Context, meta: object) -> Buffer | None:
    """The buffer of a result with exactly the tracer's strides, which need not be dense; None for a result without
    memory."""
    if meta is None or isinstance(meta, (bool, int, float)):  # a number that follows from the shapes needs no memory
        return None
    if not isinstance(meta, torch.Tensor):
        raise UnsupportedGraph(f"{ctx.node}, which returns {type(meta).__name__}: neither tensors nor an integer")
    if meta.layout != torch.strided or meta.is_quantized:
        raise UnsupportedGraph(f"a result of layout {meta.layout}")
    sizes, strides = ctx.sizes.indices(meta.shape), ctx.sizes.strides(meta.stride())
    buffer = ctx.buffer(sizes, meta.dtype, meta.device, strides)
    exact = Buffer(buffer.name, meta.dtype, meta.device, sizes, strides)
    ctx.buffers[buffer.name] = exact
    return exact


def _note_views(ctx: Context, target: object, args: object, results: Sequence[str]) -> None:
    """Notes results that are views: their memory is that of the buffer they view, which orders reads and writes."""
    if not gives_views(target):
        return
    viewed = next((leaf.name for leaf in pytree.tree_leaves(args) if isinstance(leaf, Ref)), None)
    if viewed is not None:
        base = ctx.views[viewed].base if viewed in ctx.views else viewed
        ctx.aliases.update(dict.fromkeys(results, ctx.aliases.get(base, base)))


def written(ctx: Context, target: Any, args: Any, kwargs: dict[str, Any]) -> list[str]:
    """The buffers that a call writes to, by its schema; windows stand for what they are windows on."""
    if not schema_of(target).is_mutable:
        return []
    names: list[str] = []
    for position, argument in enumerate(schema_of(target).arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[position] if position < len(args) else kwargs.get(argument.name)
        found = [leaf.name for leaf in pytree.tree_leaves(value) if isinstance(leaf, Ref)]
        names += [ctx.views[name].base if name in ctx.views else name for name in found]
    return names
