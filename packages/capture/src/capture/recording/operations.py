"""One torch operation: run it on the operands' metadata, add it to the graph, and give its results as values."""

from __future__ import annotations

import contextlib
import enum
import math
import operator
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx

from capture.errors import Signal, words_of
from capture.operators.fake_kernels import fake_kernel
from capture.reasons import Kind, Reason, UsedUp
from capture.recording.graph import GONE
from capture.recording.histories import insist_on_known_histories, note_view
from capture.recording.nests import tensors_in
from capture.recording.world import Recording
from capture.signals import let_through
from capture.silence import silenced
from capture.torch_versions import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    OpOverload,
    UnsupportedOperatorException,
    cdata_of,
    enable_python_dispatcher,
    is_view,
)
from capture.values import default_devices
from capture.values.autograd_leaves import is_leaf, is_used_up
from capture.values.base import LazyValue, NotConstant, Value, realize
from capture.values.constant import ConstantValue
from capture.values.mapping import DictValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, SequenceValue, SliceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.transform import ModuleOperand

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def undecided() -> tuple[type[Exception], ...]:
    """The exceptions that torch raises where a data-dependent size decides.

    While nothing has such sizes, the module that has the exception is not loaded, and importing it would take longer
    than most captures.
    """
    module = sys.modules.get("torch.fx.experimental.symbolic_shapes")
    raised = None if module is None else vars(module).get("GuardOnDataDependentSymNode")
    return () if raised is None else (raised,)


_QUANTISED = frozenset(
    getattr(torch, name) for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4") if hasattr(torch, name)
)


def record_operation(
    ctx: Recording, target: Any, args: Sequence[Value], kwargs: Mapping[str, Value], *, method: bool
) -> Value:
    """Runs an operation on fakes and adds a node for it; breaks the graph where eager might do otherwise."""
    name = target if method else getattr(target, "__name__", str(target))
    insist_on_room(ctx)
    operands = _Operands(ctx, name)
    kwargs = default_devices.placed(ctx, target, kwargs)
    nodes, fakes = operands.all(args)
    node_options, fake_options = operands.named(kwargs)
    if any(isinstance(given, torch.dtype) and given in _QUANTISED for given in (*fakes, *fake_options.values())):
        # Fakes would not be quantised, and what operators do with them would be something else.
        ctx.stop(Kind.TENSOR_LAYOUT, f"`{name}` gives a quantised tensor", "keep it out of the compiled function")
    if target is torch.chain_matmul and fake_options.get("out") is not None:
        # Torch forgets `out` where a mode looks on, as one does when the graph is compiled.
        ctx.stop(Kind.OPERATOR_WITHOUT_SHAPE_RULE, "`chain_matmul` writes to `out`", "use `torch.linalg.multi_dot`")
    # Marks from before the run: what the fakes took for granted of sizes, or fixed, is known by what came since.
    deferred = ctx.graph.mark_deferred()
    fixed = ctx.fixed_sizes()
    operation = _Checked(ctx, name, fakes, fake_options)
    try:
        result = _run(ctx, name, target, method, fakes, fake_options)
    finally:
        operation.insist_on_the_same()
    if ctx.fixed_sizes() > fixed:
        hint = "it runs as in eager for every value; the rest of the function is captured"
        ctx.stop(Kind.DYNAMIC_SIZE, f"`{name}` takes what varies for a constant", hint)
    insist_on_known_histories(ctx, name, operation.tensors)
    # Only now, when nothing more breaks the graph here: the leaf is made in this graph or outside of it.
    if _is_new_leaf(ctx, result):
        ctx.made_leaf(result)
    for condition in ctx.graph.deferred_since(deferred):
        if not _expected(ctx, condition, operands.symbols):
            ctx.stop(Kind.DATA_DEPENDENT_OPERATION, f"`{name}` takes for granted what a data-dependent size is")
    if isinstance(result, (str, bytes)) and name != "type":  # the fake's, not the tensor's
        ctx.stop(Kind.TENSOR_VALUE, "a tensor is turned into text", "print shapes, or print after the compiled part")
    if (alien := _alien(result)) is not None:
        ctx.stop(Kind.TENSOR_VALUE, f"`{name}` gives an object of class `{type(alien).__qualname__}`")
    if not _needs_a_node(result):
        return ctx.literal(result)
    if method:
        node = ctx.graph.call_method(target, nodes, node_options, result)
    else:
        node = ctx.graph.call(target, nodes, node_options, result)
    operation.tell(node)
    node.meta["location"] = ctx.location()  # whoever reads the graph can say whose line an operator is
    return result_value(ctx, node, result)


