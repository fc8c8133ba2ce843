"""A compiled graph for inference goes through JSON text and computes the same, without tracing."""

import json
import subprocess
import sys

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

import aotgrad
import aotgrad.pipeline


def several(x, y):
    first, second = x.unbind(0)
    return first, second, x.t(), x, 3, x + y


def writes(x, y):
    x.mul_(2)
    return x.view(-1), y[1:] + x.sum()


def twice(x, y):
    z = (x + y).t()
    return z, z, z[0]


def draws(x, y):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(y)


def inside(x, y):
    y.add_(x)
    with torch.enable_grad():
        return y.expand(2, 2, 3)


PROGRAMS = [several, writes, twice, draws, inside]


def described(program, x, y, **options):
    graphs = {}

    def of_compiled(compiled):
        graphs["it"] = compiled
        return "it"

    graph = fx.symbolic_trace(program)
    compiled = aotgrad.compile(graph, [x, y], forward=aotgrad.run_eagerly, describable=True, **options)
    graphs["whole"] = compiled
    return aotgrad.describe(compiled, of_compiled), graphs.get


def fresh():
    return torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


def observed(call, arguments):
    torch.manual_seed(3)
    results = call(*arguments)
    seen = [(r.stride(), r.grad_fn is None, r._is_view()) for r in results if isinstance(r, torch.Tensor)]
    same = [[a is b for b in (*results, *arguments)] for a in results]
    bases = [any(r._base is a for a in arguments) for r in results if isinstance(r, torch.Tensor)]
    versions = [a._version for a in arguments if not a.is_inference()]
    return [*results, *arguments], seen, same, bases, versions, torch.get_rng_state().tolist()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("program", PROGRAMS)
def test_restored_as_eager(program, mode, in_place, monkeypatch):
    with mode():
        data, take_up = described(program, *fresh(), in_place=in_place)
        monkeypatch.setattr(aotgrad.pipeline, "trace", None)
        call = aotgrad.restore(json.loads(json.dumps(data)), take_up=take_up)
        result = program(*fresh())
        eager = program if isinstance(result, tuple) else lambda *args: (program(*args),)
        (ours, *seen), (theirs, *expected) = observed(call, fresh()), observed(eager, fresh())
        _, *original = observed(take_up("whole"), fresh())
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert seen == original
    if not in_place:  # a graph that writes by itself is counted as writing twice, restored or not
        assert seen == expected
    assert call.all_or_nothing


def places(value):
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def test_data_that_was_changed_is_not_taken_up():
    with torch.no_grad():
        data, take_up = described(writes, *fresh())
        for holder, key in list(places(data)):
            for other in (None, "x", -7, 0.5, [], {}, {"o": "aten"}):
                kept, holder[key] = holder[key], other
                assert kept == other or aotgrad.restore(data, take_up=take_up) is None
                holder[key] = kept
        assert aotgrad.restore(data, take_up=take_up) is not None
    assert aotgrad.restore(None, take_up=take_up) is None
    assert aotgrad.restore(data, take_up=lambda _: None) is None


def test_what_has_no_form_as_data_is_refused():
    x, y = fresh()
    own = torch.ones(3)
    data, _ = described(lambda x, y: x * y + own, x.requires_grad_(), y)
    assert data == aotgrad.Refusal("it holds a tensor of its own")
    with torch.no_grad():
        compiled = aotgrad.compile(fx.symbolic_trace(twice), fresh(), forward=aotgrad.run_eagerly)
    assert isinstance(aotgrad.describe(compiled, lambda _: "it"), aotgrad.Refusal)


def test_numbers_in_the_text_of_a_program_are_written():
    graph = fx.Graph()
    x = graph.placeholder("x")
    numbers = graph.call_function(torch.tensor, ([[1.5, float("inf")], [0.0, -2.0]],))
    graph.output((graph.call_function(torch.mul, (graph.call_function(torch.mul, (x, x)), numbers)),))
    x, kept = torch.ones(2, 2, requires_grad=True), []
    compiled = aotgrad.compile(fx.GraphModule({}, graph), [x], forward=aotgrad.run_eagerly, describable=True)
    data = aotgrad.describe(compiled, lambda inner: kept.append(inner) or "it")
    call = aotgrad.restore(json.loads(json.dumps(data)), take_up=lambda _: kept[0], backward=aotgrad.run_eagerly)
    (first,) = torch.autograd.grad(call(x)[0].sum(), x, create_graph=True)
    assert first.tolist() == [[3.0, float("inf")], [0.0, -4.0]]
    assert torch.autograd.grad(first[1, 1], x)[0][1, 1] == -4


