"""Pointwise operators against eager: values, dtypes and strides."""

import math

import pytest
import torch
import torch.nn.functional as F
from compiled import check, fallbacks, kernels
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.lowerings import LOWERINGS

aten = torch.ops.aten
FLOAT_UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "digamma", "sigmoid",
    "reciprocal", "abs", "neg", "floor", "ceil", "trunc", "round", "sign", "sgn", "frac", "relu", "square",
    "positive", "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not", "sinc", "deg2rad",
    "rad2deg", "silu", "mish", "relu6", "hardsigmoid", "hardswish", "log_sigmoid", "softplus", "elu", "leaky_relu",
    "gelu", "hardshrink", "softshrink", "nan_to_num", "hardtanh",
)  # fmt: skip
INT_UNARY = (
    "abs", "neg", "floor", "sign", "square", "bitwise_not", "logical_not", "exp", "sqrt", "sigmoid", "isnan",
    "isfinite", "reciprocal", "relu",
)  # fmt: skip
FLOAT_BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "copysign", "eq", "ne", "lt", "le",
    "gt", "ge", "logical_and", "logical_or", "logical_xor", "logaddexp", "hypot", "fmod", "remainder", "xlogy",
    "heaviside", "nextafter", "rsub",
)  # fmt: skip
INT_BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "eq", "lt", "bitwise_and", "bitwise_or", "bitwise_xor", "atan2",
    "logical_xor",
)  # fmt: skip
SPECIAL = torch.tensor([0.0, -0.0, 1.0, -1.5, 0.3, 2.5, 3.5, math.inf, -math.inf, math.nan, 1e-30, 88.0])


def operator(name):
    return getattr(torch, name, None) or getattr(F, name, None) or getattr(aten, name)


def inputs(dtype, shape=(5, 7)):
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=torch.float64).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape).bool()
    return torch.randint(-9, 9, shape).to(dtype)


@pytest.mark.parametrize("name", FLOAT_UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_float_operand(name, dtype):
    check(lambda x: operator(name)(x), inputs(dtype))
    finite = name == "gelu"  # eager's own kernels differ in what they make of infinities there
    check(lambda x: operator(name)(x), SPECIAL[SPECIAL.isfinite()].to(dtype) if finite else SPECIAL.to(dtype))


@pytest.mark.parametrize("name", FLOAT_UNARY)
def test_one_bfloat16_operand(name):
    check(lambda x: operator(name)(x), inputs(torch.bfloat16))


@pytest.mark.parametrize("name", INT_UNARY)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8])
def test_one_integer_operand(name, dtype):
    check(lambda x: operator(name)(x), inputs(dtype))


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_two_float_operands(name):
    check(lambda x, y: operator(name)(x, y), inputs(torch.float32), inputs(torch.float32))
    check(lambda x, y: operator(name)(x, y), SPECIAL, SPECIAL.flip(0).clone())


@pytest.mark.parametrize("name", INT_BINARY)
@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
def test_two_integer_operands(name, dtype):
    check(lambda x, y: operator(name)(x, y), inputs(dtype), inputs(dtype))


DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.float64,
)


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_promotion_of_tensors_and_zero_dimensional_ones(left, right):
    x, y = inputs(left), inputs(right)
    check(lambda a, b: (a + b, a * b[0, 0], a == b, torch.where(a == b, a, b)), x, y)


