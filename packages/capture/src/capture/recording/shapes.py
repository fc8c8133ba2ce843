"""Dynamic sizes: symbols for them, and the conditions that a trace relied on as functions of the sizes.

The only module that speaks with torch's shape environment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from capture.errors import Location
from capture.guards.conditions import Instruction, program_of
from capture.guards.guard import Guard
from capture.guards.kinds import GuardKind
from capture.guards.layouts import OpenLayout, Relied
from capture.guards.sources import AttrSource, FormulaSource, Inputs, Source
from capture.torch_versions import PythonPrinter, SymT, symbol_is_type
from capture.torch_versions import Source as TorchSource


class ShapeSource(TorchSource):
    """One of our paths in the form in which the shape environment keeps it."""

    def __init__(self, path: Source) -> None:
        self.path = path

    @property
    def name(self) -> str:
        return self.path.expression()

    @property
    def _name_template(self) -> str:
        return self.path.expression()

    def is_ephemeral(self) -> bool:
        return False

    def __hash__(self) -> int:
        return hash(self.path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeSource) and other.path == self.path


def symbolic_arguments(tensor: torch.Tensor, source: Source, layout: OpenLayout) -> dict[str, object]:
    """The arguments that ``FakeTensorMode.from_tensor`` needs for a tensor with dynamic sizes and strides."""
    dims = range(tensor.dim())
    sizes = [DimDynamic.DYNAMIC if dim in layout.sizes else DimDynamic.STATIC for dim in dims]
    strides = [DimDynamic.DYNAMIC if dim in layout.strides else DimDynamic.INFER_STRIDE for dim in dims]
    context = StatelessSymbolicContext(dynamic_sizes=sizes, dynamic_strides=strides)
    return {"source": ShapeSource(source), "symbolic_context": context, "static_shapes": False}


def strides_relied_on(fake: torch.Tensor, tensor: torch.Tensor) -> Relied:
    """The strides that a call has to have; those that are symbols of their own are open.

    What is asked of an open one becomes a condition.  From the innermost dimension outwards, as the shape environment
    derives one stride from another.
    """
    sizes, strides = fake.size(), fake.stride()
    relied: dict[int, object] = {}
    for dim in sorted(range(fake.dim()), key=lambda dim: (tensor.stride(dim), -dim)):
        past = (k for k in relied if _expression(sizes[k]) * _expression(strides[k]) == _expression(strides[dim]))
        known = strides[dim] if isinstance(strides[dim], int) else next(((k,) for k in past), None)
        relied[dim] = known
    return tuple(relied[dim] for dim in range(fake.dim()))


def _expression(size: int | torch.SymInt) -> Any:
    """The size as an expression."""
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def fresh_symbol(env: ShapeEnv, value: float, source: Source) -> torch.SymInt | torch.SymFloat:
    """A symbol for a number that is found at a source."""
    origin = ShapeSource(source)
    # Unlike a size, a number may be negative, and nothing is known of it but what the trace asks.
    symbol = env.create_unspecified_symbol(value, source=origin, dynamic_dim=DimDynamic.DYNAMIC)
    make = env.create_symintnode if isinstance(value, int) else env.create_symfloatnode
    made = make(symbol, hint=value, source=origin)
    assert isinstance(made, (torch.SymInt, torch.SymFloat))
    return made


def is_data_dependent(symbol: sympy.Symbol) -> bool:
    """True if the symbol stands for a data-dependent number."""
    return bool(symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)))


def have_sizes_of_data(tensors: Sequence[torch.Tensor]) -> bool:
    """True if one of these has a data-dependent size, which may be 0: many operators refuse that."""
    sizes = (size for tensor in tensors for size in tensor.shape if isinstance(size, torch.SymInt))
    return any(is_data_dependent(symbol) for size in sizes for symbol in size.node.expr.free_symbols)


class DeferredConditions:
    """The conditions that operations take for granted of data-dependent numbers.  Nothing checks them at run time."""

    def __init__(self, env: ShapeEnv) -> None:
        self._env = env
        self._seen: set[sympy.Basic] = set()

    def mark(self) -> tuple[int, int]:
        return self._env.num_deferred_runtime_asserts, len(self._env.var_to_range)

    def since(self, mark: tuple[int, int]) -> list[sympy.Basic]:
        """The new ones, but for those on numbers that are new themselves, which an operation gives within limits."""
        count, symbols = mark
        if self._env.num_deferred_runtime_asserts == count:
            return []
        new = set(list(self._env.var_to_range)[symbols:])
        held = [one.expr for some in self._env.deferred_runtime_asserts.values() for one in some]
        found = [expr for expr in held if expr not in self._seen and not expr.free_symbols <= new]
        self._seen.update(held)
        return found


def fixed_sizes(env: ShapeEnv) -> int:
    """The number of conditions that hold for one value alone of what varies."""
    return sum(_holds_for_one(guard.expr) for guard in env.guards)


def _holds_for_one(condition: sympy.Basic) -> bool:
    """True for an equation with a number, but for those on remainders, which many values fulfil."""
    if not isinstance(condition, sympy.Eq) or not (condition.lhs.is_number or condition.rhs.is_number):
        return False
    return not any(type(part).__name__ in ("Mod", "PythonMod") for part in sympy.preorder_traversal(condition))


def not_negative(condition: sympy.Basic) -> sympy.Basic | None:
    """The expression that a condition wants to be no less than zero, if that is all that it wants."""
    if isinstance(condition, sympy.Ge):
        return condition.lhs - condition.rhs
    return condition.rhs - condition.lhs if isinstance(condition, sympy.Le) else None


def relations(env: ShapeEnv, location: Location) -> list[Guard]:
    """The conditions on sizes that the trace relied on, each as a guard over what the frame starts from."""
    origins = {symbol: sources[0] for symbol, sources in env.var_to_sources.items() if sources}
    guards = []
    for condition in dict.fromkeys(_conditions(env)):
        symbols = sorted(condition.free_symbols, key=str)
        if symbols and all(symbol in origins for symbol in symbols):
            guards.append(_relation(condition, symbols, [origins[symbol] for symbol in symbols], location))
    return guards


def _conditions(env: ShapeEnv) -> list[sympy.Basic]:
    """All conditions that the environment noted, and the limits that symbols of the program's were given."""
    found = [guard.expr for guard in env.guards]
    for symbol, limits in env.var_to_range.items():
        if symbol in env.var_to_sources and limits.lower > 0:
            found.append(sympy.Ge(symbol, limits.lower))
    return found


