"""The start of a user's Triton kernel: planned on values, recorded as one operator."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.builtin_rules.scalars import tensor_form
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.operators.triton_kernels.launches import is_interpreted
from capture.operators.triton_kernels.planning import Measured, Refused, covers, fills_its_memory, plan
from capture.reasons import Kind
from capture.recording.graph import memory_of
from capture.recording.operations import symbol_of
from capture.values.base import NotConstant, Value, realize
from capture.values.constant import NONE, ConstantValue
from capture.values.mapping import DictValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.triton_kernel import KernelValue, StartedValue, start
from capture.values.user_object import UserObject


@rule(start, kinds=(KernelValue, None))
def start_kernel(ctx: World, kernel: KernelValue, grid: Value, /, *args: Value, **kwargs: Value) -> Value:
    try:
        with ctx.effects.watched() as changed:
            target, tensors, *numbers = plan(_Evaluator(ctx), kernel.obj, grid, args, kwargs)
    except Refused as reason:
        hint = "what is before and behind it is compiled"
        ctx.stop(Kind.TRITON, f"a Triton kernel is started as it is: {reason}", hint)
    # A grid is called for each configuration, which is more often than in eager.
    if any(value.source is not None for value in changed):
        ctx.stop(Kind.TRITON, "the grid of a Triton kernel is a function that changes objects outside of it")
    ctx.record(target, [*tensors, *(ListValue(list(items)) for items in numbers)], {})
    return NONE if is_interpreted(kernel.obj) else StartedValue()


class _Evaluator:
    """The caller of kernels in evaluated code: an item is a value."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx

    def seen(self, item: Value) -> Any:
        value = realize(self.ctx, item)
        if isinstance(value, TensorValue):
            return value.fake
        if isinstance(value, SymbolicNumber):
            return value.example
        if isinstance(value, ScalarValue):
            return self._number(value)
        if isinstance(value, UserObject):
            return self._object(value)
        try:
            return value.constant()
        except NotConstant:
            raise Refused(f"it is given {value.describe()}") from None

    def _number(self, value: ScalarValue) -> object:
        """A data-dependent number: known now, a float in a tensor, or a symbol."""
        number = value.of_this_call()
        if number is not None:
            return number
        if value.cls is float:
            return Measured(tensor_form(self.ctx, value))
        symbol = symbol_of(self.ctx, value)
        if symbol is None:
            raise Refused(f"it is given {value.describe()}")
        return symbol.example

    def _object(self, value: UserObject) -> object:
        """An object of Triton's, a constant of the operator, which is relied on as that very object."""
        # The operator holds the object itself, which is not there yet, or not as it will be.
        if value.source is None or value.overlay:
            raise Refused(f"it is given {value.describe()}")
        self.ctx.guard(value.source, GuardKind.IS, value.obj)
        self.ctx.varies(f"a kernel is given {value.describe()}")
        return value.obj

    def item(self, constant: Any) -> Value:
        made: Value = self.ctx.literal(constant)
        return made

    def holder(self, item: Value, *, written: bool) -> Value | None:
        """The tensor to hand over for one that views its memory."""
        fake = self.seen(item)
        memory = memory_of(fake)
        # The graph's inputs are handed over themselves; views of them are made within the operator.
        inputs = [self.ctx.tensors[id(given)] for given in self.ctx.graph.inputs_over.get(memory, ())]
        if inputs:
            return self._input(item, inputs, written=written)
        # Made in the graph, where fakes and tensors fill their memory alike.
        if covers(fake):
            return item
        return next((v for v in self.ctx.tensors.values() if memory_of(v.fake) == memory and covers(v.fake)), None)

    def _input(self, item: Value, inputs: Sequence[TensorValue], *, written: bool) -> Value | None:
        """One of the inputs over the tensor's memory: the tensor itself or, where there is no other, what it views."""
        given = inputs[0]
        if not written and any(value is realize(self.ctx, item) for value in inputs):
            return item
        # Whose memory is more than what is passed, or held by two inputs: nobody could make the view from one of them.
        if len(inputs) > 1 or (written and not (covers(given.fake) and covers(given.obj))):
            return None
        if written:
            assert given.source is not None
            text = f"{given.source.expression()} is all that is in its memory"
            self.ctx.guard(given.source, GuardKind.PYTHON, fills_its_memory, text=text)
        return given

    def layout(self, item: Value, holder: Value) -> list[Value]:
        value, behind = realize(self.ctx, item), realize(self.ctx, holder)
        assert isinstance(value, TensorValue)
        assert isinstance(behind, TensorValue)
        strides = [self._asked(value, "stride", stride, dim) for dim, stride in enumerate(value.fake.stride())]
        begins = [self._asked(each, "storage_offset", each.fake.storage_offset()) for each in (value, behind)]
        return [*value.shape(self.ctx).elements(self.ctx), *strides, self.ctx.call_builtin(operator.sub, begins, {})]

    def _asked(self, value: TensorValue, question: str, answer: Any, *dim: int) -> Value:
        """A stride or an offset: a number, or a symbol that the graph asks the tensor for."""
        if isinstance(answer, int):
            return ConstantValue(answer)
        # A symbolic stride is a question to the tensor, put into the graph.
        asked: Value = self.ctx.record(question, [value, *map(ConstantValue, dim)], {}, method=True)
        return asked

    def call(self, function: Any, meta: Mapping[str, Value]) -> Value:
        given = DictValue()
        for name, item in meta.items():
            given.put(self.ctx, ConstantValue(name), item)
        return realize(self.ctx, self.ctx.call(function, [given]))

    def is_function(self, item: Value) -> bool:
        return not isinstance(realize(self.ctx, item), (TupleValue, ListValue, ConstantValue))

    def parts(self, item: Value) -> list[Value]:
        value = realize(self.ctx, item)
        if not isinstance(value, (TupleValue, ListValue)) or value.python_type() not in (tuple, list, torch.Size):
            raise Refused("its grid is not one to three whole numbers")
        return value.elements(self.ctx)
