"""Random graphs of pointwise operators, reductions and views: whatever is fused, eager's values come out."""

import torch
from compiled import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SIZES = st.sampled_from([(4, 6), (3, 1, 5), (6,), (2, 3, 4), (1, 1), (0, 3), (), (8, 2)])


def same(x, y):
    """``y`` brought to something that broadcasts with ``x``."""
    return y.sum() if y.numel() else x


def flat_pair(x):
    return x.reshape(-1, 2) if x.numel() % 2 == 0 and x.numel() else x.reshape(-1)


STEPS = {
    "add": lambda x, y: x + same(x, y),
    "mul": lambda x, y: x * 0.5,
    "tanh": lambda x, y: x.tanh(),
    "relu": lambda x, y: x.relu(),
    "where": lambda x, y: torch.where(x > 0, x, same(x, y)),
    "square": lambda x, y: x * x,
    "sum": lambda x, y: x.sum(-1) if x.ndim else x,
    "mean keep": lambda x, y: x.sum(0, keepdim=True) / 3 if x.ndim else x,
    "amax": lambda x, y: x.amax(-1, keepdim=True) if x.ndim and x.shape[-1] else x,
    "softmax": lambda x, y: x.softmax(-1) if x.ndim else x,
    "centre": lambda x, y: x - x.mean(-1, keepdim=True) if x.ndim and x.numel() else x,
    "transpose": lambda x, y: x.transpose(0, -1) if x.ndim else x,
    "reshape": lambda x, y: x.reshape(-1),
    "pairs": lambda x, y: flat_pair(x),
    "unsqueeze": lambda x, y: x.unsqueeze(0) if x.ndim < 4 else x,
    "slice": lambda x, y: x[..., 1:] if x.ndim else x,
    "step": lambda x, y: x[::2] if x.ndim else x,
    "flip": lambda x, y: x.flip(-1) if x.ndim else x,
    "cat": lambda x, y: torch.cat([x, x * 2], -1) if x.ndim and x.numel() < 200 else x,
    "expand": lambda x, y: x.unsqueeze(0).expand(3, *x.shape) if x.ndim < 4 and x.numel() < 200 else x,
    "pick": lambda x, y: x.index_select(0, torch.zeros(2, dtype=torch.int64)) if x.ndim and x.shape[0] else x,
    "cumsum": lambda x, y: x.cumsum(0) if x.ndim else x,
    "bf16": lambda x, y: x.bfloat16().float(),
}


@st.composite
def graphs(draw):
    """A list of (operator, operand, operand, is an output)."""
    count = draw(st.integers(1, 9))
    operand = lambda number: draw(st.integers(0, number + 1))
    return [(draw(st.sampled_from(sorted(STEPS))), operand(k), operand(k), draw(st.booleans())) for k in range(count)]


def function_of(graph):
    def function(a, b):
        values, outputs = [a, b], []
        for name, left, right, wanted in graph:
            values.append(STEPS[name](values[left], values[right]))
            outputs += [values[-1]] if wanted else []
        return [*outputs, values[-1] + 1]

    return function


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), SIZES, SIZES, st.booleans())
def test_random_graphs(graph, first, second, turned):
    torch.manual_seed(0)
    a, b = torch.rand(first), torch.rand(second)
    a = a.transpose(0, -1).contiguous().transpose(0, -1) if turned and a.ndim else a
    check(function_of(graph), a, b, exact_strides=False, atol=1e-4, rtol=1e-4)
