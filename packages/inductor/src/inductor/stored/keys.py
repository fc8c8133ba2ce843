"""The key of a compiled graph: a digest of everything that the stages read of a graph and its examples.

The graph is written down node by node in its own order.  Operators stand there with their overloads, arguments as they
nest, constants by value; a node is its number, so that its name does not matter.  Of what tracers note in
``node.meta`` there is what some stage reads, and nothing else.  What cannot be written down this way makes the graph
one without a key.
"""

from __future__ import annotations

import ctypes
import hashlib
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.fx import GraphModule, Node

from inductor.cache import key_of
from inductor.calling import CONSTANTS, attribute, span
from inductor.options import Options
from inductor.rewrites.layouts import CHANNELS_INNERMOST
from inductor.rewrites.redundant import MAY_RAISE
from inductor.stored.world import ambient, gpus, world
from inductor.torch_versions import FakeTensor, OpOverload, OpOverloadPacket, schema_of

CONTENTS = 1 << 20
"""The bytes of tensors within a graph that go into its key by contents; further ones do so by dtype and sizes."""
_FEW = 16
"""The number of elements up to which a tensor's contents count in any case: a tracer may read a number of it."""
_TORCHS = ("torch", "_operator", "math", "builtins")
"""The packages whose functions are known by their names, as long as versions are the same."""
OWN_NAMESPACES = frozenset({"aten", "prims"})


class NoKey(Exception):
    """A graph, or an example, that holds something which is not known by its contents."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a graph.  ``text`` is the key itself, ``world`` the part of it about versions, ``gpus`` those that the
    graph names.

    ``learned`` has each of the tracers that know its sizes, with how much they knew: whatever they learn while it is
    compiled becomes a guard for the user, of which nobody hears who takes up the result.
    """

    text: str
    world: str
    gpus: dict[str, str]
    learned: tuple[tuple[Any, int], ...]

    @property
    def has_sizes(self) -> bool:
        return bool(self.learned)

    @property
    def has_learned(self) -> bool:
        return any(len(env.guards) != count for env, count in self.learned)


def key_of_graph(gm: GraphModule, examples: Sequence[object], options: Options) -> Key:
    """The key of a graph with these examples and options; raises ``NoKey`` where it has none."""
    lines = _Lines()
    parts = [*lines.graph(gm), *lines.examples(examples), *lines.symbols()]
    around, devices = world(options), gpus(lines.gpus)
    parts += [*ambient(), *meant(options), repr(devices), around]
    learned = tuple((env, len(env.guards)) for env in lines.envs.values())
    return Key(key_of(parts), around, devices, learned)


_OF_NO_MATTER: dict[str, Any] = {
    "trace": False,
    "cache_dir": None,
    "cache_bytes": 0,
    "compiler": None,  # which is known by its file
    "build_processes": None,
    "fallback": True,
}
"""Options that do not change the result, with the values that stand for them in a key."""


def meant(options: Options) -> tuple[str]:
    """The options that decide what is compiled, as a part of a key."""
    return (repr(replace(options, **_OF_NO_MATTER)),)


