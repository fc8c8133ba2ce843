"""Tensors of integers and numbers of Python's beyond what their dtype holds: eager takes the low bits, or refuses; what
it computes, kernels compute."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

DTYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
NUMBERS = (2654435761, 2**40 + 511, -(2**63))  # of eight bits the second is 255
OPERATORS = {
    "sum": lambda a, k: a + k,
    "difference": lambda a, k: a - k,
    "difference from": lambda a, k: k - a,
    "product": lambda a, k: a * k,
    "hash": lambda a, k: (a * k) & 0xFFFFFFFF,
    "bits of both": lambda a, k: a & k,
    "bits of any": lambda a, k: a | k,
    "bits of one": lambda a, k: a ^ k,
    "quotient": lambda a, k: a // k,
    "quotient of": lambda a, k: k // (a | 1),
    "quotient cut off": lambda a, k: torch.div(a, k, rounding_mode="trunc"),
    "remainder": lambda a, k: a % k,
    "remainder of C": torch.fmod,
    "less": lambda a, k: a < k,
    "equal": lambda a, k: a == k,
    "choice": lambda a, k: torch.where(a > 3, a, k),
    "full": lambda a, k: torch.full((3,), k, dtype=a.dtype),
    "filled": lambda a, k: a.clone().fill_(k),
    "masked": lambda a, k: a.masked_fill(a > 3, k),
    "limit": lambda a, k: a.clamp(max=k),
    "factor": lambda a, k: torch.add(a, a, alpha=k),
}


def accepted(a):
    """The operators and numbers that eager computes with."""
    for k in NUMBERS:
        for name, operator in OPERATORS.items():
            try:
                operator(a, k)
            except (RuntimeError, ZeroDivisionError):
                continue
            yield f"{name} {k}", operator, k


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_beyond_a_dtype_are_what_eager_takes_them_for(dtype):
    a = torch.arange(20, dtype=dtype)
    cases = list(accepted(a))
    graph = make_fx(lambda a: [operator(a, k) for _, operator, k in cases])(a)
    compiled = inductor.compile(graph, [a])
    assert compiled.report.failure is None
    for (name, operator, k), result in zip(cases, compiled(a), strict=True):
        torch.testing.assert_close(result, operator(a, k), msg=name)
