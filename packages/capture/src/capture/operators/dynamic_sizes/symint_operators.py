"""Torch's operators that take an ``int`` for a size, defined once more with a ``SymInt``.

Each is torch's own operator under the same name in a namespace of ours: the schema says ``SymInt`` where torch's says
``int``, and a fake of the result is told over symbols.  For a backend it is a call of a library.
They are defined when the first is asked for, as few programs need one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from capture.operators.definitions import install, operator_for
from capture.torch_versions import OpOverload, OpOverloadPacket, schema_of

NAMESPACE = "symint"
Size = Any
"""A number, or the symbol for one."""
Definition = Callable[[], Any]

_DEFINITIONS: dict[object, tuple[str, Definition]] = {}


def defines(name: str, *functions: object) -> Callable[[Definition], Definition]:
    """Registers what defines an operator, which stands for functions of torch's where their lengths vary."""

    def register(definition: Definition) -> Definition:
        _DEFINITIONS.update(dict.fromkeys(functions or (name,), (name, definition)))
        return definition

    return register


def operator_of(function: object) -> OpOverloadPacket | None:
    """The operator that stands for a function of torch's, or the one of this name."""
    found = next((entry for known, entry in _DEFINITIONS.items() if known is function or known == function), None)
    return None if found is None else _defined(*found)


def define_all() -> None:
    """Defines all operators, for whoever reads a graph that another process wrote."""
    for name, definition in _DEFINITIONS.values():
        _defined(name, definition)


def _defined(name: str, definition: Definition) -> OpOverloadPacket:
    def define() -> str:
        definition()
        return f"{NAMESPACE}::{name}"

    return operator_for((name, definition), define)


def define(operator: OpOverload, fake_kernel: Callable[..., Any], computes: Callable[..., object] | None = None) -> str:
    """Defines one of torch's operators with symbols for its numbers, and gives the name.

    ``fake_kernel`` computes on fake tensors, and ``computes``, where it is given, in place of the operator.
    """
    schema = re.sub(r"^aten::", "", re.sub(r"\bint\b", "SymInt", str(schema_of(operator))))
    name = f"{NAMESPACE}::{schema[: schema.index('(')]}"
    define_as(name, schema[schema.index("(") :], computes or operator, fake_kernel)
    return name


def overloads_of(name: str) -> list[OpOverload]:
    """The overloads of an operator, but for those that write to ``out=``."""
    packet = getattr(torch.ops.aten, name)
    return [getattr(packet, overload) for overload in packet.overloads() if "out" not in overload]


def define_as(name: str, schema: str, computes: Callable[..., object], fake_kernel: Callable[..., object]) -> None:
    """Defines an operator of ours, marked as one that follows the rules for being traced."""
    install(name, schema, computes, fake_kernel, tags=(torch.Tag.pt2_compliant_tag,))
