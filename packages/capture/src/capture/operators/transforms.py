"""A transform of ``torch.func`` as one operation: what it transforms is a module of its own within the graph.

``transformed`` is what graphs call.  It builds the function anew around the module and hands it to torch, so
whoever runs or traces the graph meets torch's own transform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.func


def transformed(
    body: Callable[..., Sequence[torch.Tensor]],
    transform: str,
    options: Mapping[str, object],
    args: Sequence[Any],
    kwargs: Mapping[str, object],
    result: Any,
    given: Sequence[object],
) -> object:
    """``transform(function, **options)(*args, **kwargs)`` of a function that computes ``body``.

    The body takes the tensors among the function's arguments and then what is ``given`` from around it.  ``result``
    says how the function arranges what the body returns: as it returns it, with a place among the body's results for
    each tensor.
    """
    # Past the module's call, which prints a traceback to stderr where an operator raises.
    compute = body.forward if isinstance(body, torch.nn.Module) else body

    def function(*args: Any, **kwargs: Any) -> Any:
        return _arranged(result, compute(*tensors_in((args, kwargs)), *given))

    args, kwargs, options = _plain(tuple(args)), _plain(kwargs), _plain(options)
    if transform == "jvp":
        return torch.func.jvp(function, *args, **options)
    # The graph has the pullback's call in one node with `vjp` itself: forward and backward run together.
    if transform == "vjp":
        primals, cotangents = args
        return torch.func.vjp(function, *primals, **options)[1](*cotangents)
    return getattr(torch.func, transform)(function, **options)(*args, **kwargs)


def tensors_in(tree: object) -> list[torch.Tensor]:
    """The tensors in a tree of tuples, lists and dicts, in order."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (tuple, list)):
        return []
    return [tensor for item in tree for tensor in tensors_in(item)]


def _plain(tree: object) -> Any:
    """The tree without FX's own kinds of containers, which torch would tell apart."""
    if isinstance(tree, dict):
        return {key: _plain(item) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map(_plain, tree))
    return list(map(_plain, tree)) if isinstance(tree, list) else tree


def _arranged(result: object, tensors: Sequence[torch.Tensor]) -> object:
    """The tensors put back where the function had them in what it returns."""
    if isinstance(result, int):
        return tensors[result]
    if isinstance(result, dict):
        return {key: _arranged(item, tensors) for key, item in result.items()}
    if isinstance(result, (tuple, list)):
        items = (_arranged(item, tensors) for item in result)
        return tuple(items) if isinstance(result, tuple) else list(items)
    return None
