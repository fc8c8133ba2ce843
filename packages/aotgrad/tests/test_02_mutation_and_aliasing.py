"""What a program does to its inputs and what its outputs share: as in eager, whatever the mixture."""

import pytest
import torch
from torch.utils import _pytree as pytree

import aotgrad

KINDS = {
    "plain": lambda: torch.randn(4, 6),
    "transposed": lambda: torch.randn(6, 4).t(),
    "parameter": lambda: torch.randn(4, 6, requires_grad=True),
}


def under_no_grad(x, change):
    with torch.no_grad():
        change(x)


MUTATIONS = {
    "none": lambda x: None,
    "add_": lambda x: under_no_grad(x, lambda x: x.add_(1)),
    "row": lambda x: under_no_grad(x, lambda x: x[1].mul_(2)),
    "column of view": lambda x: under_no_grad(
        x, lambda x: x.view(6, 4)[:, 0].zero_() if x.is_contiguous() else x.zero_()
    ),
    "copy_": lambda x: under_no_grad(x, lambda x: x.copy_(x.sin())),
    "through detach": lambda x: x.detach().add_(3),
    "index": lambda x: under_no_grad(x, lambda x: x.__setitem__((slice(None), 2), 5.0)),
    "twice": lambda x: under_no_grad(x, lambda x: x.add_(1)[0].mul_(3)),
}
OUTPUTS = {
    "fresh": lambda x: x * 2,
    "input": lambda x: x,
    "view": lambda x: x[1:],
    "transpose": lambda x: x.t(),
    "view of view": lambda x: x[1:].t().unsqueeze(0),
    "detached": lambda x: x.detach(),
    "several": lambda x: (x, x[0], x * 2, x.detach()[0]),
    "two views of a result": lambda x: (lambda y: (y, y.t(), y[0]))(x * 3),
    "one view of a result": lambda x: (x * 3).t(),
    "view without its base": lambda x: (lambda y: (y.t(), y[0]))(x * 3),
    "same twice": lambda x: (lambda y: (y, y, y[0]))(x * 3),
    "detached result": lambda x: (lambda y: (y, y.detach()))(x * 3),
    "mixed": lambda x: (None, 3, x.shape, x.sum(), "text", True),
    "split": lambda x: x.split(2),
    "chunks of a result": lambda x: (x + 1).chunk(2),
    "expanded": lambda x: x[0].expand(3, 6),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_matrix(same_as_eager, kind, mutation, output, grad):
    def program(x):
        MUTATIONS[mutation](x)
        return OUTPUTS[output](x)

    with torch.set_grad_enabled(grad):
        same_as_eager(program, KINDS[kind](), times=1)


def test_a_mutation_that_autograd_sees(same_as_eager):
    def program(x):
        y = x * 1
        y.mul_(x)
        y[0].add_(x[1])
        return y

    same_as_eager(program, torch.randn(3, 3, requires_grad=True))


def test_a_mutated_input_that_is_not_a_leaf():
    def program(x):
        x.mul_(2)
        return x.sin()

    def gradient(fn):
        leaf = torch.ones(3, requires_grad=True)
        x = leaf * 1
        (fn(x).sum() + (x * x).sum()).backward()
        return leaf.grad

    torch.testing.assert_close(gradient(aotgrad.function(program, forward=aotgrad.run_eagerly)), gradient(program))


def test_a_leaf_that_requires_grad_may_not_be_mutated_as_in_eager():
    fn = aotgrad.function(lambda x: x.add_(1), forward=aotgrad.run_eagerly)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        fn(torch.ones(3, requires_grad=True))


def test_a_buffer_takes_a_value_that_requires_grad():
    def program(buffer, weight):
        buffer.add_(weight)
        return buffer * 2

    weight = torch.ones(3, requires_grad=True)
    buffer = torch.zeros(3)
    result = aotgrad.function(program, forward=aotgrad.run_eagerly)(buffer, weight)
    (result.sum() + buffer.sum()).backward()
    assert buffer.requires_grad
    torch.testing.assert_close(weight.grad, torch.full((3,), 3.0))


def test_an_input_changed_after_autograd_saved_it_is_left_to_eager():
    def program(x, w):
        y = x * w
        with torch.no_grad():
            x.add_(1)
        return y

    with pytest.raises(aotgrad.Unsupported, match="modified by an inplace operation"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3), torch.ones(3, requires_grad=True))


