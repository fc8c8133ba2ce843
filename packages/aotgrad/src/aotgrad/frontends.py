"""Python callables in front of the pipeline: arguments are flattened, and compiled graphs kept per kind of call.

A graph holds for one layout, dtype, device, `requires_grad`, aliasing pattern and ambient state.  Those make the key.
Must not know: stages.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from aotgrad.calling.wrapper import Call
from aotgrad.errors import FailsOnFakes, Unsupported, WrongArguments, kind, miscounted
from aotgrad.pipeline import Options, compile_program
from aotgrad.recording.recorder import Recorder
from aotgrad.tensors.functional import memory_of
from aotgrad.tensors.subclasses import is_wrapped, unwrap_all
from aotgrad.torch_versions import buffers_of, parameters_of, pytree
from aotgrad.tracing.inputs import Signature
from aotgrad.tracing.shape_guards import ShapeGuard, shape_guard

Around = Callable[..., AbstractContextManager[None]]

_DEVICES = ("cpu", "cuda")


class CompiledFunction:
    """A callable over any nest of tensors; compiles when it is called in a way not seen before."""

    def __init__(self, fn: Callable[..., Any], options: Options, around: Around | None = None) -> None:
        functools.update_wrapper(self, fn, updated=())
        self._fn = fn
        self._around = around
        self.options = options
        self._compiled: dict[Any, list[tuple[ShapeGuard, Call, pytree.TreeSpec]]] = {}
        self.compiling = threading.RLock()

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledFunction:
        return CompiledFunction(deepcopy(self._fn, memo), self.options, deepcopy(self._around, memo))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (spec, ambient_state(), *kinds_of(leaves, dynamic=self.options.dynamic))
        for accepts, call, returned in self._compiled.get(key, ()):
            if accepts(leaves):
                return pytree.tree_unflatten(call(*leaves), returned)
        with self.compiling:
            entry = self._compile_or_fail(leaves, spec)
            if entry is None:
                return self._eagerly(leaves, spec)  # which raises the program's own error
        _, call, returned = entry
        self._compiled.setdefault(key, []).append(entry)
        results = call(*leaves)
        if not isinstance(results, Sequence) or len(results) != returned.num_leaves:
            # A compiler that returned something else: its entry must not serve another call.
            self._compiled[key].remove(entry)
            found = f"got {len(results)}" if isinstance(results, Sequence) else f"got {kind(results)}"
            raise WrongArguments(miscounted("inference", returned.num_leaves, found))
        return pytree.tree_unflatten(results, returned)

    def _compile_or_fail(
        self, leaves: Sequence[object], spec: pytree.TreeSpec
    ) -> tuple[ShapeGuard, Call, pytree.TreeSpec] | None:
        """The compiled entry; None for a program that raises by itself, which is found out by running it on copies."""
        try:
            return self._compile(leaves, spec)
        except FailsOnFakes:
            devices = {leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.device.type == "cuda"}
            copies = [_copy(leaf) for leaf in leaves]
            try:
                # The trial must leave no trace: copies of the arguments, and the random state as it was.
                with torch.random.fork_rng(devices):
                    self._eagerly(copies, spec)
            except Exception:  # noqa: BLE001 - whatever the program raises
                return None
            raise

    def _eagerly(self, leaves: Sequence[object], spec: pytree.TreeSpec) -> Any:
        positional, named = pytree.tree_unflatten(list(leaves), spec)
        with nullcontext() if self._around is None else self._around(*positional):
            return self._fn(*positional, **named)

    def _compile(self, leaves: Sequence[object], spec: pytree.TreeSpec) -> tuple[ShapeGuard, Call, pytree.TreeSpec]:
        program = _FlatProgram(self._fn, spec, self._around)
        call, signature = compile_program(program, leaves, self.options)
        assert program.returned is not None
        return _guard(signature, self.options), call, program.returned


def _copy(leaf: object) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf


def _guard(signature: Signature, options: Options) -> ShapeGuard:
    return shape_guard(signature) if options.dynamic else _always


def _always(leaves: Sequence[object]) -> bool:
    return True


class _FlatProgram:
    """The user's function over flat arguments; remembers how its result nests."""

    def __init__(self, fn: Callable[..., Any], spec: pytree.TreeSpec, around: Around | None) -> None:
        self._fn = fn
        self._around = around
        self._spec = spec
        self.returned: pytree.TreeSpec | None = None

    def __call__(self, recorder: Recorder, args: Sequence[object]) -> Sequence[Any]:
        positional, named = pytree.tree_unflatten(list(args), self._spec)
        if self._around is not None:
            recorder.until_traced.enter_context(self._around(*positional))
        leaves, self.returned = pytree.tree_flatten(self._fn(*positional, **named))
        return leaves


