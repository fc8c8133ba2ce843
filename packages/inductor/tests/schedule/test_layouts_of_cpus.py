"""How a kernel is laid out on a CPU: from its text to the loop that runs along the lanes, and who shares the work."""

import pytest
import torch
from compiled import gpu_program_of, program_of

from inductor.ir.parse import parse_kernel
from inductor.ir.show import layouts_text
from inductor.schedule import cpu
from inductor.schedule.layouts import lay_out

ELEMENTWISE = """\
def kernel(x: read[float32, 8000], a: write[float32, 8000]) -> cpu:
    for i0 in 8000:
        a[i0] = exp(x[i0])
"""
DOUBLE = ELEMENTWISE.replace("float32", "float64")
ROWS = """\
def kernel(x: read[float32, 8000], a: write[float32, 80]) -> cpu:
    for i0 in 80:
        for r0 in reduce(100):
            v0 = sum(x[100 * i0 + r0], float32)
        a[i0] = v0
"""
COLUMNS = ROWS.replace("100 * i0 + r0", "i0 + 80 * r0")
SHORT = ROWS.replace("reduce(100)", "reduce(5)").replace("100 * i0", "5 * i0")
TURNED = """\
def kernel(x: read[float32, 8000], a: write[float32, 8000]) -> cpu:
    for i0 in 80:
        for i1 in 100:
            a[100 * i0 + i1] = x[i0 + 80 * i1] + 1.0
"""
SMALL = TURNED.replace("80", "8")
RUNNING = """\
def kernel(x: read[float32, 8000], a: write[float32, 8000]) -> cpu:
    for i0 in 80:
        for r0 in reduce(100):
            v0 = scan_sum(x[100 * i0 + r0], float32)
            a[100 * i0 + r0] = v0
"""
GATHERED = """\
def kernel(k: read[int64, 4000], x: read[float32, 6400], a: write[float32, 2560]) -> cpu:
    for i0 in 40:
        for i1 in 64:
            for r0 in reduce(100):
                v0 = sum(x[i1 + 64 * p0, p0(100, within(k[100 * i0 + r0], 100))], float32)
            a[64 * i0 + i1] = v0
"""
SCATTERED = """\
def kernel(k: read[int64, 8000], x: read[float32, 8000], a: update[float32, 9]) -> cpu:
    for i0 in 8000:
        a[p0, p0(9, wrapped(k[i0], 9))] += x[i0]
"""


@pytest.mark.parametrize(
    ("text", "vector_bytes", "vector", "width", "tiled", "parallel"),
    [
        pytest.param(ELEMENTWISE, 64, "columns", 16, False, True, id="elementwise"),
        pytest.param(ELEMENTWISE, 32, "columns", 8, False, True, id="smaller registers"),
        pytest.param(ELEMENTWISE, 4, "nothing", 1, False, True, id="no registers"),
        pytest.param(DOUBLE, 64, "columns", 8, False, True, id="double precision"),
        pytest.param(ROWS, 64, "rows", 16, False, True, id="rows"),
        pytest.param(SHORT, 64, "rows", 4, False, True, id="short rows"),
        pytest.param(COLUMNS, 64, "columns", 16, False, True, id="columns"),
        pytest.param(GATHERED, 64, "columns", 16, False, True, id="rows of a table, gathered"),
        pytest.param(TURNED, 64, "columns", 16, True, True, id="turned"),
        pytest.param(SMALL, 64, "columns", 16, False, True, id="turned and small"),
        pytest.param(RUNNING, 64, "nothing", 1, False, True, id="running"),
        pytest.param(SCATTERED, 64, "columns", 8, False, False, id="scattered"),
    ],
)
def test_layout(text, vector_bytes, vector, width, tiled, parallel):
    found = cpu.lay_out(parse_kernel(text), vector_bytes)
    assert (found.vector, found.width, found.band is not None, found.atomic) == (vector, width, tiled, parallel)


LARGE, WHOLE = (
    ELEMENTWISE.replace("8000", "800000"),
    """\
def kernel(x: read[float32, N], a: write[float32, 1]) -> cpu:
    for r0 in reduce(N):
        v0 = sum(x[r0], float32)
    a[0] = v0
""",
)
TALL = TURNED.replace("80", "8000").replace("100", "1000")


@pytest.mark.parametrize(
    ("text", "shared", "pieces", "side_by_side", "starts_threads"),
    [
        pytest.param(ELEMENTWISE, None, None, 1, False, id="too little to share"),
        pytest.param(LARGE, "lanes", None, 1, False, id="one axis"),
        pytest.param(TALL, "outer", None, 1, False, id="rows"),
        pytest.param(WHOLE.replace("N", "8000"), None, None, 4, False, id="a sum"),
        pytest.param(WHOLE.replace("N", "40000"), None, 64, 4, False, id="a long sum, in pieces"),
        pytest.param(WHOLE.replace("N", "4000000"), None, 64, 4, True, id="a sum whose pieces are shared"),
    ],
)
def test_what_threads_share(text, shared, pieces, side_by_side, starts_threads):
    found = cpu.lay_out(parse_kernel(text), 64)
    assert (found.shared, found.loops[0].pieces, found.loops[0].side_by_side) == (shared, pieces, side_by_side)
    assert (found.team, found.threaded) == (shared is not None, starts_threads)


def test_layouts_as_text():
    def function(x, w):
        return torch.softmax(x * w, -1).relu(), x.sum(0)

    on_cpu = program_of(function, torch.randn(64, 33), torch.randn(33))
    assert (
        layouts_text(lay_out(on_cpu, 64))
        == """\
mul_softmax_relu_0: rows by vectors of 16, work=6600, elementary=2
    loop 0: in_lanes
    loop 1: in_lanes
    loop 2: in_lanes
sum_1: columns by vectors of 16, work=136
run one thread: mul_softmax_relu_0 | sum_1
"""
    )
    assert (
        layouts_text(lay_out(gpu_program_of(function, (64, 33), (33,)), 64))
        == """\
mul_softmax_relu_0: x over i0 by 16, r=64, warps=2, keeps_rows
sum_1: x over i0 by 32, r=64, warps=4, keeps_rows
"""
    )
