"""Kernels, graphs and programs as text, for people who read traces and tests that compare.  Deterministic.

A kernel is written in Python's syntax:

```
def softmax_0(in0: read[float32, 8192], out0: write[float32, 8192]) -> cpu:
    for i0 in 128:
        for r0 in reduce(64):
            v0 = max(in0[64 * i0 + r0], float32)
        for r0 in reduce(64):
            v1 = sum(exp(in0[64 * i0 + r0] - v0), float32)
        for r0 in reduce(64):
            out0[64 * i0 + r0] = exp(in0[64 * i0 + r0] - v0) / v1
```

A load has the dtype of its buffer, a name that of its definition, a number float32 or int64 unless it says otherwise:
``ir/parse.py`` reads kernels back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

import torch

from inductor.ir.expr import Apply, Const, Expr, IndexValue, Load, Masked, Result
from inductor.ir.graph import Graph, Nest
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import PRODUCT, Argument, Kernel, Let, Loop, Reduce, Scan, Statement
from inductor.ir.layout import CpuLayout, LoopLayout, Shape
from inductor.ir.program import Allocate, Bind, Buffer, Call, Free, Launch, Program, Ref, Run, Scratch, Step, View

INFIX: dict[str, tuple[str, int]] = {
    "eq": ("==", 1), "ne": ("!=", 1), "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1), "ge": (">=", 1),
    "or": ("|", 2), "xor": ("^", 3), "and": ("&", 4),
    "shl": ("<<", 5), "shr": (">>", 5), "add": ("+", 6), "sub": ("-", 6),
    "mul": ("*", 7), "div": ("/", 7), "floordiv": ("//", 7), "mod": ("%", 7),
}  # fmt: skip
"""The operators written between their operands, each with its sign and how tightly that binds."""
COMPARISON = 1
TYPED = frozenset(("cast", "bitcast", "rand", "randn", "randint64"))
"""Operators whose dtype does not follow from their operands."""
SPELLED = {"not": "invert"}
"""Names that Python's grammar keeps for itself."""
ROLES = {"in": "read", "out": "write", "inout": "update"}


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# -- expressions ------------------------------------------------------------------------------------------------------


def expression(expr: Expr) -> str:
    """An expression as text."""
    return _text(expr, 0)


def _text(expr: Expr, outer: int) -> str:
    if isinstance(expr, Const):
        return _constant(expr, outer)
    if isinstance(expr, Load):
        return f"{expr.buffer}[{_place(expr.index, expr.bindings)}]"
    if isinstance(expr, Result):
        return f"{expr.name}.{expr.part}" if expr.part else expr.name
    if isinstance(expr, IndexValue):
        return f"index({expr.index})" if expr.dtype == torch.int64 else f"index({expr.index}, {dtype_name(expr.dtype)})"
    if isinstance(expr, Masked):
        parts = (_text(part, 0) for part in (expr.condition, expr.body, expr.other))
        return f"masked({', '.join(parts)})"
    return _operator(expr, outer)


def _operator(expr: Apply, outer: int) -> str:
    if expr.op in INFIX:
        sign, strength = INFIX[expr.op]
        # Python chains comparisons: ``a < b < c`` would read as something else, so even the left operand is put in
        # parentheses.
        left = strength + 1 if strength == COMPARISON else strength
        text = f"{_text(expr.args[0], left)} {sign} {_text(expr.args[1], strength + 1)}"
        return f"({text})" if strength < outer else text
    args = [_text(arg, 0) for arg in expr.args]
    if expr.op in TYPED:
        args.append(dtype_name(expr.dtype))
    if expr.param is not None:
        args.append(dtype_name(expr.param))
    return f"{SPELLED.get(expr.op, expr.op)}({', '.join(args)})"


def _constant(expr: Const, outer: int) -> str:
    """Floats are float32 and integers int64 unless they say otherwise."""
    usual = {float: torch.float32, int: torch.int64, bool: torch.bool}[type(expr.value)]
    text = repr(expr.value)
    if expr.dtype != usual:
        return f"{dtype_name(expr.dtype)}({text})"
    return f"({text})" if text.startswith("-") and outer else text


