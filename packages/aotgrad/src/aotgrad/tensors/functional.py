"""The few functionalization primitives of torch that tracing needs, under names that say what they do.

A *functional tensor* wraps a fake one: autograd sees mutation and views, the recorder below sees neither.
Must not know: graphs, roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from aotgrad.torch_versions import (
    DisableTorchFunction,
    DispatchKey,
    cdata_of,
    disable_functionalization,
    dispatch_tls_is_dispatch_key_excluded,
    dispatch_tls_set_dispatch_key_excluded,
    dispatch_tls_set_dispatch_key_included,
    enable_functionalization,
    from_functional_tensor,
    functionalize_are_all_mutations_hidden_from_autograd,
    functionalize_commit_update,
    functionalize_has_data_mutation,
    functionalize_has_metadata_mutation,
    functionalize_mark_mutation_hidden_from_autograd,
    functionalize_replace,
    functionalize_was_storage_changed,
    is_functional_tensor,
    pytree,
    sync,
    to_functional_tensor,
    unsafe_set_version_counter,
    version_of,
)


@contextmanager
def functionalization() -> Iterator[None]:
    """Mutation becomes new values; views stay views of the current value."""
    enable_functionalization(reapply_views=True)
    try:
        yield
    finally:
        disable_functionalization()


@contextmanager
def below_autograd() -> Iterator[None]:
    """Switches functionalization on in code that already runs under it, where torch has switched it off."""
    key = DispatchKey.Functionalize
    excluded = dispatch_tls_is_dispatch_key_excluded(key)
    dispatch_tls_set_dispatch_key_excluded(key, False)
    try:
        yield
    finally:
        dispatch_tls_set_dispatch_key_excluded(key, excluded)


@contextmanager
def hidden() -> Iterator[None]:
    """Switches functionalization off, until `below_autograd` switches it on again."""
    key = DispatchKey.Functionalize
    excluded = dispatch_tls_is_dispatch_key_excluded(key)
    dispatch_tls_set_dispatch_key_excluded(key, True)
    try:
        yield
    finally:
        dispatch_tls_set_dispatch_key_excluded(key, excluded)


@contextmanager
def taken_apart() -> Iterator[None]:
    """Has operators that are made of others run as those, in inference mode.

    Autograd takes them apart, which inference mode leaves out: functionalization met them whole then, and took what
    they give for new memory where it is a view (`einsum`, `atleast_2d`, dropout that drops nothing).  It records no
    gradients for that, though a program may have switched them on within inference mode.
    """
    key = DispatchKey.AutogradFunctionality
    if not dispatch_tls_is_dispatch_key_excluded(key):  # no inference mode, or it is done already
        yield
        return
    dispatch_tls_set_dispatch_key_excluded(key, False)
    dispatch_tls_set_dispatch_key_included(key, True)
    try:
        with torch.no_grad():
            yield
    finally:
        dispatch_tls_set_dispatch_key_included(key, False)
        dispatch_tls_set_dispatch_key_excluded(key, True)


def call(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`fn` of plain tensors, whose mutations inside leave no trace outside."""
    wrapped = pytree.tree_map_only(torch.Tensor, wrap, (args, kwargs))
    result = fn(*wrapped[0], **wrapped[1])
    return pytree.tree_map_only(torch.Tensor, lambda t: current(t) if is_functional(t) else t, result)


def wrap(value: torch.Tensor) -> torch.Tensor:
    return to_functional_tensor(value)


def is_functional(value: torch.Tensor) -> bool:
    return bool(is_functional_tensor(value))


def current(value: torch.Tensor) -> torch.Tensor:
    """The tensor inside, after all mutations of it and of what it views."""
    sync(value)
    return from_functional_tensor(value)


def memory_of(value: torch.Tensor) -> int:
    """The identity of a tensor's storage, equal for tensors that share memory."""
    with DisableTorchFunction():  # else it is an operator of the program that is traced
        return int(cdata_of(value.untyped_storage()))


def replace(value: torch.Tensor, other: torch.Tensor) -> None:
    """Puts another tensor in the place of the one inside, as an operator that writes does."""
    functionalize_replace(value, other)
    functionalize_commit_update(value)
    sync(value)


def counts_with(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if a write to the one counts as a write to the other for autograd, which it does not where one came by
    ``.data``."""
    if one.is_inference() or other.is_inference():
        return one.is_inference() and other.is_inference()
    version, others = version_of(one), version_of(other)
    # Tried out: torch does not say which tensors share a version counter.
    torch.autograd.graph.increment_version([one])
    found = version_of(other) != others
    unsafe_set_version_counter([one], [version])
    return bool(found)


def data_mutated(value: torch.Tensor) -> bool:
    return bool(functionalize_has_data_mutation(value))


def hide_mutation(value: torch.Tensor) -> None:
    """Marks the last change of a tensor as one that autograd is not told of, so that it is not counted."""
    if is_functional(value):
        functionalize_mark_mutation_hidden_from_autograd(value)


def mutations_hidden(value: torch.Tensor) -> bool:
    return bool(functionalize_are_all_mutations_hidden_from_autograd(value))


def layout_mutated(value: torch.Tensor) -> bool:
    return bool(functionalize_has_metadata_mutation(value))


def storage_replaced(value: torch.Tensor) -> bool:
    return bool(functionalize_was_storage_changed(value))
