"""Expression trees as C++, for one element or for a vector of neighbouring ones.

A scope knows which loop variable runs along the lanes (if any), what names are bound, and which lanes may be read.  The
same walk prints both forms: a value that does not vary along the lanes stays a scalar, and is spread out where a vector
meets it.  What has no vector form is computed lane by lane inside the vector code, so nothing is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from inductor.codegen import cpp_dialect
from inductor.codegen.cpp_types import FLOATS, HALVES, PROMOTED, literal, scalar_type, vector_type
from inductor.codegen.expressions import Precedence, Text, index_text
from inductor.codegen.order import plan
from inductor.codegen.printer import Lines, Names
from inductor.ir.expr import CHECKS, Apply, Const, Expr, IndexValue, Load, Masked, Result, children, fits_32_bits
from inductor.ir.index import Index, Symbol

LONGEST_INLINE = 72
"""A subexpression longer than this gets a name of its own."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """The loop variable that runs along a vector, and the number of lanes."""

    symbol: Symbol
    width: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A printed value; ``vector`` where it holds one element per lane."""

    text: Text
    dtype: torch.dtype
    vector: bool = False


class Scope:
    """The place where values are printed: a block of C++ with the names that are visible in it."""

    def __init__(
        self,
        lines: Lines,
        names: Names,
        lanes: Lanes | None = None,
        results: dict[str, Operand] | None = None,
        parent: Scope | None = None,
        mask: Operand | None = None,
    ) -> None:
        self.lines = lines
        self.names = names
        self.lanes = lanes
        self.results: dict[str, Operand] = {} if results is None else results
        self.mask = mask
        self._parent = parent
        # By type and text: text that is the same in sight has the same value, until a store.
        self._named: dict[tuple[str, str], Text] = {}
        self.transposed: dict[Load, str] = {}

    def inner(self) -> Scope:
        """A block inside this one: sees what is named here, and keeps its own names to itself."""
        # Results are copied, as those of this block are gone behind it; names are found through ``_parent``.
        made = Scope(self.lines, self.names.inner(), self.lanes, dict(self.results), self, self.mask)
        made.transposed = self.transposed
        return made

    def masked(self, mask: Operand) -> Scope:
        """A scope for this block where only some lanes may be read: what is read there is not what is read outside."""
        # ``transposed`` is not handed on: a square is read as a whole, and not by lanes.
        return Scope(self.lines, self.names, self.lanes, dict(self.results), self, mask)

    # -- types --------------------------------------------------------------------------------------------------------

    def type_of(self, dtype: torch.dtype, vector: bool) -> str:
        """The C++ type of a scalar or a vector of this dtype."""
        return vector_type(dtype, self._width) if vector else scalar_type(dtype)

    @property
    def _width(self) -> int:
        assert self.lanes is not None
        return self.lanes.width

    # -- names --------------------------------------------------------------------------------------------------------

    def named(self, operand: Operand, prefix: str = "t") -> Operand:
        """The operand under a name; equal text in sight shares it."""
        if operand.text.text.isidentifier():
            return operand
        kind = self.type_of(operand.dtype, operand.vector)
        known = self._lookup((kind, operand.text.text))
        if known is None:
            known = Text(self.names.fresh(prefix))
            self.lines.line(f"const {kind} {known} = {operand.text};")
            self._named[kind, operand.text.text] = known
        return Operand(known, operand.dtype, operand.vector)

    def let(self, name: str, operand: Operand) -> None:
        """Declares ``name`` for later statements."""
        self.lines.line(f"const {self.type_of(operand.dtype, operand.vector)} {name} = {operand.text};")
        self.results[name] = Operand(Text(name), operand.dtype, operand.vector)

    def forget_loads(self) -> None:
        """Memory has changed: what was read before a store must be read again."""
        self._named.clear()

    def _lookup(self, key: tuple[str, str]) -> Text | None:
        if key in self._named:
            return self._named[key]
        return self._parent._lookup(key) if self._parent is not None else None

    # -- spreading ----------------------------------------------------------------------------------------------------

    def spread(self, operand: Operand) -> Operand:
        """The operand as a vector."""
        if operand.vector:
            return operand
        kind = self.type_of(operand.dtype, True)
        function = "splat_mask" if operand.dtype == torch.bool else "splat"
        return Operand(Text(f"{function}<{kind}>({operand.text})"), operand.dtype, True)

    # -- the walk -----------------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Operand:
        """The text of ``expr``, after printing the statements that it needs."""
        uses, order = plan(expr)
        done: dict[int, Operand] = {}
        for node in order:
            operand = _PRINTERS[type(node)](self, node, done)
            # Under a name it is a statement of its own, outside of any ``?:`` that would skip it.
            if isinstance(node, Apply) and node.op in CHECKS:  # what is not chosen is checked, too
                operand = self.named(operand, "at")
            elif uses[id(node)] > 1 or len(operand.text.text) > LONGEST_INLINE:
                operand = self.named(operand)
            done[id(node)] = operand
        return done[id(expr)]

    # -- indices ------------------------------------------------------------------------------------------------------

    def index(self, index: Index, names: Mapping[Symbol, str] | None = None) -> Text:
        return index_text(index, cpp_dialect.INDEX_STYLE, names)

    def lane_index(self, index: Index, bound: Mapping[Symbol, Operand] | None = None) -> Text:
        """The index seen from inside a lambda over ``lane``."""
        names = {
            symbol: f"{value.text}[lane]" if value.vector else str(value.text)
            for symbol, value in (bound or {}).items()
        }
        if self.lanes is not None:
            # A lambda of ``each`` computes one lane after the other; what is a vector outside is indexed there.
            names[self.lanes.symbol] = f"({self.lanes.symbol.name} + lane)"
        return self.index(index, names)

    def stride(self, index: Index) -> Index | None:
        """The step of the index from lane to lane; 0 where it does not move, None where it is irregular."""
        # Of symbols that are read from tensors the caller asks ``bound``.
        if self.lanes is None or self.lanes.symbol not in index.symbols:
            return Index.of(0)
        return index.stride_of(self.lanes.symbol)

    def bind(
        self, bindings: tuple[tuple[Symbol, Expr], ...], done: Mapping[int, Operand] | None = None
    ) -> dict[Symbol, Operand]:
        """Names the integers that an index reads from tensors."""
        bound = {}
        for symbol, value in bindings:
            operand = done[id(value)] if done is not None else self.value(value)
            bound[symbol] = self.named(operand, "at")
        return bound


