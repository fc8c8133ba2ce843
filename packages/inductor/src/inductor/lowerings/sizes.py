"""Sizes as the tracer knows them (ints and ``SymInt``) turned into exact indices.

A ``SymInt`` holds a sympy expression, which is read by its shape alone: importing sympy costs half a second, and
whoever has a ``SymInt`` has paid that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor import costs
from inductor.errors import UnsupportedGraph
from inductor.ir.index import ONE, ZERO, Atom, Index, Mod, Symbol, size_symbol
from inductor.ir.program import WIDEST

SMALLEST = -(1 << 62)
_MOST_OF_64_BITS = (1 << 63) - 1
_MOST_ELEMENTS = 1 << 53
"""More elements than any memory holds."""


@dataclass
class Sizes:
    """The size symbols of one graph, by the names the tracer gave them."""

    symbols: dict[str, Symbol] = field(default_factory=dict)
    learned: dict[Any, Symbol] = field(default_factory=dict)
    """Sizes that are not understood, by the tracer's expression: symbols that are read from a result which has that
    size."""
    numbers: dict[str, int] = field(default_factory=dict)
    """The names of symbols that are no sizes, and how large they may be."""
    to_read: list[tuple[int, int, Symbol]] = field(default_factory=list)
    """The results of the operator at hand that such sizes are read from: the result's number, the dimension and the
    symbol."""
    comparisons: Any = ()
    """The comparisons that the tracer has made so far, and the graph relies on: the guards of its shape environment."""
    ones: dict[object, bool] = field(default_factory=dict)
    """Of computed sizes by the tracer's expression, whether the graph relies on their being 1."""

    def index(self, value: object) -> Index:
        """The index of an int, a ``SymInt`` or the expression behind one."""
        if isinstance(value, Index):
            return value
        if isinstance(value, torch.SymInt):
            self.comparisons = value.node.shape_env.guards
            return Index.of(1) if self._is_one(value) else self._from_sympy(value.node.expr)
        return Index.of(value) if isinstance(value, int) else self._from_sympy(value)

    def indices(self, values: Iterable[int | torch.SymInt | Index]) -> tuple[Index, ...]:
        return tuple(self.index(value) for value in values)

    def strides(self, values: Iterable[int | torch.SymInt]) -> tuple[Index, ...]:
        """Strides as the tracer gives them.  It counts a size 0 as 1; nothing is stored then, so it does not matter."""
        return tuple(self.index(value if isinstance(value, int) else _without_max(value)) for value in values)

    def symbol(self, name: str) -> Symbol:
        """The symbol of that name; sizes that come from data may be 0 and 1 too."""
        return self.symbols.setdefault(name, size_symbol(name, 0 if _is_from_data(name) else 2))

    def some_unbounded(self) -> bool:
        """True if some symbol of the graph has no known range."""
        return any(symbol.unbounded for symbol in self.symbols.values())

    def given(self, value: torch.SymInt) -> None:
        """An integer that the graph is given, told before anything is described with it: it may be negative."""
        for symbol in value.node.expr.free_symbols:
            if not symbol.is_positive:  # sizes are
                name = str(symbol)
                self.symbols.setdefault(name, size_symbol(name, _smallest(symbol, value.node.shape_env)))
                self.numbers.setdefault(name, WIDEST)

    def number(self, value: torch.SymInt) -> Symbol:
        """The symbol of an integer read from a tensor: unlike a size it may be negative."""
        name = str(value.node.expr)
        if not name.isidentifier():
            raise UnsupportedGraph(f"an integer read from a tensor that is known as {name}")
        self.numbers.setdefault(name, _MOST_OF_64_BITS)
        return self.symbols.setdefault(name, size_symbol(name, SMALLEST))

    def learn(self, results: Sequence[torch.Tensor]) -> bool:
        """True if these results have sizes that are not understood; each gets a symbol that is read from its result."""
        self.to_read = []
        for place, result in enumerate(results):
            for dim, size in enumerate(result.shape):
                try:
                    self.index(size)
                except UnsupportedGraph:
                    name = f"length{len(self.learned)}"
                    symbol = self.learned[size.node.expr] = self.symbols.setdefault(name, size_symbol(name, 0))
                    self.to_read.append((place, dim, symbol))
        return bool(self.to_read)

    def fits(self, index: Index) -> bool:
        """True if the number, and all that it is computed from, has 64 bits, as it has in kernels; Python's have no
        end."""
        return self._most(index) <= _MOST_OF_64_BITS

    def _most(self, index: Index) -> int:
        """The most that the number can be, whatever its sign."""
        return sum(abs(factor) * self._most_of_product(monomial) for monomial, factor in index.terms)

    def _most_of_product(self, monomial: tuple[Atom, ...]) -> int:
        sizes = [atom for atom in monomial if isinstance(atom, Symbol) and atom.name not in self.numbers]
        # Sizes of one tensor by each other are the number of its elements; a power of a size is no such thing.
        if len(sizes) != len(set(sizes)):
            return _MOST_OF_64_BITS + 1
        most = _MOST_ELEMENTS if sizes else 1
        for atom in monomial:
            if isinstance(atom, Symbol):
                most *= self.numbers.get(atom.name, 1)
                continue
            numerator, divisor = self._most(atom.numerator), self._most(atom.divisor)
            if max(numerator, divisor) > _MOST_OF_64_BITS:
                return _MOST_OF_64_BITS + 1
            most *= divisor if isinstance(atom, Mod) else numerator
        return most

    def _is_one(self, value: torch.SymInt) -> bool:
        """True if the tracer knows that a computed size is 1: it has taken it for one that is broadcast or squeezed."""
        expr = value.node.expr
        if expr.is_Symbol or expr.is_Integer:
            return False
        if expr not in self.ones:
            # Imported here, as static sizes need no sympy, which torch imports with it.
            from torch.fx.experimental.symbolic_shapes import statically_known_true

            self.ones[expr] = bool(statically_known_true(value == 1))
        return self.ones[expr]

    def _from_sympy(self, expr: Any) -> Index:
        """The index of a tracer's expression; raises ``UnsupportedGraph`` for anything but arithmetic of sizes."""
        if (known := self.learned.get(expr)) is not None:
            return Index.of(known)
        if expr.is_Integer:
            return Index.of(int(expr))
        if expr.is_Symbol:
            return Index.of(self.symbol(str(expr)))
        args = [self._from_sympy(arg) for arg in expr.args]
        if expr.is_Add:
            return sum(args, ZERO)
        if expr.is_Mul:
            product = ONE
            for arg in args:
                product = product * arg
            return product
        if (kind := type(expr).__name__) in ("FloorDiv", "CleanDiv", "Mod", "PythonMod"):
            # Python would raise; sizes that are used as such are positive where they divide.
            if args[1].unbounded and _may_be_zero(args[1]) and not self._compared_with_zero(expr.args[1]):
                raise UnsupportedGraph(f"a division by {args[1]}, which may be 0")
            return args[0] // args[1] if kind.endswith("Div") else args[0] % args[1]
        if expr.is_Pow and (exponent := args[1].as_int()) is not None and exponent > 0:
            product = ONE
            for _ in range(exponent):
                product = product * args[0]
            return product
        if kind in ("Min", "Max"):
            if len(args) > (most := costs.ANY.most_compared):
                raise UnsupportedGraph(f"{expr}: sizes are compared with no more than {most - 1} others")
            return functools.reduce(_smaller if kind == "Min" else _larger, args)
        raise UnsupportedGraph(
            f"{expr}: of sizes and numbers that vary only +, *, //, %, min and max are understood; mark the dimension "
            "static, or compute the number outside of the function"
        )

    def _compared_with_zero(self, divisor: object) -> bool:
        """True if the graph relies on the divisor being no zero, as where a tensor of that size had elements."""
        unlike = (guard.expr for guard in self.comparisons if type(guard.expr).__name__ == "Unequality")
        products = [expr.args[0] for expr in unlike if expr.args[1] == 0]
        return any(divisor == product or (product.is_Mul and divisor in product.args) for product in products)


