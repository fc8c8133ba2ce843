"""Random graphs over inputs of every dtype and odd sizes: integers and truths come out exactly, floats to rounding.

What eager refuses of a graph is left out of it.  INDUCTOR_RANDOM_GRAPHS says how many are tried."""

import os

import torch
import torch.nn.functional as F
from compiled import copied
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_random_graphs import LAYOUTS, STEPS, indexed
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

EXAMPLES = int(os.environ.get("INDUCTOR_RANDOM_GRAPHS", "30"))
LARGEST = 60_000
SIZES = st.sampled_from([
    (4, 6), (3, 1, 5), (), (1,), (0, 3), (5, 0, 2), (7, 13), (33, 129), (257,), (3, 1000), (65, 64), (2, 3, 4, 5),
    (128, 17), (1000, 3), (2, 70, 9), (4099,), (5, 1, 130), (1, 9, 1),
])  # fmt: skip
DTYPES = st.sampled_from([
    torch.float32, torch.float32, torch.float64, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool,
])  # fmt: skip


def of_rows(function):
    return lambda x, y: function(x) if x.ndim and x.numel() else x


MORE_STEPS = {
    "negative": lambda x, y: -x,
    "eight bits": lambda x, y: (x * 7).to(torch.int8),
    "thirty-two bits": lambda x, y: (x * 7).to(torch.int32),
    "whole": lambda x, y: (x * 7).long(),
    "truth": lambda x, y: x > 0.3,
    "both": lambda x, y: x & (y.sum() > 3),
    "other bits": lambda x, y: x ^ 5,
    "shifted": lambda x, y: (x.byte() if x.dtype == torch.bool else x) << 2,
    "quotient": lambda x, y: x // 3,
    "remainder": lambda x, y: x.fmod(2),
    "whole quotient": lambda x, y: torch.div(x + 1, y * y + 0.5, rounding_mode="trunc"),
    "one over": lambda x, y: 1 / (x + 0.75) * 3,
    "one over the root": lambda x, y: (x * x + 0.5).rsqrt() + 1,
    "sign": lambda x, y: (x - 0.25).sign() * 2,
    "sign bit": lambda x, y: (x - 0.25).signbit() & (y < 1),
    "sign of the other": lambda x, y: torch.copysign(x + 1, y),
    "angle": lambda x, y: torch.atan2(x - 1, y + 2),
    "power": lambda x, y: (x.abs() + 0.1) ** 1.5,
    "less or more": lambda x, y: (x < y) | (x > y + 1),
    "unless": lambda x, y: torch.where((x > 0) ^ (y > 0), x - y, y - x),
    "broadcast": lambda x, y: x + y,
    "exponential": lambda x, y: x.clamp(max=3).exp(),
    "gelu": lambda x, y: F.gelu(x),
    "total": lambda x, y: x.sum(),
    "corners": lambda x, y: x.sum((0, -1), keepdim=True),
    "product": of_rows(lambda x: x.clamp(-1, 1).prod(-1)),
    "least": of_rows(lambda x: x.amin(0)),
    "every": of_rows(lambda x: x.all(0)),
    "logsumexp": of_rows(lambda x: x.logsumexp(-1)),
    "running sum": of_rows(lambda x: x.cumsum(-1)),
    "running maximum": of_rows(lambda x: x.cummax(-1)[0]),
    "count": of_rows(lambda x: (x > 0.2).sum(-1)),
    "length": lambda x, y: torch.linalg.vector_norm(x, dim=-1) if x.ndim and x.shape[-1] > 1 else x,  # 2.11 errs there
    "backwards": lambda x, y: x.permute(*range(x.ndim - 1, -1, -1)),
    "copied over": of_rows(lambda x: x.transpose(0, -1).contiguous()),
    "every third": of_rows(lambda x: x[..., 1::3]),
    "half": of_rows(lambda x: x.chunk(2, 0)[-1]),
    "reflected": indexed(lambda x, y: F.pad(x.reshape(1, -1, x.shape[-1]), (1, 1), mode="reflect")),
    "positions": of_rows(lambda x: x + torch.arange(x.shape[-1])),
    "twice": of_rows(lambda x: x.repeat_interleave(2, -1)),
    "like the other": lambda x, y: x.reshape(y.shape),
    "with the other": lambda x, y: torch.cat([x, y], 0),
}
ONE_DTYPE = ("scatter add", "largest")
"""Steps that take single precision alone; what is right is computed in double precision."""
ALL_STEPS = {name: step for name, step in {**STEPS, **MORE_STEPS}.items() if name not in ONE_DTYPE}