# -- nodes ------------------------------------------------------------------------------------------------------------


def _const(scope: Scope, node: Const, done: Mapping[int, Operand]) -> Operand:
    return Operand(literal(node.value, node.dtype), node.dtype)


def _index_value(scope: Scope, node: IndexValue, done: Mapping[int, Operand]) -> Operand:
    stride = scope.stride(node.index)
    # Does not move: one number, which stays a scalar.
    if stride is not None and not stride.terms:
        text = scope.index(node.index)
        kind = scalar_type(node.dtype)
        return Operand(text if node.dtype == torch.int64 else Text(f"{kind}({text})"), node.dtype)
    kind = scope.type_of(node.dtype, True)
    if stride is None:
        text = Text(f"each<{kind}>([&](i32 lane) {{ return {scope.lane_index(node.index)}; }})")
    else:
        text = Text(f"ramp<{kind}>({scope.index(node.index)}, {scope.index(stride)})")
    return Operand(text, node.dtype, True)


def _load(scope: Scope, node: Load, done: Mapping[int, Operand]) -> Operand:
    """A load: of one element for all lanes, of neighbours by one instruction, or lane by lane."""
    if node in scope.transposed:
        return scope.named(Operand(Text(scope.transposed[node]), node.dtype, True), "x")
    bound = scope.bind(node.bindings, done)
    stride = scope.stride(node.index)
    regular = not any(value.vector for value in bound.values())
    if regular and stride is not None and not stride.terms:
        text = scope.index(node.index, {symbol: str(value.text) for symbol, value in bound.items()})
        operand = Operand(Text(f"{node.buffer}[{text}]"), node.dtype)
    # Side by side, or every second one (complex numbers seen as pairs, halves of a last axis of two): instructions
    # exist.
    elif regular and (stride == 1 or (stride == 2 and node.dtype != torch.bool)):
        text = scope.index(node.index, {symbol: str(value.text) for symbol, value in bound.items()})
        place = f"{node.buffer} + {text.within(Precedence.ADD)}"
        operand = Operand(Text(_vector_load(scope, node.dtype, place, stride == 2)), node.dtype, True)
    else:
        operand = Operand(Text(_lane_load(scope, node, bound)), node.dtype, True)
    return scope.named(operand, "x")


