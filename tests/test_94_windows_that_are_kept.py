"""Results that keep the memory of an operand that is a window on a larger one, beside it and all: what they say of
themselves, and what views by strides, diagonals and later writes find there."""

import random
import warnings

import pytest
import torch

import compile_api


def memory(*size):
    return torch.arange(float(torch.Size(size).numel()), dtype=torch.float64).view(size)


WINDOWS = {
    "the whole": lambda: memory(3, 4),
    "rows in the middle": lambda: memory(6, 4)[2:5],
    "the first rows": lambda: memory(6, 4)[:3],
    "an inner part": lambda: memory(6, 6)[1:4, 1:5],
    "every second column": lambda: memory(3, 8)[:, 1::2],
    "turned": lambda: memory(4, 6)[:, 2:5].t(),
    "one row, three times": lambda: memory(6, 4)[1:2].expand(3, 4),
}
OPERATORS = {
    "diagonal_scatter": lambda y: y.diagonal_scatter(y[0, :3] + 50),
    "select_scatter": lambda y: torch.select_scatter(y, y[0] * 2, 0, 1),
    "slice_scatter": lambda y: torch.ops.aten.slice_scatter.default(y, y[:1] * 3, 0, 1, 2),
    "as_strided_scatter": lambda y: y.as_strided_scatter(y[0, :2] * 5, (2,), (3,), y.storage_offset() + 1),
}


def written(v):
    v.add_(1)
    v[0].mul_(2)
    v.t()[1:].neg_()
    return v


SEEN = {
    "returned": lambda v: (v, v[1:]),
    "told": lambda v: (v.storage_offset(), v.stride(), v[1:].storage_offset(), v + 1),
    "by strides": lambda v: (v.as_strided((3,), (1,)) * 2, v.as_strided((3,), (2,), 0) + 1, v),
    "its diagonal filled": lambda v: (v.fill_diagonal_(9.0) + v[0], v),
    "written": lambda v: (written(v),),
    "written, by strides": lambda v: (written(v).as_strided((3,), (1,), 1) * 2,),
    "kept once more": lambda v: (v.select_scatter(v[0], 0, 2).fill_diagonal_(4.0), v),
}


def lies(x):
    return tuple(x.shape), x.stride(), x.storage_offset(), x.untyped_storage().nbytes(), x.requires_grad, x.is_leaf


def outcome(function, x, followed):
    x = x.requires_grad_(followed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing raises within the graph
        given = function(x)
    made = [each for each in given if isinstance(each, torch.Tensor)]
    weighted = [(each * torch.arange(1.0, each.numel() + 1).view(each.shape)).sum() for each in made]
    gradient = torch.autograd.grad(sum(weighted), x)[0].tolist() if followed else None
    told = [(lies(each), each.tolist()) if isinstance(each, torch.Tensor) else each for each in given]
    return told, gradient, x.tolist()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("operator", OPERATORS)
def test_what_is_kept_is_seen_as_in_eager(operator, seen, backend):
    def program(y):
        return SEEN[seen](OPERATORS[operator](y))

    drawn = random.Random(operator + seen).sample(list(WINDOWS.items()), 3)
    for number, (name, window) in enumerate(drawn):
        compile_api.reset()
        compiled = compile_api.compile(program, backend=backend)
        # Eager has no gradients of windows written by strides.
        with_gradients = operator != "as_strided_scatter" and not number
        for followed in (True, False) if with_gradients else (False,):
            assert outcome(compiled, window(), followed) == outcome(program, window(), followed), name
        assert not compile_api.report(compiled).breaks


MADE = {
    "concatenated": lambda x: torch.cat([x, x + 1])[1:4],
    "multiplied": lambda x: (x * 2)[1:, 1:],
    "a product, turned": lambda x: (x @ x.mT)[1:, 1:4].t(),
    "an imaginary part": lambda x: torch.complex(x, x + 1).imag,
    "padded": lambda x: torch.nn.functional.pad(x, (1, 1))[:, 1:-1],
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("made", MADE)
def test_windows_on_what_the_program_makes(made, backend):
    def program(x):
        v = MADE[made](x).slice_scatter(MADE[made](x)[:1] + 1, 0, 0, 1)
        w = v.diagonal_scatter(v.diagonal() * 2).fill_diagonal_(7.0)
        return v.as_strided((3,), (2,), 0) * 2, w, w.as_strided((2,), (1,)) + w[0, 0], v.storage_offset()

    for followed in (False, True):
        compiled = compile_api.compile(program, backend=backend)
        assert outcome(compiled, memory(4, 4), followed) == outcome(program, memory(4, 4), followed)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_windows_of_any_size_and_place(backend):
    def program(y):
        v = y.select_scatter(y[0] + 1, 0, 1)
        return v, v.storage_offset(), v[1:].storage_offset(), v.as_strided((2,), (1,)) * 3

    compiled = compile_api.compile(program, backend=backend)
    sizes = [memory(4, 4), memory(5, 6), memory(6, 7), memory(6, 4)[1:5], memory(9, 5)[2:], memory(9, 5)[:4]]
    for y in [*sizes, memory(5, 8)[:, 1::2], memory(12, 4)[1:5], memory(7, 8)]:
        found, expected = outcome(compiled, y, followed=False), outcome(program, y, followed=False)
        assert found == expected
        assert all(type(number) is int for number in found[0][1:3])