def made(sizes, layout, dtype):
    """An input: as it lies in memory for floats, then of the dtype with the same strides."""
    x = LAYOUTS[layout](sizes)
    flat = torch.as_strided(x, (x.untyped_storage().nbytes() // 4,), (1,), 0)
    flat = flat > 0.5 if dtype == torch.bool else flat if dtype.is_floating_point else flat * 20
    return torch.as_strided(flat.to(dtype), x.shape, x.stride(), x.storage_offset())


def settled(steps, inputs):
    """The steps that eager does on these inputs, as numbers of operands that there are."""
    values, kept = list(inputs), []
    for name, left, right, wanted in steps:
        left, right = left % len(values), right % len(values)
        try:
            value = ALL_STEPS[name](values[left], values[right])
        except (RuntimeError, IndexError, TypeError, ValueError):
            continue
        if value.numel() <= LARGEST and value.ndim <= 5 and value.dtype not in (torch.bfloat16, torch.float16):
            values.append(value)
            kept.append((name, left, right, wanted))
    return kept


def function_of(steps):
    def function(*inputs):
        values, outputs = list(inputs), []
        for name, left, right, wanted in steps:
            values.append(ALL_STEPS[name](values[left], values[right]))
            outputs += [values[-1]] if wanted else []
        return [*outputs, values[-1]]

    return function


def agree(found, expected, exact):
    """As near to what is right as eager is, where a tolerance says nothing: sums of large numbers, differences."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if not expected.dtype.is_floating_point:
        assert torch.equal(found, expected)
        return
    try:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError:
        worst = (expected.double() - exact).abs().nan_to_num().max()
        if not ((found.double() - exact).abs().nan_to_num() <= 4 * worst + 1e-5 * exact.abs().nan_to_num().max()).all():
            raise


STEP = st.tuples(st.sampled_from(sorted(ALL_STEPS)), st.integers(0, 20), st.integers(0, 20), st.booleans())
INPUT = st.tuples(SIZES, st.sampled_from(sorted(LAYOUTS)), DTYPES)


GRAPHS = st.lists(STEP, min_size=2, max_size=14), st.lists(INPUT, min_size=1, max_size=3)


def compiled_agrees(steps, wanted, build):
    """``build`` makes a callable of a function and its inputs."""
    torch.manual_seed(0)
    inputs = [made(*each) for each in wanted]
    function = function_of(settled(steps, inputs))
    expected = function(*map(copied, inputs))
    exact = function(*[x.double() if x.is_floating_point() else copied(x) for x in inputs])
    compiled = build(function, [copied(x) for x in inputs])
    for result, value, right in zip(compiled(*map(copied, inputs)), expected, exact, strict=True):
        agree(result, value, right.double() if right.is_floating_point() else right)


@example(steps=[("add", 0, 0, False), ("both", 0, 0, False)], wanted=[((4, 6), "contiguous", torch.int8)])
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(*GRAPHS)
def test_random_graphs_of_any_dtype(steps, wanted):
    options = {"fallback": False, "cpp_flags": ("-O1",)}
    compiled_agrees(
        steps, wanted, lambda function, given: inductor.compile(make_fx(function)(*given), given, options=options)
    )
