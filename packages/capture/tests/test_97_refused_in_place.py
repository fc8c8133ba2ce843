"""Operators in place whose operands do not fit: kernels refuse them, and what the program did before that has happened.

Fakes take most of them.  Without a change ahead of the operator the frame would just start over; with one it cannot.
"""

import itertools

import pytest
import torch

import capture

TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
NUMBERS = (1.5, 1j, True)
UNARY = (
    "abs_", "acos_", "ceil_", "digamma_", "erf_", "erfinv_", "exp_", "expm1_", "floor_", "frac_", "i0_", "lgamma_",
    "log_", "logit_", "neg_", "reciprocal_", "relu_", "round_", "rsqrt_", "sigmoid_", "sign_", "sin_", "sqrt_",
    "square_", "tanh_", "trunc_",
)  # fmt: skip
BINARY = (
    "add_", "atan2_", "bitwise_and_", "bitwise_left_shift_", "clamp_", "clamp_min_", "copysign_", "div_", "fill_",
    "float_power_", "floor_divide_", "fmod_", "gcd_", "ge_", "hypot_", "igamma_", "lcm_", "ldexp_", "lt_", "mul_",
    "nextafter_", "pow_", "remainder_", "sub_", "xlogy_",
)  # fmt: skip
TERNARY = ("addcdiv_", "addcmul_", "lerp_")
LISTS = [f"_foreach_{name}_" for name in ("add", "sub", "mul", "div", "pow", "clamp_max", "maximum", "sqrt", "trunc")]


def operations(name):
    """The operator's calls in each mixture of types, with their operands."""
    call = getattr(torch, name) if name in LISTS else getattr(torch.Tensor, name)
    for kind, other in itertools.product(TYPES, TYPES if name not in UNARY else TYPES[:1]):
        operands = [torch.ones(3).to(kind), torch.ones(3).to(other)]
        if name in LISTS:
            yield lambda x, y: call([x], [y]), operands
            yield lambda x, y: call([x]), operands
        elif name in UNARY:
            yield lambda x, y: call(x), operands
        elif name in BINARY:
            yield lambda x, y: call(x, y), operands
        else:
            yield lambda x, y: call(x, y, y), operands
    for kind, number in itertools.product(TYPES, NUMBERS):
        operands = [torch.ones(3).to(kind), number]
        if name in LISTS:
            yield lambda x, y: call([x], y), operands
        elif name in BINARY:
            yield lambda x, y: call(x, y), operands


def seen_after(function, operands):
    """The error, and what was changed by the time it came."""
    counted, seen = torch.zeros(2), []
    operands = [operand.clone() if isinstance(operand, torch.Tensor) else operand for operand in operands]
    try:
        function(counted, seen, *operands)
    except RuntimeError as error:
        return str(error).partition("\n")[0], counted.tolist(), seen, str(operands)
    except TypeError:  # the operator takes another number of operands
        return None
    return None


@pytest.mark.parametrize("name", [*UNARY, *BINARY, *TERNARY, *LISTS])
def test_what_came_before_has_happened_once(name):
    refused = 0
    for call, operands in operations(name):

        def function(counted, seen, x, y, call=call):
            counted.add_(1)
            seen.append(1)
            call(x, y)
            return counted * 2

        expected = seen_after(function, operands)
        if expected is not None:
            refused += 1
            assert seen_after(capture.optimize()(function), operands) == expected
    assert refused


@pytest.mark.without_graphs("eager refuses it")
def test_one_tensor_is_not_put_together_in_its_own_place():
    def function(x, seen):
        seen.append(1)
        torch.cat([x], out=x)

    for compiled in (function, capture.optimize()(function)):
        seen = []
        with pytest.raises(RuntimeError, match="single memory location"):
            compiled(torch.ones(0, 3), seen)
        assert seen == [1]
