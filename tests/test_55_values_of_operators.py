"""Values that operators could get wrong without anybody noticing: numbers beside tensors of every dtype, signed zeros,
infinities, NaN, denormal numbers, the ends of a dtype; in kernels of one element and in those of vectors.

Choices, comparisons, signs of zeros and NaNs are eager's to the bit. Arithmetic may differ by a rounding of the result.
VALUES_WHOLE=1 runs everything, VALUES_SEED draws others; what was compared is counted and printed.
"""

import itertools
import math
import os
import re
import zlib

import pytest
import torch
import torch.nn.functional as F

import compile_api

WHOLE = "VALUES_WHOLE" in os.environ
HALF = (torch.bfloat16, torch.float16)
FLOATS = (*HALF, torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool, torch.complex64)
SIZES = (1, 3, 17, 64)
NUMBERS = (0.1, 1 / 3, -0.7, 0, 0.0, -0.0, 1, 2, -1, 3, 0.5, 2.5, 300, 65504.1, 1e-8, 1e-45, 3.4e38, 1e300)
NUMBERS += (2**24 + 1, 2**53 + 1, math.inf, -math.inf, math.nan, True, 1j)

WITH_A_NUMBER = """
x == n
x != n
x < n
x <= n
x > n
x >= n
n == x
n > x
x + n
x - n
n - x
x * n
x / n
n / x
x // n
n // x
x % n
n % x
x ** n
n ** x
torch.fmod(x, n)
torch.remainder(x, n)
torch.div(x, n, rounding_mode='floor')
torch.div(x, n, rounding_mode='trunc')
torch.floor_divide(x, n)
torch.true_divide(x, n)
torch.rsub(x, n)
torch.rsub(x, y, alpha=n)
torch.add(x, y, alpha=n)
torch.add(x, n, alpha=2)
torch.sub(x, y, alpha=n)
torch.where(x > n, x, n)
torch.where(x == n, y, x)
torch.where(x < y, n, x)
torch.where(x < y, n, 1)
torch.clamp(x, n)
torch.clamp(x, max=n)
torch.clamp(x, -1, n)
torch.clamp(x, n, 2)
torch.clamp_min(x, n)
torch.clamp_max(x, n)
x.masked_fill(x > y, n)
torch.addcmul(x, x, y, value=n)
torch.addcdiv(x, x, y, value=n)
torch.lerp(x, y, n)
torch.fill(x, n)
torch.full_like(x, n)
x.new_full((3,), n)
torch.tensor(n).to(x.dtype) + x
x + torch.tensor(n)
torch.tensor(n) * x
x == torch.tensor(n)
torch.where(x > y, torch.tensor(n), x)
torch.clamp(x, torch.tensor(n))
torch.eq(x, n)
torch.float_power(x, n)
torch.xlogy(x, n)
torch.xlogy(n, x)
torch.copysign(x, n)
torch.nan_to_num(x, nan=n)
torch.nan_to_num(x, posinf=n, neginf=-n)
torch.logit(x, eps=n)
x.index_fill(0, torch.tensor([0]), n)
x.clone().fill_(n)
x.clone().add_(n)
x.clone().mul_(n)
x.clone().clamp_(n)
x.clone().masked_fill_(x > y, n)
torch.isclose(x, y, atol=n)
torch.bitwise_and(x, n)
torch.bitwise_or(x, n)
torch.bitwise_xor(x, n)
torch.bitwise_left_shift(x, n)
torch.bitwise_right_shift(x, n)
x & n
n - x.sum()
x.mean() > n
x.sum() == n
torch.heaviside(x, torch.tensor(n).to(x.dtype))
torch.masked_fill(x, x > n, n)
F.threshold(x, n, 2)
F.threshold(x, 0.1, n)
F.hardshrink(x, n)
F.softshrink(x, n)
F.leaky_relu(x, n)
F.elu(x, n)
F.celu(x, n)
F.hardtanh(x, -1, n)
F.softplus(x, n)
F.softplus(x, 1, n)
F.pad(x, (1, 1), value=n)
F.huber_loss(x, y, reduction='none', delta=n)
F.smooth_l1_loss(x, y, reduction='none', beta=n)
F.rrelu(x, n, n)
""".strip().splitlines()

