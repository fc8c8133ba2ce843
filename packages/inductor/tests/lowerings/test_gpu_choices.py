"""What is done otherwise on GPUs; looked at without one."""

import re

import pytest
import torch
import torch.nn.functional as F
from compiled import gpu_program_of
from torch._subclasses.fake_tensor import FakeTensorMode

from inductor.codegen.called import laid_out
from inductor.codegen.triton import print_kernel
from inductor.codegen.wrapper import Kernels, print_wrapper
from inductor.ir.program import Call, Launch
from inductor.lower import lower
from inductor.schedule import schedule
from inductor.schedule.layouts import lay_out, with_layout

aten = torch.ops.aten
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
    assert print_kernel(with_layout(first)).shape.programs.as_int() >= 512
    assert print_kernel(with_layout(second)).shape.programs.as_int() == 1024 // 32


def test_columns_are_read_side_by_side():
    """A chunk of 512 rows would fit into registers, but four columns at a time."""
    first, _ = launches(gpu_program_of(lambda x: (x * 2, (x * 2).sum(0)), (4096, 3072), dtype=torch.bfloat16))
    assert print_kernel(with_layout(first)).shape.constants["XBLOCK"] == 64  # a cache line


def test_memory_taken_over_is_a_view_only_where_nobody_sees_it():
    def function(x, w, v):
        y = torch.mm((x + 1).sin(), w)
        return torch.mm((y.view(32, 128) * 2).exp(), v).relu().view(8, 256) * 2

    program = gpu_program_of(function, (64, 64), (64, 64), (128, 64))
    launchers = {kernel.name: object() for kernel in launches(program)}
    source = print_wrapper(lay_out(program, 64), Kernels({}, print, launchers), {}).source
    (output,) = program.outputs
    (line,) = (line for line in source.splitlines() if "reinterpret(" in line)
    assert line.lstrip().startswith(f"{output.name} = ")
    assert ".as_strided(" in source


@pytest.mark.parametrize(("size", "dtype", "block"), [
    ((1 << 24,), torch.bfloat16, 2048), ((1 << 24,), torch.float32, 1024), ((1 << 20,), torch.bfloat16, 1024),
])  # fmt: skip
def test_a_thread_of_a_large_elementwise_kernel_asks_for_two_words(size, dtype, block):
    (kernel,) = launches(gpu_program_of(lambda x: x * 2, size, dtype=dtype))
    assert print_kernel(with_layout(kernel)).shape.constants == {"XBLOCK": block}


def test_a_long_row_is_read_by_more_warps_where_rows_are_few():
    many, few = (launches(gpu_program_of(lambda x: x.amax(1), (rows, 20_000)))[0] for rows in (1024, 100))
    assert [print_kernel(with_layout(kernel)).shape.warps for kernel in (many, few)] == [8, 16]


def test_statistics_of_images_with_channels_innermost_are_made_by_many_programs():
    def images(x):
        return torch.var_mean(x.permute(0, 3, 1, 2), (0, 2, 3), correction=0)

    first, second = launches(gpu_program_of(images, (32, 56, 56, 256), dtype=torch.bfloat16))
    assert print_kernel(with_layout(first)).shape.programs.as_int() == 512
    assert print_kernel(with_layout(second)).shape.programs.as_int() == 8
    assert print_kernel(with_layout(second)).shape.keeps_rows  # what the chunks gave is asked for at once


def test_small_kernels_beside_one_another_are_one():
    """What reads nothing in common still shares a launch, as counters of batches and small reductions do."""
    program = gpu_program_of(lambda a, b, c, d: (a + 1, b * 2, c.sum(0), d.sum(0)), (3,), (3,), (64, 8), (64, 8))
    assert len(launches(program)) == 2


def test_large_kernels_beside_one_another_are_not():
    assert len(launches(gpu_program_of(lambda a, b: (a + 1, b * 2), (1 << 23,), (1 << 23,)))) == 2


def test_what_is_wider_than_all_it_is_made_from_is_computed_again():
    def function(x, s, w):
        wide = (x.float() - s.float()) * 2 / 3
        return torch.mm(wide.relu().bfloat16(), w), wide.sum(1), (wide * 3).sum(0)

    program = gpu_program_of(function, (4096, 2048), (2048,), (2048, 512), dtype=torch.bfloat16)
    stored = [argument for kernel in launches(program) for argument in kernel.arguments if argument.role == "out"]
    assert max(argument.numel.as_int() * argument.dtype.itemsize for argument in stored) == 4096 * 2048 * 2


def test_results_of_a_library_have_the_dtype_that_kernels_read():
    """The gradient of a convolution's bias comes in single precision under autocast, whatever the tracer says; here the
    kernel writes where the library's result lies."""
    program = gpu_program_of(lambda x, w: torch.mm(x, w) * 2, (8, 8), (8, 8), dtype=torch.bfloat16)
    source = print_wrapper(
        lay_out(program, 64), Kernels({}, print, {kernel.name: print for kernel in launches(program)}), {}
    ).source
    assert re.search(r"if b0\.stride\(\) != .* or b0\.dtype is not \w+:", source)


def test_a_result_of_a_library_is_laid_out_as_expected():
    wide = torch.arange(6.0).reshape(2, 3)
    assert laid_out(wide, (2, 3), (3, 1), torch.float32) is wide
    found = laid_out(wide, (2, 3), (1, 2), torch.bfloat16)
    assert (found.dtype, found.stride()) == (torch.bfloat16, (1, 2))
    assert torch.equal(found.float(), wide)


@pytest.mark.parametrize("operator", [aten.index.Tensor, aten.index_put.default])
def test_positions_in_the_hosts_memory_are_left_to_torch(operator):
    """A kernel on a GPU cannot read them; ``x[torch.randperm(n)]`` is the commonest program that has some."""
    graph = torch.fx.Graph()
    with FakeTensorMode():  # the graph is written by hand, as a torch without CUDA moves nothing there
        inputs = [torch.empty(8, 8, device="cuda"), torch.empty(8, dtype=torch.int64)]
    x, at = graph.placeholder("x"), graph.placeholder("at")
    found = graph.call_function(operator, (x, [at], *[x][: operator is aten.index_put.default]))
    graph.output((found,))
    for node, value in ((x, inputs[0]), (at, inputs[1]), (found, inputs[0])):
        node.meta["val"] = value
    program = schedule(lower(torch.fx.GraphModule({}, graph), inputs))
    assert (calls(program), launches(program)) == ([str(operator)], [])
