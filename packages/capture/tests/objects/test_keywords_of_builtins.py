"""Rules take the calls that their functions take: a keyword that CPython refuses is refused, with its words."""

import collections
import copy
import inspect
import itertools
import types

import pytest
import torch
from what_is_seen import differing, outcome

import capture  # noqa: F401  which fills the table
from capture.evaluator.builtin_rules.registry import RULES

SAMPLES = {
    list: lambda: [3, 1, 2],
    dict: lambda: {"a": 1, 2: 3},
    set: lambda: {1, 2},
    tuple: lambda: (1, 2),
    str: lambda: "a1",
    bytes: lambda: b"a1",
    range: lambda: range(3),
    frozenset: lambda: frozenset({1}),
    collections.deque: lambda: collections.deque([1, 2], 3),
    collections.OrderedDict: lambda: collections.OrderedDict(a=1),
    collections.defaultdict: lambda: collections.defaultdict(int, a=1),
}
OPERANDS = ("a", 0, [1, 2], {"a": 1}, (2, 1), None, len)
_MODULES = (
    "builtins",
    "_operator",
    "itertools",
    "_functools",
    "_collections",
    "collections",
    "math",
    "copy",
    "functools",
)
LEFT_OUT = {
    "breakpoint",
    "exec",
    "eval",
    "__build_class__",
    "input",
    "print",
    "dir",
    "globals",
    "locals",
    "vars",
    "super",
    "type",
}


def names_of_rules(function):
    found = set()
    for _, handler in RULES[function]:
        parameters = list(inspect.signature(handler).parameters.values())[1:]
        found |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    return sorted({*found, "key", "default", "value", "index"})


def functions():
    for function in RULES:
        owner = getattr(function, "__objclass__", None)
        name = getattr(function, "__name__", "")
        module = getattr(owner or function, "__module__", None)
        if module not in _MODULES or name in LEFT_OUT or (owner is not None and owner not in SAMPLES):
            continue
        if not isinstance(function, type) or not issubclass(function, BaseException):
            yield f"{owner.__name__ + '.' if owner else ''}{name}", function


def calls_of(function):
    """Positional operands of each number with one keyword of the rule's."""
    for name in names_of_rules(function):
        for count, operand in itertools.product(range(3), OPERANDS[:5]):
            yield name, count, operand


def described(made):
    return [*itertools.islice(made, 5)] if hasattr(type(made), "__next__") else made


FUNCTIONS = dict(functions())


@pytest.mark.without_graphs("what is refused is CPython's to refuse", cases="some")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_keywords_that_are_refused(name):
    function = FUNCTIONS[name]
    owner = getattr(function, "__objclass__", None)

    def operands(case):
        keyword, count, operand = case
        first = [SAMPLES[owner]()] if owner else []
        return [*first, *(copy.copy(operand), operand)[:count]], {keyword: operand}

    def plainly(case):
        args, kwargs = operands(case)
        return outcome(lambda: described(function(*args, **kwargs)))

    def calls(compiled, case):
        called = compiled(lambda x, function, args, kwargs: (x + 1, described(function(*args, **kwargs)), args))
        found = []
        for _ in range(2):
            args, kwargs = operands(case)
            found.append(outcome(called, torch.ones(1), function, args, kwargs))
        return found

    # One call of each keyword that the function refuses, and one of each that it takes.
    chosen = {}
    for case in calls_of(function):
        chosen.setdefault((case[0], "keyword" in plainly(case)), case)
    assert differing(((case, case) for case in chosen.values()), calls) == []


def with_default(x, o, how):
    try:
        return x + 1, how(o)
    except TypeError as error:
        return x + 2, str(error)


MISTAKES = {
    "getattr": lambda o: getattr(o, "x", default=3),
    "next": lambda o: next(iter(()), default=3),
    "get": lambda o: {}.get("a", default=3),
    "pop": lambda o: {}.pop("a", default=3),
    "iter": lambda o: iter(o, sentinel=3),
    "setdefault": lambda o: {}.setdefault("a", default=3),
    "index": lambda o: [1].index(value=1),
    "count": lambda o: (1,).count(value=1),
    "strict": lambda o: [*map(str, [1], strict=True)],
    "join": lambda o: "".join(iterable=[]),
    "isinstance": lambda o: isinstance(o, cls=int),
    "add": lambda o: {1}.add(item=2),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.without_graphs("what is refused is CPython's to refuse", cases="some")
def test_mistakes_with_keywords_are_errors(name):
    def calls(compiled, how):
        function = compiled(with_default)
        return [outcome(function, torch.ones(1), o, how) for o in (types.SimpleNamespace(), types.SimpleNamespace(), 3)]

    assert differing([(name, MISTAKES[name])], calls) == []
