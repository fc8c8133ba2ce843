"""The calling convention of a compiled graph: one value of the right kind for each input, and messages for wrong calls.

The generated function checks sizes, strides, dtypes and devices itself.  This module catches what would make it fail
without a helpful message, or silently compute something else.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch.fx import GraphModule, Node

from inductor.errors import BadCall, BadInput
from inductor.ir.index import Symbol
from inductor.ir.program import Buffer, Call, Launch, Program, Ref
from inductor.torch_versions import schema_of

Boxed = Callable[[list[Any]], tuple[Any, ...]]

NUMBERS = (bool, int, float, complex)
CONSTANTS = (*NUMBERS, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
"""The types of inputs that are no tensors.  A graph that is traced again has their values built in."""


@dataclass(frozen=True, slots=True)
class Calling:
    """The inputs of a compiled graph: their names, and which of them are tensors and integers as far as that is known.
    ``held`` are the parameters within the graph that require grad, ``written`` the inputs that it writes,
    ``defaults`` the values of the last inputs, which may be left out."""

    graph: str
    names: tuple[str, ...] = ()
    tensors: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    held: tuple[str, ...] = ()
    written: tuple[int, ...] = ()
    defaults: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.graph}({', '.join(self.names)})"

    def complete(self, inputs: Sequence[object]) -> list[Any]:
        """The inputs, with defaults for those that were left out."""
        missing = len(self.names) - len(inputs)
        return [*inputs, *self.defaults[-missing:]] if 0 < missing <= len(self.defaults) else [*inputs]

    def check(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Raises ``BadCall`` or ``BadInput`` where the call cannot be right."""
        if named:
            raise BadCall(f"{self} takes its inputs by position, and got {', '.join(named)} by name")
        if len(inputs) != len(self.names):
            raise BadCall(self._miscounted(inputs))
        for position in self.tensors:
            if not isinstance(inputs[position], torch.Tensor):
                raise BadCall(f"input {self.names[position]} of {self} is {kind(inputs[position])}; give a tensor")
        for position in self.integers:
            if not is_integer(inputs[position]):
                raise BadCall(f"input {self.names[position]} of {self} is {kind(inputs[position])}; give an integer")
        # Silently without gradients would be worse than an error: the result could not be told from a constant.
        if torch.is_grad_enabled():
            for position in self.tensors:
                if inputs[position].requires_grad:
                    raise BadInput(
                        f"input {self.names[position]} of {self} requires grad, and a compiled graph computes no "
                        "gradients: call it under torch.no_grad(), give a detached tensor, or let aotgrad make graphs "
                        "of forward and backward and compile those"
                    )

        if self.written:
            self._refuse_shared(inputs)

    def _refuse_shared(self, inputs: Sequence[object]) -> None:
        """Raises where an input that the graph writes shares memory with another one: kernels are compiled as if they
        were apart."""
        spans = {position: span(inputs[position]) for position in self.tensors}
        for position in self.written:
            for other, (start, stop) in spans.items():
                if other != position and max(start, spans[position][0]) < min(stop, spans[position][1]):
                    raise BadInput(
                        f"inputs {self.names[position]} and {self.names[other]} of {self} share memory, and the graph "
                        f"writes to the former: give a copy, or examples that share memory to compile for that"
                    )

    def _miscounted(self, inputs: Sequence[object]) -> str:
        count = len(self.names)
        text = f"{self} takes {count} input{'' if count == 1 else 's'} and got {len(inputs)}"
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            return f"{text}, {kind(inputs[0])}: give what is in it one by one, or the list to `.call`"
        return text


@dataclass(frozen=True, slots=True)
class Taken:
    """The inputs that a program uses, by position: its tensors, its integers, those it does not look at, and the
    tensors that it writes."""

    tensors: tuple[int, ...] = ()
    integers: tuple[int, ...] = ()
    nothing: tuple[int, ...] = ()
    written: tuple[int, ...] = ()

    def of_first(self, count: int) -> Taken:
        """As much of it as is said of the first inputs."""
        kinds = (self.tensors, self.integers, self.nothing, self.written)
        return Taken(*(tuple(at for at in places if at < count) for places in kinds))


def taken_by(program: Program | None) -> Taken:
    """The inputs that a program uses; nothing is known of a graph without one, which runs operator by operator."""
    if program is None:
        return Taken()
    given, written = tuple(enumerate(program.inputs)), _written(program)
    return Taken(
        tuple(at for at, each in given if isinstance(each, Buffer)),
        tuple(at for at, each in given if isinstance(each, Symbol)),
        tuple(at for at, each in given if each is None),
        tuple(at for at, each in given if isinstance(each, Buffer) and each.name in written),
    )