def _vector_load(scope: Scope, dtype: torch.dtype, place: str, every_second: bool = False) -> str:
    function = "load_mask" if dtype == torch.bool else "load_every_second" if every_second else "load"
    kind = scope.type_of(dtype, True)
    if scope.mask is not None and scope.mask.vector:
        return f"{function}_where<{kind}>({scope.mask.text}, {place})"
    return f"{function}<{kind}>({place})"


def _lane_load(scope: Scope, node: Load, bound: Mapping[Symbol, Operand]) -> str:
    element = f"{node.buffer}[{scope.lane_index(node.index, bound)}]"
    if node.dtype == torch.bool:
        # A mask has all bits of a lane set where it is true, and -1 is that.
        element = f"-(i32){element}"
    kind = scope.type_of(node.dtype, True)
    if scope.mask is not None and scope.mask.vector:
        return f"each_where<{kind}>({scope.mask.text}, [&](i32 lane) {{ return {element}; }})"
    return f"each<{kind}>([&](i32 lane) {{ return {element}; }})"


def _result(scope: Scope, node: Result, done: Mapping[int, Operand]) -> Operand:
    return scope.results[f"{node.name}_{node.part}" if node.part else node.name]


def _masked(scope: Scope, node: Masked, done: Mapping[int, Operand]) -> Operand:
    """A masked value: a branch where the condition is one for all lanes, masked loads where it differs."""
    condition = scope.named(done[id(node.condition)], "inside")
    if condition.vector:
        return _masked_lanes(scope, node, condition)
    # The variable is declared before the branch, so its type has to be known before the body is printed.
    trial = _differs_between_lanes(scope, node.body)
    name = scope.names.fresh("t")
    other = _const(scope, node.other, done)
    # A condition that is one for all lanes is a branch: nothing of the body is computed where it does not hold.
    start = scope.spread(other) if trial else other
    scope.lines.line(f"{scope.type_of(node.dtype, trial)} {name} = {start.text};")
    with scope.lines.block(f"if ({condition.text}) {{", "}"):
        body = scope.inner().value(node.body)
        scope.lines.line(f"{name} = {(scope.spread(body) if trial else body).text};")
    return Operand(Text(name), node.dtype, trial)


def _masked_lanes(scope: Scope, node: Masked, condition: Operand) -> Operand:
    mask = condition
    if scope.mask is not None and scope.mask.vector:
        # Reads inside are allowed where the outer mask allows them, too; what is chosen depends on the inner one alone.
        both = cpp_dialect.format_of("and", "mask")(scope.mask.text, condition.text)
        mask = scope.named(Operand(both, torch.bool, True), "inside")
    body = scope.spread(scope.masked(mask).value(node.body))
    other = scope.spread(_const(scope, node.other, {}))
    return Operand(cpp_dialect.format_of("where", "any")(condition.text, body.text, other.text), node.dtype, True)


def _differs_between_lanes(scope: Scope, expr: Expr) -> bool:
    """True if the value differs from lane to lane."""
    if scope.lanes is None:
        return False
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load | IndexValue) and scope.lanes.symbol in node.index.symbols:
            return True
        # What was named before is a vector or not; an index shows it itself.
        if isinstance(node, Result) and _result(scope, node, {}).vector:
            return True
        stack.extend(children(node))
    return False


# -- operators --------------------------------------------------------------------------------------------------------


