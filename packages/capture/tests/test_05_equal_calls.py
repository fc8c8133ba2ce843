"""Calls of modules that are equal but for the module are evaluated once, and nobody can tell."""

import copy
import functools
import itertools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import capture
from capture.evaluator.stepper import Stepper

GLOBAL = {"scale": 2.0}
LAYERS = []


def assert_same(expected, actual):
    assert type(actual) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.requires_grad) == (expected.dtype, expected.requires_grad)
        assert torch.equal(actual, expected)
    elif isinstance(expected, (list, tuple, dict)):
        assert len(actual) == len(expected)
        for one, other in zip(*(each.values() if isinstance(each, dict) else each for each in (expected, actual))):
            assert_same(one, other)
    else:
        assert actual == expected


class Layer(nn.Module):
    """With one of everything that layers may differ in."""

    flag, scale, limit = False, 1.0, None

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.table = {"a": 1.0, "b": 2.0}
        self.sizes = [1, 2]
        self.register_buffer("bias", torch.ones(4))

    def forward(self, x, added=None):
        if self.flag or hasattr(self, "extra"):
            x = x * 3
        for name, factor in self.table.items():
            x = x + factor if name == "a" else x * factor
        if self.bias is not None:
            x = x + self.bias
        if added is not None:
            x = x + added[0]
        return self.norm(self.inner(x)) * self.scale + sum(self.sizes)


class Net(nn.Module):
    def __init__(self, make=Layer, count=6):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(make() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Counted:
    def __init__(self, **options):
        self.graphs = 0
        self.capture = capture.optimize(self._keep, options=capture.Options(strict=True, equal_calls=True, **options))

    def _keep(self, module, example_inputs):
        self.graphs += 1
        self.nodes = [(node.op, str(node.target), str(node.args)) for node in module.graph.nodes]
        return module.forward


def check(net, *args):
    """Right where equal calls are verified, and where they are done again."""
    for verify in (True, False):
        ours, theirs = copy.deepcopy(net), copy.deepcopy(net)
        called = Counted(verify_equal_calls=verify).capture(ours)
        for _ in range(2):
            assert_same(theirs(*args), called(*args))
        assert_same(theirs.state_dict(), ours.state_dict())


class Other(Layer):
    def forward(self, x, added=None):
        return super().forward(x, added) - 1


def _set(name, value):
    def change(layer):
        setattr(layer, name, value)

    return change


def _tie(layer):
    layer.inner.weight = TIED
    layer.norm.weight = TIED_NORM


TIED, TIED_NORM = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(4))
DIFFERENCES = {
    "flag": _set("flag", True),
    "scale": _set("scale", 3.0),
    "zero": _set("scale", -0.0),
    "integer": _set("scale", 1),
    "extra": _set("extra", None),
    "no_buffer": _set("bias", None),
    "order": lambda layer: layer.table.update(a=layer.table.pop("a")),
    "entry": lambda layer: layer.table.update(c=4.0),
    "longer": lambda layer: layer.sizes.append(5),
    "item": lambda layer: layer.sizes.__setitem__(0, 9),
    "class": lambda layer: setattr(layer, "__class__", Other),
    "evaluation": lambda layer: layer.eval(),
    "hook": lambda layer: layer.register_forward_hook(_hook),
    "pre_hook": lambda layer: layer.inner.register_forward_pre_hook(_pre_hook),
    "shape": _set("bias", torch.ones(1)),
    "dtype": _set("bias", torch.ones(4, dtype=torch.float64).float().half()),
    "strides": _set("bias", torch.ones(8)[::2].detach()),
    "frozen": lambda layer: layer.inner.requires_grad_(False),
    "inner": _set("norm", nn.Identity()),
    "no_bias": lambda layer: setattr(layer.inner, "bias", None),
    "epsilon": lambda layer: setattr(layer.norm, "eps", 0.5),
    "tied": _tie,
    "shared": lambda layer: setattr(layer.inner, "bias", layer.norm.bias),
    "forward": lambda layer: setattr(layer, "forward", _forward),
    "compiled": lambda layer: setattr(layer.inner, "_compiled_call_impl", _forward),
}


def _hook(module, args, result):
    return result + 1


def _pre_hook(module, args):
    return (args[0] * 2,)


