"""Iterators and generators: lazy, with a position, of the type that Python gives them, ended where Python ends them."""

import collections
import itertools
import os
import random
import re
from collections import OrderedDict, deque

import pytest
import torch

import capture

ITERATORS = {
    "list": lambda: iter([1, 2, 3]),
    "tuple": lambda: iter((1, 2, 3)),
    "deque": lambda: iter(deque([1, 2, 3])),
    "text": lambda: iter("abc"),
    "bytes": lambda: iter(b"abc"),
    "range": lambda: iter(range(3)),
    "reversed list": lambda: reversed([1, 2, 3]),
    "reversed tuple": lambda: reversed((1, 2, 3)),
    "keys": lambda: iter({1: "a", 2: "b", 3: "c"}),
    "values": lambda: iter({1: "a", 2: "b", 3: "c"}.values()),
    "items": lambda: iter({1: "a", 2: "b", 3: "c"}.items()),
    "keys backwards": lambda: reversed({1: "a", 2: "b", 3: "c"}),
    "ordered items": lambda: iter(OrderedDict(a=1, b=2, c=3).items()),
    "count": lambda: itertools.count(3, 2),
    "repeat": lambda: itertools.repeat("a", 3),
    "repeat forever": lambda: itertools.repeat("a"),
    "product": lambda: itertools.product([1, 2], "ab"),
    "product of one": lambda: itertools.product([1, 2], repeat=2),
    "permutations": lambda: itertools.permutations([1, 2, 3]),
    "combinations": lambda: itertools.combinations([1, 2, 3], 2),
    "pairwise": lambda: itertools.pairwise([1, 2, 3, 4]),
    "slice": lambda: itertools.islice([1, 2, 3, 4, 5, 6], 1, 6, 2),
    "slice of what has no end": lambda: itertools.islice(itertools.count(), 2, None, 3),
    "enumerate": lambda: enumerate("abc", 5),
    "chain": lambda: itertools.chain([1], [2, 3]),
    "zip": lambda: zip([1, 2, 3], "abc", strict=True),
    "map": lambda: map(str, [1, 2, 3]),
    "filter": lambda: filter(None, [0, 1, 2, 3]),
    "calls": lambda: iter([3, 2, 1].pop, 3),
}


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("name", ITERATORS)
def test_an_iterator_that_leaves_goes_on_where_it_was(check, x, name, taken):
    def start(a):
        iterator = ITERATORS[name]()
        before = [next(iterator) for _ in range(taken)]
        return iterator, before, a.sin()

    def follow(result):
        iterator, before, y = result
        return type(iterator).__name__, before, list(itertools.islice(iterator, 5)), y

    captured = capture.optimize("eager", strict=True, log=(log := capture.Log()))(start)
    expected, actual = follow(start(x)), follow(captured(x))
    assert actual[:3] == expected[:3]
    assert not log.records() or torch.equal(actual[3], expected[3])


FINITE = sorted(set(ITERATORS) - {"count", "repeat forever", "slice of what has no end"})


@pytest.mark.parametrize("name", FINITE)
def test_an_iterator_that_ended_stays_ended(check, x, name):
    def f(a):
        iterator = ITERATORS[name]()
        count = len(list(iterator))
        return a * count, list(iterator), next(iterator, "end")

    check(f, x)


def test_a_list_that_grows_after_the_end(check, x):
    def f(a):
        items = [a]
        iterator = iter(items)
        first = list(iterator)
        items.append(a + 1)
        return first, list(iterator), len(items)

    check(f, x)


def test_containers_that_change_while_they_are_iterated(check, x):
    def f(a, change):
        table, seen = {1: a, 2: a + 1}, []
        try:
            for key in table:
                seen.append(key)
                change(table)
        except RuntimeError as error:
            seen.append(str(error))
        return seen, a * 2

    check(f, x, lambda table: table.setdefault(3, None))
    check(f, x, lambda table: table.pop(2, None))
    check(f, x, lambda table: table.update({1: 5}))


def test_stop_iteration_from_a_function_ends_the_iterator(check, x):
    def stop(value):
        if value == 2:
            raise StopIteration
        return value

    check(lambda a: (a + 1, list(map(stop, [1, 2, 3])), list(iter(lambda: stop(2), 0))), x)


def test_send_throw_and_close(check, x):
    def tries(a):
        received = []
        try:
            while True:
                try:
                    received.append((yield a))
                except ValueError as error:
                    received.append(str(error))
        finally:
            received.append("closed")
            a = received

    def f(a):
        generator = tries(a)
        seen = [next(generator), generator.send(a + 1), generator.throw(ValueError("no")), generator.send(3)]
        generator.close()
        return seen, list(generator)

    check(f, x)


def test_a_generator_that_raises_stop_iteration(check, x):
    def broken(a):
        yield a
        raise StopIteration("early")

    def f(a):
        seen = []
        try:
            seen.extend(broken(a * 2))
        except RuntimeError as error:
            seen.append(str(error))
        return seen

    check(f, x)


def test_what_a_generator_returns_is_told_once(check, x):
    def once(a):
        yield a
        return 7

    def f(a):
        generator, told = once(a), []
        next(generator)
        for _ in range(2):
            try:
                next(generator)
            except StopIteration as end:
                told.append(end.value)
        return told, a + 1

    check(f, x)


