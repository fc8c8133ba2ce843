"""A program as text, and one run of it: three calls with something changed in between, and all that could be seen.

The text is a module with four functions: ``make()`` gives the arguments by name, ``program`` is what is compiled,
``after(result, s)`` uses what came out, and ``change(s, call)`` changes something before the next call.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import linecache
import re
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from search.observed import Sight, observe, tensors_in

CALLS = 3
MODES = "modes"
_TYPES = r"torch\.(float32|bfloat16|float16)\b"
_SMALLER = re.compile(rf"(?P<cast>\.to\({_TYPES}\)|\.(float|bfloat16|half)\(\))|{_TYPES}")
_NUMBERS = itertools.count()

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Program:
    """The functions of a text."""

    make: Callable[[], dict[str, Any]]
    program: Callable[..., Any]
    after: Callable[[Any, Any], Any]
    change: Callable[[Any, int], Any]


def load(text: str) -> Program:
    """Executes the text anew: what it keeps at its top is nobody else's."""
    gc.collect()
    gc.freeze()  # so that collecting between the calls goes over what they made alone
    filename = f"<program {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "searched"}
    exec(compile(text, filename, "exec"), namespace)
    linecache.cache.pop(filename)
    return Program(*(namespace[name] for name in ("make", "program", "after", "change")))


def in_float64(text: str, *, copied: bool = False) -> str:
    """The same program with every smaller floating type made larger; a cast that has nothing to do may be a copy.

    What changes between two calls is rounded as it is for the program, which is given the same numbers.
    """
    program, between, changes = text.partition("def change(")
    larger = _copied if copied else _larger
    return _SMALLER.sub(larger, program) + between + _SMALLER.sub(_rounded, changes)


def coarsest(text: str) -> float:
    """The step, relative to a number, of the smallest type that the program computes in."""
    halves = [kind for kind, name in _HALVES.items() if re.search(name, text)]
    return max(torch.finfo(kind).eps for kind in (*halves, torch.float32))


_HALVES = {torch.bfloat16: r"bfloat16|autocast", torch.float16: r"float16\b(?<!bfloat16)|\.half\("}


def _larger(found: re.Match[str]) -> str:
    return ".double()" if found["cast"] else "torch.float64"


def _copied(found: re.Match[str]) -> str:
    return ".double().clone()" if found["cast"] else "torch.float64"


def _rounded(found: re.Match[str]) -> str:
    return (found["cast"] or "") + _larger(found)


@dataclass(frozen=True, slots=True)
class Call:
    """The facts that one call let somebody see, and its warnings."""

    sights: Sequence[Sight]
    warned: tuple[str, ...]
    raised: bool


def calls(text: str, compiler: Compiler) -> Iterator[Call]:
    """Runs the calls one after another, so that whoever compares can stop at the first difference."""
    program = load(text)
    state = _made(program)
    function = compiler(program.program)
    names = tuple(inspect.signature(program.program).parameters)
    yield from _calls(program, function, names, state)


def _made(program: Program) -> types.SimpleNamespace:
    """The arguments of a program, the same each time."""
    torch.default_generator.manual_seed(5)
    return types.SimpleNamespace(**program.make())


def _calls(
    program: Program, function: Callable[..., Any], names: Sequence[str], state: types.SimpleNamespace
) -> Iterator[Call]:
    """Yields a program's calls, with something changed in between."""
    for index in range(CALLS):
        torch.default_generator.manual_seed(index)  # torch.manual_seed looks for devices first
        gc.collect()  # what an exception kept of the call before, steps of autograd that a leaf still knows, is gone
        if index:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program.change(state, index)
        yield _call(program, function, [getattr(state, name) for name in names], state)


def _call(program: Program, function: Callable[..., Any], arguments: Sequence[Any], state: Any) -> Call:
    world: dict[str, Any] = {"state": state}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            world["result"] = function(*arguments)
        except Exception as error:  # noqa: BLE001 - a program may raise what it likes
            world["raised"] = error
        told = tuple(f"{one.category.__name__}: {one.message}" for one in warned)
        # Before ``after`` runs, which writes to what came out.
        sights = observe(**world, random=torch.get_rng_state(), grad_mode=torch.is_grad_enabled(), **{MODES: _modes()})
        if "raised" not in world:
            try:
                world["after"] = program.after(world["result"], state)
            except Exception as error:  # noqa: BLE001
                world["raised after"] = error
            sights += [Sight("after: " + one.where, one.facts, one.data) for one in observe(**world)]
    return Call(sights, told, "raised" in world)


