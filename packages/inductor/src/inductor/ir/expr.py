"""Expression trees: one element of a tensor as data.

A tree is built by lowerings and walked by whoever needs to know something: which buffers are read and where, what the
dtype is, how it prints.  Nodes are frozen and equal by structure, so sharing a subexpression is finding an equal node.
Formulas use what they were given more than once, so a tree is a graph in memory: hashes are kept, and comparing looks
at every pair of nodes once, or ``x * x`` repeated would take exponential time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from inductor.ir.index import Index, Symbol
from inductor.ir.ops import OPERATORS


@dataclass(frozen=True, slots=True)
class Const:
    """A number of the given dtype."""

    value: float | int | bool
    dtype: torch.dtype

    def __eq__(self, other: object) -> bool:
        # repr tells 0.0 from -0.0 and 1 from True, and finds NaN equal to itself.
        return isinstance(other, Const) and self.dtype == other.dtype and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))


@dataclass(frozen=True, slots=True)
class IndexValue:
    """An index as a value, for ``arange`` and positions."""

    index: Index
    dtype: torch.dtype


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """One element of a buffer, in the buffer's dtype. ``bindings`` give the values of symbols that are read from
    tensors (gathers): each is an integer expression, already wrapped and checked by the lowering."""

    buffer: str
    index: Index
    dtype: torch.dtype
    bindings: tuple[tuple[Symbol, Expr], ...] = ()
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Kept once, as for the other inner nodes: hashing a tree anew at every comparison would walk all of it.
        object.__setattr__(self, "_hash", hash((self.buffer, self.index, self.dtype, self.bindings)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Load) and _same(self, other))


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """An operator of the table on operands.  ``param`` is the half dtype of ``rounded`` and None elsewhere."""

    op: str
    args: tuple[Expr, ...]
    dtype: torch.dtype
    param: torch.dtype | None = None
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args, self.dtype, self.param)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Apply) and _same(self, other))


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """``body`` where ``condition`` holds, else ``other``; loads of the body happen only where it holds."""

    condition: Expr
    body: Expr
    other: Const
    dtype: torch.dtype
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.condition, self.body, self.other)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Masked) and _same(self, other))


@dataclass(frozen=True, slots=True)
class Result:
    """The value that a ``Let``, ``Scan`` or ``Reduce`` earlier in the same kernel has named; ``part`` is "", or mean,
    m2 or weight of a welford reduction."""

    name: str
    dtype: torch.dtype
    part: str = ""


Expr: TypeAlias = Const | IndexValue | Load | Apply | Masked | Result


def _same(left: Expr, right: Expr) -> bool:
    """True for equal trees; every pair of nodes is looked at once."""
    stack, seen = [(left, right)], set[tuple[int, int]]()
    while stack:
        a, b = stack.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        # A pair met again is under comparison or known to be equal: any difference has returned already.
        seen.add((id(a), id(b)))
        if hash(a) != hash(b) or not _same_node(a, b):
            return False
        stack.extend(zip(children(a), children(b), strict=True))
    return True


def _same_node(a: Expr, b: Expr) -> bool:
    """True for nodes that are equal apart from those below."""
    if isinstance(a, Apply) and isinstance(b, Apply):
        return (a.op, a.dtype, a.param, len(a.args)) == (b.op, b.dtype, b.param, len(b.args))
    if isinstance(a, Masked) and isinstance(b, Masked):
        return a.other == b.other
    if isinstance(a, Load) and isinstance(b, Load):
        places = [symbol for symbol, _ in a.bindings] == [symbol for symbol, _ in b.bindings]
        return places and (a.buffer, a.index, a.dtype) == (b.buffer, b.index, b.dtype)
    return not isinstance(a, Apply | Masked | Load) and a == b


def apply(op: str, *args: Expr, dtype: torch.dtype | None = None) -> Expr:
    """An operator node whose dtype follows from the table."""
    operator = OPERATORS[op]
    if len(args) != operator.arity:
        raise ValueError(f"{op} takes {operator.arity} operands, not {len(args)}")
    if operator.result == "bool":
        return Apply(op, args, torch.bool)
    if operator.result == "given":
        if dtype is None:
            raise ValueError(f"{op} needs a dtype")
        return Apply(op, args, dtype)
    # The last operand, as the first of ``where`` is its condition.
    return Apply(op, args, args[-1].dtype)


def cast(value: Expr, dtype: torch.dtype) -> Expr:
    """``value`` in ``dtype``, or itself where it has it already."""
    return value if value.dtype == dtype else Apply("cast", (value,), dtype)


# -- walks ------------------------------------------------------------------------------------------------------------


def children(expr: Expr) -> tuple[Expr, ...]:
    """The nodes directly below."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Masked):
        return expr.condition, expr.body
    if isinstance(expr, Load):
        return tuple(value for _, value in expr.bindings)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node once, operands before users."""
    found: list[Expr] = []
    _collect(expr, found, set())
    return iter(found)


def _collect(node: Expr, found: list[Expr], seen: set[int]) -> None:
    """Collects the nodes of a tree by recursion, the fastest walk Python has; trees are kept shallow by those who build
    them."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Apply):
        for arg in node.args:
            _collect(arg, found, seen)
    elif isinstance(node, Masked):
        _collect(node.condition, found, seen)
        _collect(node.body, found, seen)
    elif isinstance(node, Load):
        for _, value in node.bindings:
            _collect(value, found, seen)
    found.append(node)