@pytest.mark.parametrize("number", [True, 2, -3, 0.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion_of_python_numbers(number, dtype):
    check(lambda x: (x + number, x * number, x / 2, x > number), inputs(dtype))


FUNCTIONS = {
    "round to a digit": lambda x, y: (x.round(decimals=1), (x * 100).round(decimals=-1), x.round(decimals=0)),
    "addcmul": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, y, x, value=0.5),
    "add alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub alpha": lambda x, y: torch.sub(x, y, alpha=0.5),
    "lerp": lambda x, y: (torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.7), torch.lerp(x, y, x)),
    "clamp": lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=1), x.clamp(min=y), x.clamp(y, y + 1)),
    "powers": lambda x, y: (x**2, x**3, x.abs() ** 0.5, x**-1, 2.0**x, x.abs() ** y, x.abs() ** 1.7),
    "where": lambda x, y: (torch.where(x > 0, x, 0.0), torch.where(x > y, 1.0, y), x.masked_fill(y > 0, -1e9)),
    "gelu": lambda x, y: (F.gelu(x), F.gelu(y, approximate="tanh")),
    "divisions": lambda x, y: (x // 0.3, x % 0.3, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, 0.3)),
    "casts": lambda x, y: (x.to(torch.int64), x.double(), x.bfloat16(), x.bool(), x.half().float()),
    "logit": lambda x, y: torch.logit(x.sigmoid(), 1e-6),
    "threshold": lambda x, y: F.threshold(x, 0.1, 20.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    check(FUNCTIONS[name], torch.randn(5, 7), torch.randn(7))


@pytest.mark.parametrize("exponent", [True, False])
@pytest.mark.parametrize("size", [3, 99])
def test_powers_of_booleans(exponent, size):
    """In vectors, too."""
    x = torch.arange(size) % 3 > 0
    check(lambda x: x**exponent, x)


BACKWARD = {
    "gelu": lambda g, x: (aten.gelu_backward(g, x), aten.gelu_backward(g, x, approximate="tanh")),
    "silu": lambda g, x: aten.silu_backward(g, x),
    "sigmoid": lambda g, x: aten.sigmoid_backward(g, x),
    "tanh": lambda g, x: aten.tanh_backward(g, x),
    "threshold": lambda g, x: aten.threshold_backward(g, x, 0.1),
    "leaky_relu": lambda g, x: aten.leaky_relu_backward(g, x, 0.1, False),
    "hardtanh": lambda g, x: aten.hardtanh_backward(g, x, -1.0, 1.0),
    "hardswish": lambda g, x: aten.hardswish_backward(g, x * 4),
    "hardsigmoid": lambda g, x: aten.hardsigmoid_backward(g, x * 4),
    "softplus": lambda g, x: aten.softplus_backward(g, x, 2.0, 1.0),
}


@pytest.mark.parametrize("name", BACKWARD)
def test_gradients(name):
    check(BACKWARD[name], torch.randn(5, 7), torch.randn(5, 7))


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 4)), ((), (2, 3)), ((0, 3), (3,)), ((2, 1, 4), (5, 1)), ((1,), (1, 1))]
)
def test_broadcasting(shapes):
    check(lambda a, b: (a * b + 1, torch.where(a > b, a, b)), *(torch.randn(shape) for shape in shapes))


def test_integers_wrap_and_shift():
    check(lambda a: (a * 3 + 100, a << 1, a >> 1, a & 3), torch.arange(-100, 100, dtype=torch.int8))


def test_integer_divisions_by_numbers():
    check(lambda a: (a // 3, a % 3, torch.div(a, 2, rounding_mode="trunc"), torch.fmod(a, 3)), torch.arange(-9, 9))


def test_integer_division_by_a_tensor_is_left_to_eager_which_raises():
    assert fallbacks(lambda a, b: a // b, torch.arange(4), torch.arange(4)) == ["aten.floor_divide.default"]


def test_half_arithmetic_is_not_rounded_in_between_but_casts_are():
    x = torch.randn(64).bfloat16()
    check(lambda a: (a.float() * 3).to(torch.bfloat16).float() - a.float() * 3, x)
    assert kernels(lambda a: ((a + 1) * 3).exp(), x) == 1


def test_complex_numbers_run_as_they_are():
    check(lambda a: a * 2 + 1, torch.randn(3, dtype=torch.complex64))


def test_every_row_of_the_table_is_an_operator():
    assert all(isinstance(overload, torch._ops.OpOverload) for overload in LOWERINGS)
    assert len(LOWERINGS) > 250


def test_hardtanh_of_integers_stays_integer():
    check(lambda x: F.hardtanh(x, -2, 3), torch.arange(-5, 5))


@pytest.mark.parametrize("operator", [torch.floor_divide, torch.remainder, torch.fmod])
@pytest.mark.parametrize(
    ("dtype", "number"), [(torch.uint8, 256), (torch.int8, 2**31), (torch.int16, 65535), (torch.int32, 2**32)]
)
def test_divisors_that_are_zero_in_the_operands_type(dtype, number, operator):
    x = torch.arange(3).to(dtype)
    compiled = inductor.compile(make_fx(lambda x: operator(x, number), tracing_mode="fake")(x), [x])
    try:
        expected = operator(x, number)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)):
            compiled(x)
    else:
        assert torch.equal(compiled(x)[0], expected)