def ambient_state() -> tuple[Any, ...]:
    """The parts of torch's state that a trace depends on beside its inputs."""
    autocast = tuple(
        (device, torch.get_autocast_dtype(device)) for device in _DEVICES if torch.is_autocast_enabled(device)
    )
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, torch.get_default_dtype()


def kinds_of(leaves: Sequence[object], *, dynamic: bool) -> Iterator[Any]:
    """One hashable entry for each leaf; a tensor subclass counts as its wrapping and the tensors within."""
    if any(map(is_wrapped, leaves)):
        wrappings, leaves = unwrap_all(leaves)
        yield tuple(None if wrapping is None else wrapping.key for wrapping in wrappings)
    yield from input_kinds(leaves, dynamic=dynamic)


def input_kinds(leaves: Sequence[object], *, dynamic: bool) -> Iterator[Any]:
    """One hashable entry for each leaf: its kind, and the leaves that are the same tensor or share its memory."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    sharing = Counter(map(_memory, tensors)) if len(tensors) > 1 else Counter()
    followed = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    order: dict[int, int] = {}
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            strided = leaf.layout is torch.strided
            yield type(leaf), leaf.dtype, leaf.device, leaf.requires_grad, leaf.is_leaf, leaf.is_conj(), leaf.is_neg()
            # A write to a view goes another way through autograd.
            yield followed and leaf._is_view()
            yield (leaf.shape, leaf.stride()) if strided and not dynamic else leaf.dim()
            if sharing[_memory(leaf)] > 1:
                objects = order.setdefault(id(leaf), len(order)), order.setdefault(_memory(leaf), len(order))
                yield (*objects, leaf.storage_offset() if strided else 0)
        else:
            yield type(leaf), _as_key(leaf)


def _as_key(leaf: object) -> Any:
    """A key that is equal for constants that make the same graph: not for 0.0 and -0.0, and never for what cannot be
    hashed."""
    if isinstance(leaf, (float, complex)):
        return repr(leaf)
    return leaf if isinstance(leaf, Hashable) else object()


def _memory(value: torch.Tensor) -> int:
    return memory_of(value) if value.layout is torch.strided else id(value)


class CompiledModule(nn.Module):
    """A module whose forward is compiled, over the parameters and buffers of the module that it holds."""

    def __init__(self, module: nn.Module, options: Options) -> None:
        super().__init__()
        self.module = module
        call = functools.partial(_call_module, module)
        self._call = CompiledFunction(call, replace(options), around=functools.partial(_as_arguments, module))

    def forward(self, *args: object, **kwargs: object) -> Any:
        with self._call.compiling:  # while it is traced, the module has other tensors
            state = self._state()
        # Part of the key: a module in training has another graph.
        modes = tuple(module.training for module in self.module.modules())
        return self._call(state, modes, args, kwargs)

    def _state(self) -> dict[str, torch.Tensor]:
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}


def _call_module(module: nn.Module, state: Mapping[str, torch.Tensor], modes: Any, args: Any, kwargs: Any) -> Any:
    return module(*args, **kwargs)


def _as_arguments(module: nn.Module, state: Mapping[str, torch.Tensor], *_: object) -> AbstractContextManager[None]:
    """The module with its state exchanged, until tracing ends: a checkpoint runs parts of the module again during
    backward, and must find the same tensors as forward."""
    return swapped_state(module, state)


@contextmanager
def swapped_state(module: nn.Module, state: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """`module` with other tensors as its parameters and buffers; what it assigns to them meanwhile is refused."""
    names = {id(value): name for name, value in [*module.named_parameters(), *module.named_buffers()]}
    slots = [(table, key, state[names[id(table[key])]]) for table, key in _slots(module)]
    before = [table[key] for table, key, _ in slots]
    for table, key, value in slots:
        table[key] = value
    try:
        yield
        for table, key, value in slots:
            # An assignment would be lost with the exchange.
            if table.get(key) is not value:
                raise Unsupported(
                    f"the module assigns a new tensor to {key}", "change it in place, with copy_ for example"
                )
    finally:
        for (table, key, _), value in zip(slots, before, strict=True):
            table[key] = value


def _slots(module: nn.Module) -> Iterator[tuple[dict[str, Any], str]]:
    """The tables and keys in which the module and those within it hold tensors."""
    for owner in module.modules():
        for table in (parameters_of(owner), buffers_of(owner)):
            yield from ((table, key) for key, value in table.items() if value is not None)
