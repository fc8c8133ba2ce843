"""Operators that must be met above autograd, because below it the choice that has to be influenced is made.

A table of rules keyed by the torch-level function; everything else passes.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

Rule = Callable[..., Any]

RULES: dict[Callable[..., Any], Rule] = {}


class EarlyRules(TorchFunctionMode):
    """Puts the rules of this module in force."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        rule = RULES.get(func)
        return (func if rule is None else rule)(*args, **(kwargs or {}))


def early(func: Callable[..., Any]) -> Callable[[Rule], Rule]:
    """Register the decorated rule in place of `func`."""

    def register(rule: Rule) -> Rule:
        RULES[func] = rule
        return rule

    return register


@early(torch.lstm)
def lstm(*args: Any, **kwargs: Any) -> Any:
    """oneDNN's kernel asks grad mode whether to keep its workspace, and compiled forwards run without grad mode."""
    if not torch.is_grad_enabled():
        return torch.lstm(*args, **kwargs)
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        return torch.lstm(*args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)
