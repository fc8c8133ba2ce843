"""A graph and its inputs as a file: the operators as Python source, tensors as values or as the sizes to make some.

Source, not pickled objects: it can be read, survives other versions of torch, and runs as it stands.
"""

from __future__ import annotations

import dataclasses
import hashlib
import linecache
import os
import pickle
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

import capture
from compile_api.errors import NothingToMinify
from compile_api.torch_versions import FakeTensor


@dataclass(frozen=True, slots=True)
class Shape:
    """An input whose values are not kept: enough to make a random one."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str
    requires_grad: bool

    @staticmethod
    def of(tensor: torch.Tensor) -> Shape:
        sizes, strides = tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
        return Shape(sizes, strides, tensor.dtype, str(tensor.device), tensor.requires_grad)

    @property
    def extent(self) -> int:
        """The number of elements of memory that it spans."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    @property
    def is_inexact(self) -> bool:
        return self.dtype.is_floating_point or self.dtype.is_complex

    def make(self) -> torch.Tensor:
        """A tensor of random values; whole numbers and booleans are zeros and ones, which most operators take."""
        flat = torch.randn((self.extent,), device=self.device)
        flat = flat.to(self.dtype) if self.is_inexact else flat.gt(0).to(self.dtype)
        return flat.as_strided(self.sizes, self.strides).requires_grad_(self.requires_grad)


@dataclass(frozen=True, slots=True)
class Maker:
    """The backend that a graph was given to, and the home of a function of the user's: enough to find it again."""

    name: str = ""
    module: str = ""
    function: str = ""
    program: str = ""
    """The script that ran."""

    @staticmethod
    def of(name: str, function: object) -> Maker:
        program = str(getattr(sys.modules.get("__main__"), "__file__", None) or "")
        path = os.path.abspath(program) if program else ""
        if function is None:
            return Maker(name, program=path)
        module, qualname = (str(getattr(function, each, None) or "") for each in ("__module__", "__qualname__"))
        return Maker(name, module, qualname, path)


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """``code`` defines ``forward(self, ...)``; ``names`` are what it refers to by name; ``inputs`` are tensors, shapes
    and plain numbers; ``constants`` the attributes of the module."""

    code: str
    names: tuple[tuple[str, str], ...]
    inputs: tuple[Any, ...]
    constants: dict[str, Any]
    maker: Maker = Maker()

    @staticmethod
    def of(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> StoredGraph:
        # FX prints the graph as Python and lists the objects that the text mentions by name (``globals``).
        code = gm.graph.python_code("self")
        names = tuple((name, _import_line(name, value)) for name, value in code.globals.items())
        return StoredGraph(code.src, names, tuple(map(_shaped, example_inputs)), _attributes(gm))

    def with_inputs(self, inputs: Sequence[object], largest: int) -> StoredGraph:
        """A copy of the graph with the values of ``inputs`` as they are now, unless they are too many bytes."""
        size = sum(x.numel() * x.element_size() for x in inputs if isinstance(x, torch.Tensor))
        return self if size > largest else dataclasses.replace(self, inputs=tuple(map(_copied, inputs)))

    def save(self, path: Path) -> None:
        torch.save({each.name: getattr(self, each.name) for each in dataclasses.fields(self)}, path)

    @staticmethod
    def load(path: Path) -> StoredGraph:
        if path.is_file() and not zipfile.is_zipfile(path):  # what torch.save writes; of others unpickling says riddles
            raise NothingToMinify(f"{path} is no graph: give a graph's folder, written under COMPILE_DEBUG=1")
        try:
            # Shapes and operators are objects of ours and torch's; a debug folder is made by the user's own program.
            return StoredGraph(**torch.load(path, weights_only=False))
        except (OSError, TypeError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            raise NothingToMinify(f"{path} holds no graph of a debug folder: {error}") from error

    def module(self) -> fx.GraphModule:
        """The graph again."""
        # The graph may call operators that capture made: they have to exist before it is traced.
        capture.define_operators()
        namespace: dict[str, Any] = {}
        for name, line in self.names:
            try:
                exec(line, namespace)
            except (ImportError, AttributeError) as error:
                where = f": import {self.maker.program} first (--import)" if "__main__" in line else ""
                raise NothingToMinify(f"the graph uses {name!r}, which cannot be imported ({error}){where}") from error
        # By its text: another graph may have this one's identity while the module is still there.
        filename = f"<stored graph {hashlib.sha256(self.code.encode()).hexdigest()[:16]}>"
        # Tracebacks through it then show its lines.
        linecache.cache[filename] = (len(self.code), None, self.code.splitlines(True), filename)
        exec(compile(self.code, filename, "exec"), namespace)
        root = type("Stored", (torch.nn.Module,), {"forward": namespace["forward"]})()
        for name, value in self.constants.items():
            _set(root, name, value)
        return fx.GraphModule(root, _EveryCallIsANode().trace(root))

    def example_inputs(self) -> list[Any]:
        """The kept values, or random ones; the same at every call."""
        # The program's own stream of random numbers is left as it was.
        generator = torch.random.get_rng_state()
        torch.manual_seed(0)
        made = [each.make() if isinstance(each, Shape) else _copied(each) for each in self.inputs]
        torch.random.set_rng_state(generator)
        return made


class _EveryCallIsANode(fx.Tracer):
    """Modules kept as constants stay modules."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return True


def _attributes(gm: fx.GraphModule) -> dict[str, Any]:
    targets = {node.target for node in gm.graph.nodes if node.op in ("get_attr", "call_module")}
    return {name: gm.get_submodule(name) if _is_module(gm, name) else _attribute(gm, name) for name in sorted(targets)}


def _is_module(gm: fx.GraphModule, name: str) -> bool:
    return name in dict(gm.named_modules())


def _attribute(gm: fx.GraphModule, name: str) -> Any:
    value: Any = gm
    for part in name.split("."):
        value = getattr(value, part)
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _set(root: torch.nn.Module, name: str, value: object) -> None:
    *parents, last = name.split(".")
    for part in parents:
        if not hasattr(root, part):
            root.add_module(part, torch.nn.Module())
        root = getattr(root, part)
    setattr(root, last, value)


def _import_line(name: str, value: object) -> str:
    """Source that gives ``name`` the value it has in generated code."""
    if isinstance(value, torch.device):
        return "from torch import device"
    if value is None or value is type(None):
        return f"{name} = {'None' if value is None else 'type(None)'}"
    if isinstance(value, type(torch)):
        return f"import {value.__name__} as {name}"
    module = str(getattr(value, "__module__", None) or "builtins")
    own = str(getattr(value, "__qualname__", None) or getattr(value, "__name__", name))
    # The only floats that FX refers to by name are inf and nan.
    if isinstance(value, float):
        return f"from math import {name}"
    if module.startswith("torch._ops"):
        return "import torch"
    # A line that raises where the graph is loaded, with the reason.
    if "<locals>" in own:
        return f"raise ImportError('{module}.{own} is local to a function: the graph cannot be stored with it')"
    return f"import {module}; {name} = {module}.{own}"


def _shaped(example: object) -> Any:
    if isinstance(example, torch.Tensor):
        return Shape.of(example)
    if isinstance(example, torch.SymFloat):
        return float(example)
    return int(example) if isinstance(example, torch.SymInt) else example


def _copied(value: object) -> Any:
    if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
        return _shaped(value)
    # Strides are kept: they may be what the failure is about.
    copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
    return copy.copy_(value.detach()).requires_grad_(value.requires_grad)
