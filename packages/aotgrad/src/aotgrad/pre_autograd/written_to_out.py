"""Results that an operator writes to tensors it is given (`out=`), which keep their layout.

Functionalization puts the operator's own result in the place of what is written, and its layout with it; a kernel
writes where the tensor lies.  The operator writes to stand-ins here, and what comes of those takes the place of the
tensors if it lies as they do, and is copied to them if not.  Draws are made where the tensor lies: their order is that
of memory.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from aotgrad.errors import Unsupported
from aotgrad.pre_autograd.outs import Args, Named, flat, is_pointwise, outs_of
from aotgrad.recording.memory_order import has_known_layout, lies_in_order
from aotgrad.tensors import functional

Call: TypeAlias = Callable[..., Any]
Copy = Callable[[torch.Tensor, torch.Tensor], object]
"""Copies the second tensor to the first, whose layout stays."""


def written_as_they_lie(func: Call, args: Args, kwargs: Named, call: Call, copy: Copy) -> object:
    """The result of `call` for `func`, whose results are written to tensors that keep their layouts; NotImplemented
    where there are none."""
    outs = outs_of(func, kwargs)
    tensors = flat(outs)
    if not tensors or not all(map(_is_followed, tensors)):
        return NotImplemented
    name = getattr(func, "__name__", "").split(".")[0]
    if (drawing := _DRAWS.get(name)) is not None:
        out = tensors[0]
        if has_known_layout(out) and out.is_contiguous():
            return NotImplemented  # as the operator itself draws
        draw = drawing(args, kwargs)
        if draw.size != tuple(out.shape):
            return NotImplemented  # which it then makes anew
        return call(draw.func, (out, *draw.operands), {"generator": kwargs.get("generator")})
    if name in _PAST_STRIDES and not all(map(lies_in_order, tensors)):
        raise Unsupported(f"the kernel of {name} writes to `out` as if it were contiguous", "run it eagerly")
    stands = {id(tensor): _stand_in(tensor) for tensor in tensors}
    given = {key: _replaced(value, stands) for key, value in outs.items()}
    result = call(func, args, {**kwargs, **given})
    for tensor in tensors:
        _take(name, tensor, stands[id(tensor)], copy)
    back = {id(stands[id(tensor)]): tensor for tensor in tensors}
    return _replaced(result, back)


def _is_followed(tensor: object) -> bool:
    is_dense = isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided
    return is_dense and functional.is_functional(tensor)


def _lies_as_drawn(tensor: torch.Tensor) -> bool:
    return has_known_layout(tensor) and tensor.is_contiguous()


def _stand_in(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _replaced(value: object, by_id: Mapping[int, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return by_id.get(id(value), value)
    if not isinstance(value, (tuple, list)):
        return value
    each = [_replaced(one, by_id) for one in value]
    return type(value)(*each) if hasattr(value, "_fields") else type(value)(each)


def _take(name: str, tensor: torch.Tensor, value: torch.Tensor, copy: Copy) -> None:
    """Gives a tensor what was written to its stand-in; a tensor of another size becomes it, as an operator has it."""
    inner = functional.current(value)
    if inner.shape == tensor.shape:
        if inner.stride() != tensor.stride():
            copy(tensor, value)
            return
    elif not (is_pointwise(name) or lies_in_order(inner)):
        raise Unsupported(f"{name} makes memory for `out` anew, in an order of its kernel's own", "give it a tensor")
    functional.replace(tensor, inner)
    if not tensor.is_inference():
        torch.autograd.graph.increment_version([tensor])


_PAST_STRIDES = frozenset(("gelu", "avg_pool3d", "narrow_copy"))
"""Operators whose kernels write to dense memory of another order past its strides."""


@dataclass(frozen=True, slots=True)
class Draw:
    """An operator that draws in place, its operands but the first, and the size of what it draws."""

    func: Call
    operands: Args
    size: Args


def _size(args: Args, kwargs: Named) -> Args:
    found = kwargs.get("size", args[-1] if args and isinstance(args[-1], (tuple, list)) else args)
    return tuple(found)


def _uniform(args: Args, kwargs: Named) -> Draw:
    return Draw(torch.Tensor.uniform_, (), _size(args, kwargs))


def _standard_normal(args: Args, kwargs: Named) -> Draw:
    return Draw(torch.Tensor.normal_, (), _size(args, kwargs))


def _normal(args: Args, kwargs: Named) -> Draw:
    given = {**dict(zip(("mean", "std", "size"), args, strict=False)), **kwargs}
    if given.get("size") is None:
        raise Unsupported("torch.normal draws by tensors into memory of another order", "draw, and copy it there")
    return Draw(torch.Tensor.normal_, (given["mean"], given["std"]), tuple(given["size"]))


def _integers(args: Args, kwargs: Named) -> Draw:
    bounds = [each for each in args if not isinstance(each, (tuple, list))]
    bounds += [kwargs[name] for name in ("low", "high") if name in kwargs]
    return Draw(torch.Tensor.random_, bounds if len(bounds) > 1 else (0, *bounds), _size(args, kwargs))


def _zeros_and_ones(args: Args, kwargs: Named) -> Draw:
    odds = args[0] if args else kwargs["input"]
    return Draw(torch.Tensor.bernoulli_, (odds,), tuple(odds.shape))


_DRAWS: dict[str, Callable[[Args, Named], Draw]] = {
    "rand": _uniform,
    "randn": _standard_normal,
    "normal": _normal,
    "randint": _integers,
    "bernoulli": _zeros_and_ones,
}
"""Operators that draw where `out` lies, by the operator in place that each of their kernels calls."""
