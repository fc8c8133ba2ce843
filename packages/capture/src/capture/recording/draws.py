"""Random numbers that a graph draws: where its frame starts over they are drawn again, and have to be the same.

Fakes draw nothing, but the operators on them say that they would.  Must not know how a frame starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from capture.operators.fake_kernels_of_dynamic_sizes import SymbolicSizesMode
from capture.torch_versions import OpOverload, pytree, schema_of

States = list[tuple[torch.Generator, torch.Tensor]]


class NotingDraws(SymbolicSizesMode):
    """A fake tensor mode that notes on which devices random numbers would have been drawn, and how often."""

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.drawn_on: set[torch.device] = set()
        self.draws = 0  # how often

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if torch.Tag.nondeterministic_seeded in func.tags and _draws(func, args, kwargs or {}):
            tensors = pytree.tree_leaves((result, args))
            self.draws += 1
            self.drawn_on.update(tensor.device for tensor in tensors if isinstance(tensor, torch.Tensor))
        return result


def _draws(func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if this call draws random numbers: attention does only where it drops something."""
    for position, argument in enumerate(schema_of(func).arguments):
        if argument.name == "dropout_p":
            given = args[position] if position < len(args) else kwargs.get("dropout_p", argument.default_value)
            return bool(given != 0)
    return True


def states_of(devices: Iterable[torch.device]) -> Callable[[], States]:
    """A function that gives the states of these devices' generators, and of the CPU's, from which seeds come."""
    generators = [torch.default_generator]
    generators += [torch.cuda.default_generators[device.index or 0] for device in devices if device.type == "cuda"]

    def states() -> States:
        if len(generators) > 1 and torch.cuda.is_current_stream_capturing():
            return []  # nothing can start over there
        return [(generator, generator.get_state()) for generator in generators]

    return states


def put_back(states: States) -> None:
    for generator, state in states:
        generator.set_state(state)
