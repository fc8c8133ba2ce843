"""All that a program could see of a result: types, contents, attributes, exceptions and what they follow from."""

import collections
import re
import types

import torch

import capture

_FIELDS = ("__cause__", "__context__", "__suppress_context__", "__notes__")


def seen(obj, depth=0):
    """A text of what somebody sees who looks into it; addresses are left out."""
    name = type(obj).__qualname__
    if depth > 6:
        return name
    if isinstance(obj, torch.Tensor):
        return f"{name}({obj.dtype}, {obj.tolist()})"
    held = seen(obj.__dict__, depth + 1) if getattr(obj, "__dict__", None) and not isinstance(obj, type) else ""
    if isinstance(obj, BaseException):
        fields = ", ".join(f"{field}={seen(getattr(obj, field, None), depth + 1)}" for field in _FIELDS)
        return f"{name}({[seen(item, depth + 1) for item in obj.args]}, {obj}, {fields})"
    if isinstance(obj, (collections.abc.Mapping, types.MappingProxyType)):
        items = [f"{seen(key, depth + 1)}: {seen(item, depth + 1)}" for key, item in obj.items()]
    elif isinstance(obj, (list, tuple, collections.deque)):
        items = [seen(item, depth + 1) for item in obj]
    elif isinstance(obj, (set, frozenset)):
        items = sorted(seen(item, depth + 1) for item in obj)
    elif held:
        items = []
    else:
        items = [re.sub(r"0x[0-9a-f]+", "0x", repr(obj))]
    return f"{name}[{', '.join(items)}]{held}"


def outcome(function, *args, **kwargs):
    """What a call gives or raises."""
    try:
        return seen(function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001  whatever the program raises, captured or not
        return "raised " + seen(error)


def differing(cases, calls):
    """The names of the cases that are another thing captured than in CPython, with what both give.

    ``calls`` is given a function that compiles and a case, and makes the calls of it: what they give is a list.
    """
    found = []
    for name, case in cases:
        expected = calls(lambda function: function, case)
        actual = calls(capture.optimize("eager", strict=True), case)
        if actual != expected:
            found.append((name, next(pair for pair in zip(expected, actual, strict=True) if pair[0] != pair[1])))
    return found
