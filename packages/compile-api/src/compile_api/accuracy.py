"""Compiled beside eager: the same inputs through both, and a float64 reference where they differ.

Two correct programs may round differently, so a difference alone proves nothing.  Off is what is clearly further from
the reference than eager is; then the first operator whose own result is off is looked for by halving the graph.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import fx

from capture import CaptureWarning, inform
from compile_api.errors import MissingGradients
from compile_api.ledger import GraphInaccurate, Ledger
from compile_api.missing_gradients import left_out
from compile_api.subgraphs import operators, up_to
from compile_api.torch_versions import pytree

CompilerFn: TypeAlias = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]

CALLS = 3
"""The number of calls of each graph that are checked."""

_WORSE_THAN_EAGER = 4.0
"""The factor by which a compiled result may be further off than eager's own."""

_HALVES = (torch.float16, torch.bfloat16)


class AccuracyWarning(CaptureWarning):
    """A compiled graph computed something else than eager, found under ``options={"check": True}``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest error of the compiled graph and of eager; a dtype or shape that differs is an infinite error."""

    error: float
    eager_error: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one run: outputs, inputs as they are afterwards, gradients of the inputs."""

    tensors: tuple[torch.Tensor | None, ...]


def checked(
    gm: fx.GraphModule, compiled: Callable[..., Any], compiler: CompilerFn, ledger: Ledger
) -> Callable[..., Any]:
    """``compiled`` with eager beside its first calls; once it was off, eager.

    A graph whose backward leaves out a leaf raises before it has done anything: CPython then runs the whole function.
    """
    left = CALLS
    runs = compiled

    def call(*inputs: Any) -> Any:
        nonlocal left, runs
        if left:
            left -= 1
            # Asked first, on copies: nothing of the user's has been touched when CPython takes over.
            if (missing := _missing(gm, inputs)) is not None:
                left, runs = 0, _raising(missing)
                _tell_missing(missing, ledger)
                return runs(*inputs)
            found = difference(gm, compiled, inputs)
            if found is not None:
                left, runs = 0, gm.forward
                _tell(gm, compiler, inputs, found, ledger)
        return runs(*inputs)

    return call


def _tell(
    gm: fx.GraphModule, compiler: CompilerFn, inputs: Sequence[object], found: Difference, ledger: Ledger
) -> None:
    node = first_off(gm, compiler, inputs)
    location = node.meta.get("location") if node is not None else None
    name = "no single operator, only their fusion" if node is None else f"{_named(node)}"
    record = GraphInaccurate(name, str(location or ""), found.error, found.eager_error)
    ledger.add(record)
    inform(AccuracyWarning(f"a compiled graph is inaccurate and runs eagerly from now on: {record}"))


def _missing(gm: fx.GraphModule, inputs: Sequence[object]) -> GraphInaccurate | None:
    with _same_random_numbers():
        twins = _twins(inputs)
        found = left_out(gm, _given(twins), twins)
    if found is None:
        return None
    node, names = found
    return GraphInaccurate("`backward()`", str(node.meta.get("location") or ""), float("inf"), 0.0, missing=names)


def _tell_missing(record: GraphInaccurate, ledger: Ledger) -> None:
    ledger.add(record)
    inform(AccuracyWarning(f"a graph misses gradients, and CPython runs it from now on: {record}"))


def _raising(record: GraphInaccurate) -> Callable[..., Any]:
    def refuse(*inputs: object) -> Any:
        raise MissingGradients(str(record))

    return refuse


def _named(node: fx.Node) -> str:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return f"`{target}` (`{node.name}`)"


def first_off(gm: fx.GraphModule, compiler: CompilerFn, inputs: Sequence[object]) -> fx.Node | None:
    """The first operator of ``gm`` such that the graph up to it is off, found in about log2(operators) compilations.

    None where every such graph is right: then it takes the whole graph, fused, to go wrong.
    """

    def off(node: fx.Node) -> bool:
        part = up_to(gm, node)
        return difference(part, compiler(part, _twins(inputs)), inputs) is not None

    last = next((node for node in _results(gm) if off(node)), None)
    if last is None:
        return None
    nodes = _needed_for(last)
    # Bisection: what is computed from a value that is off counts as off, too.
    low, high = 0, len(nodes) - 1
    while low < high:
        middle = (low + high) // 2
        if off(nodes[middle]):
            high = middle
        else:
            low = middle + 1
    return nodes[low]


def _results(gm: fx.GraphModule) -> list[fx.Node]:
    """The operators whose values the graph returns."""
    output = next(node for node in gm.graph.nodes if node.op == "output")
    return [node for node in output.all_input_nodes if node.op != "placeholder"]


def _needed_for(last: fx.Node) -> list[fx.Node]:
    """The operators that ``last`` is computed from, in order, and itself."""
    needed = {last}
    for node in reversed(last.graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in operators(last.graph.owning_module) if node in needed and _is_tensor(node)]


def _is_tensor(node: fx.Node) -> bool:
    return "val" not in node.meta or isinstance(node.meta["val"], torch.Tensor)


def difference(gm: fx.GraphModule, compiled: Callable[..., Any], inputs: Sequence[object]) -> Difference | None:
    """The error of ``compiled`` on ``inputs``, which are left as they are; None where it is as good as eager."""
    with _same_random_numbers() as again:
        eager = _outcome(gm.forward, _twins(inputs))
        again()
        ours = _outcome(compiled, _twins(inputs))
        if _alike(eager.tensors, ours.tensors):
            return None
        again()
        reference = _reference(gm, inputs)
    return _judged(eager, ours, reference or eager)


@contextmanager
def _same_random_numbers() -> Iterator[Callable[[], None]]:
    """Yields a function that brings the generators of all devices back to where they were; leaving the block does so,
    too."""
    state = torch.random.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []

    def again() -> None:
        torch.random.set_rng_state(state)
        if on_gpus:
            torch.cuda.set_rng_state_all(on_gpus)

    try:
        yield again
    finally:
        again()


def _judged(eager: Outcome, ours: Outcome, reference: Outcome) -> Difference | None:
    worst: Difference | None = None
    for mine, theirs, exact in zip(ours.tensors, eager.tensors, reference.tensors, strict=True):
        if _alike((theirs,), (mine,)):
            continue
        ours_off, eager_off = _error(mine, exact, like=theirs), _error(theirs, exact, like=theirs)
        # A single number may be unlucky where a sum cancels; a mistake shows in the whole too.
        is_off = ours_off.clearly_above(eager_off, _rounding(theirs))
        if is_off and (worst is None or ours_off.largest > worst.error):
            worst = Difference(ours_off.largest, eager_off.largest)
    return worst


def _alike(expected: Sequence[torch.Tensor | None], actual: Sequence[torch.Tensor | None]) -> bool:
    if len(expected) != len(actual):
        return False
    return all(_close(a, b) for a, b in zip(expected, actual, strict=True))


def _close(expected: torch.Tensor | None, actual: torch.Tensor | None) -> bool:
    if expected is None or actual is None:
        return expected is actual
    if expected.dtype != actual.dtype or expected.shape != actual.shape:
        return False
    if not (expected.is_floating_point() or expected.is_complex()):
        return torch.equal(expected, actual)
    exact = expected.dtype in (torch.float64, torch.complex128)
    rtol = 1e-9 if exact else 1e-2 if expected.dtype in _HALVES else 1e-5
    return torch.allclose(expected, actual, rtol=rtol, atol=rtol, equal_nan=True)


@dataclass(frozen=True, slots=True)
class _Error:
    """The largest distance to what is exact, and the root of the mean square of all."""

    largest: float
    typical: float

    def clearly_above(self, other: _Error, rounding: float) -> bool:
        """True if both errors are worse than ``other`` allows; a NaN or an infinity always is."""
        largest_fine = self.largest <= _WORSE_THAN_EAGER * other.largest + rounding
        typical_fine = self.typical <= _WORSE_THAN_EAGER * other.typical + rounding / 16
        return not (largest_fine or typical_fine)


def _error(actual: torch.Tensor | None, exact: torch.Tensor | None, like: torch.Tensor | None) -> _Error:
    """The error of a tensor; infinite where there is nothing to compare, or a NaN that should be none."""
    if actual is None or exact is None or like is None or actual.shape != exact.shape or actual.dtype != like.dtype:
        return _Error(float("inf"), float("inf"))
    wide = torch.complex128 if actual.is_complex() else torch.float64
    distance = (actual.to(wide) - exact.to(wide)).abs()
    agree = (actual.to(wide) == exact.to(wide)) | (actual.isnan() & exact.isnan())
    worst = torch.where(agree, 0.0, distance).nan_to_num(nan=float("inf"))
    if not worst.numel():
        return _Error(0.0, 0.0)
    return _Error(float(worst.max()), float(worst.square().mean().sqrt()))


def _rounding(tensor: torch.Tensor | None) -> float:
    """The error that rounding alone may cause at this tensor's scale."""
    if tensor is None or not (tensor.is_floating_point() or tensor.is_complex()) or not tensor.numel():
        return 0.0
    largest = float(tensor.detach().abs().nan_to_num(0.0, 0.0, 0.0).max())
    return 16 * torch.finfo(tensor.dtype).eps * max(largest, 1e-3)


