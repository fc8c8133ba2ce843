"""Recurrent layers as operators: one node for all steps, so that a graph holds for any number of them.

What a step needs of its input is computed for all steps before (`gates`), and what weights get from the steps'
gradients after; in between is what cannot be done at once.  `kept` is what backward reads of forward, step by step:

    kind            gates                      kept
    rnn_tanh, _relu the activation             nothing
    gru             reset, update, new         reset, update, the state's part of new, new
    lstm            in, forget, new, out       those, the cell, its tanh

Where autograd is to follow an operator of these, which is for second derivatives alone, it is plain torch code.
Must not know: networks of several layers, tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as nnf

from aotgrad.torch_versions import AutoDispatchBelowAutograd

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "gru": 3, "lstm": 4}
_KEPT = {"rnn_tanh": 0, "rnn_relu": 0, "gru": 4, "lstm": 6}

_STEPS = (
    "(str kind, Tensor gates, Tensor state, Tensor? cell, Tensor weight, Tensor? bias, Tensor? projection, "
    "bool reverse, bool keep) -> (Tensor, Tensor, Tensor)"
)
_STEPS_BACKWARD = (
    "(str kind, Tensor grad_states, Tensor grad_cell, Tensor states, Tensor kept, Tensor state, "
    "Tensor? cell, Tensor weight, Tensor? projection, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
)


# -- all steps forward ----------------------------------------------------------------------------------------------


def steps(
    kind: str, gates: Tensor, state: Tensor, cell: Tensor | None, weight: Tensor, bias: Tensor | None,
    projection: Tensor | None, reverse: bool, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The states after each step, the last cell, and the values kept for backward."""
    states, last, kept = steps_fake(kind, gates, state, cell, weight, bias, projection, reverse, keep)
    order = range(len(gates))[:: -1 if reverse else 1]
    # Once for all steps, each of which is a product with it.
    weight = weight.t()
    if kind == "gru":
        _gru(gates, state, weight, bias, states, _rows(kept, gates, state), order)
    elif kind == "lstm":
        assert cell is not None
        last.copy_(_lstm(gates, state, cell, weight, projection, states, _rows(kept, gates, cell), order))
    else:
        activate = torch.tanh_ if kind == "rnn_tanh" else torch.relu_
        inputs, results = gates.unbind(0), states.unbind(0)
        for step in order:
            state = activate(torch.addmm(inputs[step], state, weight, out=results[step]))
    return states, last, kept


