"""The namespace of a wrapper as plain data: functions of a table by their names in it, operators, kernels by the plans
of their runs, tensors that the graph holds by their numbers, everything else by its value.

No name is imported and nothing is evaluated: a function that is not in the table cannot be called from the disk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from inductor.assemble import BuiltKernels
from inductor.codegen.called import DIRECT, NAMESPACE, raise_outside
from inductor.codegen.plans import Plan, PlannedKernel, PlannedStretch
from inductor.codegen.wrapper import Wrapper
from inductor.errors import ParseError
from inductor.ir.plain import Plain, Reader, Unwritable, Writer
from inductor.torch_versions import OpOverload, cuda_getCurrentRawStream, cuda_getDevice, set_grad_enabled

FUNCTIONS: Mapping[str, Any] = {
    **{f"inductor.{name}": value for name, value in NAMESPACE.items()},
    **{f"torch.{function.__name__}": function for function in DIRECT.values()},
    "inductor.raise_outside": raise_outside,
    "math.sqrt": math.sqrt,
    "torch.set_grad_enabled": set_grad_enabled,
    "torch.cuda.device": torch.cuda.device,
    "torch.cuda.current": cuda_getDevice,
    "torch.cuda.stream_of": cuda_getCurrentRawStream,
}
"""The functions that a wrapper may call beside operators and kernels, by the names that files use for them."""


def written(
    wrapper: Wrapper, built: BuiltKernels, constants: Sequence[torch.Tensor], operators: Sequence[Any], writer: Writer
) -> dict[str, Plain]:
    """The objects behind a wrapper's names as plain data, but for those that every wrapper has."""
    # By identity: tensors among them have no equality to look up by.
    known = {id(value): name for name, value in FUNCTIONS.items()}
    held = {id(tensor): number for number, tensor in enumerate(constants)}
    launchers = {id(launch): name for name, launch in built.launchers.items()}
    direct = {id(found.direct): found for found in operators if hasattr(found, "direct")}

    def one(name: str, value: object) -> Plain:
        if name in wrapper.plans:
            return ["run", _plan_written(wrapper.plans[name])]
        if (number := held.get(id(value))) is not None:
            return ["constant", number]
        if (launcher := launchers.get(id(value))) is not None:
            return ["launcher", launcher]
        if (function := known.get(id(value))) is not None:
            return ["function", function]
        if (operator := direct.get(id(value))) is not None:
            return ["direct", writer.write(operator)]
        if callable(value) and not isinstance(value, OpOverload | torch.dtype):
            raise Unwritable(f"it calls {value!r:.80}, which has no name on disk")
        return ["value", writer.write(value)]

    return {name: one(name, value) for name, value in wrapper.namespace.items() if NAMESPACE.get(name) is not value}


def read(
    names: Mapping[str, Any], built: BuiltKernels, constants: Sequence[torch.Tensor], reader: Reader
) -> dict[str, Any]:
    """The namespace that ``written`` wrote; raises where this process lacks a part of it."""
    # Kinds are few and fixed; a name in a file is looked up in a table and never imported.
    namespace: dict[str, Any] = dict(NAMESPACE)
    for name, (kind, held) in names.items():
        if kind == "run":
            namespace[name] = built.run(name, _plan_read(held))
        elif kind == "constant":
            namespace[name] = constants[held]
        elif kind == "launcher":
            namespace[name] = built.launchers[held]
        elif kind == "function":
            namespace[name] = FUNCTIONS[held]
        elif kind == "direct":
            operator: Any = reader.read(held)
            namespace[name] = operator.direct
        elif kind == "value":
            namespace[name] = reader.read(held)
        else:
            raise ParseError(f"{name} is a {kind}, which means nothing")
    return namespace


def _plan_written(plan: Plan) -> Plain:
    stretches: list[Plain] = []
    for stretch in plan.stretches:
        waves: list[Plain] = [[_step(kernel) for kernel in wave] for wave in stretch.waves]
        stretches.append([stretch.team, waves])
    return [plan.pointers, plan.integers, plan.long, stretches]


def _step(kernel: PlannedKernel) -> Plain:
    return [kernel.function, kernel.shared, [*kernel.pointers], [*kernel.integers]]


def _plan_read(given: Any) -> Plan:
    pointers, integers, long, stretches = given
    return Plan(pointers, integers, long, tuple(_stretch_read(*stretch) for stretch in stretches))


def _stretch_read(team: bool, waves: Any) -> PlannedStretch:
    read = (
        tuple(PlannedKernel(name, shared, tuple(places), tuple(numbers)) for name, shared, places, numbers in wave)
        for wave in waves
    )
    return PlannedStretch(team, tuple(read))
