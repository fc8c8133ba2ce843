"""Names of classes, members that classes and modules have not, and ways to copy may change between calls."""

import copy
import copyreg
import enum
import inspect
import types

import pytest
import torch

import capture

READERS = {
    "name": lambda x, cls, obj: (x + 1, cls.__name__),
    "name of the type": lambda x, cls, obj: (x + 1, type(obj).__name__),
    "qualname": lambda x, cls, obj: (x + 1, cls.__qualname__),
    "module": lambda x, cls, obj: (x + 1, cls.__module__),
    "repr": lambda x, cls, obj: (x + 1, repr(cls)),
    "f-string": lambda x, cls, obj: (x + 1, f"{cls}"),
    "percent": lambda x, cls, obj: (x + 1, "%s" % cls),  # noqa: UP031
    "format": lambda x, cls, obj: (x + 1, "{}".format(cls)),  # noqa: UP032
    "repr of an exception": lambda x, cls, obj: (x + 1, repr(cls(1))),
}


@pytest.mark.parametrize("what", ["__name__", "__qualname__", "__module__"])
@pytest.mark.parametrize("reader", READERS)
def test_a_class_may_be_renamed(reader, what):
    cls = type("First", (ValueError,), {"__module__": "one"})
    obj, x = cls(), torch.ones(2)
    captured = capture.optimize(lambda gm, inputs: gm.forward)(READERS[reader])
    for name in ("First", "Second", "Third"):
        setattr(cls, what, name)
        assert captured(x, cls, obj)[1] == READERS[reader](x, cls, obj)[1]


def read(x):
    try:
        return x.lately
    except AttributeError:
        return "nothing"


ASKERS = {
    "hasattr": lambda x: (x + 1, hasattr(x, "lately")),
    "hasattr of a result": lambda x: (x + 1, hasattr(x * 2, "lately")),
    "getattr": lambda x: (x + 1, getattr(x, "lately", "nothing")),
    "try": lambda x: (x + 1, read(x)),
    "of the class": lambda x: (x + 1, hasattr(type(x), "lately")),
    "of the base": lambda x: (x + 1, hasattr(torch.Tensor, "lately")),
}


@pytest.mark.parametrize("cls", [torch.Tensor, torch.nn.Parameter])
@pytest.mark.parametrize("asker", ASKERS)
def test_a_tensor_may_get_a_member(asker, cls, monkeypatch):
    x = torch.nn.Parameter(torch.ones(2))
    captured = capture.optimize(lambda gm, inputs: gm.forward)(ASKERS[asker])
    assert captured(x)[1:] == ASKERS[asker](x)[1:]
    monkeypatch.setattr(cls, "lately", 1, raising=False)
    assert captured(x)[1:] == ASKERS[asker](x)[1:]


class Copied:
    def __init__(self):
        self.size = 1


def larger(size):
    made = Copied()
    made.size = size + 1
    return made


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_way_to_copy_may_be_registered(how, monkeypatch):
    def program(x, each):
        return x + 1, how(each).size

    captured = capture.optimize(lambda gm, inputs: gm.forward)(program)
    assert captured(torch.ones(2), Copied())[1] == 1
    monkeypatch.setitem(copyreg.dispatch_table, Copied, lambda each: (larger, (each.size,)))
    assert captured(torch.ones(2), Copied())[1] == 2
    monkeypatch.undo()
    assert captured(torch.ones(2), Copied())[1] == 1


@pytest.mark.parametrize("module", [torch, torch.nn.functional, types.ModuleType("made")])
def test_a_module_may_get_a_name(module, monkeypatch):
    def program(x):
        return x + 1, hasattr(module, "lately"), getattr(module, "lately", None)

    captured = capture.optimize(lambda gm, inputs: gm.forward)(program)
    assert captured(torch.ones(2))[1:] == (False, None)
    monkeypatch.setattr(module, "lately", 3, raising=False)
    assert captured(torch.ones(2))[1:] == (True, 3)


CHANGES = {
    "defaults": lambda f: setattr(f, "__defaults__", (5,)),
    "keyword defaults": lambda f: setattr(f, "__kwdefaults__", {"b": 5}),
    "code": lambda f: setattr(f, "__code__", (lambda c, d, *, b: c).__code__),
    "signature": lambda f: setattr(f, "__signature__", inspect.Signature()),
    "annotations": lambda f: setattr(f, "__annotations__", {"a": int}),
    "wrapped": lambda f: setattr(f, "__wrapped__", lambda other: other),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_signature_may_change(change):
    def asked(a, *, b):
        return a

    def program(x):
        return x + 1, str(inspect.signature(asked))

    captured = capture.optimize(lambda gm, inputs: gm.forward)(program)
    assert captured(torch.ones(2))[1] == program(torch.ones(2))[1]
    CHANGES[change](asked)
    assert captured(torch.ones(2))[1] == program(torch.ones(2))[1]


class Level(enum.Enum):
    LOW = 1
    HIGH = 2

    @classmethod
    def _missing_(cls, value):
        asked.append(value)
        return cls.LOW


asked = []


def test_what_an_enum_says_of_other_values_may_change(monkeypatch):
    """And it is asked as often as in eager."""

    def program(x, value):
        return x + 1, Level(value).name

    captured = capture.optimize(lambda gm, inputs: gm.forward)(program)
    x = torch.ones(2)
    assert [captured(x, value)[1] for value in (2, 9, 9)] == ["HIGH", "LOW", "LOW"]
    assert asked == [9, 9]
    monkeypatch.setattr(Level, "_missing_", classmethod(lambda cls, value: cls.HIGH))
    assert captured(x, 9)[1] == "HIGH"