def insist_on_room(ctx: Recording) -> None:
    """A loop of very many operators would be unrolled for minutes; pieces of it that end like this one share code."""
    largest = None if ctx.options.nopython else ctx.options.largest_graph
    if largest is not None and ctx.graph.operations >= largest:
        hint = "compile what the loop does, not the loop; or set `largest_graph`"
        ctx.stop(Kind.SIZE_OF_A_GRAPH, f"the graph has {largest} operators", hint)


class _Checked:
    """The memory of an operation's operands, from before it runs, to be compared with what it is afterwards.

    An operation that gives a tensor other memory, or more or less of it, is CPython's to run, for whoever else holds
    the tensor sees it; so is what eager may refuse.  The fakes have changed by then, so that evaluation restarts.
    """

    def __init__(self, ctx: Recording, name: str, fakes: object, fake_options: Mapping[str, object]) -> None:
        self.ctx = ctx
        self.name = name
        self.into = tensors_in([fake_options.get("out")])
        self.with_shape = "out" in fake_options or name in ("resize_", "resize_as_", "set_")
        self.tensors = [tensor for tensor in tensors_in((fakes, fake_options)) if tensor.layout is torch.strided]
        self.before = self._extents()
        self.doubts = ctx.graph.mode.journal.doubts
        self._raisers = ctx.graph.mode.journal.raisers
        self._draws = ctx.graph.mode.draws
        self._work = ctx.graph.mode.journal.work

    def tell(self, node: fx.Node) -> None:
        """Puts into the node's meta what the operators that the operation consists of may do."""
        mode = self.ctx.graph.mode
        node.meta["may_raise"] = mode.journal.raisers > self._raisers
        node.meta["draws"] = mode.draws > self._draws
        node.meta["work"] = mode.journal.work - self._work

    def _extents(self) -> list[tuple[object, ...]]:
        """The memory, size and type of each operand, and its layout where that is somebody's to see."""
        found: list[tuple[Any, ...]] = []
        for tensor in self.tensors:
            storage = tensor.untyped_storage()
            layout = self._layout(tensor)
            found.append((cdata_of(storage), storage.nbytes(), tensor.numel(), tensor.dtype, layout))
        return found

    def _layout(self, tensor: torch.Tensor) -> tuple[object, ...]:
        """The layout of an operand, where a change of it would be seen or refused.

        An input's is the program's to see, and torch refuses to change that of some tensors; a gradient's must be its
        leaf's where it is assigned, behind the graph.
        """
        known = self.ctx.tensors.get(id(tensor))
        if known is not None and (known.source is not None or known.is_a_gradient):
            return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
        return tuple(tensor.shape) if self.with_shape else ()

    def insist_on_the_same(self) -> None:
        """Breaks the graph where an operand was resized or moved, or eager may refuse the operation."""
        ctx, hint = self.ctx, "it runs as in eager; the rest of the function is captured"
        if self.before != self._extents():
            ctx.graph.spoilt += 1
            ctx.stop(Kind.RESIZED_TENSOR, f"`{self.name}` gives a tensor another size, layout or other memory", hint)
        # Kernels refuse to write a value with a history by ``out=``; torch's rules in Python, where sizes vary, copy.
        refused = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in self.into)
        if refused or ctx.graph.mode.journal.doubts > self.doubts:
            ctx.graph.spoilt += 1
            ctx.stop(Kind.ERROR_IN_AN_OPERATION, f"eager may refuse `{self.name}` with these operands", hint)


def _expected(ctx: Recording, condition: Any, symbols: Sequence[SymbolicNumber]) -> bool:
    """True if the condition is that a data-dependent size is not negative, which the code asks after the graph.

    The operation would refuse a negative one.  Nothing is read or written then, so it is time enough.
    """
    size = ctx.graph.not_negative(condition)
    given = next((symbol for symbol in symbols if symbol.example.node.expr == size), None)
    if given is None:
        return False
    asked = ScalarValue(bool, function=operator.ge, operands=[given, ConstantValue(0)])
    return ctx.expect(asked, True)


