"""What autograd sees of a compiled function is what it sees of the function: versions, histories, who is used twice.

Every way of writing, in every grad mode, on tensors alone and on tensors that share memory.
"""

import contextlib

import pytest
import torch

import aotgrad
from aotgrad.calling.result_versions import with_versions

MODES = {"grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
GIVEN = {
    "apart": lambda: torch.ones(3, 3),
    "a view": lambda: torch.ones(4, 3)[1:],
    "a view of a leaf": lambda: torch.ones(4, 3, requires_grad=True)[1:],
    "a result": lambda: torch.ones(3, 3, requires_grad=True) * 2,
}
WRITES = """
x.data.add_(1)
x.data.add_(1); x.add_(1)
x.add_(1); x.mul_(2)
x.detach().zero_()
x.data.view(-1)[:2].fill_(3)
x.detach()[1:].mul_(2); x.data.neg_()
x.add_(w)
x.mul_(2); x.data.add_(w)
x[:0].add_(1)
x.view(-1).add_(1); x[0] = 5
x.copy_(w)
x.data.copy_(w)
x.data = w.detach()
torch._foreach_mul_([x], 2)
""".strip().splitlines()


def seen(tensors):
    return (
        [*map(made, tensors)],
        [None if t.is_inference() else t._version for t in tensors],
        [t.tolist() for t in tensors],
    )


def made(tensor):
    try:
        return tensor.requires_grad, tensor.requires_grad and tensor.grad_fn is not None
    except RuntimeError as error:
        return str(error)


def after(call, make, mode):
    """What is seen of the arguments, and of the result, or what was raised."""
    given = [*make(), torch.full((3, 3), 0.5, requires_grad=True)]
    with MODES[mode]():
        try:
            result = call(*given)
        except aotgrad.Unsupported:  # run as it is, it is what it is
            return None
        except RuntimeError as error:
            return str(error)
    return seen(given), seen([result])[::2]


def in_text(text, arguments):
    scope = {}
    exec(f"def f({arguments}, w):\n    {text}\n    return w * 2\n", {"torch": torch}, scope)
    return scope["f"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("text", WRITES)
def test_a_write_is_counted_as_often_as_in_eager(text, given, mode):
    f, make = in_text(text, "x"), lambda: [GIVEN[given]()]
    found = after(aotgrad.function(f, forward=aotgrad.run_eagerly), make, mode)
    assert found is None or found == after(f, make, mode)


def views():
    memory = torch.ones(3, 3)
    return [memory, memory.view(-1)]


def data():
    memory = torch.ones(3, 3)
    return [memory, memory.data.view(-1)]


@pytest.mark.parametrize("make", [views, data])
@pytest.mark.parametrize("text", ["x.add_(1)", "x.add_(1); y.mul_(2); y.add_(1)", "x.data.add_(1); y[0] = 4"])
def test_writes_to_memory_that_is_shared_are_counted(text, make):
    f = in_text(text, "x, y")
    assert after(aotgrad.function(f, forward=aotgrad.run_eagerly), make, "grad") == after(f, make, "grad")


@pytest.mark.parametrize("text", ["x.add_(w)", "y.mul_(2); x.copy_(w)", "y[:9:3].add_(w[0])"])
def test_shared_memory_that_gets_a_history_is_left_to_eager(text):
    f = aotgrad.function(in_text(text, "x, y"), forward=aotgrad.run_eagerly)
    with pytest.raises(aotgrad.Unsupported, match="share memory"):
        f(*views(), torch.ones(3, 3, requires_grad=True))


COUNTED = {"increment": "torch.autograd.graph.increment_version(y)", "t_": "y.t_()", "unsqueeze_": "y.unsqueeze_(0)"}
SAVED = {"w": "w.sin()", "x": "w * x"}


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("saved", SAVED)
@pytest.mark.parametrize("counted", COUNTED)
def test_what_is_counted_in_shared_memory_though_nothing_is_written(counted, saved, inside):
    """Autograd saved another tensor of the same memory, and refuses."""
    scope, result = {"torch": torch}, "torch.autograd.grad(h.sum(), w)[0]" if inside else "h"
    exec(f"def f(w, x, y):\n    h = {SAVED[saved]}\n    {COUNTED[counted]}\n    return {result}", scope)
    w, x = torch.ones(2, requires_grad=True), torch.ones(2)
    shared = w.detach() if saved == "w" else x.detach()
    with pytest.raises(aotgrad.Unsupported, match=r"shares? memory|modified by an inplace operation"):
        aotgrad.function(scope["f"], forward=aotgrad.run_eagerly)(w, x, shared)


def test_a_write_through_data_between_forward_and_backward():
    weight = torch.nn.Parameter(torch.tensor([1.0, 4.0]))
    loss = weight.square().sum()
    aotgrad.function(lambda w: w.data.clamp_(max=2.0), forward=aotgrad.run_eagerly)(weight)
    loss.backward()
    assert weight.grad.tolist() == [2.0, 4.0]


OUTPUTS = """
x.data
x.detach()
x[1:]
x.view(-1)
x.data[1:]
x.data.view(-1)[2:]
x.detach().view(-1)
x.view(-1).detach()
x.detach().data
without(lambda: x.view(-1))
without(lambda: x.data[1:])
without(lambda: x.detach()[1:])
without(lambda: x[1:].detach())
(x * 2).view(-1)
(x * 2).detach()
x.mul_(2)[1:]
x.mul_(2).data
x.mul_(2).detach()[1:]
[y := x * 2, y.data]
[y := x * 2, y.detach()]
[y := x * 2, y[1:], without(lambda: y[2:])]
[y := x * w, y.detach(), y.data[1:]]
""".strip().splitlines()


def without(view):
    with torch.no_grad():
        return view()


def used(call, make, mode):
    """What becomes of arguments and results when each result is changed, with a history and without one."""
    found = []
    for change in (lambda t: t.add_(torch.ones((), requires_grad=True)), lambda t: t.data.add_(1), lambda t: t.mul_(2)):
        given = [*make(), torch.full((3, 3), 0.5, requires_grad=True)]
        with MODES[mode]():
            try:
                results = call(*given)
            except aotgrad.Unsupported:
                return None
            except RuntimeError as error:
                return str(error)
        for result in results if isinstance(results, (list, tuple)) else [results]:
            try:
                change(result)
            except RuntimeError as error:  # names functions of ours and of torch's
                found.append(str(error).split(". ")[0].partition(" is a view")[2])
            found.append(seen([*given[:-1], result]))
    return found


OF_RESULTS = [text for text in OUTPUTS if "x *" in text]  # made without gradients they have none of a view's rules


@pytest.mark.parametrize(
    ("text", "mode"),
    [(text, mode) for text in OUTPUTS for mode in ("grad", "no_grad")[: 1 if text in OF_RESULTS else 2]],
)
@pytest.mark.parametrize("given", GIVEN)
def test_what_is_returned_can_be_changed_as_in_eager(text, given, mode):
    scope = {"without": without}
    exec(f"def f(x, w):\n    return {text}\n", scope)
    make = lambda: [GIVEN[given]()]
    found = used(aotgrad.function(scope["f"], forward=aotgrad.run_eagerly), make, mode)
    assert found is None or found == used(scope["f"], make, mode)


def test_what_drops_nothing_is_what_was_given():
    f = aotgrad.function(
        lambda x: torch.nn.functional.dropout(x, training=False), forward=aotgrad.run_eagerly, dynamic=True
    )
    x = torch.ones(5, 3)
    assert f(x) is x


@pytest.mark.parametrize(("asked", "refused"), [("[w, y]", True), ("w", True), ("y", False), ("[z, y]", False)])
def test_a_gradient_that_goes_on_beyond_the_graph_is_left_to_eager(asked, refused):
    scope = {"torch": torch}
    gradient = f"torch.autograd.grad(z.square().sum(), {asked}, allow_unused=True)[0]"
    exec(f"def f(y, w):\n    z = y * 2\n    return {gradient}", scope)
    w = torch.ones(3, 3, requires_grad=True)
    f = aotgrad.function(scope["f"], forward=aotgrad.run_eagerly)
    if refused:
        with pytest.raises(aotgrad.Unsupported, match="history of an input"):
            f(w[:1], w)
    else:
        assert torch.equal(f(w[:1], w), scope["f"](w[:1], w))


def test_a_member_of_shared_memory_is_followed_where_the_program_says_so():
    def f(x, w):
        x.add_(1)
        with torch.enable_grad():
            return w * 2

    w = torch.ones(4, requires_grad=True)
    with torch.no_grad(), pytest.raises(aotgrad.Unsupported, match="share memory"):
        aotgrad.function(f, forward=aotgrad.run_eagerly)(w.data[:2], w)


def test_a_result_beside_an_update_keeps_its_gradient_and_is_written_to():
    """Torch asserts where that is the second result of a node."""

    def program(x, count):
        count.add_(1)
        return x * 2

    x = torch.ones(3, requires_grad=True)
    result = aotgrad.function(program, forward=aotgrad.run_eagerly)(x, torch.zeros(()))
    result.retain_grad()
    result += 1
    result.sum().backward()
    assert (result.grad.tolist(), x.grad.tolist()) == ([1.0] * 3, [2.0] * 3)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_view_that_counts_fewer_writes_than_were_made_still_knows_where_it_comes_from(writes):
    """A view asks its base again where it finds another version than it noted."""
    base, weight = torch.ones(4), torch.tensor(2.0, requires_grad=True)
    for _ in range(writes):
        base.add_(1)
    (view,) = with_versions([base.view(2, 2)], [0])
    assert view._version == base._version == 0
    for _ in range(writes):
        view.mul_(weight)
    assert torch.autograd.grad(view.sum(), weight)[0] == 4 * (1 + writes) * writes * 2 ** (writes - 1)
