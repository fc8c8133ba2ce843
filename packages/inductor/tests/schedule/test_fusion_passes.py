"""The passes from a lowered graph to kernels in a row, alone: text in, text out."""

import math
import re
from dataclasses import replace

import pytest
import torch
from written import graph_of

from inductor.ir.graph import Nest
from inductor.ir.index import Index, loop_variable
from inductor.ir.parse import parse_kernel
from inductor.ir.program import Run
from inductor.ir.show import program_text
from inductor.lower import lower
from inductor.schedule import schedule
from inductor.schedule.align import overlay, permutation
from inductor.schedule.fusion import fuse
from inductor.schedule.layouts import lay_out
from inductor.schedule.merge import merge
from inductor.schedule.profit import is_small_enough, keeps_parallel, shares_reads

# -- laying iteration spaces over one another -------------------------------------------------------------------------


def space(text):
    """``i 4, j 8``: the axes of an iteration space."""
    return [loop_variable(name, int(size)) for name, size in re.findall(r"(\w+) (\d+)", text)]


def laid(left, right):
    """The common axes, and what axes of both sides have become."""
    found = overlay(space(left), space(right))
    if found is None:
        return None
    moves = {**found.left, **found.right}
    axes = ", ".join(f"{axis} {axis.size}" for axis in found.domain)
    return "; ".join([axes, *(f"{axis} = {index}" for axis, index in moves.items())])


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("i 4, j 8", "i 4, j 8", "i 4, j 8"),
        ("i 128, j 64", "k 8192", "i 128, j 64; k = 64 * i + j"),
        ("i 128, j 64", "a 4, b 32, c 64", "a_2 4, b_1 32, j 64; i = 32 * a_2 + b_1; c = j; b = b_1; a = a_2"),
        ("i 6, j 4", "a 3, b 8", "a_2 3, i_1 2, j 4; i = 2 * a_2 + i_1; b = 4 * i_1 + j; a = a_2"),
        ("i 4, j 8", "a 8, b 4", "i 4, j_1 2, b_0 4; j = b_0 + 4 * j_1; b = b_0; a = 2 * i + j_1"),
        ("i 4, j 6", "a 6, b 4", None),
        ("i 4, j 0", "a 0", None),
        ("i 4", "a 5", None),
    ],
)
def test_overlay(left, right, common):
    assert laid(left, right) == common


def test_axes_in_another_order_are_matched_by_their_strides():
    (i, j), (a, b) = axes = space("i 4, j 8"), space("a 8, b 4")
    found = permutation(8 * Index.of(i) + Index.of(j), Index.of(a) + 8 * Index.of(b), *axes)
    assert {str(axis): str(index) for axis, index in found.right.items()} == {"a": "j", "b": "i"}
    assert permutation(8 * Index.of(i) + Index.of(j), 4 * Index.of(a) + Index.of(b), *axes) is None


# -- which nests share a kernel ---------------------------------------------------------------------------------------


def fused(text):
    """Per kernel or call, what came together."""
    gm, inputs = graph_of(text)
    lines = [
        ", ".join(operation.origins) if isinstance(operation, Nest) else f"call {operation.target}"
        for operation in fuse(lower(gm, inputs))
    ]
    return "\n".join(lines) + "\n"


def test_rows_with_what_is_before_and_behind_them():
    assert fused("""
def graph(x: f32[64, 33], w: f32[33]):
    before = aten.exp.default(x)
    total = aten.sum.dim_IntList(before, [1], True)
    most = aten.amax.default(before, [1], True)
    scaled = aten.div.Tensor(before, total)
    behind = aten.mul.Tensor(scaled, w)
    return behind, most
""") == """\
before, total, most, scaled, behind
"""  # fmt: skip


def test_a_call_stands_between():
    assert fused("""
def graph(x: f32[64, 64], w: f32[64, 64]):
    before = aten.exp.default(x)
    product = aten.mm.default(before, w)
    sibling = aten.sin.default(before)
    behind = aten.add.Tensor(product, sibling)
    other = aten.neg.default(product)
    return behind, other
""") == """\
before
call aten.mm.default
sibling, behind, other
"""  # fmt: skip


def test_strangers_and_reductions_along_other_axes_stay_apart():
    assert fused("""
def graph(x: f32[64, 33], y: f32[7]):
    rows = aten.sum.dim_IntList(x, [1])
    columns = aten.sum.dim_IntList(x, [0])
    stranger = aten.neg.default(y)
    return rows, columns, stranger
""") == """\
rows
columns
stranger
"""  # fmt: skip


# -- whether sharing pays ---------------------------------------------------------------------------------------------


def nest_of(text):
    kernel = parse_kernel(text)
    inner = next((loop.axes for loop in kernel.loops if loop.axes), ())
    return Nest(kernel.name, torch.device("cpu"), (*kernel.axes, *inner), frozenset(inner), kernel.loops)


def sums_of(rows, columns):
    return nest_of(f"""\
def kernel(x: read[float32, {rows * columns}], a: write[float32, {rows}]) -> cpu:
    for i0 in {rows}:
        for i1 in reduce({columns}):
            t0 = sum(x[{columns} * i0 + i1], float32)
        a[i0] = t0
""")


