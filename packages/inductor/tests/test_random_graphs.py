"""Random graphs of pointwise operators, reductions, views and indexing, over inputs of every layout: whatever is fused,
eager's values come out.  INDUCTOR_RANDOM_GRAPHS says how many are tried."""

import os

import torch
import torch.nn.functional as F
from compiled import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import inductor

EXAMPLES = int(os.environ.get("INDUCTOR_RANDOM_GRAPHS", "80"))
SIZES = st.sampled_from(
    [(4, 6), (3, 1, 5), (6,), (2, 3, 4), (1, 1), (0, 3), (), (8, 2), (7, 13), (17,), (5, 0, 2), (1, 9, 1), (3, 5, 7)]
)
SMALL = 300
"""Steps that make a tensor larger leave one of so many elements as it is."""


def same(x, y):
    """``y`` brought to something that broadcasts with ``x``."""
    return y.sum() if y.numel() else x


def flat_pair(x):
    return x.reshape(-1, 2) if x.numel() % 2 == 0 and x.numel() else x.reshape(-1)


def places(x, dim, count):
    """Positions along a dimension, some of them twice."""
    return (torch.arange(count) * 5 + 1) % x.shape[dim]


def along_rows(x):
    """A place in the last dimension for every row and two columns."""
    where = (torch.arange(x[..., 0].numel() * 2) * 7).reshape(*x.shape[:-1], 2)
    return where % x.shape[-1]


def indexed(function):
    """The step where the first and last dimension have something to point at."""
    return lambda x, y: function(x, y) if x.ndim and x.numel() else x


def enlarging(function):
    return lambda x, y: function(x, y) if x.ndim and x.numel() < SMALL else x


