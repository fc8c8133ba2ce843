"""Memory that a program asks for by strides, with gaps or over itself, lies so afterwards, whoever writes to it."""

import itertools

import pytest
import torch

import compile_api

LAYOUTS = {
    "rows apart": (8, 1),
    "columns apart": (8, 2),
    "turned, apart": (1, 5),
    "expanded": (0, 1),
    "one number": (0, 0),
    "windows": (1, 1),
    "windows of two": (2, 1),
}
MAKERS = {
    "empty_strided": lambda x, strides: torch.empty_strided((3, 4), strides),
    "new_empty_strided": lambda x, strides: x.new_empty_strided((3, 4), strides),
    "resized": lambda x, strides: torch.empty(32).as_strided((3, 4), strides).detach(),
}
WRITES = {
    "fill_": lambda y, x: y.fill_(2.0),
    "copy_": lambda y, x: y.copy_(x),
    "add_": lambda y, x: y.zero_().add_(x),
    "row": lambda y, x: y.fill_(1.0)[1].copy_(x[1]),
    "rows": lambda y, x: y.fill_(1.0)[1:].fill_(2.0),
    "transposed": lambda y, x: y.zero_().t().add_(x.t()),
    "diagonal": lambda y, x: y.zero_().diagonal().fill_(3.0),
    "out": lambda y, x: torch.add(x, 1, out=y.zero_()),
    "index": lambda y, x: y.zero_().index_fill_(0, torch.tensor([0]), 4.0),
    "mask": lambda y, x: y.zero_().masked_fill_(x > 0.5, 4.0),
    "items": lambda y, x: y.zero_().__setitem__((slice(None), 0), x[:, 1]),
    "foreach": lambda y, x: torch._foreach_add_([y.zero_()], [x]),
}


def outcome(function, x):
    try:
        y, z = function(x)
    except RuntimeError as error:
        return str(error)
    return y.stride(), y.untyped_storage().size(), y.tolist(), z.tolist()


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_lies_as_it_was_asked_for(layout, maker, backend):
    x = torch.arange(12.0).reshape(3, 4) / 8
    for write in WRITES.values():

        def program(x, write=write):
            y = MAKERS[maker](x, LAYOUTS[layout])
            write(y, x)
            return y, y * 2

        assert outcome(compile_api.compile(program, backend=backend), x) == outcome(program, x)


def test_a_graph_that_asks_for_gaps_is_compiled():
    """And not left to eager: what has gaps but does not lie over itself is written to by a kernel."""
    layouts = [strides for strides in LAYOUTS.values() if strides[0] and len(set(strides)) == 2]
    for strides, name in itertools.product(layouts[:3], ("copy_", "add_", "rows")):

        @compile_api.compile(fullgraph=True)
        def program(x, strides=strides, name=name):
            y = x.new_empty_strided((3, 4), strides)
            WRITES[name](y, x)
            return y

        y = program(torch.rand(3, 4))
        assert (y.stride(), bool(compile_api.report(program).kernels)) == (strides, True)


COPIES = {
    "reshape": lambda x: x.T[::2].reshape(-1),
    "flatten": lambda x: (x + 1).mT.flatten(),
    "matmul": lambda x: x.view(2, 2, 4) @ torch.ones(4, 3),
    "kron": lambda x: torch.kron(x, x),
    "unfold": lambda x: torch.nn.functional.unfold(x.view(1, 1, 4, 4), 2),
    "view": lambda x: (x * 2).view(-1),
    "rows": lambda x: (x * 2)[1:],
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", COPIES)
def test_what_no_view_made_is_no_view(name, backend):
    """So that ``detach_`` takes it, which refuses views."""
    x = torch.rand(4, 4)
    found, expected = compile_api.compile(COPIES[name], backend=backend)(x), COPIES[name](x)
    assert (found._is_view(), found.stride()) == (expected._is_view(), expected.stride())


def windows(rows, step):
    """Windows over one memory, which overlap where a step is shorter than a row."""
    return torch.arange(1.0, 60.0).as_strided((rows, 4), (step, 1))


def swapped(x):
    first, second = x[0].clone(), x[1].clone()
    x[0].copy_(second)
    x[1].copy_(first)


WRITES_TO_WINDOWS = {
    "a row": lambda x: x[1].zero_(),
    "a column": lambda x: x[:, 0].add_(3),
    "some rows": lambda x: x[:2].copy_(x[1:3] * 2),
    "twice": lambda x: x.mul_(2).add_(1),
    "sums": lambda x: x.cumsum_(1),
    "two rows swapped": swapped,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", WRITES_TO_WINDOWS)
def test_windows_that_overlap_come_after_tensors_that_do_not(name, backend):
    def program(x):
        WRITES_TO_WINDOWS[name](x)
        return x * 1

    compiled = compile_api.compile(program, backend=backend)
    for rows, step in ((4, 4), (5, 5), (4, 2), (5, 6), (3, 1), (6, 3)):
        found, expected = windows(rows, step), windows(rows, step)
        torch.testing.assert_close(compiled(found), program(expected))
        torch.testing.assert_close(found, expected)


WINDOWS = {
    "of two": lambda y, n: y.unfold(1, 2, 1),
    "of three": lambda y, n: y.unfold(1, 3, 2),
    "of rows": lambda y, n: y.unfold(0, 2, 1),
    "as wide as a number": lambda y, n: y.unfold(1, n, 1),
    "as far apart as a number": lambda y, n: y.unfold(1, 3, n),
    "of windows": lambda y, n: y.unfold(1, n, 1).unfold(1, 2, 1),
    "by strides": lambda y, n: y.as_strided((y.shape[0], y.shape[1] - n, 2), (y.shape[1], 1, 1)),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_windows_that_overlap_are_computed_once_where_sizes_vary(window):
    """What has several readers gets memory: of its own, in which no element stands for two."""

    def program(x, n):
        shown = WINDOWS[window](x.cumsum(1) / 4, n)
        return torch.stack([shown, shown * 2], 1), shown.flip(-1) * 2

    compiled = compile_api.compile(program, dynamic=True)
    for size, number in ((8, 2), (9, 3), (7, 2)):
        x = torch.arange(1.0, size + 1).repeat(size, 1)
        torch.testing.assert_close(compiled(x, number), program(x, number))