def _is_new_leaf(ctx: Recording, result: object) -> bool:
    """True for a tensor made here at which a history may begin."""
    if not isinstance(result, torch.Tensor) or not result.requires_grad or not is_leaf(result):
        return False
    # One that came in is a leaf of the program's, and none that this graph makes.
    known = ctx.tensors.get(id(result))
    return known is None or known.source is None


def _run(
    ctx: Recording, name: str, target: Any, method: bool, args: tuple[object, ...], kwargs: dict[str, object]
) -> object:
    """Runs the operation on fakes; torch's errors become reasons to end the graph."""
    try:
        with ctx.graph.mode, _dispatch_of_symbolic_sizes(ctx), silenced():
            return getattr(args[0], target)(*args[1:], **kwargs) if method else fake_kernel(target)(*args, **kwargs)
    except Signal:
        raise
    except DynamicOutputShapeException:
        # With symbols for sizes of the data there is a shape: evaluation restarts with them where they are wanted.
        ctx.need_symbols()
        ctx.stop(Kind.DATA_DEPENDENT_OPERATION, f"the shape of what `{name}` gives depends on the tensor's data")
    except (DataDependentOutputException, *undecided()):
        ctx.stop(
            Kind.DATA_DEPENDENT_OPERATION,
            f"the result of `{name}` has a shape or value that depends on the tensor's data",
        )
    except UnsupportedOperatorException as error:
        ctx.stop(Kind.OPERATOR_WITHOUT_SHAPE_RULE, f"torch cannot tell the shape of `{name}`: {error}")
    except Exception as error:  # noqa: BLE001 - torch raises any kind for wrong operands; eager raises the real one when CPython runs it
        let_through(error)
        said = str(error).strip().splitlines()
        explanation = f"`{name}` fails: {said[0] if said else words_of(error)}"
        ctx.stop_for((UsedUp if is_used_up(error) else Reason)(Kind.ERROR_IN_AN_OPERATION, explanation))


def _dispatch_of_symbolic_sizes(ctx: Recording) -> AbstractContextManager[None]:
    """A context in which operators that take dynamic sizes only in torch's Python versions are run by those."""
    return contextlib.nullcontext() if ctx.graph.shape_env is None else enable_python_dispatcher()


_METADATA = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.qscheme)
_KNOWN = (torch.Tensor, *_SYMBOLIC, int, float, complex, str, bytes, type(None), *_METADATA)


def _alien(result: object) -> object:
    """An object that goes with a fake and means nothing to the tensor: its storage, its iterator."""
    if isinstance(result, (tuple, list, dict)):
        items = list(result.values()) if isinstance(result, dict) else result
        return next((alien for alien in map(_alien, items) if alien is not None), None)
    return None if isinstance(result, _KNOWN) else result


def _needs_a_node(result: object) -> bool:
    """True if the result is a tensor or a symbol; all else is known from the operands, and stands in no graph."""
    if isinstance(result, (torch.Tensor, *_SYMBOLIC)):
        return True
    if isinstance(result, (tuple, list)):
        return any(_needs_a_node(item) for item in result)
    if isinstance(result, dict):
        return any(_needs_a_node(item) for item in result.values())
    return result is None  # done for its effect


def result_value(ctx: Recording, node: fx.Node, result: object, *, one_of_several: bool = False) -> Value:
    """The value of an operation's result; an operand that comes back is itself."""
    if isinstance(result, torch.Tensor):
        # An operator in place gives its operand back, and so may one that finds nothing to do.
        known = ctx.tensors.get(id(result))
        if known is not None:
            return known
        value = TensorValue(node, result)
        ctx.tensors[id(result)] = value
        note_view(ctx, result, one_of_several=one_of_several)
        if result.requires_grad and is_view(result):
            ctx.note_origin(value)
        return value
    if isinstance(result, _SYMBOLIC):
        return _number(ctx, node, result)
    if isinstance(result, (tuple, list)):
        items = [_item(ctx, node, index, item) for index, item in enumerate(result)]
        return ListValue(items) if isinstance(result, list) else TupleValue(items, cls=type(result))
    if isinstance(result, dict):
        made = DictValue()
        made.entries = {key: (ctx.literal(key), _item(ctx, node, key, item)) for key, item in result.items()}
        return made
    return ctx.literal(result)


