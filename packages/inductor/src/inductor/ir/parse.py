"""Kernels read back from the text that ``ir/show.py`` writes.  Tests say what goes in and what comes out as text.

The text has Python's syntax, so Python's parser does the reading and this module only gives it meaning.

A reader goes through the text once, in order, and keeps what names stand for: a size is known before the buffers whose
``numel`` mentions it, an axis before the indices in its loop, a value before who reads it.  What it does not
understand is a ``ParseError`` with the line.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from typing import Literal, cast

import torch

from inductor.errors import ParseError
from inductor.ir.expr import Apply, Const, Expr, IndexValue, Load, Masked, Result, apply
from inductor.ir.index import ONE, ZERO, Index, Symbol, loop_variable, size_symbol
from inductor.ir.kernel import Argument, Kernel, Let, Loop, Reduce, Scan, Statement, Store, StoreMode
from inductor.ir.ops import OPERATORS, REDUCTIONS, SCANS
from inductor.ir.show import INFIX, ROLES, SPELLED, TYPED

_BINARY: dict[type, str] = {
    ast.BitOr: "or", ast.BitXor: "xor", ast.BitAnd: "and", ast.LShift: "shl", ast.RShift: "shr", ast.Add: "add",
    ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
}  # fmt: skip
_COMPARE: dict[type, str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
_UNSPELLED = {text: name for name, text in SPELLED.items()}
"""The names of operators that Python's grammar keeps for itself, from the way they are written."""
_ROLE_OF = {text: role for role, text in ROLES.items()}
"""The roles of arguments, from the way they are written."""
assert set(_BINARY.values()) | set(_COMPARE.values()) == set(INFIX)


