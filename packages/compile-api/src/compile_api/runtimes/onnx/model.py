"""A whole ATen graph as an ONNX model: the builder that rules write to, and the loop that asks them.

A rule sees a node and adds ONNX operators; it finds operands by FX node and says which name its result has.  What is
here knows types and names; what an operator means stands in ``rules``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx

from compile_api.runtimes.onnx.nodes import dtype_of, sizes_of

OPSET = 20
DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "FLOAT",
    torch.float64: "DOUBLE",
    torch.float16: "FLOAT16",
    torch.int64: "INT64",
    torch.int32: "INT32",
    torch.int8: "INT8",
    torch.uint8: "UINT8",
    torch.bool: "BOOL",
}
"""The types that cross the border; the values are names in ``onnx.TensorProto``."""

Name: TypeAlias = str
Rule: TypeAlias = Callable[["Builder", fx.Node], "Name | Sequence[Name | None]"]
RULES: dict[Any, Rule] = {}


def rule(*targets: object) -> Callable[[Rule], Rule]:
    """Registers how ATen operators are written in ONNX."""

    def register(function: Rule) -> Rule:
        for target in targets:
            RULES[target] = function
        return function

    return register


class Builder:
    """The ONNX nodes, constants and names so far."""

    def __init__(self) -> None:
        self.onnx = importlib.import_module("onnx")
        self.numpy = importlib.import_module("numpy")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.names: dict[fx.Node, Any] = {}
        self._count = 0

    # -- names ----------------------------------------------------------------------------------------------------

    def fresh(self, hint: str) -> Name:
        self._count += 1
        return f"{hint}_{self._count}"

    def of(self, operand: Any, dtype: torch.dtype | None = None) -> Name:
        """The name of an operand: a node's, or a constant made of a plain value; cast where ``dtype`` differs."""
        if isinstance(operand, fx.Node):
            name = self.names[operand]
            return name if dtype is None or dtype_of(operand) == dtype else self.cast(name, dtype)
        return self.constant(operand, dtype or _natural(operand))

    def constant(self, value: Any, dtype: torch.dtype = torch.int64) -> Name:
        """The name of a new constant of the model."""
        name = self.fresh("constant")
        tensor = value.detach().cpu() if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)
        self.constants.append(self.onnx.numpy_helper.from_array(tensor.contiguous().numpy(), name))
        return name

    def cast(self, name: Name, dtype: torch.dtype) -> Name:
        return self.add("Cast", name, to=self.type_of(dtype))

    def type_of(self, dtype: torch.dtype) -> int:
        return int(getattr(self.onnx.TensorProto, DTYPES[dtype]))

    # -- operators ------------------------------------------------------------------------------------------------

    def add(self, operator: str, *inputs: Name | None, **attributes: object) -> Name:
        """An ONNX operator with one result."""
        return self.add_many(operator, 1, *inputs, **attributes)[0]

    def add_many(self, operator: str, results: int, *inputs: Name | None, **attributes: object) -> list[Name]:
        outputs = [self.fresh(operator.lower()) for _ in range(results)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(operator, [name or "" for name in inputs], outputs, **given))
        return outputs

    def reduce(self, operator: str, name: Name, axes: Sequence[int], keepdim: bool) -> Name:
        """An operator that goes along axes."""
        return self.add(operator, name, self.constant(list(axes)), keepdims=int(keepdim))

    def model(self, inputs: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> bytes:
        """Everything so far as a serialized model."""
        helper = self.onnx.helper
        made = {name for node in self.nodes for name in node.output}
        ends: list[tuple[Name, fx.Node]] = []
        for node in outputs:
            name = self.names[node]
            # What is no operator's result, or an output already, needs a name of its own.
            if name not in made or any(name == other for other, _ in ends):
                name = self.add("Identity", name)
            ends.append((name, node))
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info(self.names[n], self.type_of(dtype_of(n)), sizes_of(n)) for n in inputs],
            [helper.make_tensor_value_info(name, self.type_of(dtype_of(n)), sizes_of(n)) for name, n in ends],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
        return bytes(model.SerializeToString())


def converted(gm: fx.GraphModule) -> tuple[bytes, list[fx.Node], list[fx.Node]]:
    """The model of a whole graph, its inputs and its outputs in order."""
    builder = Builder()
    inputs: list[fx.Node] = []
    outputs: list[fx.Node] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            builder.names[node] = builder.fresh("input")
            inputs.append(node)
        # Tensors that the graph holds become constants of the model.
        elif node.op == "get_attr":
            builder.names[node] = builder.constant(getattr(gm, str(node.target)))
        elif node.op == "call_function":
            builder.names[node] = _written(builder, node)
        elif node.op == "output":
            returned = node.args[0]
            outputs = [returned] if isinstance(returned, fx.Node) else list(returned)
    return builder.model(inputs, outputs), inputs, outputs


def _written(builder: Builder, node: fx.Node) -> Any:
    # An operator with several results has a list of names.
    if getattr(node.target, "__name__", "") == "getitem":
        return builder.names[node.args[0]][node.args[1]]
    return RULES[node.target](builder, node)


def _natural(value: object) -> torch.dtype:
    """The type of a plain value that meets no tensor."""
    if isinstance(value, bool):
        return torch.bool
    return torch.float32 if isinstance(value, float) else torch.int64
