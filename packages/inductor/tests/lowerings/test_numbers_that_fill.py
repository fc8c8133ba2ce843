"""A number that a dtype does not hold is refused where eager refuses it, and only there: as a number, and in a tensor.

By default for some pairs of dtypes, others in each run; INDUCTOR_ALL_SAMPLES=1 takes all of them.
"""

import itertools
import math
import os
import random

import pytest
import torch
import torch.nn.functional as F
from compiled import traced

import inductor

DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64, torch.bool)  # fmt: skip
NUMBERS = (300, -5, -300, 70000, 1e10, 1e300, math.nan, math.inf, -math.inf, 1 << 40, 3.5, True)
FROM_TENSORS = {
    "masked_fill": lambda x, v: x.masked_fill(x > 1, v),
    "masked_fill of nothing": lambda x, v: x.masked_fill(x > 100, v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([0]), v),
    "index_put": lambda x, v: x.index_put((x > 1,), v),
    "fill": lambda x, v: torch.fill(x, v),
    "where": lambda x, v: torch.where(x > 1, x, v),
    "copy": lambda x, v: torch.select_scatter(x, v.to(x.dtype) if x.dtype == torch.bool else v, 0, 0),
}
OF_NUMBERS = {
    **{name: FROM_TENSORS[name] for name in ("masked_fill", "index_fill", "fill", "where")},
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "scalar_tensor": lambda x, v: torch.scalar_tensor(v, dtype=x.dtype),
    "scatter": lambda x, v: x.scatter(0, torch.tensor([0]), v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "threshold": lambda x, v: F.threshold(x, 1, v),
}


def some(cases, number):
    return cases if "INDUCTOR_ALL_SAMPLES" in os.environ else random.Random().sample(cases, number)


def refusal(function, inputs):
    """What is raised, in short."""
    try:
        function(*inputs)
    except Exception as error:  # noqa: BLE001 whatever eager raises
        return "overflow" if "without overflow" in str(error) else "other"
    return None


def compiled_refusal(function, inputs):
    try:
        graph = traced(function, *inputs)
    except Exception:  # noqa: BLE001 an example is refused as eager refuses it
        return refusal(function, inputs)
    return refusal(inductor.compile(graph, [*inputs]), inputs)


@pytest.mark.parametrize("name", FROM_TENSORS)
def test_numbers_in_tensors(name):
    function, off, met = FROM_TENSORS[name], [], set()
    for dtype, source in some([*itertools.product(DTYPES, DTYPES)], 12):
        x, compiled = torch.arange(4).to(dtype), None
        for number in NUMBERS:
            try:
                value = torch.tensor(number).to(source) if abs(number) < 1 << 62 else torch.tensor(number, dtype=source)
            except (RuntimeError, OverflowError):
                continue
            if (dtype, source, text := str(value.item())) in met:
                continue
            met.add((dtype, source, text))
            expected = refusal(function, (x, value))
            if expected == "other":
                break
            compiled = compiled or inductor.compile(traced(function, x, value), [x, value])
            found = refusal(compiled, (x, value))
            if found != expected:
                off.append(f"{text} in {source} for {dtype}: {found}, eager: {expected}")
            elif expected is None:
                (result,) = compiled(x, value)
                torch.testing.assert_close(result, function(x, value), equal_nan=True, rtol=0, atol=0)
    assert off == []


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers(name):
    off = []
    for dtype, number in some([*itertools.product(DTYPES, NUMBERS)], 16):

        def function(x, number=number):
            return OF_NUMBERS[name](x, number)

        x = torch.arange(4).to(dtype)
        expected = refusal(function, (x,))
        if expected != "other" and (found := compiled_refusal(function, (x,))) != expected:
            off.append(f"{number} for {dtype}: {found}, eager: {expected}")
    assert off == []
