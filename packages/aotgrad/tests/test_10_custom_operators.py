"""Operators that the user registers: opaque in the graph, with their own gradient, and allowed to write."""

import contextlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import aotgrad
from aotgrad.recording.custom_ops import functional_twin


@torch.library.custom_op("aotgrad_tests::sine", mutates_args=())
def sine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)


sine.register_fake(torch.empty_like)
sine.register_autograd(
    lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)


@torch.library.custom_op("aotgrad_tests::scale", mutates_args={"x"})
def scale(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("aotgrad_tests::scale_and_sum", mutates_args={"x"})
def scale_and_sum(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    x.mul_(factor)
    return x.sum()


@torch.library.custom_op("aotgrad_tests::scale_by_all", mutates_args={"x"})
def scale_by_all(
    x: torch.Tensor, factors: list[float], rows: list[int] | None = None, mode: str = "a, b"
) -> torch.Tensor:
    for factor in factors:
        x.mul_(factor * (1 if rows is None else sum(rows)))
    return x + 1


scale_by_all.register_fake(lambda x, factors, rows=None, mode="": torch.empty_like(x))


@scale_and_sum.register_fake
def _(x, factor=2.0):
    return x.new_empty(())


def test_a_custom_operator_keeps_its_gradient_and_stays_whole(same_as_eager, graphs_of):
    x = torch.randn(3, requires_grad=True)
    same_as_eager(lambda x: sine(x) * 2, x)
    forward, _ = graphs_of(lambda x: sine(x) * 2, x)
    assert torch.ops.aotgrad_tests.sine.default in [node.target for node in forward.nodes]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (scale(x, 2.0), x + 1),
        lambda x: (scale(x[0], 3.0), x.sum()),
        lambda x: (scale(y := x * 2, 2.0), y, y[0]),
        lambda x: (scale_and_sum(x), scale_and_sum(x, factor=5.0)),
        lambda x: torch.ops.aotgrad_tests.scale(x, 2.0),
        lambda x: (scale_by_all(x, [2.0, 3.0], rows=[x.shape[0]]), scale_by_all(x, [])),
    ],
)
def test_a_custom_operator_may_write(same_as_eager, program):
    same_as_eager(program, torch.randn(2, 3))


def test_two_threads_that_meet_an_operator_define_its_twin_once(monkeypatch):
    torch.library.define("aotgrad_tests::met_by_two", "(Tensor(a!) x) -> ()")
    define, both = torch.library.define, threading.Barrier(2)
    # Each waits within the definition for the other one, which is not to come.
    monkeypatch.setattr(torch.library, "define", lambda *given: (suppressed(both.wait, 0.2), define(*given)))
    with ThreadPoolExecutor(2) as threads:
        twins = set(threads.map(functional_twin, [torch.ops.aotgrad_tests.met_by_two.default] * 2))
    assert len(twins) == 1


def suppressed(wait, seconds):
    with contextlib.suppress(threading.BrokenBarrierError):
        wait(seconds)


def test_writing_while_gradients_are_recorded_is_refused():
    with pytest.raises(aotgrad.Unsupported, match="while gradients are recorded"):
        aotgrad.function(lambda x: scale(x * 2, 2.0), forward=aotgrad.run_eagerly)(torch.ones(2, requires_grad=True))


torch.library.define("aotgrad_tests::unseen_scale", "(Tensor(a!) x, Tensor by) -> ()")
torch.library.impl("aotgrad_tests::unseen_scale", "CompositeExplicitAutograd", lambda x, by: (x.data.mul_(by), None)[1])
torch.library.impl("aotgrad_tests::unseen_scale", "Autograd", torch.library.fallthrough_kernel)
torch.library.register_fake("aotgrad_tests::unseen_scale", lambda x, by: None)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (torch.ops.aotgrad_tests.unseen_scale(y := torch.ones(3), x), (x * y).sum()),
        lambda x: (torch.ops.aotgrad_tests.unseen_scale(y := x * 2, x), (y * x.sin()).sum()),
        lambda x: (torch.ops.aotgrad_tests.unseen_scale((y := x * 2)[1:], x[1:]), y * 3),
    ],
)
def test_what_autograd_passes_by_is_written_without_history(same_as_eager, program):
    same_as_eager(program, torch.randn(3, requires_grad=True))


def test_what_autograd_passes_by_is_no_change_that_it_counts():
    def program(x, y):
        torch.ops.aotgrad_tests.unseen_scale(x, y)
        return (x * y).sum()

    x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    earlier = (weight * x).sum()
    before = x._version
    aotgrad.function(program, forward=aotgrad.run_eagerly)(x, torch.full((3,), 2.0))
    assert x._version == before
    earlier.backward()  # reads what is in x by now, as in eager
    assert torch.equal(weight.grad, torch.full((3,), 2.0))


