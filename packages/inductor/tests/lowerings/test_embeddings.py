"""Gradients of embeddings: on GPUs in half precision, sums are kept for the rows that there are."""

import pytest
import torch
from compiled import check, gpu_program_of
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor.decompose import prepare
from inductor.ir.program import Call, Launch
from inductor.lower import lower
from inductor.lowerings import scattering
from inductor.schedule import schedule

aten = torch.ops.aten


def gradient(padding, rows=300):
    return lambda grad, places: aten.embedding_dense_backward(grad, places, rows, padding, False)


@pytest.mark.parametrize("padding", [-1, 7])
@pytest.mark.parametrize("shape", [(40,), (4, 10)])
def test_rows_named_more_than_once_are_added_up(padding, shape, monkeypatch):
    monkeypatch.setattr(scattering, "_is_mostly_zero", lambda table, indices: True)
    places = torch.randint(0, 12, shape)
    grad = torch.randn(*shape, 16)
    check(gradient(padding), grad, places, atol=1e-5, rtol=1e-5)


def program():
    with FakeTensorMode(), torch.no_grad():
        grad = torch.empty(4, 10, 16, dtype=torch.bfloat16, device="cuda")
        inputs = [grad, torch.empty(4, 10, dtype=torch.int64, device="cuda")]
        gm = make_fx(gradient(-1, 1 << 20))(*inputs)
    return schedule(lower(prepare(gm, inputs), inputs))


def test_no_table_in_full_precision_is_needed():
    wide = [a for step in program().steps if isinstance(step, Launch) for a in step.kernel.arguments
            if a.dtype == torch.float32]  # fmt: skip
    assert {argument.numel.as_int() for argument in wide} == {4 * 10 * 16}


def test_where_determinism_was_asked_for_nothing_is_added_atomically():
    torch.use_deterministic_algorithms(True)
    try:
        (call,) = (step for step in program().steps if isinstance(step, Call))
    finally:
        torch.use_deterministic_algorithms(False)
    assert "deterministic" in call.reason


def test_tables_that_are_smaller_than_what_is_added_are_kept_whole():
    function = lambda grad, places: aten.embedding_dense_backward(grad, places.to(torch.int64), 8, -1, False)
    launched = [step.kernel for step in gpu_program_of(function, (40, 16), (40,), dtype=torch.bfloat16).steps
                if isinstance(step, Launch)]  # fmt: skip
    assert all(argument.dtype != torch.int32 for kernel in launched for argument in kernel.arguments)
