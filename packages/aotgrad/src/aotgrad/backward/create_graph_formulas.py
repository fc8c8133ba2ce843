"""Formulas of backward that are others where a graph of the gradients is wanted, written as they are then.

Backward of `det`, `slogdet` and `solve` solves with the factors that forward found, through which nothing is
differentiated; where a graph is wanted it solves with the matrix itself.  That of `cumprod` is by quotients, unless one
of its elements is zero; where a graph is wanted and one is, it is refused.
Must not know: why a graph is wanted.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from aotgrad.errors import Unsupported
from aotgrad.torch_versions import aten

_FACTORS = {aten._linalg_det.default: 1, aten._linalg_slogdet.default: 2, aten._linalg_solve_ex.default: 1}
"""Which result of an operator is the factors of its matrix, that autograd takes for constants."""

_HINT = 'run it eagerly (with compile-api: backend="eager")'

_SAME_FACTORS = frozenset({aten.add.Tensor, aten.clone.default, aten.alias.default})
"""What backward does to factors: those of a singular matrix it moves a little."""


def solve_with_matrices(graph: fx.Graph) -> None:
    """Solve with the matrix wherever backward does so with the factors of one that the graph knows."""
    for node in graph.find_nodes(op="call_function", target=aten.linalg_lu_solve.default):
        matrix = _factored(node.args[0])
        if matrix is not None:
            left = node.args[3] if len(node.args) > 3 else node.kwargs.get("left", True)
            node.target, node.args, node.kwargs = solved, (matrix, node.args[2]), {"left": left}


def refuse_zeros_in_running_products(graph: fx.Graph) -> None:
    """Backward of `cumprod` asks whether an element is zero, and takes derivatives by that one for zero if it is."""
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
    """Of which matrix these are the factors."""
    while node.target in _SAME_FACTORS:
        node = node.args[0]
    if node.target is not operator.getitem:
        return None
    found, number = node.args
    return found.args[0] if _FACTORS.get(found.target) == number else None


def solved(matrix: torch.Tensor, right: torch.Tensor, *, left: bool) -> torch.Tensor:
    """What all these formulas solve for: the adjoint of the matrix times the answer is what is given."""
    batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])  # a matrix is not to look like many vectors
    result: torch.Tensor
    try:
        result = torch.linalg.solve(matrix.mH, right.expand(*batch, *right.shape[-2:]), left=left)
    except torch.linalg.LinAlgError as error:
        raise Unsupported("gradients of gradients of `det` at a singular matrix have another formula", _HINT) from error
    return result
