"""What the loops of CPU kernels ask for ahead of time, and that asking changes nothing."""

import pytest
import torch

import inductor
from inductor.codegen.cpp import print_kernel
from inductor.ir.parse import parse_kernel
from inductor.schedule.layouts import with_layout

LONG = """\
def kernel(x: read[float32, 80000], b: read[float32, 100], a: write[float32, 80000]) -> cpu:
    for i0 in 800:
        for i1 in 100:
            a[100 * i0 + i1] = exp(x[100 * i0 + i1]) + b[i1]
"""
SOFTMAX = """\
def kernel(x: read[float32, 80000], a: write[float32, 80000]) -> cpu:
    for i0 in 80:
        for r0 in reduce(1000):
            v0 = sum(exp(x[1000 * i0 + r0]), float32)
        for r0 in reduce(1000):
            a[1000 * i0 + r0] = exp(x[1000 * i0 + r0]) / v0
"""


def asked(text):
    """What is asked for, in the order of the text."""
    lines = map(str.strip, print_kernel(with_layout(parse_kernel(text), 64)).text.splitlines())
    return [line for line in lines if line.startswith("will_")]


BOTH = ["will_read<16>(x + 100 * i0 + i1);", "will_write<16>(a + 100 * i0 + i1);"]
BOTH_OF_ROWS = ["will_read<16>(x + 1000 * i0 + r0);", "will_write<16>(a + 1000 * i0 + r0);"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(LONG, BOTH, id="rows that follow one another"),
        pytest.param(LONG.replace("100 * i0", "200 * i0").replace("80000", "160000"), [], id="short rows apart"),
        pytest.param(LONG.replace("800 ", "8 ").replace("800:", "8:").replace("80000", "800"), [], id="small"),
        pytest.param(LONG.replace("x[100 * i0 + i1]", "x[i0 + 800 * i1]"), [], id="turned"),
        pytest.param(LONG.replace("x[", "a["), BOTH[1:], id="in place"),
        pytest.param(SOFTMAX, BOTH_OF_ROWS, id="read once"),
    ],
)
def test_streams_are_asked_for_once(text, expected):
    assert asked(text) == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("n", [262144, 262147])
def test_asking_beyond_the_end_changes_nothing(dtype, n):
    gm = torch.fx.symbolic_trace(lambda x: (x + x, (x * x).sum()))
    x = torch.randint(0, 2, (n,)).to(dtype)
    found, expected = inductor.compile(gm, [x])(x), gm(x)
    assert torch.equal(found[0], expected[0])
    torch.testing.assert_close(found[1], expected[1])
