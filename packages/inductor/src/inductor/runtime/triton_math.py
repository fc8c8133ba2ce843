"""Functions that generated Triton kernels call.  Imported by them alone, so Triton is loaded only where it is used.

Triton reads annotations as its own, so there are none.
"""

# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: ANN001, ANN201, ANN202

import triton
import triton.language as tl
from triton.language.extra import libdevice

# -- positions --------------------------------------------------------------------------------------------------------


@triton.jit
def in_groups(program, rows, columns, height):
    """The row and column of the block that a program makes, of ``rows`` by ``columns``, counted down ``height`` rows
    before the next column."""
    # Of 4 rows by 3 columns at height 2, programs 0 to 5 make (0,0) (1,0) (0,1) (1,1) (0,2) (1,2), and 6 to 11 the next
    # two rows: programs that run at one time share rows of one factor and columns of the other in the cache.
    first = program // (height * columns) * height
    place = program % (height * columns)
    height = tl.minimum(rows - first, height)
    return first + place % height, place // height


# -- arithmetic -------------------------------------------------------------------------------------------------------


INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
"""Triton's interpreter knows no machine instructions."""


@triton.jit
def _exp2(x):
    """One instruction, good to 2 units of the last place; results below 2 ** -126 are 0."""
    if INTERPRETED:
        return tl.exp2(x)
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def _reciprocal(x):
    """One instruction, good to 1 unit of the last place; results below 2 ** -126 are 0."""
    if INTERPRETED:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def maximum(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def fmaximum(a, b):
    # NaN in ``b`` gives ``a``; NaN in ``a`` fails the comparison and gives ``b``.
    return tl.where((a > b) | (b != b), a, b)


@triton.jit
def fminimum(a, b):
    return tl.where((a < b) | (b != b), a, b)


@triton.jit
def sign(x):
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def is_nan(x):
    return x != x


@triton.jit
def is_inf(x):
    return tl.abs(x) == float("inf")


@triton.jit
def modulo(a, b):
    """Python's remainder; Triton's has the sign of ``a``."""
    rest = a % b
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def floor_divide(a, b):
    """Python's quotient; Triton's is rounded towards zero."""
    quotient = a // b
    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)


@triton.jit
def modulo_floats(a, b):
    rest = libdevice.fmod(a, b)
    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


@triton.jit
def floor_divide_floats(a, b):
    rest = libdevice.fmod(a, b)
    # As CPython divides floats: a multiple of b first, so that the quotient is whole but for rounding.
    quotient = (a - rest) / b
    quotient = tl.where((rest != 0) & ((rest < 0) != (b < 0)), quotient - 1, quotient)
    whole = tl.floor(quotient)
    # The division may have rounded below the whole number.
    whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
    return tl.where(b == 0, a / b, whole)


@triton.jit
def shift_left(a, b):
    width: tl.constexpr = a.dtype.primitive_bitwidth
    # Shifts by the width or more are undefined on the device; torch says 0 (and the sign, to the right).
    fits = (b >= 0) & (b < width)
    return tl.where(fits, a << tl.where(fits, b, 0), 0)


@triton.jit
def shift_right(a, b):
    width: tl.constexpr = a.dtype.primitive_bitwidth
    fits = (b >= 0) & (b < width)
    return a >> tl.where(fits, b, width - 1)


@triton.jit
def integer_power(a, b):
    """The power of integers, by squaring; a negative exponent leaves only 1 and -1 standing."""
    # A block of ones like ``a``; 64 rounds see every bit of an exponent.
    power = a * 0 + 1
    base, rest = a, tl.where(b < 0, 0, b)
    for _ in range(64):
        power = tl.where((rest & 1) != 0, power * base, power)
        base, rest = base * base, rest >> 1
    odd = (b & 1) != 0
    standing = tl.where(a == 1, 1, tl.where(a == -1, tl.where(odd, -1, 1), 0)).to(a.dtype)
    return tl.where(b < 0, standing, power)


@triton.jit
def check_index(index, size, inside):
    """Stops the kernel where a position lies outside, as eager's kernels do; no memory outside is touched meanwhile."""
    tl.device_assert((index >= 0) & (index < size) | (inside == 0), "index out of range")
    return tl.where(index < 0, 0, tl.where(index >= size, size - 1, index))


