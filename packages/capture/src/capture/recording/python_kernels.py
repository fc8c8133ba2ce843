"""Operators that the program wrote in Python: what they read has to be there when the graph runs them.

Writes to objects of the program are made after the graph.  So where one of these objects can be reached from the code
of such an operator, the graph ends before it.  Code reaches what its globals, closures and defaults lead to.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType

import torch

from capture import torch_versions
from capture.reasons import Kind
from capture.recording.world import Recording
from capture.signals import let_through
from capture.torch_versions import OpOverload, OpOverloadPacket
from capture.values.base import Tracer, Value, module_name, root_package, trusted
from capture.values.function import NamespaceValue

_OF_TORCH = frozenset({"aten", "prims", "_native", "rngprims", "c10d", "_c10d_functional", "quantized"})
_MOST_OBJECTS = 5_000
_LEAVES = (int, float, complex, str, bytes, type(None), torch.Tensor, torch.dtype, torch.device, CodeType)
_MADE_OF_OPERATORS = ("torch._ops", "torch._library", "torch.library")


def leave_what_reads_changes(ctx: Recording, function: object) -> None:
    """Break before an operator that may read what was written and is not written yet."""
    if not ctx.effects:
        return
    kernels = _kernels(function)
    if kernels is None or (kernels and not _Written(ctx, ctx.effects.changed()).can_be_reached(kernels)):
        return
    name = getattr(function, "__name__", str(function))
    hint = "write it afterwards, or give it to the operator as an argument"
    ctx.stop(Kind.EFFECTS, f"`{name}` is written in Python and may read what was changed before it", hint)


def _kernels(function: object) -> list[object] | None:
    """The Python functions that an operator runs, as far as they can be found; None where it runs none."""
    if isinstance(function, FunctionType):
        return None if trusted(function) else [function]
    if not isinstance(function, (OpOverload, OpOverloadPacket)):
        return None
    packet = function._overloadpacket if isinstance(function, OpOverload) else function
    name: str = packet._qualified_op_name
    namespace, _, plain = name.partition("::")
    if namespace in _OF_TORCH:
        return None
    # Of operators by ``torch.library.custom_op`` torch keeps the functions; of others only that there are some.
    made = torch_versions.OPDEFS.get(name)
    if made is not None:
        found = [*made._backend_fns.values(), made._init_fn, made._setup_context_fn, made._backward_fn]
        return [kernel for kernel in found if kernel is not None]
    keys = [key.split("/") for key in torch_versions.impls if key.startswith(f"{namespace}/{plain}")]
    written = any(key[1].partition(".")[0] == plain and key[2] != "Meta" for key in keys)
    return [] if written else None


class _Written:
    """The objects that were written to, by what code can reach of them."""

    def __init__(self, ctx: Tracer, changed: Iterable[Value]) -> None:
        self._names: dict[int, frozenset[str]] = {}
        self._objects: dict[int, object] = {}
        self._anything = False
        for value in changed:
            if isinstance(value, NamespaceValue):
                self._names[id(value.contents)] = frozenset(value.written)
            elif value.source is not None:
                self._note(ctx, value)

    def _note(self, ctx: Tracer, value: Value) -> None:
        assert value.source is not None
        try:
            found = value.source.read(ctx.inputs)
        except Exception as error:  # noqa: BLE001 - a path may lead through what another write of the program replaced
            let_through(error)
            self._anything = True
        else:
            self._objects[id(found)] = found

    def can_be_reached(self, kernels: list[object]) -> bool:
        """True if code of one of the kernels may read what was written, by what it names and holds."""
        todo: list[tuple[object, frozenset[str]]] = [(kernel, frozenset()) for kernel in kernels]
        seen: dict[tuple[int, frozenset[str]], object] = {}
        while todo and not self._anything:
            obj, names = todo.pop()
            # Beyond so many objects the search would take longer than the graph is worth: anything may be reached.
            if id(obj) in self._objects or len(seen) > _MOST_OBJECTS:
                return True
            namespace = _namespace_of(obj)
            names = _names_in(obj.__code__) if isinstance(obj, FunctionType) else names
            if namespace is not None and self._is_read(namespace, names):
                return True
            # A module is walked by the names that a function has for what is in it, so that each function walks it
            # anew.
            key = id(obj), names if isinstance(obj, ModuleType) else frozenset()
            if key not in seen:
                seen[key] = obj
                todo += [(held, names) for held in (*_read_by_name(namespace, names), *_held_by(obj))]
        return self._anything

    def _is_read(self, namespace: dict[str, object], names: frozenset[str]) -> bool:
        """True if a name that was written is among those that the code reads of this namespace."""
        return id(namespace) in self._objects or not names.isdisjoint(self._names.get(id(namespace), ()))


def _names_in(code: CodeType) -> frozenset[str]:
    """All names in the code, and in the functions defined in it."""
    inner = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return frozenset(code.co_names).union(*inner)


def _namespace_of(obj: object) -> dict[str, object] | None:
    """The names that code looks up; None for torch and the standard library, whose names are theirs."""
    if not isinstance(obj, (FunctionType, ModuleType)) or trusted(obj):
        return None
    return obj.__globals__ if isinstance(obj, FunctionType) else vars(obj)


def _read_by_name(namespace: dict[str, object] | None, names: frozenset[str]) -> Iterator[object]:
    """The objects that these names stand for."""
    return (namespace[name] for name in names if name in namespace) if namespace is not None else iter(())


def _held_by(obj: object) -> list[object]:
    """The objects that this one refers to, as far as code may reach them through it."""
    kind = type(obj)
    if isinstance(obj, FunctionType):
        return [*(obj.__closure__ or ()), obj.__defaults__, obj.__kwdefaults__, vars(obj)]
    if isinstance(obj, MethodType):
        return [obj.__self__, obj.__func__]
    if isinstance(obj, type):
        return [] if trusted(obj) else [*vars(obj).values(), *obj.__mro__[1:]]
    if issubclass(kind, (*_LEAVES, ModuleType)) or module_name(kind).startswith(_MADE_OF_OPERATORS):
        return []
    return [] if root_package(kind) == "triton" else [*gc.get_referents(obj), kind]
