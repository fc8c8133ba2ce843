"""Matrix products as library calls; a bias that the library would add in a pass of its own is left to the kernels
behind."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node

from inductor.lowerings.algebra import Value
from inductor.lowerings.context import Context
from inductor.lowerings.registry import LIBRARY, LOWERINGS, Declined, lowering
from inductor.lowerings.values import Tensor, broadcast_to, load, pure
from inductor.rewrites.views import is_view
from inductor.torch_versions import aten


@lowering(aten.addmm.default)
def addmm(
    ctx: Context, bias: Tensor, left: Tensor, right: Tensor, *, beta: object = 1, alpha: object = 1
) -> Tensor | Declined:
    """A product and its bias as a library call and a sum.  The library adds a bias by writing it to the result first; a
    kernel that reads the result anyway adds it for nothing."""
    assert ctx.node is not None
    whole = left.dtype in (torch.float32, torch.float64)  # in half types the sum would be rounded twice
    pays = _only_kernels_read(ctx.node) or (bias.ndim == 1 and _adds_slowly(left))
    if not whole or beta != 1 or alpha != 1 or not pays:
        return Declined("the library's")
    sizes = left.sizes[0], right.sizes[1]
    result = ctx.buffer(sizes, left.dtype, left.device)
    ctx.call(aten.mm.default, (ctx.ref(left), ctx.ref(right)), {}, [result], None)
    product = load(result)
    added = broadcast_to(bias, sizes)
    return pure(product, (Value(product.expr) + Value(added.expr)).expr)


def _adds_slowly(left: Tensor) -> bool:
    """True for full precision on GPUs: there the library's products with a bias are slower by more than a kernel that
    adds it takes."""
    return left.device.type == "cuda" and torch.get_float32_matmul_precision() == "highest"


def _only_kernels_read(node: Node) -> bool:
    """True if every use of the value, also through views, is by an operator with a kernel of ours."""
    return bool(node.users) and all(_is_kernel(user) for user in node.users)


def _is_kernel(user: Node) -> bool:
    if is_view(user):
        return _only_kernels_read(user)
    target = user.target
    return target is not operator.getitem and target in LOWERINGS and target not in LIBRARY
