"""Every pass between a nest and its kernel, alone: text in, text out."""

from dataclasses import replace

import pytest
import torch
from compiled import program_of

from inductor.deps import loads_of
from inductor.ir.graph import Nest
from inductor.ir.index import Index
from inductor.ir.parse import parse_kernel
from inductor.ir.program import Buffer
from inductor.ir.show import kernel_text, program_text
from inductor.schedule.kernels import inlined, make_kernel, pruned, split, with_own_names
from inductor.schedule.merge import merge
from inductor.schedule.sharing import hoisted, shared, steady

CPU = torch.device("cpu")


def body(kernel):
    """The text without its first line."""
    return "".join(line + "\n" for line in kernel_text(kernel).splitlines()[1:])


def changed(text, pass_):
    """The body of a kernel after a pass over its loops."""
    kernel = parse_kernel(text)
    return body(replace(kernel, loops=tuple(pass_(kernel.loops))))


def nest_of(text):
    kernel = parse_kernel(text)
    inner = next((loop.axes for loop in kernel.loops if loop.axes), ())
    return Nest(kernel.name, CPU, (*kernel.axes, *inner), frozenset(inner), kernel.loops)


def kernel_of(nest):
    """A nest as a kernel, to be shown."""
    return replace(parse_kernel(POINTWISE), axes=nest.kept, loops=nest.loops)


POINTWISE = """\
def kernel(x: read[float32, 32], a: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            a0 = exp(x[8 * i0 + i1])
            a[8 * i0 + i1] = a0
"""


def test_what_nobody_reads_is_pruned():
    text = """\
def kernel(x: read[float32, 8], a: write[float32, 8], b: write[float32, 8]) -> cpu:
    for i0 in 8:
        a0 = exp(x[i0])
        a1 = a0 + 1.0
        a[i0] = a0
        b[i0] = a1
"""
    assert changed(text, lambda loops: pruned(loops, {"a"})) == """\
    for i0 in 8:
        a0 = exp(x[i0])
        a[i0] = a0
"""  # fmt: skip


def test_values_used_once_are_inlined():
    text = """\
def kernel(x: read[float32, 8], a: write[float32, 8]) -> cpu:
    for i0 in 8:
        once = exp(x[i0])
        twice = once + 1.0
        a[i0] = twice * twice
"""
    assert changed(text, inlined) == """\
    for i0 in 8:
        twice = exp(x[i0]) + 1.0
        a[i0] = twice * twice
"""  # fmt: skip


def test_repeated_subtrees_are_named():
    text = """\
def kernel(x: read[float32, 8], a: write[float32, 8], b: write[float32, 8]) -> cpu:
    for i0 in 8:
        a[i0] = sin(exp(x[i0])) + 1.0
        b[i0] = sin(exp(x[i0])) * 2.0
"""
    assert changed(text, shared) == """\
    for i0 in 8:
        s0_0 = sin(exp(x[i0]))
        a[i0] = s0_0 + 1.0
        b[i0] = s0_0 * 2.0
"""  # fmt: skip


def test_what_a_row_does_not_change_goes_before_it():
    text = """\
def kernel(x: read[float32, 32], a: write[float32, 32]) -> cpu:
    for i0 in 4:
        for r0 in reduce(8):
            v0 = max(x[8 * i0 + r0], float32)
        for r0 in reduce(8):
            a[8 * i0 + r0] = x[8 * i0 + r0] - log(v0)
"""
    assert changed(text, hoisted) == """\
    for i0 in 4:
        for r0 in reduce(8):
            v0 = max(x[8 * i0 + r0], float32)
        h0 = log(v0)
        for r0 in reduce(8):
            a[8 * i0 + r0] = x[8 * i0 + r0] - h0
"""  # fmt: skip


def test_a_running_sum_stays_in_its_loop():
    text = """\
def kernel(x: read[float32, 32], a: write[float32, 32]) -> cpu:
    for i0 in 4:
        for r0 in reduce(8):
            v0 = scan_sum(x[8 * i0 + r0], float32)
            a[8 * i0 + r0] = log(v0) + exp(x[i0])
"""
    assert changed(text, hoisted) == """\
    for i0 in 4:
        h0 = exp(x[i0])
        for r0 in reduce(8):
            v0 = scan_sum(x[8 * i0 + r0], float32)
            a[8 * i0 + r0] = log(v0) + h0
"""  # fmt: skip


def test_what_no_iteration_changes_goes_before_all():
    kernel = parse_kernel("""\
def kernel(s: read[float32, 1], x: read[float32, 8], a: write[float32, 8]) -> cpu:
    for i0 in 8:
        a[i0] = x[i0] * exp(s[0])
""")
    once, loops = steady(kernel.loops, kernel.axes)
    assert body(replace(kernel, once=once, loops=loops)) == """\
    u0 = exp(s[0])
    for i0 in 8:
        a[i0] = x[i0] * u0
"""  # fmt: skip


def test_an_axis_that_indices_take_apart_is_cut():
    nest = nest_of("""\
def kernel(x: read[float32, 12], a: write[float32, 12]) -> cpu:
    for i0 in 12:
        a[i0] = x[i0 // 4 + 3 * (i0 % 4)]
""")
    assert body(kernel_of(split(nest))) == """\
    for i0_1 in 3:
        for i0_0 in 4:
            a[i0_0 + 4 * i0_1] = x[3 * i0_0 + i0_1]
"""  # fmt: skip


def buffers(**sizes):
    return {name: Buffer(name, torch.float32, CPU, (Index.of(size),), (Index.of(1),)) for name, size in sizes.items()}