def reader_of(size: torch.SymInt) -> Callable[[Inputs], int] | None:
    """A function that computes a size from what a frame starts from; None where data have a say."""
    expression, env = size.node.expr, size.node.shape_env
    symbols = sorted(expression.free_symbols, key=str)
    if not all(env.var_to_sources.get(symbol) for symbol in symbols):
        return None
    compute = _function_of(symbols, expression)
    readers = [_reader(env.var_to_sources[symbol][0]) for symbol in symbols]
    return lambda inputs: int(compute(*(read(inputs) for read in readers)))


def source_of(number: torch.SymInt | torch.SymFloat) -> Source | None:
    """The source of a number that is computed from what the frame starts from; None where data have a say."""
    expression, env = number.node.expr, number.node.shape_env
    symbols = sorted(expression.free_symbols, key=str)
    if not all(env.var_to_sources.get(symbol) for symbol in symbols):
        return None
    operands = tuple(_number_at(env.var_to_sources[symbol][0]) for symbol in symbols)
    if expression.is_Symbol:
        return operands[0]
    places = {symbol: sympy.Symbol(f"{{{i}}}") for i, symbol in enumerate(symbols)}
    return FormulaSource(_function_of(symbols, expression), operands, f"({expression.xreplace(places)})")


def _number_at(origin: Any) -> Source:
    """The source of the number that a symbol stands for: a path, or a size that is read of a tensor at one."""
    if isinstance(origin, ShapeSource) or hasattr(origin, "member"):
        return _path(origin)
    name, dim = origin.prop.name, origin.idx or 0
    text = {"SIZE": f"{{}}.size({dim})", "STRIDE": f"{{}}.stride({dim})"}.get(name, "{}.storage_offset()")
    return FormulaSource(_READS[name](dim), (_path(origin.base),), text)


