"""The arguments of ``compile`` checked: a graph and an example for each of its inputs, or a message that says what
would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx import GraphModule, Node

from inductor.calling import CONSTANTS, is_integer, kind
from inductor.errors import BadCall, BadInput, NotAGraph

_TRACE = "make_fx(f)(*example_inputs) of torch.fx.experimental.proxy_tensor traces"
_ANY = "compile_api.compile compiles any Python"


def graph_of(given: object) -> GraphModule:
    """The graph to compile; raises ``NotAGraph`` with advice for anything else."""
    if isinstance(given, GraphModule):
        return given
    what = f"inductor.compile takes a torch.fx.GraphModule, not {_described(given)}"
    for kinds, advice in _ADVICE:
        if isinstance(given, kinds):
            raise NotAGraph(f"{what}: {advice}")
    if callable(given):
        raise NotAGraph(f"{what}: {_TRACE} the graph of a function, or {_ANY}")
    raise NotAGraph(f"{what}: {_TRACE} one, and so do torch.fx.symbolic_trace, torch.export and aotgrad")


_ADVICE: tuple[tuple[Any, str], ...] = (
    (fx.Graph, "give torch.fx.GraphModule(module, graph), whose module holds what the graph reads"),
    (
        (torch.jit.ScriptModule, torch.jit.ScriptFunction),
        "a program of TorchScript has no FX graph; trace what it was made of",
    ),
    (
        torch.nn.Module,
        f"torch.export.export(module, example_inputs) gives a program that can be compiled here, "
        f"torch.fx.symbolic_trace(module) a graph; {_ANY}",
    ),
)


def _described(given: object) -> str:
    name = getattr(given, "__qualname__", None)
    return f"the {type(given).__name__} {name}" if isinstance(name, str) else kind(given)


def examples_of(graph: str, gm: GraphModule, given: object) -> list[Any]:
    """An example for each input; defaults stand in for what may be left out."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    names = ", ".join(node.name for node in placeholders)
    if not isinstance(given, Sequence) or isinstance(given, str | torch.Tensor | Mapping):
        raise BadCall(f"example_inputs is {kind(given)}; give a list with one value for each of {graph}({names})")
    examples = list(given)
    examples += [node.args[0] for node in placeholders[len(examples) :] if node.args]
    if len(examples) != len(placeholders):
        raise BadCall(f"{graph}({names}) has {len(placeholders)} inputs and was given {len(given)} example inputs")
    for node, example in zip(placeholders, examples, strict=True):
        _check(node, example)
    return examples


def _check(node: Node, example: object) -> None:
    """Raises where the example differs from what the graph was traced with."""
    traced, name = node.meta.get("val"), f"the example of input {node.name}"
    if isinstance(traced, torch.Tensor):
        if not isinstance(example, torch.Tensor):
            raise BadCall(f"{name} is {kind(example)}; the graph was traced with {kind(traced)}")
        if _differs(traced, example):
            raise BadInput(f"{name} is {_seen(example)}; the graph was traced with {_seen(traced)}: trace it again")
    elif isinstance(traced, torch.SymInt) and not is_integer(example):
        raise BadCall(f"{name} is {kind(example)}; the graph was traced with an integer")
    elif traced is None and node.users and not _is_value(example):
        raise BadCall(f"{name} is {kind(example)}; inputs of a graph are tensors and numbers: give what is in it")


def _is_value(example: object) -> bool:
    opaque = isinstance(example, torch.ScriptObject | torch.SymInt | torch.SymFloat | torch.SymBool | torch.Generator)
    return opaque or isinstance(example, (torch.Tensor, *CONSTANTS))


def _differs(traced: torch.Tensor, example: torch.Tensor) -> bool:
    """True if the example has another dtype, size, device or layout than the traced tensor, as far as these are
    known."""
    if traced.dtype != example.dtype or traced.dim() != example.dim():
        return True
    if any(_unequal(*sizes) for sizes in zip(traced.shape, example.shape, strict=True)):
        return True
    if hasattr(example, "fake_mode") or traced.layout != torch.strided or example.layout != torch.strided:
        return False  # a fake says what a tracer thought
    return traced.device.type != example.device.type or (bool(traced.numel()) and _lies_otherwise(traced, example))


def _lies_otherwise(traced: torch.Tensor, example: torch.Tensor) -> bool:
    strides = zip(traced.shape, traced.stride(), example.stride(), strict=True)
    return any(size != 1 and _unequal(*pair) for size, *pair in strides if isinstance(size, int))


def _unequal(left: object, right: object) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left != right


def _seen(value: torch.Tensor) -> str:
    return f"{value.dtype} of size {tuple(value.shape)} and strides {value.stride()} on {value.device.type}"
