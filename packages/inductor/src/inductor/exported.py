"""Programs of ``torch.export``: the graph compiled, called as the program is called.

A program keeps its parameters, buffers and constants beside its graph, whose first inputs they are; what the graph
changes of them, and of the caller's tensors, comes back as further outputs.  Programs are known by their class's name:
whoever has one has imported torch.export, and nobody else waits for that.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import GraphModule, Node

from inductor.calling import kind
from inductor.compiled import CompiledGraph
from inductor.errors import BadCall, BadInput, UnsupportedGraph
from inductor.report import Report
from inductor.torch_versions import pytree


class Program(Protocol):
    """The parts of an ``ExportedProgram`` that are read."""

    @property
    def graph_module(self) -> GraphModule: ...
    @property
    def graph_signature(self) -> Any: ...
    @property
    def state_dict(self) -> Mapping[str, Any]: ...
    @property
    def constants(self) -> Mapping[str, Any]: ...
    @property
    def call_spec(self) -> Any: ...
    @property
    def range_constraints(self) -> Mapping[Any, Any]: ...


def is_program(given: object) -> bool:
    """True for an ``ExportedProgram``, known by the name of its class."""
    return any(
        cls.__name__ == "ExportedProgram" and cls.__module__.startswith("torch.export") for cls in type(given).__mro__
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range of sizes that a program was exported for, along one axis of one of the caller's inputs."""

    position: int
    name: str
    axis: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Convention:
    """The calling convention of a program.  Each input of the graph is a value that the program holds, or one of the
    caller's (its number); ``written`` says for the first outputs which input they are the new value of."""

    sources: tuple[Any, ...]
    given: Any
    named: tuple[str, ...]
    returned: Any
    written: tuple[int | None, ...]
    bounds: tuple[Bounds, ...]


class _Caller:
    """The place of one of the caller's values among those that the program holds."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def convention_of(program: Program) -> Convention:
    """The calling convention that a program's signature describes."""
    sources, callers = _sources(program)
    # Inputs of the graph by name, and by what the program calls them: outputs say "new value of" by either.
    places = {
        spec.arg.name: at for at, spec in enumerate(program.graph_signature.input_specs) if hasattr(spec.arg, "name")
    }
    targets = {
        spec.target: places[spec.arg.name]
        for spec in program.graph_signature.input_specs
        if spec.target is not None and hasattr(spec.arg, "name")
    }
    written = tuple(_written(spec, targets, places) for spec in program.graph_signature.output_specs)
    spec = program.call_spec
    named = tuple(_arguments(spec.in_spec)[1])
    return Convention(tuple(sources), spec.in_spec, named, spec.out_spec, written, tuple(_bounds(program, callers)))


def _sources(program: Program) -> tuple[list[Any], list[tuple[int, Node]]]:
    """The source of each input of the graph, and the inputs that are the caller's."""
    sources: list[Any] = []
    callers: list[tuple[int, Node]] = []
    placeholders = program.graph_module.graph.find_nodes(op="placeholder")
    for spec, node in zip(program.graph_signature.input_specs, placeholders, strict=True):
        what = spec.kind.name
        if what == "USER_INPUT":
            callers.append((len(callers), node))
            sources.append(_Caller(len(callers) - 1))
        elif what in _HELD:
            # Buffers that are not persistent are among the constants.
            held = program.state_dict if spec.target in program.state_dict else program.constants
            sources.append(held[spec.target])
        else:
            raise UnsupportedGraph(f"an input {spec.arg} of an exported program that is a {what.lower()}")
    return sources, callers


_HELD = frozenset(("PARAMETER", "BUFFER", "CONSTANT_TENSOR", "CUSTOM_OBJ"))
"""Kinds of inputs and outputs, by the names of torch.export's enums."""
_CHANGED = frozenset(("BUFFER_MUTATION", "PARAMETER_MUTATION"))
_RETURNED = frozenset(("USER_OUTPUT", "LOSS_OUTPUT"))


def _written(spec: Any, targets: Mapping[str, int], places: Mapping[str, int]) -> int | None:
    """The input that an output is the new value of; None for a result."""
    what = spec.kind.name
    if what in _RETURNED:
        return None
    if what in _CHANGED:
        return targets[spec.target]
    if what == "USER_INPUT_MUTATION":
        return places[spec.target]
    raise UnsupportedGraph(f"an output {spec.arg} of an exported program that is a {what.lower()}")