def _apply(scope: Scope, node: Apply, done: Mapping[int, Operand]) -> Operand:
    """An operator applied to printed operands, which are spread to vectors where its format needs that."""
    operands = [done[id(arg)] for arg in node.args]
    vector = any(operand.vector for operand in operands)
    special = _SPECIAL.get(node.op)
    if special is not None:
        return special(scope, node, operands, vector)
    # Positions are int64, of which a vector holds half as many as of 32 bits, and needs two comparisons.
    if vector and _compares_positions(node, operands):
        pairs = zip(node.args, operands, strict=True)
        operands = [_position(scope, arg) if fits_32_bits(arg) else _narrowed(operand) for arg, operand in pairs]
    kind = _kind(operands[-1].dtype, vector)
    style = cpp_dialect.format_of(node.op, kind)
    # Vector functions take vectors only; operators of gcc's vector types take a scalar beside a vector, of the same
    # dtype.
    if (vector and style.is_call) or (vector and operands[-1].dtype == torch.bool):
        operands = [scope.spread(operand) for operand in operands]
    elif vector and operands[-1].dtype in PROMOTED:
        # gcc takes a number computed in these for an int, which is too wide for a lane.
        pairs = zip(node.args, operands, strict=True)
        operands = [operand if isinstance(arg, Const) else scope.spread(operand) for arg, operand in pairs]
    elif vector and not any(operand.vector for operand in operands[-1:]) and len(operands) == 1:
        operands = [scope.spread(operands[0])]
    text = style(*(operand.text for operand in operands))
    # A comparison of vectors gives integers, which become the mask type.
    if node.dtype == torch.bool and operands[-1].dtype != torch.bool and vector:
        text = _comparison_mask(scope, text, operands[-1].dtype)
    # C computes small integers as int: back to their width, so that they wrap as torch's do.
    elif not vector and node.dtype in PROMOTED and not style.is_call:
        text = Text(f"{scalar_type(node.dtype)}({text})")
    return Operand(text, node.dtype, vector)


def _compares_positions(node: Apply, operands: list[Operand]) -> bool:
    """True for a comparison that vectors do in 32 bits: of positions that fit, with others or with a single number."""
    if node.dtype != torch.bool or any(arg.dtype != torch.int64 for arg in node.args):
        return False
    pairs = list(zip(node.args, operands, strict=True))
    return all(fits_32_bits(arg) or not operand.vector for arg, operand in pairs)


def _narrowed(operand: Operand) -> Operand:
    """A number as the nearest 32-bit integer, which compares with a position in the same way."""
    return Operand(Text(f"nearest_i32({operand.text})"), torch.int32)


def _position(scope: Scope, expr: Expr) -> Operand:
    """A position as a number of 32 bits, which it fits."""
    if isinstance(expr, Const):
        return Operand(Text(str(literal(expr.value, torch.int32))), torch.int32)
    assert isinstance(expr, IndexValue)
    return _index_value(scope, IndexValue(expr.index, torch.int32), {})


def _kind(dtype: torch.dtype, vector: bool) -> str:
    """The kind of operand in the dialect's table."""
    if dtype == torch.bool:
        return "mask" if vector else "bool"
    kind = "float" if dtype in FLOATS else "int"
    return f"vector {kind}" if vector else kind


def _comparison_mask(scope: Scope, text: Text, compared: torch.dtype) -> Text:
    """Comparisons give integers as wide as what was compared; masks are 32 bits wide."""
    if compared.itemsize == 4:
        return text
    return Text(f"to_mask<{scope.type_of(torch.bool, True)}>({text})")


def _where(scope: Scope, node: Apply, operands: list[Operand], vector: bool) -> Operand:
    condition, yes, no = operands
    if not vector:
        chosen = (operand.text.within(Precedence.LOGICAL) for operand in (condition, yes, no))
        return Operand(Text("{} ? {} : {}".format(*chosen), Precedence.CHOICE), node.dtype)
    # One truth for all lanes, though what is chosen differs.
    if not condition.vector:
        condition = scope.spread(condition)
    text = cpp_dialect.format_of("where", "any")(condition.text, scope.spread(yes).text, scope.spread(no).text)
    return Operand(text, node.dtype, True)


def _cast(scope: Scope, node: Apply, operands: list[Operand], vector: bool) -> Operand:
    # A position is made in 32 bits at once rather than in 64 and converted.
    if vector and node.dtype == torch.int32 and fits_32_bits(node.args[0]):
        return _position(scope, node.args[0])
    return cast_operand(scope, operands[0], node.dtype)


