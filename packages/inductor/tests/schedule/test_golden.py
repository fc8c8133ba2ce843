"""Whole functions as the text of their kernels: what lowering, fusion and loop order come to."""

import torch
import torch.nn.functional as F
from compiled import program_of

from inductor.ir.program import Launch
from inductor.ir.show import kernel_text, program_text

R = torch.randn


def text_of(function, *inputs):
    steps = program_of(function, *inputs).steps
    return "\n".join(kernel_text(step.kernel) for step in steps if isinstance(step, Launch))


def expect(function, inputs, text):
    assert text_of(function, *inputs).strip() == text.strip()


def test_pointwise_axes_are_joined():
    expect(lambda x, y: (x + y).relu(), (R(4, 8), R(8)), """
def add_relu_0(in0: read[float32, 32], in1: read[float32, 8], out0: write[float32, 32]) -> cpu:
    for i0 in 4:
        for i1 in 8:
            out0[8 * i0 + i1] = maximum(0.0, in0[8 * i0 + i1] + in1[i1])
""")  # fmt: skip


def test_half_types_are_widened_and_narrowed():
    expect(lambda x: x * 2, (R(8).bfloat16(),), """
def mul_0(in0: read[bfloat16, 8], out0: write[bfloat16, 8]) -> cpu:
    for i0 in 8:
        out0[i0] = cast(in0[i0], float32) * 2.0
""")  # fmt: skip


def test_layer_norm_with_residual():
    expect(lambda x, y: F.gelu(F.layer_norm(x + y, (16,)), approximate="none"), (R(4, 16), R(4, 16)), """
def add_native_layer_norm_gelu_0(in0: read[float32, 64], in1: read[float32, 64], out0: write[float32, 64]) -> cpu:
    for i0 in 4:
        for r0 in reduce(16):
            v0 = welford(in0[16 * i0 + r0] + in1[16 * i0 + r0], float32)
        v1 = rsqrt(v0.m2 / 16.0 + 1e-05)
        for r0 in reduce(16):
            v2 = (in0[16 * i0 + r0] + in1[16 * i0 + r0] - v0.mean) * v1 + 0.0
            out0[16 * i0 + r0] = v2 * 0.5 * (erf(v2 * 0.7071067811865476) + 1.0)
""")  # fmt: skip


def test_what_does_not_change_along_a_row_is_computed_once():
    expect(lambda x: F.log_softmax(x, 1), (R(4, 16),), """
def log_softmax_0(in0: read[float32, 64], out0: write[float32, 64]) -> cpu:
    for i0 in 4:
        for r0 in reduce(16):
            v0 = max(in0[16 * i0 + r0], float32)
        for r0 in reduce(16):
            v1 = sum(exp(in0[16 * i0 + r0] - v0), float32)
        v2 = log(v1)
        for r0 in reduce(16):
            out0[16 * i0 + r0] = in0[16 * i0 + r0] - v0 - v2
""")  # fmt: skip


def test_what_no_iteration_changes_is_computed_before_the_first():
    expect(lambda x, s: x * (1 - 0.9**s), (R(8), torch.tensor(3.0)), """
def pow_rsub_mul_0(in0: read[float32, 1], in1: read[float32, 8], out0: write[float32, 8]) -> cpu:
    v0 = 1.0 - pow(0.9, in0[0])
    for i0 in 8:
        out0[i0] = in1[i0] * v0
""")  # fmt: skip


def test_a_shared_value_is_named_once():
    expect(lambda x: (x.exp().sin() + 1, x.exp().sin() * 2), (R(8),), """
def exp_sin_add_mul_0(in0: read[float32, 8], out0: write[float32, 8], out1: write[float32, 8]) -> cpu:
    for i0 in 8:
        v0 = sin(exp(in0[i0]))
        out0[i0] = v0 + 1.0
        out1[i0] = v0 * 2.0
""")  # fmt: skip


def test_padding_reads_nothing_outside():
    expect(lambda x: F.pad(x, (1, 1)), (R(6),), """
def constant_pad_nd_0(in0: read[float32, 6], out0: write[float32, 8]) -> cpu:
    for i0 in 8:
        out0[i0] = masked((index(i0 - 1) >= 0) & (index(i0 - 1) < 6), in0[i0 - 1], 0.0)
""")  # fmt: skip


def test_column_sums_run_over_rows_with_columns_innermost():
    expect(lambda x: x.sum(0), (R(64, 8),), """
def sum_1(in0: read[float32, 512], out0: write[float32, 8]) -> cpu:
    for i0 in 8:
        for r0 in reduce(64):
            v0 = sum(in0[i0 + 8 * r0], float32)
        out0[i0] = v0
""".replace("sum_1", "sum_0"))  # fmt: skip


def test_a_view_between_nests_becomes_strides():
    expect(lambda x: x.view(2, 3, 4).transpose(0, 1).reshape(6, 4) * 2, (R(6, 4),), """
def mul_0(in0: read[float32, 24], out0: write[float32, 24]) -> cpu:
    for i0 in 3:
        for i1 in 2:
            for i2 in 4:
                out0[8 * i0 + 4 * i1 + i2] = in0[4 * i0 + 12 * i1 + i2] * 2.0
""")  # fmt: skip


def test_a_program_allocates_late_and_frees_early():
    program = program_of(lambda x, w: (x @ w).relu().sum(1), R(4, 8), R(8, 16))
    lines = program_text(program).split("\n\n")[0].split("\n")
    assert [line.split()[0] for line in lines] == [
        "program", "b0:", "free", "free", "allocate", "launch", "free", "return",
    ]  # fmt: skip
