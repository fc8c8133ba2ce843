"""What the printed C++ looks like: precedence, names, and three whole kernels."""

import ast
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor.codegen import cpp_types, triton_dialect, wrapper
from inductor.codegen.cpp import print_kernel
from inductor.codegen.cpp_dialect import INDEX_STYLE
from inductor.codegen.expressions import Precedence, Text, index_text, infix, prefix
from inductor.codegen.printer import Lines, Names
from inductor.ir.expr import Const, Load, Result, apply
from inductor.ir.index import Index, loop_variable, size_symbol
from inductor.ir.kernel import Argument, Kernel, Loop, Reduce, Store
from inductor.schedule import cpu
from inductor.schedule.layouts import with_layout

F32 = torch.float32
add, subtract, times = infix("+", Precedence.ADD), infix("-", Precedence.ADD), infix("*", Precedence.MULTIPLY)
a, b, c = Text("a"), Text("b"), Text("c")


def test_parentheses_stand_only_where_needed():
    assert str(times(add(a, b), c)) == "(a + b) * c"
    assert str(add(times(a, b), c)) == "a * b + c"
    assert str(subtract(a, subtract(b, c))) == "a - (b - c)"
    assert str(subtract(subtract(a, b), c)) == "a - b - c"
    assert str(prefix("-")(prefix("-")(a))) == "-(-a)"


@pytest.mark.parametrize("form", [form for forms in triton_dialect.FORMATS.values() for form in forms.values()])
def test_operands_of_every_form_stay_what_they_are(form):
    """Triton is Python, so Python says what an expression is made of, however loosely its operands bind."""
    operands = [Text(f"x{k} | y{k}", Precedence.OR) for k in range(len(form.demands))]
    inner = form(*operands)
    outer = times(inner, c)
    parts = {ast.unparse(node) for node in ast.walk(ast.parse(str(outer), mode="eval"))}
    assert parts >= {*map(str, operands), ast.unparse(ast.parse(str(inner), mode="eval"))}
    assert ast.unparse(ast.parse(str(outer), mode="eval")).endswith(" * c")


NUMBERS = [
    (-1.5, F32), (-0.0, torch.float64), (-math.inf, F32), (math.nan, F32), (2.5, F32), (-3, torch.int64),
    (-(2**63), torch.int64), (-(2**31), torch.int32), (-7, torch.int8), (7, torch.uint32), (True, torch.bool),
]  # fmt: skip


@pytest.mark.parametrize("dialect", [cpp_types, triton_dialect])
@pytest.mark.parametrize(("value", "dtype"), NUMBERS)
def test_numbers_know_whether_a_sign_stands_before_them(dialect, value, dtype):
    text = dialect.literal(value, dtype)
    assert (text.precedence == Precedence.UNARY) == str(text).startswith("-")


