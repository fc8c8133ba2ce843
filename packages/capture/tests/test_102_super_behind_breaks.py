"""`super()` behind a graph break: its object is in a cell, or it was made before the break and is handed over."""

import pytest
import torch

import capture


class Base:
    def forward(self, x):
        return x * 2


class InCell(Base):
    def forward(self, x):
        print(end="")
        alike = [self for _ in range(2)]
        of_self = lambda: self
        return super().forward(x) + len(alike) + (of_self() is self)


class InInnerFunction(Base):
    def forward(self, x):
        x = x + x.sum().item()

        def inner():
            return super(InInnerFunction, self).forward(x)

        return super().forward(inner())


class MadeBefore(Base):
    def forward(self, x):
        above = super()
        print(end="")
        return above.forward(x) + self.of(above, x)

    def of(self, above, x):
        return above.forward(x) - 1


class OfSets(set):
    def __init__(self, *items):
        super().__init__(items)


@pytest.mark.parametrize("cls", [InCell, InInnerFunction, MadeBefore])
def test_the_method_above_is_found(cls):
    compiled = capture.optimize("eager")(lambda x: cls().forward(x))
    for size in (2, 2, 3):
        assert compiled(torch.ones(size)).equal(cls().forward(torch.ones(size)))


def test_a_set_of_sizes_that_vary_is_initialised():
    compiled = capture.optimize("eager")(lambda x, n: (x + 1, OfSets(1, n)))
    assert [compiled(torch.ones(2), n)[1] for n in (1, 2, 3)] == [OfSets(1, n) for n in (1, 2, 3)]


def test_locals_behind_a_break_hold_values_of_cells():
    def function(x, k):
        print(end="")
        inner = lambda: k
        return x + inner(), locals()["k"]

    assert capture.optimize("eager")(function)(torch.ones(2), 3)[1] == 3