def _item(ctx: Recording, node: fx.Node, index: object, item: object) -> Value:
    """One of several results, which the graph picks out where it is no constant."""
    if not _needs_a_node(item):
        return ctx.literal(item)
    return result_value(ctx, ctx.graph.select(node, index, item), item, one_of_several=True)


def _number(ctx: Recording, node: fx.Node, result: Any) -> Value:
    """A symbol as the program's number; a constant where sizes cancelled out, as in ``n - n``."""
    expression = result.node.expr
    if not expression.free_symbols:
        if isinstance(result, torch.SymInt) and not expression.is_Integer:  # torch's infinity of integers
            ctx.stop(Kind.DYNAMIC_SIZE, "an integer is beyond the sizes that torch computes with")
        return ConstantValue(
            result.node.maybe_as_int() if isinstance(result, torch.SymInt) else result.node.pytype(expression)
        )
    # A float or a truth of the data can be no size and no position: Python reads it out of its tensor.
    if not isinstance(result, torch.SymInt) and any(map(ctx.graph.is_data_dependent, expression.free_symbols)):
        ctx.stop(Kind.DATA_DEPENDENT_OPERATION, "a number is read out of a tensor")
    return SymbolicNumber(node, result)


_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""The dtypes that torch takes Python's types for, as in ``x.to(float)``."""


