"""Functions that the captured code makes are all that they are in Python."""

import types


def test_annotations_defaults_and_docstrings_of_functions_that_leave(check, x):
    def play(a):
        def function(first: int, second: "later" = 3, *more, named: list = 4) -> dict:  # noqa: F821
            """What it is for."""
            return first, second, named

        return a + 1, function

    log = check(lambda a: (play(a)[0], *described(play(a)[1])), x, breaks=1)
    assert log.records()


def test_functions_without_any_of_these(check, x):
    def play(a):
        def function(first):
            return first

        return (a + 1, *described(function), function.__doc__)

    check(play, x, breaks=1)


def described(function):
    return (
        *(function.__annotations__, function.__defaults__, function.__kwdefaults__, function.__closure__),
        *(function.__doc__, function.__name__, function.__qualname__, function.__module__, function(2)),
    )


def test_docstrings_are_known(check, x):
    def play(a):
        def function():
            "for this"

        return a + 1, function.__doc__, (lambda: "text").__doc__

    check(play, x)


def test_slices_are_compared_as_tuples(check, x):
    def play(a, bound):
        one, other = slice(1, bound), slice(1, 4)
        return a + 1, one == other, (a.dim(), one) == (2, other), one != other

    check(play, x, 4)
    check(play, x, 5)


SHOWN = {"a": 1}
PROXY = types.MappingProxyType(SHOWN)


def test_a_proxy_shows_what_its_dict_holds_now(check, x):
    def play(a):
        SHOWN["b"] = 2
        seen = list(PROXY), PROXY.get("b"), "b" in PROXY
        del SHOWN["b"]
        return a + 1, seen, len(PROXY)

    check(play, x, graphs=1, breaks=None)
