"""The cost that the C engine adds to a call: nanoseconds per guard and per captured call.

    python benchmarks/guards.py

Every figure is the least of several repetitions, with the cost of an empty loop taken off.  Guard figures are per
check, over trees of 1, 10 and 1000 checks of one kind.
"""

from __future__ import annotations

import itertools
import timeit
from collections.abc import Callable
from typing import Any

import torch

from capture import _engine, optimize
from capture._engine import GuardedCode, Guards, Outside, Region, add_entry
from capture.entry.hook import bind_tensors, translate_frame

COUNTS = (1, 10, 1000)


def nanoseconds(call: Callable[[], object]) -> float:
    """The time of one call, at best."""
    number = max(1, int(0.02 / max(min(timeit.repeat(call, number=1, repeat=3)), 1e-8)))
    return min(timeit.repeat(call, number=number, repeat=7)) / number * 1e9


def tensor_payload(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The properties that a tensor check compares."""
    kind = (type(tensor), tensor.dtype, tensor.device, tensor.requires_grad)
    return (*kind, tuple(tensor.shape), tensor.stride(), (("layout", torch.strided),))


def guard_kinds() -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...], Any]]:
    """Accessor, check and argument by a name for the table."""
    tensor = torch.randn(4, 5)
    module = torch.nn.Linear(2, 2)
    return {
        "type of an argument": (("arg", 0), ("type", 0, int), 3),
        "identity of a global": (("global", "COUNTS"), ("is", 0, COUNTS), None),
        # Made at run time: a literal would be the very same object, which is told without comparing.
        "int that equals": (("arg", 0), ("equals", 0, 12345), int("12345")),
        "str that equals": (("arg", 0), ("equals", 0, "some text"), "some text"),
        "length of a list": (("arg", 0), ("length", 0, 3), [1, 2, 3]),
        "attribute of a module": (("arg", 0), ("attr", "training"), module),
        "keys of a dict of 4": (("arg", 0), ("keys", 0, tuple("abcd")), dict.fromkeys("abcd")),
        "grad mode": (("call", torch.is_grad_enabled), ("is", 0, True), None),
        "Python callable": (("arg", 0), ("python", 0, lambda value: True), None),
        "tensor": (("arg", 0), ("tensor", 0, tensor_payload(tensor)), tensor),
        "parameter": (("arg", 0), ("tensor", 0, tensor_payload(module.weight)), module.weight),
    }


def tree(accessor: tuple[Any, ...], check: tuple[Any, ...], count: int) -> Guards:
    """Guards of ``count`` equal nodes."""
    if check[0] == "attr":
        node = (accessor, (), ((check, (("true", 0),), ()),))
    else:
        node = (accessor, (check,), ())
    return Guards((("root",), (), (node,) * count))


def show_guards() -> None:
    """The table of guards."""
    baseline = Guards((("root",), (), ()))
    empty = nanoseconds(lambda: baseline.check(show_guards, (None,)))
    print(f"{'ns per check, in a tree of':28}" + "".join(f"{count:>8}" for count in COUNTS))
    for name, (accessor, check, argument) in guard_kinds().items():
        row = []
        for count in COUNTS:
            guards, args = tree(accessor, check, count), (argument,)
            assert guards.check(show_guards, args)
            row.append((nanoseconds(lambda g=guards, a=args: g.check(show_guards, a)) - empty) / count)
        print(f"{name:28}" + "".join(f"{figure:8.1f}" for figure in row))


def original(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A function that is replaced by the next one where captured."""
    return x


def transformed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Stands for the code around a compiled graph."""
    return y


def show_calls() -> None:
    """The table of whole calls: two tensor guards and one guard of global state on a hit."""
    x, y = torch.randn(4, 5), torch.randn(3)
    config = object()
    nodes = tuple((("arg", i), (("tensor", i, tensor_payload(t)),), ()) for i, t in enumerate((x, y)))
    state = (("call", torch.is_grad_enabled), (("is", 2, True),), ())
    add_entry(original.__code__, GuardedCode(transformed.__code__, Guards((("root",), (), (*nodes, state))), config))
    region, outside = Region(original, config), Outside(transformed)
    assert region(x, y) is y
    # Or the engine would try to translate it at each call.
    _engine.run_as_is(transformed.__code__)
    # Its frame runs inside a region: what the engine's hook costs a function that is left alone.
    hooked = Region(lambda: nanoseconds(lambda: transformed(x, y)), config)
    direct = nanoseconds(lambda: transformed(x, y))
    print(f"\n{'ns per call':28}{'all':>8}{'added':>8}")
    rows = {
        "called directly": direct,
        "captured, guards pass": nanoseconds(lambda: region(x, y)),
        "through Outside": nanoseconds(lambda: outside(x, y)),
        "run as it is in a Region": hooked(),
    }
    for name, figure in rows.items():
        print(f"{name:28}{figure:8.1f}{figure - direct:8.1f}")


def show_two_operators() -> None:
    """A function of two operators, over what a backend made of it (which answers at once)."""
    x, answer = torch.ones(4), (torch.ones(4),)

    def compiled(*_: Any) -> Any:
        return answer

    _engine.set_translator(translate_frame)
    region = optimize(lambda gm, inputs: compiled, strict=True)(lambda t: (t + 1) * 2)
    direct, captured = nanoseconds(lambda: compiled(x)), nanoseconds(lambda: region(x))
    print(f"\ntwo operators: {(captured - direct) / 1e3:.2f} us over the backend's callable")


class Attention(torch.nn.Module):
    """Four projections, as in a decoder."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads, self.scale = 2, width**-0.5
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = (self.q(x) @ self.k(x).transpose(-1, -2) * self.scale).softmax(-1)
        return self.o(weights @ self.v(x))


class Layer(torch.nn.Module):
    """A decoder's layer: twelve modules, nine parameters."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.activation = Attention(width), torch.nn.SiLU()
        self.before, self.between = torch.nn.RMSNorm(width), torch.nn.RMSNorm(width)
        self.gate, self.up, self.down = (torch.nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.before(x))
        y = self.between(x)
        return x + self.down(self.activation(self.gate(y)) * self.up(y))


def show_decoder(layers: int = 80) -> None:
    """The guards of a whole model, walked as a tree and along the dependency chain of the walk before."""
    model, x = torch.nn.Sequential(*(Layer(16) for _ in range(layers))), torch.randn(1, 4, 16)
    calls: list[tuple[Any, tuple[Any, ...]]] = []

    def remember(config: Any, function: Any, args: tuple[Any, ...]) -> Any:
        calls.append((function, args))
        return translate_frame(config, function, args)

    _engine.set_translator(remember)
    region = optimize("eager", strict=True)(model)
    region(x)
    function, args = next((f, a) for f, a in calls if _engine.entries(f.__code__))
    guards = _engine.entries(function.__code__)[0].guards
    walked = nanoseconds(lambda: guards.first_failure(function, args))
    followed = nanoseconds(lambda: guards.check(function, args))
    print(f"\n{layers} layers of a decoder: {walked / 1e3:.0f} us walked, {followed / 1e3:.0f} us along a chain")
    counts = itertools.count()

    def written() -> bool:
        model[3].calls = next(counts)
        return guards.check(function, args)

    for _ in range(3000):  # a layer's chain is tried after fewer and fewer changes
        written()
    print(f"where a layer counts its calls: {nanoseconds(written) / 1e3:.0f} us")


if __name__ == "__main__":
    assert bind_tensors(), "tensors are not read in C"
    _engine.set_translator(None)  # only what is added here is ever replaced
    show_guards()
    show_calls()
    show_two_operators()
    show_decoder()