def test_indices_divide_plainly_where_nothing_is_negative():
    i = Index.of(loop_variable("i", 100))
    assert str(index_text((i + 3) // 4 * 2, INDEX_STYLE)) == "2 * ((i + 3) / 4)"
    assert "floor_divide<i64>(" in str(index_text((50 - i) // 7, INDEX_STYLE))


SYMBOLS = size_symbol("s"), size_symbol("t", -50)
INDICES = st.recursive(
    st.one_of(st.integers(-9, 9).map(Index.of), st.sampled_from([Index.of(symbol) for symbol in SYMBOLS])),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda ab: ab[0] + ab[1]),
        st.tuples(inner, inner).map(lambda ab: ab[0] * ab[1]),
        inner.map(lambda a: -a),
        st.tuples(inner, st.integers(1, 7)).map(lambda ab: ab[0] // ab[1]),
        st.tuples(inner, st.integers(1, 7)).map(lambda ab: ab[0] % ab[1]),
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(INDICES, st.integers(2, 40), st.integers(-40, 40))
def test_python_reads_an_index_as_it_is_meant(index, s, t):
    """A size that is rounded up, ``-(-s // 3)``, was printed as ``--s // 3``."""
    text = str(index_text(index, wrapper.INDEX_STYLE))
    assert eval(text, {"s": s, "t": t}) == index.evaluate(dict(zip(SYMBOLS, (s, t), strict=True)))


def test_blocks_indent_and_names_are_new():
    lines, names = Lines(), Names({"t0"})
    with lines.block("if (x) {", "}"):
        lines.line("y;")
    assert str(lines) == "if (x) {\n    y;\n}\n"
    assert [names.fresh("t"), names.fresh("t")] == ["t1", "t2"]
    assert names.inner().fresh("t") == names.inner().fresh("t") == "t3"


POINTWISE = """\
// exp, add
extern "C" void exp_add_0(const f32* __restrict in0, f32* __restrict out0) {
    for (i64 i0 = 0; i0 < 96; i0 += 16) {
        const f32x16 x0 = load<f32x16>(in0 + i0);
        store(out0 + i0, exp(x0) + 1.0f);
    }
    for (i64 i0 = 96; i0 < 100; i0++) {
        const f32 x0 = in0[i0];
        out0[i0] = exp(x0) + 1.0f;
    }
}
"""

ROWS = """\
// sum, div
extern "C" void sum_div_0(const f32* __restrict in0, f32* __restrict out0) {
    #pragma omp for nowait
    for (i64 i0 = 0; i0 < 20000; i0++) {
        Sum<f32> v0_all;
        Sum<f32x16> v0_lanes[4];
        for (i64 r0_block0 = 0; r0_block0 < 64; r0_block0 += 64) {
            for (i32 k = 0; k < 4; k++) {
                const i64 r0 = r0_block0 + 16 * k;
                will_read<16>(in0 + 66 * i0 + r0);
                const f32x16 x0 = load<f32x16>(in0 + 66 * i0 + r0);
                v0_lanes[k].add(x0);
            }
        }
        for (i64 r0 = 64; r0 < 66; r0++) {
            const f32 x0 = in0[66 * i0 + r0];
            v0_all.add(x0);
        }
        for (i32 k = 0; k < 4; k++) v0_all.take(v0_lanes[k]);
        const f32 v0 = v0_all.value;
        out0[i0] = v0 / 66.0f;
    }
}
"""

TURNED = """\
// add
extern "C" void turned_0(const f32* __restrict in0, f32* __restrict out0) {
    for (i64 i0_band0 = 0; i0_band0 < 100; i0_band0 += 64) {
        const i64 i0_end0 = minimum<i64>(i0_band0 + 64, 100);
        for (i64 i1 = 0; i1 < 80; i1 += 16) {
            for (i64 i0_group0 = i0_band0; i0_group0 < i0_end0 - 15; i0_group0 += 16) {
                f32x16 tile0[16];
                turn(tile0, in0 + i0_group0 + 100 * i1, 100);
                for (i64 i0 = i0_group0; i0 < i0_group0 + 16; i0++) {
                    const f32x16 x0 = tile0[i0 - i0_group0];
                    store(out0 + 80 * i0 + i1, x0 + 1.0f);
                }
            }
            for (i64 i0 = i0_band0 + (i0_end0 - i0_band0) / 16 * 16; i0 < i0_end0; i0++) {
                const f32x16 x0 = each<f32x16>([&](i32 lane) { return in0[i0 + 100 * (i1 + lane)]; });
                store(out0 + 80 * i0 + i1, x0 + 1.0f);
            }
        }
    }
}
"""


def arguments(inputs, outputs):
    return (Argument("in0", F32, Index.of(inputs), "in"), Argument("out0", F32, Index.of(outputs), "out"))


def test_a_pointwise_kernel():
    i = loop_variable("i0", 100)
    at = Index.of(i)
    value = apply("add", apply("exp", Load("in0", at, F32)), Const(1.0, F32))
    kernel = Kernel(
        "exp_add_0", "cpu", (i,), (Loop((), (Store("out0", at, value),)),), arguments(100, 100), (), ("exp", "add")
    )
    printed = print_kernel(with_layout(kernel, 64))
    assert printed.text == POINTWISE
    assert not printed.kernel.cpu.team


def test_a_reduction_over_rows():
    i, r = loop_variable("i0", 20000), loop_variable("r0", 66)
    x = Load("in0", Index.of(i) * 66 + Index.of(r), F32)
    mean = apply("div", Result("v0", F32), Const(66.0, F32))
    loops = (Loop((r,), (Reduce("v0", "sum", x, F32),)), Loop((), (Store("out0", Index.of(i), mean),)))
    given = arguments(66 * 20000, 20000)
    printed = print_kernel(with_layout(Kernel("sum_div_0", "cpu", (i,), loops, given, (), ("sum", "div")), 64))
    assert printed.text == ROWS
    assert printed.kernel.cpu.team
    assert not printed.kernel.cpu.threaded


def test_reads_along_the_rows_are_turned_in_squares():
    (i, row), (j, column) = ((axis, Index.of(axis)) for axis in (loop_variable("i0", 100), loop_variable("i1", 80)))
    value = apply("add", Load("in0", column * 100 + row, F32), Const(1.0, F32))
    loops = (Loop((), (Store("out0", row * 80 + column, value),)),)
    kernel = Kernel("turned_0", "cpu", (i, j), loops, arguments(8000, 8000), (), ("add",))
    assert print_kernel(with_layout(kernel, 64)).text == TURNED


def test_what_is_read_once_per_row_does_not_turn_the_loops():
    (i, row), (r, column) = ((axis, Index.of(axis)) for axis in (loop_variable("i0", 64), loop_variable("r0", 100)))
    value = Load("in0", row * 100 + column, F32)
    for name in ("in1", "in2", "in3"):
        value = apply("sub", value, Load(name, row, F32))
    loops = (Loop((r,), (Reduce("v0", "sum", value, F32),)), Loop((r,), (Store("out0", row * 100 + column, value),)))
    given = (*arguments(6400, 6400), *(Argument(name, F32, Index.of(64), "in") for name in ("in1", "in2", "in3")))
    assert cpu.lay_out(Kernel("rows_0", "cpu", (i,), loops, given), 64).vector == "rows"