def triton_double():
    """A user's Triton kernel behind an operator of its own, run by Triton's interpreter."""
    import triton
    from triton import language as tl

    @triton.jit
    def kernel(source, target, count, block: tl.constexpr):
        where = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(target + where, 2 * tl.load(source + where, mask=where < count), mask=where < count)

    @torch.library.custom_op("aotgrad_tests::triton_double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 8),)](x, result, x.numel(), block=8)
        return result

    double.register_fake(torch.empty_like)
    double.register_autograd(lambda ctx, grad: double(grad))
    return double


TRITON = """
import torch, test_10_custom_operators as here, aotgrad
double = here.triton_double()
fn = aotgrad.function(lambda x: double(x.sin()) + 1, forward=aotgrad.run_eagerly)
x = torch.randn(13, requires_grad=True)
y = fn(x)
torch.testing.assert_close(y, 2 * x.sin() + 1)
torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 2 * x.cos())
"""


def test_a_triton_kernel_behind_an_operator():
    pytest.importorskip("triton", reason="the kernel is Triton's")
    # The interpreter is chosen when triton is imported, hence a process of its own.
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", TRITON], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_inference_mode(same_as_eager):
    with torch.inference_mode():
        same_as_eager(lambda x: (x.add_(1), x @ x, x.view(3, 1)), torch.ones(3))


noted = []


@torch.library.custom_op("aotgrad_tests::note", mutates_args=())
def note(x: torch.Tensor) -> None:
    noted.append(float(x.sum()))


note.register_fake(lambda x: None)


class Noting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        note(grad)
        return grad


@pytest.mark.parametrize("wanted", [False, True])
def test_an_operator_that_gives_nothing_runs_for_what_it_does(wanted):
    def program(x):
        note(x * 2)
        return Noting.apply(x) + 1

    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
    told = {}
    for run in (program, compiled, compiled):
        noted.clear()
        result = run(torch.ones(2, requires_grad=wanted))
        if wanted:
            result.sum().backward()
        told.setdefault(run, []).append(list(noted))
    assert told[program] * 2 == told[compiled] == [[4.0, 2.0] if wanted else [4.0]] * 2


@pytest.mark.parametrize("check", [torch._assert_async, torch.ops.aten._assert_async.default])
def test_a_check_without_words_is_made(check):
    compiled = aotgrad.function(lambda x: (check(x > 0), x + 1)[1:], forward=aotgrad.run_eagerly)
    compiled(torch.ones(1))
    with pytest.raises(RuntimeError, match="nonzero"):
        compiled(-torch.ones(1))


@torch.library.custom_op("aotgrad_tests::both", mutates_args={"x", "y"})
def both(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(1)
    y.mul_(2)


@torch.library.custom_op("aotgrad_tests::write_and_read", mutates_args={"x"})
def write_and_read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return y * 1


@torch.library.custom_op("aotgrad_tests::write_and_sum", mutates_args={"x"})
def write_and_sum(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
    x.add_(1)
    return torch.stack(others).sum(0)


write_and_read.register_fake(lambda x, y: torch.empty_like(y))
write_and_sum.register_fake(lambda x, others: torch.empty_like(others[0]))

TWICE = {
    "two writes": both,
    "a write and a read": write_and_read,
    "reads of a list": lambda x, y: write_and_sum(x, [y * 3, y]),
}
MEETING = {
    "one tensor": lambda x: (x, x),
    "turned": lambda x: (x, x.t()),
    "a view": lambda x: (x, x.view(3, 3)),
    "detached": lambda x: (x.detach(), x),
    "rows that meet": lambda x: (x[:2], x[1:]),
    "expanded": lambda x: (x[:1].expand(3, 3), x.clone()),
}
APART = {
    "rows apart": lambda x: (x[0], x[1]),
    "columns apart": lambda x: (x[:, 0], x[:, 2]),
    "a copy": lambda x: (x, x.clone()),
}


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("operands", [*MEETING, *APART])
@pytest.mark.parametrize("operator", TWICE)
def test_a_custom_operator_that_is_given_memory_twice_writes_and_reads_as_in_eager(operator, operands, made):
    def program(x):
        y = x * 1 if made else x
        shown = TWICE[operator](*(MEETING | APART)[operands](y))
        return shown, y * 1

    def ours(x):
        return aotgrad.function(program, forward=aotgrad.run_eagerly)(x)

    found, expected = (torch.arange(9.0).view(3, 3) for _ in range(2))
    if operands in MEETING:
        with pytest.raises(aotgrad.Unsupported, match="memory that"):
            ours(found)
    else:
        torch.testing.assert_close(ours(found), program(expected))
        torch.testing.assert_close(found, expected)
