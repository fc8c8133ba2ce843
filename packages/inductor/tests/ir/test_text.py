"""Kernels as text and back, and the rules they obey."""

import pytest
import torch
from compiled import program_of
from hypothesis import given
from hypothesis import strategies as st

from inductor.errors import InvalidIR, ParseError
from inductor.ir.expr import Apply, Const, IndexValue, Load, apply, cast
from inductor.ir.index import Index, loop_variable
from inductor.ir.kernel import Argument, Kernel, Loop, Store
from inductor.ir.parse import parse_kernel
from inductor.ir.program import Launch
from inductor.ir.show import kernel_text
from inductor.ir.verify import verify_kernel

SOFTMAX = """\
def softmax_0(in0: read[float32, 8192], out0: write[float32, 8192]) -> cpu:
    for i0 in 128:
        for r0 in reduce(64):
            v0 = max(in0[64 * i0 + r0], float32)
        for r0 in reduce(64):
            v1 = sum(exp(in0[64 * i0 + r0] - v0), float32)
        v2 = 1.0 / v1
        for r0 in reduce(64):
            out0[64 * i0 + r0] = exp(in0[64 * i0 + r0] - v0) * v2
"""
MOMENTS = """\
def moments(in0: read[bfloat16, 4 * s0], out0: write[bfloat16, 4], s0: size[2]) -> cuda:
    for i0 in 4:
        for r0, r1 in reduce(2, s0):
            v0 = welford(cast(in0[2 * i0 * s0 + r0 * s0 + r1], float32), float32)
        out0[i0] = v0.m2 / v0.weight - v0.mean
"""
GATHER = """\
def gather(in0: read[int64, 5], in1: read[float32, 70], out0: update[float32, 50]) -> cpu:
    for i0 in 5:
        for i1 in 10:
            v0 = in1[p0 + 7 * i1, p0(7, wrapped(in0[i0], 7))]
            if v0 > (-1.0): out0[10 * i0 + i1] += v0
            out0[i1, p0(5, in0[i0] % 5)] = masked((index(i0) < 3) & invert(isnan(v0)), v0 * float32(2), 0.0)
"""


COMBINED = """\
def scatter(in0: read[int64, 5], in1: read[float32, 5], out0: update[float32, 5]) -> cpu:
    for i0 in 5:
        out0[p0, p0(5, in0[i0])] = maximum(_, in1[i0])
        out0[p0, p0(5, in0[i0])] = minimum(_, in1[i0])
        out0[p0, p0(5, in0[i0])] *= in1[i0]
        out0[p0, p0(5, in0[i0])] += in1[i0]
"""
TOGETHER = """\
def both(in0_0: read[float32, 5], out0_0: write[float32, 5], out0_1: write[int64, 3], in1_0: number[float64]) -> cuda:
    def scaled(in0: read[float32, 5], out0: write[float32, 5], in1: number[float64]) -> cuda:
        for i0 in 5:
            out0[i0] = in0[i0] * cast(in1[0], float32)
    def arange(out0: write[int64, 3]) -> cuda:
        for i0 in 3:
            out0[i0] = index(i0)
"""
RUNNING = """\
def cumsum_0(in0: read[float32, 35], out0: write[float32, 35]) -> cpu:
    for i0 in 5:
        for r0 in reduce(7):
            v0 = scan_sum(cast(in0[7 * i0 + r0], float64), float64)
            out0[7 * i0 + r0] = cast(v0, float32)
"""


@pytest.mark.parametrize("text", [SOFTMAX, MOMENTS, COMBINED, RUNNING, TOGETHER])
def test_text_survives_reading(text):
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    assert kernel_text(kernel) == text


def test_what_a_reader_sees_is_what_was_meant():
    kernel = parse_kernel(SOFTMAX)
    assert [len(loop.axes) for loop in kernel.loops] == [1, 1, 0, 1]
    assert kernel.loops[0].body[0].value == Load("in0", kernel.loops[3].body[0].index, torch.float32)


