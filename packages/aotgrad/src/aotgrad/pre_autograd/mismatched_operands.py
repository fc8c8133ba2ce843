"""Operands that do not fit by dtype or size, refused before they are recorded: eager's kernels are tried on tiny
tensors.

Functionalization takes the result that an operator would have by itself and casts it, decompositions take a number
that is too large for infinity, and types that no kernel takes; eager's kernels refuse.  They are asked: the operator
runs on tensors with two elements along each axis, as those of one are filled in another way, which refuses nothing.
Must not know: recording, gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from aotgrad.errors import FailsOnFakes, words_of
from aotgrad.quiet import quiet
from aotgrad.random_operators import draws_by_name, may_draw, tags_by_name
from aotgrad.tensors import functional
from aotgrad.tensors.symbols import SYM_TYPES
from aotgrad.torch_versions import DisablePythonDispatcher, DisableTorchDispatch, pytree

_FILL = {
    "full", "full_like", "new_full", "scalar_tensor", "fill", "fill_", "fill_diagonal_", "masked_fill", "masked_fill_",
    "index_fill", "index_fill_", "scatter", "scatter_", "pad", "constant_pad_nd",
    "threshold", "threshold_", "_threshold",
}  # fmt: skip
_SIZES: Mapping[str, tuple[int, str]] = {
    "full": (0, "size"), "new_full": (1, "size"), "pad": (1, "pad"), "constant_pad_nd": (1, "pad"),
}  # fmt: skip
"""The argument that gives the size of the result: trial calls make it small."""
_DIVIDE_IN_PLACE = {
    "dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "feature_dropout", "feature_dropout_",
}  # fmt: skip
"""Functions made of operators that write, unseen by others: the noise has the dtype of its operand."""
_PROMOTES_IN_PLACE = {"cumsum_", "cumprod_"}
"""Functions of which the form that does not write gives another dtype, where they refuse to."""
_TAKE_POSITIONS = {"embedding", "index_put", "index_put_", "put", "put_"}
"""Functions of positions, which are integers, of whose dtype fakes say nothing."""
_MAY_NOT_FIT = _DIVIDE_IN_PLACE | _PROMOTES_IN_PLACE
_LONGEST_ASKED = 8
_LARGEST_ASKED = 1 << 20
"""The most elements that the result of a trial call may have."""
_HELD_BY_ALL = 127
_OTHER_NAMES = {
    "arctan2_": "atan2_", "clip_": "clamp_", "divide_": "div_", "true_divide_": "div_", "floor_divide_": "div_",
    "greater_": "gt_", "greater_equal_": "ge_", "less_": "lt_", "less_equal_": "le_", "multiply_": "mul_",
    "not_equal_": "ne_", "subtract_": "sub_", "__iand__": "bitwise_and_", "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_", "__ilshift__": "bitwise_left_shift_", "__irshift__": "bitwise_right_shift_",
}  # fmt: skip
"""Operators that torch has by two names, and marks as pointwise by one of them only."""


def refuse_misfits(
    func: object, args: Sequence[object], kwargs: Mapping[str, object], *, by_rules: bool = False
) -> None:
    """Refuses a call of `func` that torch's kernels would refuse.  `by_rules`: its rules in Python run instead."""
    name = getattr(func, "__name__", "").split(".")[0]
    name, out = _OTHER_NAMES.get(name, name), kwargs.get("out")
    in_place = name.endswith("_") and not name.endswith("__") and name != "copy_" and _computes_by_element(name)
    if in_place and args and _is_larger_than(args[0], (args[1:], dict(kwargs))):
        hint = "run it eagerly: the error is its own"
        raise FailsOnFakes(f"{name} is refused by torch: an operand is larger than what is written to", hint)
    shaped, named = _without_sizes(name, args, kwargs)
    fills = _has_large_number(shaped, named) and (name in _FILL or _computes_by_element(name))
    if out is not None and _is_of_another_type(func, args, kwargs):
        if draws_by_name(name):  # by the type, and nobody may draw to ask
            raise FailsOnFakes(f"{name} draws into `out` of another type", "give it one of its own type")
        _ask(func, name, shaped, named)
    elif in_place or fills or name in _MAY_NOT_FIT:
        leaves = pytree.tree_leaves((shaped, dict(named)))
        if (fills and _is_too_large(leaves)) or (not fills and _may_not_fit(leaves)):
            _ask(func, name, shaped, named)
    if name in _TAKE_POSITIONS and all(map(torch.is_floating_point, _tensors((args, dict(kwargs))))):
        _ask(func, name, args, kwargs)
    if by_rules and any(isinstance(arg, torch.Tensor) for arg in args):
        _refuse_types(func, name, args, kwargs)