@triton.jit
def wrap_index(index, size, inside):
    return check_index(tl.where(index < 0, index + size, index), size, inside)


@triton.jit
def sigmoid_of_single(x):
    """Good to 4 units of the last place where eager's is larger than 2 ** -126."""
    return _reciprocal(1.0 + _exp2(-1.4426950408889634 * x))


@triton.jit
def tanh_of_single(x):
    """Good to 4 units of the last place: a polynomial below 0.55, beyond it 1 - 2 / (exp(2 |x|) + 1)."""
    size, square = tl.abs(x), x * x
    series = tl.fma(square, -0.006274194456636906, 0.021071648225188255)
    series = tl.fma(series, square, -0.05385230481624603)
    series = tl.fma(series, square, 0.13332585990428925)
    series = tl.fma(series, square, -0.33333316445350647)
    large = tl.fma(_reciprocal(_exp2(2.8853900817779268 * size) + 1.0), -2.0, 1.0)
    return tl.where(size < 0.55, tl.fma(series * square, x, x), tl.where(x < 0, -large, large))


@triton.jit
def erf_and_one(x):
    """1 + erf(x), in 17 instructions where both apart take 35; off by at most 2 ** -21, and right to three digits where
    the sum of both has none left.

    1 - erf(t) is 2 ** (-t q(t)) with a polynomial q of degree 7, which goes on growing where it was not fitted.
    """
    size = tl.abs(x)
    power = tl.fma(size, 3.0155239073792472e-05, -0.00033294709282927215)
    power = tl.fma(power, size, 0.0011636113049462438)
    power = tl.fma(power, size, 0.001245397375896573)
    power = tl.fma(power, size, -0.028612729161977768)
    power = tl.fma(power, size, 0.14862187206745148)
    power = tl.fma(power, size, 0.9183915853500366)
    power = tl.fma(power, size, 1.6279100179672241)
    # That is 1 - erf(|x|): to one side it is the result, to the other what is missing from 2.
    rest = _exp2(-size * power)
    return tl.where(x > 0, 2.0 - rest, rest)


@triton.jit
def digamma(x):
    """Reflection below 0, recurrence up to 10, then the asymptotic series; in double precision."""
    pi: tl.constexpr = 3.14159265358979323846
    given = x.to(tl.float64)
    below = given < 0
    y = tl.where(below, 1 - given, given)
    total = y * 0
    for _ in range(10):
        # Blocks have no early end: ten turns, of which each lane takes those that it needs.
        small = y < 10
        total = tl.where(small, total - 1 / y, total)
        y = tl.where(small, y + 1, y)
    z = 1 / (y * y)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    total = total + tl.log(y) - 0.5 / y - series
    part = given - libdevice.trunc(given)
    reflected = tl.where(part == 0, float("nan"), total - pi / libdevice.tan(pi * part))
    return tl.where(below, reflected, total).to(x.dtype)


# -- random numbers: as in random.h -----------------------------------------------------------------------------------


@triton.jit
def _block(seed, offset):
    low = (offset & 0xFFFFFFFF).to(tl.uint32)
    high = (offset >> 32).to(tl.uint32)
    zero = low * 0
    return tl.philox(seed, low, high, zero, zero)


@triton.jit
def _unit(word):
    # 24 bits, as many as float32 holds exactly, times 2 ** -24: below 1 for certain.
    return (word.to(tl.uint32, bitcast=True) >> 8).to(tl.float32) * 5.9604644775390625e-08


@triton.jit
def random_uniform(seed, offset):
    first, _, _, _ = _block(seed, offset)
    return _unit(first)


@triton.jit
def random_normal(seed, offset):
    first, second, _, _ = _block(seed, offset)
    # Box and Muller; 1 - u is never 0.
    radius = tl.sqrt(-2.0 * tl.log(1.0 - _unit(first)))
    return radius * tl.cos(6.283185307179586 * _unit(second))


