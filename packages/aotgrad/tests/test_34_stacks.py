"""Equal layers of a graph: found wherever they are, divided where least crosses, refused where a part may not do it."""

import pytest
import torch
from torch import fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from aotgrad.stacks.split import Direct, split
from aotgrad.stacks.stretches import Stretch, stretches


def longest(keys):
    return next(iter(stretches(keys, [10] * len(keys))), None)


@pytest.mark.parametrize(
    ("text", "stretch"),
    [
        ("xyabcabcabcabcz", Stretch(2, 3, 4)),
        ("abcabcabcabcab", Stretch(0, 3, 4, 2)),
        ("aaaaaaaaaa", Stretch(0, 1, 10)),
        ("abcdefghijkl", None),
        ("qabababab" + "qcdecdecdecde", Stretch(10, 3, 4)),
    ],
)
def test_what_repeats_is_found(text, stretch):
    assert longest([ord(letter) for letter in text]) == stretch


def test_several_small_layers_are_one():
    """As what an optimizer without state does to each parameter of a layer."""
    (found, *_) = stretches([ord(letter) for letter in "x" + "aab" * 100 + "y"], [1] * 302)
    assert found == Stretch(1, 66, 4, 36)
    assert not stretches([1] * 100, [1] * 100)
    assert not stretches([1] * 1000, [0] * 1000)


def traced(layers, inputs):
    """A torch-level graph whose nodes say what they give, as capture's do."""
    gm = fx.symbolic_trace(layers)
    FakeTensorProp(gm).propagate(*inputs)
    for node in gm.graph.nodes:
        node.meta |= {"example_value": node.meta.get("val"), "version": 0}
    return gm


def layer(x, w):
    """Sixteen operators, of which the product reads one value alone."""
    h = (x * 2).sin().cos().tanh().exp().sigmoid().neg().abs()
    return x + (h @ w).relu().neg().sin().cos().tanh().abs()


def tower(x, w0, w1, w2, w3, w4, w5, w6, w7):
    for w in (w0, w1, w2, w3, w4, w5, w6, w7):
        x = layer(x, w)
    return (x.sum(),)


INPUTS = [torch.randn(3, 4), *(torch.randn(4, 4) for _ in range(8))]


def parts_of(function):
    gm = traced(function, INPUTS)
    found = split(gm)
    return None if found is None else [(found.times(n), len(p.inputs)) for n, p in enumerate(found.parts)]


def test_each_layer_takes_its_weight_and_what_the_one_before_gave():
    assert (8, 2) in parts_of(tower) or (7, 2) in parts_of(tower)


def test_layers_that_skip_one_are_given_what_they_read():
    def skipping(x, *weights):
        before = x
        for w in weights:
            x, before = layer(x, w) + before, x
        return (x,)

    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        return skipping(x, w0, w1, w2, w3, w4, w5, w6, w7)

    assert max(inputs for times, inputs in parts_of(program) if times > 1) == 3


def test_little_is_compiled_as_a_whole():
    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        return (layer(layer(x, w0), w1),)

    assert parts_of(program) is None


def updated(*tensors):
    """What an optimizer without state does, and the gradients that it leaves."""
    half = len(tensors) // 2
    for parameter, gradient in zip(tensors[:half], tensors[half:]):
        parameter.add_(gradient)
    return tuple(gradient.detach() for gradient in tensors[half:])


def test_many_small_updates_are_several_layers_and_what_is_handed_on_is_none():
    names = [f"t{n}" for n in range(512)]
    scope = {"updated": updated}
    exec(f"def program({', '.join(names)}): return updated({', '.join(names)})", scope)
    gm = traced(scope["program"], [torch.ones(1 + n % 8) for n in range(512)])
    found = split(gm)
    assert [found.times(number) for number in range(len(found.parts))] == [4, 1]
    assert [len(part.inputs) for part in found.parts] == [128, 256]


def test_two_layers_whose_best_border_is_within_are_compiled_as_a_whole():
    """Divided at the product, where no kernel reaches over it, one whole layer is left of the two."""

    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        for w in (w0, w1):
            for number in range(2, 50):
                x = x * number
            x = x @ w
            for number in range(50, 80):
                x = x * number
        return (x,)

    assert parts_of(program) is None


def test_layers_whose_numbers_differ_are_not_equal():
    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        for place, w in enumerate((w0, w1, w2, w3, w4, w5, w6, w7)):
            x = layer(x, w) * float(place)
        return (x,)

    assert parts_of(program) is None


def test_a_number_and_a_truth_are_not_one():
    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        for place, w in enumerate((w0, w1, w2, w3, w4, w5, w6, w7)):
            x = layer(x, w).clamp(min=(1, 1.0, True, 1)[place % 4])
        return (x,)

    assert max((times for times, _ in parts_of(program) or [(1, 0)]), default=1) <= 2


def test_gradients_are_asked_for_between_parts():
    def program(x, w0, w1, w2, w3, w4, w5, w6, w7):
        weights = (w0, w1, w2, w3, w4, w5, w6, w7)
        for w in weights:
            x = layer(x, w)
        return torch.autograd.grad(x.sum(), [w0])

    gm = fx.symbolic_trace(program)
    for node in gm.graph.nodes:
        node.meta |= {"example_value": torch.ones(()), "version": 0}
    found = split(gm)
    assert next(call.node.target for call in found.calls if isinstance(call, Direct)) is torch.autograd.grad