def trains(x, w, running):
    running.mul_(0.5).add_(x.detach().mean(0))
    hidden = torch.nn.functional.dropout(x @ w, 0.5)
    return hidden, (hidden.exp() + running).sum(), running.view(1, 3)


def writes_and_trains(x, w, running):
    y = x * w
    y[0].mul_(3)
    running.add_(w.detach().sum(0))
    return y, y.t(), running


def reads_twice(x, w, running):
    first = torch.nn.functional.layer_norm(x, (3,), w[0])
    return first.square().mean(), torch.tanh(x * running)


TRAINING = [trains, writes_and_trains, reads_twice]


def given():
    torch.manual_seed(1)
    return torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True), torch.rand(3)


def stepped(call, arguments, wanted, **again):
    """What a caller sees of a step: which of the results go back, and what comes of it."""
    x, w, running = arguments
    torch.manual_seed(3)
    with torch.enable_grad():
        results = call(x, w, running)
        loss = sum(results[number].sum() for number in wanted if results[number].requires_grad)
    found = torch.autograd.grad(loss, [x, w], allow_unused=True, **again) if isinstance(loss, torch.Tensor) else []
    if again:
        sums = [each.square().sum() for each in found if each is not None and each.requires_grad]
        found += torch.autograd.grad(sum(sums), [x, w], allow_unused=True)
    seen = [(r.requires_grad, r._is_view(), r._version) for r in results]
    return [*results, running], seen, list(found), running._version, torch.get_rng_state().tolist()


@pytest.mark.parametrize("again", [{}, {"create_graph": True}])
@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,), ()])
@pytest.mark.parametrize("program", TRAINING)
def test_what_trains_is_restored_as_eager(program, wanted, again, monkeypatch):
    graphs = {}
    compiled = aotgrad.compile(
        fx.symbolic_trace(program), given(), forward=aotgrad.run_eagerly, describable=True,
        partition=aotgrad.min_cut_partition,
    )  # fmt: skip
    data = aotgrad.describe(compiled, lambda forward: graphs.setdefault("it", forward) and "it")
    monkeypatch.setattr(aotgrad.pipeline, "trace", None)
    call = aotgrad.restore(json.loads(json.dumps(data)), take_up=graphs.get, backward=aotgrad.run_eagerly)
    if again and not wanted:
        return
    (ours, *seen), (theirs, *expected) = (stepped(each, given(), wanted, **again) for each in (call, program))
    torch.testing.assert_close([ours, seen[1]], [theirs, expected[1]], rtol=1e-6, atol=1e-6)
    assert [seen[0], *seen[2:]] == [expected[0], *expected[2:]]
    assert aotgrad.restore(json.loads(json.dumps(data)), take_up=graphs.get) is None, "nobody compiles its backward"


class Kept(dict):
    """Where compiled backward graphs are kept."""

    find, keep = dict.get, dict.__setitem__


@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("program", TRAINING)
def test_backward_that_is_known_compiled_is_not_read(program, wanted, monkeypatch):
    kept, forward = Kept(), []
    compiled = aotgrad.compile(fx.symbolic_trace(program), given(), forward=aotgrad.run_eagerly, describable=True)
    data = aotgrad.describe(compiled, lambda graph: forward.append(graph) or "it", later=kept)
    expected = stepped(compiled, given(), wanted)
    fewer = not compiled.made_of.plan.pair.stages and wanted != (0, 1)
    call = aotgrad.restore(data, take_up=lambda _: forward[0], backward=None if not kept else refuse, later=kept)
    if not fewer:  # of results that go back together the graph says what is left
        monkeypatch.setattr(aotgrad.stored.graphs, "_read", None)
    torch.testing.assert_close(stepped(call, given(), wanted), expected, rtol=0, atol=0)
    assert kept


def refuse(gm, example_inputs):
    raise AssertionError("it is compiled")


def test_graphs_are_what_they_were():
    compiled = aotgrad.compile(fx.symbolic_trace(trains), given(), forward=aotgrad.run_eagerly, describable=True)
    data = aotgrad.describe(compiled, lambda _: "it")
    call = aotgrad.restore(data, take_up=lambda _: print, backward=aotgrad.run_eagerly)
    before, after = compiled.made_of.graphs, call.made_of.graphs
    assert aotgrad.show(before.joint) == aotgrad.show(after.joint)
    assert aotgrad.show(before.backward) == aotgrad.show(after.backward)
    assert call.made_of.plan.pair == compiled.made_of.plan.pair
    assert aotgrad.describe(call, lambda _: "it") == data


