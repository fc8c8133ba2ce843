"""The autograd.Function around a compiled pair, written as flat code for exactly the values that this pair has.

Must not know: mutation and aliasing; `wrapper.py` restores those around it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from aotgrad.partition import Pair
from aotgrad.roles import Gradient, Result, Saved, SavedSize, Tangent, UpdatedInput
from aotgrad.source import Source

Boxed = Callable[[list[Any]], Sequence[Any]]

_DOUBLE_BACKWARD = (
    "aotgrad compiles the first derivative only: this gradient was computed by a compiled backward and cannot be "
    "differentiated again; run the function eagerly to use create_graph=True"
)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How forward's outputs split: values for the caller, saved sizes, saved tensors."""

    values: int
    tensors: int
    sizes: int
    saved: int
    differentiable: tuple[int, ...]


def differentiable_function(pair: Pair, forward: Boxed, compile_backward: Callable[[], Boxed]) -> Callable[..., Any]:
    """A function of the graph's inputs that autograd can differentiate."""
    source, layout = Source(), _layout(pair)
    _write_forward(source, layout)
    _write_backward(source, layout, pair)
    source.names.update(
        Function=torch.autograd.Function,
        inner_forward=forward,
        is_grad_enabled=torch.is_grad_enabled,
        keep_graph=torch._C._autograd._get_current_graph_task_keep_graph,
        once=_once,
        zeros=torch.zeros,
        dense=_dense,
    )
    namespace = source.build("autograd function")
    namespace["inner_backward"] = _compiled_on_first_call(compile_backward, namespace)
    compiled = namespace["Compiled"]
    # Function.apply itself only adds a check for functorch transforms, whose tensors no compiled graph takes.
    apply: Callable[..., Any] = super(torch.autograd.Function, compiled).apply
    return apply


def _layout(pair: Pair) -> _Layout:
    roles = pair.forward.outputs
    sizes = sum(isinstance(role, SavedSize) for role in roles)
    saved = sum(isinstance(role, Saved) for role in roles)
    marked = [i for i, role in enumerate(roles) if isinstance(role, (UpdatedInput, Result)) and role.differentiable]
    tensors = sum(isinstance(role, (UpdatedInput, Result)) for role in roles)
    return _Layout(len(roles) - sizes - saved, tensors, sizes, saved, tuple(marked))


def _names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def _write_forward(source: Source, layout: _Layout) -> None:
    values, sizes, saved = _names("v", layout.values), _names("n", layout.sizes), _names("s", layout.saved)
    source.add("class Compiled(Function):")
    source.add("@staticmethod", 1)
    source.add("def forward(ctx, *inputs):", 1)
    source.add(f"{', '.join([*values, *sizes, *saved])}, = inner_forward([*inputs])", 2)
    if saved:
        source.add(f"ctx.save_for_backward({', '.join(saved)})", 2)
    if sizes:
        source.add(f"ctx.sizes = ({', '.join(sizes)},)", 2)
    constant = [name for index, name in enumerate(values[: layout.tensors]) if index not in layout.differentiable]
    if constant:
        source.add(f"ctx.mark_non_differentiable({', '.join(constant)})", 2)
    if len(layout.differentiable) > 1:
        source.add(
            f"ctx.like = ({', '.join(f'(v{i}.shape, v{i}.dtype, v{i}.device)' for i in layout.differentiable)},)", 2
        )
    source.add("ctx.set_materialize_grads(False)", 2)
    source.add(f"return {', '.join(values)}{',' if len(values) == 1 else ''}", 2)


