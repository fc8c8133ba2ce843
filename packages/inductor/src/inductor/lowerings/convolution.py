"""Convolutions: library calls on images in the layout that the library computes fastest.

Which convolutions are laid out, and how, was decided for the whole graph before (``rewrites/layouts``,
``ctx.layouts``); here operands are brought into that layout and the result is told to have it.  A convolution that is
not in that table is called as eager calls it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch.fx import Node

from inductor import costs
from inductor.ir.program import Buffer, Call, Ref
from inductor.lowerings.algebra import Value
from inductor.lowerings.context import Context
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.sizes import contiguous_strides, image_strides
from inductor.lowerings.values import Tensor, load, pure, strided
from inductor.torch_versions import INSIDES, aten


@lowering(aten.convolution.default)
def convolution(ctx: Context, image: Tensor, weight: Tensor, bias: Tensor | None, *rest: object) -> Tensor | Declined:
    assert ctx.node is not None
    layout = ctx.layouts.get(ctx.node)
    if layout is None:
        return Declined("the library's")
    image = _laid(ctx, image, layout == "channels last")
    # Weights stay as they are on CPUs but for few channels (``costs``), and lie as the images do on GPUs.
    few = weight.sizes[1].as_int() in range(1, costs.CPU.few_channels + 1)
    if layout == "channels last" and (few or image.device.type == "cuda"):
        weight = _laid(ctx, weight, True)
    sizes = ctx.sizes.indices(ctx.node.meta["val"].shape)
    strides = image_strides(sizes, layout == "channels last")
    # ``buffer`` gives a name and may choose strides of its own; the library's are those that were decided.
    name = ctx.buffer(sizes, image.dtype, image.device, strides).name
    result = Buffer(name, image.dtype, image.device, sizes, strides)
    ctx.buffers[name] = result
    refs = (ctx.ref(image), ctx.ref(weight), None if bias is None else ctx.ref(bias))
    ctx.call(aten.convolution.default, (*refs, *rest), {}, [result], None)
    return load(result)


@lowering(aten.convolution_backward.default)
def convolution_backward(
    ctx: Context, grad: Tensor, image: Tensor, weight: Tensor, bias_sizes: object, *rest: object
) -> list[Tensor | None] | Declined:
    assert ctx.node is not None
    if ctx.node not in ctx.layouts:
        return Declined("the library's")
    operands = [ctx.ref(_laid(ctx, operand, True)) for operand in (grad, image, weight)]
    results: list[Buffer | None] = []
    for meta in ctx.node.meta["val"]:
        if meta is None:
            results.append(None)
            continue
        sizes = ctx.sizes.indices(meta.shape)
        # The library returns gradients of image and weight in the layout of its operands; that of the bias is a vector.
        strides = image_strides(sizes, True) if meta.dim() == 4 else contiguous_strides(sizes)
        name = ctx.buffer(sizes, meta.dtype, meta.device, strides).name
        results.append(Buffer(name, meta.dtype, meta.device, sizes, strides))
    ctx.buffers.update((result.name, result) for result in results if result is not None)
    ctx.call(aten.convolution_backward.default, (*operands, bias_sizes, *rest), {}, results, None)
    return [None if result is None else load(result) for result in results]


def _laid(ctx: Context, image: Tensor, channels_last: bool) -> Tensor:
    """The image in the wanted layout, copied only if it has another one already."""
    strides = image_strides(image.sizes, channels_last)
    image = ctx.realize(image, strides)
    # A dimension of one element lies right whatever its stride.
    layout = strided(image)
    if layout is not None and all(
        size == 1 or have == want for size, have, want in zip(image.sizes, layout[0], strides, strict=True)
    ):
        return image
    # Without a base it is a value, which is stored anew: a copy in the wanted order.
    return ctx.realize(replace(image, base=None), strides)


# -- batch normalisation folded in ------------------------------------------------------------------------------------

POINTWISE = INSIDES.operators("torch.ops.mkldnn")._convolution_pointwise
"""oneDNN's convolution with a sum behind it; false where torch was built without it."""


