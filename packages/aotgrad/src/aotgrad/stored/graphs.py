"""Graphs as texts, and back: the joint graph and backward of what trains, read when somebody needs them.

JSON, compressed:

    kinds       dtype, device, size and stride of tensors, each once
    memories    bytes of the memory under tensors: those that share memory do so when they are read
    nodes       kind of node, name, target, arguments, keyword arguments, value, notes
    outputs     what each output is to the stage
    symbols     of sizes that vary, and the conditions `known` of them

In values `n` is a node, by its number, `v` a tensor without data: kind, memory, offset, and `y` a size that varies.
The operators that the graphs call stand beside the texts, with their schemas, so that a process that has not all of
them is known at once.
Must not know: when graphs are needed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from typing import Any, TypeAlias

import torch
from torch import fx

from aotgrad.backward.plan import Graphs, Plan
from aotgrad.facts import Facts
from aotgrad.graph_modules import graph_module
from aotgrad.partitioning.partition import Half
from aotgrad.recording.histories import DETACHED, HISTORY
from aotgrad.recording.recomputed import REPEATS
from aotgrad.recording.whole_operators import WHOLE
from aotgrad.stored.symbols import SymbolsRead, SymbolsWritten
from aotgrad.stored.values import Plain, Unwritable, read, write
from aotgrad.tensors.fakes import Fakes
from aotgrad.tensors.functional import memory_of
from aotgrad.tensors.symbols import SYM_TYPES
from aotgrad.torch_versions import FakeTensorMode, OpOverload, schema_of
from aotgrad.tracing.joint import JointGraph

Body: TypeAlias = dict[str, Any]
"""As JSON text is read; whoever forges it may as well write code."""
_OF_TRACING = frozenset(
    {"source", "stack_trace", "nn_module_stack", "location", "roles", "copied before it is overwritten"}
)
"""Notes of nodes that nobody reads once a graph is cut, but who tells of the user's line."""
_OF_HISTORIES = frozenset({DETACHED, HISTORY, REPEATS, WHOLE})
"""Notes that are read of the joint graph alone."""
_MOST_NUMBERS = 256
"""Of a tensor that is written as its numbers."""
_OTHERS = frozenset({"aotgrad_functional"})
"""Operators that are made while a graph is traced."""


def later_of(graphs: Graphs) -> Plain:
    """Both graphs, and what they call."""
    joint, backward = graphs.joint, graphs.backward
    texts = {
        "joint": _written(joint.graph, joint.root, joint.outputs, frozenset()),
        "backward": _written(
            backward.module.graph, backward.module, (backward.inputs, backward.outputs), _OF_HISTORIES
        ),
    }
    nodes = [*joint.graph.nodes, *backward.module.graph.nodes]
    targets = [*(node.target for node in nodes), *(node.meta[WHOLE][0] for node in nodes if WHOLE in node.meta)]
    called = {target: str(schema_of(target)) for target in targets if isinstance(target, OpOverload)}
    if any(target.namespace in _OTHERS for target in called):
        raise Unwritable("it calls an operator of the program's that writes to its arguments")
    graphs.name = _name(texts["backward"])
    return {
        "operators": [[str(target), schema] for target, schema in called.items()],
        "followed": joint.followed,
        "dynamic": joint.dynamic,
        **texts,
    }


def later_read(data: Body, facts: Facts, plan: Plan) -> Graphs:
    """Raises where this process has not the operators."""
    for name, schema in data["operators"]:
        if str(schema_of(read({"o": name}))) != schema:
            raise ValueError(name)

    def joint() -> JointGraph:
        graph, root, outputs = _read(data["joint"])
        return JointGraph(
            graph,
            root,
            facts,
            outputs,
            data["followed"],
            data["dynamic"],
            stages=plan.stages,
            behind=plan.layout.behind,
        )

    def backward() -> Half:
        graph, root, (inputs, outputs) = _read(data["backward"])
        return Half(graph_module(root, graph), inputs, outputs)

    graphs = Graphs(joint, backward)
    graphs.name = _name(data["backward"])
    return graphs


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _is_literal(held: torch.Tensor) -> bool:
    """True for a few numbers in memory of their own."""
    plain = type(held) is torch.Tensor and held.layout is torch.strided
    return plain and held.device.type == "cpu" and held.numel() <= _MOST_NUMBERS


def _written(graph: fx.Graph, root: torch.nn.Module, outputs: object, unread: frozenset[str]) -> str:
    text = json.dumps(_Writer(graph, root, unread).body(outputs), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 2)).decode()


