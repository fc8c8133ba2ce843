"""Generated programs over containers, control flow and tensors: captured or not, nobody can tell."""

import contextlib
import types

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

import capture


def numbers():
    return st.one_of(st.integers(-3, 3).map(str), st.just("n"), st.just("len(items)"), st.just("a.shape[0]"))


def tensors():
    leaves = st.sampled_from(["a", "b", "a.sum()", "b.abs()", "torch.relu(a)", "items[0]", "table['t']"])
    grow = lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, numbers()).map(lambda t: f"({t[0]} * {t[1]})"),
        st.tuples(numbers(), inner).map(lambda t: f"helper({t[1]}, n={t[0]})"),
        inner.map(lambda t: f"(lambda v: v + a)({t})"),
    )
    return st.recursive(leaves, grow, max_leaves=4)


def conditions():
    return st.one_of(
        st.tuples(numbers(), st.sampled_from(["<", "==", ">="]), numbers()).map(" ".join),
        st.just("'k' in table"),
        st.just("isinstance(items[-1], torch.Tensor)"),
        tensors().map(lambda t: f"({t}).sum() > 0"),
    )


def simple():
    return st.one_of(
        tensors().map(lambda t: f"a = {t}"),
        tensors().map(lambda t: f"b = {t}"),
        tensors().map(lambda t: f"items.append({t})"),
        tensors().map(lambda t: f"table['k'] = {t}"),
        numbers().map(lambda t: f"n = {t}"),
        numbers().map(lambda t: f"n += {t}"),
        st.just("b = b + 1; b += 1"),
        st.just("items, last = items[:1] + [b], items[-1]"),
        st.just("state.n = n"),
        st.just("state.seen.append(n)"),
        st.just("a = sum([v for v in items if v is not b], a)"),
        st.just("capture.graph_break()"),
        st.just("n = int(a.sum().item()) % 5"),
        st.just("n = int((a > 0).sum().item())"),
        st.just("a = a * (b.max().item() + 1)"),
        st.just("b = torch.cat([b[b > 0], b])[:3]"),
        st.just("state.seen.append(float(a.sum()))"),
        st.just("f = lambda: (n, len(items)); state.seen.append(f()[0])"),
        st.just("state.seen.append([v * n for v in range(2)])"),
        st.just("n += sum(steps(n % 3))"),
        st.just("text = f'{n}'; state.seen.append(text)"),
        st.just("b = State.scale(b, n) if n else b"),
        st.just("table.pop('k', None)"),
        st.just("items[0], b = b, items[0]"),
    )


def indented(lines):
    return ["    " + line for line in lines]


def blocks(depth=2):
    if depth == 0:
        return st.lists(simple(), min_size=1, max_size=3)
    inner = blocks(depth - 1)
    compound = st.one_of(
        st.tuples(conditions(), inner, inner).map(lambda t: [f"if {t[0]}:", *indented(t[1]), "else:", *indented(t[2])]),
        inner.map(lambda t: ["for i, v in enumerate([a, b]):", *indented([*t, "n += i"])]),
        inner.map(lambda t: ["with torch.no_grad():", *indented(t)]),
        inner.map(lambda t: ["with state as n:", *indented(t)]),
        inner.map(lambda t: ["with managed(state) as n:", *indented([*t, "if n == 2: raise ValueError(n)"])]),
        inner.map(
            lambda t: ["while n < 3 and len(state.seen) < 30:", *indented(["state.seen.append(n)", *t, "n += 1"])]
        ),
        inner.map(lambda t: ["for v in steps(3):", *indented([*t, "if v == 1: continue", "a = a - v"])]),
        inner.map(lambda t: ["for k in list(table):", *indented([*t, "if k == 'k': break"]), "else:", "    n -= 1"]),
        st.tuples(inner, inner).map(lambda t: ["try:", *indented(t[0]), "finally:", *indented(t[1])]),
        st.tuples(inner, inner).map(
            lambda t: [
                "try:",
                *indented([*t[0], "items[9]"]),
                "except IndexError as e:",
                *indented([*t[1], "state.seen.append(str(e))"]),
            ]
        ),
        inner.map(
            lambda t: ["try:", *indented([*t, "raise KeyError(n)"]), "except KeyError as e:", "    n += len(e.args)"]
        ),
    )
    compound = st.one_of(compound, *later_blocks(inner))
    statement = st.one_of(simple().map(lambda line: [line]), compound)
    return st.lists(statement, min_size=1, max_size=4).map(lambda parts: [line for part in parts for line in part])


