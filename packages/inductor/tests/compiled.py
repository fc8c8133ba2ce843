"""How tests here get from a function to a program, and compare it with eager."""

import torch
from reference import run_program
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor.decompose import prepare
from inductor.ir.program import Call, Launch
from inductor.ir.verify import verify_program
from inductor.lower import lower
from inductor.schedule import schedule


def traced(function, *inputs):
    """The ATen graph of a function, as the compiler sees it."""
    with torch.no_grad():
        gm = make_fx(function, tracing_mode="fake")(*inputs)
    return prepare(gm, inputs)


def program_of(function, *inputs):
    return schedule(lower(traced(function, *inputs), inputs))


def gpu_program_of(function, *sizes, dtype=torch.float32):
    """The program of a function of tensors on a GPU, none of which need be there."""
    with FakeTensorMode(), torch.no_grad():
        inputs = [torch.empty(size, dtype=dtype, device="cuda") for size in sizes]
        gm = make_fx(function)(*inputs)
    return schedule(lower(prepare(gm, inputs), inputs))


def kernels(function, *inputs):
    """How many kernels a function becomes."""
    return sum(isinstance(step, Launch) for step in program_of(function, *inputs).steps)


def fallbacks(function, *inputs):
    """The operators that run as they are, without those that libraries do best."""
    steps = program_of(function, *inputs).steps
    return [str(step.target) for step in steps if isinstance(step, Call) and step.reason]


def check(function, *inputs, exact_strides=True, **tolerance):
    """Runs a function compiled and eagerly on copies of the inputs; outputs and inputs must agree."""
    gm = traced(function, *inputs)
    graph = lower(gm, inputs)
    program = schedule(graph)
    verify_program(program)
    ours, theirs = [copied(value) for value in inputs], [copied(value) for value in inputs]
    results = run_program(program, ours, graph.constants)
    with torch.no_grad():
        expected = function(*theirs)
    expected = list(torch.utils._pytree.tree_leaves(expected))
    assert len(results) == len(expected)
    for result, value in zip(results + ours, expected + theirs, strict=True):
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(result, value, equal_nan=True, check_stride=exact_strides, **tolerance)
        else:
            assert result == value
    return program


def copied(value):
    """A copy with the same strides; windows on one storage stay what they are."""
    if not isinstance(value, torch.Tensor):
        return value
    size = value.untyped_storage().nbytes() // value.element_size()
    storage = torch.as_strided(value, (size,), (1,), 0).clone()
    return torch.as_strided(storage, value.shape, value.stride(), value.storage_offset())