def _place(index: Index, bindings: Sequence[tuple[Symbol, Expr]]) -> str:
    return str(index) + "".join(f", {symbol.name}({symbol.size}, {_text(value, 0)})" for symbol, value in bindings)


# -- kernels ----------------------------------------------------------------------------------------------------------


def kernel_text(value: Kernel) -> str:
    """A kernel as text, one statement a line, in Python's syntax."""
    given = [_argument(argument) for argument in value.arguments]
    given += [f"{symbol.name}: size[{symbol.lower}]" for symbol in value.sizes]
    lines = [f"def {value.name}({', '.join(given)}) -> {value.device}:"]
    for member in value.members:
        lines += ["    " + line for line in kernel_text(member).splitlines()]
    lines += ["    " + statement(let) for let in value.once]
    # Axes nest one in the other; the loops of all passes stand side by side inside of them.
    for depth, axis in enumerate(value.axes, 1):
        lines.append(f"{'    ' * depth}for {axis.name} in {axis.size}:")
    if (made := value.product) is not None:
        factors = f"{expression(made.left)}, {expression(made.right)}, {dtype_name(made.dtype)}"
        indent = "    " * (1 + len(value.axes))
        lines.append(f"{indent}{PRODUCT} = multiplied({factors}, {made.inner.name} in {made.inner.size})")
    lines += _loops(value.loops, 1 + len(value.axes))
    return "\n".join(lines) + "\n"


def _argument(argument: Argument) -> str:
    if argument.number:
        return f"{argument.name}: number[{dtype_name(argument.dtype)}]"
    return f"{argument.name}: {ROLES[argument.role]}[{dtype_name(argument.dtype)}, {argument.numel}]"


def _loops(loops: Sequence[Loop], depth: int) -> Iterator[str]:
    for loop in loops:
        if loop.axes:
            names, sizes = ", ".join(axis.name for axis in loop.axes), ", ".join(str(axis.size) for axis in loop.axes)
            yield f"{'    ' * depth}for {names} in reduce({sizes}):"
        indent = "    " * (depth + bool(loop.axes))
        for line in loop.body:
            yield indent + statement(line)


def statement(value: Statement) -> str:
    """One statement as text."""
    if isinstance(value, Let):
        return f"{value.name} = {expression(value.value)}"
    if isinstance(value, Scan):
        return f"{value.name} = scan_{value.kind}({expression(value.value)}, {dtype_name(value.dtype)})"
    if isinstance(value, Reduce):
        return f"{value.name} = {value.kind}({expression(value.value)}, {dtype_name(value.dtype)})"
    mask = "" if value.mask is None else f"if {expression(value.mask)}: "
    place = f"{mask}{value.buffer}[{_place(value.index, value.bindings)}]"
    if value.mode in COMBINED:
        return f"{place} = {COMBINED[value.mode]}(_, {expression(value.value)})"
    return f"{place} {SIGNS[value.mode]} {expression(value.value)}"


SIGNS: Mapping[str, str] = {"set": "=", "add": "+=", "mul": "*="}
COMBINED: Mapping[str, str] = {"max": "maximum", "min": "minimum"}
"""The combining stores without a sign of their own, written as a call in which ``_`` stands for the old element."""


# -- graphs and programs ----------------------------------------------------------------------------------------------


def graph_text(value: Graph) -> str:
    """A lowered graph as text: nests and calls in order."""
    lines = [f"graph {value.name}({', '.join(_input(item) for item in value.inputs)})"]
    for operation in value.operations:
        lines += _nest(operation) if isinstance(operation, Nest) else ["    " + step(operation)]
    lines.append(f"    return {_plain(value.outputs)}")
    return "\n".join(lines) + "\n"


def _nest(value: Nest) -> list[str]:
    kept = ", ".join(f"{axis.name} in {axis.size}" for axis in value.kept)
    return [f"    nest {value.name} ({kept})", *_loops(value.loops, 2)]


def program_text(value: Program) -> str:
    """A program as text: its steps, then its kernels."""
    lines = [f"program {value.name}({', '.join(_input(item) for item in value.inputs)})"]
    lines += [f"    constant {_buffer(constant)}" for constant in value.constants]
    lines += ["    " + step(item) for item in value.steps]
    lines.append(f"    return {_plain(value.outputs)}")
    kernels = [kernel_text(item.kernel) for item in value.steps if isinstance(item, Launch)]
    return "\n".join(["\n".join(lines) + "\n", *kernels])


