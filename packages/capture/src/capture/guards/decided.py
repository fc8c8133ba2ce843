"""Programs of conditions on sizes, run in Python's integers: for what the engine leaves, and no expression is at hand.

Must not know how programs are made (``conditions``), and needs no sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType

import torch

from capture.guards.arithmetic import OF_TWO
from capture.guards.sources import Inputs, Source

_READS: Mapping[str, Callable[[torch.Tensor, int], int]] = {
    "size": lambda tensor, dim: int(tensor.size(dim)),
    "stride": lambda tensor, dim: int(tensor.stride(dim)),
    "offset": lambda tensor, _: int(tensor.storage_offset()),
}


def decided(
    paths: Sequence[Source], program: Sequence[tuple[str, int, int]], function: FunctionType, *args: object
) -> bool:
    """True if the condition holds in a call, of a function and its arguments: the engine's interpreter, in Python."""
    values = [path.read(Inputs(function, args)) for path in paths]
    stack: list[int] = []
    for name, place, number in program:
        if name == "constant":
            stack.append(number)
        elif name == "number":
            stack.append(values[place])
        elif name in _READS:
            stack.append(_READS[name](values[place], number))
        elif name == "not":
            stack.append(not stack.pop())
        else:
            # The right operand was put last.
            right, left = stack.pop(), stack.pop()
            stack.append(OF_TWO[name](left, right))
    (answer,) = stack
    return bool(answer)