def _forward(x, added=None):
    return x * 0.5


def _with(difference, *places):
    net = Net()
    for place in places:
        difference(net.layers[place])
    return net


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("places", [(2,), (0, 3), (1, 2, 3, 4, 5)])
def test_layers_that_differ_in_one_thing(name, places):
    check(_with(DIFFERENCES[name], *places), torch.randn(2, 4))


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("place", [1, 4])
def test_a_change_of_one_layer_after_the_first_call(name, place):
    ours, theirs, x = Net(), Net(), torch.randn(2, 4)
    called = Counted().capture(ours)
    assert_same(theirs(x), called(x))
    for net in (ours, theirs):
        DIFFERENCES[name](net.layers[place])
    assert_same(theirs(x), called(x))
    assert_same(theirs(x), called(x))


def _steps(count):
    """How many instructions are evaluated for so many layers."""
    seen, step = [], Stepper.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stepper, "step", lambda self, frame: (seen.append(1), step(self, frame))[1])
        Counted().capture(Net(count=count))(torch.randn(2, 4))
    return len(seen)


def test_most_layers_are_not_evaluated():
    assert _steps(24) - _steps(4) < 20 * 12  # of the loop over them


def test_the_graph_is_the_same():
    x, plain = torch.randn(2, 4), []

    def keep(module, example_inputs):
        plain.append([(node.op, str(node.target), str(node.args)) for node in module.graph.nodes])
        return module.forward

    capture.optimize(keep)(Net())(x)
    counted = Counted()
    counted.capture(Net())(x)
    assert counted.nodes == plain[0]


class Caching(Layer):
    def forward(self, x, added=None):
        self.last = x + 1
        return super().forward(x) + self.last


class Counting(Layer):
    calls = 0

    def forward(self, x, added=None):
        self.calls += 1
        return super().forward(x) * self.calls


class GlobalCounting(Layer):
    def forward(self, x, added=None):
        GLOBAL["scale"] += 1
        return super().forward(x) * GLOBAL["scale"]


class ClassCounting(Layer):
    made = 0

    def forward(self, x, added=None):
        type(self).made = (type(self).made + 1) % 5
        return super().forward(x) * type(self).made


class Dropping(Layer):
    def forward(self, x, added=None):
        return nn.functional.dropout(super().forward(x), 0.3, self.training)


class Normed(Layer):
    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm1d(4)

    def forward(self, x, added=None):
        return self.batch(super().forward(x))


class InPlace(Layer):
    def forward(self, x, added=None):
        y = super().forward(x)
        self.bias.add_(1)
        return y.mul_(2)


class Asking(Layer):
    def __getattr__(self, name):
        if name == "asked":
            return 3
        return super().__getattr__(name)

    @property
    def told(self):
        return self.scale + 1

    def forward(self, x, added=None):
        return super().forward(x) * self.asked + self.told


class Catching(Layer):
    def forward(self, x, added=None):
        try:
            factor = self.table["none"]
        except KeyError:
            factor = 2
        return super().forward(x) * factor


class InMode(Layer):
    def forward(self, x, added=None):
        with torch.no_grad():
            y = x * 2
        return super().forward(x) + y


class Checkpointed(Layer):
    def forward(self, x, added=None):
        return checkpoint(super().forward, x, use_reentrant=False)


class Deciding(Layer):
    def forward(self, x, added=None):
        if x.requires_grad and not x.is_leaf and x.dim() == 2:
            x = x * 2
        return super().forward(x)


class Breaking(Layer):
    def forward(self, x, added=None):
        print(end="")
        return super().forward(x)


class Listing(Layer):
    def forward(self, x, added=None):
        parts = [x]
        for size in self.sizes:
            parts.append(parts[-1] * size)
        return super().forward(torch.stack(parts).sum(0))


class Indexed(Layer):
    """Looks for itself where it is held."""

    def forward(self, x, added=None):
        place = next((i for i, layer in enumerate(LAYERS) if layer is self), 0)
        return super().forward(x) + place


class First(Layer):
    def forward(self, x, added=None):
        return super().forward(x) + (LAYERS[2].bias if LAYERS else 0)


COUNT, SEEN, CACHE = [itertools.count(1)], [], {}


@functools.lru_cache
def remembered(number):
    CACHE["calls"] = CACHE.get("calls", 0) + 1
    return number + 1.0


