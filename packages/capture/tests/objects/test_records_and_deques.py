"""Classes of tuples, by whatever name and with whatever ``__new__``; what lists and deques refuse, in their words."""

import collections
import itertools
import os
import random
from typing import NamedTuple

import pytest
import torch
from what_is_seen import differing, outcome, seen

LOG = []


class P(NamedTuple):
    a: object
    b: object


class Size(NamedTuple):
    a: object
    b: object


class Doubled(P):
    def __new__(cls, a, b=1):
        LOG.append("new")
        return super().__new__(cls, a * 2, b)


class OwnText(P):
    def __repr__(self):
        return f"own {self.a}"


class Items(tuple):
    def __new__(cls, a, b=1):
        LOG.append("items")
        return super().__new__(cls, (a, b, a))


class Entry(tuple):
    """Pairs of no names."""


MAKERS = {
    "tuple": lambda a, b: (a, b),
    "named": P,
    "Size": Size,
    "doubled": Doubled,
    "own text": OwnText,
    "items": Items,
    "entry": lambda a, b: Entry((a, b)),
    "torch.Size": lambda a, b: torch.Size([3, 4]),
    "return type": lambda a, b: (
        torch.return_types.max((torch.ones(1), torch.ones(1, dtype=torch.int64))) if False else (a, b)
    ),
}
USES = {
    "repr": "repr(v)",
    "str": "str(v)",
    "format": "f'{v} {v!r}'",
    "in a list": "repr([v, {1: v}, (v,)])",
    "percent": "'%r' % [v]",
    "slice": "v[:1], v[::-1], v[5:]",
    "whole slice": "v[:], type(v[:])",
    "sum": "v + (1,), (1,) + v",
    "times": "v * 2, 2 * v",
    "in items": "v in D.items(), (v[0], v[1]) in D.items()",
    "in values": "v in D.values(), v in [v], v in ((1, 2), v)",
    "items as a set": "(D.items() & {v}), D.items() == {(v[0], v[1])}",
    "keys": "{v: 1}, v in {v}, {v: 2}[(*v,)]",
    "equal": "v == (*v,), (*v,) == v, v != list(v), v < (9, 9, 9)",
    "hash": "hash(v) == hash((*v,))",
    "itself": "v",
    "fields": "getattr(v, 'a', None), getattr(v, '_fields', None), type(v).__name__, isinstance(v, tuple)",
    "replaced": "v._replace(b=7) if hasattr(v, '_replace') else v",
    "as dict": "v._asdict() if hasattr(v, '_asdict') else v",
    "made": "type(v)._make([1, 2]) if hasattr(v, '_make') else v",
    "index": "v.index(v[1]), v.count(v[0])",
    "matched": "[*map(str, v)]",
}


@pytest.mark.without_graphs("some texts are CPython's", cases="some")
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("use", USES)
def test_classes_of_tuples(use, inside):
    def calls(compiled, maker):
        scope = {"make": maker}
        made = "v = make(n, 2)\n    " if inside else ""
        exec(f"def f(x, v, D, n):\n    {made}return x + 1, ({USES[use]})", scope)
        function, found = compiled(scope["f"]), []
        for n in (1, 3, 1):
            value, D = maker(n, 2), {n: 2, n * 2: 2, 3: 4}
            LOG.clear()
            found.append((outcome(function, torch.ones(1), value, D, n), [*LOG]))
        return found

    assert differing(MAKERS.items(), calls) == []


OPERATIONS = [
    f"{operation.replace('I', index)}"
    for operation in ("o[I]", "o[I] = 7", "del o[I]", "o.insert(I, 7)", "o.rotate(I)", "o.pop(I)")
    for index in ("0", "9", "-9", "-1", "'a'", "None", "1.5", "True", "slice(0, 1)", "2**70")
] + [
    *(
        "o.remove(7)",
        "o.remove(2)",
        "o.index(7)",
        "o.index(2, 1)",
        "o.index(1, 5)",
        "o.pop()",
        "o.popleft()",
        "o.clear()",
    ),
    *(
        "o.append()",
        "o.append(1, 2)",
        "o.extend(3)",
        "o.extend([1])",
        "o += 3",
        "o + 3",
        "o + [1]",
        "o * 'a'",
        "o *= 2",
    ),
    *(
        "o.count()",
        "o.appendleft(3)",
        "o.extendleft([1, 2])",
        "o.reverse()",
        "o.sort()",
        "o.copy()",
        "o == (1,)",
        "o < 3",
    ),
    *("o.maxlen", "o.missing", "len(o, 1)", "o[0][0]", "o()", "o.pop(1, 2)", "o.insert(1)", "iter(o).x", "hash(o)"),
]
MISCALLED = {
    "o.append()",
    "o.append(1, 2)",
    "o.count()",
    "o.pop(1, 2)",
    *(o for o in OPERATIONS if o.startswith("o.pop(")),
}
CONTAINERS = {
    "list": list,
    "deque": collections.deque,
    "bounded": lambda items: collections.deque(items, 3),
    "own list": type("OwnList", (list,), {}),
    "own deque": type("OwnDeque", (collections.deque,), {}),
}


@pytest.mark.without_graphs("what C refuses in words of its own is CPython's", cases="some")
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
@pytest.mark.parametrize("kind", CONTAINERS)
def test_what_containers_refuse(kind):
    def calls(compiled, operation):
        scope = {}
        is_statement = "=" in operation.replace("==", "") or operation.startswith("del")
        exec(
            f"def f(x, o):\n    {operation if is_statement else 'r = ' + operation}\n"
            "    return x + 1, locals().get('r'), o",
            scope,
        )
        function, found = compiled(scope["f"]), []
        for items in ([1, 2, 3], [1, 2, 3], [], [3, 2]):
            o = CONTAINERS[kind](items)
            found.append((outcome(function, torch.ones(1), o), seen(o)))
        return found

    chosen = OPERATIONS if os.environ.get("SWEEPS") == "all" else random.sample(OPERATIONS, 25)
    if kind.startswith("own"):  # of a call with too few or too many, CPython names another class where it is left to it
        chosen = [operation for operation in chosen if operation not in MISCALLED]
    assert differing(((operation, operation) for operation in chosen), calls) == []


@pytest.mark.parametrize("kind", CONTAINERS)
def test_refusals_are_caught_in_the_graph(kind):
    def calls(compiled, operation):
        scope = {}
        exec(
            f"def f(x, o):\n    try: {operation}\n    except Exception as e: return x + 1, type(e), str(e)\n"
            "    return x, o",
            scope,
        )
        function = compiled(scope["f"])
        return [outcome(function, torch.ones(1), CONTAINERS[kind](items)) for items in ([1, 2], [1, 2], [])]

    cases = [
        f"{form.replace('I', i)}" for form, i in itertools.product(("o[I]", "o[I] = 1", "del o[I]"), ("5", "-5", "0"))
    ]
    assert differing(((case, case) for case in cases), calls) == []