_READS: dict[str, Callable[[int], Callable[[torch.Tensor], int]]] = {
    "SIZE": lambda dim: lambda tensor: tensor.size(dim),
    "STRIDE": lambda dim: lambda tensor: tensor.stride(dim),
    "STORAGE_OFFSET": lambda dim: lambda tensor: int(tensor.storage_offset()),
}


def _relation(condition: Any, symbols: list[Any], origins: list[Any], location: Location) -> Guard:
    """The guard for a condition: a program of the engine's where there is one, with Python's function behind it."""
    check = _function_of(symbols, condition)
    readers = [_reader(origin) for origin in origins]
    paths, reads = _reads(origins)
    computed = any(isinstance(path, FormulaSource) for path in paths)  # which is Python's to do
    program = None if computed else program_of(condition, dict(zip(symbols, reads, strict=True)))
    spoken = condition.xreplace(
        {symbol: sympy.Symbol(origin.name) for symbol, origin in zip(symbols, origins, strict=True)}
    )

    def holds(function: FunctionType, *args: object) -> bool:
        inputs = Inputs(function, args)
        return bool(check(*(read(inputs) for read in readers)))

    if program is None:
        return Guard(None, GuardKind.RELATION, ((), None, holds), location, f"{spoken}")
    return Guard(None, GuardKind.CONDITION, (paths, program, holds), location, f"{spoken}")


_PARTS = {"SIZE": "size", "STRIDE": "stride"}


def _reads(origins: list[Any]) -> tuple[tuple[Source, ...], list[Instruction]]:
    """The paths to numbers and tensors, and how the engine reads each symbol from them."""
    places: dict[Source, int] = {}
    reads = []
    for origin in origins:
        if isinstance(origin, ShapeSource) or hasattr(origin, "member"):
            path, name, dim = _path(origin), "number", 0
        else:
            path, name, dim = _path(origin.base), _PARTS.get(origin.prop.name, "offset"), origin.idx or 0
        reads.append((name, places.setdefault(path, len(places)), dim))
    return tuple(places), reads


def _path(origin: Any) -> Source:
    """Our path behind a source of the environment's."""
    return origin.path if isinstance(origin, ShapeSource) else AttrSource(_path(origin.base), origin.member)


class _ExactPrinter(PythonPrinter):
    """Writes floats so that they are read again without rounding."""

    def _print_Float(self, expr: Any) -> str:  # noqa: N802 - sympy asks for this name
        return repr(float(expr))


def _function_of(symbols: list[object], expression: Any) -> Callable[..., Any]:
    """The expression as a function of its symbols, compiled: it is called in every call of the frame."""
    names = {symbol: sympy.Symbol(f"s{i}") for i, symbol in enumerate(symbols)}
    text = _ExactPrinter().doprint(expression.xreplace(names))
    made: Callable[..., Any] = eval(
        f"lambda {', '.join(map(str, names.values()))}: {text}", {"math": math, "torch": torch}
    )
    return made


def _reader(origin: Any) -> Callable[[Inputs], Any]:
    """A function that finds a symbol's value, or the tensor that has it, from what a frame starts from."""
    if isinstance(origin, ShapeSource):
        return origin.path.read
    holder = _reader(origin.base)
    # The rest is the environment's own: "the gradient of a tensor", "what it is a view of", "size i of a tensor".
    if hasattr(origin, "member"):
        return lambda inputs: getattr(holder(inputs), origin.member)
    dim, kind = origin.idx, origin.prop.name
    if kind == "SIZE":
        return lambda inputs: holder(inputs).size(dim)
    if kind == "STRIDE":
        return lambda inputs: holder(inputs).stride(dim)
    return lambda inputs: holder(inputs).storage_offset()
