"""Layers that read, write, count, draw and look around: where calls are equal is known of all that they do."""

import functools
import itertools

import pytest
import torch
from layers_that_are_equal import Counted, Layer, Net, assert_same
from torch import nn
from torch.utils.checkpoint import checkpoint

GLOBAL = {"scale": 2.0}
LAYERS = []


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
