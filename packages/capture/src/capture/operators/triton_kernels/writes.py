"""The parameters of a Triton kernel whose memory it may write to: a store, an atomic or anything unknown reaches it.

Read off the kernel's text, without order and without conditions: what is assigned to a name may be in it everywhere.
A pointer that goes where no rule follows it counts as written; a text with more in it than the rules speak of is not
judged at all.
Must not know: tensors, graphs, Triton itself (kernels are told by the shape of the objects).

The values of the analysis are sets of parameter names: of a variable, those it may point into.  Sets only grow, so
that going through the body again and again ends.  An example:

    p = x_ptr + offsets          p: {x_ptr}
    q = tl.where(m, p, y_ptr)    q: {x_ptr, y_ptr}
    tl.store(q, v)               written: {x_ptr, y_ptr}
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from types import CellType, FunctionType, ModuleType
from typing import Any

Names = frozenset[str]
_NONE: Names = frozenset()

# Functions of Triton's language that give what they are given: a pointer stays one.
_PASS_ON = frozenset(
    {
        "advance", "assume", "broadcast", "broadcast_to", "cast", "cat", "expand_dims", "flip", "interleave", "join",
        "make_block_ptr", "make_tensor_descriptor", "max_constancy", "max_contiguous", "maximum", "minimum",
        "multiple_of", "permute", "range", "ravel", "reshape", "split", "static_range", "swizzle2d", "to", "to_tensor",
        "trans", "view", "where",
    }
)  # fmt: skip
_GIVE_DATA = frozenset({"load", "gather"})
_ONLY_LOOK = frozenset(
    {"debug_barrier", "device_assert", "device_print", "static_assert", "static_print", "zeros_like"}
)
_WRITE = ("store", "atomic", "scatter", "reduce")
_CASTS = frozenset({"to", "cast"})
# Attributes of a pointer that tell of the data behind it, and are no pointers.
_FACTS = frozenset({"element_ty", "shape", "block_shape", "numel", "ndim", "primitive_bitwidth", "itemsize"})


class Unfollowed(Exception):
    """Raised where nobody can say what the kernel writes to; the message says why."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The reach of a function: its parameters that are written to, that come back, that say types of casts."""

    written: Names
    returned: Names
    types: Names


def function_of(kernel: object) -> FunctionType | None:
    """The Python function that a kernel, or whatever was put around it, was made of."""
    # Autotuners and heuristics hold what they are around as ``fn``.
    while kernel is not None and not isinstance(kernel, FunctionType):
        kernel = vars(kernel).get("fn") if hasattr(kernel, "__dict__") else None
    return kernel


def parameters(function: FunctionType) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


@cache
def reach(function: FunctionType, text: str | None) -> Reach:
    """The effects of the kernel made of this function on its parameters.

    ``text`` is what Triton itself compiles, where it keeps that.
    """
    return _reach(function, text, ())


def text_of(kernel: Any) -> str | None:
    """The text that Triton took when the kernel was made; None where it reads the file again."""
    while not isinstance(vars(kernel).get("fn"), FunctionType):
        kernel = kernel.fn
    text = getattr(kernel, "src", None)
    return text if isinstance(text, str) else None


def _reach(function: FunctionType, text: str | None, callers: tuple[FunctionType, ...]) -> Reach:
    definition = _definition(function, text)
    if definition is None:
        raise Unfollowed(f"the text of {function.__name__} is not there")
    if function in callers:
        raise Unfollowed("it calls itself")
    return _Body(function, (*callers, function)).follow(definition)