def test_autocast_is_left_at_once_that_was_traced():
    graphs = {}
    program, (x, w, _) = fx.symbolic_trace(lambda x, w: (x @ w).sum()), given()
    with torch.autocast("cpu", torch.bfloat16):
        compiled = aotgrad.compile(program, [x, w], forward=aotgrad.run_eagerly, describable=True)
        data = aotgrad.describe(compiled, lambda forward: graphs.setdefault("it", forward) and "it")
        call = aotgrad.restore(data, take_up=graphs.get, backward=aotgrad.run_eagerly)
        (ours,), theirs = call(x, w), program(x, w)
        assert ours.dtype == theirs.dtype
        found, expected = (torch.autograd.grad(each, [x, w]) for each in (ours, theirs))
    torch.testing.assert_close([ours, *found], [theirs, *expected], rtol=1e-2, atol=1e-2)


OTHER_PROCESS = """
import json, sys, torch, aotgrad
def graph(inputs):
    x, y = inputs
    doubled = x * 2
    return [doubled, y[1:] + doubled.sum()]
x, y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
with torch.no_grad():
    flat, rest = aotgrad.restore(json.load(sys.stdin), take_up=lambda name: graph)(x, y)
assert flat.data_ptr() == x.data_ptr()
print(json.dumps([flat.tolist(), rest.tolist(), x.tolist()]))
"""


def test_another_process_takes_it_up():
    with torch.no_grad():
        data, _ = described(writes, *fresh())
        x, y = fresh()
        flat, rest = writes(x, y)
    command = [sys.executable, "-c", OTHER_PROCESS]
    done = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [flat.tolist(), rest.tolist(), x.tolist()]


def test_a_field_that_is_missing_is_noticed():
    with torch.no_grad():
        data, take_up = described(writes, *fresh())
    trained = aotgrad.compile(fx.symbolic_trace(trains), given(), forward=aotgrad.run_eagerly, describable=True)
    for whole in (data, aotgrad.describe(trained, lambda _: "it")):
        for key in whole:
            less = {name: value for name, value in whole.items() if name != key}
            assert aotgrad.restore(less, take_up=take_up, backward=aotgrad.run_eagerly) is None


def layer(x, w):
    h = (x * 2).sin().cos().tanh().exp().sigmoid().neg().abs()
    return x + (h @ w).relu().neg().sin().cos().tanh().abs()


def tower(x, *weights):
    for w in weights:
        x = layer(x, w)
    return x.sum(), x[0]


def taller(x, a, b, c, d, e, f, g, h):
    return tower(x, a, b, c, d, e, f, g, h)


def tower_step(x, a, b, c, d, e, f, g, h):
    weights = [a, b, c, d, e, f, g, h]
    loss, _ = tower(x, *weights)
    gradients = torch.autograd.grad(loss, weights)
    return loss.detach(), gradients[0], gradients[7]


FAKES = FakeTensorMode()


class Noting(fx.Interpreter):
    """Nodes say what they give, as capture's do."""

    def run_node(self, node):
        value = super().run_node(node)
        node.meta |= {"example_value": value, "version": 0}
        return value


@pytest.mark.parametrize(("program", "grad"), [(taller, True), (taller, False), (tower_step, True)])
def test_equal_layers_are_stored_once(program, grad, monkeypatch):
    given = [torch.randn(3, 4), *(torch.randn(4, 4) / 4 for _ in range(8))]
    if grad:
        given[1:] = [each.requires_grad_() for each in given[1:]]
    with torch.set_grad_enabled(grad):
        gm = fx.symbolic_trace(program)
        fakes = [FAKES.from_tensor(each) for each in given]
        with FAKES:
            Noting(gm).run(*fakes)
        graphs = []
        compiled = aotgrad.compile(gm, fakes, forward=aotgrad.run_eagerly, layers=True, describable=True)
        assert compiled.stacks
        data = aotgrad.describe(compiled, lambda graph: graphs.append(graph) or len(graphs))
        assert len(data["parts"]) < 5
        monkeypatch.setattr(aotgrad.pipeline, "trace", None)
        take_up = lambda number: graphs[number - 1]
        call = aotgrad.restore(json.loads(json.dumps(data)), take_up=take_up, backward=aotgrad.run_eagerly)
        assert call.stacks == compiled.stacks
        results, expected = call(*given), program(*given)
        if program is taller and grad:
            results, expected = (
                torch.autograd.grad(each[0] + each[1].sum(), given[1:]) for each in (results, expected)
            )
    torch.testing.assert_close(list(results), list(expected), rtol=1e-5, atol=1e-5)
    assert aotgrad.restore(data, take_up=lambda number: None if number == 2 else print, backward=print) is None