def _twins(inputs: Sequence[Any]) -> list[Any]:
    """Copies that share memory among one another as the inputs do, and are leaves of their own."""
    bare = [each.detach() if isinstance(each, torch.Tensor) else each for each in inputs]
    twins = copy.deepcopy(bare)
    for twin, each in zip(twins, inputs, strict=True):
        if isinstance(each, torch.Tensor) and each.requires_grad:
            twin.requires_grad_()
    return twins


def _outcome(function: Callable[..., Any], inputs: list[object]) -> Outcome:
    leaves = [each for each in inputs if isinstance(each, torch.Tensor) and each.requires_grad]
    given = _given(inputs)
    with torch.set_grad_enabled(torch.is_grad_enabled()):  # a part of a graph may leave it switched
        outputs = function(*given)
    tensors = [each for each in outputs if isinstance(each, torch.Tensor)]
    results: list[torch.Tensor | None] = [each.detach().clone() for each in tensors]
    # The graph may have written to its inputs, which is a result like any other.
    results += [each.detach().clone() for each in given if isinstance(each, torch.Tensor)]
    ends = [each for each in tensors if each.requires_grad and each.grad_fn is not None]
    if ends and leaves:
        results += torch.autograd.grad(ends, leaves, [_cotangent(each) for each in ends], allow_unused=True)
    return Outcome(tuple(results))


