"""The memory layout of what is picked by tensors of positions, as torch's kernel lays it out.

The kernel goes over the operand and the positions as over operands of one shape, along which the ones have no stride
where the others vary, and orders the result's dimensions by all their strides; fakes order by fewer.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

_Strides: TypeAlias = Sequence[int]


def laid_out_as_picked(result: torch.Tensor, x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> torch.Tensor:
    """A fake of ``x[indices]``, in the layout that the kernel gives it.

    Sizes that vary count as in this call, by which no guard comes about.
    """
    given = _by_dimension(indices)
    positions = torch.broadcast_tensors(*(_in_this_call(index) for index in given if index is not None))
    kept = x.dim() - len(positions)
    if result.dim() < 2 or result.dim() != kept + positions[0].dim() or x.layout is not torch.strided:
        return result
    shape = list(map(_now, result.shape))
    order = by_strides(shape, _operands(x, given, positions, shape))
    strides = [_known(result.stride(dim)) for dim in order if shape[dim] != 1]
    known = [stride for stride in strides if stride is not None]
    if len(known) == len(strides) and known == sorted(known, reverse=True):
        return result
    laid = result.new_empty([result.shape[dim] for dim in order])
    return laid.permute([order.index(dim) for dim in range(result.dim())])


def _operands(
    x: torch.Tensor,
    given: Sequence[torch.Tensor | None],
    positions: Sequence[torch.Tensor],
    shape: Sequence[int],
) -> list[_Strides]:
    """The strides of the operand and of each tensor of positions, along the result's dimensions."""
    places = [place for place, index in enumerate(given) if index is not None]
    # Positions that are apart come first.
    together = places == list(range(places[0], places[-1] + 1))
    before = range(places[0] if together else 0)
    behind = [dim for dim in range(len(before), x.dim()) if dim not in places]
    picked = [0] * positions[0].dim()
    own = [*(_now(x.stride(dim)) for dim in before), *picked, *(_now(x.stride(dim)) for dim in behind)]
    spread = [each.reshape([1] * len(before) + list(each.shape) + [1] * len(behind)) for each in positions]
    return [own, *(_along(shape, each) for each in spread)]


def _along(shape: Sequence[int], operand: torch.Tensor) -> list[int]:
    """The strides of an operand that is spread over a shape: none where it has one and the shape several."""
    dims = zip(shape, operand.shape, operand.stride(), strict=True)
    return [0 if size != own == 1 else stride for size, own, stride in dims]


def _by_dimension(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """One entry for each dimension: a mask stands for as many as it has, each the positions of what is true."""
    given: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            given += [index.new_empty(2)] * index.dim()
        else:
            given.append(index)
    return given


def _in_this_call(index: torch.Tensor) -> torch.Tensor:
    """A tensor without data that lies as the positions do."""
    sizes, strides = map(_now, index.shape), map(_now, index.stride())
    return torch.empty_strided(tuple(sizes), tuple(strides), device="meta")


def by_strides(shape: Sequence[int], operands: Sequence[_Strides]) -> list[int]:
    """The dimensions from the outermost to the innermost: the last one is innermost unless strides say otherwise."""
    order = list(reversed(range(len(shape))))
    for start in range(1, len(shape)):
        at = start
        for other in reversed(range(start)):
            is_outer = _is_outer(order[other], order[at], shape, operands)
            if is_outer:
                order[other], order[at] = order[at], order[other]
                at = other
            elif is_outer is False:
                break
    return order[::-1]


def _is_outer(one: int, other: int, shape: Sequence[int], operands: Sequence[_Strides]) -> bool | None:
    """True if the one dimension lies outside the other; None if no operand has strides along both."""
    for strides in operands:
        if not strides[one] or not strides[other]:
            continue
        if strides[one] != strides[other]:
            return strides[one] > strides[other]
        if shape[one] > shape[other]:
            return True
    return None


def _now(number: int | torch.SymInt) -> int:
    """A size as it is in this call; a data-dependent one counts as several."""
    return 2 if (known := _known(number)) is None else known


def _known(number: int | torch.SymInt) -> int | None:
    hint: int | None = number.node.hint if isinstance(number, torch.SymInt) else number
    return hint
