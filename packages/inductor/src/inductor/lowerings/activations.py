"""Activations and other formulas of neural networks, forward and backward, as rows of the pointwise table.

Formulas see promoted, broadcast operands in the dtype of arithmetic (float32 for half types), so none of them says
anything of dtypes.  A condition chooses by ``where``, never by a branch: vectors compute both sides, and the side that
is not taken may overflow or be NaN without harm.  ``jumps=True`` marks formulas that are not continuous, which must
see half precision as it is stored: a value a little beside the edge would fall on its other side.
"""

from __future__ import annotations

import functools
import math

import torch

from inductor.lowerings.algebra import (
    Number,
    Value,
    absolute,
    call,
    equal,
    erf,
    exp,
    isnan,
    log,
    log1p,
    maximum,
    minimum,
    sigmoid,
    tanh,
    where,
)
from inductor.lowerings.context import Context
from inductor.lowerings.pointwise import UNKNOWN, elementwise, row
from inductor.lowerings.registry import Declined, lowering
from inductor.lowerings.values import Tensor, representable
from inductor.torch_versions import aten

INF = math.inf


@row(aten.relu.default)
def relu(x: Value) -> Value:
    # The number stands first because of two zeros ``maximum`` gives the right one: eager's relu of -0 is -0.
    return maximum(0, x)


@row(aten.relu6.default)
def relu6(x: Value) -> Value:
    return minimum(6, maximum(0, x))


@row(aten.silu.default)
def silu(x: Value) -> Value:
    return x * sigmoid(x)


@row(aten.silu_backward.default, operands=2)
def silu_backward(grad: Value, x: Value) -> Value:
    s = sigmoid(x)
    return grad * s * (x * (1.0 - s) + 1.0)


@row(aten.sigmoid_backward.default, operands=2)
def sigmoid_backward(grad: Value, y: Value) -> Value:
    # Of the result, not the operand: autograd keeps ``y``, from which the slope is cheaper.  tanh likewise.
    return grad * ((1.0 - y) * y)


@row(aten.tanh_backward.default, operands=2)
def tanh_backward(grad: Value, y: Value) -> Value:
    return grad * (1.0 - y * y)


@row(aten.threshold_backward.default, operands=2, jumps=True)
def threshold_backward(grad: Value, x: Value, threshold: Number) -> Value:
    return where(x <= threshold, 0, grad)


@row(aten.threshold.default, jumps=True)
def threshold_(x: Value, threshold: Number, value: Number) -> Value:
    return where(x <= threshold, value, x)


# gelu(x) = x * P(X <= x) of a standard normal X: by erf, whose argument is x / sqrt(2), or by the usual fit with tanh.
_SQRT_HALF = math.sqrt(0.5)
_TANH_SCALE = math.sqrt(2.0 / math.pi)
_TANH_CUBE = 0.044715