def _given(inputs: Sequence[object]) -> list[Any]:
    """A leaf may not be written to where gradients are on: what the graph gets is the same tensor one step further."""
    return [each.view_as(each) if isinstance(each, torch.Tensor) and each.requires_grad else each for each in inputs]


def _cotangent(output: torch.Tensor) -> torch.Tensor:
    """A gradient for an output, neither constant nor random: every run is given the same."""
    count = torch.arange(output.numel(), device=output.device, dtype=torch.float64)
    return (1 + (count % 7) / 8).reshape(output.shape).to(output.dtype)


# -- the reference ------------------------------------------------------------------------------------------------


def _reference(gm: fx.GraphModule, inputs: Sequence[object]) -> Outcome | None:
    """The graph in float64, or nothing where it does not run so."""
    wide = [_widened(each) for each in _twins(inputs)]
    # Widening is an operation that autograd follows; gradients are wanted of the widened inputs themselves.
    for twin, each in zip(wide, inputs, strict=True):
        if isinstance(each, torch.Tensor) and each.requires_grad:
            twin.detach_().requires_grad_()
    try:
        return _outcome(_InDouble(gm).run, wide)
    except Exception:  # noqa: BLE001 - an operator without a float64 kernel raises whatever it likes; eager judges then
        return None


def _widened(value: object) -> Any:
    if isinstance(value, torch.Tensor):
        if value.is_complex():
            return value.to(torch.complex128)
        return value.to(torch.float64) if value.is_floating_point() else value
    if isinstance(value, torch.dtype):
        return torch.complex128 if value.is_complex else torch.float64 if value.is_floating_point else value
    return value


class _InDouble(fx.Interpreter):
    """Runs a graph with every floating dtype that it names replaced, and without autocast."""

    def call_function(self, target: object, args: object, kwargs: object) -> Any:
        # Autocast would bring the half precision back that the reference does without.
        if "autocast" in getattr(target, "__name__", ""):
            return None
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        return super().call_function(target, args, kwargs)

    def call_method(self, target: object, args: object, kwargs: object) -> Any:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        return super().call_method("double" if target in ("float", "half", "bfloat16") else target, args, kwargs)

    def get_attr(self, target: object, args: object, kwargs: object) -> Any:
        return _widened(super().get_attr(target, args, kwargs))