def steps_fake(
    kind: str, gates: Tensor, state: Tensor, cell: Tensor | None, weight: Tensor, bias: Tensor | None,
    projection: Tensor | None, reverse: bool, keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    count, batch, wide = gates.shape
    states = gates.new_empty(count, batch, state.shape[1])
    last = gates.new_empty(0 if cell is None else cell.shape)
    return states, last, gates.new_empty((count, batch, wide // GATES[kind] * _KEPT[kind]) if keep else 0)


def _rows(kept: Tensor, gates: Tensor, like: Tensor) -> Tensor:
    """The memory for the gates of each step: one row for all if nothing is kept."""
    if kept.dim() == 3:
        return kept
    return gates.new_empty(1, gates.shape[1], 6 * like.shape[1])  # as much as any kind keeps


def _columns(rows: Tensor, count: int, size: int, first: int, stop: int) -> Sequence[Tensor]:
    """Some of the gates, for each step."""
    columns = rows[..., first * size : stop * size].unbind(0)
    return columns if len(columns) == count else columns * count


def _gru(
    gates: Tensor, state: Tensor, weight: Tensor, bias: Tensor | None, states: Tensor, rows: Tensor,
    order: Sequence[int],
) -> None:  # fmt: skip
    of = partial(_columns, count=len(order), size=state.shape[1])
    # Slices for all steps are made once: in the loop every operator counts.
    of_input, new_of_input, results = of(gates, first=0, stop=2), of(gates, first=2, stop=3), states.unbind(0)
    products, both = of(rows, first=0, stop=3), of(rows, first=0, stop=2)
    reset, update, of_state, new = (of(rows, first=gate, stop=gate + 1) for gate in range(4))
    for step in order:
        if bias is None:
            torch.mm(state, weight, out=products[step])
        else:
            torch.addmm(bias, state, weight, out=products[step])
        # Reset and update lie side by side, so one call does both.
        both[step].add_(of_input[step]).sigmoid_()
        # The reset gate acts on the state's part with its bias, which is why this bias is not in ``gates``.
        torch.addcmul(new_of_input[step], reset[step], of_state[step], out=new[step]).tanh_()
        state = torch.lerp(new[step], state, update[step], out=results[step])


def _lstm(
    gates: Tensor, state: Tensor, cell: Tensor, weight: Tensor, projection: Tensor | None, states: Tensor,
    rows: Tensor, order: Sequence[int],
) -> Tensor:  # fmt: skip
    of = partial(_columns, count=len(order), size=cell.shape[1])
    inputs, results = gates.unbind(0), states.unbind(0)
    products, both = of(rows, first=0, stop=4), of(rows, first=0, stop=2)
    enter, forget, new, leave, cells, shown = (of(rows, first=gate, stop=gate + 1) for gate in range(6))
    for step in order:
        torch.addmm(inputs[step], state, weight, out=products[step])
        # The gates in and forget lie side by side, so one call does both.
        both[step].sigmoid_()
        new[step].tanh_()
        leave[step].sigmoid_()
        # Everything is written to the memory that backward reads.
        cell = torch.mul(forget[step], cell, out=cells[step]).addcmul_(enter[step], new[step])
        torch.tanh(cell, out=shown[step])
        if projection is None:
            state = torch.mul(leave[step], shown[step], out=results[step])
        else:
            state = torch.mm(leave[step] * shown[step], projection.t(), out=results[step])
    return cell


# -- all steps backward ---------------------------------------------------------------------------------------------


def steps_backward(
    kind: str,
    grad_states: Tensor,
    grad_cell: Tensor,
    states: Tensor,
    kept: Tensor,
    state: Tensor,
    cell: Tensor | None,
    weight: Tensor,
    projection: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of what each step's gates were made of, of the first state and cell, of the weight and of the
    projection.

    Of a GRU the first are those of the reset, the update, the state's part of new, and new.
    """
    before = _shifted(state, states, reverse)
    nothing = states.new_empty(0)
    first_cell = for_projection = nothing
    if kind == "lstm":
        assert cell is not None
        found, first, first_cell, projected = _lstm_backward(
            grad_states, grad_cell, kept, cell, weight, projection, reverse
        )
        if projected is not None:
            leave, shown = kept.chunk(6, 2)[3::2]
            for_projection = _summed(projected, leave * shown)
    elif kind == "gru":
        reset, update, of_state, new = kept.chunk(4, -1)
        # Factors between a step's state and its gates: of all steps at once, as they depend on kept values alone.
        to_new = (1 - update) * (1 - new * new)
        to_update = (before - new) * update * (1 - update)
        rates = torch.stack([to_new * of_state * reset * (1 - reset), to_update, to_new * reset, to_new], 2)
        found, first = _scan(grad_states, rates, update, weight, reverse)
    else:
        rates = (1 - states * states if kind == "rnn_tanh" else (states > 0).to(states.dtype)).unsqueeze(2)
        found, first = _scan(grad_states, rates, None, weight, reverse)
    # Of a GRU the last column, of new, does not come from the state's product.
    return found, first, first_cell, _summed(found[..., : weight.shape[0]], before), for_projection


def _shifted(first: Tensor, states: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with."""
    one = first.unsqueeze(0)
    return torch.cat([states[1:], one] if reverse else [one, states[:-1]])


def _summed(gradients: Tensor, values: Tensor) -> Tensor:
    """A matrix's gradient, of all steps and samples at once."""
    return gradients.flatten(0, 1).t() @ values.flatten(0, 1)


def _scan(
    grad_states: Tensor, rates: Tensor, carried: Tensor | None, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Steps whose gradients are those of their states times some rates."""
    gradients, rate = grad_states.unbind(0), rates.unbind(0)
    carries = None if carried is None else carried.unbind(0)
    wide = weight.shape[0]
    grad = torch.zeros_like(gradients[0])
    found: list[Tensor] = []
    # Against the order of forward: each step's state is the next one's input.
    for step in range(len(gradients))[:: 1 if reverse else -1]:
        grad = grad + gradients[step]
        gates = (grad.unsqueeze(1) * rate[step]).flatten(1)
        found.append(gates)
        # A GRU's state goes on to the next step past the gates, too.
        if carries is None:
            grad = torch.mm(gates, weight)
        else:
            grad = torch.addmm(grad * carries[step], gates[:, :wide], weight)
    return torch.stack(found if reverse else found[::-1]), grad


def _lstm_backward(
    grad_states: Tensor, grad_cell: Tensor, kept: Tensor, cell: Tensor, weight: Tensor, projection: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    enter, forget, new, leave, cells, shown = kept.chunk(6, -1)
    before = _shifted(cell, cells, reverse)
    to_leave = (shown * leave * (1 - leave)).unbind(0)
    to_cell = (leave * (1 - shown * shown)).unbind(0)
    rates = torch.stack([new * enter * (1 - enter), before * forget * (1 - forget), enter * (1 - new * new)], 2)
    gradients, rate, forgets = grad_states.unbind(0), rates.unbind(0), forget.unbind(0)
    grad = torch.zeros_like(gradients[0])
    found: list[Tensor] = []
    projected: list[Tensor] = []
    for step in range(len(gradients))[:: 1 if reverse else -1]:
        grad = grad + gradients[step]
        projected.append(grad)
        if projection is not None:
            grad = torch.mm(grad, projection)
        # The cell gets a gradient from the step behind it and from the state that shows it.
        grad_cell = torch.addcmul(grad_cell, grad, to_cell[step])
        inner = (grad_cell.unsqueeze(1) * rate[step]).flatten(1)
        found.append(torch.cat([inner, grad * to_leave[step]], 1))
        grad_cell = grad_cell * forgets[step]
        grad = torch.mm(found[-1], weight)
    if not reverse:
        found.reverse()
        projected.reverse()
    return torch.stack(found), grad, grad_cell, None if projection is None else torch.stack(projected)


def steps_backward_fake(
    kind: str, grad_states: Tensor, grad_cell: Tensor, states: Tensor, kept: Tensor, state: Tensor,
    cell: Tensor | None, weight: Tensor, projection: Tensor | None, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    wide = 4 * state.shape[1] if kind == "gru" else weight.shape[0]
    found = states.new_empty(states.shape[0], states.shape[1], wide)
    first_cell = states.new_empty(0 if cell is None else cell.shape)
    for_projection = states.new_empty(0 if projection is None else projection.shape)
    return found, states.new_empty(state.shape), first_cell, states.new_empty(weight.shape), for_projection


# -- as torch code --------------------------------------------------------------------------------------------------


def written_out(
    kind: str, gates: Tensor, state: Tensor, cell: Tensor | None, weight: Tensor, bias: Tensor | None,
    projection: Tensor | None, reverse: bool, keep: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The results of `steps`, by operators that autograd knows."""
    states: list[Tensor] = []
    kept: list[Tensor] = []
    for given in gates.unbind(0)[:: -1 if reverse else 1]:
        if kind == "lstm":
            assert cell is not None
            enter, forget, new, leave = nnf.linear(state, weight).add(given).chunk(4, 1)
            enter, forget, new, leave = enter.sigmoid(), forget.sigmoid(), new.tanh(), leave.sigmoid()
            cell = forget * cell + enter * new
            state = leave * cell.tanh()
            kept.append(torch.cat([enter, forget, new, leave, cell, cell.tanh()], 1))
            state = state if projection is None else nnf.linear(state, projection)
        elif kind == "gru":
            of_input, of_state = given.chunk(3, 1), nnf.linear(state, weight, bias).chunk(3, 1)
            reset, update = ((of_input[gate] + of_state[gate]).sigmoid() for gate in (0, 1))
            new = (of_input[2] + reset * of_state[2]).tanh()
            state = new + update * (state - new)
            kept.append(torch.cat([reset, update, of_state[2], new], 1))
        else:
            inner = nnf.linear(state, weight).add(given)
            state = inner.tanh() if kind == "rnn_tanh" else inner.relu()
        states.append(state)
    if reverse:
        states.reverse()
        kept.reverse()
    # An operator has as many results for each kind.
    nothing = gates.new_empty(0)
    return torch.stack(states), nothing if cell is None else cell, torch.stack(kept) if kept and keep else nothing


# -- registered -----------------------------------------------------------------------------------------------------


def register(
    name: str, schema: str, compute: Callable[..., Any], fake: Callable[..., Any], followed: Callable[..., Any],
    tags: Sequence[torch.Tag] = (),
) -> None:  # fmt: skip
    """Defines an operator of this package; `followed` computes the same where autograd is to follow."""
    qualified = f"aotgrad::{name}"
    torch.library.define(qualified, schema, tags=tags)
    operator = getattr(torch.ops.aotgrad, name).default

    def under_autograd(*args: object) -> Any:
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in _tensors(args)):
            return followed(*args)
        # Nothing to follow: the call goes on to the kernel, below this one.
        with AutoDispatchBelowAutograd():
            return operator(*args)

    torch.library.impl(qualified, "CompositeExplicitAutograd", compute)
    torch.library.impl(qualified, "Autograd", under_autograd)
    torch.library.register_fake(qualified, fake)


def _tensors(args: Sequence[object]) -> list[Tensor]:
    return [v for arg in args for v in (arg if isinstance(arg, (list, tuple)) else [arg]) if isinstance(v, Tensor)]


def define() -> None:
    register("steps", _STEPS, steps, steps_fake, written_out)
    register("steps_backward", _STEPS_BACKWARD, steps_backward, steps_backward_fake, steps_backward)
