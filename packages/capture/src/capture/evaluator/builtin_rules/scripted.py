"""Calls of functions that ``torch.jit`` compiled: one node, where such a function does nothing but compute.

Its text is read for that: no print, no warning, no Python, no state.  Must not know how TorchScript runs it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Protocol

import torch

from capture.evaluator.builtin_rules.registry import rule
from capture.evaluator.world import World
from capture.operators.scripted import calling
from capture.reasons import Kind
from capture.torch_versions import is_any_autocast_enabled
from capture.values.base import Value
from capture.values.scripted import ScriptedValue, call_of_scripted

_OF_THE_LANGUAGE = frozenset(
    f"prim::{name}"
    for name in (
        "Constant", "If", "Loop", "ListConstruct", "ListUnpack", "TupleConstruct", "TupleUnpack", "TupleIndex",
        "NumToTensor", "Uninitialized", "unchecked_cast", "RaiseException", "dtype", "device", "layout", "min", "max",
        "abs", "is_cuda", "requires_grad",
    )
)  # fmt: skip
_NO_MERE_OPERATORS = frozenset(
    f"aten::{name}"
    for name in (
        "warn",
        "manual_seed",
        "seed",
        "save",
        "backward",
        "grad",
        "set_grad_enabled",
        "wait",
        "is_grad_enabled",
    )
)


@rule(call_of_scripted, kinds=(ScriptedValue,))
def call_scripted(ctx: World, function: ScriptedValue, *args: Value, **kwargs: Value) -> Value:
    if (found := _more_than_computing(function.obj)) is not None:
        ctx.stop(Kind.CALL, f"{function.describe()}, a function of torch.jit, has `{found}` in it")
    if is_any_autocast_enabled():  # TorchScript reads it when it compiles
        ctx.stop(Kind.CALL, f"{function.describe()}, a function of torch.jit, is called under autocast")
    return ctx.record(calling(function.obj), args, kwargs)


@functools.cache
def _more_than_computing(function: torch.jit.ScriptFunction) -> str | None:
    """The kind of a node in the function that is no operator and no control flow; None where there is none."""
    for node in _nodes_of(function.inlined_graph):
        kind = node.kind()
        known = kind in _OF_THE_LANGUAGE or (kind.startswith("aten::") and kind not in _NO_MERE_OPERATORS)
        if not known:
            return kind
        # A tensor of its own, which others may see and change.
        if kind == "prim::Constant" and isinstance(node.output().type(), torch.TensorType):
            return "a tensor"
    return None


class _Result(Protocol):
    def type(self) -> object: ...


class _Node(Protocol):
    """A node of TorchScript's text."""

    def kind(self) -> str: ...

    def blocks(self) -> Iterable[_Block]: ...

    def output(self) -> _Result: ...


class _Block(Protocol):
    def nodes(self) -> Iterable[_Node]: ...


def _nodes_of(block: _Block) -> Iterator[_Node]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes_of(inner)