OF_ONE = """
-x
abs(x)
torch.relu(x)
F.relu6(x)
torch.clamp(x, 0, 6)
torch.clamp(x, -1, 1)
torch.sign(x)
torch.sgn(x)
torch.signbit(x)
torch.round(x)
torch.round(x, decimals=1)
torch.round(x, decimals=-1)
torch.floor(x)
torch.ceil(x)
torch.trunc(x)
torch.frac(x)
torch.sqrt(x)
torch.rsqrt(x)
torch.reciprocal(x)
torch.square(x)
torch.exp(x)
torch.exp2(x)
torch.expm1(x)
torch.log(x)
torch.log2(x)
torch.log10(x)
torch.log1p(x)
torch.sin(x)
torch.cos(x)
torch.tan(x)
torch.asin(x)
torch.acos(x)
torch.atan(x)
torch.sinh(x)
torch.cosh(x)
torch.tanh(x)
torch.asinh(x)
torch.acosh(x)
torch.atanh(x)
torch.erf(x)
torch.erfc(x)
torch.erfinv(x)
torch.lgamma(x)
torch.digamma(x)
torch.sigmoid(x)
torch.sinc(x)
torch.deg2rad(x)
torch.rad2deg(x)
torch.isnan(x)
torch.isinf(x)
torch.isfinite(x)
torch.isposinf(x)
torch.isneginf(x)
torch.nan_to_num(x)
torch.logit(x)
torch.i0(x)
torch.special.entr(x)
torch.special.ndtri(x)
torch.special.log_ndtr(x)
torch.bitwise_not(x)
torch.logical_not(x)
~x
x ** 2
x ** 3
x ** 0.5
x ** -0.5
x ** -1
x ** -2
x ** 0
2 ** x
x.clamp(-100, 100).nan_to_num().to(torch.int32)
x.clamp(0, 100).nan_to_num().to(torch.uint8)
x.clamp(-1000, 1000).nan_to_num().to(torch.int64)
x.to(torch.bool)
x.to(torch.float32)
x.to(torch.bfloat16)
x.to(torch.float16)
x.to(torch.float64)
x.bool().float() * x
F.silu(x)
F.gelu(x)
F.gelu(x, approximate='tanh')
F.mish(x)
F.softplus(x)
F.softsign(x)
F.logsigmoid(x)
F.hardsigmoid(x)
F.hardswish(x)
F.hardtanh(x)
F.hardshrink(x)
F.softshrink(x)
F.tanhshrink(x)
F.leaky_relu(x)
F.elu(x)
F.selu(x)
F.celu(x)
F.threshold(x, 0, 0)
x * 0
x * -0.0
x + 0
x + 0.0
x - 0.0
x + (-0.0)
0.0 - x
0 * x + 1
x / 1
x * 1
x - x
x / x
x.sum()
x.sum(0)
x[:1].sum()
x.mean()
x.prod()
x.amax()
x.amin()
x.max()
x.min()
x.max(0)
x.min(0)
x.argmax()
x.argmin()
x.any()
x.all()
x.var()
x.std()
x.norm()
x.norm(1)
x.norm(math.inf)
x.norm(-math.inf)
x.norm(0)
x.logsumexp(0)
x.softmax(0)
x.log_softmax(0)
x.cumsum(0)
x.cumprod(0)
x.cummax(0)
x.cummin(0)
x.logcumsumexp(0)
x.nansum()
x.nanmean()
x.sort()[0]
x.median()
x.count_nonzero()
x.aminmax()
torch.diff(x)
x.abs().max()
(-x).min()
x.masked_fill(x == 0, 5)
x.masked_fill(torch.isnan(x), -0.0)
torch.where(x == 0, -x, x)
torch.where(torch.isnan(x), 0.0, x)
torch.special.xlog1py(x, x)
torch.ldexp(x, x)
torch.frexp(x)
torch.polar(x, x)
torch.angle(x)
torch.real(x)
torch.conj(x)
""".strip().splitlines()

