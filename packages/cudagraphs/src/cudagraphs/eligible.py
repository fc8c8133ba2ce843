"""Checks before anything runs that a call may be recorded: the operators of a graph, the inputs of a call.

Must not know trees or recordings.  What only shows while recording is found there (``record.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .driver import Driver
from .errors import CannotRecord, CudaGraphsError, Refusal
from .storage import PLAIN
from .torch_versions import OpOverload, schema_of

_UNSAFE_TAGS = {
    torch.Tag.dynamic_output_shape: Refusal.DYNAMIC_SHAPE,
    torch.Tag.data_dependent_output: Refusal.DATA_DEPENDENT,
}


def check_inputs(driver: Driver, inputs: Sequence[object]) -> None:
    """Raises CannotRecord for an input that no recording could take."""
    for index, value in enumerate(inputs):
        if not driver.is_tensor(value):
            if not isinstance(value, PLAIN):
                raise CannotRecord(Refusal.UNKNOWN_VALUE, f"input {index} is a {type(value).__qualname__}")
        elif driver.on_cpu(value):
            if driver.view(value).shape != () and not driver.readable(value):
                raise CannotRecord(Refusal.CPU_INPUT, f"input {index} of shape {driver.view(value).shape}")
        elif not driver.on_device(value):
            raise CannotRecord(Refusal.OTHER_DEVICE, f"input {index}")
        elif driver.requires_grad(value):
            raise CannotRecord(Refusal.NEEDS_GRAD, f"input {index} requires grad")


def check_graph(graph_module: torch.fx.GraphModule) -> None:
    """Raises CannotRecord for the first operator that cannot be part of a recording, with its name and line."""
    if not isinstance(graph_module, torch.fx.GraphModule):
        what = type(graph_module).__name__
        raise CudaGraphsError(f"cudagraphs.check_graph takes a torch.fx.GraphModule, not a {what}")
    for node in graph_module.graph.nodes:
        if node.op not in ("call_function", "call_method", "call_module"):
            continue
        for tag in getattr(node.target, "tags", ()):
            if tag in _UNSAFE_TAGS:
                raise CannotRecord(_UNSAFE_TAGS[tag], f"operator {node.target}", _line(node))
        if any(_in_host_memory(value) for value in _values(node)):
            raise CannotRecord(Refusal.CPU_OPERATOR, f"operator {node.target}", _line(node))
        # Even a number: the host would write it once, while recording, and at no replay.
        if any(_is_on_cpu(value) for written in _written_by(node) for value in _values(written)):
            what = f"operator {node.target}, which writes to the CPU's memory: a replay would not"
            raise CannotRecord(Refusal.CPU_OPERATOR, what, _line(node))


def written_inputs(graph_module: torch.fx.GraphModule) -> set[int]:
    """The inputs that an operator of the graph writes to, by their position."""
    positions = {node: index for index, node in enumerate(graph_module.graph.find_nodes(op="placeholder"))}
    written = (one for node in graph_module.graph.nodes for one in _written_by(node))
    return {positions[one] for one in written if one in positions}


def _written_by(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The arguments that an operator writes to, by its schema."""
    if not isinstance(node.target, OpOverload):
        return
    schema = schema_of(node.target)
    given = [*zip(schema.arguments, node.args, strict=False)]
    given += [(argument, node.kwargs.get(argument.name)) for argument in schema.arguments]
    for argument, value in given:
        values = value if isinstance(value, list | tuple) else [value]
        if argument.is_write:
            yield from (one for one in values if isinstance(one, torch.fx.Node))


def _values(node: torch.fx.Node) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, list | tuple) else [value]


def _in_host_memory(value: Any) -> bool:
    """True for a CPU tensor with dimensions.  A number in a 0-d tensor is harmless: kernels take it as an argument, and
    it is the same at every replay."""
    return _is_on_cpu(value) and value.dim() > 0


def _is_on_cpu(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _line(node: torch.fx.Node) -> str:
    """The line of the program that the operator comes from, as the maker of the graph has noted it on the node."""
    if "location" in node.meta:
        return str(node.meta["location"])
    lines = [line.strip() for line in (node.stack_trace or "").splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else ""