def parse_kernel(text: str) -> Kernel:
    """The kernel that a text describes; raises ``ParseError`` for a text that ``ir/show.py`` would not write."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ParseError(f"line {error.lineno}: {error.msg}") from error
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ParseError("expected one `def name(...) -> device:`")
    return _Reader().kernel(tree.body[0])


@dataclass
class _Reader:
    """One kernel being read.  ``symbols`` are sizes and axes by name, ``buffers`` the dtypes of arguments,
    ``values`` those of what statements have named so far."""

    symbols: dict[str, Symbol] = field(default_factory=dict)
    buffers: dict[str, torch.dtype] = field(default_factory=dict)
    values: dict[str, torch.dtype] = field(default_factory=dict)

    # -- structure ----------------------------------------------------------------------------------------------------

    def kernel(self, node: ast.FunctionDef) -> Kernel:
        for argument in node.args.args:
            note = argument.annotation
            if isinstance(note, ast.Subscript) and ast.unparse(note.value) == "size":
                self.symbols[argument.arg] = size_symbol(argument.arg, ast.literal_eval(note.slice))
        # Sizes first, wherever they stand in the list: arguments mention them.
        sizes = tuple(self.symbols.values())
        arguments = [self.argument(argument) for argument in node.args.args if argument.arg not in self.symbols]
        device = cast(Literal["cpu", "cuda"], ast.unparse(node.returns) if node.returns else "cpu")
        # Each member has names of its own.
        members = tuple(_Reader().kernel(inner) for inner in node.body if isinstance(inner, ast.FunctionDef))
        if members:
            return Kernel(node.name, device, (), (), tuple(arguments), sizes, members=members)
        axes: list[Symbol] = []
        once, body = self.once(node.body)
        # Nested loops over plain sizes are the axes; a loop over a call, ``for r in reduce(64)``, is a pass of a
        # reduction.
        while len(body) == 1 and isinstance(body[0], ast.For) and not _is_reduce(body[0]):
            axes.append(self.axis(body[0].target, body[0].iter))
            body = body[0].body
        return Kernel(node.name, device, tuple(axes), self.loops(body), tuple(arguments), sizes, once=once)

    def once(self, body: list[ast.stmt]) -> tuple[tuple[Let, ...], list[ast.stmt]]:
        """The values computed before the loop over the first axis, and the remaining statements."""
        if len(body) < 2 or not isinstance(body[-1], ast.For) or _is_reduce(body[-1]):
            return (), body
        lets = [self.statement(line) for line in body[:-1]]
        return tuple(let for let in lets if isinstance(let, Let)), body[-1:]

    def argument(self, node: ast.arg) -> Argument:
        note = node.annotation
        if isinstance(note, ast.Subscript) and ast.unparse(note.value) == "number":
            self.buffers[node.arg] = _dtype(note.slice)
            return Argument(node.arg, self.buffers[node.arg], ONE, "in", number=True)
        if not isinstance(note, ast.Subscript) or not isinstance(note.slice, ast.Tuple):
            raise ParseError(f"argument {node.arg}: expected role[dtype, numel]")
        role = cast(Literal["in", "out", "inout"], _ROLE_OF[ast.unparse(note.value)])
        dtype, numel = note.slice.elts
        self.buffers[node.arg] = _dtype(dtype)
        return Argument(node.arg, self.buffers[node.arg], self.index(numel), role)

    def axis(self, target: ast.expr, size: ast.expr) -> Symbol:
        name = ast.unparse(target)
        self.symbols[name] = loop_variable(name, self.index(size))
        return self.symbols[name]

    def loops(self, body: list[ast.stmt]) -> tuple[Loop, ...]:
        loops: list[Loop] = []
        once: list[Statement] = []
        for node in body:
            if not isinstance(node, ast.For):
                once.append(self.statement(node))
                continue
            # Statements between two passes are a loop without axes: they run once per row, in their place.
            if once:
                loops.append(Loop((), tuple(once)))
                once = []
            loops.append(self.reduction(node))
        return (*loops, Loop((), tuple(once))) if once else tuple(loops)

    def reduction(self, node: ast.For) -> Loop:
        assert isinstance(node.iter, ast.Call)
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        axes = tuple(self.axis(name, size) for name, size in zip(names, node.iter.args, strict=True))
        return Loop(axes, tuple(self.statement(line) for line in node.body))

    def statement(self, node: ast.stmt) -> Statement:
        if isinstance(node, ast.If):
            inner = self.statement(node.body[0])
            assert isinstance(inner, Store)
            mask = self.expr(node.test)
            return Store(inner.buffer, inner.index, inner.value, inner.mode, inner.bindings, mask)
        # ``out[i] += x`` adds, ``*=`` multiplies; the larger and the smaller have no sign and are calls (``combined``).
        if isinstance(node, ast.AugAssign):
            return self.store(node.target, node.value, "mul" if isinstance(node.op, ast.Mult) else "add")
        if not isinstance(node, ast.Assign):
            raise ParseError(f"line {node.lineno}: expected an assignment")
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return self.combined(target, node.value) or self.store(target, node.value, "set")
        name, value = ast.unparse(target), node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) in REDUCTIONS:
            reduced = Reduce(name, ast.unparse(value.func), self.expr(value.args[0]), _dtype(value.args[1]))
            self.values[name] = reduced.dtype
            return reduced
        if isinstance(value, ast.Call) and (kind := ast.unparse(value.func).removeprefix("scan_")) in SCANS:
            scan = Scan(name, kind, self.expr(value.args[0]), _dtype(value.args[1]))
            self.values[name] = scan.dtype
            return scan
        let = Let(name, self.expr(value))
        self.values[name] = let.value.dtype
        return let

    def combined(self, target: ast.Subscript, value: ast.expr) -> Store | None:
        """A store of the larger or smaller of what is there, ``_``, and a value."""
        if isinstance(value, ast.Call) and value.args and ast.unparse(value.args[0]) == "_":
            return self.store(target, value.args[1], "max" if ast.unparse(value.func) == "maximum" else "min")
        return None

    def store(self, target: ast.expr, value: ast.expr, mode: StoreMode) -> Store:
        assert isinstance(target, ast.Subscript)
        index, bindings = self.place(target.slice)
        return Store(ast.unparse(target.value), index, self.expr(value), mode, bindings)

    # -- expressions --------------------------------------------------------------------------------------------------

    def place(self, node: ast.expr) -> tuple[Index, tuple[tuple[Symbol, Expr], ...]]:
        """The index of a subscript and its bindings: ``x[i0 + p0, p0(10, within(j[i0], 10))]`` is the index ``i0 + p0``
        with p0 on an axis of 10, bound to the expression."""
        if not isinstance(node, ast.Tuple):
            return self.index(node), ()
        bindings = []
        for item in node.elts[1:]:
            assert isinstance(item, ast.Call)
            symbol = self.axis(item.func, item.args[0])
            bindings.append((symbol, self.expr(item.args[1])))
        return self.index(node.elts[0]), tuple(bindings)

    def index(self, node: ast.expr) -> Index:
        if isinstance(node, ast.Constant):
            return Index.of(int(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            if node.id not in self.symbols:
                raise ParseError(f"line {node.lineno}: {node.id} is no axis and no size")
            return Index.of(self.symbols[node.id])
        if isinstance(node, ast.UnaryOp):
            return ZERO - self.index(node.operand)
        if not isinstance(node, ast.BinOp):
            raise ParseError(f"line {node.lineno}: {ast.unparse(node)} is no index")
        left, right = self.index(node.left), self.index(node.right)
        match _BINARY[type(node.op)]:
            case "add":
                return left + right
            case "sub":
                return left - right
            case "mul":
                return left * right
            case "floordiv":
                return left // right
            case "mod":
                return left % right
        raise ParseError(f"line {node.lineno}: {ast.unparse(node)} is no index")

    def expr(self, node: ast.expr) -> Expr:
        # A sign is part of a number: the operator neg is written as a call.
        if isinstance(node, ast.Constant | ast.UnaryOp) or ast.unparse(node) in ("inf", "nan"):
            return _number(node, None)
        if isinstance(node, ast.Name):
            return Result(node.id, self.value_dtype(node))
        if isinstance(node, ast.Attribute):
            return Result(ast.unparse(node.value), self.value_dtype(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            buffer = ast.unparse(node.value)
            index, bindings = self.place(node.slice)
            return Load(buffer, index, self.buffers[buffer], bindings)
        if isinstance(node, ast.BinOp):
            return apply(_BINARY[type(node.op)], self.expr(node.left), self.expr(node.right))
        if isinstance(node, ast.Compare):
            return apply(_COMPARE[type(node.ops[0])], self.expr(node.left), self.expr(node.comparators[0]))
        if isinstance(node, ast.Call):
            return self.call(node)
        raise ParseError(f"line {node.lineno}: {ast.unparse(node)} is no expression")

    def value_dtype(self, node: ast.expr) -> torch.dtype:
        name = ast.unparse(node)
        if name not in self.values:
            raise ParseError(f"line {node.lineno}: {name} is read before it is defined")
        return self.values[name]

    def call(self, node: ast.Call) -> Expr:
        name = ast.unparse(node.func)
        if isinstance(getattr(torch, name, None), torch.dtype):
            return _number(node.args[0], getattr(torch, name))
        if name == "index":
            dtype = _dtype(node.args[1]) if len(node.args) > 1 else torch.int64
            return IndexValue(self.index(node.args[0]), dtype)
        if name == "masked":
            condition, body, other = (self.expr(arg) for arg in node.args)
            assert isinstance(other, Const)
            return Masked(condition, body, other, body.dtype)
        op = _UNSPELLED.get(name, name)
        if op not in OPERATORS:
            raise ParseError(f"line {node.lineno}: no operator {name}")
        arity = OPERATORS[op].arity
        # Behind its operands an operator whose dtype the node gives has it as one more argument.
        args = [self.expr(arg) for arg in node.args[:arity]]
        if op == "rounded":
            return Apply(op, tuple(args), args[0].dtype, _dtype(node.args[1]))
        return apply(op, *args, dtype=_dtype(node.args[arity]) if op in TYPED else None)


def _is_reduce(node: ast.For) -> bool:
    return isinstance(node.iter, ast.Call)


def _dtype(node: ast.expr) -> torch.dtype:
    dtype = getattr(torch, ast.unparse(node), None)
    if not isinstance(dtype, torch.dtype):
        raise ParseError(f"line {node.lineno}: {ast.unparse(node)} is no dtype")
    return dtype


def _number(node: ast.expr, dtype: torch.dtype | None) -> Const:
    # The text of a constant alone gets here: no names but these two.
    value = eval(ast.unparse(node), {"__builtins__": {}}, {"inf": math.inf, "nan": math.nan})
    return Const(value, dtype or {float: torch.float32, int: torch.int64, bool: torch.bool}[type(value)])