OF_TWO = """
x + y
x - y
x * y
x / y
x // y
x % y
x ** y
x == y
x < y
x <= y
torch.maximum(x, y)
torch.minimum(x, y)
torch.fmax(x, y)
torch.fmin(x, y)
torch.max(x, y)
torch.fmod(x, y)
torch.remainder(x, y)
torch.div(x, y, rounding_mode='floor')
torch.div(x, y, rounding_mode='trunc')
torch.copysign(x, y)
torch.hypot(x, y)
torch.atan2(x, y)
torch.nextafter(x, y)
torch.heaviside(x, y)
torch.logaddexp(x, y)
torch.logaddexp2(x, y)
torch.xlogy(x, y)
torch.where(x < y, x, y)
torch.clamp(x, y, y)
torch.clamp(x, min=y)
torch.clamp(x, max=y)
torch.logical_and(x, y)
torch.logical_or(x, y)
torch.logical_xor(x, y)
torch.bitwise_and(x, y)
torch.bitwise_or(x, y)
torch.bitwise_xor(x, y)
torch.bitwise_left_shift(x, y)
torch.bitwise_right_shift(x, y)
torch.gcd(x, y)
torch.lcm(x, y)
torch.lerp(x, y, 0.3)
torch.lerp(x, y, y)
torch.addcmul(x, y, y)
torch.addcdiv(x, x, y)
torch.isclose(x, y)
torch.isclose(x, y, equal_nan=True)
torch.dist(x, y)
torch.special.zeta(x, y)
torch.ldexp(x, y)
torch.float_power(x, y)
torch.true_divide(x, y)
torch.floor_divide(x, y)
F.prelu(x, y[:1])
F.smooth_l1_loss(x, y, reduction='none')
F.mse_loss(x, y)
F.l1_loss(x, y, reduction='none')
F.huber_loss(x, y, reduction='none')
x.masked_fill(x == y, -0.0)
torch.where(x == y, x, -y)
torch.complex(x, y)
torch.dot(x, y)
torch.cdist(x[None], y[None])
torch.cross(x[:3], y[:3], dim=0)
torch.amax(torch.stack([x, y]), 0)
torch.stack([x, y]).max(0)[0]
torch.stack([x, y]).min(0)[0]
torch.stack([x, y]).sum(0)
torch.cat([x, y]).amin()
""".strip().splitlines()


def special(dtype, size, shift=0):
    """Values that decide: zeros of both signs, infinities, the ends of the dtype, and what numbers are rounded to."""
    if dtype is torch.bool:
        values = [True, False, True]
    elif not dtype.is_floating_point and not dtype.is_complex:
        ends = torch.iinfo(dtype)
        values = [0, 1, ends.max, 2, ends.min, 3, 7, 100, ends.max - 1, 2**53 + 1 if dtype is torch.int64 else 5]
        values += [-1, -3, -7] if dtype.is_signed else []
    else:
        real = torch.float32 if dtype.is_complex else dtype
        ends = torch.finfo(real)
        values = [-0.0, 0.0, math.nan, 0.1, -0.7, 1 / 3, math.inf, -math.inf, 1.0, -1.0, 2.0, 0.5, -0.5, 1.5, 2.5, -2.5]
        values += [ends.tiny, ends.smallest_normal / 4, -ends.smallest_normal / 8, ends.max, ends.min, ends.eps, 300.0]
        values += [3.0, -3.0, 6.0, 20.0, 20.1, 65504.0, -1e-8, 10.0, -88.0, 89.0]
        if dtype.is_complex:
            values = [complex(a, b) for a, b in zip(values, values[7:] + values[:7], strict=True)]
    values = [values[(i * (1 if not shift else 5) + shift) % len(values)] for i in range(size)]
    return torch.tensor(values, dtype=dtype)


def text_of(expression, number):
    """The expression with the number in it, as a program would have it."""
    shown = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}.get(repr(number), repr(number))
    return re.sub(r"\bn\b", f"({shown})", expression)


def function_of(expressions):
    namespace = {"torch": torch, "F": F, "math": math}
    source = "def program(x, y):\n    return [" + "".join(f"\n        {text}," for text in expressions) + "\n    ]"
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace["program"]


REFUSALS = (RuntimeError, TypeError, NotImplementedError, IndexError, OverflowError, ZeroDivisionError, ValueError)


def runs_in_eager(expression, x, y):
    try:
        function_of([expression])(x.clone(), y.clone())
    except REFUSALS:
        return False
    return True


def differences(expressions, x, y, backend="inductor"):
    """The expressions, compiled in one function, whose values are not eager's, and how they are not."""
    expected = function_of(expressions)(x.clone(), y.clone())
    compile_api.reset()
    try:
        compiled = compile_api.compile(function_of(expressions), backend=backend)
        found = compiled(x.clone(), y.clone())
    except Exception as error:  # noqa: BLE001
        if len(expressions) == 1:
            return [f"{expressions[0]} raises {type(error).__name__}: {error}"]
        half = len(expressions) // 2
        return [*differences(expressions[:half], x, y, backend), *differences(expressions[half:], x, y, backend)]
    if expressions and not compile_api.report(compiled).captured:
        return [f"no graph has any of {expressions}"]
    pairs = zip(expressions, expected, found, strict=True)
    return [
        f"{text}\n    {why}"
        for text, one, other in pairs
        if (why := difference(one, other, x, y)) and not is_as_right(text, other, x, y)
    ]


