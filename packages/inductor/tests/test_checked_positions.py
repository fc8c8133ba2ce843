"""A position outside raises, whatever is done with what is read there.

Every operator that torch has samples for is given elements that were picked, of which one is not there.

By default a part of the operators, another one in each run; INDUCTOR_ALL_SAMPLES=1 runs all of them.
"""

import dataclasses
import os
import random

import pytest
import torch
from compiled import copied
from operator_samples import OPERATORS, OPTIONS, some
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor import costs
from inductor.rewrites.redundant import MAY_RAISE

TOGETHER = 24
DTYPES = (torch.float32, torch.bool)
CASES = [(op, dtype) for op in OPERATORS for dtype in DTYPES if op.supports_dtype(dtype, "cpu")]
PARTS = len(CASES) // TOGETHER if "INDUCTOR_ALL_SAMPLES" in os.environ else 1


def pickable(sample):
    """The numbers of the tensors that may as well be picked: they have elements."""
    return [k for k, tensor in enumerate(sample.tensors) if tensor.numel() and tensor.layout == torch.strided]


def picked(sample, number):
    """A function of a table, positions and the other tensors that gives the operator what is picked from the table."""

    def function(table, at, *others):
        given = list(others)
        given.insert(number, table[at])
        return sample.call(given)

    return function


def places(draw, shape):
    """Positions in a table of as many elements, of which one is outside."""
    at = torch.arange(shape.numel())
    at[draw.choice([0, -1, draw.randrange(len(at))])] = draw.choice([len(at), -len(at) - 1])
    return at.view(shape)


def raises(function, inputs):
    try:
        with torch.no_grad():
            function(*[copied(tensor) for tensor in inputs])
    except IndexError:
        return True
    except Exception:  # noqa: BLE001 refused for another reason
        return None
    return False


def call_of(draw, sample):
    """A function of picked elements, inputs of which all are there, and three more of which one is not; None where
    eager runs no such call."""
    numbers = pickable(sample)
    if not numbers:
        return None
    number = draw.choice(numbers)
    tensors = [copied(tensor) for tensor in sample.tensors]
    whole = tensors.pop(number)
    good = [whole.reshape(-1), torch.arange(whole.numel()).view(whole.shape), *tensors]
    function = picked(sample, number)
    bad = [[good[0], places(draw, whole.shape), *tensors] for _ in range(3)]
    if raises(function, good) is not False or not all(raises(function, inputs) for inputs in bad):
        return None
    if raises(lambda *given: make_fx(function, tracing_mode="fake")(*given), good) is not False:
        return None  # what is picked decides what is done
    return function, good, bad


def silent(calls):
    """The numbers of the calls, compiled as one graph, of which one with a position outside did not raise."""
    starts = [0]
    for _, good, _ in calls:
        starts.append(starts[-1] + len(good))
    every = [tensor for _, good, _ in calls for tensor in good]

    def together(*given):
        spans = zip(calls, starts, starts[1:], strict=False)
        return [function(*given[start:end]) for (function, _, _), start, end in spans]

    with torch.no_grad():
        gm = make_fx(together, tracing_mode="fake")(*map(copied, every))
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.index.Tensor):
            node.meta[MAY_RAISE] = True  # as graphs of programs have it
        compiled = inductor.compile(gm, every, options=OPTIONS)
        assert raises(compiled, every) is False
        for number, (_, _, bad) in enumerate(calls):
            for inputs in bad:
                given = [*every[: starts[number]], *inputs, *every[starts[number + 1] :]]
                if not raises(compiled, given):
                    yield number
                    break


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_picked_for_an_operator(part, monkeypatch):
    monkeypatch.setattr(costs, "CPU", dataclasses.replace(costs.CPU, shortest_segment=1, most_segments=100))
    draw = random.Random(part if PARTS > 1 else None)
    cases = CASES[part::PARTS] if PARTS > 1 else draw.sample(CASES, TOGETHER)
    found = [(sample, call_of(draw, sample)) for op, dtype in cases for sample in some(op, dtype)]
    names, calls = zip(*((str(sample), call) for sample, call in found if call), strict=True)
    assert [names[number] for number in silent(calls)] == []
