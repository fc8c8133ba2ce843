"""Graph inputs from the caller's arguments: fake tensors made, duplicates found, shared memory grouped.

Must not know: how a graph is traced or run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from aotgrad.errors import Unsupported
from aotgrad.tensors.dense import oddity
from aotgrad.tensors.fakes import Fakes
from aotgrad.tensors.functional import memory_of
from aotgrad.torch_versions import FakeTensor, FakeTensorMode


@dataclass(frozen=True, slots=True)
class Member:
    """One of the caller's tensors as a view of the flat memory that it shares with others."""

    position: int
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any


@dataclass(frozen=True, slots=True)
class GraphInput:
    """One tensor or dynamic number that the graph takes, and where the caller passes it.

    With `members`, the tensor is the flat memory under all of those; `position` is that of the first.
    """

    position: int
    value: Any  # FakeTensor, SymInt or SymFloat
    requires_grad: bool = False
    is_leaf: bool = True
    members: tuple[Member, ...] = ()
    within: bool = False  # within a tensor subclass object, which is what autograd follows
    view: bool = False  # of another tensor, as autograd knows


@dataclass(frozen=True, slots=True)
class Signature:
    """The mapping from the caller's arguments to graph inputs."""

    arity: int
    inputs: tuple[GraphInput, ...]
    constants: tuple[tuple[int, Any], ...]
    duplicates: tuple[tuple[int, int], ...]  # position, and the first position of the same tensor
    fake_mode: FakeTensorMode

    @property
    def passes_through(self) -> bool:
        """True if the graph's inputs are exactly the caller's arguments."""
        positions = [entry.position for entry in self.inputs if not entry.members]
        return positions == list(range(self.arity))

    def alias_groups(self) -> list[tuple[int, ...]]:
        """Indices of graph inputs that share memory, for each memory that several share."""
        groups: dict[int, list[int]] = defaultdict(list)
        for index, entry in enumerate(self.inputs):
            if isinstance(entry.value, torch.Tensor):
                groups[memory_of(entry.value)].append(index)
        return [tuple(group) for group in groups.values() if len(group) > 1]


def read_inputs(example_inputs: Sequence[object], *, dynamic: bool, symbols: bool = False) -> Signature:
    """Fakes for the tensors, each once; dynamic numbers; constants for the rest.

    With `symbols`, numbers that depend on what tensors hold can be named too.
    """
    fakes = Fakes(_fake_mode_of(example_inputs, dynamic or symbols))
    inputs: list[GraphInput] = []
    constants: list[tuple[int, Any]] = []
    duplicates: list[tuple[int, int]] = []
    first: dict[int, int] = {}
    for position, value in enumerate(example_inputs):
        if isinstance(value, torch.Tensor):
            if id(value) in first:
                # One tensor passed twice is one input: writes to it must be seen at both places.
                duplicates.append((position, first[id(value)]))
            else:
                first[id(value)] = position
                inputs.append(_tensor_input(position, value, fakes, dynamic))
        elif isinstance(value, (torch.SymInt, torch.SymFloat)) and not value.node.expr.is_number:
            inputs.append(GraphInput(position, value))
        else:
            constants.append((position, int(value) if isinstance(value, torch.SymInt) else value))
    return Signature(len(example_inputs), tuple(inputs), tuple(constants), tuple(duplicates), fakes.mode)


def with_shared_memory(signature: Signature, groups: Sequence[tuple[int, ...]], *, followed: bool) -> Signature:
    """A signature in which each group of inputs arrives as the one flat tensor that they are views of.  No gradient
    comes to them from there, which matters where autograd has `followed`."""
    absorbed = {index for group in groups for index in group}
    kept = [entry for index, entry in enumerate(signature.inputs) if index not in absorbed]
    bases = [_base([signature.inputs[index] for index in group], followed) for group in groups]
    return replace(signature, inputs=(*bases, *kept))


def _base(group: Sequence[GraphInput], followed: bool) -> GraphInput:
    values = [entry.value for entry in group]
    first = values[0]
    if any(value.dtype != first.dtype for value in values):
        raise Unsupported("inputs of different dtypes share memory and one is mutated", "pass copies")
    if followed and any(entry.requires_grad for entry in group):
        raise Unsupported(
            "inputs that require grad share memory and one is mutated", "mutate under no_grad or pass copies"
        )
    # All of the storage, as the inputs may lie anywhere in it.
    length = first.untyped_storage().nbytes() // first.element_size()
    flat = torch.as_strided(first, (length,), (1,), 0)
    members = (
        Member(entry.position, tuple(v.size()), tuple(v.stride()), v.storage_offset())
        for entry, v in zip(group, values, strict=True)
    )
    return GraphInput(group[0].position, flat, members=tuple(members))


def _fake_mode_of(example_inputs: Sequence[object], symbols: bool) -> FakeTensorMode:
    for value in example_inputs:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    if not symbols:
        return FakeTensorMode()
    # Imported here because it takes seconds, which neither static sizes nor a caller that brings fakes need wait.
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    return FakeTensorMode(shape_env=ShapeEnv())


def _tensor_input(position: int, value: torch.Tensor, fakes: Fakes, dynamic: bool) -> GraphInput:
    if odd := oddity(value):
        raise Unsupported(f"argument {position} {odd}", "only strided tensors are compiled")
    # Detached: the graph's own autograd history must not hang on the caller's tensor.
    fake = _detached(value) if isinstance(value, FakeTensor) else fakes.of(value.detach(), dynamic=dynamic)
    return GraphInput(position, fake, value.requires_grad, value.is_leaf, view=value._is_view())


def _detached(fake: FakeTensor) -> FakeTensor:
    """The fake tensor detached, under its mode: otherwise torch asks whether this is a distributed tensor, and imports
    all there is of those."""
    with fake.fake_mode:
        return fake.detach()
