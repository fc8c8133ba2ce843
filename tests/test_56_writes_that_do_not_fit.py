"""What eager refuses to write, compiled programs refuse in eager's words: results that are larger than what they are
written to, and data-dependent numbers which the tensor's dtype cannot hold.
"""

import operator

import pytest
import torch

import capture
import compile_api

BACKENDS = ("aot_eager", "inductor")
LARGER = {
    "power": lambda x, y: operator.ipow(x.clone(), y),
    "whole quotient": lambda x, y: operator.ifloordiv(x.clone(), y),
    "of an input": lambda x, y: x.pow_(exponent=y),
    "of a view": lambda x, y: x.view(x.shape).clamp_(None, y),
}


def ended(program, *args):
    try:
        return program(*args)
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return type(error), str(error)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("larger", LARGER)
def test_results_larger_than_their_place(larger, backend):
    """Torch's fakes of many operators let them pass; a release whose fakes refuse has no graph, and guards that."""
    compiled = compile_api.compile(LARGER[larger], backend=backend)
    for size in ((), (1, 2)):
        expected = ended(LARGER[larger], torch.ones(size), torch.ones(2, 2))
        assert isinstance(expected, tuple)
        assert ended(compiled, torch.ones(size), torch.ones(2, 2)) == expected
    report = compile_api.report(compiled)
    assert len(report.captured) == 2 or report.breaks or report.recompiled


FILLS = {
    "fill": lambda t, v: t.fill_(v),
    "fill a diagonal": lambda t, v: torch.stack([t, t]).fill_diagonal_(v),
    "full": lambda t, v: torch.full((), v, dtype=t.dtype),
    "index_fill": lambda t, v: t.index_fill_(0, torch.tensor([0]), v),
    "masked_fill": lambda t, v: t.masked_fill(t > 0, v),
    "clamp": lambda t, v: t.clamp(max=v),
    "full of two": lambda t, v: torch.full((2,), v, dtype=t.dtype),
    "new_full": lambda t, v: t.new_full((2,), v),
    "new_full of one": lambda t, v: t[:1].new_full((2,), v),
    "full_like": lambda t, v: torch.full_like(t, v),
}
READS = {"item": lambda x: x.item(), "float": float, "int": int}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("fill", FILLS)
def test_numbers_that_only_the_run_tells(fill, read, backend):
    @compile_api.compile(backend=backend)
    def program(t, x):
        return FILLS[fill](t, READS[read](x))

    def plain(t, x):
        return FILLS[fill](t, READS[read](x))

    for dtype, large in ((torch.uint8, torch.tensor(300)), (torch.float16, torch.tensor(1e6))):
        for x in (torch.full_like(large, 2), large):
            new = lambda dtype=dtype: torch.ones(3, dtype=dtype)
            expected, got = ended(plain, new(), x), ended(program, new(), x)
            if isinstance(expected, tuple):
                assert got == expected
            else:
                assert torch.equal(got, expected)
    assert len(compile_api.report(program).captured) >= 2


def test_numbers_that_fit_by_their_type_are_not_asked_about():
    """Asking means to wait for the device."""
    graphs = []
    program = capture.optimize(lambda module, _: graphs.append(module) or module)(lambda t, x: t.fill_(x.item()))
    assert program(torch.ones(2), torch.tensor(2.0)).tolist() == [2.0, 2.0]
    (graph,) = graphs
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    assert not output.all_input_nodes


ENDS = ((0, 1e40), (1e39, 1e39), (0, float("inf")), (float("inf"), 0), (0, 7e4), (1, float("nan")), (0.1, 0.7))


@pytest.mark.parametrize("name", ["linspace", "logspace"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_ends_of_ranges(name, dtype):
    for ends in ENDS:
        program = lambda ends=ends: getattr(torch, name)(*ends, 5, dtype=dtype)
        expected, got = ended(program), ended(compile_api.compile(program, fullgraph=True))
        if isinstance(expected, tuple):
            assert got == expected
        else:
            torch.testing.assert_close(got, expected, equal_nan=True)


SIZED = {
    "a size": lambda x: x.new(torch.Size([3, 4])),
    "a shape": lambda x: x.new(x.shape),
    "part of a shape": lambda x: x.new(x.shape[1:]),
    "more than a shape": lambda x: x.new(x.shape + (2,)),
    "no dimension": lambda x: x.new(torch.Size()),
    "by the class": lambda x: torch.Tensor.new(x, x.size()),
    "data": lambda x: x.new((3, 4)),
    "data of a shape": lambda x: x.new(tuple(x.shape)),
    "numbers": lambda x: x.new(*x.shape),
}


@pytest.mark.parametrize("backend", ["eager", *BACKENDS])
@pytest.mark.parametrize("sized", SIZED)
def test_sizes_are_told_from_data(sized, backend):
    program = compile_api.compile(SIZED[sized], backend=backend, fullgraph=True)
    for rows in (2, 3, 4):
        assert program(torch.ones(rows, 2)).shape == SIZED[sized](torch.ones(rows, 2)).shape
