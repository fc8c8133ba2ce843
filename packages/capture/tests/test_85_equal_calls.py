"""Calls of modules that are equal but for the module are evaluated once, and nobody can tell."""

import pytest
import torch
from layers_that_are_equal import Counted, Layer, Net, assert_same, check
from torch import nn

import capture
from capture.evaluator.stepper import Stepper


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