def test_the_loop_order_follows_the_strides():
    nest = nest_of("""\
def kernel(x: read[float32, 32], a: write[float32, 32]) -> cpu:
    for i0 in 8:
        for i1 in 4:
            a[i0 + 8 * i1] = x[i0 + 8 * i1] + 1.0
""")
    made = make_kernel(nest, "kernel", buffers(x=32, a=32), {"a"})
    assert body(made) == """\
    for i0 in 32:
        a[i0] = x[i0] + 1.0
"""  # fmt: skip


def test_names_follow_places():
    assert kernel_text(with_own_names(parse_kernel(POINTWISE))) == """\
def kernel(in0: read[float32, 32], out0: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            v0 = exp(in0[8 * i0 + i1])
            out0[8 * i0 + i1] = v0
"""  # fmt: skip


# -- merging ----------------------------------------------------------------------------------------------------------

ROWS = """\
def kernel(a: read[float32, 32], m: write[float32, 4]) -> cpu:
    for i0 in 4:
        for i1 in reduce(8):
            t0 = max(a[8 * i0 + i1], float32)
        m0 = t0 + 0.5
        m[i0] = m0
"""
OVER = """\
def kernel(m: read[float32, 4], x: read[float32, 32], c: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            c0 = x[8 * i0 + i1] - m[i0]
            c[8 * i0 + i1] = c0
"""
TURNED = """\
def kernel(a: read[float32, 32], c: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            c0 = a[i0 + 4 * i1]
            c[8 * i0 + i1] = c0
"""
FLAT = """\
def kernel(a: read[float32, 32], c: write[float32, 32]) -> cpu:
    for i0 in 32:
        c0 = a[i0] * 2.0
        c[i0] = c0
"""


def merged(first, second):
    found = merge(nest_of(first), nest_of(second))
    return None if found is None else body(kernel_of(found))


def test_a_value_of_the_first_is_read_by_name_in_the_second():
    assert merged(POINTWISE, FLAT) == """\
    for i0 in 4:
        for i1 in 8:
            a0 = exp(x[8 * i0 + i1])
            a[8 * i0 + i1] = a0
            c0 = a0 * 2.0
            c[8 * i0 + i1] = c0
"""  # fmt: skip


def test_elementwise_work_goes_into_the_rows_of_a_reduction():
    assert merged(POINTWISE, ROWS) == """\
    for i0 in 4:
        for i1 in reduce(8):
            a0 = exp(x[8 * i0 + i1])
            a[8 * i0 + i1] = a0
            t0 = max(a0, float32)
        m0 = t0 + 0.5
        m[i0] = m0
"""  # fmt: skip


def test_what_reads_a_reduction_is_a_pass_of_its_own():
    assert merged(ROWS, OVER) == """\
    for i0 in 4:
        for i1 in reduce(8):
            t0 = max(a[8 * i0 + i1], float32)
        m0 = t0 + 0.5
        m[i0] = m0
        for i1 in reduce(8):
            c0 = x[8 * i0 + i1] - m0
            c[8 * i0 + i1] = c0
"""  # fmt: skip


SUMS = """\
def kernel(x: read[float32, 32], a: write[float32, 32], m: write[float32, 4]) -> cpu:
    for i0 in 4:
        for i1 in reduce(8):
            t0 = scan_sum(x[8 * i0 + i1], float32)
            a0 = t0 + 1.0
            a[8 * i0 + i1] = a0
            m0 = max(a0, float32)
        m[i0] = m0
"""
AFTER = """\
def kernel(a: read[float32, 32], m: read[float32, 4], c: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            c0 = a[8 * i0 + i1] - m[i0]
            c[8 * i0 + i1] = c0
"""


def test_what_runs_along_a_pass_is_read_from_memory_in_the_next():
    assert merged(SUMS, AFTER) == """\
    for i0 in 4:
        for i1 in reduce(8):
            t0 = scan_sum(x[8 * i0 + i1], float32)
            a0 = t0 + 1.0
            a[8 * i0 + i1] = a0
            m0 = max(a0, float32)
        m[i0] = m0
        for i1 in reduce(8):
            c0 = a[8 * i0 + i1] - m0
            c[8 * i0 + i1] = c0
"""  # fmt: skip


@pytest.mark.parametrize("second", [TURNED, POINTWISE])
def test_what_reads_other_places_or_writes_the_same_does_not_fit(second):
    assert merged(POINTWISE, second) is None


# -- memory -----------------------------------------------------------------------------------------------------------


def test_a_dead_buffer_is_written_over():
    program = program_of(lambda x, w: (x @ w).relu() @ w, torch.randn(8, 8), torch.randn(8, 8))
    assert program_text(program).split("\n\n")[0] == """\
program graph(x_1: float32[8, 8] by [8, 1] on cpu, w_1: float32[8, 8] by [8, 1] on cpu)
    b0: float32[8, 8] by [8, 1] on cpu = call aten.mm.default(x_1, w_1)
    free x_1
    allocate b1: float32[8, 8] by [8, 1] on cpu in b0
    free b0
    launch relu_1(b1)
    b2: float32[8, 8] by [8, 1] on cpu = call aten.mm.default(b1, w_1)
    free b1
    free w_1
    return [b2]"""  # fmt: skip


def test_loads_are_found_in_bindings_too():
    kernel = parse_kernel("""\
def kernel(k: read[int64, 8], x: read[float32, 9], a: write[float32, 8]) -> cpu:
    for i0 in 8:
        a[i0] = x[p0, p0(9, wrapped(k[i0], 9))]
""")
    assert [load.buffer for load in loads_of(kernel.loops)] == ["k", "x"]