def test_a_saved_output_changed_by_the_caller_is_reported_as_in_eager():
    x = torch.ones(3, requires_grad=True)
    y = aotgrad.function(lambda x: x.exp(), forward=aotgrad.run_eagerly)(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_in_place_on_an_output_view_reaches_the_other_views():
    def program(x):
        y = x * 2
        return y, y[0]

    def gradient(fn):
        x = torch.ones(2, 2, requires_grad=True)
        y, row = fn(x)
        row.mul_(3)
        y.sum().backward()
        return x.grad

    torch.testing.assert_close(gradient(aotgrad.function(program, forward=aotgrad.run_eagerly)), gradient(program))


def test_one_tensor_passed_twice(same_as_eager):
    x = torch.randn(3, requires_grad=True)
    same_as_eager(lambda a, b: (a * b, a, b), x, x)


def test_one_tensor_passed_twice_and_mutated(same_as_eager):
    x = torch.randn(3)
    same_as_eager(lambda a, b: (a.add_(1), b * 2), x, x)


def test_layout_of_an_input_changes(same_as_eager):
    same_as_eager(lambda x: (x.t_(), x + 1), torch.randn(2, 3))
    same_as_eager(lambda x: (x.t().masked_fill_(x.t() > 0.3, 0.0), x.view(6), x * 2), torch.randn(2, 3))
    same_as_eager(lambda x: (x.unsqueeze_(0).add_(1), x + 1), torch.randn(2, 3))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: x.set_(torch.ones(7)), "gets another storage"),
        (lambda x: x.requires_grad_() * 2, "requires_grad of graph input 0 changes"),
        (lambda x: x.fill_(7).requires_grad_() * 2, "requires_grad of graph input 0 changes"),
        (lambda x: x.resize_(9), "gets another storage"),
        (lambda x: x.expand(2, 3).zero_(), "zero_ writes to memory that an expanded tensor shows several times"),
        (lambda x: x.expand(2, 3).__setitem__(0, 1.0), "__setitem__ writes to memory"),
    ],
)
def test_refused_in_one_sentence(program, message):
    with pytest.raises(aotgrad.Unsupported, match=message):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3))


@pytest.mark.parametrize("strides", [(1, 1), (0, 1)], ids=["overlapping", "expanded"])
def test_an_input_that_shows_memory_several_times_is_refused_where_it_is_changed(strides):
    x = torch.arange(4.0).as_strided((2, 3), strides)
    with pytest.raises(aotgrad.Unsupported, match=r"shows (memory )?several times"):
        aotgrad.function(lambda x: x.mul_(2), forward=aotgrad.run_eagerly)(x)
    assert torch.equal(aotgrad.function(lambda x: x * 2, forward=aotgrad.run_eagerly)(x), x * 2)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: x.to_sparse().to_dense() + 1, "_to_sparse.default has layout torch.sparse_coo"),
        (lambda x: torch._efficientzerotensor((3,)) + x, "_efficientzerotensor.default is all zeros"),
        (lambda x: torch.ones(3).to_sparse().to_dense() + x, "has layout torch.sparse_coo"),
    ],
)
def test_what_a_graph_cannot_hold_is_refused(program, message):
    with pytest.raises(aotgrad.Unsupported, match=message):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3))


@pytest.mark.parametrize(
    "x",
    [torch.ones(3).to_sparse(), torch._efficientzerotensor((3,)), torch.ones(3).to_mkldnn()],
    ids=["sparse", "zeros", "oneDNN"],
)
def test_an_argument_that_a_graph_cannot_hold_is_refused(x):
    with pytest.raises(aotgrad.Unsupported, match=r"argument 0 (has layout|is all zeros)"):
        aotgrad.function(lambda x: x + 1, forward=aotgrad.run_eagerly)(x)