def fold(ctx: Context, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor | None:
    """``x * scale + shift`` per channel, done by the convolution that makes ``x``; None where that does not pay.

    A sum with a tensor that is there already goes along where the library offers it.
    """
    call = _made_by(ctx, x)
    #   conv(x, W) * scale + shift == conv(x, W * scale) + (bias * scale + shift)
    # Right where nobody else reads the convolution's result, and its operands still are what they were when it was
    # called.
    if call is None or not POINTWISE or x.dtype != torch.float32:
        return None
    image, weight, bias, *rest = call.args
    operands = [each for each in (image, weight, bias) if isinstance(each, Ref)]
    if not isinstance(image, Ref) or not isinstance(weight, Ref) or _changed(ctx, operands):
        return None
    if (kernel := _known(ctx, weight)) is None or not _pays(kernel, x):
        return None
    # ``scale`` runs over axis 0, and so do the output channels of the weights: the symbols are the same, so that the
    # vector meets the right dimension without being laid along it.
    scaled = replace(kernel, expr=(Value(kernel.expr) * Value(scale.expr)).expr, base=None)
    if isinstance(bias, Ref) and (constant := _known(ctx, bias)) is not None:
        moved = Value(constant.expr) * Value(scale.expr) + Value(shift.expr)
        shift = ctx.realize(pure(shift, moved.expr))
    elif bias is not None:
        return None
    # The call moves behind what computes its new operands: nothing in between read its result.
    ctx.operations.remove(call)
    layout = strided(x)
    channels_last = layout is not None and layout[0][1] == 1
    scaled = ctx.realize(scaled, image_strides(kernel.sizes, channels_last))
    _emit(ctx, call, (image, ctx.ref(scaled), ctx.ref(shift)), rest)
    return x


def _emit(ctx: Context, call: Call, operands: tuple[Ref, Ref, Ref], rest: Sequence[object]) -> None:
    """The call again, with a sum behind it done by the library.

    Never a relu: the library's gives 0 for NaN, as do its hardtanh and hardsigmoid.  A kernel of ours does it in place.
    """
    # Transposed convolutions are never laid out, so the two that say so are false and zeros.
    stride, padding, dilation, _, _, groups = rest
    (result,) = call.outputs
    assert result is not None
    image, weight, bias = operands
    window = (padding, stride, dilation, groups)
    found = _sum_behind(ctx, result)
    if found is None:
        ctx.call(POINTWISE.default, (image, weight, bias, *window, "none", [], ""), {}, [result], None)
        return
    node, other = found
    given: tuple[object, ...] = (image, ctx.ref(other), weight, bias, *window, "add", 1.0, None, [], "")
    ctx.call(POINTWISE.binary, given, {}, [result], None)
    ctx.done[node] = load(result)


def _sum_behind(ctx: Context, result: Buffer) -> tuple[Node, Tensor] | None:
    """The sum that alone reads the current norm, and its other operand."""
    assert ctx.node is not None
    reader = _only_reader(next(user for user in ctx.node.users if user.args[1] == 0))
    if reader is None or reader.target is not aten.add.Tensor or reader.kwargs or not ctx.layouts.get(reader):
        return None
    # The sum's other operand must exist already; that of the norm itself has no value yet.
    candidates = [ctx.values.get(arg) for arg in reader.args if isinstance(arg, Node)]
    other = next((ctx.current(value) for value in candidates if isinstance(value, Tensor)), None)
    # The library wants it to lie as the result does; one that the graph writes to may hold something else by then.
    if other is None or other.base is None or other.base in ctx.mutated or not _lies_like(other, result):
        return None
    return reader, other


def _lies_like(tensor: Tensor, result: Buffer) -> bool:
    """True if the tensor has the result's dtype, sizes and strides."""
    layout = strided(tensor)
    alike = tensor.dtype == result.dtype and tensor.sizes == result.sizes
    return alike and layout is not None and layout[0] == result.strides and layout[1] == 0


def _only_reader(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _made_by(ctx: Context, x: Tensor) -> Call | None:
    """The convolution that makes ``x`` for the current norm alone."""
    assert ctx.node is not None
    source = ctx.node.args[0]
    if not isinstance(source, Node) or source.target is not aten.convolution.default or source not in ctx.layouts:
        return None  # a view of it has other elements, or reads them in another order
    if len(source.users) != 1 or source in ctx.shared or x.base is None:
        return None
    for operation in reversed(ctx.operations):
        # From the last call backwards: the one that makes a buffer is near its reader.
        if isinstance(operation, Call) and any(made is not None and made.name == x.base for made in operation.outputs):
            return operation if operation.target is aten.convolution.default else None
    return None


def _known(ctx: Context, ref: Ref) -> Tensor | None:
    """The buffer of an argument as a tensor; None for a window, which is no whole buffer."""
    return load(ctx.buffers[ref.name]) if ref.name in ctx.buffers else None


def _changed(ctx: Context, refs: Sequence[Ref]) -> bool:
    """True if the graph has written to one of the buffers so far."""
    return any((ctx.views[ref.name].base if ref.name in ctx.views else ref.name) in ctx.mutated for ref in refs)


def _pays(weight: Tensor, result: Tensor) -> bool:
    """True if scaling the weights at every call is cheaper than a pass over the result."""
    have, made = weight.numel.as_int(), result.numel.as_int()
    return have is not None and made is not None and have * costs.CPU.cheaper_weights <= made