class _Writer:
    def __init__(self, graph: fx.Graph, root: torch.nn.Module, unread: frozenset[str]) -> None:
        self._graph, self._root, self._unread = graph, root, _OF_TRACING | unread
        self._numbers = {node: number for number, node in enumerate(graph.nodes)}
        self._kinds: dict[str, int] = {}
        self._memories: dict[int, int] = {}
        self._bytes: list[Plain] = []
        self._symbols = SymbolsWritten()

    def body(self, outputs: object) -> dict[str, Plain]:
        nodes = [self._node(node) for node in self._graph.nodes]
        kinds: list[Plain] = [json.loads(kind) for kind in self._kinds]
        body: dict[str, Plain] = {"kinds": kinds, "memories": self._bytes, "nodes": nodes, "outputs": write(outputs)}
        return {**body, **self._symbols.table()}

    def _node(self, node: fx.Node) -> Plain:
        if node.op not in ("placeholder", "call_function", "output", "get_attr"):
            raise Unwritable(f"it has a node {node.op}")
        target = write(node.target) if node.op == "call_function" else None
        target = self._literal(node) if node.op == "get_attr" else target
        notes = {name: write(value, self._leaf) for name, value in node.meta.items() if self._is_kept(name)}
        kwargs = {name: write(value, self._leaf) for name, value in node.kwargs.items()}
        value = write(node.meta.get("val"), self._leaf)
        return [node.op, node.name, target, write(tuple(node.args), self._leaf), kwargs, value, notes]

    def _literal(self, node: fx.Node) -> Plain:
        """A tensor that stands for numbers in the program's text, made for each call anew: nobody else holds it."""
        held: object = getattr(self._root, str(node.target), None)
        is_fresh = all(str(user.target).startswith("aten.lift_fresh") for user in node.users)
        if not isinstance(held, torch.Tensor) or not is_fresh or not _is_literal(held):
            raise Unwritable("it holds a tensor of its own")
        return write((str(node.target), held.dtype, tuple(held.shape), tuple(held.reshape(-1).tolist())))

    def _is_kept(self, name: str) -> bool:
        return name != "val" and name not in self._unread

    def _leaf(self, value: object) -> Plain:
        if isinstance(value, fx.Node):
            return {"n": self._numbers[value]}
        if isinstance(value, SYM_TYPES):
            return {"y": self._symbols.write(value)}
        return {"v": self._tensor(value)} if isinstance(value, torch.Tensor) else None

    def _tensor(self, value: torch.Tensor) -> list[Plain]:
        if value.layout is not torch.strided or value.is_conj() or value.is_neg() or value.is_quantized:
            raise Unwritable("a tensor in it is of a kind of its own")
        sizes = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
        kind = json.dumps(write((value.dtype, value.device, *sizes[:2]), self._leaf))
        memory = self._memories.setdefault(memory_of(value), len(self._memories))
        if memory == len(self._bytes):
            self._bytes.append(write(value.untyped_storage().nbytes(), self._leaf))
        return [self._kinds.setdefault(kind, len(self._kinds)), memory, write(sizes[2], self._leaf)]


def _read(text: str) -> tuple[fx.Graph, torch.nn.Module, Any]:
    return _Reader(json.loads(zlib.decompress(base64.b64decode(text)))).graph()


class _Reader:
    def __init__(self, body: Body) -> None:
        self._body = body
        self._nodes: list[fx.Node] = []
        # Without any, no graph needs sympy.
        self._symbols = SymbolsRead(body) if body["symbols"] else None
        env = None if self._symbols is None else self._symbols.env
        self._kinds = [read(kind, self._leaf) for kind in body["kinds"]]
        self._fakes = Fakes(FakeTensorMode(shape_env=env))
        sizes: list[Any] = [read(size, self._leaf) for size in body["memories"]]
        self._memories = [self._fakes.memory(size) for size in sizes]

    def _literal(
        self, root: torch.nn.Module, name: str, dtype: torch.dtype, size: tuple[int, ...], numbers: object
    ) -> str:
        setattr(root, name, torch.tensor(numbers, dtype=dtype, device="cpu").reshape(size))
        return name

    def graph(self) -> tuple[fx.Graph, torch.nn.Module, Any]:
        graph, root = fx.Graph(), torch.nn.Module()
        later = []
        for op, name, target, args, kwargs, value, notes in self._body["nodes"]:
            called = name if op == "placeholder" else "output" if op == "output" else read(target)
            if op == "get_attr":
                called = self._literal(root, *called)  # type: ignore[misc]
            given = {key: read(each, self._leaf) for key, each in kwargs.items()}
            node = graph.create_node(op, called, read(args, self._leaf), given, name)
            self._nodes.append(node)
            if value is not None:
                node.meta["val"] = read(value, self._leaf)
            later.append((node, notes))
        for node, notes in later:  # which may name nodes that come after
            node.meta.update((key, read(each, self._leaf)) for key, each in notes.items())
        return graph, root, read(self._body["outputs"])

    def _leaf(self, tag: str, held: Any) -> object:
        if tag == "n":
            return self._nodes[held]
        if tag == "y" and self._symbols is not None:
            return self._symbols.read(held)
        kind, memory, offset = held
        dtype, device, size, stride = self._kinds[kind]
        place: Any = read(offset, self._leaf)
        return self._fakes.over(self._memories[memory], dtype, device, size, stride, place)
