"""Compiled calls as data, and back without tracing: the plan, and graphs that may be needed later.

    format, digest      what it is, and that it is as it was written
    graph               the compiled graph, as the caller describes it
    plan                all that surrounds it
    later               of what trains: the operators of these graphs, and the graphs as texts
    stack, parts        of equal layers: which part is called with what, and these for each part

Must not know: how graphs are compiled or kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from aotgrad.backward.autograd_function import Boxed
from aotgrad.backward.plan import Graphs, Later, Plan
from aotgrad.calling.wrapper import Call
from aotgrad.errors import is_final
from aotgrad.facts import Facts
from aotgrad.pipeline import Compiler, compile_half
from aotgrad.plans import InferencePlan, MadeOf, StackOf, TrainingPlan, inference_call, training_call
from aotgrad.stacks.plan import StackPlan
from aotgrad.stacks.program import stack_call
from aotgrad.stored.graphs import Body, later_of, later_read
from aotgrad.stored.values import Plain, Unwritable, read, write
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import FakeTensorMode
from aotgrad.tracing.inputs import GraphInput, Signature

FORMAT = "aotgrad 7"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason for which something has no form as data."""

    reason: str


def describe(
    compiled: Call, of_compiled: Callable[[Boxed], Plain], *, later: Later | None = None
) -> dict[str, Plain] | Refusal:
    """`compiled`, made with ``describable``, as data; `of_compiled` describes its graph for inference, or forward's, or
    answers None.  ``later`` is told of each backward graph that is compiled from now on."""
    made_of: MadeOf | StackOf | None = getattr(compiled, "made_of", None)
    try:
        if isinstance(made_of, StackOf):
            parts: list[Plain] = [_body(getattr(each, "made_of", None), of_compiled, later) for each in made_of.parts]
            body: dict[str, Plain] = {"stack": write(made_of.plan), "parts": parts}
        else:
            body = _body(made_of, of_compiled, later)
    except Unwritable as error:
        return Refusal(str(error))
    return {"format": FORMAT, "digest": _digest(body), **body}


def _body(made_of: MadeOf | None, of_compiled: Callable[[Boxed], Plain], later: Later | None) -> dict[str, Plain]:
    if made_of is None:
        raise Unwritable("only a graph of plain tensors that was compiled with describable=True")
    graph = of_compiled(made_of.compiled)
    if graph is None:
        raise Unwritable("the compiled graph has no description")
    body: dict[str, Plain] = {"graph": graph, "plan": _written(made_of.plan)}
    if made_of.graphs is not None:
        body["later"] = later_of(made_of.graphs)
        made_of.graphs.later = later
    return body


def restore(
    data: object,
    *,
    take_up: Callable[[Plain], Boxed | None],
    backward: Compiler | None = None,
    later: Later | None = None,
) -> Call | None:
    """The callable that was described; None where this process cannot take it up.

    It has to be called for in the inference mode that it was compiled in.  What trains needs `backward`, which compiles
    its backward when somebody first goes back, unless ``later`` knows it compiled.
    """
    try:
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            return None
        body = {key: value for key, value in data.items() if key not in ("format", "digest")}
        if data.get("digest") != _digest(body):
            return None
        stack = read(body["stack"]) if "stack" in body else None
        bodies = [body] if stack is None else body["parts"]
        read_parts = [_parts_of(each) for each in bodies]
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError, RecursionError):
        return None
    calls = [_call(*each, take_up, backward, later) for each in read_parts]
    if stack is None:
        return calls[0]
    parts = [call for call in calls if call is not None]
    if len(parts) < len(calls) or not isinstance(stack, StackPlan):
        return None
    call = stack_call(stack, parts)
    call.made_of = StackOf(stack, parts)  # type: ignore[attr-defined]
    return call


def _parts_of(body: Body) -> tuple[InferencePlan | TrainingPlan, Plain, Graphs | None]:
    """The plan, what stands for the compiled graph, and graphs for later."""
    plan = _read(body["plan"])
    if plan.inference_mode != torch.is_inference_mode_enabled():
        raise ValueError("another inference mode")
    graphs = later_read(body["later"], plan.facts, plan.pair) if isinstance(plan, TrainingPlan) else None
    return plan, body["graph"], graphs


