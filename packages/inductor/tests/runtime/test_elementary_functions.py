"""Our vector mathematics against double precision, over the whole range of floats and the special values."""

import math
from dataclasses import replace

import pytest
import torch
from processors import AVX2, PORTABLE, built_for

from inductor.assemble import build_program
from inductor.ir.expr import Load, apply
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Argument, Kernel, Loop, Store
from inductor.ir.program import Allocate, Buffer, Launch, Program, Ref
from inductor.options import Options

# The largest error in units of the last place.  Double precision results, rounded once, are good to half a unit.
LIMITS = {
    "exp": 1, "exp2": 1, "expm1": 2, "log": 1, "log2": 1.5, "log10": 1, "log1p": 1, "sqrt": 0.5, "rsqrt": 1.5,
    "sin": 2, "cos": 2, "tan": 1, "asin": 1, "acos": 1, "atan": 2, "sinh": 2, "cosh": 2, "tanh": 2, "asinh": 2,
    "acosh": 2, "atanh": 2, "erf": 2, "erfc": 0.51, "erfinv": 0.51, "lgamma": 0.51, "digamma": 0.51, "sigmoid": 1.6,
    "reciprocal": 0.5,
}  # fmt: skip
# Eager divides by an exponential that overflows below this.
FROM = {"sigmoid": -88.7228394}
MACHINES = {"scalar": (4, None), "portable": (16, PORTABLE), "AVX2": (32, AVX2), "512 bits": (64, None)}
EXACT = ("floor", "ceil", "trunc", "round", "abs", "sign", "neg")


def program_of(op, n, dtype, operands=("x",)):
    i = loop_variable("i", n)
    at, size, cpu = Index.of(i), (Index.of(n),), torch.device("cpu")
    arguments = [Argument(name, dtype, Index.of(n), "in") for name in operands]
    value = apply(op, *(Load(name, at, dtype) for name in operands))
    result = Argument("result", dtype, Index.of(n), "out")
    kernel = Kernel("k", "cpu", (i,), (Loop((), (Store("result", at, value),)),), (*arguments, result))
    *inputs, output = (Buffer(name, dtype, cpu, size, (Index.of(1),)) for name in (*operands, "result"))
    steps = (Allocate(output), Launch(kernel, (*operands, "result")))
    return Program("g", tuple(inputs), (), steps, (Ref("result"),))


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return Options(cache_dir=str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def sample():
    """Every 6151st float, the neighbourhood of what is interesting, and the special values."""
    bits = torch.arange(-(2**31), 2**31, 6151, dtype=torch.int64).to(torch.int32).view(torch.float32)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0, -1.0, 2.0**-126, 2.0**-149, -(2.0**-149)])
    return torch.cat([bits, torch.linspace(-30, 30, 1_000_003), torch.linspace(-1.1, 1.1, 50_001), special])


def reference(op, x):
    function = getattr(torch, op, None) or getattr(torch.special, op)
    return function(x)


def units_off(found, exact):
    """The error in units of the last place of a float; 0 where both are NaN or the same infinity."""
    rounded = exact.float()
    unit = 2.0 ** (exact.abs().clamp(min=2.0**-126).log2().floor() - 23)
    error = (found.double() - exact).abs() / unit
    same = (found == rounded) | (found.isnan() & exact.isnan())
    return torch.where(same, 0.0, error.nan_to_num(nan=torch.inf))


@pytest.mark.parametrize("op", LIMITS)
@pytest.mark.parametrize("machine", MACHINES)
def test_single_precision_is_accurate(op, machine, sample, options):
    register, processor = MACHINES[machine]
    options = built_for(processor, replace(options, vector_bytes=register))
    x = sample if register > 4 else sample[::50].contiguous()
    (found,) = build_program(program_of(op, x.numel(), torch.float32), {}, options)(x)
    exact = reference(op, x.double())
    error = units_off(found, exact) * (x >= FROM.get(op, -math.inf))
    worst = error.argmax()
    # A result just at the rounding boundary may look a hair beyond half a unit, as the reference is rounded too.
    assert error[worst] <= LIMITS[op] + 1e-6, f"{op}({x[worst].item()!r}) = {found[worst].item()!r}"
    zeros = found == 0
    assert torch.equal(found[zeros].signbit(), exact.float()[zeros].signbit())


SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1e-40, torch.inf, -torch.inf, torch.nan])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_functions_of_two_numbers_are_accurate(op, machine, options):
    register, processor = MACHINES[machine]
    options = built_for(processor, replace(options, vector_bytes=register))
    bases, exponents = torch.logspace(-6, 6, 1009), torch.linspace(-6, 6, 307)
    whole = torch.cartesian_prod(torch.linspace(-9, 9, 73), torch.arange(-40.0, 41))
    pairs = [whole, torch.cartesian_prod(bases, exponents), torch.cartesian_prod(SPECIAL, SPECIAL)]
    x, y = torch.cat(pairs).T.contiguous()
    (found,) = build_program(program_of(op, x.numel(), torch.float32, ("x", "y")), {}, options)(x, y)
    error = units_off(found, getattr(torch, op)(x.double(), y.double()))
    worst = error.argmax()
    assert error[worst] <= 2, f"{op}({x[worst].item()!r}, {y[worst].item()!r}) = {found[worst].item()!r}"


DIVISIONS = {
    "fmod": lambda x, y: torch.fmod(x.double(), y.double()).to(x.dtype),  # torch's in single precision loses digits
    "mod": lambda x, y: torch.remainder(x.double(), y.double()).to(x.dtype),
    "truncdiv": lambda x, y: torch.trunc(x / y),
    "floordiv": lambda x, y: torch.div(x, y, rounding_mode="floor"),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("op", DIVISIONS)
def test_divisions_with_a_rest_are_exact(op, dtype, machine, options):
    register, processor = MACHINES[machine]
    options = built_for(processor, replace(options, vector_bytes=register))
    chance = torch.Generator().manual_seed(0)
    eighths = torch.randint(-40, 41, (40_000, 2), generator=chance) / 8
    any_size = torch.randn(40_000, 2, generator=chance) * torch.logspace(-20, 20, 40_000)[:, None]
    alike = any_size * torch.tensor([1, 1e-5])
    x, y = torch.cat([eighths, any_size, alike, torch.cartesian_prod(SPECIAL, SPECIAL)]).to(dtype).T.contiguous()
    (found,) = build_program(program_of(op, x.numel(), dtype, ("x", "y")), {}, options)(x, y)
    expected = DIVISIONS[op](x, y)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    zeros = (found == 0) & (y != 0)
    assert torch.equal(found[zeros].signbit(), expected[zeros].signbit())


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rounding_is_exact(op, dtype, sample, options):
    x = sample.to(dtype)
    (found,) = build_program(program_of(op, x.numel(), dtype), {}, options)(x)
    torch.testing.assert_close(found, reference(op, x), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("op", LIMITS)
def test_double_precision_agrees_with_torch(op, options):
    x = torch.cat(
        [torch.linspace(-20, 20, 4001, dtype=torch.float64), torch.linspace(-1, 1, 1001, dtype=torch.float64)]
    )
    (found,) = build_program(program_of(op, x.numel(), torch.float64), {}, options)(x)
    torch.testing.assert_close(found, reference(op, x), rtol=1e-11, atol=1e-14, equal_nan=True)
