"""Small temporaries of the CPU, which share one allocation."""

import torch
from compiled import traced
from simulated import program_for_gpu

import inductor
from inductor.ir.index import Index
from inductor.ir.program import Allocate, Buffer, Program
from inductor.schedule.scratch import scratch_of


def compiled(function, *inputs):
    made = inductor.compile(traced(function, *inputs), inputs)
    return made, made.source


def test_many_small_temporaries_are_one_allocation():
    def steps(x, y, one, two):
        return x * 0.9 ** (one + 1).double(), y * 0.9 ** (two + 1).double()

    inputs = [torch.rand(4), torch.rand(5), torch.tensor(1.0), torch.tensor(2.0)]
    program, _ = program_for_gpu(steps, inputs, on_host=(2, 3))
    assert sorted(dict(scratch_of(program).places).values()) == [0, 64]


def test_what_is_written_over_its_operand_finds_it_there():
    def function(x, w):
        rows = x.sum(1)
        for _ in range(3):
            rows = rows + torch.softmax(rows, 0) * torch.mm(w, rows[:, None])[:, 0].sum()
        return rows * 2, torch.logsumexp(rows, 0) + 1

    inputs = [torch.rand(6, 50), torch.rand(6, 6)]
    made, _ = compiled(function, *inputs)
    for ours, wanted in zip(made(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_what_a_library_reads_is_a_tensor():
    made, source = compiled(lambda x: torch.linalg.inv(x + torch.eye(3)) * x.sum(), torch.rand(3, 3))
    assert "scratch" not in source
    x = torch.rand(3, 3)
    torch.testing.assert_close(made(x)[0], torch.linalg.inv(x + torch.eye(3)) * x.sum())


def test_what_is_written_over_a_librarys_result_stays_there():
    def function(x, w):
        first, second = (torch.logsumexp(torch.mm(x, each), 0) for each in (w, w + 1))
        return torch.softmax(first, 0).sum() + second.exp().sum().log(), (torch.mm(w, x).exp() + 1).log().sum(0).cos()

    inputs = [torch.rand(3, 3), torch.rand(3, 3)]
    made, _ = compiled(function, *inputs)
    for ours, wanted in zip(made(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_a_chain_that_begins_with_a_librarys_result_has_no_place():
    def reused(name, source):
        return Allocate(buffer(name), source)

    steps = (Allocate(buffer("a"), None), Allocate(buffer("b"), None), reused("c", "given"), reused("d", "c"))
    program = Program("graph", (), (), steps, ())
    assert sorted(dict(scratch_of(program).places)) == ["a", "b"]


def buffer(name):
    return Buffer(name, torch.float32, torch.device("cpu"), (Index.of(4),), (Index.of(1),))
