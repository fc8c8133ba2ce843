"""What was not there when a function was captured may be there in a later call."""

import types

import pytest
import torch

import capture

module = types.ModuleType("absent_members")
elsewhere = types.ModuleType("elsewhere")
exec("def total(x):\n    return x * sum([1, 2])", vars(elsewhere))


class Base:
    pass


class Child(Base):
    def ask(self, x):
        return x + 1 if hasattr(super(), "flag") else x - 1

    def method(self):
        pass


class Meta(type):
    pass


class OfMeta(metaclass=Meta):
    pass


class Pair(tuple):
    __slots__ = ()


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1 if hasattr(self, "flag") else x - 1


def function():
    pass


instance, net = Child(), Net()


def of_a_global(x):
    try:
        return x + undefined_so_far
    except NameError:
        return x - 1


CASES = [
    (lambda x: x + 1 if hasattr(module, "flag") else x - 1, module),
    (lambda x: x + getattr(module, "flag", 5), module),
    (lambda x: x + 1 if hasattr(Child, "flag") else x - 1, Child),
    (lambda x: x + 1 if hasattr(Child, "flag") else x - 1, Base),
    (lambda x: x + 1 if hasattr(OfMeta, "flag") else x - 1, Meta),
    (lambda x: x + 1 if hasattr(function, "flag") else x - 1, function),
    (lambda x: x + 1 if hasattr(instance, "flag") else x - 1, instance),
    (lambda x: x + 1 if hasattr(instance, "flag") else x - 1, Base),
    (lambda x: x + 1 if hasattr(Child(), "flag") else x - 1, Child),
    (lambda x: x + 1 if hasattr(instance.method, "flag") else x - 1, Child.method),
    (lambda x: Child().ask(x), Base),
    (lambda x: net(x), net),
    (lambda x: net(x), Net),
]


def changes_its_mind(function, x, change, back):
    log = capture.Log()
    captured = capture.optimize("eager", strict=True, log=log)(function)
    try:
        before = captured(x)
        assert torch.equal(captured(x), before)
        change()
        assert torch.equal(captured(x), function(x))
        assert not torch.equal(captured(x), before)
    finally:
        back()
    assert torch.equal(captured(x), before)
    assert len([record for record in log.records() if isinstance(record, capture.RecompileRecord)]) == 1


@pytest.mark.parametrize(("function", "owner"), CASES)
def test_an_attribute_that_comes_later_is_seen(function, owner, x):
    changes_its_mind(function, x, lambda: setattr(owner, "flag", 1), lambda: delattr(owner, "flag"))


@pytest.mark.parametrize(
    ("function", "owner", "name", "method"),
    [
        (lambda x: x + 1 if instance else x - 1, Base, "__bool__", lambda self: False),
        (lambda x: x + 1 if instance else x - 1, Child, "__len__", lambda self: 0),
        (lambda x: x + 1 if net else x - 1, Net, "__len__", lambda self: 0),
    ],
)
def test_a_special_method_that_comes_later_is_seen(function, owner, name, method, x):
    changes_its_mind(function, x, lambda: setattr(owner, name, method), lambda: delattr(owner, name))


def test_a_global_that_comes_later_is_seen(x):
    contents = globals()
    later = lambda: contents.__setitem__("undefined_so_far", 1)
    changes_its_mind(of_a_global, x, later, lambda: contents.pop("undefined_so_far"))


def test_a_global_that_hides_a_builtin_later_is_seen(x):
    total = elsewhere.total
    hide = lambda: setattr(elsewhere, "sum", lambda items: 7)
    changes_its_mind(lambda a: total(a + 1), x, hide, lambda: delattr(elsewhere, "sum"))


@pytest.mark.parametrize(
    "register",
    [
        lambda: net.register_buffer("flag", torch.ones(2)),
        lambda: net.register_parameter("flag", torch.nn.Parameter(torch.ones(2))),
        lambda: net.register_module("flag", torch.nn.ReLU()),
    ],
)
def test_a_member_that_a_module_registers_later_is_seen(register, x):
    changes_its_mind(lambda a: net(a), x, register, lambda: delattr(net, "flag"))
