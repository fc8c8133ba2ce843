"""Python's integers have no end: what varies and leaves 64 bits, on its way or in the end, is what it is in eager."""

import pytest
import torch

import compile_api

PROGRAMS = {
    "remainder by 2**64": lambda x, n: x + n % 2**64,
    "remainder by 2**63": lambda x, n: x + n % 2**63,
    "quotient by 2**63": lambda x, n: x + n // 2**63,
    "hash": lambda x, n: x + n * 0x9E3779B97F4A7C15 % 2**64 % 1000,
    "square, then less": lambda x, n: x + n * n % 1000,
    "clock": lambda x, n: x + n * 10 % 7,
    "high power": lambda x, n: x + n**40 % 1000,
    "square": lambda x, n: x + n * n,
    "square filled in": lambda x, n: torch.full((2,), n * n),
    "square chosen": lambda x, n: torch.where(x > 0, n * n, x),
    "square as an end": lambda x, n: x.clamp(max=n * n),
    "square compared": lambda x, n: x == n * n,
    "square to begin from": lambda x, n: torch.arange(n * n, n * n + 2),
    "square written": lambda x, n: x.clone().fill_(n * n),
    "square as a factor": lambda x, n: torch.add(x, x, alpha=n * n),
    "shifted left": lambda x, n: x + (n << 20),
    "shifted right": lambda x, n: x + (n >> 3),
    "shifted out": lambda x, n: x + (n >> 64),
    "negated": lambda x, n: x + -n // 7,
    "itself": lambda x, n: x + n,
    "itself as a double": lambda x, n: x.double() + n,
    "power of a size": lambda x, n: x.sum() + x.numel() ** 40 % 1000,
    "sum that is read": lambda x, n: (lambda s: x + s * s % 10)((x * (n % 2**31) * 2**30).sum().item()),
}
NUMBERS = (3, 4, 2**31, 2**32, -9, 17 * 10**17, 2**62, 2**63 - 1, 2**63, 2**64, 10**21, -(2**63), -(2**63) - 1, 5)


def outcome(function, x, n):
    try:
        result = function(x, n)
    except (OverflowError, RuntimeError) as error:
        return type(error).__name__
    return result.dtype, result.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_eagers(name, backend):
    compiled = compile_api.compile(PROGRAMS[name], backend=backend)
    for number, n in enumerate(NUMBERS):
        x = torch.ones(1 + number % 3, dtype=torch.int64)
        assert outcome(compiled, x, n) == outcome(PROGRAMS[name], x, n), n


def test_numbers_that_fit_are_computed_in_the_kernel():
    program = compile_api.compile(lambda x, n: (x * (n + 1)).sin() + n // 2 + x.numel() * 3)
    for n in (3, 4, 5):
        program(torch.rand(n), n)
    assert not any(graph.fallbacks for graph in compile_api.report(program).compiled)