def layouts_text(program: Program) -> str:
    """The layouts of a program's kernels as text, and the launches that are one call."""
    lines = [line for item in program.steps if isinstance(item, Launch) for line in _layout(item.kernel)]
    lines += [_run(item) for item in program.items if isinstance(item, Run)]
    lines += [f"scratch of {program.scratch.bytes} bytes: {_places(program.scratch)}"] if program.scratch else []
    return "\n".join(lines) + "\n"


def _places(scratch: Scratch) -> str:
    return ", ".join(f"{name} at {place}" for name, place in scratch.places)


def _layout(kernel: Kernel) -> Iterator[str]:
    layout = kernel.layout
    if isinstance(layout, CpuLayout):
        more = _unusual(layout, apart=("vector", "width", "loops"))
        yield f"{kernel.name}: {layout.vector} by vectors of {layout.width}{more}"
        for number, loop in enumerate(layout.loops):
            if more := _unusual(loop):
                yield f"    loop {number}: {more.removeprefix(', ')}"
    elif layout is not None:
        tiles = [f"{tile.name} over {', '.join(map(str, tile.axes))} by {tile.block}" for tile in layout.tiles]
        yield f"{kernel.name}: {'; '.join(tiles)}{_unusual(layout, apart=('tiles',))}"


def _unusual(value: CpuLayout | LoopLayout | Shape, apart: Sequence[str] = ()) -> str:
    """The fields of a layout that differ from their defaults, as text."""
    found = ((field.name, getattr(value, field.name), field.default) for field in fields(value))
    said = [(name, own) for name, own, default in found if own != default and name not in apart]
    return "".join(f", {name}" if own is True else f", {name}={_value(own)}" for name, own in said)


def _value(value: object) -> str:
    return f"({', '.join(map(_value, value))})" if isinstance(value, tuple) else str(value)


def _run(run: Run) -> str:
    """A run as text: who does each stretch, with ``|`` between kernels that run side by side and ``;`` between
    waves."""
    by_whom = [
        f"{'a team' if stretch.team else 'one thread'}: "
        + "; ".join(" | ".join(launch.kernel.name for launch in wave) for wave in stretch.waves)
        for stretch in run.stretches
    ]
    return f"run {', then '.join(by_whom)}"


def step(value: Step) -> str:
    """One step as text."""
    if isinstance(value, Allocate):
        return f"allocate {_buffer(value.buffer)}{f' in {value.reuse}' if value.reuse else ''}"
    if isinstance(value, View):
        return f"view {_buffer(value.buffer)} of {value.base} at {value.offset}"
    if isinstance(value, Launch):
        return f"launch {value.kernel.name}({', '.join(value.buffers)})"
    if isinstance(value, Call):
        return _call(value)
    if isinstance(value, Bind):
        what = f"{value.what} {value.dim} of {value.source}" if value.dim is not None else value.source
        return f"bind {value.symbol.name} = {what}"
    assert isinstance(value, Free)
    return f"free {value.name}"


def _call(value: Call) -> str:
    args = [_plain(arg) for arg in value.args] + [f"{name}={_plain(arg)}" for name, arg in value.kwargs]
    results = ", ".join("_" if buffer is None else _buffer(buffer) for buffer in value.outputs)
    results = results if value.number is None else value.number.name
    into = f" into {', '.join(value.into)}" if value.into else ""
    reason = f"  # {value.reason}" if value.reason else ""
    return f"{results + ' = ' if results else ''}call {value.target}({', '.join(args)}){into}{reason}"


def _plain(value: object) -> str:
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, list | tuple):
        return f"[{', '.join(_plain(item) for item in value)}]"
    return str(value)


def _input(value: Buffer | Symbol | None) -> str:
    return _buffer(value) if isinstance(value, Buffer) else "_" if value is None else value.name


def _buffer(value: Buffer) -> str:
    sizes, strides = (", ".join(map(str, numbers)) for numbers in (value.sizes, value.strides))
    return f"{value.name}: {dtype_name(value.dtype)}[{sizes}] by [{strides}] on {value.device}"