_THROUGH = {
    **{(source, dtype): torch.int32 for source in FLOATS for dtype in PROMOTED},
    **{(source, torch.uint32): torch.int64 for source in FLOATS},
    (torch.float64, torch.uint8): torch.int64,  # of single precision the low bits are the same by 32
}
"""The integer dtypes through which torch converts a float to another integer dtype: numbers that are negative or too
large are cut to their low bits."""


def cast_operand(scope: Scope, operand: Operand, dtype: torch.dtype) -> Operand:
    """The operand converted to ``dtype``, as torch converts."""
    source, vector = operand.dtype, operand.vector
    if source == dtype:
        return operand
    if source in HALVES:
        # Half precision has no arithmetic of its own: it goes by way of float32 in both directions.
        wide = f"from_{scalar_type(source)}<{scope.type_of(torch.float32, vector)}>({operand.text})"
        return cast_operand(scope, Operand(Text(wide), torch.float32, vector), dtype)
    if dtype in HALVES:
        single = cast_operand(scope, operand, torch.float32)
        kind = scope.type_of(dtype, vector)
        return Operand(Text(f"to_{scalar_type(dtype)}<{kind}>({single.text})"), dtype, vector)
    if dtype == torch.bool:
        zero = "0"
        text = Text(f"{operand.text.within(Precedence.SHIFT)} != {zero}", Precedence.EQUAL)
        return Operand(_comparison_mask(scope, text, source) if vector else text, dtype, vector)
    if (through := _THROUGH.get((source, dtype))) is not None:
        return cast_operand(scope, cast_operand(scope, operand, through), dtype)
    if source in FLOATS and dtype == torch.uint64:
        return Operand(Text(f"to_u64({operand.text})"), dtype, vector)
    if source in FLOATS and dtype not in FLOATS:
        return Operand(Text(f"to_integer<{scope.type_of(dtype, vector)}>({operand.text})"), dtype, vector)
    if not vector:
        kind = scalar_type(dtype)
        made = f"to_float<{kind}>" if dtype in FLOATS and source not in FLOATS else kind
        return Operand(Text(f"{made}({operand.text})"), dtype)
    # A mask's lanes are -1 and 0; numbers are 1 and 0.
    if source == torch.bool:
        return Operand(
            Text(f"convert<{scope.type_of(dtype, True)}>({operand.text.within(Precedence.UNARY)} & 1)"), dtype, True
        )
    return Operand(Text(f"convert<{scope.type_of(dtype, True)}>({operand.text})"), dtype, True)


def _bitcast(scope: Scope, node: Apply, operands: list[Operand], vector: bool) -> Operand:
    return Operand(Text(f"bits_as<{scope.type_of(node.dtype, vector)}>({operands[0].text})"), node.dtype, vector)


def _rounded(scope: Scope, node: Apply, operands: list[Operand], vector: bool) -> Operand:
    assert node.param is not None
    return Operand(Text(f"round_{scalar_type(node.param)}({operands[0].text})"), node.dtype, vector)


def _random(scope: Scope, node: Apply, operands: list[Operand], vector: bool) -> Operand:
    style = cpp_dialect.random_format(node.op, scalar_type(node.dtype))
    if not vector:
        return Operand(style(*(operand.text for operand in operands)), node.dtype)
    # Named outside of the lambda, which would compute them again for each lane.
    operands = [scope.named(operand) for operand in operands]
    lanes = [Text(f"{operand.text}[lane]") if operand.vector else operand.text for operand in operands]
    text = style(*lanes)
    kind = scope.type_of(node.dtype, True)
    return Operand(Text(f"each<{kind}>([&](i32 lane) {{ return {text}; }})"), node.dtype, True)


_SPECIAL: Mapping[str, Callable[[Scope, Apply, list[Operand], bool], Operand]] = {
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "rounded": _rounded,
    **dict.fromkeys(cpp_dialect.RANDOM, _random),
}

_PRINTERS: Mapping[type, Callable[..., Operand]] = {
    Const: _const,
    IndexValue: _index_value,
    Load: _load,
    Apply: _apply,
    Masked: _masked,
    Result: _result,
}
