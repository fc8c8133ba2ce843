"""A matrix product with a bias and an activation as the one library call that computes all three."""

from __future__ import annotations

from inductor.lowerings.context import Context
from inductor.lowerings.values import Tensor, load
from inductor.lowerings.views import reshape
from inductor.rewrites.epilogues import Epilogue
from inductor.torch_versions import aten


def multiply_and_activate(ctx: Context, epilogue: Epilogue) -> Tensor:
    """Emits the call at the place of the product and returns the activation's result; by the time the graph gets to the
    activation, the operands may have been written to."""
    product, shape = epilogue.product, epilogue.activation.meta["val"].shape
    meta = product.meta["val"]
    ctx.begin(product, [meta])
    operands = [ctx.ref(ctx.current(ctx.values[operand])) for operand in product.args[:3]]
    result = ctx.buffer(ctx.sizes.indices(meta.shape), meta.dtype, meta.device, ctx.sizes.strides(meta.stride()))
    ctx.call(aten._addmm_activation.default, operands, {"use_gelu": True}, [result], None)
    return reshape(load(result), ctx.sizes.indices(shape))