class _Operands:
    """Values as arguments of a node and, at the same time, of the run on fake tensors."""

    def __init__(self, ctx: Recording, operation: str) -> None:
        self.ctx = ctx
        self.operation = operation
        self.symbols: list[SymbolicNumber] = []  # among them, data-dependent numbers
        self._within = 0  # so many containers, where FX has no words for members of an enum

    def all(self, values: Sequence[Value]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        pairs = [self.one(value) for value in values]
        return tuple(node for node, _ in pairs), tuple(fake for _, fake in pairs)

    def named(self, values: Mapping[str, Value]) -> tuple[dict[str, object], dict[str, object]]:
        pairs = {name: self.one(value) for name, value in values.items()}
        return {name: node for name, (node, _) in pairs.items()}, {name: fake for name, (_, fake) in pairs.items()}

    def one(self, value: Value) -> tuple[object, object]:
        """The node, or constant, for an operand, and what the fake operation is given for it."""
        if isinstance(value, LazyValue):
            value = realize(self.ctx, value)
        if isinstance(value, TensorValue):
            if GONE in value.node.meta:
                self.ctx.stop(Kind.FUNCTION_TRANSFORM, "a tensor of a transformed function is used outside of it")
            return value.node, value.fake
        if isinstance(value, ModuleOperand):
            return value.node, value.module
        if isinstance(value, ConstantValue):
            # The same constant for the graph and the fakes: what the text says is what runs later.
            held = self._as_literal(value, _spelled(value.value))
            return held, held
        if isinstance(value, SymbolicNumber):
            if GONE in value.node.meta:
                self.ctx.stop(Kind.FUNCTION_TRANSFORM, "a size in a transformed function is used outside of it")
            return value.node, value.example
        return self._made_of_others(value)

    def _made_of_others(self, value: Value) -> tuple[object, object]:
        """A container of operands as the graph takes it and as fakes do; notes how deep in containers it is.

        FX has no words for members of enums in them.
        """
        self._within += isinstance(value, (SequenceValue, DictValue))
        try:
            return self._container(value)
        finally:
            self._within -= isinstance(value, (SequenceValue, DictValue))

    def _container(self, value: Value) -> tuple[object, object]:
        if isinstance(value, SequenceValue):
            if issubclass(value.python_type(), deque):
                self.ctx.stop(Kind.CONTAINER, f"`{self.operation}` is given {value.describe()}, which torch may refuse")
            # Torch's functions ask for a list or a tuple, and for nothing that the program derived from one.
            nodes, fakes = self.all(value.items)
            make = list if isinstance(value, ListValue) else tuple
            return make(nodes), make(fakes)
        if isinstance(value, SliceValue):
            nodes, fakes = self.all(list(value.parts()))
            return slice(*nodes), slice(*fakes)
        if isinstance(value, DictValue):
            pairs = {self._as_literal(value, key): self.one(item) for key, (_, item) in value.entries.items()}
            return {key: node for key, (node, _) in pairs.items()}, {key: fake for key, (_, fake) in pairs.items()}
        if isinstance(value, ScalarValue) and (number := value.of_this_call()) is not None:
            return number, number
        if isinstance(value, ScalarValue) and (symbol := symbol_of(self.ctx, value)) is not None:
            self.symbols.append(symbol)
            return symbol.node, symbol.example
        try:
            constant = value.constant()
        except NotConstant:
            self.ctx.stop(Kind.OPERAND, f"`{self.operation}` is given {value.describe()}, which a graph cannot hold")
        constant = self._as_literal(value, constant)
        return constant, constant

    def _as_literal(self, value: Value, constant: object) -> object:
        """The constant in a form that the text of a graph can say; breaks the graph where there is none."""
        if isinstance(constant, type):
            constant = _TYPES.get(constant, constant)
        if not _has_text(constant) or (self._within and isinstance(constant, enum.Enum)):
            text = f"`{self.operation}` is given {value.describe()}, for which a graph has no words"
            self.ctx.stop(Kind.OPERAND, text)
        return constant


_LITERALS = (bool, int, float, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.layout)
_OTHER_LITERALS = (torch.memory_format, enum.Enum, range, torch.Size, complex)


def _has_text(constant: object) -> bool:
    """True if FX writes it as an expression that gives it again."""
    if isinstance(constant, (tuple, list)):
        return all(map(_has_text, constant))
    return isinstance(constant, (*_LITERALS, *_OTHER_LITERALS, OpOverload))


def _spelled(constant: object) -> object:
    """A constant in plain words: numpy's floats are floats, and several flags at once, or none, are a number."""
    if isinstance(constant, float):
        return float(constant)
    if isinstance(constant, complex):
        return _Complex(constant)
    if isinstance(constant, enum.IntFlag) and constant.name not in type(constant).__members__:
        return int.__int__(constant)
    return constant


class _Complex(complex):
    """A complex constant whose text gives it again: a plain one's loses signs of zeros, and what is not finite."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"complex({_text_of(self.real)}, {_text_of(self.imag)})"


def _text_of(number: float) -> str:
    return repr(number) if math.isfinite(number) else f"float('{number}')"


# What Python's whole numbers and symbols for them both compute, without error.
_WHOLE = {
    function: function
    for function in (operator.add, operator.sub, operator.mul, operator.neg, operator.floordiv, operator.mod)
} | {min: torch.sym_min, max: torch.sym_max}


def symbol_of(ctx: Recording, number: ScalarValue) -> SymbolicNumber | None:
    """A whole number read out of a tensor, or computed from such, as a symbol of the graph; None where there is none.

    An operator takes it as a size or a position.
    """
    if number.cls is not int or number.source is not None:
        return None
    # Once for each number: a second symbol for it would be another unknown size, and equal to the first by no rule.
    if number.symbol is None:
        number.symbol = _read(ctx, number) if number.function is None else _calculated(ctx, number)
    return number.symbol


def _read(ctx: Recording, number: ScalarValue) -> SymbolicNumber | None:
    """The number as the graph itself reads it out of its tensor, so that nothing has to come back to Python before."""
    ctx.need_symbols()
    if ctx.graph.shape_env is None or number.tensor is None:
        return None
    symbol = record_operation(ctx, "item", [number.tensor], {}, method=True)
    return symbol if isinstance(symbol, SymbolicNumber) else None


def _calculated(ctx: Recording, number: ScalarValue) -> SymbolicNumber | None:
    """The symbol of a number computed from numbers that have one, where symbols compute as Python does."""
    function = None if number.function is None else _WHOLE.get(number.function)
    if function is None:
        return None
    operands = [symbol_of(ctx, operand) if isinstance(operand, ScalarValue) else operand for operand in number.operands]
    if any(operand is None or operand.python_type() is not int for operand in operands):
        return None
    symbol = record_operation(ctx, function, [o for o in operands if o is not None], {}, method=False)
    return symbol if isinstance(symbol, SymbolicNumber) else None