def test_changing_a_tensor_that_is_no_input_is_refused():
    outside = torch.ones(3)
    with pytest.raises(aotgrad.Unsupported, match="not an input"):
        aotgrad.function(lambda x: outside.add_(1) + x, forward=aotgrad.run_eagerly)(torch.ones(3))


def test_closing_over_a_parameter_is_refused():
    weight = torch.ones(3, requires_grad=True)
    with pytest.raises(aotgrad.Unsupported, match="closes over a tensor that requires grad"):
        aotgrad.function(lambda x: weight * x, forward=aotgrad.run_eagerly)(torch.ones(3))


def test_outputs_from_outside_and_constants(same_as_eager):
    outside = torch.ones(3)
    same_as_eager(lambda x: (outside, torch.tensor([1.0, 2.0]), x + outside), torch.ones(3), times=1)


def test_two_calls_return_separate_constants():
    fn = aotgrad.function(lambda x: torch.tensor([1.0, 2.0]), forward=aotgrad.run_eagerly)
    fn(torch.ones(1)).add_(5)
    torch.testing.assert_close(fn(torch.ones(1)), torch.tensor([1.0, 2.0]))


def test_views_of_one_memory_without_mutation(same_as_eager):
    base = torch.randn(6, requires_grad=True)
    same_as_eager(lambda b: b[:3] * b[3:], base)
    halves = torch.randn(6)
    fn = aotgrad.function(lambda a, b: a * b, forward=aotgrad.run_eagerly)
    torch.testing.assert_close(fn(halves[:3], halves[3:]), halves[:3] * halves[3:])


def test_views_of_one_memory_with_mutation():
    def program(a, b):
        a.add_(1)
        return a * b, b

    ours, theirs = torch.arange(6.0), torch.arange(6.0)
    got = aotgrad.function(program, forward=aotgrad.run_eagerly)(ours[:4], ours[2:])
    want = program(theirs[:4], theirs[2:])
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(ours, theirs)


def test_another_aliasing_pattern_is_another_graph():
    def program(a, b):
        a.add_(1)
        return b * 1

    fn = aotgrad.function(program, forward=aotgrad.run_eagerly)
    pairs = [lambda x: (x[:3], x[:3]), lambda x: (x[:3], x[3:]), lambda x: (x[:3], x[1:4]), lambda x: (y := x[:3], y)]
    for make in (*pairs, *pairs):
        ours, theirs = torch.zeros(6), torch.zeros(6)
        torch.testing.assert_close(fn(*make(ours)), program(*make(theirs)))
        torch.testing.assert_close(ours, theirs)


def test_constants_that_compare_equal_are_told_apart():
    fn = aotgrad.function(lambda x, k: x * k, forward=aotgrad.run_eagerly)
    for k in (0.0, -0.0, 1, True, 1.0, 0):
        x = torch.ones(2)
        assert torch.equal(torch.signbit(fn(x, k)), torch.signbit(x * k))
        assert fn(x, k).dtype == (x * k).dtype


TRACKED = {
    "mul_": lambda x: x.mul_(2),
    "row": lambda x: x[1].mul_(3),
    "view": lambda x: x.t()[0].add_(1),
    "copy_": lambda x: x.copy_(x * 2),
    "zero_": lambda x: x[0].zero_(),
    "index": lambda x: x.__setitem__((slice(None), 2), x[:, 0]),
    "with no_grad": lambda x: (x.mul_(3), under_no_grad(x, lambda x: x.add_(1)), x.mul_(2)),
}


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("mutation", TRACKED)
def test_inputs_with_history(mutation, output):
    def program(x):
        TRACKED[mutation](x)
        return OUTPUTS[output](x)

    def outcome(fn):
        leaf = torch.linspace(-1, 1, 24).view(4, 6).requires_grad_()
        x = leaf * 1
        outputs = [o for o in pytree.tree_leaves(fn(x)) if isinstance(o, torch.Tensor)]
        followed = [o for o in [*outputs, x] if o.requires_grad]
        return outputs, x, torch.autograd.grad(followed, leaf, [torch.ones_like(o) for o in followed])

    torch.testing.assert_close(outcome(aotgrad.function(program, forward=aotgrad.run_eagerly)), outcome(program))


