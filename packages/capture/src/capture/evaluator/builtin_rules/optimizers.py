"""Rules for what torch's optimizers ask of C besides operations."""

from __future__ import annotations

from capture.evaluator.builtin_rules.registry import rule
from capture.reasons import Kind
from capture.torch_versions import get_value, group_tensors_by_device_and_dtype
from capture.values.base import Tracer, Value, realize
from capture.values.constant import FALSE, ConstantValue
from capture.values.mapping import DictValue
from capture.values.sequence import ListValue, TupleValue
from capture.values.tensor import TensorValue


@rule(group_tensors_by_device_and_dtype, kinds=(ListValue,))
def grouped(ctx: Tracer, lists: ListValue, with_indices: Value = FALSE) -> Value:
    """The tensors of several lists side by side, by the device and dtype of the first list's."""
    columns = [realize(ctx, column).elements(ctx) for column in lists.items]
    if not columns or not columns[0]:
        ctx.stop(Kind.OPTIMIZER, "tensors are grouped where there are none, which eager refuses")
    rows: dict[object, list[int]] = {}
    for index, tensor in enumerate(columns[0]):
        tensor = realize(ctx, tensor)
        if not isinstance(tensor, TensorValue):
            return ctx.stop(Kind.OPTIMIZER, "tensors are grouped among which there is something else")
        rows.setdefault((tensor.fake.device, tensor.fake.dtype), []).append(index)
    made = DictValue()
    for key, chosen in rows.items():
        picked = [ListValue([column[index] for index in chosen] if column else []) for column in columns]
        indices = ListValue([ConstantValue(index) for index in chosen] if with_indices.truth(ctx) else [])
        made.put(ctx, ctx.literal(key), TupleValue([ListValue(picked), indices]))
    return made


# -- numbers that are read out of tensors ------------------------------------------------------------------------


@rule(get_value, kinds=(TensorValue,))
def step_as_number(ctx: Tracer, step: TensorValue) -> Value:
    """The step as a double without dimensions, which takes part in a graph as a Python float does in eager."""
    return ctx.record("double", [step], {}, method=True)


@rule(get_value, kinds=(None,))
def number_as_it_is(ctx: Tracer, number: Value) -> Value:
    return number
