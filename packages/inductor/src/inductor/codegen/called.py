"""Functions that a printed wrapper calls beside kernels and libraries: checks of inputs, tensors laid out as kernels
need them.

These run whenever a compiled graph is called.  They know nothing of programs, or of how the wrapper is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch

from inductor.calling import check_list
from inductor.codegen.doubles import bits_of, double_of, quotient
from inductor.errors import BadInput
from inductor.torch_versions import pytree


def flattened(results: object) -> list[Any]:
    """The tensors of a nested result one by one, as the program names them."""
    leaves: list[Any] = pytree.tree_leaves(results)
    return leaves


def plain(given: torch.Tensor) -> torch.Tensor:
    """A copy, with the same strides, of a tensor that torch negates on reading or that has no memory."""
    return torch.empty_strided(given.size(), given.stride(), dtype=given.dtype, device=given.device).copy_(given)


def refuse_marked(given: torch.Tensor) -> NoReturn:
    """Raises for an input that ``plain`` would copy, where the graph writes to it: a kernel would write its numbers as
    they are."""
    if given.is_neg():
        kind, instead = "is the imaginary part of a conjugate", "torch.resolve_neg of it"
    else:
        kind, instead = "is all zeros and has no memory", "torch.zeros"
    raise BadInput(f"an input of size {tuple(given.size())} {kind}, and the graph writes to it; give {instead}")


def check_input(
    name: str, given: Any, sizes: Iterable[int], strides: Iterable[int], dtype: torch.dtype, device: str
) -> None:
    """Raises where an input is not what the code was compiled for.  Strides of dimensions with at most one element may
    be anything; so may the device, where none is named."""
    sizes, strides = tuple(sizes), tuple(strides)
    if given.layout is not torch.strided:
        raise BadInput(f"input {name} is of layout {given.layout}; this graph was compiled for a strided tensor")
    if tuple(given.shape) != sizes or given.dtype is not dtype:
        raise BadInput(
            f"input {name} is {given.dtype} of size {tuple(given.shape)}; "
            f"this graph was compiled for {dtype} of size {sizes}"
        )
    if device and given.device.type != device:
        raise BadInput(f"input {name} is on {given.device}; this graph was compiled for {device}")
    # Nothing is read of an empty tensor, whatever its strides.
    if 0 in sizes:
        return
    for size, stride, expected in zip(sizes, given.stride(), strides, strict=True):
        if size > 1 and stride != expected:
            raise BadInput(f"input {name} has strides {tuple(given.stride())}; this graph was compiled for {strides}")


def raise_outside(operators: str) -> NoReturn:
    """Raises the error that a kernel could only note: a position outside of its tensor."""
    raise IndexError(f"index out of range in a kernel made of {operators}")


def refuse_wide(number: int) -> NoReturn:
    """Raises for a number that kernels cannot be given."""
    raise OverflowError(f"{number} does not fit the 64 bits that compiled code has for integers")


def reinterpret(
    other: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype, offset: int = 0
) -> torch.Tensor:
    """A tensor in the memory of another that is no view of it; ``offset`` in elements from the memory's start."""
    made = torch.empty(0, dtype=dtype, device=other.device)
    return made.set_(other.untyped_storage(), offset, sizes, strides)


def laid_out(given: torch.Tensor, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """The tensor as it was expected; strides of dimensions that hold at most one element do not matter."""
    lies = all(size <= 1 or a == b for size, a, b in zip(sizes, given.stride(), strides, strict=True))
    if lies and given.dtype == dtype:
        return given
    # Along a dimension that is expanded all elements are the same.
    held = [size if stride else min(size, 1) for size, stride in zip(sizes, strides, strict=True)]
    made = torch.empty_strided(held, strides, dtype=dtype, device=given.device)
    return made.copy_(given[tuple(map(slice, held))]).expand(sizes)


NAMESPACE: Mapping[str, Any] = {
    "torch": torch,
    "empty_strided": torch.empty_strided,
    "threads": torch.get_num_threads,
    "check_input": check_input,
    "check_list": check_list,
    "bits_of": bits_of,
    "double_of": double_of,
    "quotient": quotient,
    "reinterpret": reinterpret,
    "refuse_wide": refuse_wide,
    "flattened": flattened,
    "laid_out": laid_out,
    "plain": plain,
    "refuse_marked": refuse_marked,
}
"""The names that every wrapper can use, with the objects behind them; ``IMPORTS`` says the same as Python."""

IMPORTS = (
    "import torch",
    "from torch import empty_strided",
    "from torch import get_num_threads as threads",
    "from inductor.calling import check_list",
    "from inductor.codegen.doubles import bits_of, double_of, quotient",
    "from inductor.codegen.called import check_input, flattened, laid_out, plain, refuse_marked, reinterpret",
    "from inductor.codegen.called import refuse_wide",
)

DIRECT: Mapping[object, Callable[..., Any]] = {
    torch.ops.aten.mm.default: torch.mm,
    torch.ops.aten.bmm.default: torch.bmm,
    torch.ops.aten.addmm.default: torch.addmm,
    torch.ops.aten.baddbmm.default: torch.baddbmm,
    torch.ops.aten.convolution.default: torch.convolution,
}
"""Functions that take the arguments of an operator and reach it in a third of the time."""