def test_a_new_layout_outlives_new_data(same_as_eager):
    """`masked_fill` returns its result in another layout than `masked_fill_` leaves behind."""
    same_as_eager(lambda x: x.t_().masked_fill_(x > 0.3, 0.0), torch.randn(2, 3))
    same_as_eager(lambda x: (x.t().masked_fill_(x.t() > 0.3, 0.0), x.view(6), x * 2), torch.randn(2, 3))
    same_as_eager(lambda x: (x.unsqueeze_(0).transpose_(0, 2), x.masked_fill_(x > 0.3, 0.0))[1], torch.randn(2, 3))
    same_as_eager(lambda x: (x.t_().masked_fill_(x > 0, 0.0), x[1:]), torch.randn(2, 3))


def test_a_detached_view_with_a_history_of_its_own_is_refused():
    fn = aotgrad.function(lambda x, y: x.detach().mul_(y.sum()), forward=aotgrad.run_eagerly)
    with pytest.raises(aotgrad.Unsupported, match="gets a history of its own"):
        fn(torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True))


OVERLAPS = {
    "a column of itself": lambda x: x.sub_(x[:, :1]),
    "itself turned round": lambda x: x[:, :2].add_(x[:, :2].t()),
    "a product into a factor": lambda x: torch.matmul(x[:, :2], x[:, :2].clone(), out=x[:, :2]),
    "rows of itself": lambda x: x.index_add_(0, torch.tensor([1, 1]), x),
}
APART = {
    "the column before": lambda x: x[:, 1].add_(x[:, 0]),
    "every other column": lambda x: x[:, 0::2].mul_(x[:, 1:2]),
    "the very same": lambda x: x.mul_(x),
    "the row above": lambda x: x[1].add_(x[0]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_what_is_read_where_it_is_written_is_refused(name):
    """Eager's kernels read it while they write, or refuse."""
    with pytest.raises(aotgrad.Unsupported, match="reads memory that it writes"):
        aotgrad.function(OVERLAPS[name], forward=aotgrad.run_eagerly)(torch.arange(6.0).view(2, 3))


@pytest.mark.parametrize("name", APART)
def test_what_is_read_beside_what_is_written_is_compiled(name, same_as_eager):
    same_as_eager(APART[name], torch.arange(6.0).view(2, 3))


def test_what_is_read_where_it_is_written_by_an_operator_is_refused():
    def program(x):
        x -= x[:, :1]
        return x

    with pytest.raises(aotgrad.Unsupported, match="reads memory that it writes"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.arange(6.0).view(2, 3))


def test_a_view_of_one_of_several_inputs_that_share_memory():
    """What the caller does to it reaches that input, with its history."""
    memory, w = torch.zeros(6), torch.ones(4, requires_grad=True)
    first, second = memory[:4].detach(), memory[1:6].detach()

    def program(a, b):
        a.add_(1)
        return b[1:]

    view = aotgrad.function(program, forward=aotgrad.run_eagerly)(first, second)
    view.mul_(w)
    assert second.requires_grad
    assert not first.requires_grad
    with pytest.raises(aotgrad.Unsupported, match="not clear of which"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(memory.view(-1), memory)


@pytest.mark.parametrize("program", [
    lambda x: x.masked_fill(x > 0, -1e9),
    lambda x: torch.full_like(x, 7e4),
    lambda x: torch.nn.functional.threshold(x, 0, 1e9),
    lambda x: torch.add(x, x, alpha=1e9),
])  # fmt: skip
def test_a_number_too_large_for_a_type_is_eagers_to_refuse(program):
    with pytest.raises(RuntimeError, match=r"cannot be converted to type .* without overflow"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3).half())


def test_a_number_that_eager_takes_for_infinity_is_infinity(same_as_eager):
    same_as_eager(lambda x: x * 1e9, torch.ones(3).half())