POINTWISE = {
    "add": lambda x, y: x + same(x, y),
    "mul": lambda x, y: x * 0.5,
    "tanh": lambda x, y: x.tanh(),
    "relu": lambda x, y: x.relu(),
    "where": lambda x, y: torch.where(x > 0, x, same(x, y)),
    "square": lambda x, y: x * x,
    "bf16": lambda x, y: x.bfloat16().float(),
    "double": lambda x, y: (x.double() * 3).float(),
    "integers": lambda x, y: (x * 4).int().long().remainder(3).float(),
    "fill": lambda x, y: x.masked_fill(x < 0.3, 0.25),
    "clamp": lambda x, y: x.clamp(-0.5, 0.7),
}
REDUCTIONS = {
    "sum": lambda x, y: x.sum(-1) if x.ndim else x,
    "mean keep": lambda x, y: x.sum(0, keepdim=True) / 3 if x.ndim else x,
    "amax": lambda x, y: x.amax(-1, keepdim=True) if x.ndim and x.shape[-1] else x,
    "argmax": lambda x, y: x.argmax(0).float() if x.ndim and x.shape[0] else x,
    "softmax": lambda x, y: x.softmax(-1) if x.ndim else x,
    "centre": lambda x, y: x - x.mean(-1, keepdim=True) if x.ndim and x.numel() else x,
    "variance": lambda x, y: x.var(-1, correction=0) if x.ndim and x.numel() else x,
    "norm": lambda x, y: F.layer_norm(x, x.shape[-1:]) if x.ndim and x.numel() else x,
    "any": lambda x, y: (x > 0.5).any(-1).float() if x.ndim else x,
    "cumsum": lambda x, y: x.cumsum(0) if x.ndim else x,
    "pool": indexed(lambda x, y: F.max_pool1d(x.reshape(1, -1, x.shape[-1]), 2, 1, 1) if x.shape[-1] > 1 else x),
}
VIEWS = {
    "transpose": lambda x, y: x.transpose(0, -1) if x.ndim else x,
    "reshape": lambda x, y: x.reshape(-1),
    "pairs": lambda x, y: flat_pair(x),
    "unsqueeze": lambda x, y: x.unsqueeze(0) if x.ndim < 4 else x,
    "slice": lambda x, y: x[..., 1:] if x.ndim else x,
    "step": lambda x, y: x[::2] if x.ndim else x,
    "flip": lambda x, y: x.flip(-1) if x.ndim else x,
    "roll": lambda x, y: x.roll(1, -1) if x.ndim else x,
    "triangle": lambda x, y: x.tril() if x.ndim >= 2 else x,
    "diagonal": lambda x, y: x.diagonal() if x.ndim == 2 else x,
    "windows": lambda x, y: x.unfold(-1, 2, 1) if x.ndim and x.ndim < 4 and x.shape[-1] >= 2 else x,
    "cat": enlarging(lambda x, y: torch.cat([x, x * 2], -1)),
    "stack": enlarging(lambda x, y: torch.stack([x, x + 1, x * 2], -1) if x.ndim < 4 else x),
    "expand": lambda x, y: x.unsqueeze(0).expand(3, *x.shape) if x.ndim < 4 and x.numel() < SMALL else x,
    "repeat": enlarging(lambda x, y: x.repeat(*[1] * (x.ndim - 1), 2)),
    "pad": enlarging(lambda x, y: F.pad(x, (1, 2), value=0.5)),
}
INDEXING = {
    "pick": indexed(lambda x, y: x.index_select(0, places(x, 0, 2))),
    "rows": indexed(lambda x, y: x[places(x, 0, 3)]),
    "columns": indexed(lambda x, y: x[..., -1 - places(x, -1, 3)]),
    "gather": indexed(lambda x, y: x.gather(-1, along_rows(x))),
    "scatter": indexed(lambda x, y: x.scatter(-1, along_rows(x), 0.5)),
    "scatter add": indexed(lambda x, y: x.scatter_add(-1, along_rows(x), along_rows(x).float())),
    "largest": indexed(lambda x, y: x.scatter_reduce(-1, along_rows(x), along_rows(x).float() / 9, "amax")),
    "put": indexed(lambda x, y: x.index_put((places(x, 0, 3),), y.sum().to(x.dtype))),
    "put more": indexed(lambda x, y: x.index_put((places(x, 0, 3),), y.sum().to(x.dtype), accumulate=True)),
    "index add": indexed(lambda x, y: x.index_add(0, places(x, 0, 2), x[places(x, 0, 2)])),
    "chosen by values": indexed(lambda x, y: x[x.reshape(-1).argsort()[:2] % x.shape[0]]),
}
STEPS = {**POINTWISE, **REDUCTIONS, **VIEWS, **INDEXING}

LAYOUTS = {
    "contiguous": lambda shape: torch.rand(shape),
    "turned": lambda shape: torch.rand(tuple(reversed(shape))).permute(list(reversed(range(len(shape))))),
    "every other": lambda shape: torch.rand((*shape, 2))[..., 1],
    "offset": lambda shape: torch.rand((3, *shape))[1],
    "repeated": lambda shape: torch.rand(shape[1:]).expand(shape) if shape else torch.rand(shape),
    "overlapping": lambda shape: torch.rand(sum(shape) + 1).as_strided(shape, (1,) * len(shape)),
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


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), SIZES, SIZES, st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)))
def test_random_graphs(graph, first, second, first_layout, second_layout):
    torch.manual_seed(0)
    a, b = LAYOUTS[first_layout](first), LAYOUTS[second_layout](second)
    check(function_of(graph), a, b, exact_strides=False, atol=1e-4, rtol=1e-4)


@settings(max_examples=max(EXAMPLES // 8, 10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), SIZES, SIZES, st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS)))
def test_random_graphs_as_built_kernels(graph, first, second, first_layout, second_layout):
    torch.manual_seed(0)
    a, b = LAYOUTS[first_layout](first), LAYOUTS[second_layout](second)
    function = function_of(graph)
    expected = function(a, b)
    options = {"fallback": False, "cpp_flags": ("-O1",)}
    found = inductor.compile(make_fx(function)(a, b), [a, b], options=options)(a, b)
    torch.testing.assert_close(list(found), expected, atol=1e-4, rtol=1e-4, equal_nan=True)