def test_places_read_from_tensors_are_read_back():
    text = kernel_text(parse_kernel(GATHER.replace("float32(2)", "2.0")))
    assert kernel_text(parse_kernel(text)) == text
    assert "7 * i1 + p0, p0(7, wrapped(in0[i0], 7))" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- v0", "- v9"),  # never defined
        ("64 * i0 + r0] = exp", "64 * i0 + r9] = exp"),  # no such axis
        ("in0[64 * i0 + r0] - v0", "inx[64 * i0 + r0] - v0"),
        ("exp(", "expo("),
        ("float32)\n        for", "float33)\n        for"),
    ],
)
def test_nonsense_is_refused(old, new):
    with pytest.raises((ParseError, KeyError)):
        parse_kernel(SOFTMAX.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("out0: write", "out0: read", "not given to be written"),
        ("in0: read[float32", "in0: read[float64", "differ in dtype"),
        ("out0[64 * i0 + r0] = exp(in0", "out0[64 * i0 + r0] = exp(out0", "read before it is written"),
        ("v2 = 1.0 / v1", "v2 = 1.0\n        v2 = 1.0 / v1", "defined twice"),
        ("v1 = sum(", "v1 = welford(", "no part"),
    ],
)
def test_broken_rules_are_named(old, new, message):
    with pytest.raises(InvalidIR, match=message):
        verify_kernel(parse_kernel(SOFTMAX.replace(old, new)))


def test_a_value_named_in_a_pass_ends_with_it():
    text = SOFTMAX.replace("v0 = max(", "v7 = in0[r0]\n            v0 = max(").replace("v2 = 1.0", "v2 = v7")
    with pytest.raises(InvalidIR, match="outside its loop"):
        verify_kernel(parse_kernel(text))


# -- any tree ---------------------------------------------------------------------------------------------------------

AXIS = loop_variable("i0", 8)
LEAVES = st.sampled_from(
    [
        Load("in0", Index.of(AXIS), torch.float32),
        Const(2.5, torch.float32),
        Const(-3.0, torch.float32),
        cast(IndexValue(Index.of(AXIS) + 1, torch.int64), torch.float32),
    ]
)
NUMBERS = ("add", "sub", "mul", "div", "maximum", "mod", "pow")


def larger(trees):
    two = st.builds(lambda op, a, b: apply(op, a, b), st.sampled_from(NUMBERS), trees, trees)
    one = st.builds(lambda op, a: apply(op, a), st.sampled_from(["neg", "exp", "abs"]), trees)
    test = st.builds(lambda op, a, b: apply(op, a, b), st.sampled_from(["lt", "eq", "ge"]), trees, trees)
    both = st.builds(lambda op, a, b: apply(op, a, b), st.sampled_from(["and", "or", "xor"]), test, test)
    choice = st.builds(lambda c, a, b: apply("where", c, a, b), both, trees, trees)
    half = st.builds(lambda a: Apply("rounded", (a,), torch.float32, torch.bfloat16), trees)
    return one | two | choice | half


@given(st.recursive(LEAVES, larger, max_leaves=12))
def test_every_tree_survives_reading(tree):
    arguments = (Argument("in0", torch.float32, Index.of(8), "in"), Argument("out0", torch.float32, Index.of(8), "out"))
    kernel = Kernel("any", "cpu", (AXIS,), (Loop((), (Store("out0", Index.of(AXIS), tree),)),), arguments)
    verify_kernel(kernel)
    assert parse_kernel(kernel_text(kernel)) == kernel


def test_scheduled_kernels_survive_reading():
    def function(x, k):
        y = torch.nn.functional.layer_norm(x, (6,)) + x[k]
        return torch.cat([y, y.tril()], 1), y.sum(0), y.argmax(1)

    for step in program_of(function, torch.randn(6, 6), torch.randint(0, 6, (6,))).steps:
        if isinstance(step, Launch):
            assert parse_kernel(kernel_text(step.kernel)) == step.kernel