class _Lines:
    """A graph and its examples as lines of text."""

    def __init__(self) -> None:
        self.gpus: set[int] = set()
        self.numbers: dict[Node, int] = {}
        self.held: dict[int, int] = {}
        self.seen: dict[str, Any] = {}
        self.by_node: dict[int, tuple[object, str]] = {}
        self.envs: dict[int, Any] = {}
        self.compared: dict[int, Any] = {}
        self.left = CONTENTS

    # -- nodes --------------------------------------------------------------------------------------------------------

    def graph(self, gm: GraphModule) -> Iterator[str]:
        for number, node in enumerate(gm.graph.nodes):
            self.numbers[node] = number
            meta = node.meta
            marks = f"{bool(meta.get(MAY_RAISE))}{CHANNELS_INNERMOST in meta}{self._in_place(meta.get('in_place'))}"
            value = self._value(meta["val"]) if "val" in meta else "untold"
            yield f"{node.op} {self._target(gm, node)}{self._arguments(node)} {marks} {value}"

    def _arguments(self, node: Node) -> str:
        named = ", ".join(f"{name}={self._argument(value)}" for name, value in node.kwargs.items())
        return f"({', '.join(map(self._argument, node.args))}; {named})"

    def _in_place(self, found: object) -> str:
        return self._operator(found) if isinstance(found, OpOverload) else ""

    def _target(self, gm: GraphModule, node: Node) -> str:
        target = node.target
        if node.op in ("placeholder", "output"):
            return ""
        if node.op == "get_attr":
            return self._held(attribute(gm, str(target)))
        if node.op == "call_method":
            return str(target)
        if node.op == "call_module":
            raise NoKey(f"it calls the module {target}, whose code is not part of the graph")
        if isinstance(target, OpOverload):
            return self._operator(target)
        if isinstance(target, OpOverloadPacket):
            return f"any {target}"
        return _function(target)

    def _operator(self, target: Any) -> str:
        if target.namespace in OWN_NAMESPACES:
            return str(target)
        return f"{schema_of(target)} {hasattr(target, 'direct')}"

    def _argument(self, value: object) -> str:
        if isinstance(value, Node):
            return f"%{self.numbers[value]}"
        if isinstance(value, list):
            return f"[{', '.join(map(self._argument, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self._argument, value))},)"
        if isinstance(value, dict):
            items = (f"{self._argument(name)}: {self._argument(held)}" for name, held in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, slice):
            return f"slice{self._argument((value.start, value.stop, value.step))}"
        return self._number(value)

    def _number(self, value: object) -> str:
        """The text of a value that is neither a tensor nor several values."""
        if isinstance(value, CONSTANTS) or value is ...:
            if isinstance(value, torch.device):
                self._device(value)
            return repr(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return f"{type(value).__name__} {self._symbolic(value)}"
        if isinstance(value, OpOverload):
            return self._operator(value)
        raise NoKey(f"it holds a {type(value).__name__}, which is not known by its contents")

    def _device(self, device: torch.device) -> None:
        if device.type == "cuda":
            self.gpus.add(device.index or 0)

    # -- what tracers note --------------------------------------------------------------------------------------------

    def _value(self, value: object) -> str:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self._value, value))}]"
        return self._argument(value)

    def _tensor(self, value: torch.Tensor) -> str:
        kind = type(value)
        if kind is not torch.Tensor and kind is not FakeTensor and kind is not torch.nn.Parameter:
            raise NoKey(f"a tensor of class {kind.__name__} is not known by its contents")
        self._device(value.device)
        text = f"{kind.__name__} {value.dtype} {value.device} {self._sizes(value.shape)}"
        if value.layout != torch.strided:
            return f"{text} {value.layout}"
        return f"{text} {self._sizes(value.stride())} {self._sizes((value.storage_offset(),))}"

    def _sizes(self, sizes: Sequence[object]) -> str:
        return ",".join([str(size) if type(size) is int else self._symbolic(size) for size in sizes])

    def _symbolic(self, value: Any) -> str:
        """The expression of a symbolic number; ``symbols`` adds what is known of its symbols."""
        node = value.node
        if (known := self.by_node.get(id(node))) is not None:
            return known[1]
        expr = getattr(node, "expr", None)
        if expr is None:
            raise NoKey(f"a size is known as {value} alone")
        text = str(expr)
        # With the node itself, so that no other gets its address meanwhile.
        self.by_node[id(node)] = node, text
        self.envs[id(node.shape_env)] = node.shape_env
        if isinstance(value, torch.SymFloat) or not expr.is_Symbol:
            self.compared[id(node.shape_env)] = node.shape_env
        for symbol in getattr(expr, "free_symbols", ()):
            self.seen.setdefault(str(symbol), (symbol, node.shape_env))
        return text

    def symbols(self) -> Iterator[str]:
        """The facts known about symbolic sizes.

        What is computed of them, and integers by which something may be divided though they are no sizes, add all that
        the tracer knows.
        """
        for name, (symbol, env) in sorted(self.seen.items()):
            known = getattr(env, "var_to_range", {}).get(symbol)
            if not symbol.is_positive:
                self.compared[id(env)] = env
            yield f"{name} {symbol.is_integer} {symbol.is_positive} {symbol.is_nonnegative} {known}"
        for env in self.compared.values():
            yield from (str(guard.expr) for guard in env.guards)
            yield str(env.deferred_runtime_asserts)

    # -- tensors ------------------------------------------------------------------------------------------------------

    def _held(self, value: object) -> str:
        """The text of a tensor within the graph; its contents are told once."""
        if not isinstance(value, torch.Tensor):
            raise NoKey(f"it holds a {type(value).__name__}, which is not known by its contents")
        if (known := self.held.get(id(value))) is not None:
            return f"tensor {known}"
        number = self.held[id(value)] = len(self.held)
        data = contents(value, self.left)
        self.left -= 0 if data is None else len(data)
        digest = "" if data is None else hashlib.sha256(data).hexdigest()
        return f"tensor {number} {self._given(value)} {digest}"

    def _given(self, value: torch.Tensor) -> str:
        marks = value.requires_grad, value.is_quantized, value.is_conj(), value.is_neg()
        return f"{self._tensor(value)} {marks}"

    def examples(self, examples: Sequence[object]) -> Iterator[str]:
        """The examples as lines, and which of them share memory."""
        spans = []
        for number, value in enumerate(examples):
            yield self._given(value) if isinstance(value, torch.Tensor) else self._argument(value)
            if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
                spans.append((*span(value), number))
        end, last = 0, -1
        for start, stop, number in sorted(spans):
            if start < min(end, stop):
                yield f"{last} and {number} share memory"
            if stop > end:
                end, last = stop, number


def held_tensors(gm: GraphModule) -> list[torch.Tensor]:
    """The tensors within a graph, each once, in the order in which its nodes name them."""
    found = (attribute(gm, str(node.target)) for node in gm.graph.nodes if node.op == "get_attr")
    return list({id(each): each for each in found}.values())


def contents(value: torch.Tensor, most: int = CONTENTS) -> bytes | None:
    """The bytes of a tensor in the CPU's memory that has no more than ``most``, or few elements; None for any other."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.device.type != "cpu":
        return None
    if value.layout != torch.strided or not value.is_contiguous() or value.is_quantized or value.is_conj():
        return None
    size = value.numel() * value.element_size()
    if value.is_neg() or (size > most and value.numel() > _FEW):
        return None
    return ctypes.string_at(value.data_ptr(), size) if size else b""


def _function(target: object) -> str:
    """The name of a function of torch or Python; raises ``NoKey`` for any other."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    is_function = isinstance(target, FunctionType | BuiltinFunctionType | type)
    if target is operator.getitem:
        return "getitem"
    if not is_function or not isinstance(module, str) or not isinstance(name, str) or "<" in name:
        raise NoKey(f"it calls {target!r:.80}, which is not known by its contents")
    if module.partition(".")[0] not in _TORCHS:
        raise NoKey(f"it calls {module}.{name}, whose code is not part of the graph")
    return f"{module}.{name}"
