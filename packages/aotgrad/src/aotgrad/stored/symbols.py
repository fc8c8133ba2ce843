"""Sizes that vary as data, and back: symbols with what is known of them, and expressions over them.

    symbols   kind, number in the example inputs (of what data tell none), the least and the largest that it may be
    known     the conditions that hold

An expression is a whole number, the text of another one, a symbol as its place among the symbols in a list of one, or a
list of a function's name and its arguments.
Must not know: graphs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from aotgrad.stored.values import Plain, Unwritable
from aotgrad.tensors.symbols import SYM_TYPES

if TYPE_CHECKING:  # static sizes need no sympy, and importing it takes half a second
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_OF_SYMPY = (
    "Add", "Mul", "Pow", "Mod", "Max", "Min", "Abs", "Equality", "Unequality", "LessThan", "StrictLessThan",
    "GreaterThan", "StrictGreaterThan", "And", "Or", "Not", "Rational",
)  # fmt: skip
_TYPES: dict[str, type] = {found.__name__: found for found in SYM_TYPES}


@cache
def _functions() -> dict[str, type]:
    """The functions of expressions by their names; torch's own where sympy has one of that name, too."""
    import sympy

    from aotgrad.torch_versions import functions  # torch imports sympy with it

    own = {name: found for name, found in vars(functions).items() if isinstance(found, type)}
    return {**{name: getattr(sympy, name) for name in _OF_SYMPY}, **own}


class SymbolsWritten:
    """The symbols of one graph, each with a row once something names it."""

    def __init__(self) -> None:
        self._numbers: dict[sympy.Symbol, int] = {}
        self._rows: list[Plain] = []
        self._env: ShapeEnv | None = None

    def write(self, value: Any) -> Plain:
        """A symbolic number: its type and its expression."""
        self._env = value.node.shape_env if self._env is None else self._env
        if value.node.shape_env is not self._env:
            raise Unwritable("sizes of two traces are in it")
        return [type(value).__name__, self._expression(value.node.expr)]

    def table(self) -> dict[str, Plain]:
        """The symbols, and what is known of these alone."""
        conditions = [] if self._env is None else _conditions(self._env)
        known = [expr for expr in dict.fromkeys(conditions) if self._numbers.keys() >= expr.free_symbols]
        return {"known": [self._expression(expr) for expr in known], "symbols": self._rows}

    def _expression(self, expr: Any) -> Plain:
        if expr.is_Symbol:
            return [self._number(expr)]
        if expr.is_Integer:
            return int(expr)
        if expr.is_Float:
            return float(expr).hex()
        name = type(expr).__name__
        if expr.is_Rational:
            return ["Rational", int(expr.p), int(expr.q)]
        kind: Any = type(expr)
        if not expr.args or _functions().get(name) is not kind:
            raise Unwritable(f"a size is computed by {name}")
        return [name, *map(self._expression, expr.args)]

    def _number(self, symbol: sympy.Symbol) -> int:
        if symbol not in self._numbers:
            self._numbers[symbol] = len(self._rows)
            self._rows.append(self._row(symbol))
        return self._numbers[symbol]

    def _row(self, symbol: Any) -> Plain:
        assert self._env is not None
        example = self._env.backed_var_to_val.get(symbol)
        if not symbol.is_integer:
            if example is None:
                raise Unwritable("data tell a number in it that is not whole")
            return ["float", float(example).hex(), None, None]
        limits = self._env.var_to_range[symbol]
        bounds = [int(limit) if limit.is_Integer else None for limit in (limits.lower, limits.upper)]
        if example is None:
            return ["data's size" if symbol in self._env.size_like else "data's", None, *bounds]
        return ["size" if symbol.is_positive else "number", int(example), *bounds]


def _conditions(env: ShapeEnv) -> Iterator[sympy.Basic]:
    yield from (guard.expr for guard in env.guards)
    yield from (each.expr for some in env.deferred_runtime_asserts.values() for each in some)


class SymbolsRead:
    """The symbols of one graph that was read, of an environment of their own."""

    def __init__(self, table: dict[str, Any]) -> None:
        # Imported here because it takes half a second, which static sizes need not wait.
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.env = ShapeEnv()
        self._symbols: list[Any] = []
        with self.env.ignore_fresh_unbacked_symbols():
            for kind, example, *bounds in table["symbols"]:
                made = self._of_data(kind) if example is None else self._told(kind, example)
                if kind != "float":
                    self._limit(made, *bounds)
                self._symbols.append(made)
        for condition in table["known"]:
            self.env.guard_or_defer_runtime_assert(self._expression(condition), "known when it was stored")

    def _told(self, kind: str, example: Any) -> Any:
        """A symbol that an input tells."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        return self.env.create_symbol(
            float.fromhex(example) if kind == "float" else example,
            source=_place_class()(len(self._symbols)),
            dynamic_dim=DimDynamic.DYNAMIC,
            positive=True if kind == "size" else None,
            do_not_specialize_zero_one=True,
        )

    def _of_data(self, kind: str) -> Any:
        made = self.env.create_unbacked_symint().node.expr
        if kind == "data's size":
            self.env.size_like.add(made)
        return made

    def _limit(self, symbol: Any, lower: int | None, upper: int | None) -> None:
        known = self.env.var_to_range[symbol]
        low: Any = known.lower if lower is None else lower
        high: Any = known.upper if upper is None else upper
        self.env.constrain_symbol_range(symbol, low, high)

    def read(self, held: Sequence[Any]) -> Any:
        name, written = held
        expression = self._expression(written)
        if _TYPES[name] is torch.SymBool:
            return self.env.create_symboolnode(expression)
        make = self.env.create_symintnode if _TYPES[name] is torch.SymInt else self.env.create_symfloatnode
        return make(expression, hint=None)

    def _expression(self, held: Any) -> Any:
        import sympy

        if isinstance(held, str):
            return sympy.Float(float.fromhex(held))
        if isinstance(held, int):
            return sympy.Integer(held)
        first, *rest = held
        return _functions()[first](*map(self._expression, rest)) if rest else self._symbols[first]


@cache
def _place_class() -> type[Any]:
    from aotgrad.torch_versions import Source

    class Place(Source):
        """The place of a symbol in its table, in the form in which the environment keeps it."""

        def __init__(self, number: int) -> None:
            self.number = number

        @property
        def name(self) -> str:
            return f"size{self.number}"

        @property
        def _name_template(self) -> str:
            return self.name

        def is_ephemeral(self) -> bool:
            return False

        def __hash__(self) -> int:
            return hash(self.number)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Place) and other.number == self.number

    return Place
