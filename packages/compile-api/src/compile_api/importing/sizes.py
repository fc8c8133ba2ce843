"""Answers to what torch asks of sizes, as long as all sizes are plain numbers.

Every operation on fake tensors asks torch's module for symbolic sizes a few questions, and the module brings along
sympy: importing them takes longer than capturing and building a small program.  Whoever makes a symbol imports the
module first; until then each question has the answer of plain numbers, which is given here.  Only code of torch's that
asks inside a function gets it; whoever keeps a name of the module, or uses another, loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from compile_api.importing.deferred import Deferral, defer

NAME = "torch.fx.experimental.symbolic_shapes"
FUNCTIONS = "torch.utils._sympy.functions"
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class NothingUndecided(Exception):
    """Stands for the exception that only symbols raise."""


class NoExpression:
    """Stands for sympy's expressions where there are none."""


def _itself(value: object, *_: object, **options: object) -> Any:
    return value


def _equal(x: Any, y: Any) -> bool:
    return tuple(x) == tuple(y) if isinstance(x, tuple | list) else bool(x == y)


def _nothing(*_: object) -> Iterator[Any]:
    return iter(())


ANSWERS: Mapping[str, Callable[..., Any]] = {
    "guard_or_true": bool,
    "guard_or_false": bool,
    "guard_size_oblivious": bool,
    "statically_known_true": bool,
    "expect_true": _itself,
    "guarding_hint_or_throw": _itself,
    "guard_int": _itself,
    "sym_eq": _equal,
    "sym_and": lambda *values: all(values),
    "sym_or": lambda *values: any(values),
    "is_nested_int": lambda value: False,
    "is_symbolic": lambda value: False,
    "has_guarding_hint": lambda value: True,
    "size_hint": _itself,  # these two are what torch 2.11 and older call the two above
    "has_hint": lambda value: True,
    "compute_unbacked_bindings": lambda *_, **options: None,
    "free_unbacked_symbols": lambda value: set(),
    "has_free_symbols": lambda value: False,
    "has_free_unbacked_symbols": lambda value: False,
    "_iterate_exprs": _nothing,
    "_iterate_nodes": _nothing,
}


def _late(name: str, plain: Callable[..., Any]) -> Callable[[Deferral], Callable[..., Any]]:
    def make(real: Deferral) -> Callable[..., Any]:
        def ask(*args: object, **options: object) -> Any:
            if real.waiting and not any(isinstance(arg, _SYMBOLIC) for arg in args):
                return plain(*args, **options)
            return getattr(real.load(), name)(*args, **options)

        return ask

    return make


def put_off() -> None:
    """Puts off torch's module of symbolic sizes, and sympy itself: type promotion asks whether a number is one of its
    expressions, and the question whether a tensor fills its memory imports the larger of two of them."""
    answers: dict[str, Callable[[Deferral], Any]] = {name: _late(name, plain) for name, plain in ANSWERS.items()}
    answers["GuardOnDataDependentSymNode"] = lambda real: NothingUndecided
    defer(NAME, answers)
    defer(FUNCTIONS, {"Max": _late("Max", max)})
    defer("sympy", {"Basic": lambda real: NoExpression})
