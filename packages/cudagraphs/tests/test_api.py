"""The public face on a machine without a CUDA device, and what can be said of the CUDA driver there."""

from functools import partial
from pathlib import Path

import pytest
import torch

import cudagraphs
from cudagraphs import CudaGraphsError, Refusal, capture, tensors
from cudagraphs.torch_versions import INSIDES

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is there")


@without_cuda
def test_without_cuda_the_function_runs_as_it_is():
    def double(x):
        return [x * 2]

    captured = capture(double, [torch.ones(3)])
    assert torch.equal(captured(torch.ones(3))[0], torch.full((3,), 2.0))
    assert captured.refusal.reason is Refusal.NO_CUDA
    assert "double" in str(captured.refusal)


@without_cuda
def test_without_cuda_steps_and_reports_are_harmless():
    cudagraphs.step_begin()
    cudagraphs.reset()
    assert cudagraphs.report().replayed == 0
    assert cudagraphs.show() == "no CUDA device"


def test_an_index_beyond_the_inputs_is_an_error():
    with pytest.raises(CudaGraphsError, match="no input 3"):
        capture(lambda x: x, [torch.ones(1)], static_inputs=[3])


def test_every_refusal_explains_itself():
    assert all(len(refusal.text) > 20 for refusal in Refusal)


def test_the_private_functions_of_torch_that_the_driver_calls_exist():
    used = {row.path.rpartition(".")[2] for row in INSIDES.rows.values() if row.path.startswith("torch._C.")}
    stub = (Path(torch.__file__).parent / "_C" / "__init__.pyi").read_text()
    assert len(used) >= 8
    assert {name for name in used if f"def {name}(" not in stub} == set()


def test_signatures_tell_apart_what_a_recording_bakes_in():
    x, scalar = torch.ones(2, 3), torch.tensor(2.0)
    imaginary = torch.ones(2, 3, dtype=torch.complex64)
    signature = partial(tensors._signature, device=torch.device("cuda", 0))
    different = [
        imaginary,
        imaginary.conj(),
        x,
        x.t(),
        x.double(),
        x[:1],
        scalar,
        scalar + 1,
        torch.tensor(0.0),
        torch.tensor(-0.0),
        0.0,
        -0.0,
        float("nan"),
        1,
        True,
        1.0,
        None,
        "a",
        object(),
    ]
    assert len({signature(value, False) for value in different}) == len(different)
    assert signature(x, False) == signature(x + 1, False)
    assert signature(float("nan"), False) == signature(float("inf") * 0, False)
    needs_grad = torch.ones(2, 3, requires_grad=True)
    assert signature(needs_grad, True) != signature(needs_grad, False) == signature(x, False)


def test_what_is_not_plain_memory_is_no_tensor_to_the_driver():
    imaginary = torch.ones(2, dtype=torch.complex64)
    no_memory = [imaginary.conj(), imaginary.conj().imag, torch.ones(2).to_sparse(), type("Own", (torch.Tensor,), {})()]
    assert [tensors._is_memory(value) for value in no_memory] == [False] * 4
    assert tensors._is_memory(torch.nn.Parameter(imaginary))


def test_a_storage_is_alive_as_long_as_a_view_or_autograd_holds_it():
    x = torch.ones(3, requires_grad=True)
    squared = x.exp()
    held = tensors.WeakStorage(squared.untyped_storage())
    view = squared[1:].detach()
    loss = squared.sum()
    del squared
    assert held.alive()
    del view
    assert held.alive()  # exp saves its result for its backward
    del loss
    assert not held.alive()


def test_an_expanded_tensor_is_copied_without_its_repetitions():
    source, buffer = torch.ones(3, 1).expand(3, 4), torch.zeros(3, 1).expand(3, 4)
    tensors.dense(buffer).copy_(tensors.dense(source))
    assert torch.equal(buffer, source)
