"""Checkpoints in captured code: one graph, eager's gradients, and activations that are not kept."""

import copy
import warnings

import pytest
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import capture
from capture.recording.saved_tensors import innermost


class Layered(torch.nn.Module):
    def __init__(self, *, reentrant=False, nested=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.norm = torch.nn.BatchNorm1d(8)
        self.reentrant, self.nested = reentrant, nested

    def block(self, x, *, layer, scale=1.0):
        y = layer(x) * scale
        if self.nested:
            y = checkpoint(torch.nn.functional.gelu, y, use_reentrant=self.reentrant)
        return y.sin(), torch.nn.functional.dropout(y, 0.5)

    def forward(self, x):
        for layer in self.layers:
            one, other = checkpoint(lambda t, layer=layer: self.block(t, layer=layer), x, use_reentrant=self.reentrant)
            x = one + other.relu()
        return self.norm(x)


def step(model, call):
    torch.manual_seed(3)
    x = torch.linspace(-1, 1, 32).reshape(4, 8).requires_grad_()
    loss = call(x).square().sum()
    loss.backward()
    return [loss, x.grad, *(p.grad for p in model.parameters()), *model.buffers()]


@pytest.mark.parametrize(("reentrant", "nested"), [(False, False), (False, True), (True, False)])
def test_gradients_are_eagers_and_nothing_breaks(reentrant, nested, same):
    model = Layered(reentrant=reentrant, nested=nested)
    other = copy.deepcopy(model)
    found = step(other, capture.optimize("eager", nopython=True)(other))
    same([t.detach() for t in step(model, model)], [t.detach() for t in found])


def kept_for_backward(call):
    kept = set()

    def pack(tensor):
        kept.add(tensor.data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call(torch.randn(4, 8, requires_grad=True))
    return len(kept)


def test_what_is_computed_inside_is_not_kept():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(4)))
    plain = capture.optimize("eager")(lambda x: model(x).sum())
    thrifty = capture.optimize("eager")(lambda x: checkpoint_sequential(model, 4, x, use_reentrant=False).sum())
    assert kept_for_backward(thrifty) < kept_for_backward(plain)


def test_without_gradients_nothing_is_to_be_run_again():
    with torch.no_grad():
        seen = capture.explain(Layered())(torch.ones(4, 8))
    assert "checkpoint" not in seen.graphs[0].operators


def test_what_backward_does_again_to_the_functions_own_list_is_cpythons(check):
    def function(x):
        seen = []

        def inner(t):
            seen.append(t * 2)
            return t.sin()

        (checkpoint(inner, x, use_reentrant=False) + seen[0].sum()).sum().backward()
        return seen, x.grad

    check(function, torch.ones(3, requires_grad=True), breaks=2)


def test_effects_on_older_objects_are_cpythons(check):
    def inner(t, seen):
        seen.append(len(seen))
        return t.sin()

    def function(x, seen):
        return checkpoint(inner, x * 1, seen, use_reentrant=False) + 1

    check(function, torch.ones(3, requires_grad=True), [], graphs=2, breaks=1)


@pytest.mark.without_graphs("CPython runs it")
def test_a_region_that_goes_backward_is_run_by_cpython():
    """It would be run again within its own backward, and what it changes with it."""

    def program(x, flips, w):
        def inner(t):
            flips.logical_not_()
            w.square().mean().backward()
            return t * 2

        return checkpoint(inner, x, use_reentrant=False)

    def run(function):
        x, flips, w = torch.ones(3, requires_grad=True), torch.tensor([True]), torch.ones(3, requires_grad=True)
        return function(x, flips, w), flips, w.grad

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actual = run(capture.optimize("eager")(program))
    assert all(map(torch.equal, actual, run(program)))


@pytest.mark.parametrize("asked", ["grad", "inputs", "other"])
def test_torch_refuses_chosen_gradients_past_a_reentrant_checkpoint(asked):
    def step(w, v):
        loss = (checkpoint(torch.tanh, w, use_reentrant=True) + v).sum()
        try:
            if asked == "inputs":
                loss.backward(inputs=[w])
            else:
                return torch.autograd.grad(loss, [w] if asked == "grad" else [v])
        except RuntimeError as error:
            return str(error)

    leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    assert str(capture.optimize("eager", strict=True)(step)(*leaves)) == str(step(*leaves))


@pytest.mark.without_graphs("CPython runs what gives a history to what has none", cases=["0", "1", "2", "4"])
@pytest.mark.parametrize("inner", [
    lambda t: t.detach() * 2,
    lambda t: (t.sin(), t.detach().cos()),
    lambda t: torch.no_grad()(torch.sin)(t),
    lambda t: (t > 0, t.argmax(), t * 2),
    lambda t: torch.ones(3),
], ids=range(5))  # fmt: skip
def test_results_of_a_reentrant_one_have_gradients_or_backward_says_so(inner):
    def function(x):
        results = checkpoint(inner, x, use_reentrant=True)
        results = results if isinstance(results, tuple) else (results,)
        return [(each.requires_grad, each.grad_fn is None) for each in results], results

    expected, eagers = function(torch.ones(3, requires_grad=True))
    found, ours = capture.optimize("eager", strict=True)(function)(torch.ones(3, requires_grad=True))
    assert found == expected
    assert [outcome_of_backward(each) for each in ours] == [outcome_of_backward(each) for each in eagers]


