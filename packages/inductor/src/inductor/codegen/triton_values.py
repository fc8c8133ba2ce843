"""Expression trees as Triton: every value is a block, and broadcasting does the work of C++'s lanes.

A value's text may be put where it is used, or get a name: with several users, or longer than LONGEST_INLINE.  Two
texts that are the same are the same value, as long as no store is in between; that is how a load is done once
(``named``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from inductor.codegen import triton_dialect
from inductor.codegen.expressions import Precedence, Text, index_text
from inductor.codegen.order import plan
from inductor.codegen.printer import Lines, Names
from inductor.deps import expressions
from inductor.ir.expr import CHECKS, Apply, Const, Expr, IndexValue, Load, Masked, Result, children, rewrite
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Statement

LONGEST_INLINE = 72


@dataclass(frozen=True, slots=True)
class Block:
    """A printed value; ``read`` is the buffer that it is an element of."""

    text: Text
    dtype: torch.dtype
    constant: bool = False
    read: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The meaning of indices in a block: the axes that have one flat position, and the dimension that each symbol moves
    along.  ``numbers`` are the arguments passed by value."""

    flats: tuple[tuple[tuple[Symbol, ...], Symbol], ...]
    dimensions: Mapping[Symbol, str]
    numbers: frozenset[str] = frozenset()

    def flattened(self, index: Index) -> Index:
        """The index by flat positions where it walks a tile's axes as one: the compiler sees what lies side by side."""
        for axes, flat in self.flats:
            if _walks_as_one(index, axes):
                # All but the last to 0 and that one to the flat position: ``i0 * 64 + i1`` becomes ``x_index``.
                index = index.subs({**dict.fromkeys(axes[:-1], 0), axes[-1]: Index.of(flat)})
        return index


def _walks_as_one(index: Index, axes: Sequence[Symbol]) -> bool:
    """True if the index walks the axes in row-major order without gaps."""
    if len(axes) < 2:
        return bool(axes)
    strides = [index.stride_of(axis) for axis in axes]
    # A stride of 0 or none: the index does not move along that axis, or not evenly.
    if any(stride is None or not stride.terms for stride in strides):
        return False
    # Row-major without gaps: each stride is the next one times its size, as in ``i0 * 64 + i1`` with 64 elements along
    # i1.
    return all(
        axis.size is not None and outer == inner * axis.size
        for outer, inner, axis in zip(strides, strides[1:], axes[1:], strict=False)
        if outer is not None and inner is not None
    )


@dataclass(frozen=True, slots=True)
class Inside:
    """The elements of a block that exist: the conditions by dimension, and all together (None: every one exists).
    Where values decide too, the whole is ``narrowed``."""

    conditions: Mapping[str, str]
    whole: str | None
    narrowed: bool = False

    def along(self, dimensions: set[str]) -> str | None:
        """The condition for what moves along some dimensions only."""
        # A load that does not move along a dimension is not masked by it: its block stays smaller.  After ``narrowed``
        # the mask is one condition on data, which no dimension says.
        wanted = [condition for dimension, condition in self.conditions.items() if dimension in dimensions]
        if self.narrowed or len(wanted) == len(self.conditions):
            return self.whole
        return " & ".join(wanted) or None


