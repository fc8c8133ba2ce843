"""The number and places of a sparse tensor's elements, which fakes of sparse tensors do not show.

A fake of a sparse tensor holds nothing, whatever the tensor holds, and calls itself coalesced.  Who asks for the
number, or for the tensors of indices and values, whose sizes it is, is answered by CPython.  One that was just made of
indices and values is known: it has the fakes of those.  Must not know how operations are recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capture.torch_versions import DataDependentOutputException, OpOverload, aten, pytree, schema_of

_LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc))
_INDICES = ("indices", "_indices", "crow_indices", "col_indices", "ccol_indices", "row_indices")
_PARTS = (*_INDICES, "values", "_values")
_QUESTIONS = frozenset(
    getattr(aten, name).default for name in ("_nnz", "is_coalesced", *_PARTS, *(f"{part}_copy" for part in _PARTS))
)
_OF_PARTS = aten._sparse_coo_tensor_with_dims_and_tensors.default


class SparseCounts:
    """The sparse fakes of one graph of which the number and places of elements are known."""

    def __init__(self) -> None:
        self._known: dict[int, torch.Tensor] = {}

    def insist_on_known(self, func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Breaks the graph, before an operator runs on fakes, where it asks for what is not known."""
        if func in _QUESTIONS:
            asked = args[0] if args else kwargs["self"]
            if asked.layout in _LAYOUTS and id(asked) not in self._known:
                raise DataDependentOutputException(func)
        elif self._known and schema_of(func).is_mutable:
            for leaf in pytree.tree_leaves((args, kwargs)):
                self._known.pop(id(leaf), None)

    def note(self, func: OpOverload, made: object) -> None:
        """Notes, after an operator ran, a sparse tensor that it made of known parts."""
        if func is _OF_PARTS:
            self._known[id(made)] = made
