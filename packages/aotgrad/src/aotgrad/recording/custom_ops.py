"""Functional twins of custom operators that write to their arguments, which return the new values instead.

A twin is an operator of its own, made once per operator, so that every later stage sees an ordinary functional one.
Must not know: tracing, graphs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from aotgrad.errors import Unsupported
from aotgrad.state import STATE
from aotgrad.tensors import functional
from aotgrad.torch_versions import (
    OpOverload,
    OpOverloadPacket,
    dispatch_has_kernel_for_dispatch_key,
    dispatch_kernel_for_dispatch_key_is_fallthrough,
    opname_of,
    overloadname_of,
    pytree,
    schema_of,
)

_NAMESPACE = "aotgrad_functional"


def writing_overload(func: object, args: Sequence[object], kwargs: dict[str, object]) -> OpOverload | None:
    """The overload behind a call, if it is a custom operator that writes to an argument."""
    if isinstance(func, OpOverloadPacket):
        overloads = func.overloads()
        func = getattr(func, overloads[0]) if len(overloads) == 1 else None
    if not isinstance(func, OpOverload) or func.namespace in ("aten", "prims", "prim", _NAMESPACE):
        return None
    return func if schema_of(func).is_mutable else None


def call_functional(op: OpOverload, args: Sequence[object], kwargs: dict[str, object]) -> Any:
    """Calls the twin of `op`, then writes its results to the arguments that `op` would have written to."""
    if has_no_history(op):
        with torch.no_grad():
            return _call_twin(op, args, kwargs)
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise Unsupported(f"{op} writes to its arguments while gradients are recorded", "call it under no_grad")
    return _call_twin(op, args, kwargs)


def has_no_history(op: OpOverload) -> bool:
    """True if autograd passes the operator by, because it was registered so: what it writes has no history in eager
    either."""
    name = op.name()
    registered = dispatch_has_kernel_for_dispatch_key(name, "Autograd")
    return registered and bool(dispatch_kernel_for_dispatch_key_is_fallthrough(name, "Autograd"))


def _call_twin(op: OpOverload, args: Sequence[object], kwargs: dict[str, object]) -> Any:
    given = _by_name(op, args, kwargs)
    results = functional_twin(op)(**given)
    results = results if isinstance(results, (list, tuple)) else (results,)
    names = written_names(op)
    for name, value in zip(names, results[len(results) - len(names) :], strict=True):
        if has_no_history(op):
            given[name].data.copy_(value)
            functional.hide_mutation(given[name])
        else:
            given[name].copy_(value)
    own = results[: len(results) - len(names)]
    return None if not own else own[0] if len(own) == 1 else own


def _by_name(op: OpOverload, args: Sequence[object], kwargs: dict[str, object]) -> dict[str, Any]:
    """Every argument under its name, defaults included."""
    given = dict(zip((argument.name for argument in schema_of(op).arguments), args, strict=False)) | kwargs
    return {a.name: given.get(a.name, a.default_value) for a in schema_of(op).arguments}


def parted(op: OpOverload, args: Sequence[object], kwargs: dict[str, object]) -> tuple[list[object], list[object]]:
    """The arguments that an operator writes to, and the others."""
    given, names = _by_name(op, args, kwargs), written_names(op)
    return [given[name] for name in names], [value for name, value in given.items() if name not in names]


def written_names(op: OpOverload) -> list[str]:
    return [a.name for a in schema_of(op).arguments if a.alias_info is not None and a.alias_info.is_write]


def functional_twin(op: OpOverload) -> OpOverload:
    """An operator that computes what `op` computes on copies, and returns the copies after `op`'s own results."""
    # Two threads may ask at once, and torch refuses to define a name twice.
    with STATE.defining_operators:
        return _define_twin(op)


@cache
def _define_twin(op: OpOverload) -> OpOverload:
    names = written_names(op)
    if any(str(a.type) != "Tensor" for a in schema_of(op).arguments if a.name in names):
        raise Unsupported(f"{op} writes to a list of tensors or to an optional one", "it runs eagerly")
    if any(result.alias_info is not None for result in schema_of(op).returns):
        raise Unsupported(f"{op} returns an alias of an argument", "it runs eagerly")
    name = f"{_NAMESPACE}::{op.namespace}_{opname_of(op)}_{overloadname_of(op)}"
    torch.library.define(name, _functional_schema(op, len(names)))

    def compute(**given: Any) -> Any:
        copies = {key: value.clone() if key in names else value for key, value in given.items()}
        own = op(**copies)
        own = () if own is None else own if isinstance(own, tuple) else (own,)
        everything = (*own, *(copies[key] for key in names))
        return everything[0] if len(everything) == 1 else everything

    # Explicit: traced as one operator, not taken apart into what it calls.
    torch.library.impl(name, "CompositeExplicitAutograd", compute)
    torch.library.register_fake(name, compute)
    if has_no_history(op):
        torch.library.impl(name, "Autograd", torch.library.fallthrough_kernel)
    twin: OpOverload = getattr(torch.ops, _NAMESPACE).__getattr__(name.split("::")[1]).default
    STATE.originals_of_twins[twin] = op
    return twin


def in_place(func: OpOverload) -> OpOverload | None:
    """The operator that `func` is the functional twin of; None for any other."""
    return STATE.originals_of_twins.get(func)


def _functional_schema(op: OpOverload, written: int) -> str:
    """The schema of the twin: all arguments of `op` by name, and its results followed by the written arguments."""
    taken, _, returned = str(schema_of(op)).partition("(")[2].rpartition(") -> ")
    arguments = re.sub(r"(?<=\w)\([^()]*\)", "", taken).replace("*, ", "")  # without marks of what is written
    results = ", ".join([*filter(None, [returned.strip("()")]), *["Tensor"] * written])
    return f"(*, {arguments}) -> ({results})"