_FAR = 1 << 62
"""A number that no size and no difference of sizes reaches."""


def _smaller(one: Index, other: Index) -> Index:
    """The smaller of two indices, by the sign of their difference: divided by a number beyond it, that is 0, or -1
    where it is negative."""
    apart = one - other
    return other - apart * (apart // _FAR)


def _larger(one: Index, other: Index) -> Index:
    """The larger of two indices: their sum without the smaller."""
    return one + other - _smaller(one, other)


def _without_max(value: torch.SymInt) -> Any:
    """The expression with ``Max(1, size)`` read as ``size``, and with several sizes as the largest of them."""
    expr = value.node.expr
    return expr.replace(
        lambda node: type(node).__name__ == "Max" and 1 in node.args,
        lambda node: node.func(*(arg for arg in node.args if arg != 1)),
    )


def _smallest(symbol: Any, shape_env: Any) -> int:
    """The least value that an integer input can have, after the comparisons that the tracer has seen."""
    known = None if _is_from_data(str(symbol)) else shape_env.var_to_range.get(symbol)
    return int(known.lower) if known is not None and known.lower > SMALLEST else SMALLEST


def _is_from_data(name: str) -> bool:
    """True for the tracer's names of unbacked symbols, u0, u1, ...; sizes of inputs have names with other letters."""
    return name.startswith("u") and name[1:].isdigit()


def refuse_division_by_zero(value: Index) -> None:
    """Raises ``UnsupportedGraph`` for a number divided by something that may be 0: Python would raise, which no kernel
    can.  Sizes used as such are safe: they are divided only where there are elements."""
    for monomial, _ in value.terms:
        for atom in monomial:
            if not isinstance(atom, Symbol):
                if _may_be_zero(atom.divisor):
                    raise UnsupportedGraph(f"a division by {atom.divisor}, which may be 0")
                refuse_division_by_zero(atom.numerator)


def _may_be_zero(divisor: Index) -> bool:
    """True unless the divisor is known to be positive or a constant other than 0."""
    return divisor.as_int() in (None, 0) and not (divisor - 1).is_nonnegative()


def numel(sizes: Iterable[Index]) -> Index:
    """The number of elements of a tensor of these sizes."""
    product = ONE
    for size in sizes:
        product = product * size
    return product


def contiguous_strides(sizes: tuple[Index, ...]) -> tuple[Index, ...]:
    """Row-major strides as torch computes them: a dimension of size 0 counts as 1."""
    strides: list[Index] = []
    step = ONE
    for size in reversed(sizes):
        strides.append(step)
        step = step * (ONE if size == 0 else size)
    return tuple(reversed(strides))


def image_strides(sizes: tuple[Index, ...], channels_last: bool) -> tuple[Index, ...]:
    """The strides of dense images, with their channels innermost or not."""
    _, channels, height, width = sizes
    if channels_last:
        return height * width * channels, Index.of(1), width * channels, channels
    return channels * height * width, height * width, width, Index.of(1)
