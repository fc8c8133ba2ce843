"""Known mistakes of C++ compilers are kept out of kernels."""

import ctypes
import shutil

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import toolchain
from inductor.compiler_faults import FAULTS, flags_against_faults
from inductor.options import Options

SHIFTED_ROWS_OF_TWO = """
extern "C" void shifted(const float* __restrict from, float* __restrict to) {
    for (long i = 0; i < 6; i++)
        for (long j = 0; j < 2; j++) {
            float first = 0, second = 0;
            if (i < 3) first = from[2 * i + j];
            if (i >= 3) second = from[2 * i + j - 6];
            to[2 * i + j] = i < 3 ? first : second;
        }
}
"""


def test_masked_loads_keep_their_order(tmp_path):
    (library,) = toolchain.build([SHIFTED_ROWS_OF_TWO], Options(cache_dir=str(tmp_path)))
    row, to = (ctypes.c_float * 6)(*range(6)), (ctypes.c_float * 12)()
    library.functions.shifted(row, to)
    assert list(to) == [*range(6), *range(6)]


ROUNDED = """
extern "C" void rounded(const double* __restrict from, double* __restrict to) {
    for (long i = 0; i < 3; i++)
        for (long j = 0; j < 3; j++) to[3 * i + j] = (double)(float)from[3 * i + j];
    to[9] = (double)(float)from[9];
    to[10] = (double)(float)from[10];
}
"""


def test_doubles_are_rounded_to_floats(tmp_path):
    (library,) = toolchain.build([ROUNDED], Options(cache_dir=str(tmp_path)))
    numbers = [0.3 * (i + 1) for i in range(11)]
    row, to = (ctypes.c_double * 11)(*numbers), (ctypes.c_double * 11)()
    library.functions.rounded(row, to)
    assert list(to) == torch.tensor(numbers, dtype=torch.float64).float().tolist()


ROUNDINGS = {
    "and back": lambda x: x.float().double(),
    "beside others": lambda x: torch.cat([x.float().double(), x * 2]),
    "read in another order": lambda x: x.float().double()[::2].flip(0),
    "an error": lambda x: x - x.float().double(),
    "of a row": lambda x: x.view(-1, 1).expand(-1, 3).float().double(),
}


@pytest.mark.parametrize("name", ROUNDINGS)
@pytest.mark.parametrize("size", [2, 3, 9, 10, 33])
def test_roundings_of_few_numbers(size, name):
    x = torch.rand(size, dtype=torch.float64)
    compiled = inductor.compile(make_fx(ROUNDINGS[name])(x), [x])
    (rounded,) = compiled(x)
    assert torch.equal(rounded, ROUNDINGS[name](x))


SMALL = {
    "cat": lambda x: (torch.cat([x, x]), torch.cat([x, x[:1] + 1, x * 2]), torch.cat([x, x.cumsum(0)])),
    "cat of columns": lambda x: (torch.cat([x, x + 1], 1), torch.cat([x[:, :1], x, x], 1), torch.stack([x, x + 1], 2)),
    "pad": lambda x: (F.pad(x, (0, 0, 1, 2)), F.pad(x, (2, 1)), F.pad(x, (1, 2, 2, 1), value=3.0)),
    "shift": lambda x: (torch.cat([x[:1] * 0, x[:-1]]), torch.cat([x[:, 1:], x[:, :1]], 1), x.roll(1, 0), x.roll(1, 1)),
    "scatter": lambda x: (x.slice_scatter(x[:-1] + 5, 0, 1), x.select_scatter(x[0] + 1, 0, -1), x.tril(), x.triu(1)),
    "repeat": lambda x: (x.repeat(2, 1), x.repeat_interleave(2, 0), torch.kron(x, torch.eye(2)), torch.diag_embed(x)),
}


@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (8, 2), (5, 3)])
def test_rows_of_few_numbers(rows, columns):
    x = torch.randn(rows, columns)
    compiled = inductor.compile(make_fx(lambda x: [part for each in SMALL.values() for part in each(x)])(x), [x])
    for ours, expected in zip(compiled(x), (part for each in SMALL.values() for part in each(x)), strict=True):
        torch.testing.assert_close(ours, expected)


# The compilers of Debian 12, Ubuntu 22.04 and 24.04, and of the first releases without the fault.
@pytest.mark.parametrize(
    ("version", "faulty"),
    [((10, 2), True), ((11, 4), True), ((12, 2), True), ((13, 2), True)]
    + [((11, 5), False), ((12, 4), False), ((13, 3), False), ((14, 1), False), ((15, 0), False)],
)
def test_versions_with_the_fault(version, faulty):
    assert FAULTS[0].is_in(version) is faulty


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (
            "echo '#define __GNUC__ 12'; echo '#define __GNUC_MINOR__ 2'",
            ("-fno-tree-loop-if-convert", "-fno-tree-slp-vectorize"),
        ),
        ("echo '#define __GNUC__ 4'; echo '#define __GNUC_MINOR__ 2'; echo '#define __clang__ 1'", ()),
        ("exit 1", ()),
    ],
)
def test_a_compiler_is_asked_what_it_is(text, flags, tmp_path):
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\n{text}\n")
    compiler.chmod(0o755)
    assert flags_against_faults([str(compiler)]) == flags


@pytest.mark.skipif(shutil.which("clang++") is None, reason="there is no clang++")
def test_clang_builds_the_same(tmp_path):
    x = torch.randn(9, 33)

    def function(x):
        half = (x.bfloat16() * 2, x.half() * 2)
        return [x.exp() / 3, x.round().sqrt().nan_to_num(), *half, torch.lerp(x, x.sin(), 0.3), x.sum(0)]

    options = inductor.Options(compiler="clang++", cache_dir=str(tmp_path))
    for ours, expected in zip(
        inductor.compile(make_fx(function)(x), [x], options=options)(x), function(x), strict=True
    ):
        torch.testing.assert_close(ours, expected)