def later_blocks(inner):
    """Groups of exceptions, coroutines, and classes."""
    raises = 'raise ExceptionGroup("g", [KeyError(n), ExceptionGroup("h", [ValueError("v"), KeyError("k")])])'
    names = "a, b, n, items, table"
    return (
        st.tuples(inner, inner, inner).map(
            lambda t: [
                "try:",
                *indented([*t[0], raises]),
                "except* KeyError as group:",
                *indented([*t[1], "state.seen.append([type(e).__name__ for e in group.exceptions])"]),
                "except* ValueError:",
                *indented(t[2]),
            ]
        ),
        inner.map(lambda t: ["try:", *indented([*t, raises]), "except* ValueError:", "    n += 1"]),
        st.tuples(inner, inner).map(
            lambda t: [
                f"async def work({names}):",
                *indented([*t[0], "n += await pause(n)", *t[1], f"return {names}"]),
                f"{names} = drive(work({names}), state)",
            ]
        ),
        st.tuples(inner, inner).map(
            lambda t: [
                f"async def work({names}):",
                "    async with Managed(state) as got:",
                *indented(indented(["n += got", *t[0], "if n == 2: raise KeyError(n)"])),
                "    async for v in rounds(n % 3):",
                *indented(indented([*t[1], "a = a - v"])),
                f"    return {names}",
                f"{names} = drive(work({names}), state)",
            ]
        ),
        inner.map(
            lambda t: [
                "class Local(State):" if len(t) % 2 else "class Local:",
                "    scale = n",
                "    def apply(self, t):",
                "        return t * self.scale + b",
                *t,
                "a = Local().apply(a)",
            ]
        ),
    )


def drive(coroutine, state):
    try:
        sent = None
        while True:
            sent = coroutine.send(sent)
            state.seen.append(sent)
    except StopIteration as stop:
        return stop.value


@types.coroutine
def pause(value):
    return (yield value)


async def rounds(count):
    for index in range(count):
        await pause(index)
        yield index


class Managed:
    def __init__(self, state):
        self.state = state

    async def __aenter__(self):
        return await pause(len(self.state.seen) % 3)

    async def __aexit__(self, kind, error, traceback):
        self.state.seen.append(await pause(kind and kind.__name__))
        return kind is KeyError


class State:
    def __init__(self):
        self.n = 0
        self.seen = []

    @staticmethod
    def scale(t, n):
        return t * n

    def __enter__(self):
        self.seen.append("in")
        return len(self.seen) % 4

    def __exit__(self, cls, error, traceback):
        self.seen.append(None if cls is None else cls.__name__)
        return cls is KeyError


@contextlib.contextmanager
def managed(state):
    state.seen.append("open")
    try:
        yield len(state.seen) % 4
    except ValueError as error:
        state.seen.append(error.args)
    finally:
        state.seen.append("closed")


def steps(n):
    yield from range(n)


def helper(t, *, n=1):
    return t + n if n > 0 else t


def program(lines):
    body = "\n".join(indented(lines))
    source = f"def program(a, b, n, items, table, state):\n{body}\n    return a, b, n, items, table\n"
    namespace = {"torch": torch, "capture": capture, "helper": helper, "State": State}
    namespace |= {"managed": managed, "steps": steps, "drive": drive, "pause": pause, "rounds": rounds}
    namespace |= {"Managed": Managed, "__name__": __name__}
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace["program"]


def arguments():
    a = torch.tensor([1.0, -2.0, 3.0])
    return a, a * 0.5, 2, [a + 1, a], {"t": a - 1}, State()


def outcome(function, args):
    try:
        return function(*args)
    except (IndexError, NameError, RuntimeError, TypeError, ValueError, KeyError, ExceptionGroup) as error:
        return type(error).__name__


@settings(max_examples=150, deadline=None)
@given(blocks())
def test_generated_programs(same, lines):
    function = program(lines)
    expected, actual = arguments(), arguments()
    # A list that is asked for its length and grows in every round is a version each.
    region = capture.optimize("eager", strict=True, recompile_limit=64)(function)
    for _ in range(2):
        same(outcome(function, expected), outcome(region, actual))
        same(expected, actual)
