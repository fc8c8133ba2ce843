"""Floats that no integer holds become what the processor makes of them: in vectors, behind them, in constants."""

import itertools

import pytest
import torch

import compile_api

INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
NUMBERS = [float("inf"), -float("inf"), float("nan"), 3e9, -3e9, 1e20, -1e20]
HELD = {torch.float16: 3}
"""How many of the numbers a dtype has: masked_fill refuses what it has not."""
WAYS = {
    "masked_fill": lambda x, number: x.masked_fill(x > 0, number),
    "where": lambda x, number: torch.where(x > 0, x, number),
    "full_like": lambda x, number: torch.full_like(x, number),
    "full": lambda x, number: torch.full((3,), number, dtype=x.dtype),
    "product": lambda x, number: x * (number / 4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", WAYS)
def test_casts_are_those_of_eager(way: str, dtype: torch.dtype) -> None:
    cases = list(itertools.product(NUMBERS[: HELD.get(dtype)], INTEGERS))

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [WAYS[way](x, number).to(integer) for number, integer in cases]

    compiled = compile_api.compile(function)
    for size in (3, 37):
        x = torch.linspace(-4, 5, size).to(dtype)
        for case, expected, actual in zip(cases, function(x), compiled(x), strict=True):
            assert torch.equal(actual, expected), (case, size)
