"""Products as kernels of ours, run by Triton's interpreter: ``test_products.py`` runs this in a process of its own."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from test_products import found

from inductor.codegen.triton import print_kernel
from inductor.ir.layout import Tiling
from inductor.schedule.kernels import with_own_names
from inductor.schedule.layouts import with_layout
from inductor.schedule.products import partial_sums, split_k

SMALL = Tiling(16, 32, 16, 4, 2, group=2)

PROGRAMS = {
    "mm": (lambda a, b: a @ b, (64, 48), (48, 80)),
    "odd sizes": (lambda a, b: a @ b, (37, 53), (53, 41)),
    "few rows": (lambda a, b: a @ b, (3, 130), (130, 70)),
    "turned factors": (lambda a, b: a.t() @ b.t(), (53, 37), (41, 53)),
    "a window": (lambda a, b: a.narrow(0, 3, 37).narrow(1, 2, 48) @ b, (40, 64), (48, 33)),
    "bias": (lambda a, b, c: torch.addmm(c, a, b), (37, 53), (53, 41), (41,)),
    "bias and gelu": (lambda a, b, c: F.silu(torch.addmm(c, a, b)), (37, 53), (53, 41), (41,)),
    "a row of factors": (lambda a, b, c: (a @ b) * c + 1, (37, 53), (53, 41), (37, 1)),
    "a residual": (lambda a, b, c: (a @ b).view(4, 9, 41) + c, (36, 53), (53, 41), (4, 9, 41)),
    "two results": (lambda a, b: ((a @ b).relu(), (a @ b).sigmoid()), (37, 53), (53, 41)),
    "turned behind": (lambda a, b, c: (a @ b).t() + c, (37, 53), (53, 41), (41, 37)),
    "bmm": (lambda a, b: torch.bmm(a, b), (3, 37, 53), (3, 53, 41)),
    "bmm and scale": (lambda a, b: torch.bmm(a, b.transpose(1, 2)) * 0.5, (3, 37, 53), (3, 41, 53)),
    "baddbmm": (lambda a, b, c: torch.baddbmm(c, a, b), (3, 37, 53), (3, 53, 41), (3, 1, 41)),
    "something before": (lambda a, b: (a * 2 + 1) @ b, (37, 53), (53, 41)),
    "something before, turned": (lambda a, b: (a * 2 + 1).t() @ b.relu(), (53, 37), (53, 41)),
}


@pytest.fixture(autouse=True)
def _tensor_cores_are_allowed():
    torch.set_float32_matmul_precision("high")


def run(kernel, interpreted, memory):
    interpreted(
        print_kernel(with_layout(with_own_names(kernel))), [memory[argument.name] for argument in kernel.arguments]
    )


def prepared(name, dtype):
    """The kernel of a program, its graph, and memory by name with the expected results beside."""
    function, *shapes = PROGRAMS[name]
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    graph, (one,) = found(function, *shapes, dtype=dtype)
    expected = function(*(tensor.double() for tensor in inputs))
    memory = {buffer.name: tensor.clone().flatten() for buffer, tensor in zip(graph.inputs, inputs, strict=True)}
    for ref in graph.outputs:
        buffer = graph.buffers[ref.name]
        memory[ref.name] = torch.full([int(str(size)) for size in buffer.sizes], torch.nan, dtype=buffer.dtype)
    return one.kernel, graph, memory, expected if isinstance(expected, tuple) else (expected,)


def compare(graph, memory, expected, dtype):
    for ref, value in zip(graph.outputs, expected, strict=True):
        buffer = graph.buffers[ref.name]
        result = memory[ref.name].as_strided(value.shape, [int(str(stride)) for stride in buffer.strides])
        error = (result.double() - value).norm() / value.norm()
        assert error < (1e-5 if dtype == torch.float32 else 5e-3)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("persistent", [None, 5])
def test_values(name, dtype, persistent, interpreted):
    kernel, graph, memory, expected = prepared(name, dtype)
    tiling = replace(SMALL, persistent=persistent)
    run(replace(kernel, product=replace(kernel.product, tiling=tiling)), interpreted, memory)
    compare(graph, memory, expected, dtype)


@pytest.mark.parametrize("name", ["few rows", "bmm and scale"])
def test_sums_in_parts(name, interpreted):
    _, (*batch, rows, _), (*_, columns) = PROGRAMS[name]
    PROGRAMS["parts"] = (lambda a, b: torch.matmul(a, b).relu(), (*batch, rows, 96), (*batch, 96, columns))
    kernel, graph, memory, expected = prepared("parts", torch.float32)
    kernel = replace(kernel, product=replace(kernel.product, tiling=SMALL))
    sums = partial_sums(kernel, 4, torch.device("cuda"))
    memory[sums.name] = torch.full((4 * memory[graph.outputs[0].name].numel(),), torch.nan)
    for part in split_k(kernel, 4, sums, graph.buffers):
        run(part, interpreted, memory)
    compare(graph, memory, expected, torch.float32)
    assert split_k(kernel, 7, sums, graph.buffers) == []
