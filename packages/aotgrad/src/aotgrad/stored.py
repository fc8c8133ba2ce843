"""Graphs compiled for inference as JSON data, and back without tracing.

A value is a number, a text, a truth, None or a list of values for a tuple; all else is an object of one key, its tag:
`l` a list, `f` a float that JSON has no name for, `t` a dtype, layout or memory format, `d` a device, `o` an operator,
`s` a slice, `k` one of the classes of `facts`, by name and fields.
Must not know: how graphs are compiled or kept.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import torch

from aotgrad import facts
from aotgrad.backward.autograd_function import Boxed
from aotgrad.calling.wrapper import Call
from aotgrad.pipeline import InferencePlan, inference_call
from aotgrad.torch_versions import FakeTensorMode, OpOverload
from aotgrad.tracing.inputs import GraphInput, Member, Signature

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
FORMAT = "aotgrad 1"

_CLASSES: dict[str, type] = {
    found.__name__: found
    for found in (
        facts.Step, facts.Restride, facts.Detach, facts.Data, facts.Unfollowed, facts.Followed, facts.Mutation,
        facts.Constant, facts.Argument, facts.OfInput, facts.OfResult, facts.Facts, Member,
    )
}  # fmt: skip
_TORCH = {
    f"torch.{name}": value
    for name, value in vars(torch).items()
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format)
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why something has no form as data."""

    reason: str


class _Unwritable(Exception):
    pass


def describe(compiled: Call, of_compiled: Callable[[Boxed], Plain]) -> dict[str, Plain] | Refusal:
    """`compiled`, made with ``describable``, as data; `of_compiled` describes its graph, or answers None."""
    made_of = getattr(compiled, "made_of", None)
    if made_of is None:
        return Refusal("only a graph for inference that was compiled with describable=True, whole and outside autocast")
    plan, inner = made_of
    graph = of_compiled(inner)
    if graph is None:
        return Refusal("the compiled graph has no description")
    try:
        body: dict[str, Plain] = {"graph": graph, **_written(plan)}
    except _Unwritable as error:
        return Refusal(str(error))
    return {"format": FORMAT, "digest": _digest(body), **body}


def restore(
    data: object, *, take_up: Callable[[Plain], Boxed | None], retrace: Callable[[], object] | None = None
) -> Call | None:
    """The callable that was described; None where this process cannot take it up.

    It has to be called for in the inference mode that it was compiled in.  `retrace` is not needed for inference.
    """
    try:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            return None
        body = {key: value for key, value in data.items() if key not in ("format", "digest")}
        if data.get("digest") != _digest(body):
            return None
        plan = _plan(body)
        # The wrapper makes tensors in the mode that it is built in.
        if plan.inference_mode != torch.is_inference_mode_enabled():
            return None
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError, RecursionError):
        return None
    inner = take_up(body["graph"])
    if inner is None:
        return None
    call = inference_call(plan, inner)
    call.all_or_nothing = True  # type: ignore[attr-defined]
    call.made_of = plan, inner  # type: ignore[attr-defined]
    return call


def _digest(body: dict[str, Plain]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _written(plan: InferencePlan) -> dict[str, Plain]:
    """A plan as data; outputs that are one object are one entry of a table."""
    distinct = {id(output): output for output in plan.facts.outputs}
    numbers = {each: number for number, each in enumerate(distinct)}
    return {
        "arity": plan.signature.arity,
        "inputs": [_input(entry) for entry in plan.signature.inputs],
        "constants": _write(plan.signature.constants),
        "duplicates": _write(plan.signature.duplicates),
        "facts": _write(replace(plan.facts, outputs=tuple(distinct.values()))),
        "outputs": [numbers[id(output)] for output in plan.facts.outputs],
        "written": [*sorted(plan.written)],
        "modes": [plan.without_history, plan.with_history, plan.inference_mode],
    }


def _input(entry: GraphInput) -> Plain:
    value = entry.value
    if not isinstance(value, torch.Tensor):
        raise _Unwritable("a number that varies is among the inputs")
    layout = _write((tuple(value.shape), tuple(value.stride()), value.dtype))
    return [entry.position, layout, entry.requires_grad, entry.is_leaf, _write(entry.members), entry.view]


def _plan(body: dict[str, Plain]) -> InferencePlan:
    read = {key: _read(value) for key, value in body.items() if key != "graph"}
    inputs = []
    for position, (size, stride, dtype), requires_grad, is_leaf, members, view in read["inputs"]:  # type: ignore[attr-defined]
        value = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        inputs.append(GraphInput(position, value, requires_grad, is_leaf, members, view=view))
    given = read["constants"], read["duplicates"]
    signature = Signature(read["arity"], tuple(inputs), *given, FakeTensorMode())  # type: ignore[arg-type]
    found = read["facts"]
    if not isinstance(found, facts.Facts):
        raise TypeError("no facts")
    found = replace(found, outputs=tuple(found.outputs[number] for number in read["outputs"]))  # type: ignore[attr-defined]
    return InferencePlan(signature, found, frozenset(read["written"]), *read["modes"])  # type: ignore[call-overload, misc]


def _write(value: object) -> Plain:
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]
    if type(value) is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if type(value) in (tuple, torch.Size):
        return [_write(item) for item in value]  # type: ignore[attr-defined]
    if type(value) is list:
        return {"l": [_write(item) for item in value]}
    if isinstance(value, slice):
        return {"s": [_write(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"t": str(value)}
    if isinstance(value, torch.device):
        return {"d": str(value)}
    if value is operator.getitem:
        return {"o": "getitem"}
    if isinstance(value, OpOverload):
        return {"o": str(value)}
    name = type(value).__name__
    if _CLASSES.get(name) is type(value):
        return {"k": [name, *(_write(getattr(value, each.name)) for each in fields(value))]}  # type: ignore[arg-type]
    raise _Unwritable(f"a {name} is among what the wrapper needs")


def _read(value: Plain) -> object:
    if isinstance(value, list):
        return tuple(map(_read, value))
    if not isinstance(value, dict):
        return value
    ((tag, held),) = value.items()
    if tag in ("l", "s", "k") and isinstance(held, list):
        return _made(tag, held)
    if tag in ("f", "t", "d", "o") and isinstance(held, str):
        return float(held) if tag == "f" else torch.device(held) if tag == "d" else _named(tag, held)
    raise ValueError(tag)


def _made(tag: str, held: Sequence[Plain]) -> object:
    if tag == "k":
        made: object = _CLASSES[str(held[0])](*map(_read, held[1:]))
        return made
    items = [_read(item) for item in held]
    return items if tag == "l" else slice(*items)


def _named(tag: str, name: str) -> object:
    if tag == "t":
        return _TORCH[name]
    if name == "getitem":
        return operator.getitem
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