def _make_counter():
    count = 0

    def counted():
        nonlocal count
        count += 1
        return count

    return counted


COUNTED = [_make_counter()]


class Iterating(Layer):
    def forward(self, x, added=None):
        return super().forward(x) * next(COUNT[0])


class Seen(Layer):
    def forward(self, x, added=None):
        SEEN.append(x)
        return super().forward(x) * len(SEEN)


class SeenBefore(Layer):
    """Writes nothing, but for every third layer."""

    def forward(self, x, added=None):
        if hasattr(self, "third"):
            CACHE["n"] = CACHE.get("n", 0) + 1
        return super().forward(x) * CACHE.get("n", 1)


class Closing(Layer):
    def forward(self, x, added=None):
        return super().forward(x) * COUNTED[0]()


class Remembering(Layer):
    def forward(self, x, added=None):
        return super().forward(x) * remembered(int(self.scale))


class Listed(Layer):
    """Goes over all that it has."""

    def forward(self, x, added=None):
        names = sum(len(name) for name in self.__dict__) + len(vars(self)) + len(type(self).__name__)
        total = sum(p.sum() for name, p in self.named_parameters()) + sum(b.sum() for b in self.buffers())
        for child in self.children():
            total = total + len(list(child.parameters()))
        return super().forward(x) * names + total


class InSet(Layer):
    def forward(self, x, added=None):
        place = {layer: index for index, layer in enumerate(LAYERS)}.get(self, 0)
        return super().forward(x) + place


class Next(Layer):
    """Uses the weights of the one after it."""

    def forward(self, x, added=None):
        place = next((i for i, layer in enumerate(LAYERS) if layer is self), 0)
        return super().forward(x) + (LAYERS[(place + 1) % len(LAYERS)].bias if LAYERS else 0)


class Comprehending(Layer):
    def forward(self, x, added=None):
        parts = {name: x * factor for name, factor in self.table.items()}
        parts.update(last=[p + 1 for p in (x, x)][-1])
        return super().forward(sum(parts.values())) + sum(x.sum() for _ in range(2))


class Generating(Layer):
    def parts(self, x):
        for size in self.sizes:
            yield x * size

    def forward(self, x, added=None):
        return super().forward(sum(self.parts(x)))


class Lambdas(Layer):
    def forward(self, x, added=None):
        scaled = lambda y: y * self.scale
        return super().forward(scaled(x))


class Drawing(Layer):
    def forward(self, x, added=None):
        return super().forward(x) + torch.rand_like(x) + nn.functional.dropout(x, 0.5, True)


class Viewing(Layer):
    def forward(self, x, added=None):
        view = self.bias.view(2, 2)[0]
        return super().forward(x) + view.sum() + (view.storage_offset() + self.bias.is_contiguous())


class ByData(Layer):
    def forward(self, x, added=None):
        return super().forward(x) + (x > 0).sum().item()


class Branching(Layer):
    def forward(self, x, added=None):
        return super().forward(x) if self.bias.sum() > 3 else -super().forward(x)


KINDS = [Iterating, Seen, SeenBefore, Closing, Remembering, Listed, InSet, Next, Comprehending, Generating]
KINDS += [Lambdas, Drawing, Viewing, ByData, Branching]
KINDS += [Caching, Counting, GlobalCounting, ClassCounting, Dropping, Normed, InPlace, Asking, Catching, InMode]
KINDS += [Checkpointed, Deciding, Breaking, Listing, Indexed, First]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("training", [True, False])
def test_layers_of_a_kind(kind, training):
    x = torch.randn(3, 4)
    for verify in (True, False):
        nets = Net(kind).train(training), Net(kind).train(training)
        results = []
        for net in nets:
            GLOBAL["scale"], ClassCounting.made = 2.0, 0
            COUNT[0], COUNTED[0] = itertools.count(1), _make_counter()
            SEEN.clear(), CACHE.clear(), remembered.cache_clear()
            net.layers[2].third = None
            LAYERS[:] = net.layers
            called = net if net is nets[0] else Counted(verify_equal_calls=verify).capture(net)
            torch.manual_seed(3)
            given = x.clone().requires_grad_(kind is not InPlace)
            with torch.set_grad_enabled(kind is not InPlace):
                results.append([called(given) for _ in range(3)])
            if kind is not InPlace:
                results[-1][0].sum().backward()
                results[-1].append([given.grad, *(p.grad for p in net.parameters() if p.grad is not None)])
            results[-1].append([getattr(layer, "calls", 0) for layer in net.layers])
        LAYERS.clear()
        assert_same(*results)
        assert_same(nets[0].state_dict(), nets[1].state_dict())


