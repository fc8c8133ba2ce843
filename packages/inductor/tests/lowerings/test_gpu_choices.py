"""What is done otherwise on GPUs; looked at without one."""

import pytest
import torch
import torch.nn.functional as F
from compiled import gpu_program_of

from inductor.codegen.triton import print_kernel
from inductor.codegen.wrapper import Kernels, print_wrapper
from inductor.ir.program import Call, Launch

SIZES = (64, 128), (96, 128), (96,)


def calls(program):
    return [str(step.target) for step in program.steps if isinstance(step, Call)]


def launches(program):
    return [step.kernel for step in program.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("behind", [lambda x: x.relu(), lambda x: torch.linalg.norm(x, 2)])
def test_kernels_add_the_bias_in_full_precision(behind):
    program = gpu_program_of(lambda x, w, b: behind(F.linear(x, w, b)), *SIZES)
    assert calls(program)[0] == "aten.mm.default"


def test_the_library_adds_the_bias_in_half_precision():
    program = gpu_program_of(lambda x, w, b: F.linear(x, w, b).relu(), *SIZES, dtype=torch.bfloat16)
    assert calls(program) == ["aten.addmm.default"]


def test_the_library_adds_the_bias_where_tensor_cores_multiply():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        program = gpu_program_of(lambda x, w, b: F.linear(x, w, b), *SIZES)
    finally:
        torch.set_float32_matmul_precision(before)
    assert calls(program) == ["aten.addmm.default"]


def two_convolutions(x, w, v):
    return F.conv2d(F.conv2d(x, w, padding=1).relu(), v, padding=1) * 2


IMAGES = (2, 16, 8, 8), (32, 16, 3, 3), (16, 32, 3, 3)


def test_images_in_half_precision_lie_with_channels_innermost():
    program = gpu_program_of(two_convolutions, *IMAGES, dtype=torch.float16)
    made = [step.outputs[0] for step in program.steps if isinstance(step, Call)]
    assert [buffer.strides[1].as_int() for buffer in made] == [1, 1]
    (output,) = program.outputs
    assert program.buffers()[output.name].strides[3].as_int() == 1  # what the user sees lies as in eager


def test_images_in_full_precision_lie_as_they_are():
    program = gpu_program_of(two_convolutions, *IMAGES)
    made = [step.outputs[0] for step in program.steps if isinstance(step, Call)]
    assert [buffer.strides[3].as_int() for buffer in made] == [1, 1]


def test_few_long_columns_are_summed_by_many_programs():
    first, second = launches(gpu_program_of(lambda x: x.sum(0), (4096, 1024)))
    assert print_kernel(first).shape.programs.as_int() >= 512
    assert print_kernel(second).shape.programs.as_int() == 1024 // 32


def test_columns_are_read_side_by_side():
    """A chunk of 512 rows would fit into registers, but four columns at a time."""
    first, _ = launches(gpu_program_of(lambda x: (x * 2, (x * 2).sum(0)), (4096, 3072), dtype=torch.bfloat16))
    assert print_kernel(first).shape.constants["XBLOCK"] == 64  # a cache line


def test_memory_taken_over_is_a_view_only_where_nobody_sees_it():
    def function(x, w, v):
        y = torch.mm((x + 1).sin(), w)
        return torch.mm((y.view(32, 128) * 2).exp(), v).relu().view(8, 256) * 2

    program = gpu_program_of(function, (64, 64), (64, 64), (128, 64))
    launchers = {kernel.name: object() for kernel in launches(program)}
    source = print_wrapper(program, Kernels({}, print, launchers), {}).source
    (output,) = program.outputs
    (line,) = (line for line in source.splitlines() if "reinterpret(" in line)
    assert line.lstrip().startswith(f"{output.name} = ")
    assert ".as_strided(" in source


@pytest.mark.parametrize(("size", "dtype", "block"), [
    ((1 << 24,), torch.bfloat16, 2048), ((1 << 24,), torch.float32, 1024), ((1 << 20,), torch.bfloat16, 1024),
])  # fmt: skip
def test_a_thread_of_a_large_elementwise_kernel_asks_for_two_words(size, dtype, block):
    (kernel,) = launches(gpu_program_of(lambda x: x * 2, size, dtype=dtype))
    assert print_kernel(kernel).shape.constants == {"XBLOCK": block}


def test_a_long_row_is_read_by_more_warps_where_rows_are_few():
    many, few = (launches(gpu_program_of(lambda x: x.amax(1), (rows, 20_000)))[0] for rows in (1024, 100))
    assert [print_kernel(kernel).shape.warps for kernel in (many, few)] == [8, 16]


def test_statistics_of_images_with_channels_innermost_are_made_by_many_programs():
    def images(x):
        return torch.var_mean(x.permute(0, 3, 1, 2), (0, 2, 3), correction=0)

    first, second = launches(gpu_program_of(images, (32, 56, 56, 256), dtype=torch.bfloat16))
    assert print_kernel(first).shape.programs.as_int() == 512
    assert print_kernel(second).shape.programs.as_int() == 32
