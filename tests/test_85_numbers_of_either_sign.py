"""Numbers that vary, and are of either sign: every argument of an operator that may be negative counts as in eager.

A run draws two ways to a number for each operator; ``SWEEPS=all`` runs all.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import compile_api

NUMBERS = {
    "n": lambda n: n,
    "-n": lambda n: -n,
    "n - 4": lambda n: n - 4,
    "2 - n": lambda n: 2 - n,
    "~n": lambda n: ~n,
    "min": lambda n: min(n - 3, 1),
    "half": lambda n: n // 2 - 1,
}


def written(x: torch.Tensor, put: Callable[[torch.Tensor], None]) -> torch.Tensor:
    y = x * 1
    put(y)
    return y * 2


PROGRAMS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "row": lambda x, n: x[n] * 2,
    "column": lambda x, n: x[:, n] * 2,
    "element": lambda x, n: x[n, n] * 2,
    "select_scatter": lambda x, n: torch.select_scatter(x, x[:, 0] * 3, 1, n) * 2,
    "written row": lambda x, n: written(x, lambda y: y.__setitem__(n, 7.0)),
    "written column": lambda x, n: written(x, lambda y: y.__setitem__((slice(None), n), x[:, 0])),
    "written element": lambda x, n: written(x, lambda y: y.__setitem__((n, n), x[0, 0] * 9)),
    "scaled column": lambda x, n: written(x, lambda y: y[..., n].mul_(2)),
    "row of a view": lambda x, n: x.t()[n] * 2,
    "row of a product": lambda x, n: (x.t() @ x)[n] * 2,
    "from": lambda x, n: x[n:] * 2,
    "to": lambda x, n: x[:, :n] * 2,
    "written from": lambda x, n: written(x, lambda y: y[n:].mul_(3)),
    "slice_scatter": lambda x, n: torch.slice_scatter(x, x[n:] * 3, 0, n) * 2,
    "narrow": lambda x, n: x.narrow(0, n, 1) * 2,
    "unbind": lambda x, n: x.unbind(1)[n] * 2,
    "split": lambda x, n: x.split(2)[n] * 2,
    "roll": lambda x, n: torch.roll(x, n, 1) * 2,
    "roll of two": lambda x, n: torch.roll(x, (n, -n), (0, 1)) * 2,
    "diagonal": lambda x, n: x.diagonal(n) * 2,
    "diag_embed": lambda x, n: torch.diag_embed(x, n) * 2,
    "diag": lambda x, n: torch.diag(x[0], n) * 2,
    "trace of triangle": lambda x, n: x.tril(n) * 2 + x.triu(n),
    "pad": lambda x, n: F.pad(x, (n, 1)) * 2,
    "shifted": lambda x, n: F.pad(x, (n, -n)) * 2,
    "take": lambda x, n: x.take(torch.tensor([n, 0])) * 2,
    "index": lambda x, n: x[torch.tensor([n, 0])] * 2,
    "index_fill": lambda x, n: x.index_fill(0, torch.tensor(n), 2.0) * 2,
    "arange": lambda x, n: torch.arange(n, 6) * x[0, 0],
    "steps": lambda x, n: torch.arange(0, n * 4, n) * x[0, 0],
    "linspace": lambda x, n: torch.linspace(n, 3, 4) * x[0, 0],
    "full": lambda x, n: torch.full((3,), n) * x[0, 0],
    "power": lambda x, n: (x.abs() + 1) ** n,
    "shift of bits": lambda x, n: (x.long() << abs(n)) * x,
    "remainder": lambda x, n: x.long() % n * x,
    "floor division": lambda x, n: x.long() // n * x,
    "rotated": lambda x, n: torch.rot90(x, n, (0, 1)) * 2,
    "vander": lambda x, n: torch.linalg.vander(x[:, 0], N=abs(n) + 1) * 2,
    "clamp": lambda x, n: x.clamp(min=n) * 2,
    "round": lambda x, n: torch.round(x * 3.7, decimals=2) * n,
    "correction": lambda x, n: x.std(1, correction=n) * 2,
    "alpha": lambda x, n: torch.add(x, x.sin(), alpha=n),
    "compared": lambda x, n: torch.where(x > n, x * 2, x),
}  # fmt: skip


def outcome(program: Callable[[torch.Tensor, int], torch.Tensor], x: torch.Tensor, n: int) -> object:
    x = x.clone().requires_grad_()
    try:
        result = program(x, n)
        if result.requires_grad:
            result.square().sum().backward()
    except (RuntimeError, IndexError, ValueError, ZeroDivisionError) as error:
        return type(error).__name__
    return result.detach(), x.grad


def insist_on_equal(ours: object, eagers: object) -> None:
    if isinstance(ours, str) or isinstance(eagers, str):
        assert ours == eagers
    else:
        torch.testing.assert_close(ours, eagers, equal_nan=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_number_that_varies_counts_as_in_eager(name: str) -> None:
    x = torch.linspace(-2, 3, 48).reshape(6, 8)
    chosen = NUMBERS if os.environ.get("SWEEPS") == "all" else random.sample(list(NUMBERS), 2)
    for way in chosen:
        print(f"{name} of {way}")

        def program(x: torch.Tensor, n: int, number: Callable[[int], int] = NUMBERS[way]) -> torch.Tensor:
            return PROGRAMS[name](x, number(n))

        compiled = compile_api.compile(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for n in (3, 2, 4, 5):
                insist_on_equal(outcome(compiled, x, n), outcome(program, x, n))


SLICES = {
    "from behind": lambda x, n, m: x[:, -n:m],
    "to behind": lambda x, n, m: x[:, m:-n],
    "both": lambda x, n, m: x[:, n:m],
    "both behind": lambda x, n, m: x[:, -n:-m],
    "steps": lambda x, n, m: x[:, -n:m:2],
    "by the size": lambda x, n, m: x[:, x.shape[1] - n : m],
}


@pytest.mark.parametrize("name", SLICES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_bounds_in_the_wrong_order_hold_nothing(name: str, dynamic: bool | None) -> None:
    def program(x: torch.Tensor, n: int, m: int) -> tuple[torch.Tensor, ...]:
        part = SLICES[name](x, n, m)
        return torch.cat([part, x], 1) * 2, F.pad(part, (4, 8)) + 1, part.sum(1)

    compiled = compile_api.compile(program, dynamic=dynamic)
    with warnings.catch_warnings(action="error"):  # such as that a graph raised, and CPython ran the function
        for sizes, n, m in (
            ((2, 5), 2, 4),
            ((2, 6), 1, 5),
            ((2, 9), 1, 1),
            ((2, 9), 1, 3),
            ((3, 9), 8, 3),
            ((3, 4), 3, 3),
        ):
            x = torch.randn(sizes)
            torch.testing.assert_close(compiled(x, n, m), program(x, n, m))