class Several(Layer):
    def forward(self, x, added=None):
        y = super().forward(x)
        return {"y": y, "more": [x, (y + 1, None, 3)], "scale": self.scale}


class Passing(Net):
    """Hands on what layers give, a list that grows, and a tuple that all of them get."""

    def forward(self, x):
        shared, seen = (x * 2, None), []
        for layer in self.layers:
            found = layer(x, shared)
            x = found["y"] + found["more"][1][0] * found["scale"]
            seen.append(x)
        return seen


def test_structures_that_layers_give_and_get():
    check(Passing(Several), torch.randn(2, 4))


class Growing(Layer):
    def forward(self, x, added=None):
        added.append(x)
        return super().forward(x) * len(added)


class Shared(Net):
    def forward(self, x):
        seen = []
        for layer in self.layers:
            x = layer(x, seen)
        return x, seen


def test_a_list_that_layers_write_to():
    check(Shared(Growing), torch.randn(2, 4))


class Twice(Net):
    def forward(self, x):
        for layer in self.layers:
            layer.scale = layer.scale + 1
        for layer in [*self.layers, *self.layers, *self.layers]:
            x = layer(x)
        return x


def test_layers_that_the_frame_wrote_to():
    check(Twice(), torch.randn(2, 4))


class Again(Net):
    def forward(self, x):
        first = self.layers[0]
        for _ in range(3):
            for layer in self.layers:
                x = layer(x) + (first.bias if layer is first else 0)
        return x


def test_layers_that_are_called_again():
    check(Again(), torch.randn(2, 4))


class Modes(Net):
    def forward(self, x):
        for index, layer in enumerate(self.layers):
            with torch.set_grad_enabled(index % 2 == 0), torch.autocast("cpu", torch.bfloat16, enabled=index > 3):
                x = layer(x.float())
        return x


def test_layers_in_different_modes():
    check(Modes(), torch.randn(2, 4))


def test_tied_layers():
    net = Net()
    net.layers[4] = net.layers[1]
    net.layers[3].inner.weight = net.layers[2].inner.weight
    net.layers[5].norm = net.layers[0].norm
    check(net, torch.randn(2, 4))


def test_sizes_that_vary():
    ours, theirs = Net(), Net()
    called = Counted().capture(ours)
    for size in (2, 3, 4, 5):
        x = torch.randn(size, 4)
        assert_same(theirs(x), called(x))


class Written(Net):
    """Writes to what it was given between calls of layers that look at it."""

    def forward(self, x, shared):
        for index, layer in enumerate(self.layers):
            x = layer(x, shared)
            if index == 3:
                shared[0].mul_(self.layers[0].bias * self.layers[0].norm.weight)
        return x


class Looking(Layer):
    def forward(self, x, added=None):
        held = added[0]
        return super().forward(x) * (2 if held.requires_grad else 3)


@pytest.mark.parametrize("make", [tuple, list])
def test_a_tensor_from_outside_that_is_written_to(make):
    nets, results = (Written(Looking), Written(Looking)), []
    for net in nets:
        called = net if net is nets[0] else Counted().capture(net)
        results.append([called(torch.ones(2, 4), make([torch.ones(4)])) for _ in range(2)])
    assert_same(*results)


def test_a_number_of_one_layer_that_varies():
    ours, theirs, x = Net(), Net(), torch.randn(2, 4)
    called = Counted(verify_equal_calls=True).capture(ours)
    for scale in (1.0, 2.0, 3.5, 4.25):
        ours.layers[3].scale = theirs.layers[3].scale = scale
        assert_same(theirs(x), called(x))


def test_graphs_that_are_full_in_a_layer():
    ours, theirs, x = Net(count=12), Net(count=12), torch.randn(2, 4)
    called = Counted(largest_graph=50).capture(ours)
    assert_same(theirs(x), called(x))