def _definition(function: FunctionType, text: str | None) -> ast.FunctionDef | None:
    """The definition in the function's text; None where the text is not to be had or defines something else."""
    try:
        tree = ast.parse(textwrap.dedent(text or inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    found = tree.body[0] if tree.body else None
    return found if isinstance(found, ast.FunctionDef) and found.name == function.__name__ else None


class _Body:
    """The body of one function, gone through until nothing new is learnt."""

    def __init__(self, function: FunctionType, callers: tuple[FunctionType, ...]) -> None:
        self._function = function
        self._callers = callers
        self._points: dict[str, Names] = {name: frozenset((name,)) for name in parameters(function)}
        self._written: Names = _NONE
        self._returned: Names = _NONE
        self._types: Names = _NONE

    def follow(self, definition: ast.FunctionDef) -> Reach:
        # Then nobody can tell which argument a name is.
        if definition.args.vararg or definition.args.kwarg or definition.args.kwonlyargs:
            raise Unfollowed("it takes any number of arguments")
        if any(name in ("pointer_type", "PointerType") for name in _mentioned(definition)):
            raise Unfollowed("it makes pointers of numbers")
        # Until nothing is learnt any more: a loop may carry a pointer from its end to its beginning.
        before = None
        while before != (before := (dict(self._points), self._written, self._returned, self._types)):
            self._statements(definition.body)
        return Reach(self._written, self._returned, self._types)

    # -- statements ----------------------------------------------------------------------------------------------

    def _statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        """Goes through one statement; branches and loops are taken as if all of them ran."""
        match node:
            case ast.Assign():
                found = self._of(node.value)
                for target in node.targets:
                    self._assign(target, found)
            case ast.AnnAssign() | ast.AugAssign():
                self._assign(node.target, self._of(node.value))
            # For the calls in it: what it gives is dropped.
            case ast.Expr() | ast.Assert():
                self._all(node)
            case ast.Return():
                self._returned |= self._of(node.value)
            # The target may be a pointer out of what is gone through: ``for p in (a_ptr, b_ptr)``.
            case ast.For():
                self._assign(node.target, self._of(node.iter))
                self._statements([*node.body, *node.orelse])
            case ast.While() | ast.If():
                self._of(node.test)
                self._statements([*node.body, *node.orelse])
            case ast.Pass() | ast.Break() | ast.Continue():
                pass
            case _:
                raise _strange(node)

    def _assign(self, target: ast.expr, found: Names) -> None:
        if isinstance(target, ast.Name):
            # Added, not replaced: there is no order, so that each value may be in it everywhere.
            self._points[target.id] = self._points.get(target.id, _NONE) | found
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._assign(part, found)
        else:
            raise _strange(target)

    # -- expressions ---------------------------------------------------------------------------------------------

    def _of(self, node: ast.expr | None) -> Names:
        """The parameters that the value of an expression may point into."""
        match node:
            case None | ast.Constant():
                return _NONE
            case ast.Name():
                # A name from outside points nowhere: kernels can write to nothing but what they are given.
                return self._points.get(node.id, _NONE)
            case ast.Attribute():
                found = self._of(node.value)
                # Else it is the pointer still, as in ``p.T``.
                return _NONE if node.attr in _FACTS else found
            case ast.Call():
                return self._call(node)
            case ast.Compare():
                self._all(node)
                return _NONE
            case ast.NamedExpr():
                found = self._of(node.value)
                self._assign(node.target, found)
                return found
            case (
                ast.BinOp()
                | ast.UnaryOp()
                | ast.BoolOp()
                | ast.IfExp()
                | ast.Tuple()
                | ast.List()
                | ast.Subscript()
                | ast.Slice()
                | ast.Starred()
                | ast.JoinedStr()
                | ast.FormattedValue()
            ):
                return self._all(node)
            case _:
                raise _strange(node)

    def _all(self, node: ast.AST) -> Names:
        """The parameters that any part of an expression may point into: a sum with a pointer in it is a pointer."""
        parts = (self._of(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
        return _NONE.union(*parts)

    def _call(self, node: ast.Call) -> Names:
        """The parameters that the result of a call may point into; notes what the call writes to."""
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        found = _NONE.union(*map(self._of, given))
        # None: a method of something that the kernel made.
        callee = self._outside(node.func)
        if str(getattr(callee, "__name__", "")).startswith("inline_asm"):
            _refuse_stores(node)
        if callee is None and isinstance(node.func, ast.Attribute):
            owner = self._of(node.func.value)
            if node.func.attr in _CASTS:
                self._cast(given)
                return owner
            return self._of_language(node.func.attr, owner | found)
        # Unknown, so that what it was given counts as written; without a pointer there is nothing to write to.
        if callee is None or not found:
            return self._write(found)
        name = str(getattr(callee, "__name__", ""))
        # ``min``, ``range``: what they give may be what they were given.
        if getattr(builtins, name, None) is callee:
            return found
        if str(getattr(callee, "__module__", "")).startswith("triton.language"):
            if name in _CASTS:
                self._cast([*node.args[1:], *(keyword.value for keyword in node.keywords if keyword.arg != "input")])
            return self._of_language(name, found)
        # Only what Triton's decorators wrap is followed.
        function = None if isinstance(callee, FunctionType) else function_of(callee)
        if function is None:
            return self._write(found)
        return self._call_device_function(node, _reach(function, text_of(callee), self._callers), parameters(function))

    def _cast(self, types: Sequence[ast.expr]) -> None:
        """Notes that something becomes one of these types, which a parameter may say."""
        self._types = self._types.union(*map(self._of, types))
        # An integer that becomes a pointer leads anywhere.
        for found in map(self._outside, types):
            if type(getattr(found, "value", found)).__name__ == "pointer_type":
                raise Unfollowed("it makes pointers of numbers")

    def _of_language(self, name: str, given: Names) -> Names:
        """The parameters that a function of Triton's language passes on, by its name."""
        # Data that was loaded is no pointer.
        if name in _GIVE_DATA or name in _ONLY_LOOK:
            return _NONE
        if name in _PASS_ON:
            return given
        # A store, an atomic, or something that this table does not know.
        self._write(given)
        return _NONE if name.startswith(_WRITE) else given

    def _call_device_function(self, node: ast.Call, reached: Reach, names: Sequence[str]) -> Names:
        """The parameters that another kernel passes on where it is called, by its own reach."""
        if len(node.args) > len(names) or any(isinstance(arg, ast.Starred) for arg in node.args):
            raise _strange(node)
        # What the callee does to its parameters is done to what was passed for them.
        given = dict(zip(names, map(self._of, node.args), strict=False))
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _strange(node)
            given[keyword.arg] = self._of(keyword.value)
        written, returned, types = (
            _NONE.union(*(given.get(name, _NONE) for name in found))
            for found in (reached.written, reached.returned, reached.types)
        )
        self._write(written)
        self._types |= types
        return returned

    def _write(self, found: Names) -> Names:
        self._written |= found
        return found

    def _outside(self, node: ast.expr) -> object:
        """The object that a name, or an attribute of a module, stands for; None for what the kernel made itself."""
        if isinstance(node, ast.Attribute):
            owner = self._outside(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        if not isinstance(node, ast.Name) or node.id in self._points:
            return None
        function = self._function
        if node.id in function.__code__.co_freevars:
            return _content((function.__closure__ or ())[function.__code__.co_freevars.index(node.id)])
        return function.__globals__.get(node.id, getattr(builtins, node.id, None))


def _refuse_stores(call: ast.Call) -> None:
    """Raises for assembly that may write: to an address that it is given as a number, which no rule follows."""
    texts = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    if not texts or any(re.search(r"\b(st|red|atom|cp|stmatrix|mbarrier)\.", text) for text in texts):
        raise Unfollowed("there is assembly in it that writes to memory")


def _strange(node: ast.AST) -> Unfollowed:
    """The refusal of something that no rule speaks of."""
    return Unfollowed(f"`{ast.unparse(node)}` is in it, line {getattr(node, 'lineno', 0)}")


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _mentioned(tree: ast.AST) -> Iterator[str]:
    """All names and attributes in a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
