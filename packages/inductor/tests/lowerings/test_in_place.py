"""Functional operators that may write to their arguments instead: no copies where nobody needs the old contents."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import inductor


@pytest.fixture(scope="module")
def library():
    library = torch.library.Library("inductor_in_place", "DEF")
    library.define("double_(Tensor(a!) x, Tensor by) -> ()")
    library.define("doubled(*, Tensor x, Tensor by) -> Tensor")
    library.impl("double_", lambda x, by: (x.mul_(2).add_(by), None)[1], "CompositeExplicitAutograd")
    library.impl("doubled", lambda x, by: (x * 2 + by).clone(), "CompositeExplicitAutograd")
    yield torch.ops.inductor_in_place
    library._destroy()


def empty(library, x, y):
    return torch.where(y == y, y, library.doubled(x=torch.empty_like(x), by=y))


def nobody_needs_the_old(library, x, y):
    return library.doubled(x=x.sin(), by=y).cos()


def somebody_does(library, x, y):
    z = torch.sin(x)
    return library.doubled(x=z, by=y), z.exp()


def both_are_read_afterwards(library, x, y):
    z = x @ x
    one = library.doubled(x=z, by=y)
    return library.doubled(x=z, by=one), library.doubled(x=one, by=z)


def one_after_another(library, x, y):
    fresh = torch.empty_like(x)
    first = torch.ops.aten.copy.default(fresh, library.doubled(x=fresh, by=y))
    second = torch.ops.aten.copy.default(first, library.doubled(x=first, by=y))
    return torch.where(y == y, y, second)


def one_after_another_and_between(library, x, y):
    first = torch.ops.aten.copy.default(x, library.doubled(x=x.sin(), by=y))
    between = first.exp()
    second = torch.ops.aten.copy.default(first, library.doubled(x=first, by=y))
    return second + 1, between


def twice_the_same(library, x, y):
    zeros, others = torch.zeros_like(x), torch.zeros_like(x)
    return library.doubled(x=zeros, by=y) + library.doubled(x=others, by=x)


def through_a_view(library, x, y):
    z = x.sin()
    row = z[1]
    return library.doubled(x=z, by=y), row + 1


def to_itself(library, x, y):
    z = x.sin()
    return library.doubled(x=z, by=z)


def an_input_at_the_end(library, x, y):
    x.copy_(library.doubled(x=x, by=y))
    return y + 1


def an_input_that_is_read_afterwards(library, x, y):
    new = library.doubled(x=x, by=y)
    old = x + 1
    x.copy_(new)
    return old, new


def an_input_that_becomes_something_else(library, x, y):
    new = library.doubled(x=x, by=y)
    x.copy_(new * 3)
    return new


def other_strides(library, x, y):
    return library.doubled(x=x.t().sin(), by=y.t()) + 1


PROGRAMS = {
    empty: 1, nobody_needs_the_old: 2, somebody_does: 2, both_are_read_afterwards: 3, one_after_another: 1,
    one_after_another_and_between: 3, twice_the_same: 3,
    through_a_view: 2, to_itself: 2, an_input_at_the_end: 1, an_input_that_is_read_afterwards: 3,
    an_input_that_becomes_something_else: 2, other_strides: 2,
}  # fmt: skip
"""And how many kernels they are at most, the copies among them."""


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(library, program):
    inputs = [torch.randn(4, 4), torch.randn(4, 4)]
    graph = make_fx(lambda x, y: program(library, x, y), tracing_mode="fake")(*inputs)
    for node in graph.graph.nodes:
        if node.target is library.doubled.default:
            node.meta["in_place"] = library.double_.default
    theirs, ours = [[x.clone() for x in inputs] for _ in range(2)]
    expected = program(library, *theirs)
    compiled = inductor.compile(graph, ours)
    torch.testing.assert_close(compiled(*ours), expected if isinstance(expected, tuple) else (expected,))
    torch.testing.assert_close(ours, theirs)
    assert "doubled" not in "".join((*compiled.report.library_calls, *(f.operator for f in compiled.report.fallbacks)))
    assert len(compiled.kernels) <= PROGRAMS[program]


@pytest.mark.parametrize("other", [torch.float32, torch.float64])
def test_an_input_is_not_written_before_types_are_refused(other):
    """Torch's rules for sizes that vary take a product of two types, its kernel does not."""

    def program(x, y):
        new = x.exp()
        product = torch.nn.functional.linear(new, y, y[0])
        torch.ops.aten.copy_.default(x, new)
        return (product,)

    given = [torch.ones(3, 3, dtype=torch.bfloat16), torch.ones(3, 3, dtype=other)]
    compiled = inductor.compile(make_fx(program, tracing_mode="symbolic")(*given), given)
    with pytest.raises(RuntimeError, match="dtype"):
        compiled(*given)
    assert given[0].unique().tolist() == [1.0]
