"""Relations that the engine decides: they say what Python would, and their sentences name what came together."""

import random

import pytest
import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod

import capture
from capture import _engine
from capture.guards.conditions import program_of
from capture.recording.shared_memory import _as_numbers, sharing

SYMBOLS = a, b, c = sympy.symbols("a b c", integer=True)


class Box:
    def __init__(self, value=0):
        self.value = value


def recompilations(log):
    return [record.failed for record in log.records() if isinstance(record, capture.RecompileRecord)]


def count_up(boxes, x):
    for box in boxes:
        box.value += 1
    return x * sum(box.value for box in boxes)


def test_changed_objects_are_related_by_one_guard(x):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(count_up)
    captured([Box(i) for i in range(30)], x)
    (graph,) = (record for record in log.records() if isinstance(record, capture.GraphRecord))
    (sentence,) = (guard for guard in graph.guards if "different objects" in guard)
    assert sentence == "boxes[0], boxes[1], boxes[2] and 27 more are different objects"


def test_a_sentence_names_the_two_paths_that_lead_to_one_object(x):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(count_up)
    captured([Box() for _ in range(5)], x)
    one = Box()
    boxes, plain = [Box(), one, Box(), one, Box()], [Box(), box := Box(), Box(), box, Box()]
    assert torch.equal(captured(boxes, x), count_up(plain, x))
    assert recompilations(log)[0].startswith(
        "expected that boxes[0], boxes[1], boxes[2] and 2 more are different objects, but boxes[3] is boxes[1] (assumed"
    )


def a_tensor(storages):
    storage = random.choice(storages)
    begin = random.randrange(0, 12)
    return storage[begin : begin + random.randrange(1, 6)].view(random.choice([torch.float32, torch.int32]))


def test_the_engine_finds_shared_memory_as_python_does():
    random.seed(0)
    storages = [torch.zeros(20) for _ in range(4)]
    for count in (2, 3, 5):
        for _ in range(300):
            before, now = ([a_tensor(storages) for _ in range(count)] for _ in range(2))
            now = random.choice([now, before, before[:-1] + now[-1:]])
            relation = ("memory", 0, tuple(range(count)), _as_numbers(before, sharing(before)), None)
            nodes = tuple((("item", i), (("keep", 0, i),), ()) for i in range(count))
            guards = _engine.Guards((("arg", 0), (), nodes), (relation,))
            assert guards.check(None, (now,)) == (sharing(now) == sharing(before))
            assert guards.check(None, (before,))


@pytest.mark.parametrize("odd", [torch.ones(0), torch.ones(3, device="meta"), torch.ones(3).to_sparse(), 3])
def test_tensors_without_memory_of_their_own_are_left_to_python(odd):
    nodes = tuple((("item", i), (("keep", 0, i),), ()) for i in range(2))
    for answer in (True, False):
        relation = ("memory", 0, (0, 1), ((4, -1, 0), (4, -1, 0)), lambda *_, answer=answer: answer)
        assert _engine.Guards((("arg", 0), (), nodes), (relation,)).check(None, ([torch.ones(2), odd],)) is answer


CONDITIONS = [
    sympy.Eq(a + 2 * b, c),
    sympy.Ne(FloorDiv(a * b, 3), Mod(c, 4)),
    sympy.Or(a > b, sympy.And(b >= 3, c < a**2)),
    sympy.Not(sympy.Le(Max(a, b) - c, 5)),
    a * (b - 7) <= Min(c, a + 1),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_conditions_on_numbers(condition):
    program = program_of(condition, {symbol: ("number", i, 0) for i, symbol in enumerate(SYMBOLS)})
    nodes = tuple((("item", i), (("keep", 0, i),), ()) for i in range(3))
    guards = _engine.Guards((("arg", 0), (), nodes), (("condition", 0, (0, 1, 2), program, None),))
    for numbers in [(x, y, z) for x in range(0, 9, 2) for y in range(1, 9, 3) for z in range(0, 20, 3)]:
        expected = condition.xreplace({s: sympy.Integer(n) for s, n in zip(SYMBOLS, numbers, strict=True)})
        assert guards.check(None, (list(numbers),)) == bool(expected)


def test_conditions_without_an_instruction_stay_with_python():
    assert program_of(sympy.Eq(sympy.sqrt(a), 2), {a: ("number", 0, 0)}) is None
    assert program_of(sympy.Eq(a / 2 + b, c), dict.fromkeys(SYMBOLS, ("number", 0, 0))) is None
    assert program_of(sympy.Eq(a, b), {a: ("number", 0, 0)}) is None


def test_sizes_strides_and_gradients_are_read_by_the_engine():
    x = torch.ones(4, 6, requires_grad=True)
    x.grad = torch.ones(4, 6)
    program = (("size", 0, 1), ("stride", 1, 0), ("equal", 0, 0))
    grad = (("attr", "grad"), (("keep", 0, 1),), ())
    guards = _engine.Guards((("arg", 0), (("keep", 0, 0),), (grad,)), (("condition", 0, (0, 1), program, None),))
    assert guards.check(None, (x,))
    x.grad = torch.ones(4, 12)[:, ::2]
    assert not guards.check(None, (x,))
