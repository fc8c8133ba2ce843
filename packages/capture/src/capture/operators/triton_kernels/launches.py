"""The start of a Triton kernel as an operator of torch's, so that a graph can hold it and every backend can run it.

One operator per way of calling a kernel.  Its schema says what is written; tensors are its operands, whole numbers and
the grid are its ``SymInt`` lists, and whatever else the kernel is given is a part of the operator itself.  It has no
gradient: what a kernel writes has no history in eager either.
Must not know: graphs, values of the evaluator.  Triton is never imported from here.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from capture.operators.definitions import install, operator_for, without_gradient
from capture.operators.triton_kernels.writes import function_of
from capture.torch_versions import OpOverload

NAMESPACE = "triton_kernels"


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """An object that is compared by its identity."""

    object: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Held) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as it is given to the operator."""

    index: int


@dataclass(frozen=True, slots=True)
class Window:
    """A view of an operand that covers its memory.

    So the kernel sees every alias that it sees in eager, and may reach beyond the view.  The numbers from ``at`` on
    are its sizes, its strides and how far it begins behind the operand.
    """

    index: int
    dims: int
    at: int


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number."""

    index: int


@dataclass(frozen=True, slots=True)
class Real:
    """A float."""

    index: int


@dataclass(frozen=True, slots=True)
class Read:
    """A float that an operand holds: a data-dependent one."""

    index: int


@dataclass(frozen=True, slots=True)
class Constant:
    """Anything else, fixed when the operator is made: a type, a text, a truth, another kernel."""

    kind: type
    held: object

    @staticmethod
    def of(value: object) -> Constant:
        plain = value is None or isinstance(value, (bool, int, float, str, torch.dtype))
        return Constant(type(value), value if plain else Held(value))

    @property
    def value(self) -> Any:
        return self.held.object if isinstance(self.held, Held) else self.held

    def is_like(self, found: object) -> bool:
        """True for the same object, or an equal one of the same type: 1 and True are two constants."""
        return found is self.value or (type(found) is self.kind and bool(found == self.value))


Slot = Operand | Window | Whole | Real | Read | Constant


@dataclass(frozen=True, slots=True)
class Branch:
    """A grid that is taken where the kernel's meta-parameters have these values; ``dims`` of the numbers are its."""

    values: tuple[tuple[str, Constant], ...]
    dims: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A way of calling a kernel; equal ones are one operator."""

    kernel: Held
    positional: tuple[Slot, ...]
    named: tuple[tuple[str, Slot], ...]
    written: tuple[bool, ...]
    """For each operand, True if the kernel may write to it."""
    branches: tuple[Branch, ...]


def operator_of(launch: Launch) -> OpOverload:
    """The operator for this way of calling a kernel."""
    operator: OpOverload = operator_for(launch, lambda: _define(launch)).default
    return operator


def _define(launch: Launch) -> str:
    name = _free_name(launch)
    tensors = [f"Tensor{f'(a{i}!)' if writes else ''} t{i}" for i, writes in enumerate(launch.written)]
    schema = ", ".join([*tensors, "SymInt[] numbers", "float[] reals", "SymInt[] grid"])
    start = _starter(launch)
    install(name, f"({schema}) -> ()", start, _noting_writes(launch))
    without_gradient(name)  # in eager, what a kernel writes has none either
    made = getattr(getattr(torch.ops, NAMESPACE), name.split("::")[1]).default
    made.direct = start  # for callers who know that there is nothing to dispatch on
    return name


def _free_name(launch: Launch) -> str:
    """A name that no other operator has.  Every process gives it for the same text and way of calling, so that what is
    kept on disk is found again."""
    function = function_of(launch.kernel.object)
    assert function is not None
    kinds = repr((launch.positional, launch.named, launch.written, launch.branches))
    about = f"{function.__module__}.{function.__qualname__}{re.sub(' at 0x[0-9a-f]+', '', kinds)}"
    stem = re.sub(r"\W", "_", function.__name__) + "_" + hashlib.sha256(about.encode()).hexdigest()[:8]
    taken = getattr(torch.ops, NAMESPACE)
    name, count = stem, 1
    while hasattr(taken, name):
        count += 1
        name = f"{stem}_{count}"
    return f"{NAMESPACE}::{name}"


def kernel_name(operator: str) -> str | None:
    """The program's name for the kernel behind an operator, told by the operator's name; None for other operators."""
    found = re.match(rf"{NAMESPACE}(?:::|\.)(\w+)_[0-9a-f]{{8}}(?:_\d+)?(?:\.|$)", operator)
    return None if found is None else found[1]


def _noting_writes(launch: Launch) -> Callable[..., None]:
    """The fake kernel: it computes nothing, and counts the writes, for whoever looks at tensors' versions."""

    def note(*args: Any) -> None:
        tensors = zip(args, launch.written, strict=False)
        # Tensors of inference mode have no count of versions.
        changed = [tensor for tensor, writes in tensors if writes and not tensor.is_inference()]
        torch.autograd.graph.increment_version(changed)

    return note