def is_as_right(text, found, x, y):
    """Whether eager gives the same where the elements stand alone or among many (its kernels of vectors give something
    else), or is as far from what is right."""
    function, size = function_of([text]), len(x)
    if not isinstance(found, torch.Tensor) or found.shape != x.shape or found.dtype.is_complex:
        return False
    alone = [function(x[i : i + 1].clone(), y[i : i + 1].clone())[0] for i in range(size)]
    if any(part.shape != (1,) for part in alone):
        return False
    whole = function(x.clone(), y.clone())[0]
    many = function(x.repeat(64), y.repeat(64))[0][:size]
    fine = same(torch.cat(alone), found) | same(whole, found) | (many.shape == found.shape and same(many, found))
    if x.dtype in HALF and found.dtype == x.dtype:
        right = function(x.double(), y.double())[0]
        ours, theirs = ((value.double() - right).abs() for value in (found, whole))
        fine |= (ours <= 2 * theirs) & (found.sign() * right.sign() >= 0)
    return bool(fine.all())


def difference(expected, found, x, y):
    ones, others = (value if isinstance(value, (list, tuple)) else [value] for value in (expected, found))
    for one, other in zip(ones, others, strict=True):
        if not isinstance(one, torch.Tensor):
            if one != other:
                return f"{other} for {one}"
        elif (one.dtype, one.shape, one.stride()) != (other.dtype, other.shape, other.stride()):
            return f"{other.dtype} {other.shape} {other.stride()} for {one.dtype} {one.shape} {one.stride()}"
        elif (wrong := ~same(one, other)).any():
            place = tuple(wrong.nonzero()[0].tolist())
            given = [t[place[-1]].item() if place and place[-1] < len(t) else "" for t in (x, y)]
            return f"{other[place].item()!r} for {one[place].item()!r} of {given} in {x.dtype}, {len(x)} elements"
    return None


def same(one, other):
    """To the bit, or by a rounding apart where the values are ordinary numbers; zeros have signs."""
    if one.dtype.is_complex:
        return same(one.real, other.real) & same(one.imag, other.imag)
    if not one.dtype.is_floating_point:
        return one == other
    wide = [value.to(torch.float64) for value in (one, other)]
    rtol = {torch.float32: 4e-6, torch.float64: 1e-13}.get(one.dtype, torch.finfo(one.dtype).eps)
    tiny = torch.finfo(one.dtype).smallest_normal
    near = (wide[0] - wide[1]).abs() <= rtol * wide[0].abs() + tiny * (one != 0)
    signs = one.signbit() == other.signbit()
    zero = (one == 0) | (other == 0)
    return (one.isnan() & other.isnan()) | torch.where(zero, signs & (near | (one == other)), (one == other) | near)


def cases(expressions, numbers):
    """(dtype, size, expressions with their numbers): all of them, or a part drawn by what they are called."""
    for dtype, size in itertools.product(DTYPES, SIZES):
        texts = [text_of(text, number) for text in expressions for number in numbers]
        kept = texts if WHOLE else [text for text in texts if _drawn(f"{text}{dtype}{size}")]
        yield dtype, size, kept


def _drawn(name, of=160):
    return zlib.crc32(f"{name}{SEED}".encode()) % of == 0


SEED = os.environ.get("VALUES_SEED", "23")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize(
    ("expressions", "numbers"), [(WITH_A_NUMBER, NUMBERS), (OF_ONE, [0]), (OF_TWO, [0])], ids=["number", "one", "two"]
)
def test_values_are_eagers(expressions, numbers, backend, capsys):
    count, wrong = 0, []
    for dtype, size, texts in cases(expressions, numbers):
        x, y = special(dtype, size), special(dtype, size, 3)
        able = [text for text in texts if runs_in_eager(text, x, y)]
        count += len(able)
        for start in range(0, len(able), 64):
            wrong += differences(able[start : start + 64], x, y, backend)
    with capsys.disabled():
        print(f" {count} values of expressions, seed {SEED}, {len(wrong)} wrong", end="")
    assert not wrong, "\n".join(wrong)