def elementwise(*sizes, buffer="x"):
    axes = "".join(f"{'    ' * (k + 1)}for i{k} in {size}:\n" for k, size in enumerate(sizes))
    numel = math.prod(sizes)
    place = " + ".join(f"{math.prod(sizes[k + 1 :])} * i{k}" for k in range(len(sizes)))
    line = f"{'    ' * (len(sizes) + 1)}b[{place}] = exp({buffer}[{place}])\n"
    header = f"def kernel({buffer}: read[float32, {numel}], b: write[float32, {numel}]) -> cpu:\n"
    return nest_of(header + axes + line)


@pytest.mark.parametrize(("rows", "columns", "pays"), [(4, 65536, False), (4, 1024, True), (64, 65536, True)])
def test_elementwise_work_does_not_join_a_few_long_rows(rows, columns, pays):
    assert keeps_parallel(sums_of(rows, columns), elementwise(rows, columns)) == pays
    assert keeps_parallel(elementwise(rows, columns), sums_of(rows, columns)) == pays


def test_siblings_join_only_if_an_element_is_read_once_for_both():
    first, second, stranger = elementwise(4, 8), sums_of(4, 8), elementwise(4, 8, buffer="y")
    assert shares_reads(first, second, merge(first, second))
    assert not shares_reads(stranger, second, merge(stranger, second))


def test_a_kernel_does_not_grow_for_ever():
    nest = elementwise(4, 8)
    (loop,) = nest.loops
    many = [replace(loop.body[0], buffer=f"b{number}") for number in range(40)]
    assert is_small_enough(nest)
    assert not is_small_enough(replace(nest, loops=(replace(loop, body=tuple(many)),)))
    assert not is_small_enough(replace(nest, loops=(replace(loop, body=loop.body * 200),)))


# -- memory -----------------------------------------------------------------------------------------------------------


def steps(text):
    gm, inputs = graph_of(text)
    return program_text(schedule(lower(gm, inputs))).split("\n\n")[0] + "\n"


def test_memory_of_the_dead_is_taken_by_what_has_their_size():
    assert steps("""
def graph(x: f32[8, 8]):
    a = aten.cos.default(x)
    b = aten.sort.default(a)
    c = aten.exp.default(b[0])
    d = aten.sort.default(c)
    e = aten.sin.default(d[0])
    return e
""") == """\
program graph(x: float32[8, 8] by [8, 1] on cpu)
    allocate b0: float32[8, 8] by [8, 1] on cpu
    launch a_0(x, b0)
    free x
    b1: float32[8, 8] by [8, 1] on cpu, b2: int64[8, 8] by [8, 1] on cpu = call aten.sort.default(b0)  # no lowering
    free b2
    allocate b3: float32[8, 8] by [8, 1] on cpu in b0
    free b0
    launch c_2(b1, b3)
    free b1
    b4: float32[8, 8] by [8, 1] on cpu, b5: int64[8, 8] by [8, 1] on cpu = call aten.sort.default(b3)  # no lowering
    free b5
    allocate b6: float32[8, 8] by [8, 1] on cpu in b3
    free b3
    launch e_4(b4, b6)
    free b4
    return [b6]
"""  # fmt: skip


def test_a_view_that_is_an_output_keeps_its_base():
    assert steps("""
def graph(x: f32[8, 8]):
    a = aten.exp.default(x)
    b = aten.select.int(a, 0, 3)
    return b
""") == """\
program graph(x: float32[8, 8] by [8, 1] on cpu)
    allocate b0: float32[8, 8] by [8, 1] on cpu
    launch a_0(x, b0)
    free x
    view v1: float32[8] by [1] on cpu of b0 at 24
    return [v1]
"""  # fmt: skip


def test_an_input_is_written_where_the_graph_says():
    assert steps("""
def graph(x: f32[8, 8], y: f32[8, 8]):
    a = aten.add.Tensor(x, y)
    b = aten.mul.Tensor(x, 2)
    c = aten.copy_.default(x, a)
    return b
""") == """\
program graph(x: float32[8, 8] by [8, 1] on cpu, y: float32[8, 8] by [8, 1] on cpu)
    allocate b0: float32[8, 8] by [8, 1] on cpu
    launch b_a_c_0(y, b0, x)
    free x
    free y
    return [b0]
"""  # fmt: skip


# -- kernels in a row -------------------------------------------------------------------------------------------------


def waves(text):
    """The steps as the wrapper takes them: runs of kernels, wave by wave, and what stands between."""
    gm, inputs = graph_of(text)
    program = schedule(lower(gm, inputs))
    lines = []
    for item in lay_out(program, 64).items:
        if isinstance(item, Run):
            lines.append("run " + "; ".join(" | ".join(launch.kernel.name for launch in wave) for wave in item.waves))
        else:
            lines.append(type(item).__name__.lower())
    return "\n".join(lines) + "\n"


def test_kernels_between_calls_are_gathered_in_waves():
    assert waves("""
def graph(x: f32[8], y: f32[9], w: f32[8, 8]):
    a = aten.exp.default(x)
    b = aten.sum.default(y)
    c = aten.mul.Tensor(y, b)
    d = aten.mv.default(w, a)
    e = aten.neg.default(d)
    return c, e
""") == """\
allocate
allocate
run b_c_0 | a_1
free
free
call
free
allocate
free
run e_3
free
"""  # fmt: skip