def test_a_generator_forgotten_inside_a_try_is_left_to_cpython(x):
    ended = []

    def careful(a):
        try:
            yield a
        finally:
            ended.append(True)

    def f(a):
        first = next(careful(a + 1))
        return first, len(ended)

    captured = capture.optimize("eager", strict=True)(f)
    assert captured(x)[1] == 1
    assert captured(x)[1] == 2


def test_a_generator_that_runs_already(check, x):
    def f(a):
        def own():
            yield a
            yield next(generator)

        generator = own()
        try:
            return list(generator)
        except ValueError as error:
            return str(error), a + 1

    check(f, x)


def test_slices_take_no_more_than_they_give(check, x):
    def f(a):
        numbers = iter(range(10))
        return list(itertools.islice(numbers, 1, 6, 3)), next(numbers), a + 1

    check(f, x)


class Steps:
    """A sequence in the old way, which notes what it is asked for."""

    def __init__(self, count):
        self.count, self.asked = count, []

    def __len__(self):
        self.asked.append("length")
        return self.count

    def __getitem__(self, index):
        self.asked.append(index)
        if index == 1:
            raise IndexError
        return index


def test_reversed_objects_are_asked_for_one_item_at_a_time(check, x):
    def play(a, steps):
        backwards = reversed(steps)
        first = next(backwards)
        steps.asked.append("between")
        return a + first, [item for item in backwards], next(backwards, None)  # noqa: C416 - a list asks for a length

    check(play, x, Steps(4))


def test_modules_in_reverse_across_a_break(check, x):
    def play(a, layers):
        seen = []
        for layer in reversed(layers):
            a = layer(a)
            print(end="")
            seen.append(layer.out_features)
        return a, seen

    layers = torch.nn.ModuleList([torch.nn.Linear(n, n + 1) for n in (5, 4, 3)])
    check(play, x, layers, graphs=3, breaks=1)


# -- what changes while it is iterated ---------------------------------------------------------------------------------

_ITERATED = {
    "list": "[1, 2, 3]",
    "deque": "collections.deque([1, 2, 3])",
    "short deque": "collections.deque([1, 2, 3], 3)",
    "deque of one": "collections.deque([1])",
    "dict": "dict(a=1, b=2, c=3)",
    "defaultdict": "collections.defaultdict(int, a=1, b=2, c=3)",
    "OrderedDict": "collections.OrderedDict(a=1, b=2, c=3)",
    "OrderedDict of one": "collections.OrderedDict(b=1)",
    "set": "{1, 2, 3}",
}
_CHANGES_OF_SEQUENCES = """
q.append(x) | q.reverse() | q[0] = x | del q[0] | q.clear() | q.extend([]) | q.extend([x, x]) | q *= 1 | q *= 2
q += [x] | q.insert(0, x) | q.pop(); q.append(x) | q.pop() | q.appendleft(x); q.popleft() | q.rotate(1) | pass
"""
_CHANGES_OF_DICTS = """
q['z'] = x | q['a'] = x | del q['b'] | q.clear() | q.clear(); q['a'] = 1 | q.popitem() | q.move_to_end('a')
q.move_to_end('c') | q.move_to_end('a', False) | q.update(a=1) | q.update(z=1) | q.setdefault('a') | q.setdefault('y')
q.pop('b') | q |= dict(u=2) | q['miss'] | pass
"""
_CHANGES_OF_SETS = (
    "q.add(9) | q.discard(2) | q.clear() | q |= {7} | q.discard(3); q.add(8) | q.discard(1); q.add(1) | pass"
)
_WALKS = ("iter(q)", "reversed(q)", "itertools.islice(q, 5)", "iter(q.items())")
_STEPS = {
    "steps": """
    told.append(str(next(it, "end")))
    {}
    for _ in range(3):
        try: told.append(str(next(it, "end")))
        except RuntimeError as error: told.append(str(error))
""",
    "loop": """
    for v in it:
        if len(told) > 8: break
        told.append(str(v))
        {}
""",
    "break": """
    told.append(str(next(it, "end")))
    {}
    capture.graph_break()
    for _ in range(2):
        try: told.append(str(next(it, "end")))
        except RuntimeError as error: told.append(str(error))
""",
}


def _iterated(made, walk, change, steps, around):
    program = f"def play(x, told, q):\n    y = x + 1\n    it = {walk}\n{_STEPS[steps].format(change)}\n    return y"
    names = {"collections": collections, "itertools": itertools, "capture": capture}
    exec(program, names)
    told, q = [], eval(made, names)
    try:
        around(names["play"])(torch.zeros(()), told, q)
    except (RuntimeError, KeyError, TypeError, AttributeError, IndexError) as error:
        told.append((type(error), str(error)))
    return told, str(q)


@pytest.mark.parametrize("kind", _ITERATED)
def test_a_container_that_changes_while_it_is_iterated(kind):
    """A third of all ways, drawn anew in each run; all of them with ``SWEEPS=all``."""
    made, differ = _ITERATED[kind], []
    changes = _CHANGES_OF_SETS if kind == "set" else _CHANGES_OF_DICTS if "ict" in kind else _CHANGES_OF_SEQUENCES
    ways = list(itertools.product(_WALKS, re.split(r" \| |\n", changes.strip()), _STEPS))
    if os.environ.get("SWEEPS") != "all":
        ways = random.Random().sample(ways, len(ways) // 3)
    for walk, change, steps in ways:
        eager = _iterated(made, walk, change, steps, lambda play: play)
        captured = _iterated(made, walk, change, steps, capture.optimize("eager", strict=True))
        if eager != captured:
            differ.append((walk, change, steps, eager, captured))
    assert differ == []