def calling_of(name: str, gm: GraphModule, taken: Taken) -> Calling:
    """The calling convention of the compiled form of ``gm``."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    return Calling(
        name,
        tuple(str(node.name) for node in placeholders),
        taken.tensors,
        taken.integers,
        _held(gm),
        taken.written,
        # A placeholder's only argument is its default value.
        tuple(node.args[0] for node in placeholders if node.args),
    )


def _written(program: Program) -> frozenset[str]:
    """The buffers that kernels, or operators which say so, write to."""
    names: set[str] = set()
    for step in program.steps:
        if isinstance(step, Launch):
            pairs = zip(step.buffers, step.kernel.arguments, strict=True)
            names.update(name for name, argument in pairs if argument.role != "in")
        elif isinstance(step, Call):
            names.update(step.into)
            given = zip(schema_of(step.target).arguments, step.args, strict=False)
            written = [value for argument, value in given if argument.alias_info and argument.alias_info.is_write]
            names.update(value.name for value in written if isinstance(value, Ref))
    return frozenset(names)


def _held(gm: GraphModule) -> tuple[str, ...]:
    """The parameters that the graph itself holds and would be differentiated for."""
    names: list[str] = []
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = attribute(gm, str(node.target))
            names += [str(node.target)] if isinstance(value, torch.Tensor) and value.requires_grad else []
        elif node.op == "call_module":
            parameters = gm.get_submodule(str(node.target)).named_parameters(prefix=str(node.target))
            names += [name for name, parameter in parameters if parameter.requires_grad]
    return tuple(dict.fromkeys(names))


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """The addresses at which the memory of a tensor begins and ends; (0, 0) where it has none that can be shared."""
    if not tensor.numel() or tensor.device.type == "meta" or tensor.layout is not torch.strided:
        return 0, 0
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.itemsize


def check_list(given: object, graph: str, count: int) -> None:
    """Raises ``BadCall`` for an argument of ``.call`` that is no list of ``count`` inputs.  A tuple will do, though it
    cannot be emptied."""
    if isinstance(given, tuple) and len(given) == count:
        return
    text = f"{graph}.call takes a list of {count} input{'' if count == 1 else 's'} and got"
    if isinstance(given, list | tuple):
        raise BadCall(f"{text} a {type(given).__name__} of {len(given)}") from None
    raise BadCall(f"{text} {kind(given)}") from None


def attribute(gm: torch.nn.Module, path: str) -> Any:
    return operator.attrgetter(path)(gm)


Fixed: TypeAlias = tuple[tuple[int, str, object], ...]
"""Inputs whose values are part of the graph: where each stands, its name and its value."""


def fixed_in(gm: GraphModule, examples: Sequence[object], taken: Taken) -> Fixed:
    """The inputs whose values became part of the graph because it was traced again with plain values."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    given = ((at, placeholders[at], examples[at]) for at in taken.nothing)
    return tuple((at, str(node.name), value) for at, node, value in given if _is_read(node) and _is_constant(value))


def _is_constant(value: object) -> bool:
    return isinstance(value, CONSTANTS)


def with_constants(call: Boxed, fixed: Fixed) -> Boxed:
    """``call``, which raises for values other than those that are part of the graph."""
    if not fixed:
        return call

    def checked(inputs: list[object]) -> tuple[Any, ...]:
        try:
            for position, name, value in fixed:
                if not _same(inputs[position], value):
                    raise BadInput(
                        f"input {name} was {value!r} when the graph was compiled and is {inputs[position]!r}: numbers "
                        "are part of a graph; give it as a tensor, or compile once for each"
                    )
        except (IndexError, TypeError):
            pass  # they are too few, or no list: the graph itself says so
        return call(inputs)

    return checked


def _is_read(node: Node) -> bool:
    """True for an input that has users and no ``val`` of a tracer: the graph was traced again with its example's
    value."""
    return bool(node.users) and "val" not in node.meta


def _same(value: object, expected: object) -> bool:
    """True if a value equals the one compiled for, with its type; floats by their text, as NaN equals itself there and
    -0.0 is not 0.0."""
    if type(value) is not type(expected):
        return False
    return repr(value) == repr(expected) if isinstance(expected, float | complex) else bool(value == expected)


def is_integer(value: object) -> bool:
    return isinstance(value, int | torch.SymInt)


def kind(value: Any) -> str:
    """The description of a value in the words of a message."""
    if value is None:
        return "None"
    if isinstance(value, NUMBERS):
        return f"the {type(value).__name__} {value!r}"
    if isinstance(value, torch.Tensor):
        return f"a tensor, {value.dtype} of size {tuple(value.shape)}"
    home, name = type(value).__module__, type(value).__qualname__
    name = name if home == "builtins" or name.startswith(f"{home}.") else f"{home}.{name}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
