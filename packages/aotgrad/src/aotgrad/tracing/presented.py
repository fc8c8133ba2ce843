"""The tensors that a traced program sees in place of its inputs: leaves for leaves, tensors with a history for
others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from aotgrad.tensors import functional
from aotgrad.torch_versions import DisableTorchDispatch
from aotgrad.tracing.analyse import TracedInput
from aotgrad.tracing.inputs import GraphInput, Signature


def present(entry: TracedInput, given: GraphInput, training: bool) -> None:
    """Makes the tensor that the program sees in place of a real input, a leaf where the real one is a leaf."""
    if not isinstance(entry.fake, torch.Tensor):
        entry.value = entry.seen[given.position] = entry.fake
        return
    _present_tensor(entry, given, training)
    # Members are the caller's arguments over this memory, each a view of the one input that stands for all.
    entry.seen = {m.position: entry.value.as_strided(m.size, m.stride, m.offset) for m in given.members}
    if not given.members:
        entry.seen[given.position] = entry.value


def _present_tensor(entry: TracedInput, given: GraphInput, training: bool) -> None:
    entry.within = given.within and given.requires_grad
    entry.tracked = given.requires_grad and not given.within
    if not entry.tracked:
        entry.value = functional.wrap(entry.fake)
    # Without backward it is the same whether there is a history: what asks for `requires_grad` is answered.
    elif given.is_leaf or not training:
        entry.value = entry.leaf = functional.wrap(entry.fake).requires_grad_()
    else:
        entry.leaf = functional.wrap(entry.fake).requires_grad_()
        with torch.enable_grad():
            # Otherwise a write to it would be one to a leaf, which autograd refuses of leaves alone.
            entry.value = _Arrive.apply(entry.leaf, entry.fake)
        entry.history = entry.value.grad_fn


def without_data(fake: torch.Tensor) -> torch.Tensor:
    """A tensor of the same layout without data."""
    with DisableTorchDispatch():
        return torch.empty_strided(fake.size(), fake.stride(), device="meta").as_strided(
            fake.size(), fake.stride(), fake.storage_offset()
        )


class _Arrive(torch.autograd.Function):
    """A tensor that is not a leaf and has no operator behind it: the program may change it in place."""

    hands_on_what_arrives = True

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        ctx.set_materialize_grads(False)
        return functional.wrap(fake)

    @staticmethod
    def backward(ctx: object, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad, None


def arguments(signature: Signature, inputs: Sequence[TracedInput]) -> list[Any]:
    """The arguments of the program: constants, the tensors in place of its inputs, one object where the caller passed
    one twice."""
    arguments: list[Any] = [None] * signature.arity
    for position, value in signature.constants:
        arguments[position] = value
    for entry in inputs:
        for position, value in entry.seen.items():
            arguments[position] = value
    for position, first in signature.duplicates:
        arguments[position] = arguments[first]
    return arguments
