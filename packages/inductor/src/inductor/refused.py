"""Operators on dtypes, mixes of them, or numbers too large for them, that torch's kernels do not implement: torch's own
kernel is tried on tiny tensors, so that the user gets its error instead of a result.

Must not know: graphs, kernels of ours.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from inductor.quiet import quiet
from inductor.torch_versions import DisableTorchDispatch, OpOverload, pytree, schema_of

_EVERYWHERE = frozenset({torch.float32, torch.float64})
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.layout, torch.device, torch.memory_format)
_SYMBOLIC = (torch.SymInt, torch.SymFloat)
_LONGEST_ASKED = 16
"""Elements along an axis of a trial's operands.  No cost: an operator whose window does not fit them is not refused."""
_LARGEST_ASKED = 1 << 22
"""Elements of a result.  No cost: a trial makes none that is larger, whatever the program's numbers are."""
_UNIMPLEMENTED = re.compile("not implemented for|not support|without overflow", re.IGNORECASE)
_MOST = torch.finfo(torch.float32).max


def is_unimplemented(target: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if torch refuses the operator on CPU tensors of these dtypes; tried once per combination, on tiny
    tensors."""
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    dtypes = {tensor.dtype for tensor in tensors}.union(leaf for leaf in leaves if isinstance(leaf, torch.dtype))
    wide = any(type(leaf) is float and _MOST < abs(leaf) < math.inf for leaf in leaves)
    if (_EVERYWHERE.issuperset(dtypes) and len(dtypes) < 2 and not wide) or not _may_be_asked(target):
        return False
    if any(tensor.device.type != "cpu" or tensor.layout is not torch.strided for tensor in tensors):
        return False
    if not all(isinstance(leaf, (torch.Tensor, *_PLAIN, *_SYMBOLIC)) for leaf in leaves):
        return False
    # Integers among the arguments may be repeats or sizes of the result: their product bounds its elements.
    factor = math.prod(_sizes_among(target, args, kwargs))
    least = [_small_kind(leaf, 1, held=1) for leaf in leaves]
    if factor > _LARGEST_ASKED:
        return False
    # One element first, the cheapest; where torch refuses the sizes themselves (a window larger than its input), up to
    # sixteen along each axis.
    if (answer := _ask(target, tuple(least), tuple(map(type, least)), structure)) is not None:
        return answer
    more = [_small_kind(leaf, _LONGEST_ASKED, held=0) for leaf in leaves]  # positions are within
    if factor * sum(one.elements for one in more if isinstance(one, _Kind)) > _LARGEST_ASKED:
        return False
    return bool(_ask(target, tuple(more), tuple(map(type, more)), structure))


@functools.cache
def _may_be_asked(target: OpOverload) -> bool:
    """True if a trial call draws no random numbers and reads no memory beyond its operands."""
    if target.namespace != "aten" or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return not schema_of(target).name.startswith("aten::_unsafe")


def _sizes_among(target: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[int]:
    """Integers that may say how large a result is; numbers to compute with do not."""
    numbers = {each.name for each in schema_of(target).arguments if "number" in str(each.type)}
    given = {each.name: arg for each, arg in zip(schema_of(target).arguments, args, strict=False)} | dict(kwargs)
    for leaf in pytree.tree_leaves([value for name, value in given.items() if name not in numbers]):
        if type(leaf) is int:
            yield max(1, abs(leaf))


@dataclass(frozen=True, slots=True)
class _Kind:
    """A description of a small tensor to try an operator on: dtype, sizes, and the number that fills it."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    held: int

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    def made(self) -> torch.Tensor:
        return torch.full(self.sizes, self.held, dtype=self.dtype, device="cpu")


def _small_kind(leaf: object, longest: int, held: int) -> Any:
    """The description of a tensor cut down to ``longest`` along each axis; another argument as it is, a symbolic number
    as a small one."""
    if isinstance(leaf, torch.Tensor):
        sizes = (size if isinstance(size, int) else longest // 2 for size in leaf.shape)
        return _Kind(leaf.dtype, tuple(max(1, min(size, longest)) for size in sizes), held)
    if isinstance(leaf, torch.SymInt):
        return 2
    return 1.0 if isinstance(leaf, torch.SymFloat) else leaf


@functools.lru_cache(4096)
def _ask(target: OpOverload, leaves: tuple[object, ...], types: tuple[type, ...], structure: object) -> bool | None:
    """True if torch does not implement the call, False if it runs, None where it is refused for another reason, such as
    its sizes.

    ``types`` make 1, 1.0 and True different keys of the cache.
    """
    error = _error(target, leaves, structure)
    if error is None:
        return False
    if _UNIMPLEMENTED.search(str(error)):
        return True
    return True if any(_error(target, others, structure) is None for others in _of_other_dtypes(leaves)) else None


def _error(target: OpOverload, leaves: Sequence[object], structure: object) -> Exception | None:
    """The exception that the trial call raises, if any."""
    with DisableTorchDispatch(), torch.no_grad(), quiet():
        made = [leaf.made() if isinstance(leaf, _Kind) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(made, structure)
        try:
            target(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it raises is an answer
            return error
    return None


def _of_other_dtypes(leaves: tuple[object, ...]) -> Iterator[tuple[Any, ...]]:
    """The call's arguments in dtypes that every kernel takes: if one of these calls runs, the sizes were right and the
    refusal was for a dtype."""
    kinds = [(place, leaf) for place, leaf in enumerate(leaves) if isinstance(leaf, _Kind)]
    for mapping in _TAKEN_BY_ALL:
        changed = {place: replace(leaf, dtype=mapping.get(leaf.dtype, leaf.dtype)) for place, leaf in kinds}
        yield tuple(changed.get(place, leaf) for place, leaf in enumerate(leaves))
    for place, leaf in kinds:
        yield (*leaves[:place], replace(leaf, dtype=torch.float32), *leaves[place + 1 :])


_FLOATS = dict.fromkeys((torch.float16, torch.bfloat16, torch.float64), torch.float32)
_INTEGERS = dict.fromkeys((torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool), torch.int64)
_TAKEN_BY_ALL: Sequence[Mapping[torch.dtype, torch.dtype]] = (
    _FLOATS, {**_FLOATS, **_INTEGERS}, dict.fromkeys((*_FLOATS, *_INTEGERS, torch.int64), torch.float32),
)  # fmt: skip