def _call(
    plan: InferencePlan | TrainingPlan,
    graph: Plain,
    graphs: Graphs | None,
    take_up: Callable[[Plain], Boxed | None],
    backward: Compiler | None,
    later: Later | None,
) -> Call | None:
    if isinstance(plan, TrainingPlan) and backward is None:
        return None
    inner = take_up(graph)
    if inner is None:
        return None
    if isinstance(plan, InferencePlan):
        call = inference_call(plan, inner)
    else:
        assert graphs is not None
        assert backward is not None
        graphs.later = later
        call = training_call(plan, graphs, inner, functools.partial(compile_half, compiler=backward))
    call.all_or_nothing = True  # type: ignore[attr-defined]
    call.is_final = is_final  # type: ignore[attr-defined]
    call.made_of = MadeOf(plan, inner, graphs)  # type: ignore[attr-defined]
    return call


def _digest(body: dict[str, Plain]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _written(plan: InferencePlan | TrainingPlan) -> Plain:
    """Outputs that are one object are one entry of a table."""
    distinct = {id(output): output for output in plan.facts.outputs}
    numbers = {each: number for number, each in enumerate(distinct)}
    modes: list[Plain] = [plan.with_history, plan.inference_mode, plan.casts]
    body: dict[str, Plain] = {
        "arity": plan.signature.arity,
        "inputs": [_input(entry) for entry in plan.signature.inputs],
        "constants": write(plan.signature.constants),
        "duplicates": write(plan.signature.duplicates),
        "facts": write(replace(plan.facts, outputs=tuple(distinct.values()))),
        "outputs": [numbers[id(output)] for output in plan.facts.outputs],
        "modes": modes,
    }
    if isinstance(plan, TrainingPlan):
        return {**body, "pair": write(plan.pair)}
    return {**body, "written": [*sorted(plan.written)], "without_history": plan.without_history}


def _input(entry: GraphInput) -> Plain:
    """An input; of what varies the example, by which nothing is decided any more."""
    value = entry.value
    if not isinstance(value, torch.Tensor):
        return [entry.position, value.node.hint, False, True, [], False]
    if any(type(length) is not int for length in value.shape) and entry.members:
        raise Unwritable("several arguments share memory, of sizes that vary")
    sizes, strides = (tuple(map(size_hint, layout)) for layout in (value.shape, value.stride()))
    layout = write((sizes, strides, value.dtype))
    return [entry.position, layout, entry.requires_grad, entry.is_leaf, write(entry.members), entry.view]


def _read(body: dict[str, Plain]) -> InferencePlan | TrainingPlan:
    found = {key: read(value) for key, value in body.items()}
    inputs = []
    for position, value, requires_grad, is_leaf, members, view in found["inputs"]:  # type: ignore[attr-defined]
        if isinstance(value, tuple):
            size, stride, dtype = value
            value = torch.empty_strided(size, stride, dtype=dtype, device="meta")
        inputs.append(GraphInput(position, value, requires_grad, is_leaf, members, view=view))
    given = found["constants"], found["duplicates"]
    signature = Signature(found["arity"], tuple(inputs), *given, FakeTensorMode())  # type: ignore[arg-type]
    facts = found["facts"]
    if not isinstance(facts, Facts):
        raise TypeError("no facts")
    facts = replace(facts, outputs=tuple(facts.outputs[number] for number in found["outputs"]))  # type: ignore[attr-defined]
    modes = found["modes"]
    if "pair" not in found:
        without_history = found["without_history"]
        return InferencePlan(signature, facts, frozenset(found["written"]), without_history, *modes)  # type: ignore[arg-type, call-overload, misc]
    if not isinstance(found["pair"], Plan):
        raise TypeError("no plan")
    return TrainingPlan(signature, facts, found["pair"], *modes)  # type: ignore[misc]
