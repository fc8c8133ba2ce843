"""Programs that switch gradients on and off themselves, called in either mode: who has a history is as in eager."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import aotgrad


def enabled(fn, *args):
    with torch.enable_grad():
        return fn(*args)


def disabled(fn, *args):
    with torch.no_grad():
        return fn(*args)


def changed(x, w):
    y = x * 2
    enabled(lambda: y.mul_(w))
    return y


PROGRAMS = {
    "a product with gradients": lambda x, w: enabled(lambda: (x @ w).sin()),
    "before and after it none": lambda x, w: (x @ w, enabled(lambda: x @ w), x * 2),
    "read without": lambda x, w: enabled(torch.matmul, x, w) * 2,
    "the rest with": lambda x, w: (disabled(torch.matmul, x, w).sum(), enabled(lambda: (x * w).cos())),
    "views": lambda x, w: (x[0], enabled(lambda: x[1] * 1), enabled(lambda: x.t())),
    "a view of a result": lambda x, w: (lambda y: (y, y[0], enabled(lambda: y[1])))(enabled(torch.matmul, x, w)),
    "a view without": lambda x, w: (lambda y: (y, disabled(lambda: y[0]), y[1:2]))(enabled(torch.matmul, x, w)),
    "the whole of it without": lambda x, w: (lambda y: (y, disabled(lambda: torch.ops.aten.alias(y))))(
        enabled(torch.matmul, x, w)
    ),
    "a view of an input without": lambda x, w: (disabled(lambda: w[0]), w[1]),
    "only a view of an input": lambda x, w: (x * 2, enabled(lambda: w[1:])),
    "in place": changed,
    "only the mode": lambda x, w: enabled(lambda: x),
    "gradients taken": lambda x, w: enabled(lambda: torch.autograd.grad((x * w).sin().sum(), w)[0]),
    "gradients taken and more": lambda x, w: (
        enabled(lambda: torch.autograd.grad((x * w).sin().sum(), w)[0]),
        enabled(lambda: x * w),
    ),
}


@pytest.mark.parametrize("leaf", [True, False], ids=["leaf", "no leaf"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_history_is_as_in_eager(same_as_eager, mode, name, leaf):
    x, w = torch.rand(4, 4), torch.rand(4, 4, requires_grad=True)

    def within(fn):
        return lambda x, w: mode()(fn)(x, w if leaf else enabled(lambda: w * 1))

    same_as_eager(PROGRAMS[name], x, w, within=within)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_the_callers_mode_stays(mode):

    call = aotgrad.function(lambda x: enabled(lambda: x * 2), forward=aotgrad.run_eagerly)
    with mode():
        before = torch.is_grad_enabled()
        assert call(torch.ones(2, requires_grad=True)).requires_grad
        assert torch.is_grad_enabled() == before


def test_a_graph_that_fails_within_modes_leaves_them():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.float16, True, True))
    graph.call_function(torch.autograd.grad_mode._enter_inference_mode, (True,))
    graph.output(graph.call_method("tolist", (x,)))
    gm, x = torch.fx.GraphModule({}, graph), torch.ones(3)
    with pytest.raises(aotgrad.Unsupported):
        aotgrad.compile(gm, [x], forward=aotgrad.run_eagerly)
    assert (torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()) == (False, False)


def test_a_graph_that_fails_without_gradients_leaves_grad_mode():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.output(graph.call_method("tolist", (x,)))
    with pytest.raises(aotgrad.Unsupported):
        aotgrad.compile(torch.fx.GraphModule({}, graph), [torch.ones(3)], forward=aotgrad.run_eagerly)
    assert torch.is_grad_enabled()


LEAVES = {
    "alone": lambda x, w: (x.clone().requires_grad_() * 2).sum(),
    "made beside an input": lambda x, w: (lambda leaf: (leaf, leaf * w))(x.clone().requires_grad_()),
    "and given": lambda x, w: (lambda leaf: (leaf, leaf * x))(x.detach().clone().requires_grad_()),
    "alone, and an argument is written to": lambda x, w: x.add_(x.clone().requires_grad_()).sum().detach(),
    "alone, and a part is written to": lambda x, w: x[0].mul_(x[0].clone().requires_grad_()).detach().sum(),
}


@pytest.mark.parametrize("name", LEAVES)
def test_what_is_made_within_and_wants_a_gradient_is_refused(name):
    x, w = torch.rand(4, 4), torch.rand(4, 4, requires_grad="alone" not in name)
    with pytest.raises(aotgrad.Unsupported, match="made within the graph requires grad"):
        aotgrad.compile(torch.fx.symbolic_trace(LEAVES[name]), [x, w], forward=aotgrad.run_eagerly)(x, w)


def test_a_gradient_taken_within_of_what_is_made_there_is_compiled(same_as_eager):
    def slope(x):
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(leaf.sin().sum(), leaf)[0]

    same_as_eager(slope, torch.rand(4), within=lambda fn: lambda x: enabled(fn, x))


def test_what_a_program_makes_in_inference_mode_is_of_it():
    def program(x):
        with torch.inference_mode():
            return x * 2, x + 1

    x = torch.ones(3)
    for result in aotgrad.function(program, forward=aotgrad.run_eagerly)(x):
        assert result.is_inference()
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            result.add_(1)


def test_inference_mode_records_no_gradients_that_are_switched_on_within(same_as_eager):
    def program(x, w):
        y = x * w
        with torch.inference_mode(), torch.enable_grad():
            y.add_(w)
        return y * w

    same_as_eager(program, torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True))


def test_a_view_that_a_program_makes_with_gradients_where_they_are_off():
    def program(x):
        with torch.enable_grad():
            return x[0]

    x, w = torch.ones(2, 3), torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = aotgrad.function(program, forward=aotgrad.run_eagerly)(x)
    view.mul_(w)
    assert x.requires_grad


@pytest.mark.parametrize(
    "program",
    [lambda x: torch.zeros(3), lambda x: torch.rand(3), lambda x: x + 1, lambda x: (x + 1).add_(1).mul_(2)],
    ids=["zeros", "rand", "computed", "written"],
)
def test_results_have_been_written_as_often_as_in_eager(program):
    x = torch.ones(3)
    assert aotgrad.function(program, forward=aotgrad.run_eagerly)(x)._version == program(x)._version


def test_a_result_is_no_view_of_what_nobody_has():
    x, weight = torch.ones(3), torch.ones(2, 3)
    result = aotgrad.function(torch.nn.functional.linear, forward=aotgrad.run_eagerly)(x, weight)
    result.detach_()  # which torch refuses for views


def test_what_is_made_in_inference_mode_is_not_changed_outside_of_it():
    def program(x):
        with torch.inference_mode():
            made = x * 2
        F.relu(made, inplace=True)
        return made

    with pytest.raises(aotgrad.Unsupported, match="made in inference mode"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(torch.ones(3))


MADE = {
    "computed": lambda x, w: x + 1,
    "from a parameter": lambda x, w: x * w,
    "from nothing": lambda x, w: torch.full((0,), 2.0),
    "a view of it": lambda x, w: (x + 1)[0],
    "conjugate": lambda x, w: torch.complex(x, x).conj(),
    "a view of an input": lambda x, w: x[0],
    "a view of a parameter": lambda x, w: w[1:],
}
OTHERS = {
    "nothing": lambda x, w: (),
    "computed": lambda x, w: (x * 2,),
    "followed": lambda x, w: (w * 2, x + 1),
    "a write": lambda x, w: (x.add_(1), w * 2),
}


def as_written_to(result):
    """What kind of tensor it is, and what becomes of a write to it."""
    version = None if result.is_inference() else result._version
    try:
        return result.is_inference(), version, result.add_(1).tolist()
    except RuntimeError as error:
        return result.is_inference(), version, str(error)


@pytest.mark.parametrize("caller", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("made", MADE)
def test_each_result_is_of_the_inference_mode_that_it_is_made_in(made, other, caller):
    def program(x, w):
        with torch.inference_mode(caller is not torch.inference_mode), torch.no_grad():
            first = MADE[made](x, w)
        return first, *OTHERS[other](x, w)

    seen = []
    for function in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        x, w = torch.ones(2, 3), torch.ones(3, requires_grad=True)
        with caller():
            results = function(x, w)
        seen.append([as_written_to(result) for result in results[1:] + results[:1]])
    assert seen[0] == seen[1]


def test_gradients_recorded_where_an_inference_mode_is_left_are_refused():
    def program(w):
        with torch.inference_mode(False):
            return w * 2

    w = torch.ones(3, requires_grad=True)
    with torch.inference_mode(), pytest.raises(aotgrad.Unsupported, match="inference mode is left"):
        aotgrad.function(program, forward=aotgrad.run_eagerly)(w)


MADE_WITHOUT = {
    "a row": lambda x, w: disabled(lambda: (x * 2)[0]),
    "turned": lambda x, w: disabled(lambda: (x * w).t()),
    "not a view": lambda x, w: disabled(lambda: x * 2),
    "detached": lambda x, w: disabled(lambda: (x * 2)[0].detach()),
    "with gradients": lambda x, w: (x * 2)[0],
    "a gradient": lambda x, w: torch.autograd.grad(w.sum(), w)[0],
    "the gradient of a weight": lambda x, w: torch.autograd.grad(F.linear(x, w).sum(), w)[0],
}


@pytest.mark.parametrize("made", MADE_WITHOUT)
@pytest.mark.parametrize("more", [False, True])
def test_a_view_that_was_made_without_gradients_refuses_to_be_written_to_with_them(made, more):
    def program(x, w):
        result = MADE_WITHOUT[made](x, w)
        return (result, w * 2) if more else (result,)

    found = []
    for function in (program, aotgrad.function(program, forward=aotgrad.run_eagerly)):
        x, w = torch.ones(2, 3), torch.ones(2, 3, requires_grad=True)
        result = function(x, w)[0]
        try:
            found.append(result.mul_(w.sum()).requires_grad)
        except RuntimeError as error:
            found.append(str(error))
    assert found[1] == found[0]


def test_a_refusal_within_a_checkpoint_ends_the_modes_in_it():
    """What torch had on while it was traced stayed on, and nothing could make a tensor any more."""

    inner = torch.fx.Graph()
    x, w = inner.placeholder("x"), inner.placeholder("w")
    handle = inner.call_function(torch.autograd.grad_mode._enter_inference_mode, (True,))
    inner.call_function(torch._foreach_mul_, ([w, w], 2.0))
    inner.call_function(torch.autograd.grad_mode._exit_inference_mode, (handle,))
    inner.output(inner.call_function(torch.mul, (x, 2)))
    graph, root = torch.fx.Graph(), torch.nn.Module()
    root.region = torch.fx.GraphModule(root, inner)
    x, w = graph.placeholder("x"), graph.placeholder("w")
    called = graph.call_function(checkpoint, (graph.get_attr("region"), x, w), {"use_reentrant": False})
    graph.output((called,))
    with pytest.raises(aotgrad.Unsupported, match="share memory"):
        aotgrad.compile(torch.fx.GraphModule(root, graph), [torch.ones(3), torch.ones(3)], forward=aotgrad.run_eagerly)
    assert torch.full((2,), 1).tolist() == [1, 1]


_PARTS = {
    "row": lambda t: t[0],
    "rows": lambda t: t[1:],
    "flat": lambda t: t.reshape(-1),
    "turned": lambda t: t.transpose(0, -1),
    "spread": lambda t: t.expand(2, *t.shape),
    "one of several": lambda t: t.unbind()[1],
}


@pytest.mark.parametrize("before", ["nothing", "row", "turned"])
@pytest.mark.parametrize("then", [name for name in _PARTS if name != "one of several"])
@pytest.mark.parametrize("first", _PARTS)
def test_a_view_with_gradients_of_a_view_without_has_its_own_history(first, then, before):
    def program(y):
        whole = y if before == "nothing" else _PARTS[before](y)
        with torch.no_grad():
            apart = _PARTS[first](whole)
        return _PARTS[then](apart), apart

    def seen(function, leaf):
        given = torch.arange(27.0).view(3, 3, 3).clone().requires_grad_()
        results = function(given if leaf else given * 1)
        facts = [(each.requires_grad, each.is_leaf, each._is_view(), each.grad_fn is None) for each in results]
        if results[0].requires_grad:
            results[0].sum().backward()
        return facts, given.grad

    compiled = aotgrad.function(program, forward=aotgrad.run_eagerly)
    for leaf in (True, False):
        assert seen(compiled, leaf) == seen(program, leaf)