def _modes() -> list[object]:
    """The modes that are in force for the code that runs next: a program that ends leaves nothing behind."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True) or ()
    stacks = torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()
    modes = torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    return [*(hook.__qualname__ for hook in hooks), *stacks, *modes]


def _once(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with each element once, where it is expanded: nothing is written to others."""
    for dim, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        tensor = tensor.narrow(dim, 0, 1) if step == 0 and size else tensor
    return tensor


def reference(text: str, count: int) -> Sequence[Sight] | None:
    """The facts of the ``count``-th call in float64, from the same values; None where that does not run."""
    return _in_float64(text, count, copied=False) or _in_float64(text, count, copied=True)


def _in_float64(text: str, count: int, *, copied: bool) -> Sequence[Sight] | None:
    default = torch.get_default_dtype()
    exact = _made(load(text))
    torch.set_default_dtype(torch.float64)
    try:
        program = load(in_float64(text, copied=copied))
        state = _made(program)
        # Numbers that were rounded to their type, not those that are written in the text.
        for one, other in zip(tensors_in(s=exact), tensors_in(s=state), strict=True):
            if other.is_floating_point():
                _once(other.data).copy_(_once(one.data))
        names = tuple(inspect.signature(program.program).parameters)
        call = list(itertools.islice(_calls(program, program.program, names, state), count))[-1]
        # A cast that has nothing to do gives the tensor itself, to which the program may not write: tried again with
        # copies.
        return None if call.raised and not copied else call.sights
    except Exception:  # noqa: BLE001 - types that the program insists on
        return None
    finally:
        torch.set_default_dtype(default)


def with_other_last_bits(text: str, count: int, seed: int) -> Sequence[Sight] | None:
    """The facts of the ``count``-th call in eager where its arguments are a rounding or two away, or none."""
    program = load(text)
    state = _made(program)
    draw = torch.Generator().manual_seed(seed)
    # Leaves are written to in place.
    with torch.no_grad():
        for tensor in tensors_in(s=state):
            if tensor.is_floating_point():
                once = _once(tensor.data)
                steps = torch.randint(-2, 3, once.shape, generator=draw)
                once.copy_(torch.where(steps == 0, once, once + steps * torch.finfo(once.dtype).eps * once))
    names = tuple(inspect.signature(program.program).parameters)
    try:
        return list(itertools.islice(_calls(program, program.program, names, state), count))[-1].sights
    except Exception:  # noqa: BLE001 - what is written to tensors of inference mode
        return None


def kept_as_saved(text: str, count: int) -> Sequence[Sight] | None:
    """The facts of the ``count``-th call where eager keeps copies of what it saves in it, and refuses no write.  This
    is a mode itself, so modes are not told."""
    found = _last_call_in(torch.autograd.graph.allow_mutation_on_saved_tensors(), text, count)
    return None if found is None else [sight for sight in found if not sight.where.startswith(MODES)]


def with_all_gradients(text: str, count: int) -> Sequence[Sight] | None:
    """The facts of the ``count``-th call where each leaf gets its gradient, whatever another refuses."""
    return _last_call_in(mock.patch("torch.autograd.backward", _for_each_leaf), text, count)


def _last_call_in(changed: AbstractContextManager[object], text: str, count: int) -> Sequence[Sight] | None:
    """The facts of the ``count``-th call, made under ``changed``; None where that does not run."""
    program = load(text)
    state = _made(program)
    names = tuple(inspect.signature(program.program).parameters)
    running = _calls(program, program.program, names, state)
    try:
        for _ in range(count - 1):
            next(running)
        with changed:
            return next(running).sights
    except Exception:  # noqa: BLE001 - what such a mode of torch's does not know
        return None


def _for_each_leaf(tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, **others: Any) -> None:
    """A backward that goes to all leaves first, and then adds to one after another."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    leaves = _leaves_behind(tensors)
    found = torch.autograd.grad(tensors, leaves, grad_tensors, retain_graph, allow_unused=True)
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient


def _leaves_behind(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that autograd finds behind these tensors."""
    pending: list[Any] = [tensor.grad_fn for tensor in tensors]
    leaves = [tensor for tensor in tensors if tensor.is_leaf]
    seen = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        pending += [source for source, _ in node.next_functions]
        leaves += [node.variable] if hasattr(node, "variable") else []
    return leaves