def _bounds(program: Program, callers: Sequence[tuple[int, Node]]) -> Iterator[Bounds]:
    for number, node in callers:
        value = node.meta.get("val")
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if not isinstance(size, torch.SymInt):
                continue
            limits = program.range_constraints.get(size.node.expr)
            if limits is not None:
                yield Bounds(number, str(node.name), axis, _whole(limits.lower, 0), _whole(limits.upper, 1 << 62))


def _whole(limit: Any, otherwise: int) -> int:
    return int(limit) if getattr(limit, "is_Integer", False) else otherwise


class CompiledProgram:
    """A compiled program, called as the program was: any nest of tensors in and out.  It computes with the program's
    own parameters and buffers, and writes those that the program writes."""

    def __init__(self, graph: CompiledGraph, convention: Convention) -> None:
        self.graph, self.convention = graph, convention
        self._silent = False

    @property
    def report(self) -> Report:
        return self.graph.report

    @property
    def source(self) -> str:
        return self.graph.source

    @property
    def _name(self) -> str:
        return "the program" if self.graph.calling is None else self.graph.calling.graph

    def __call__(self, *args: object, **kwargs: object) -> Any:
        how = self.convention
        given = self._flat(args, kwargs)
        inputs = [given[source.number] if isinstance(source, _Caller) else source for source in how.sources]
        self._mind_gradients(given)
        with torch.no_grad():
            # New values come first among the outputs, the caller's own behind them.
            outputs = self.graph(*inputs)
            for target, value in zip(how.written, outputs, strict=False):
                if target is not None:
                    inputs[target].copy_(value)
        results = [value for target, value in zip(how.written, outputs, strict=True) if target is None]
        return pytree.tree_unflatten(results, how.returned)

    def _flat(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[Any]:
        """The caller's arguments as a flat list; raises for another nesting or sizes out of range."""
        spec = self.convention.given
        # Keywords in another order are the same call; the nest compares them in order.
        if kwargs and set(self.convention.named) == set(kwargs):
            kwargs = {name: kwargs[name] for name in self.convention.named}
        leaves, found = pytree.tree_flatten((args, kwargs))
        if found != spec:
            raise BadCall(f"{self._name} was exported for arguments {_nest(spec)} and called with {_nest(found)}")
        # Torch checks these in the program; the graph alone would take any size.
        for bound in self.convention.bounds:
            value = leaves[bound.position]
            if isinstance(value, torch.Tensor) and bound.axis < value.dim():
                size = value.size(bound.axis)
                if not bound.least <= size <= bound.most:
                    most = "" if bound.most == 1 << 62 else f" and at most {bound.most}"
                    raise BadInput(
                        f"input {bound.name} has {size} elements along axis {bound.axis}; the program was exported for "
                        f"at least {bound.least}{most}"
                    )
        return leaves

    def _mind_gradients(self, given: Sequence[object]) -> None:
        """Gradients of the caller's are refused; those of the program's own parameters are told of once."""
        if not torch.is_grad_enabled():
            return
        for value in given:
            if isinstance(value, torch.Tensor) and value.requires_grad:
                raise BadInput(f"{kind(value)} requires grad, and a compiled program computes no gradients: {_NO_GRAD}")
        held = any(isinstance(value, torch.Tensor) and value.requires_grad for value in self.convention.sources)
        if held and not self._silent:
            self._silent = True
            warnings.warn(
                f"parameters of {self._name} require grad, and a compiled program computes no gradients: {_NO_GRAD}",
                UserWarning,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        return f"<compiled program, {self.graph!r}>"


_NO_GRAD = "call it under torch.no_grad(), or train the module and export it again"


def _nest(spec: object) -> str:
    """The nesting of a call's arguments, more readable than torch's own text."""
    args, kwargs = _arguments(spec)
    texts = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"({', '.join(texts)})"


def _arguments(spec: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    # The nest filled with stars: so a message shows what was expected.
    args, kwargs = pytree.tree_unflatten([_Leaf()] * spec.num_leaves, spec)
    return args, kwargs


class _Leaf:
    def __repr__(self) -> str:
        return "*"


def compile_exported(
    program: Program, compile_graph: Callable[[GraphModule, list[Any]], CompiledGraph]
) -> CompiledProgram:
    """The program's graph compiled for the sizes and constants that it was exported with."""
    convention = convention_of(program)
    examples = [
        node.meta.get("val") if isinstance(source, _Caller) else source
        for node, source in zip(
            program.graph_module.graph.find_nodes(op="placeholder"), convention.sources, strict=True
        )
    ]
    return CompiledProgram(compile_graph(program.graph_module, examples), convention)
