"""What changes while calls of layers are looked at: it is asked about seldom, and nobody keeps it alive."""

import torch
from layers_that_are_equal import Counted, Layer, Net, assert_same

from capture.evaluator.equal_calls import machine


class Leaving(Layer):
    """Leaves a generator before its end, which had changed a list by then."""

    def parts(self, x):
        made = [x]
        try:
            while True:
                made.append(made[-1] * 2)
                yield made[-1]
        finally:
            made.clear()

    def one(self, x):
        held = []
        held.append(self.parts(x))
        return next(held[0])

    def forward(self, x, added=None):
        return super().forward(self.one(x) + self.one(x))


def test_generators_that_layers_leave():
    ours, theirs, x = Net(Leaving), Net(Leaving), torch.randn(2, 4)
    called = Counted(nopython=True).capture(ours)
    assert_same(theirs(x), called(x))


class Trained(Net):
    """Goes on after its layers: many lists are made, and something from before is written."""

    def forward(self, x):
        x = super().forward(x)
        self.last, kept = x, [[] for _ in range(100)]
        for each in kept:
            each.append(x)
        return sum(each[0] for each in kept)


def test_changes_after_the_layers_are_not_asked_about(monkeypatch):
    asked, reachable = [], machine.reachable
    monkeypatch.setattr(machine, "reachable", lambda values: (asked.append(1), reachable(values))[1])
    ours, theirs, x = Trained(), Trained(), torch.randn(2, 4)
    called = Counted().capture(ours)
    assert_same(theirs(x), called(x))
    assert not asked


class Held(Net):
    """Writes to a list that only what it wrote before leads to, after it let go of it."""

    def forward(self, x):
        for index, layer in enumerate(self.layers):
            if index == 3:
                made = [x * 0 + 1]
                self.layers[0].table, shared = {"a": 1.0, "b": 2.0, "held": made}, made
                shared.append(x)
                del self.layers[0].table["held"]
            x = layer(x)
        return x


def test_a_list_that_hung_on_something_for_a_while():
    ours, theirs, x = Held(), Held(), torch.randn(2, 4)
    called = Counted().capture(ours)
    for _ in range(2):
        assert_same(theirs(x), called(x))
