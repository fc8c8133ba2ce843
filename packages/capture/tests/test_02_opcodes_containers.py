"""Building, taking apart and mutating containers."""

import collections
from collections import OrderedDict, deque

import pytest

import capture


def test_literals_and_unpacking(check, x):
    def build(a):
        pair = (a, a + 1)
        first, *rest = [*pair, 3]
        merged = {"p": first, "q": rest}
        return pair, rest, merged, {1, 2, 2}, [*range(3)], slice(1, 2)

    check(build, x)


def test_comprehensions(check, x):
    check(lambda a: ([i * a for i in range(3)], {k: a + k for k in (1, 2)}, {i % 2 for i in range(5)}), x)


def test_nested_comprehension_with_condition(check, x):
    check(lambda a: [[i * j * a for j in range(i)] for i in range(4) if i % 2], x)


def test_list_methods(check, x):
    def play(a):
        items = []
        items.append(4)
        items.extend([1, 2])
        items.insert(0, "s")
        popped = items.pop()
        items.remove(1)
        items.reverse()
        items.append(a + 1)
        return items, popped, items.index("s"), items.count("s"), items[::-1], items + [1], items * 2

    check(play, x)


def test_dict_methods(check, x):
    def play(a):
        table = {"a": a}
        table.update(b=a + 1)
        table.setdefault("c", []).append(1)
        gone = table.pop("a")
        return (
            table,
            gone,
            table.get("z", 3),
            list(table.items()),
            list(table),
            "b" in table,
            len(table),
            table | {"d": 1},
        )

    check(play, x)


def test_deletion_and_slice_assignment(check):
    def play(items, table):
        del items[0], table["k"]
        items[1:] = [7, 8]
        return items

    check(play, [1, 2, 3], {"k": 1, "j": 2}, graphs=0)


def test_ordered_and_default_dicts_and_deques(check, x):
    def play(a):
        ordered = collections.OrderedDict(a=1, b=a)
        ordered.move_to_end("a")
        default = collections.defaultdict(list)
        default["k"].append(a + 1)
        queue = collections.deque([1, 2], maxlen=2)
        queue.append(a)
        return ordered, default, list(queue), queue.popleft()

    check(play, x)


def test_sorting(check, x):
    check(lambda a: (sorted([3, 1, 2], reverse=True), sorted("ba", key=ord), max([(1, 2), (1, 3)])), x, graphs=0)


def test_missing_keys_and_indices_raise(check):
    check(lambda: {}["k"], graphs=0)
    check(lambda: [][1], graphs=0)


def test_wrong_number_of_items_to_unpack(check):
    def unpack(items):
        a, b = items
        return a, b

    check(unpack, [1, 2, 3], graphs=0)


def test_matching(check, x):
    def kind(value):
        match value:
            case [first, *_]:
                return "sequence", first
            case {"k": held}:
                return "mapping", held
            case int():
                return "int"
            case _:
                return "else"

    check(lambda a: (kind([a]), kind({"k": a}), kind("s")), x, graphs=0)


CONTAINERS = {
    "a set's order": lambda: ([i + 1 for i in {9, 3, 17, 1}], list({30, 2, 11} | {5}), sorted({"b", "a"})),
    "sets and views": lambda: ({1: 2}.keys() & {1, 3}, {1: 2}.items() | {(3, 4)}, {1} == frozenset({1}), {1} < {1, 2}),
    "a view equals a set": lambda: ({1: 2}.keys() == {1}, {1: 2}.items() == {(1, 3)}, {1: 2}.keys() == [1]),
    "set methods": lambda: ({1, 2}.difference([2]), {1, 2}.isdisjoint({3}), {1} ^ {2}, {1, 2}.issuperset([1])),
    "in place": lambda: [s := {1, 2}, s.intersection_update([2, 3]), s.symmetric_difference_update({5})],
    "deques": lambda: (deque([1]) + deque([2]), deque([1, 2], maxlen=3) * 2, deque([1]) == [1]),
    "ordered dicts": lambda: (
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        OrderedDict(a=1, b=2) == {"b": 2, "a": 1},
    ),
    "reversed views": lambda: (list(reversed({1: 2, 3: 4}.items())), list(reversed({1: 2}.values()))),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_as_in_python(check, x, name):
    check(lambda a: (a + 1, CONTAINERS[name]()), x)


ERRORS = {
    "list and tuple": lambda: [1] + (2,),
    "list and deque": lambda: [1] + deque([2]),
    "order of list and tuple": lambda: [1] < (2,),
    "a slice of a deque": lambda: deque([1, 2])[:1],
    "times a half": lambda: [1] * 0.5,
    "pairs that are none": lambda: dict([(1, 2, 3)]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_containers_as_in_python(check, x, name):
    def f(a):
        try:
            return a + 1, ERRORS[name]()
        except (TypeError, ValueError) as error:
            return a + 2, type(error).__name__, str(error)

    check(f, x)


def test_what_came_before_an_exception_stays(check, x):
    def broken(a):
        yield 1, a
        raise KeyError("late")

    def f(a):
        items, table, kept = [], {}, set()
        for change in (items.extend, table.update, lambda pairs: kept.update(key for key, _ in pairs)):
            try:
                change(broken(a * 2))
            except KeyError:
                items.append(len(items))
        return items, table, kept

    check(f, x)


class Word(str):
    pass


def test_keys_that_are_equal_but_not_the_same_object(check, x):
    check(lambda a: {"key": a, 2.0: a + 1}[Word("key")], x, breaks=2)
    check(lambda a, word: {word: a + 1}["key"], x, Word("key"), breaks=1)
    check(lambda a, word: {Word("key"): a + 1}.get(word), x, Word("key"), breaks=3)


def test_text_of_containers_that_contain_themselves(x):
    items, table = [1], {}
    items.append(items)
    table["self"] = (table, 2)
    assert capture.optimize("eager", strict=True)(lambda a: (a + 1, str(items), repr(table)))(x)[1:] == (
        "[1, [...]]",
        "{'self': ({...}, 2)}",
    )


class Lying(tuple):
    def __iter__(self):
        yield 1


def test_tuples_with_methods_of_their_own(check, x):
    check(lambda a: (a + 1, list(Lying((2,))), [*Lying((3, 4))]), x, breaks=1)
    check(lambda a, lying: (a + 1, list(lying), lying[0]), x, Lying((2,)), breaks=1)


def test_slices_that_are_assigned_to(check, x):
    def play(a, items, step, more):
        items[::step] = more
        return a + len(items)

    check(play, x, [1, 2, 3, 4], 2, [5, 6])
    check(play, x, [1, 2, 3, 4], 2, [5], graphs=0)
    check(play, x, [1, 2, 3, 4], 1, [])
    check(play, x, deque([1, 2]), 1, [], graphs=0)


def test_sums_and_products_of_sizes(check, x):
    check(
        lambda a: (
            a.shape + (1,),
            (1,) + a.shape,
            a.shape * 2,
            2 * a.shape,
            a.shape + a.shape,
            a.reshape(a.shape + (1,)),
        ),
        x,
    )
    check(lambda a: (a + 1, a.shape + ("a",)), x, breaks=1)