def outcome_of_backward(result):
    if not result.requires_grad:
        return None
    try:
        return result.sum().backward()
    except RuntimeError as error:
        return str(error)


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_list_grows_behind_a_function_of_its_own_within_a_checkpoint():
    seen = []

    def inside(x):
        x = Twice.apply(x)
        seen.append(x.shape)
        return x.sin()

    def f(x):
        return checkpoint(inside, x, use_reentrant=False).sum()

    x = torch.ones(3, requires_grad=True)
    capture.optimize("eager", strict=True)(f)(x)
    assert seen == [(3,)]


def rebound(x):
    w = x.sin()
    y = checkpoint(lambda t: t * w, x, use_reentrant=False)
    w = w * 3
    return (y + w).sum()


def rebound_by_the_result(x):
    c = x * 1
    c = checkpoint(lambda t: t * c, c, use_reentrant=False)
    return c.sum()


def rebound_in_a_loop(x):
    for scale in (1.0, 2.0, 3.0):
        x = checkpoint(lambda t: t.sin() * scale, x, use_reentrant=False)
    return x.sum()


def rebound_within(x):
    count = 0

    def inside(t):
        nonlocal count
        count += 1
        return t.exp() * count

    return checkpoint(inside, x, use_reentrant=False).sum()


def kept(x):
    w = x.sin()
    return checkpoint(lambda t: t * w, x, use_reentrant=False).sum()


@pytest.mark.parametrize("f", [rebound, rebound_by_the_result, rebound_in_a_loop, rebound_within, kept])
def test_backward_reads_the_closure_as_it_is_by_then(f):
    log = capture.Log()
    captured = capture.optimize("eager", log=log)(f)
    for _ in range(2):
        x, y = (torch.linspace(0.5, 2, 3, requires_grad=True) for _ in range(2))
        f(x).backward()
        captured(y).backward()
        assert torch.equal(x.grad, y.grad)
    assert f is not kept or not [record for record in log.records() if isinstance(record, capture.BreakRecord)]


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_within_a_region_ends_where_that_raises(mode):
    def region(x, m):
        with MODES[mode]():
            factor = torch.linalg.inv(m)
        return x * factor.sum()

    compiled = capture.optimize("eager")(lambda x, m: checkpoint(region, x, m, use_reentrant=False))
    x = torch.ones(3, requires_grad=True)
    compiled(x, torch.eye(2))
    with pytest.raises(RuntimeError, match="singular"):
        compiled(x, torch.zeros(2, 2))
    assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (True, False)
    assert not torch.is_autocast_enabled("cpu")


def as_it_is(tensor):
    return tensor


def test_hooks_end_while_a_function_is_compiled(monkeypatch):
    """Those of a checkpoint that raised end when its exception is freed: when the compiler collects garbage, say."""
    monkeypatch.setattr(as_it_is, "__module__", "torch.utils.checkpoint")

    def region():
        with torch.autograd.graph.saved_tensors_hooks(as_it_is, as_it_is):
            yield

    regions = [region()]
    next(regions[0])

    def backend(graph, examples):
        regions.clear()
        return graph

    assert innermost() is not None
    capture.optimize(backend)(lambda x: x * 2)(torch.ones(3, requires_grad=True))
    assert innermost() is None


def test_a_backend_has_hooks_of_its_own_called_and_none_from_before(monkeypatch):
    """A backend that follows autograd runs the graph's checkpoints, whose hooks say what is to be computed again."""
    monkeypatch.setattr(as_it_is, "__module__", "torch.utils.checkpoint")
    kept = []

    def backend(graph, examples):
        examples[0].exp()
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append("own") or saved, as_it_is):
            examples[0].exp()
        return graph

    def outer(saved):
        kept.append("outer")
        return saved

    monkeypatch.setattr(outer, "__module__", "torch.utils.checkpoint")
    x = torch.ones(3, requires_grad=True)
    capture.optimize(backend)(lambda x: x + 1)(x)
    with torch.autograd.graph.saved_tensors_hooks(outer, as_it_is):
        capture.optimize(backend)(lambda x: x + 2)(x)
    assert kept == ["own", "own"]


@pytest.mark.without_graphs("CPython runs what gives zeros to what nobody used", cases=["False-0", "False-1"])
@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("inside", [True, False])
def test_what_an_unused_result_of_a_reentrant_one_hangs_on_gets_zeros(used, inside):
    """To torch it is one function of all its arguments, and zeros arrive for what nobody used."""

    def function(w, v):
        result = checkpoint(lambda a, b: (a.sin(), b.cos()), w, v, use_reentrant=True)[used]
        if inside:
            result.sum().backward()
        return result

    def gradients(call):
        w, v = (torch.ones(2, requires_grad=True) for _ in range(2))
        result = call(w, v)
        if not inside:
            result.sum().backward()
        return [w.grad.tolist(), v.grad.tolist()]

    assert gradients(capture.optimize("eager")(function)) == gradients(function)


def test_one_checkpoint_is_given_what_another_returned_and_reads_none_of_it():
    def function(x, w):
        t = checkpoint(torch.sin, x, use_reentrant=False)
        return checkpoint(lambda t: w * 2, t, use_reentrant=False)

    x, w = torch.ones(2), torch.ones(2, requires_grad=True)
    assert capture.optimize("eager", strict=True)(function)(x, w).tolist() == function(x, w).tolist()