@row(aten.gelu.default)
def gelu(x: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        return x * 0.5 * (tanh((x + x * x * x * _TANH_CUBE) * _TANH_SCALE) + 1.0)
    return x * 0.5 * (erf(x * _SQRT_HALF) + 1.0)


@row(aten.gelu_backward.default, operands=2)
def gelu_backward(grad: Value, x: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        t = tanh((x + x * x * x * _TANH_CUBE) * _TANH_SCALE)
        # By the product rule: tanh' is 1 - t * t, and ``slope`` the derivative of what tanh is taken of.
        slope = (x * x * (3.0 * _TANH_CUBE) + 1.0) * _TANH_SCALE
        return grad * ((t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * slope)
    # x times the normal density: _TANH_SCALE / 2 is 1 / sqrt(2 pi).
    density = exp(x * x * -0.5) * (_TANH_SCALE * 0.5)
    return grad * ((erf(x * _SQRT_HALF) + 1.0) * 0.5 + x * density)


@row(aten.leaky_relu.default)
def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    return where(x > 0, x, x * slope)


@row(aten.leaky_relu_backward.default, operands=2)
def leaky_relu_backward(grad: Value, x: Value, slope: float, result: bool) -> Value:
    # ``result`` says that autograd kept the result in place of the operand: their signs are the same, unless the slope
    # is negative, of which eager refuses the form in place.
    return where(x > 0, grad, grad * slope)


@row(aten.elu.default)
def elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    return where(x < 0, call("expm1", x * input_scale) * (alpha * scale), x * scale)


@lowering(aten.celu.default)
def celu(ctx: Context, x: Tensor, alpha: float = 1.0) -> Tensor | Declined:
    if not isinstance(alpha, int | float) or alpha == 0:
        return Declined("a parameter that is 0, which raises, or known only when it runs")
    return elementwise((x,), lambda value: elu(value, alpha, 1.0, 1.0 / alpha))


@row(aten.softplus.default)
def softplus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    # Beyond the threshold exp would overflow; eager gives x itself there, and the comparison is of what was scaled.
    scaled = x * beta
    return where(scaled > threshold, x, log1p(exp(scaled)) / beta)


@row(aten.softplus_backward.default, operands=2)
def softplus_backward(grad: Value, x: Value, beta: float, threshold: float) -> Value:
    scaled = x * beta
    z = exp(scaled)
    return where(scaled > threshold, grad, grad * z / (z + 1.0))


@row(aten.mish.default)
def mish(x: Value) -> Value:
    # No threshold: where exp overflows log1p gives infinity, and tanh of that is 1.
    return x * tanh(log1p(exp(x)))


@row(aten.hardsigmoid.default)
def hardsigmoid(x: Value) -> Value:
    return minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


@row(aten.hardswish.default)
def hardswish(x: Value) -> Value:
    return x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0


# Torch's kernels choose by different comparisons on CPUs and on GPUs, which NaN shows: it fails all of them.


@lowering(aten.elu_backward.default)
def elu_backward(
    ctx: Context, grad: Tensor, alpha: Number, scale: Number, input_scale: Number, is_result: bool, x: Tensor
) -> Tensor | Declined:
    if not all(isinstance(given, int | float) for given in (alpha, scale, input_scale)):
        return Declined(UNKNOWN)

    def formula(grad: Value, x: Value) -> Value:
        below = x + alpha * scale if is_result else exp(x * input_scale) * (alpha * scale)
        falling, rising = grad * (below * input_scale), grad * scale
        return where(x > 0, rising, falling) if cpu else where(x <= 0, falling, rising)

    cpu = _on_cpu(x)
    return elementwise((grad, x), formula, jumps=True)


@lowering(aten.hardtanh_backward.default)
def hardtanh_backward(ctx: Context, grad: Tensor, x: Tensor, low: Number, high: Number) -> Tensor | Declined:
    if not all(isinstance(given, int | float) for given in (low, high)):
        return Declined(UNKNOWN)

    def formula(grad: Value, x: Value) -> Value:
        # Both edges belong to the flat parts, as in eager.
        return where((x > low) & (x < high), grad, 0.0) if cpu else where((x <= low) | (x >= high), 0.0, grad)

    cpu = _on_cpu(x)
    return elementwise((grad, x), formula)


_SIXTH = 0.1666666716337204  # of single precision in torch's kernels, for doubles, too


@row(aten.hardsigmoid_backward.default, operands=2)
def hardsigmoid_backward(grad: Value, x: Value) -> Value:
    return where((x > -3.0) & (x < 3.0), grad * _SIXTH, 0.0)


@lowering(aten.hardswish_backward.default)
def hardswish_backward(ctx: Context, grad: Tensor, x: Tensor) -> Tensor | Declined:
    def formula(grad: Value, x: Value) -> Value:
        slope = grad * (x / 3.0 + 0.5)
        risen = where(x >= 3.0, grad, slope) if cpu else where(x < 3.0, slope, grad)
        return where(x <= -3.0, 0.0, risen)

    cpu = _on_cpu(x)
    return elementwise((grad, x), formula)


def _on_cpu(x: Tensor) -> bool:
    return x.device.type == "cpu"


@row(aten.log_sigmoid.default)
def log_sigmoid(x: Value) -> Value:
    # exp of minus the distance from 0 is never above 1, so that neither end overflows.
    return minimum(x, 0.0) - log1p(exp(-absolute(x)))


@lowering(aten.logit.default)
def logit(ctx: Context, x: Tensor, eps: float | None = None) -> Tensor | Declined:
    if not isinstance(eps, int | float | None):
        return Declined(UNKNOWN)
    low, high = _bounds(x, eps)

    def formula(x: Value) -> Value:
        # Not by minimum and maximum, for the bounds: a NaN fails both comparisons and stays what it is.
        if eps is not None:
            x = where(x < low, low, where(x > high, high, x))
        return log(x / (1.0 - x))

    return elementwise((x,), formula, "float")


def _bounds(x: Tensor, eps: float | None) -> tuple[float, float]:
    """The ends between which logits are taken; torch's kernel for CPUs has them in the dtype of the tensor."""
    low, high = (0.0, 1.0) if eps is None else (eps, 1.0 - eps)
    return (representable(low, x.dtype), representable(high, x.dtype)) if _on_cpu(x) else (low, high)


@row(aten.xlogy.Tensor, aten.xlogy.Scalar_Other, aten.xlogy.Scalar_Self, kind="float", operands=2)
def xlogy(x: Value, y: Value) -> Value:
    # 0 * log(0) is 0 here, and so is 0 * log(y) for every other y: but NaN stays NaN.
    return where(isnan(y), math.nan, where(equal(x, 0.0), 0.0, x * log(y)))


@row(aten.logaddexp.default, operands=2)
def logaddexp(x: Value, y: Value) -> Value:
    high = maximum(x, y)
    # Their difference would be NaN.
    same_infinity = equal(x, y) & equal(absolute(x), INF)
    return where(same_infinity, x, high + log1p(exp(-absolute(x - y))))


@row(aten.heaviside.default, operands=2, jumps=True)
def heaviside(x: Value, at_zero: Value) -> Value:
    return where(equal(x, 0), at_zero, (x > 0).to(x.dtype))


@row(aten.sinc.default, kind="float")
def sinc(x: Value) -> Value:
    angle = x * math.pi
    # The division at 0 is computed as well, gives NaN, and is not taken.
    return where(equal(x, 0.0), 1.0, call("sin", angle) / angle)


@row(aten.deg2rad.default, kind="float")
def deg2rad(x: Value) -> Value:
    return x * (math.pi / 180.0)


@row(aten.rad2deg.default, kind="float")
def rad2deg(x: Value) -> Value:
    return x * (180.0 / math.pi)


@lowering(aten.hardshrink.default)
def hardshrink(ctx: Context, x: Tensor, lambd: float = 0.5) -> Tensor | Declined:
    # Eager compares in the dtype of the tensor: 0.1 is another number in bfloat16.
    edge = representable(lambd, x.dtype)
    return elementwise((x,), lambda value: where((value >= -edge) & (value <= edge), 0.0, value), jumps=True)


@lowering(aten.softshrink.default)
def softshrink(ctx: Context, x: Tensor, lambd: float = 0.5) -> Tensor | Declined:
    # Releases of torch differ in this.
    edge = representable(lambd, x.dtype) if _softshrink_rounds() else lambd

    def formula(value: Value) -> Value:
        # In the middle not 0 but a product with it: NaN fails both comparisons and stays NaN, and zeros keep their
        # sign.
        return where(value > edge, value - edge, where(value < -edge, value + edge, value * 0.0))

    return elementwise((x,), formula, jumps=True)


@functools.cache
def _softshrink_rounds() -> bool:
    """True if this release of torch rounds the parameter to half precision first."""
    eighth = torch.tensor([0.125], dtype=torch.bfloat16)
    rounded = 0.125 - torch.tensor(0.1, dtype=torch.bfloat16).item()
    return torch.nn.functional.softshrink(eighth, 0.1).item() == rounded


@row(aten.native_dropout_backward.default, kind="float", operands=2)
def native_dropout_backward(grad: Value, mask: Value, scale: float) -> Value:
    return grad * mask * scale
