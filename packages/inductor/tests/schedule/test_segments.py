"""Innermost loops in segments: conditions on the loop variable are decided, and every element is eager's."""

import itertools
import random

import pytest
import torch
import torch.nn.functional as F
from compiled import check, program_of, traced

import inductor
from inductor.deps import nodes
from inductor.ir.expr import Masked
from inductor.ir.program import Launch

KNOWN = {
    "concatenation": lambda x, y: torch.cat([x, y * 2, x], 1),
    "of which more becomes": lambda x, y: torch.cat([x.neg(), y], 1).abs() + 1,
    "half of it turned": lambda x, y: torch.cat([-x[:, 16:], x[:, :16]], -1) * y,
    "padding": lambda x, y: F.pad(x, (3, 2), value=-1.5) + 1,
    "a reflection": lambda x, y: F.pad(x, (5, 4), mode="reflect"),
    "a repeated edge": lambda x, y: F.pad(x, (5, 4), mode="replicate"),
    "a part replaced": lambda x, y: torch.slice_scatter(x, y[:, 4:9], 1, 4, 9),
    "from a column on": lambda x, y: torch.where(torch.arange(32) >= 7, x, y),
    "one column": lambda x, y: torch.select_scatter(x, y[:, 0], 1, 13),
}


def launched(function, *inputs):
    return [step.kernel for step in program_of(function, *inputs).steps if isinstance(step, Launch)]


@pytest.mark.parametrize("name", KNOWN)
def test_conditions_are_decided(name):
    x, y = torch.randn(6, 32), torch.randn(6, 32)
    (kernel,) = launched(KNOWN[name], x, y)
    assert len(kernel.axes) == 1
    assert 2 <= len(kernel.loops) <= 5
    assert not [node for node in nodes(kernel.loops) if isinstance(node, Masked)]
    check(KNOWN[name], x, y)
    (found,) = inductor.compile(traced(KNOWN[name], x, y), [x, y])(x, y)
    torch.testing.assert_close(found, KNOWN[name](x, y))


UNCUT = {
    "too many parts": lambda x: torch.cat([x[:, k : k + 2] for k in range(0, 32, 2)], 1),
    "too short": lambda x: F.pad(x[:, :3], (1, 1)),
    "rows": lambda x: torch.cat([x, x * 2]),
    "every second one": lambda x: torch.where(torch.arange(32) % 2 == 0, x, -x),
}


@pytest.mark.parametrize("name", UNCUT)
def test_one_loop_where_segments_bring_nothing(name):
    x = torch.randn(6, 32)
    assert all(not loop.axes for kernel in launched(UNCUT[name], x) for loop in kernel.loops)
    check(UNCUT[name], x)


def drawn(draw):
    """A text over ``x``, of two or three dimensions: parts put together, padded, replaced and chosen, over and over."""
    text = "x"
    compared = ["<", "<=", ">", ">=", "==", "!="]
    for _ in range(draw.randint(1, 4)):
        a, b, dim = draw.randint(0, 9), draw.randint(1, 9), draw.choice([-1, -1, -1, 0, -2])
        text = draw.choice([
            f"torch.cat([{text}, x.abs()], {dim})" if text == "x" else f"torch.cat([{text}] * 2, {dim})",
            f"F.pad({text}, ({a}, {b}))",
            f"F.pad({text}, ({min(a, 3)}, {min(b, 3)}), mode='reflect')",
            f"F.pad({text}, ({a}, {b}), mode='replicate')",
            f"{text}.roll({a}, {dim})",
            f"{text}.flip({dim})",
            f"{text}.narrow({dim}, 1, 3)" if dim != -1 else f"{text}[..., {a}:]",
            f"torch.where(torch.arange({text}.shape[-1]) {draw.choice(compared)} {a}, {text}, 1)",
            f"({text} * 2)",
        ])  # fmt: skip
    return text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_drawn_programs(dtype):
    draw = random.Random()
    for number in itertools.count():
        text = drawn(draw)
        shape = draw.choice([(5, 20), (4, 5, 16), (3, 4, 33)])
        x = (torch.randn(shape) * 3).to(dtype)
        function = eval(f"lambda x: {text}", {"torch": torch, "F": F})
        try:
            expected = function(x)
        except (RuntimeError, IndexError, NotImplementedError):  # eager has no such operator of this dtype or shape
            continue
        (found,) = inductor.compile(traced(function, x), [x])(x)
        torch.testing.assert_close(found, expected, rtol=0, atol=0, msg=f"{text} of {shape}")
        if number >= 12:
            return


LEFT_OUT = {
    "where": lambda x, t, i, before: torch.where(before, t[i], x),
    "where, what is read beside it": lambda x, t, i, before: torch.where(before, t.expand(4, 9).gather(1, i) + 1, x),
    "and": lambda x, t, i, before: (t[i] > 0) & before,
    "or": lambda x, t, i, before: (t[i] > 0) | ~before,
    "filled": lambda x, t, i, before: t[i].masked_fill(~before, 0.0),
    "a part replaced": lambda x, t, i, before: torch.slice_scatter(t[i], x[:, :11], 1, 29, 40),
    "a column replaced": lambda x, t, i, before: torch.select_scatter(t[i], x[:, 0], 1, 31),
    "in a concatenation": lambda x, t, i, before: torch.where(
        torch.arange(80) < 29, torch.cat([t[i], x], 1), torch.cat([x, t[i] * 2], 1)
    ),
    "in a larger one": lambda x, t, i, before: F.pad(torch.where(before, t[i], x), (9, 9)),
    "one in another": lambda x, t, i, before: torch.where(before, x, torch.where(before, t[i] * 3, x)),
}


@pytest.mark.parametrize("column", [0, 28, 29, 31, 39])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_condition_leaves_out_is_checked(name, column):
    def function(x, t, i):
        return LEFT_OUT[name](x, t, i, torch.arange(40) < 29)

    inputs = torch.randn(4, 40), torch.randn(9), torch.randint(9, (4, 40))
    inputs[2][2, column] = 9
    with pytest.raises((IndexError, RuntimeError), match="index 9 is out of bounds"):
        function(*inputs)
    compiled = inductor.compile(traced(function, *inputs), [*inputs])
    with pytest.raises(IndexError):
        compiled(*inputs)
    inputs[2][2, column] = 8
    (found,) = compiled(*inputs)
    torch.testing.assert_close(found, function(*inputs), rtol=0, atol=0)
