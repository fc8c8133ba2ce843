"""Tensors of a dynamic size: grids, windows, the places of a triangle, combinations, counts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from capture.operators.definitions import without_gradient
from capture.operators.dynamic_sizes.symint_operators import (
    NAMESPACE,
    Size,
    define,
    define_as,
    defines,
    overloads_of,
)
from capture.torch_versions import DynamicOutputShapeException, OpOverload, aten, is_view, schema_of

Shape = Callable[..., Sequence[Size]]


def _makes(*functions: Any) -> Callable[[Shape], Shape]:
    """Registers functions that make a tensor, given the shape of what they make."""

    def register(shape: Shape) -> Shape:
        for function in functions:
            defines(function.__name__, function)(functools.partial(_define_overloads, function.__name__, shape))
        return shape

    return register


def _define_overloads(name: str, shape: Shape) -> None:
    """Defines each overload of a factory with symbols for its numbers; a tensor that is made new has no history."""
    for operator in overloads_of(name):
        without_gradient(define(operator, _fake_kernel(operator, shape), functools.partial(_of_its_own, operator)))


def _of_its_own(operator: OpOverload, *args: object, **kwargs: object) -> Tensor:
    """Runs torch's operator and gives no view, as torch's own function gives none.

    The operator cuts a periodic window out of a longer one.
    """
    made: Tensor = operator(*args, **kwargs)
    return aten._unsafe_view(made, made.shape) if is_view(made) else made


def _fake_kernel(operator: OpOverload, shape: Shape) -> Callable[..., Tensor]:
    """The fake kernel of a factory: the sizes are those of `shape`, the dtype is torch's answer for another length."""
    names = [argument.name for argument in schema_of(operator).arguments]
    lengths = {argument.name: 2 for argument in schema_of(operator).arguments if str(argument.type) == "int"}

    def tell(*args: object, **kwargs: object) -> Tensor:
        given = dict(zip(names, args, strict=False)) | kwargs
        plain = {name: _plain(value) for name, value in given.items()} | lengths
        # On the meta device, where neither memory nor a device is needed to be told the dtype.
        like = operator(**{**plain, "device": torch.device("meta"), "pin_memory": None})
        sizes = shape(**{name: value for name, value in given.items() if name in lengths})
        return torch.empty(tuple(sizes), dtype=like.dtype, device=given.get("device"))

    return tell


def _plain(value: object) -> Any:
    """An argument without data or symbols in it: its type is what the dtype of the result may depend on."""
    if isinstance(value, Tensor):
        return torch.empty((), dtype=value.dtype, device="meta")
    return 1.0 if isinstance(value, (torch.SymInt, torch.SymFloat)) else value


@_makes(torch.linspace, torch.logspace)
def _steps(steps: Size) -> Sequence[Size]:
    return (steps,)


@_makes(
    *(torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window),
)
def _window_length(window_length: Size) -> Sequence[Size]:
    return (window_length,)


@_makes(torch.fft.fftfreq)
def _frequencies(n: Size) -> Sequence[Size]:
    return (n,)


@_makes(torch.fft.rfftfreq)
def _half_of_the_frequencies(n: Size) -> Sequence[Size]:
    return (n // 2 + 1,)


@_makes(torch.tril_indices)
def _lower_triangle(row: Size, col: Size, offset: Size = 0) -> Sequence[Size]:
    return 2, _on_or_below(row, col, offset)


@_makes(torch.triu_indices)
def _upper_triangle(row: Size, col: Size, offset: Size = 0) -> Sequence[Size]:
    return 2, row * col - _on_or_below(row, col, offset - 1)


def _on_or_below(rows: Size, columns: Size, diagonal: Size) -> Size:
    """The number of places on a diagonal and below it: each row has one more than the last, up to all columns."""
    return _staircase(diagonal + rows, columns) - _staircase(diagonal, columns)


def _staircase(steps: Size, height: Size) -> Size:
    """The sum of the first steps of a staircase that rises by one up to `height`."""
    if steps <= 0:
        return 0
    if steps <= height:
        return steps * (steps + 1) // 2
    return height * (height + 1) // 2 + (steps - height) * height


@defines("one_hot", nnf.one_hot)
def one_hot() -> None:
    """``one_hot`` with a number of classes that may be a symbol."""

    def fake_kernel(self: Tensor, num_classes: Size = -1) -> Tensor:
        if num_classes < 0:  # data tells how many
            raise DynamicOutputShapeException(torch.ops.aten.one_hot.default)
        return self.new_empty((*self.shape, num_classes))

    define(torch.ops.aten.one_hot.default, fake_kernel)


@defines("histc", torch.histc, torch.Tensor.histc)
def histc() -> None:
    """``histc`` with a number of bins that may be a symbol; what it counts has no history."""
    without_gradient(
        define(torch.ops.aten.histc.default, lambda self, bins=100, *limits, **named: self.new_empty(bins))
    )


@defines("histogram", torch.histogram, Tensor.histogram)
def histogram() -> None:
    """``histogram`` with a number of bins, or a tensor of edges, that may vary in length."""

    def fake_kernel(self: Tensor, bins: Any = 100, **options: object) -> tuple[Tensor, Tensor]:
        edges = bins.shape[0] if isinstance(bins, Tensor) else bins + 1
        return self.new_empty(edges - 1), self.new_empty(edges)

    for operator in overloads_of("histogram"):
        define(operator, fake_kernel)


@defines("geqrf", torch.geqrf, Tensor.geqrf)
def geqrf() -> None:
    """``geqrf`` of a matrix whose sizes may be symbols: torch's fake asks which of them is less."""

    def fake_kernel(self: Tensor) -> tuple[Tensor, Tensor]:
        *batch, rows, columns = self.shape
        reflected = self.mT.new_empty((*batch, columns, rows)).mT  # column by column
        return reflected, self.new_empty((*batch, torch.sym_min(rows, columns)))

    define(torch.ops.aten.geqrf.default, fake_kernel)


@defines("combinations_of")
def combinations_of() -> None:
    """The places of each combination of so many out of a length."""

    def places(length: int, r: int, with_replacement: bool, device: torch.device | None = None) -> Tensor:
        return torch.combinations(torch.arange(length, device=device), r, with_replacement)

    def fake_kernel(length: Size, r: int, with_replacement: bool, device: torch.device | None = None) -> Tensor:
        # The binomial coefficient, in arithmetic that symbols have.
        chosen_from = length + r - 1 if with_replacement else length
        count = math.prod(chosen_from - place for place in range(r)) // math.factorial(r)
        return torch.empty((count, r), dtype=torch.int64, device=device)

    schema = "(SymInt length, int r, bool with_replacement, *, Device? device=None) -> Tensor"
    define_as(f"{NAMESPACE}::combinations_of", schema, places, fake_kernel)
