"""Formulas of backward that differ where a graph of the gradients is wanted, put in place of the traced ones.

Backward of `det`, `slogdet` and `solve` solves with the factors that forward found, through which nothing is
differentiated; where a graph is wanted it solves with the matrix itself.  That of `cumprod` is by quotients, unless one
of its elements is zero; where a graph is wanted and one is, it is refused.  Autograd's formula for a write by strides
in a functional graph is wrong.
Must not know: why a graph is wanted.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.torch_versions import aten

_FACTORS = {aten._linalg_det.default: 1, aten._linalg_slogdet.default: 2, aten._linalg_solve_ex.default: 1}
"""The position, among an operator's results, of the factors of its matrix, which autograd takes for constants."""

_HINT = 'run it eagerly (with compile-api: backend="eager")'

_SAME_FACTORS = frozenset({aten.add.Tensor, aten.clone.default, aten.alias.default})
"""Operators that backward applies to factors: it perturbs those of a singular matrix a little."""


def solve_with_matrices(graph: fx.Graph) -> None:
    """Solves with the matrix itself wherever backward does so with its factors, if the graph knows the matrix."""
    for node in graph.find_nodes(op="call_function", target=aten.linalg_lu_solve.default):
        matrix = _factored(node.args[0])
        if matrix is not None:
            left = node.args[3] if len(node.args) > 3 else node.kwargs.get("left", True)
            node.target, node.args, node.kwargs = solved, (matrix, node.args[2]), {"left": left}


def refuse_zeros_in_running_products(graph: fx.Graph) -> None:
    """Puts a check behind the question of `cumprod`'s backward whether an element is zero: it treats derivatives by
    that one as zero."""
    products = {node.args[0] for node in graph.find_nodes(op="call_function", target=aten.cumprod.default)}
    for node in graph.find_nodes(op="call_function", target=aten.any.default):
        asked: Any = node.args[0]
        if node.meta.get("phase") != "backward" or asked.target is not aten.eq.Scalar or asked.args[0] not in products:
            continue
        with graph.inserting_after(node):
            checked = graph.call_function(_none_is_zero, (node,))
        checked.meta = dict(node.meta)
        node.replace_all_uses_with(checked, lambda user, own=checked: user is not own)


def _none_is_zero(one_is: torch.Tensor) -> torch.Tensor:
    if one_is:
        raise Unsupported(
            "gradients of gradients of `cumprod` of elements of which one is zero have another formula", _HINT
        )
    return one_is


def _factored(node: Any) -> fx.Node | None:
    """The matrix that these are the factors of; None if it is not known."""
    while node.target in _SAME_FACTORS:
        node = node.args[0]
    if node.target is not operator.getitem:
        return None
    found, number = node.args
    return found.args[0] if _FACTORS.get(found.target) == number else None


def solved(matrix: torch.Tensor, right: torch.Tensor, *, left: bool) -> torch.Tensor:
    """The solution of the adjoint system, the form that all these formulas have."""
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])  # a matrix is not to look like many vectors
    result: torch.Tensor
    try:
        result = torch.linalg.solve(matrix.mH, right.expand(*batch, *right.shape[-2:]), left=left)
    except torch.linalg.LinAlgError as error:
        raise Unsupported("gradients of gradients of `det` at a singular matrix have another formula", _HINT) from error
    return result


def weight_norm_backward(
    gradient: torch.Tensor, v: torch.Tensor, g: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Backward of `g * v / norms` with norms that depend on `v`; the kernel has no derivative."""
    norms = torch.norm_except_dim(v, 2, dim)
    along = (gradient * v).sum([each for each in range(v.dim()) if each != dim], keepdim=True)
    return (gradient - v * (along / norms.square())) * (g / norms), along / norms


def written_by_strides(
    base: torch.Tensor, value: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None
) -> torch.Tensor:
    """`base` once `value` was written to a view of it by strides.  Autograd's own formula has, for the gradient of
    `base`, that of what was written over in place of that of the rest."""
    start = 0 if offset is None else offset - base.storage_offset()
    inside = torch.empty_strided(base.shape, base.stride(), dtype=torch.bool, device=base.device).zero_()
    inside.as_strided(size, stride, start).fill_(True)
    return torch.where(inside, aten.as_strided_scatter.default(base.detach(), value, size, stride, offset), base)
