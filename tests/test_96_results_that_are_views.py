"""Whether a result is a view of another tensor: as in eager, for a view refuses ``detach_`` and tells of its base.

Named programs, and all operators of ``op_db`` on operands in two orders, with and without gradients, of sizes that vary
and that do not.  A run draws some operators; ``SWEEPS=all`` runs all.
"""

import os
import random

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import compile_api

BACKENDS = ["eager", "aot_eager", "inductor"]
PROGRAMS = {
    "max_pool1d": lambda x: F.max_pool1d(x[None], 2),
    "max_pool1d of one": lambda x: F.max_pool1d(x, 2),
    "max_pool1d with positions": lambda x: F.max_pool1d(x[None], 2, return_indices=True),
    "attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3),
    "causal attention": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3, is_causal=True),
    "attention with a mask": lambda x: F.scaled_dot_product_attention(*[x[None, None]] * 3, torch.zeros_like(x)),
    "stacks times a vector": lambda x: x[None, None] @ x[0],
    "stacks times stacks": lambda x: x[None, None] @ x[None, None],
    "a vector times a matrix": lambda x: x[0] @ x,
    "a vector times stacks": lambda x: x[0] @ x[None],
    "a matrix times stacks": lambda x: x @ x[None],
    "a layer of one": lambda x: F.linear(x[None], x[0]),
    "a power": lambda x: torch.linalg.matrix_power(x[None], 3),
    "products by vmap": lambda x: torch.vmap(lambda row: row @ x)(x),
    "products of matrices by vmap": lambda x: torch.vmap(lambda each: each @ x)(x[None, None]),
    "a product by vmap in vmap": lambda x: torch.vmap(torch.vmap(lambda row: row @ x))(x[None]),
    "empty_permuted": lambda x: torch.empty_permuted((2, 3), (1, 0)),
    "a product, turned": lambda x: (x[None] @ x).transpose(1, 2),
    "a view of a product": lambda x: (x[None] @ x[None]).view(-1),
    "a product and a view of it": lambda x: (y := x[None] @ x[None], y[0]),
}


def operand(count, turned, followed):
    x = torch.rand(count, count, dtype=torch.float64)
    return (x.t() if turned else x).requires_grad_(followed)


def views(results):
    return [each._is_view() for each in pytree.tree_leaves(results) if isinstance(each, torch.Tensor)]


def as_told(backend, followed, found, expected):
    """A kernel that is compiled gives what it made, where eager views that in the same or another shape; where somebody
    goes back through it, it is a view."""
    if backend != "inductor" or followed or len(found) != len(expected):
        return found
    return [ours or told for ours, told in zip(found, expected, strict=True)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_of_programs(name, turned, followed, backend):
    """The second call has other sizes, and from then on they vary."""
    compiled = compile_api.compile(PROGRAMS[name], backend=backend)
    for count in (4, 6, 8):
        x = operand(count, turned, followed)
        found, expected = views(compiled(x)), views(PROGRAMS[name](x))
        assert as_told(backend, followed, found, expected) == expected


NO_VIEWS = {
    "a view that is written to": lambda x: x.sin().view(-1).add_(1),
    "tensordot": lambda x: torch.tensordot(x, x, 1),
    "einsum": lambda x: torch.einsum("bij,bjk->bik", x[None], x[None]),
    "multi_dot": lambda x: torch.linalg.multi_dot([x, x, x]),
    "instance_norm": lambda x: F.instance_norm(x[None]),
}


@pytest.mark.parametrize("name", NO_VIEWS)
def test_kernels_make_no_views_where_nothing_is_viewed_otherwise(name):
    """A view in each call would be made for nothing: docs/faq.md says so.

    Once one is a view here, `as_told` is to go.
    """
    x = operand(4, False, False)
    assert views(NO_VIEWS[name](x)) == views(compile_api.compile(NO_VIEWS[name], backend="aot_eager")(x)) == [True]
    assert views(compile_api.compile(NO_VIEWS[name], backend="inductor")(x)) == [False]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["max_pool1d", "attention", "stacks times a vector", "products by vmap"])
def test_a_result_is_detached_in_place(name, backend):
    """By the caller, and within the function."""

    def program(x):
        return PROGRAMS[name](x).detach_().add_(1)

    inside, outside = (compile_api.compile(each, backend=backend) for each in (program, PROGRAMS[name]))
    for count in (4, 6, 8):
        x = operand(count, True, False)
        expected = program(x)
        torch.testing.assert_close(inside(x), expected)
        torch.testing.assert_close(outside(x).detach_().add_(1), expected)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_gradients_of_a_product_of_varying_sizes(backend):
    def program(x):
        return (x[None, None] @ x[0]).sin()

    compiled = compile_api.compile(program, backend=backend)
    for count in (4, 6):
        gradients = []
        for each in (compiled, program):
            torch.manual_seed(0)
            x = operand(count, True, True)
            (first,) = torch.autograd.grad(each(x).square().sum(), x, create_graph=True)
            gradients += [(first, *torch.autograd.grad(first.cos().sum(), x))]
        torch.testing.assert_close(*gradients)


OPERATORS = {each.full_name: each for each in op_db if torch.float32 in each.dtypes and "jiterator" not in each.name}
ALL = os.environ.get("SWEEPS") == "all"


def lying(value, turned, followed):
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return value
    copy = value.detach().clone(memory_format=torch.contiguous_format)
    copy = copy.mT.contiguous().mT if turned and copy.dim() > 1 else copy
    return copy.requires_grad_() if followed and (copy.is_floating_point() or copy.is_complex()) else copy


def differences(name, backend, *, dynamic, followed):
    """The results that are views where eager's are none, and the other way round, of two samples of an operator."""
    for sample in list(OPERATORS[name].sample_inputs("cpu", torch.float32))[:6:3]:
        given = sample.input, list(sample.args), dict(sample.kwargs)
        for turned in (False, True):

            def program(x, args, kwargs):
                return OPERATORS[name].op(x, *args, **kwargs)

            def run(function, given=given, turned=turned):
                torch.manual_seed(0)
                return views(function(*pytree.tree_map(lambda each: lying(each, turned, followed), given)))

            try:
                expected = run(program)
            except Exception:  # noqa: BLE001 - it is none of these operands
                continue
            compile_api.reset()
            found = run(compile_api.compile(program, backend=backend, dynamic=dynamic))
            if as_told(backend, followed, found, expected) != expected:
                yield turned, found, expected


@pytest.mark.without_graphs("some operators are none of graphs, and a draw may have no others", cases="some")
@pytest.mark.filterwarnings("ignore")  # of what is in beta, sparse, deprecated
@pytest.mark.parametrize(("backend", "count"), [("eager", 15), ("aot_eager", 25), ("inductor", 5)])
@pytest.mark.parametrize("followed", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_of_operators(dynamic, followed, backend, count):
    names = sorted(OPERATORS) if ALL else ["matmul", *random.sample(sorted(OPERATORS), count)]
    found = {name: list(differences(name, backend, dynamic=dynamic, followed=followed)) for name in names}
    assert {name: each for name, each in found.items() if each} == {}