class BlockScope:
    """The place where values are printed: a suite of statements, the names in it, and the elements that may be read."""

    def __init__(self, lines: Lines, names: Names, grid: Grid, inside: Inside, results: dict[str, Block]) -> None:
        self.lines = lines
        self.names = names
        self.grid = grid
        self.inside = inside
        self.results = results
        self._named: dict[str, Block] = {}

    def narrowed(self, mask: str) -> BlockScope:
        """The scope of what is computed only where ``mask`` holds, which implies the scope's own."""
        # Names are not handed on: what is loaded under the narrower mask is not there for who reads under the wider
        # one.
        inside = Inside(self.inside.conditions, mask, narrowed=True)
        return BlockScope(self.lines, self.names, self.grid, inside, dict(self.results))

    def named(self, block: Block, prefix: str = "t") -> Block:
        # A name already.
        if block.text.text.isidentifier():
            return block
        known = self._named.get(block.text.text)
        if known is None:
            known = Block(Text(self.names.fresh(prefix)), block.dtype, read=block.read)
            self.lines.line(f"{known.text} = {block.text}")
            self._named[block.text.text] = known
        # ``read`` stays with the entry, where ``forget_loads`` looks for it.
        return Block(known.text, block.dtype)

    def let(self, name: str, block: Block) -> None:
        self.lines.line(f"{name} = {block.text}")
        self.results[name] = Block(Text(name), block.dtype)

    def forget_loads(self, buffer: str | None = None) -> None:
        """Has values of the buffer loaded again after a store; those of all buffers where positions have changed."""
        kept = {} if buffer is None else {t: named for t, named in self._named.items() if named.read != buffer}
        self._named = kept

    def read_ahead(self, statements: Iterable[Statement]) -> None:
        """Prints all loads of the statements before any of them runs: the compiler, which does not know that buffers
        are apart, would move none before a store."""
        for statement in statements:
            for expr in expressions(statement):
                for load in _plain_loads(expr):
                    self.value(load)

    def index(self, index: Index, names: Mapping[Symbol, str] | None = None) -> Text:
        return index_text(self.grid.flattened(index), triton_dialect.INDEX_STYLE, names)

    def bind(
        self, bindings: tuple[tuple[Symbol, Expr], ...], done: Mapping[int, Block] | None = None
    ) -> dict[Symbol, str]:
        return {
            symbol: str(self.named(done[id(value)] if done is not None else self.value(value), "at").text)
            for symbol, value in bindings
        }

    def value(self, expr: Expr) -> Block:
        """Prints what ``expr`` needs and returns its text."""
        # ``order`` puts operands before what uses them; ``uses`` counts.
        uses, order = plan(expr)
        # Looked for only where there is one: rewriting walks the whole tree.
        if any(isinstance(node, Apply) and node.op == "erf" for node in order):
            expr = rewrite(expr, _as_one_operator)
            uses, order = plan(expr)
        done: dict[int, Block] = {}
        for node in order:
            block = _PRINTERS[type(node)](self, node, done)
            if uses[id(node)] > 1 or len(block.text.text) > LONGEST_INLINE:
                block = self.named(block)
            done[id(node)] = block
        return done[id(expr)]


def _as_one_operator(node: Expr) -> Expr | None:
    """One fast operator in the place of several: ``erf(x) + 1``, of which only the sum is used, also within ``a *
    erf(x) + a``."""
    if not isinstance(node, Apply) or node.dtype != torch.float32:
        return None
    if node.op == "add" and _is_erf(node.args[0]) and node.args[1] == Const(1.0, torch.float32):
        return Apply("erf_and_one", children(node.args[0]), node.dtype)
    if node.op == "fma" and _is_erf(node.args[1]) and node.args[0] == node.args[2]:
        return Apply("mul", (node.args[0], Apply("erf_and_one", children(node.args[1]), node.dtype)), node.dtype)
    return None


def _is_erf(node: Expr) -> bool:
    return isinstance(node, Apply) and node.op == "erf"


def _plain_loads(expr: Expr) -> Iterator[Load]:
    """The loads that an expression makes whatever its values are, at positions that come from no tensor."""
    stack, seen = [expr], set[int]()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            if not node.bindings:
                yield node
        else:
            # Of something masked only the condition is read for sure.
            stack.extend(reversed(children(node)[:1] if isinstance(node, Masked) else children(node)))


def _const(scope: BlockScope, node: Const, done: Mapping[int, Block]) -> Block:
    return Block(triton_dialect.literal(node.value, node.dtype), node.dtype, True)


def _index_value(scope: BlockScope, node: IndexValue, done: Mapping[int, Block]) -> Block:
    text = scope.index(node.index)
    # A plain number, which takes the dtype of what it meets.
    if not node.index.symbols:
        return Block(text, node.dtype, True)
    return Block(Text(f"({text}).to({triton_dialect.DTYPES[node.dtype]})"), node.dtype)


def _load(scope: BlockScope, node: Load, done: Mapping[int, Block]) -> Block:
    # A number that is given by its value.
    if node.buffer in scope.grid.numbers:
        return Block(Text(node.buffer), node.dtype)
    # Masked off whole, a load is still an address to compute.
    if "r" in scope.inside.conditions and any(symbol.size == 0 for symbol in scope.grid.dimensions):
        zero = False if node.dtype == torch.bool else 0.0 if node.dtype.is_floating_point else 0
        return _const(scope, Const(zero, node.dtype), done)  # a row without elements: there may be no memory behind it
    place = scope.index(node.index, scope.bind(node.bindings, done))
    # Places read from tensors may differ for all elements, so that the whole mask counts.
    met = {scope.grid.dimensions[symbol] for symbol in node.index.symbols if symbol in scope.grid.dimensions}
    mask = scope.inside.whole if node.bindings else scope.inside.along(met)
    text = f"{node.buffer} + {place.within(Precedence.ADD)}"
    if mask is not None:
        text += f", {mask}" if met else f" + 0 * x_index, {mask}"  # a mask is a block, so its pointer must be one
    return scope.named(Block(Text(f"tl.load({text})"), node.dtype, read=node.buffer), "x")