def _write_backward(source: Source, layout: _Layout, pair: Pair) -> None:
    arriving = [f"t{index}" if index in layout.differentiable else f"_{index}" for index in range(layout.values)]
    tangents = [f"t{index}" for index in layout.differentiable]
    source.add("@staticmethod", 1)
    source.add(f"def backward(ctx, {', '.join(arriving)}):", 1)
    source.add("if is_grad_enabled():", 2)
    source.add(f"return once(Compiled.backward, ctx, ({', '.join(arriving)},))", 3)
    if len(tangents) > 1:
        source.add(f"absent = {{k for k, t in enumerate(({', '.join(tangents)},)) if t is None}}", 2)
    for order, (name, node) in enumerate(zip(tangents, _tangent_values(pair), strict=True)):
        _write_tangent(source, order, name, node, single=len(tangents) == 1)
    saved = [*(["*ctx.sizes"] if layout.sizes else []), *(["*ctx.saved_tensors"] if layout.saved else []), *tangents]
    source.add(f"inputs = [{', '.join(saved)}]", 2)
    if layout.saved:
        source.add("if not keep_graph():", 2)
        source.add("ctx.maybe_clear_saved_tensors()", 3)
    _write_gradients(source, pair, len(tangents))


def _tangent_values(pair: Pair) -> list[torch.Tensor]:
    inputs = zip(pair.backward.inputs, pair.backward.example_inputs, strict=True)
    return [value for role, value in inputs if isinstance(role, Tangent)]


def _write_tangent(source: Source, order: int, name: str, expected: torch.Tensor, *, single: bool) -> None:
    """Bring a tangent into the layout that backward was traced with; one that does not arrive is zero."""
    layout = memory_layout(expected)
    if not single:
        source.add(f"if {name} is None:", 2)
        source.add(f"{name} = zeros(ctx.like[{order}][0], dtype=ctx.like[{order}][1], device=ctx.like[{order}][2])", 3)
    if layout is torch.contiguous_format:
        source.add(f"if not {name}.is_contiguous(): {name} = {name}.contiguous()", 2)
    elif isinstance(layout, torch.memory_format):
        fmt = source.constant(layout, "format")
        source.add(
            f"if not {name}.is_contiguous(memory_format={fmt}): {name} = {name}.contiguous(memory_format={fmt})", 2
        )
    else:
        source.add(f"if {name}.stride() != {layout}: {name} = dense({name}, {layout})", 2)


def _write_gradients(source: Source, pair: Pair, tangents: int) -> None:
    gradients = {role.input: role for role in pair.backward.outputs if isinstance(role, Gradient)}
    source.add(f"{', '.join(f'g{index}' for index in gradients)}, = inner_backward(inputs)", 2)
    if tangents > 1:
        source.add("if absent:", 2)
        for index, role in gradients.items():
            needs = "{" + ", ".join(map(str, role.tangents)) + "}"
            source.add(f"if absent.issuperset({needs}): g{index} = None", 3)
    returned = [f"g{i}" if i in gradients else "None" for i in range(len(pair.forward.inputs))]
    source.add(f"return {', '.join(returned)}{',' if len(returned) == 1 else ''}", 2)


def memory_layout(value: torch.Tensor) -> torch.memory_format | tuple[int, ...]:
    """The memory format of a dense tensor, or its strides where no format says them."""
    for layout in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d):
        ranks = {torch.channels_last: 4, torch.channels_last_3d: 5}
        if ranks.get(layout, value.dim()) == value.dim() and value.is_contiguous(memory_format=layout):
            return layout
    return tuple(value.stride())


def _dense(value: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    return torch.empty_strided(value.size(), stride, dtype=value.dtype, device=value.device).copy_(value)


def _once(backward: Callable[..., Any], ctx: Any, tangents: tuple[Any, ...]) -> Any:
    """Gradients that say why they cannot be differentiated again, should anyone try."""
    with torch.no_grad():
        gradients = backward(ctx, *tangents)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    delayed = torch._C._functions.DelayedError(_DOUBLE_BACKWARD, len(gradients))
    return delayed(*(g if g is None else g.detach().requires_grad_() for g in gradients))


def _compiled_on_first_call(compile_backward: Callable[[], Boxed], namespace: dict[str, Any]) -> Boxed:
    """Backward is compiled when it is first needed; later calls find the compiled function in its place."""
    lock = threading.Lock()

    def first_call(inputs: list[Any]) -> Sequence[Any]:
        with lock:
            if namespace["inner_backward"] is first_call:
                namespace["inner_backward"] = compile_backward()
        run: Boxed = namespace["inner_backward"]
        return run(inputs)

    return first_call
