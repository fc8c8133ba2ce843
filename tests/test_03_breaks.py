"""What cannot be captured runs in Python, and the rest is compiled around it."""

import pytest
import torch

import capture
import compile_api


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_a_branch_on_a_tensors_value_gives_three_graphs(recording):
    compiled = compile_api.compile(bar, backend=recording)
    a, b = torch.randn(10), torch.rand(10)
    assert torch.equal(compiled(a, b), bar(a, b))
    assert torch.equal(compiled(a, -b), bar(a, -b))
    assert len(recording.graphs) == 3


def test_both_branches_stay_right_when_called_again(recording):
    compiled = compile_api.compile(bar, backend=recording)
    a, b = torch.randn(10), torch.rand(10)
    for sign in (1, -1, -1, 1):
        assert torch.equal(compiled(a, sign * b), bar(a, sign * b))
    assert len(recording.graphs) == 3


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_every_backend_takes_the_pieces(backend):
    compiled = compile_api.compile(bar, backend=backend)
    a, b = torch.randn(10), torch.rand(10)
    torch.testing.assert_close(compiled(a, b), bar(a, b))
    torch.testing.assert_close(compiled(a, -b), bar(a, -b))
    report = compile_api.report(compiled)
    assert (len(report.captured), len(report.breaks)) == (3, 1)


def test_a_library_without_torch_breaks_and_is_right(recording):
    import scipy.fft

    def f3(x):
        x = x * 2
        x = scipy.fft.dct(x.numpy())
        x = torch.from_numpy(x)
        return x * 2

    x = torch.randn(5, 5)
    assert torch.equal(compile_api.compile(f3, backend=recording)(x), f3(x))
    assert len(recording.graphs) == 2


def test_fullgraph_names_the_line_and_the_reason():
    compiled = compile_api.compile(bar, backend="eager", fullgraph=True)
    with pytest.raises(capture.CaptureError) as caught:
        compiled(torch.randn(10), torch.randn(10))
    message = str(caught.value)
    assert "test_03_breaks.py" in message
    assert "if b.sum() < 0" in message
    assert len(message.splitlines()) <= 5


def test_the_users_own_error_is_the_users_own():
    @compile_api.compile(backend="eager")
    def f(x):
        if x.shape[0] > 2:
            raise ValueError(f"too long: {x.shape[0]}")
        return x + 1

    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(ValueError, match="too long: 3"):
        f(torch.ones(3))