def _result(scope: BlockScope, node: Result, done: Mapping[int, Block]) -> Block:
    return scope.results[f"{node.name}_{node.part}" if node.part else node.name]


def _masked(scope: BlockScope, node: Masked, done: Mapping[int, Block]) -> Block:
    condition = scope.named(done[id(node.condition)], "inside")
    mask = str(condition.text)
    if (whole := scope.inside.whole) is not None:
        mask = str(scope.named(Block(Text(f"{whole} & {mask}", Precedence.AND), torch.bool), "inside").text)
    body = scope.narrowed(mask).value(node.body)
    other = _const(scope, node.other, done)
    return Block(_typed_where(condition, body, other, node.dtype), node.dtype)


def _apply(scope: BlockScope, node: Apply, done: Mapping[int, Block]) -> Block:
    operands = [done[id(arg)] for arg in node.args]
    special = _SPECIAL.get(node.op)
    if special is not None:
        return Block(special(node, operands), node.dtype)
    style = triton_dialect.format_of(node.op, operands[-1].dtype)
    # Functions of ours want blocks with a dtype; signs of Triton's take plain numbers.
    if style.is_call:
        operands = [_as_block(operand) for operand in operands]
    texts = [operand.text for operand in operands]
    if node.op in CHECKS:
        texts.append(Text(scope.inside.whole or "True"))  # elements that are not there have no position
    text = style(*texts)
    constant = all(operand.constant for operand in operands)
    if node.op in ("rand", "randn", "randint64"):
        text = Text(f"{text}.to({triton_dialect.DTYPES[node.dtype]})")
    return Block(text, node.dtype, constant and not style.is_call)


def _as_block(operand: Block) -> Block:
    """A constant as something that functions take: they ask for its dtype."""
    if not operand.constant:
        return operand
    return Block(Text(f"tl.full([], {operand.text}, {triton_dialect.DTYPES[operand.dtype]})"), operand.dtype)


def _typed_where(condition: Block, yes: Block, no: Block, dtype: torch.dtype) -> Text:
    text = triton_dialect.format_of("where", dtype)(condition.text, yes.text, no.text)
    if yes.constant and no.constant:
        return Text(f"{text}.to({triton_dialect.DTYPES[dtype]})")
    return text


def _where(node: Apply, operands: list[Block]) -> Text:
    return _typed_where(operands[0], operands[1], operands[2], node.dtype)


def _cast(node: Apply, operands: list[Block]) -> Text:
    return cast_block(operands[0], node.dtype).text


def cast_block(operand: Block, dtype: torch.dtype) -> Block:
    """The operand converted, as torch converts."""
    if operand.dtype == dtype:
        return operand
    operand = _as_block(operand)
    if dtype == torch.bool:
        return Block(Text(f"{operand.text.within(Precedence.ADD)} != 0", Precedence.OR), dtype)
    text = operand.text.within(Precedence.ATOM)
    if dtype == torch.bfloat16 and operand.dtype != torch.float32:
        text = f"{text}.to(tl.float32)"  # the only way to it
    if operand.dtype.is_floating_point and dtype in (torch.uint8, torch.int8, torch.int16):
        # Floats get to fewer bits by way of 32, of which the lowest are left.
        text = f"{text}.to(tl.int32)"
    return Block(Text(f"{text}.to({triton_dialect.DTYPES[dtype]})"), dtype)


def _bitcast(node: Apply, operands: list[Block]) -> Text:
    operand = _as_block(operands[0])
    return Text(f"{operand.text.within(Precedence.ATOM)}.to({triton_dialect.DTYPES[node.dtype]}, bitcast=True)")


def _rounded(node: Apply, operands: list[Block]) -> Text:
    assert node.param is not None
    text = _as_block(operands[0]).text.within(Precedence.ATOM)
    return Text(f"{text}.to({triton_dialect.DTYPES[node.param]}).to({triton_dialect.DTYPES[node.dtype]})")


_SPECIAL: Mapping[str, Callable[[Apply, list[Block]], Text]] = {
    "where": _where,
    "cast": _cast,
    "bitcast": _bitcast,
    "rounded": _rounded,
}

_PRINTERS: Mapping[type, Callable[..., Block]] = {
    Const: _const,
    IndexValue: _index_value,
    Load: _load,
    Apply: _apply,
    Masked: _masked,
    Result: _result,
}
