"""Pointwise operators of the numbers where formulas part: eager's values, signs of zero included, in every dtype, in
vectors and in what is left over behind them.

Eager's own kernels for CPUs give other zeros, and NaN for other remainders by the smallest numbers, in a tensor that is
read a vector at a time than in one that is not; ours give what the former give, but for remainders, which are exact.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.int64, torch.uint64, torch.bool]
OF_ONE = {
    **{name: getattr(torch, name) for name in (
        "abs", "neg", "sign", "sgn", "sigmoid", "tanh", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "reciprocal",
        "floor", "round", "trunc", "frac", "relu", "signbit", "isfinite", "nan_to_num", "square", "erf", "sinc",
    )},
    **{name: getattr(F, name) for name in ("silu", "mish", "softplus", "logsigmoid", "elu", "celu", "hardswish")},
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "clamp from 0": lambda x: x.clamp(min=0),
    "clamp to -0.0": lambda x: x.clamp(max=-0.0),
    "power": lambda x: x**3,
    "half a power": lambda x: x**0.5,
    "0 less it": lambda x: 0.0 - x,
    "power of a third": lambda x: x ** (1 / 3),
    "celu of NaN": lambda x: F.celu(x, math.nan),
    "logit": torch.logit,
    "glu": lambda x: F.glu(torch.cat([x, x.flip(0)])),
}  # fmt: skip
OF_TWO = {
    **{name: getattr(torch, name) for name in (
        "add", "sub", "mul", "div", "atan2", "copysign", "fmax", "fmin", "maximum", "minimum", "hypot", "pow", "xlogy",
        "eq", "lt", "ge", "logical_xor", "heaviside", "bitwise_and", "bitwise_xor",
    )},
    "clamp from": lambda x, y: x.clamp(min=y),
    "clamp to": lambda x, y: x.clamp(max=y),
    "clamp": lambda x, y: x.clamp(y, x),
    "where": lambda x, y: torch.where(x > y, x, y),
    "quotient cut off": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "quotient rounded down": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "sum of products": lambda x, y: torch.addcmul(x, x, y),
    "sum with a factor": lambda x, y: torch.add(x, y, alpha=2),
    "difference with a factor": lambda x, y: torch.rsub(x, y, alpha=2),
    "difference with no part": lambda x, y: torch.sub(x, y, alpha=0),
    "running sum of one": lambda x, y: (x - y)[None].cumsum(0),
    "running product of one": lambda x, y: (x - y)[None].cumprod(0),
    "isclose": torch.isclose,
}  # fmt: skip


def special(dtype):
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if not dtype.is_floating_point:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return torch.tensor([v for v in (0, 1, 2, 3, 7, -1, -3, 100, -100, low + 1, high) if low <= v], dtype=dtype)
    limits = torch.finfo(dtype)
    sizes = (0.0, 0.5, 1.0, 2.5, 7.5, 10.0, 100.0, 1e4, 0.1, limits.max, limits.tiny, limits.eps, math.inf)
    return torch.tensor([*sizes, *(-size for size in sizes), math.nan], dtype=torch.float64).to(dtype)


def close(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if not expected.dtype.is_floating_point:
        return found == expected
    tolerance = {torch.float64: 1e-11, torch.float32: 2e-5}.get(expected.dtype, 2e-2)
    near = torch.isclose(found.double(), expected.double(), rtol=tolerance, atol=1e-37, equal_nan=True)
    zeros = (found == 0) & (expected == 0)
    return near & (~zeros | (found.signbit() == expected.signbit()))


def can_eager(function, *inputs):
    try:
        return function(*inputs)
    except (RuntimeError, NotImplementedError, ZeroDivisionError):
        return None


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("operands", [1, 2])
def test_special_values(dtype, operands):
    values = special(dtype)
    pairs = values.repeat_interleave(len(values)), values.repeat(len(values))
    few = values[:7], torch.tensor(values[:7].tolist()[::-1], dtype=dtype)
    inputs = [pairs, few] if operands == 2 else [(values.repeat(3),), few[:1]]
    table = OF_TWO if operands == 2 else OF_ONE
    expected = {name: [can_eager(function, *given) for given in inputs] for name, function in table.items()}
    names = [name for name, results in expected.items() if None not in results]

    def program(*given):
        groups = given[:operands], given[operands:]
        return [table[name](*group) for name in names for group in groups]

    given = [tensor for group in inputs for tensor in group]
    graph = make_fx(program, decomposition_table=inductor.decompositions())(*given)
    compiled = inductor.compile(graph, given)
    assert compiled.report.failure is None
    found = iter(compiled(*given))
    for name in names:
        for group, wanted in zip(inputs, expected[name], strict=True):
            odd = ~close(result := next(found), wanted)
            first = [tensor[odd][:5].tolist() for tensor in (*group, result, wanted) if tensor.shape == odd.shape]
            assert not odd.any(), f"{name} of {first}"


NORMS = {
    "batch norm": lambda x, one: F.batch_norm(x, None, None, training=True),
    "batch norm with weights": lambda x, one: F.batch_norm(x, None, None, one, -0.0 * one, training=True),
    "batch norm by statistics": lambda x, one: F.batch_norm(x, 0 * one, one),
    "instance norm": lambda x, one: F.instance_norm(x),
    "layer norm": lambda x, one: F.layer_norm(x, (3,)),
    "layer norm with weights": lambda x, one: F.layer_norm(x, (3,), -one, -0.0 * one),
    "group norm": lambda x, one: F.group_norm(x, 1),
    "pool": lambda x, one: F.avg_pool1d(x, 2, 1),
    "pool of a plane": lambda x, one: F.avg_pool2d(x, 2, 1),
    "pool to a size": lambda x, one: F.adaptive_avg_pool1d(x, 2),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype)[6:])
def test_zeros_of_norms_and_pools_have_eagers_signs(dtype):
    def program(x, one):
        return [function(x, one) for function in NORMS.values()]

    zeros = torch.tensor([-0.0, -0.0, 0.0], dtype=dtype)
    given = [torch.stack([zeros[:1].expand(3, 3), zeros.expand(3, 3), zeros[:, None].expand(3, 3)]).contiguous()]
    given.append(torch.ones(3, dtype=dtype))
    graph = make_fx(program, decomposition_table=inductor.decompositions())(*given)
    for name, found, expected in zip(NORMS, inductor.compile(graph, given)(*given), program(*given), strict=True):
        assert torch.equal(found.signbit(), expected.signbit()), name


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("exponent", [*INTEGERS, torch.float32])
def test_scaling_by_powers_of_two_that_are_infinite_or_zero_by_themselves(kind, exponent):
    x = torch.tensor([1e-30, 1e30, 0.0, -1.0, 3.0]).to(kind)
    for power in (128, -160, 2000, 3):
        limits = torch.iinfo(exponent) if exponent in INTEGERS[:-1] else torch.finfo(torch.float32)
        y = torch.tensor(min(max(power, limits.min), limits.max)).to(exponent).expand(5)
        try:
            expected = torch.ldexp(x, y)
        except (RuntimeError, NotImplementedError):
            continue  # some integers are refused
        graph = make_fx(torch.ldexp, decomposition_table=inductor.decompositions())(x, y)
        (found,) = inductor.compile(graph, [x, y])(x, y)
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.nan_to_num(), expected.nan_to_num())