def _starter(launch: Launch) -> Callable[..., None]:
    """A function with nothing in it but the call.

    It is written as text, since a start is short and would spend its time on unpacking arguments.
    """
    known: dict[str, Any] = {"kernel": launch.kernel.object, "window": _window, "choice": _choice}
    positional = [_text(slot, known) for slot in launch.positional]
    named = [f"{name}={_text(slot, known)}" for name, slot in launch.named]
    if len(launch.branches) == 1:
        grid = "(" + "".join(f"grid[{dim}], " for dim in range(launch.branches[0].dims)) + ")"
    else:
        known["branches"], grid = launch.branches, "choice(branches, grid)"
    taken = [*(f"t{index}" for index in range(len(launch.written))), "numbers", "reals", "grid"]
    text = f"def start({', '.join(taken)}):\n    kernel[{grid}]({', '.join([*positional, *named])})\n"
    exec(compile(text, "<generated: the start of a kernel>", "exec"), known)
    start: Callable[..., None] = known["start"]
    return start


def _text(slot: Slot, known: dict[str, object]) -> str:
    """The text of one argument of the call."""
    match slot:
        case Operand(index):
            return f"t{index}"
        case Window(index, dims, at):
            return f"window(t{index}, {dims}, numbers[{at}:{at + 2 * dims + 1}])"
        case Whole(index):
            return f"numbers[{index}]"
        case Real(index):
            return f"reals[{index}]"
        case Read(index):
            return f"t{index}.item()"
        case Constant():
            name = f"constant{len(known)}"
            known[name] = slot.value
            return name


def _window(base: torch.Tensor, dims: int, numbers: Sequence[int]) -> torch.Tensor:
    """The view that the kernel is given, made of the operand that covers its memory."""
    return base.as_strided(numbers[:dims], numbers[dims : 2 * dims], base.storage_offset() + numbers[2 * dims])


def _choice(branches: Sequence[Branch], extents: Sequence[int]) -> Callable[[object], tuple[int, ...]]:
    """A grid as Triton asks for it: by the meta-parameters that it settled on."""
    grids, at = [], 0
    for branch in branches:
        grids.append(tuple(extents[at : at + branch.dims]))
        at += branch.dims

    def grid(meta: Any) -> tuple[int, ...]:
        for branch, found in zip(branches, grids, strict=True):
            if all(value.is_like(meta[name]) for name, value in branch.values):
                return found
        raise LookupError("Triton chose meta-parameters that none of the kernel's configurations has")

    return grid


def is_kernel(obj: object) -> bool:
    """True if it is started by ``obj[grid](...)``."""
    return _is_a("KernelInterface", obj)


def is_host_function(obj: object) -> bool:
    """True for a function of Triton's for kernels and programs alike."""
    return _is_a("ConstexprFunction", obj)


def is_interpreted(kernel: Any) -> bool:
    """True if Triton's interpreter runs the kernel, which gives nothing back for a start."""
    while not isinstance(kernel.fn, FunctionType):
        kernel = kernel.fn
    return type(kernel).__name__ == "InterpretedFunction"


def _is_a(name: str, obj: object) -> bool:
    """True if an object is of this class of Triton's.

    Asked of anything, long before anybody has imported Triton; isinstance would ask the object, too.
    """
    module = sys.modules.get("triton.runtime.jit")
    cls = None if module is None else vars(module).get(name)
    return cls is not None and issubclass(type(obj), cls)
