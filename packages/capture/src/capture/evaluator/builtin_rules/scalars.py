"""Numbers read out of tensors: arithmetic on them, and their use as operands of tensors.

``item()`` gives a ``ScalarValue``: a tensor of the graph, out of which Python's number is read behind it.  Arithmetic
on it is put off (``_combine``): computed by Python if somebody wants the number, in double precision by the graph if a
tensor meets it. Both give the same to the bit only for what is listed here; everything else breaks the graph.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from capture.evaluator.builtin_rules.formulas import computed, is_known_before
from capture.evaluator.builtin_rules.operators import plain_in_place
from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.guards.sources import MadeSource
from capture.reasons import Kind
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

# None of these raises on numbers, so it does not matter that Python computes them later.
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.iadd, operator.isub, operator.imul)
_COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
_QUESTIONS = (math.isfinite, math.isinf, math.isnan)
_NEVER_RAISE = frozenset({*_ARITHMETIC, *_COMPARISONS, *_QUESTIONS, operator.neg, operator.pos, operator.abs, abs})
"""Functions that can wait: whatever the number turns out to be, none of them raises where the program stood."""
_QUOTIENTS = (operator.truediv, operator.itruediv)
_WHOLE_QUOTIENTS = (operator.floordiv, operator.ifloordiv, operator.mod, operator.imod)
_EXACT = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.abs, abs, float)
_IN_DOUBLES = {function: function for function in _EXACT}
"""Functions that doubles of the graph compute as Python's floats do."""
_WITH_TENSORS = frozenset(
    {"add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv", "div", "true_divide"}
    | {"lt", "le", "eq", "ne", "gt", "ge"}
)
_MOST_ITEMS = 16
_LARGEST = {torch.bool: (bool, torch.bool), torch.uint8: (int, torch.int64), torch.int8: (int, torch.int64)}
"""The dtype of a tensor to the number that is read from it: Python's type, and the dtype that holds it without loss."""
_LARGEST |= dict.fromkeys((torch.int16, torch.int32, torch.int64), (int, torch.int64))
_LARGEST |= dict.fromkeys((torch.float16, torch.bfloat16, torch.float32, torch.float64), (float, torch.float64))


# -- reading -----------------------------------------------------------------------------------------------------


@rule(torch.Tensor.item, kinds=(TensorValue,))
def item(ctx: Tracer, tensor: TensorValue) -> Value:
    # Complex numbers and others are missing.
    kind = _LARGEST.get(tensor.fake.dtype)
    if kind is None or not ctx.options.capture_scalar_outputs:
        ctx.stop(
            Kind.TENSOR_VALUE,
            f"`.item()` of {tensor.describe()} reads a number out of a tensor",
            "keep the value a tensor, or read it at the end",
        )
    cls, dtype = kind
    # A copy, detached: later writes to the tensor do not change the number, and a number has no history.  ``reshape``
    # refuses more than one element, as ``item`` does.
    alone = ctx.record("reshape", [ctx.record("detach", [tensor], {}, method=True), ctx.literal(())], {}, method=True)
    copy = ctx.record("to", [alone, ConstantValue(dtype)], {"copy": ConstantValue(True)}, method=True)
    assert isinstance(copy, TensorValue)
    return ScalarValue(cls, tensor=copy, read_from=tensor.fake.dtype)


@rule(torch.Tensor.tolist, kinds=(TensorValue,))
def to_list(ctx: World, tensor: TensorValue) -> Value:
    if tensor.fake.dim() == 0:
        return item(ctx, tensor)
    count = tensor.fake.numel()
    if not isinstance(count, int) or count > _MOST_ITEMS:
        ctx.stop(Kind.TENSOR_VALUE, f"`.tolist()` of {tensor.describe()} reads numbers out of a tensor")
    return ListValue([to_list(ctx, row) for row in tensor.elements(ctx) if isinstance(row, TensorValue)])


# -- arithmetic of Python ----------------------------------------------------------------------------------------


def _combine(ctx: Tracer, function: Callable[..., object], operands: Sequence[Value]) -> Value:
    """A number that Python computes of others, if somebody wants it."""
    # What type it is, is found by trying: an int plus a float is a float.
    samples = [_sample(operand) for operand in operands]
    if any(sample is None for sample in samples):
        ctx.stop(Kind.TENSOR_VALUE, f"`{function.__name__}` of {operands[0].describe()}")
    return ScalarValue(type(function(*samples)), function=function, operands=operands)