def _tensors(operands: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(operands) if isinstance(leaf, torch.Tensor)]


def _ask(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Tries torch's own kernels on few elements; raises their refusal."""
    try:
        with _as_in_eager(), _drawing_nothing(func):
            given, named = pytree.tree_map_only((torch.Tensor, *SYM_TYPES), _small, (tuple(args), dict(kwargs)))
            if named.get("out") is not None:
                named["out"] = pytree.tree_map_only(torch.Tensor, lambda one: one.new_empty(0), named["out"])
            func(*given, **named)
    except Exception as error:  # any of torch's, and those of functions of the program that it calls
        what = f"{name} is refused by torch ({words_of(error)})"
        raise FailsOnFakes(what, "run it eagerly: the error is its own") from error


def _refuse_types(func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuses dtypes that torch's kernels do not take and that its rules in Python do."""
    if not _is_torchs(func, name) or not kwargs.keys().isdisjoint(("out", "device")):
        return
    leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if {tensor.dtype for tensor in tensors} in ({torch.float32}, {torch.float64}):
        return
    if not all(tensor.layout is torch.strided and tensor.device.type == "cpu" for tensor in tensors):
        return
    if any(_known(size) == 0 for tensor in tensors for size in tensor.shape):
        return  # of nothing, there is no position
    if math.prod(abs(leaf) for leaf in leaves if type(leaf) is int and leaf) > _LARGEST_ASKED:
        return

    def error_of(kinds: Mapping[torch.dtype, torch.dtype]) -> Exception | None:
        given = [_short(leaf, kinds) if isinstance(leaf, (torch.Tensor, *SYM_TYPES)) else leaf for leaf in leaves]
        asked, named = pytree.tree_unflatten(given, structure)
        try:
            func(*asked, **named)
        except Exception as error:  # noqa: BLE001 - whatever it raises is an answer
            return error
        return None

    with _as_in_eager(), _drawing_nothing(func):
        error = error_of({})
        if error is None or "ZeroDivisionError" in str(error):  # it computes, and with other numbers it would
            return
        if "not implemented for" in str(error) or any(error_of(kinds) is None for kinds in _TAKEN_BY_ALL):
            what = f"{name} is refused by torch ({words_of(error)})"
            raise FailsOnFakes(what, "run it eagerly: the error is its own") from error


_HALVES = dict.fromkeys((torch.float16, torch.bfloat16, torch.float64), torch.float32)
_INTEGERS = dict.fromkeys((torch.int8, torch.uint8, torch.int16, torch.int32, torch.bool), torch.int64)
_TAKEN_BY_ALL: Sequence[Mapping[torch.dtype, torch.dtype]] = (
    _HALVES, {**_HALVES, **_INTEGERS}, dict.fromkeys((*_HALVES, *_INTEGERS, torch.int64), torch.float32),
)  # fmt: skip
"""Dtypes that kernels take if they take anything: a call that runs with these was refused for its dtypes."""


@cache
def _is_torchs(func: object, name: str) -> bool:
    """True if the function does nothing but torch's own computing."""
    if getattr(func, "__module__", None) == "torch.nn.functional":
        return True
    return name != "to" and not name.startswith("_") and hasattr(torch.ops.aten, name)


def _short(leaf: object, kinds: Mapping[torch.dtype, torch.dtype]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return 1 if (number := _known(leaf)) is None else number  # data-dependent
    sizes = [min(2 if (size := _known(each)) is None else size, _LONGEST_ASKED) for each in leaf.shape]
    # Positions of the first element, wherever there is one: some kernels write where they are told, unchecked.
    number = 0 if leaf.dtype in _OF_POSITIONS else 1
    return torch.full(sizes, number, dtype=kinds.get(leaf.dtype, leaf.dtype), device="cpu")


_OF_POSITIONS = (torch.int32, torch.int64)


@contextmanager
def _drawing_nothing(func: object) -> Iterator[None]:
    """Restores the generator after a trial that may draw.  Where nothing draws it is left alone: other threads draw
    from it."""
    if not may_draw(func):
        yield
        return
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def _is_of_another_type(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """True if the result by itself has another dtype than ``out``, as far as it can be known without computing it."""
    leaves = pytree.tree_leaves((args, kwargs))
    if not any(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(args)) and draws_by_name(func.__name__):
        return False  # it draws in the type of `out`
    out = _tensors(kwargs["out"])
    others = {key: value for key, value in kwargs.items() if key != "out"}
    for device, form in (("meta", _without_data), *([] if draws_by_name(func.__name__) else [("cpu", _small)])):
        try:
            with _as_in_eager(), torch.device(device):
                given, named = pytree.tree_map_only((torch.Tensor, *SYM_TYPES), form, (tuple(args), others))
                results = pytree.tree_leaves(func(*given, **named))
            return any(one.dtype != other.dtype for one, other in zip(results, out, strict=True))
        except Exception:  # noqa: BLE001 - its size depends on data, or these sizes do not go together
            continue
    return _may_not_fit(leaves)


@contextmanager
def _as_in_eager() -> Iterator[None]:
    """Runs torch's own kernels: for symbolic sizes its dispatcher takes decompositions in Python, which refuse less."""
    with DisableTorchDispatch(), DisablePythonDispatcher(), functional.hidden(), torch.no_grad(), quiet():
        yield


def _without_sizes(
    name: str, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """The call for a result of two elements, or of two more along each axis than its operand has."""
    if name not in _SIZES:
        return args, kwargs
    position, keyword = _SIZES[name]
    if keyword in kwargs:
        return args, {**kwargs, keyword: _few(kwargs[keyword], keyword)}
    if position >= len(args):
        return args, kwargs
    return (*args[:position], _few(args[position], keyword), *args[position + 1 :]), kwargs


def _few(sizes: object, keyword: str) -> tuple[int, ...]:
    """Two elements, or one more on either side of each dimension."""
    return (2,) if keyword == "size" or not isinstance(sizes, Sequence) else (1,) * len(sizes)


def _has_large_number(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return any(type(each) in (int, float) and abs(each) > _HELD_BY_ALL for each in (*args, *kwargs.values()))


def _is_larger_than(written: object, others: object) -> bool:
    """True if another operand would have to enlarge the tensor that is written."""
    if not isinstance(written, torch.Tensor):
        return False
    return any(
        other.dim() > written.dim() or any(map(_grows, written.shape[::-1], other.shape[::-1]))
        for other in pytree.tree_leaves(others)
        if isinstance(other, torch.Tensor)
    )


def _grows(size: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """True if a size of 1 would have to grow.  A dynamic size counts as in this call; sizes that differ otherwise are
    refused by everybody."""
    size, other = (each if isinstance(each, int) else each.node.hint for each in (size, other))
    return size == 1 and other != 1


def _may_not_fit(leaves: Sequence[object]) -> bool:
    """True if dtypes differ, or are of integers, which most functions do not return."""
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if any(type(tensor) is not torch.Tensor or tensor.layout is not torch.strided for tensor in tensors):
        return False
    kinds = {tensor.dtype for tensor in tensors}
    floats = all(kind.is_floating_point for kind in kinds)
    return len(kinds) > 1 or not floats or any(isinstance(leaf, complex) for leaf in leaves)


def _is_too_large(leaves: Sequence[Any]) -> bool:
    """True if a number is beyond the range of one of the dtypes involved."""
    numbers = [leaf for leaf in leaves if type(leaf) in (int, float) and math.isfinite(leaf)]
    kinds = {leaf if isinstance(leaf, torch.dtype) else leaf.dtype for leaf in leaves if _has_type(leaf)}
    kinds.add(torch.get_default_dtype())  # of numbers alone
    return any(abs(number) > _largest(kind) for number in numbers for kind in kinds)


def _has_type(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor | torch.dtype)


@cache
def _largest(kind: torch.dtype) -> float:
    if kind.is_floating_point or kind.is_complex:
        return torch.finfo(kind).max
    return math.inf if kind == torch.bool else torch.iinfo(kind).max


def _small(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.ones((2,) * value.dim(), dtype=value.dtype, device="cpu")
    return value.node.hint or 1


def _without_data(value: object) -> Any:
    """A tensor of the same sizes and type."""
    if isinstance(value, torch.Tensor):
        return torch.empty(tuple(map(_known, value.shape)), dtype=value.dtype, device="meta")
    return _known(value)


def _known(size: object) -> Any:
    return size.node.hint if isinstance(size, SYM_TYPES) else size


@cache
def _computes_by_element(name: str) -> bool:
    """True for pointwise operators; torch does not mark all of those that write."""
    tags = tags_by_name(name) | tags_by_name(name.removesuffix("_"))
    return name.startswith("_foreach_") or (torch.Tag.pointwise in tags and not draws_by_name(name))