def loads(expr: Expr) -> Iterator[Load]:
    """Every element read."""
    return (node for node in walk(expr) if isinstance(node, Load))


CHECKS = ("wrapped", "within")
"""Operators that may raise."""


def has_checks(value: Expr) -> bool:
    """True if computing the value may raise: it mentions a position that is checked against its axis."""
    return any(isinstance(node, Apply) and node.op in CHECKS for node in walk(value))


def fits_32_bits(expr: Expr) -> bool:
    """True for a position or a number that is known to fit into 32 bits, so that it can be computed in them."""
    if isinstance(expr, Const):
        return expr.dtype == torch.int64 and abs(int(expr.value)) < 1 << 31
    if not isinstance(expr, IndexValue):
        return False
    low, high = expr.index.bounds
    return low is not None and high is not None and low > -(1 << 31) and high < 1 << 31


def rewrite(expr: Expr, rule: Callable[[Expr], Expr | None]) -> Expr:
    """The tree with ``rule`` applied to every node from the leaves up; None keeps the node."""
    return rewritten(expr, rule)[id(expr)]


def rewritten(expr: Expr, rule: Callable[[Expr], Expr | None]) -> dict[int, Expr]:
    """Every node of the tree as ``rewrite`` by the rule makes it, by the ``id`` of the node it was."""
    memo: dict[int, Expr] = {}
    for node in walk(expr):
        rebuilt = _with_children(node, memo)
        replaced = rule(rebuilt)
        memo[id(node)] = rebuilt if replaced is None else replaced
    return memo


def substitute(expr: Expr, replacements: Mapping[Symbol, Index | int]) -> Expr:
    """The tree with loop variables replaced in every index."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(node.buffer, node.index.subs(replacements), node.dtype, node.bindings)
        if isinstance(node, IndexValue):
            return IndexValue(node.index.subs(replacements), node.dtype)
        return None

    return rewrite(expr, rule)


def _with_children(node: Expr, memo: Mapping[int, Expr]) -> Expr:
    """The node with its children replaced by those in ``memo``; the same object where none has changed, which keeps
    shared subtrees shared."""
    if isinstance(node, Apply):
        args = tuple(memo[id(arg)] for arg in node.args)
        unchanged = all(map(operator.is_, args, node.args))
        return node if unchanged else Apply(node.op, args, node.dtype, node.param)
    if isinstance(node, Masked):
        return Masked(memo[id(node.condition)], memo[id(node.body)], node.other, node.dtype)
    if isinstance(node, Load) and node.bindings:
        bindings = tuple((symbol, memo[id(value)]) for symbol, value in node.bindings)
        return Load(node.buffer, node.index, node.dtype, bindings)
    return node
