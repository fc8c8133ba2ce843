"""Branches and loops that Python values decide; generators; exceptions of the user's program."""

import torch


def test_branches_on_arguments_and_shapes(check, x):
    def choose(a, flag, name=None):
        if flag and a.shape[0] == 2:
            a = a + 1
        elif name is None:
            a = a - 1
        return a * 2 if name else a

    check(choose, x, True)
    check(choose, x, False)
    check(choose, x, 0, name="n")


def test_loops(check, x):
    def loop(a):
        for index, (k, item) in enumerate(zip("ab", [a, a + 1])):
            if index == 5:
                break
            a = a + item * index
        else:
            a = a * 2
        n = 3
        while n:
            n -= 1
            if n == 1:
                continue
            a = a + n
        return a, k

    check(loop, x)


def test_a_list_that_grows_while_it_is_iterated(check):
    def grow(items):
        for item in items:
            if item < 3:
                items.append(item + 1)
        return items

    check(grow, [1], graphs=0)


def numbers(count):
    total = 0
    for index in range(count):
        total += index
        yield index
    return total


def test_generators_are_lazy_and_return(check, x):
    def consume(a):
        def outer():
            result = yield from numbers(3)
            yield result

        first, second = (item * a for item in range(2))
        return list(outer()), first + second, next(numbers(2)), sum(numbers(4))

    check(consume, x)


def test_exceptions_are_caught_by_type(check, x):
    def careful(a):
        found = []
        for error in (KeyError("k"), ValueError("v"), IndexError(3)):
            try:
                raise error
            except (KeyError, IndexError) as caught:
                found.append(type(caught).__name__)
            except Exception as caught:  # noqa: BLE001 - the test is about it
                found.append(str(caught))
            finally:
                found.append("finally")
        return a + 1, found

    check(careful, x)


def test_exceptions_cross_calls(check, x):
    def fail(n):
        if n > 1:
            raise RuntimeError("too deep", n)
        return fail(n + 1)

    def outer(a):
        try:
            fail(0)
        except RuntimeError as error:
            return a * 2, error.args

    check(outer, x)


def test_an_exception_that_leaves_is_the_same(check, x):
    def fail(a, n):
        b = a + 1
        if n != 2:
            raise AssertionError(f"n is {n}")
        return b

    check(fail, x, 3)


def test_errors_of_torch_are_torchs_own(check, x):
    check(lambda a: a @ a, x, graphs=0)


def test_traceback_names_the_users_line(x):
    import traceback

    import capture

    def fail(a):
        b = a + 1
        raise ValueError(b.shape)

    try:
        capture.optimize("eager", strict=True)(fail)(x)
    except ValueError as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.name, last.line) == ("fail", "raise ValueError(b.shape)")


def test_the_variables_of_a_frame(check, x):
    def f(a, *rest, key=1):
        b = a + 1
        inner = lambda: (b, sorted(locals()))
        del rest
        found = locals()
        return sorted(found), found["key"], dir(), inner(), found["b"]

    check(f, x, 2)


def test_what_looks_at_its_frame_finds_the_users(x):
    import sys

    import capture

    def f(a):
        b = a + 1
        return b, sys._getframe().f_code.co_name, eval("sorted(locals())")

    log = capture.Log()
    expected, actual = f(x), capture.optimize("eager", strict=True, log=log)(f)(x)
    assert actual[1:] == expected[1:]
    assert [record.reason.kind for record in log.records()] == ["frame"]


def test_patterns_ask_the_type(check, x):
    from collections import deque

    def kind(subject):
        match subject:
            case [first, *rest]:
                return "sequence", first, len(rest)
            case {"key": value}:
                return "mapping", value
            case str(text):
                return "text", text
        return "neither"

    check(lambda a: [a + 1, *map(kind, [range(3), (1, 2), deque([1]), "abc", b"ab", {"key": 2}, {}, {1}])], x)


def test_an_object_with_a_finalizer_exists(x):
    import capture

    gone = []

    class Resource:
        def __del__(self):
            gone.append(True)

    def f(a):
        Resource()
        return a + 1

    assert torch.equal(capture.optimize("eager", strict=True)(f)(x), x + 1)
    assert gone == [True]


def test_a_bare_raise_in_a_callee(check, x):
    def again():
        raise

    def f(a):
        try:
            raise KeyError("first")
        except KeyError:
            try:
                again()
            except KeyError as error:
                return a + 1, error.args

    check(f, x)


def test_exceptions_are_caught_by_ancestry(check, x):
    class Taught(type):
        def __subclasscheck__(cls, other):
            return True

    class Never(Exception, metaclass=Taught):
        pass

    def f(a):
        try:
            raise KeyError("first")
        except Never:
            return a + 1
        except KeyError:
            return a + 2

    check(f, x)


def test_names_that_are_attributes_of_the_builtins_but_no_names(check, x):
    def play(a):
        try:
            return __annotations__
        except NameError as error:
            return a + 1, str(error), error.name

    check(play, x, breaks=1)


def test_builtins_of_ones_own(check, x):
    namespace = {"__builtins__": {"len": lambda a: "own"}}
    exec("def play(a): return len(a), a + 1", namespace)
    check(namespace["play"], x, breaks=1)


def test_what_an_exception_of_pythons_tells(check, x):
    def play(a):
        try:
            return a + {}["missing"]
        except KeyError as error:
            told = error.args
        try:
            return a.missing, told
        except AttributeError as error:
            return a + 1, told, error.name, error.obj is a

    check(play, x, breaks=1)