def _sample(operand: Value) -> object:
    """A number of the operand's type; None where it is no number."""
    return operand.python_type()(1) if operand.python_type() in (int, float, bool) else None


def number_operators(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of operators on data-dependent numbers: those that cannot raise are put off."""
    if not any(isinstance(arg, ScalarValue) for arg in args):
        return None
    if any(isinstance(arg, TensorValue) for arg in args):
        return with_tensor(ctx, function, args, kwargs)
    if isinstance(function, type(operator.add)) and function in _NEVER_RAISE:
        return _combine(ctx, plain_in_place(function), args)
    # A division may raise: it can wait only where the divisor is not zero for certain.
    if function in _QUOTIENTS and _is_never_zero(ctx, args[1]):
        return _combine(ctx, operator.truediv, args)
    if function in _WHOLE_QUOTIENTS and _is_never_zero(ctx, args[1]):
        return _combine(ctx, plain_in_place(function), args)
    return None


def _is_never_zero(ctx: World, divisor: Value) -> bool:
    """True if a divisor is not zero, relied on where it is not known.

    A number that was passed in is guarded, a data-dependent one is checked by the graph.
    """
    if isinstance(divisor, ConstantValue):
        return bool(divisor.value)
    if isinstance(divisor, SymbolicNumber):
        return divisor.truth(ctx)
    if not isinstance(divisor, ScalarValue):
        return False
    decided = divisor.decided(ctx)
    return ctx.expect(divisor, True) if decided is None else decided


def relied_on(ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family that is asked at last: the same call with numbers that follow from sizes as constants."""
    known = [_as_it_is(arg) for arg in args]
    if all(now is arg for now, arg in zip(known, args, strict=True)):
        return None
    return ctx.call_builtin(function, known, kwargs)


def _as_it_is(value: Value) -> Value:
    known = value.of_this_call() if isinstance(value, ScalarValue) else None
    return value if known is None else ConstantValue(known)


@rule(abs, operator.abs, kinds=(SymbolicNumber,))
def magnitude(ctx: Tracer, value: SymbolicNumber) -> Value:
    # The sign is decided by this call, and a guard keeps it so.
    return value if value.example >= 0 else ctx.call_builtin(operator.neg, [value], {})


@rule(divmod, kinds=(SymbolicNumber, None))
@rule(divmod, kinds=(None, SymbolicNumber))
@rule(divmod, kinds=(ScalarValue, None))
@rule(divmod, kinds=(None, ScalarValue))
def quotient_and_rest(ctx: Tracer, value: Value, divisor: Value) -> Value:
    operands = [value, divisor]
    # Tensors have no ``divmod``, though both its halves, and an object's own may give what it likes.
    if not all(operand.python_type() in (int, float, bool) for operand in operands):
        ctx.stop(Kind.BUILTIN, f"`divmod` of {value.describe()} and {divisor.describe()}")
    return TupleValue([ctx.call_builtin(function, operands, {}) for function in (operator.floordiv, operator.mod)])


@rule(float, kinds=(ScalarValue,))
def to_float(ctx: Tracer, value: ScalarValue) -> Value:
    return value if value.cls is float else _combine(ctx, float, [value])


@rule(int, operator.index, kinds=(ScalarValue,))
def to_int(ctx: World, value: ScalarValue) -> Value:
    if value.cls is float:
        # Computed by Python before the graph, as it depends on nothing in it.
        if is_known_before(ctx, value):
            return computed(ctx, int, [value])
        if (known := value.of_this_call()) is not None:
            return ConstantValue(int(known))
        ctx.stop(Kind.TENSOR_VALUE, f"{value.describe()} is rounded")  # not every float has an integer
    return value if value.cls is int else _combine(ctx, int, [value])


# -- operands of tensors -----------------------------------------------------------------------------------------


def with_tensor(ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """``tensor * number``, where a tensor without dimensions in the number's place gives the same to the bit.

    Other operators take whole numbers as symbols of the graph.
    """
    name = getattr(function, "__name__", "")
    tensors = [arg for arg in args if isinstance(arg, TensorValue)]
    divides = name.strip("_") in ("truediv", "itruediv", "div", "true_divide")
    tensor, number = tensors[0].fake, _scalar(args)
    # Eager takes the number into the tensor's dtype first, and so does ``form`` below.  Half precision is left out:
    # eager computes with the number as it is there.  On GPUs eager multiplies by the reciprocal of a number.
    fits = tensor.dtype in (torch.float32, torch.float64) and not (divides and tensor.device.type != "cpu")
    fits = fits or (tensor.dtype is torch.int64 and number.cls is int and not divides)
    fits = fits and not kwargs and len(args) == 2 and len(tensors) == 1 and name.strip("_") in _WITH_TENSORS
    # A number that follows from sizes alone can be taken as it is in this call, with a guard.
    if not fits and _as_it_is(number) is not number:
        return ctx.call_builtin(function, list(map(_as_it_is, args)), kwargs)
    # Left to the families that come later: there it is a symbol of the graph.
    if number.cls is int and not (fits and number.function is None):
        return None
    if kwargs or len(args) != 2 or len(tensors) != 1 or name.strip("_") not in _WITH_TENSORS:
        ctx.stop(Kind.TENSOR_VALUE, f"`{name}` of a tensor is given {_scalar(args).describe()}", "keep it a tensor")
    if not fits:
        ctx.stop(Kind.TENSOR_VALUE, f"a {tensor.dtype} tensor meets {number.describe()}", "keep it a tensor")
    form = ctx.record(
        "to", [tensor_form(ctx, number), *map(ConstantValue, (tensor.device, tensor.dtype))], {}, method=True
    )
    if divides and args[0] is number:  # torch multiplies, too, which is rounded in another way
        return ctx.record(torch.mul, [ctx.record("reciprocal", [tensors[0]], {}, method=True), form], {})
    operands = [form if arg is number else arg for arg in args]
    if isinstance(function, type(operator.add)):
        return ctx.record(function if args[0] is not number else plain_in_place(function), operands, {})
    return ctx.call_builtin(function, operands, {})


def _scalar(args: Sequence[Value]) -> ScalarValue:
    return next(arg for arg in args if isinstance(arg, ScalarValue))


def tensor_form(ctx: World, number: Value) -> Value:
    """The number as a tensor without dimensions, or a plain number where it is known."""
    if isinstance(number, ConstantValue):
        return number
    if isinstance(number, SymbolicNumber):
        return ctx.record(torch.scalar_tensor, [number], {"dtype": ConstantValue(torch.float64)})
    assert isinstance(number, ScalarValue)
    # Made once per number.
    if number.tensor is None:
        number.tensor = _computed_form(ctx, number) if number.source is None else _given_form(ctx, number)
    return number.tensor


def as_double(number: float) -> torch.Tensor:
    """A float as the tensor that the graph takes for it."""
    return torch.tensor(number, dtype=torch.float64)


def _computed_form(ctx: World, number: ScalarValue) -> TensorValue:
    """The tensor of a number that is computed from others, by the same function on their tensors."""
    assert number.function is not None
    # Whole numbers of Python have no limit, doubles do.
    if number.cls is not float or number.function not in _IN_DOUBLES:
        ctx.stop(Kind.TENSOR_VALUE, f"{number.describe()} is used with a tensor", "keep it a tensor")
    double = ConstantValue(torch.float64)
    forms = [tensor_form(ctx, operand) for operand in number.operands]
    forms = [
        ctx.record("to", [form, double], {}, method=True) if isinstance(form, TensorValue) else form for form in forms
    ]
    made = forms[0] if number.function is float else ctx.record(_IN_DOUBLES[number.function], forms, {})
    assert isinstance(made, TensorValue)
    return made


def _given_form(ctx: World, number: ScalarValue) -> TensorValue:
    """The tensor of a number that was passed in: an input of the graph."""
    assert number.source is not None
    source = MadeSource(number.source, as_double)
    node = ctx.graph.inputs.get(source)
    if node is not None:  # the number was read before, and is another object each time
        return ctx.tensors[id(node.meta["val"])]
    # An input of the graph: before each call the float is put into a tensor, by ``as_double``.
    with ctx.graph.mode:
        fake = torch.empty((), dtype=torch.float64)
    made = TensorValue(ctx.graph.add_input(source, fake), fake, source)
    ctx.tensors[id(fake)] = made
    return made
