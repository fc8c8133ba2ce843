"""Operators that draw from a random generator: torch tags each of them.

A function of torch in Python has no tag; it draws if an operator that it names does.  Must not know: graphs, tracing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from types import FunctionType
from typing import TypeGuard

import torch


def draws(target: object) -> bool:
    """True for an operator that draws from a random generator."""
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


@cache
def draws_by_name(name: str) -> bool:
    """True if an ATen operator of that name draws."""
    return torch.Tag.nondeterministic_seeded in tags_by_name(name)


def tags_by_name(name: str) -> set[torch.Tag]:
    """The tags of all overloads of an ATen operator; none where there is no such operator."""
    packet = None if name.startswith("__") else getattr(torch.ops.aten, name, None)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return {tag for overload in overloads for tag in overload.tags}


def may_draw(func: object) -> bool:
    """True for an operator that draws, by its name, and for a function of torch in Python that calls one."""
    if draws_by_name(getattr(func, "__name__", "").split(".")[0]):
        return True
    return _is_of_torch(func) and any(map(draws_by_name, _named_in(func)))


def _is_of_torch(func: object) -> TypeGuard[FunctionType]:
    return isinstance(func, FunctionType) and (func.__module__ or "").startswith("torch.nn.")


@cache
def _named_in(func: FunctionType) -> frozenset[str]:
    """The names in the code of a function, and in that of the functions of torch that it calls or chooses between."""
    names, seen, pending = set[str](), {func}, [func]
    while pending:
        each = pending.pop()
        names.update(each.__code__.co_names)
        called = {one for one in _called(each) if one not in seen}
        seen |= called
        pending.extend(called)
    return frozenset(names)


def _called(func: FunctionType) -> Iterator[FunctionType]:
    held = [func.__globals__.get(name) for name in func.__code__.co_names]
    held += [cell.cell_contents for cell in func.__closure__ or ()]  # pooling chooses by ``return_indices``
    yield from (each for each in (*held, getattr(func, "__wrapped__", None)) if _is_of_torch(each))
