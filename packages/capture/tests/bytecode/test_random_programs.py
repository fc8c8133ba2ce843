"""Random small programs: the round trip and the continuation from any instruction behave like the original."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capture.bytecode.assembler import assemble
from capture.bytecode.instructions import Body

names = st.sampled_from(["a", "b", "c", "x"])
operators = st.sampled_from(["+", "-", "*", "//", "<", "==", "and", "or", "is", "in [1, 2] +"])


def indented(lines):
    return ["    " + line for line in lines]


def joined(parts):
    return [line for part in parts for line in part]


def binary(inner):
    return st.builds("({} {} {})".format, inner, operators, inner)


def calls(inner):
    return st.builds("f({}, k={})".format, inner, inner) | st.builds("f(*[{}], **{{'k': {}}})".format, inner, inner)


expressions = st.recursive(
    names | st.sampled_from(["0", "1", "2", "'s'", "None"]),
    lambda inner: (
        binary(inner)
        | calls(inner)
        | st.builds("[{}, *({}, 1)][0]".format, inner, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
        | st.builds("[{} for x in range(2) if {}]".format, inner, inner)
        | st.builds("[g() for g in [lambda: (x, {}) for x in range(2)]]".format, inner)
        | st.builds("f'{{{}}}'".format, names)
        | st.builds("{} < {} < {}".format, names, inner, names).map("({})".format)
    ),
    max_leaves=4,
)

simple = (
    st.builds("{} = {}".format, names, expressions)
    | st.builds("{} += {}".format, names, expressions)
    | st.builds("log.append({})".format, expressions)
    | st.builds("a, *b = {}, {}".format, expressions, expressions)
    | st.builds("del {}".format, names)
    | st.builds("raise ValueError({})".format, expressions)
    | st.builds("return {}".format, expressions)
    | st.sampled_from(["pass", "raise", "assert a, b", "nonlocal_ = lambda: a"])
).map(lambda line: [line])

loops_only = st.sampled_from([["break"], ["continue"]])


def blocks(inner):
    body = st.lists(inner, min_size=1, max_size=3).map(lambda parts: indented(joined(parts)))
    looped = st.lists(inner | loops_only, min_size=1, max_size=3).map(lambda parts: indented(joined(parts)))
    tails = st.sampled_from(
        ["except ValueError as c:", "except (TypeError, NameError):", "finally:", "except* TypeError:"]
    )
    return (
        st.builds(lambda test, a, b: [f"if {test}:", *a, "else:", *b], expressions, body, body)
        | st.builds(lambda a, b: ["for x in range(3):", *a, "else:", *b], looped, body)
        | st.builds(lambda a: ["for x in [1, 2]:", "    log.append(x)", *a], looped)
        | st.builds(lambda a, tail, b: ["try:", *a, tail, *b], body, tails, body)
        | st.builds(lambda a, b, c: ["try:", *a, "except Exception:", *b, "finally:", *c], body, body, body)
        | st.builds(lambda n, a: [f"with manager(log, {n}):", *a], st.sampled_from("01"), body)
    )


statements = st.recursive(simple, blocks, max_leaves=6)


@st.composite
def programs(draw):
    lines = joined(draw(st.lists(statements, min_size=1, max_size=4)))
    closure = draw(st.sampled_from([[], ["def late(): return a, x"], ["def late():", "    nonlocal b", "    b = a"]]))
    return "\n".join(["def program(log, a=1, b=2):", *indented(["x = 3", *closure, *lines, "return a, b"])])


class manager:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")

    def __exit__(self, kind, value, trace):
        self.log.append(("exit", kind))
        return self.swallow


def f(*args, k=None):
    return k if args else None


def compiled(source):
    namespace = {"f": f, "manager": manager}
    try:
        exec(compile(source, "program", "exec"), namespace)
    except SyntaxError:  # such as `return` under `except*`
        return None
    return namespace["program"]


def plain(value):
    """Comparable: functions, lambdas and exceptions made by two runs are different objects."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, BaseException):
        return type(value), str(value)
    return type(value) if callable(value) else value


def outcome(function, *args):
    try:
        return "returned", plain(function(*args))
    except Exception as error:  # noqa: BLE001 - whatever the program raises is its outcome
        return "raised", type(error), str(error), type(error.__context__), type(error.__cause__)


@given(programs())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_round_trip(source):
    function = compiled(source)
    if function is None:
        return
    expected = outcome(function, expected_log := [])
    function.__code__ = assemble(Body.from_code(function.__code__), function.__code__)
    assert outcome(function, log := []) == expected, source
    assert plain(log) == plain(expected_log)


@given(source=programs(), where=st.floats(0, 1, exclude_max=True))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_continuation(source, where, stopped_at):
    function = compiled(source)
    if function is None:
        return
    expected = outcome(function, expected_log := [])
    body = Body.from_code(function.__code__)
    start = 1 + next(i.index for i in body if i.op == "RESUME")
    index = start + int(where * (len(body) - start))
    try:
        snapshot = stopped_at(function, index)(log := [])
    except Exception:  # noqa: BLE001
        return  # never got there
    result = outcome(snapshot.resume, function) if hasattr(snapshot, "resume") else ("returned", plain(snapshot))
    assert result == expected, (source, body.instructions[index])
    assert plain(log) == plain(expected_log)