@triton.jit
def random_integer(seed, offset, low, high):
    first, second, _, _ = _block(seed, offset)
    bits = (first.to(tl.uint64) << 32) | second.to(tl.uint64)
    # 64 bits over a range that is much smaller: the remainder is even enough.
    return low + (bits % (high - low).to(tl.uint64)).to(tl.int64)


# -- reductions -------------------------------------------------------------------------------------------------------


@triton.jit
def _product(a, b):
    return a * b


@triton.jit
def _either(a, b):
    return a | b


@triton.jit
def _both(a, b):
    return a & b


@triton.jit
def _differ(a, b):
    return a ^ b


@triton.jit
def sum_along(x):
    """Over the last dimension, which stays, as in all of these."""
    return tl.sum(x, len(x.shape) - 1, keep_dims=True)


@triton.jit
def product_along(x):
    return tl.reduce(x, len(x.shape) - 1, _product, keep_dims=True)


@triton.jit
def max_along(x):
    return tl.reduce(x, len(x.shape) - 1, maximum, keep_dims=True)


@triton.jit
def min_along(x):
    return tl.reduce(x, len(x.shape) - 1, minimum, keep_dims=True)


@triton.jit
def running_sum(x):
    return tl.cumsum(x, len(x.shape) - 1)


@triton.jit
def running_prod(x):
    return tl.cumprod(x, len(x.shape) - 1)


@triton.jit
def running_max(x):
    return tl.associative_scan(x, len(x.shape) - 1, maximum)


@triton.jit
def running_min(x):
    return tl.associative_scan(x, len(x.shape) - 1, minimum)


@triton.jit
def any_along(x):
    return tl.reduce(x.to(tl.int32), len(x.shape) - 1, _either, keep_dims=True) != 0


@triton.jit
def all_along(x):
    return tl.reduce(x.to(tl.int32), len(x.shape) - 1, _both, keep_dims=True) != 0


@triton.jit
def xor_along(x):
    return tl.reduce(x, len(x.shape) - 1, _differ, keep_dims=True)


@triton.jit
def beats_max(value, at, best, best_at):
    """True if a value takes the place of the best so far: larger, NaN, or equal and earlier."""
    nan, had_nan = value != value, best != best
    # Two NaN count as equal: of these, too, the first wins.
    same = (value == best) | (nan & had_nan)
    return (value > best) | (nan & (best == best)) | (same & (at < best_at))


@triton.jit
def beats_min(value, at, best, best_at):
    nan, had_nan = value != value, best != best
    same = (value == best) | (nan & had_nan)
    return (value < best) | (nan & (best == best)) | (same & (at < best_at))


@triton.jit
def _later_max(a, a_at, b, b_at):
    wins = beats_max(b, b_at, a, a_at)
    return tl.where(wins, b, a), tl.where(wins, b_at, a_at)


@triton.jit
def _later_min(a, a_at, b, b_at):
    wins = beats_min(b, b_at, a, a_at)
    return tl.where(wins, b, a), tl.where(wins, b_at, a_at)


@triton.jit
def argmax_along(value, at):
    _, position = tl.reduce((value, at), len(value.shape) - 1, _later_max, keep_dims=True)
    return position


@triton.jit
def argmin_along(value, at):
    _, position = tl.reduce((value, at), len(value.shape) - 1, _later_min, keep_dims=True)
    return position


@triton.jit
def _merged(mean, m2, weight, other_mean, other_m2, other_weight):
    total = weight + other_weight
    # Two parts without elements: no division by 0.
    share = tl.where(total == 0, 0.0, other_weight / total)
    apart = other_mean - mean
    return mean + apart * share, m2 + other_m2 + apart * apart * weight * share, total


@triton.jit
def welford_along(mean, m2, weight):
    return tl.reduce((mean, m2, weight), len(mean.shape) - 1, _merged, keep_dims=True)


@triton.jit
def deviations_along(x, inside, count):
    """Mean, sum of squared deviations and count of rows that are here as a whole."""
    mean = sum_along(x)
    weight = tl.full(mean.shape, count, x.dtype)
    mean = mean / weight
    # Outside the block holds 0 and not the mean, and would count.
    apart = tl.where(inside, x - mean, 0)
    return mean, sum_along(apart * apart), weight
