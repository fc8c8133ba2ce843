"""What calling a module means may change between two calls: its class, a base or torch's own gets another method."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import capture

CALL, CALL_IMPL = nn.Module.__call__, nn.Module._call_impl
GETATTR, SETATTR = nn.Module.__getattr__, nn.Module.__setattr__


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.seen = 0

    def forward(self, x):
        self.seen = self.seen + 1
        return self.layer(x) + self.seen


class Model(Base):
    def forward(self, x):
        return super().forward(x) * 2


class WithCall(Base):
    def __call__(self, x):
        return super().__call__(x) + 7


class Derived(WithCall):
    pass


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Model()

    def forward(self, x):
        return self.inner(x) + 100


def other(self, x):
    return x * 0 - 1


def around_call(self, *args):
    return CALL(self, *args) + 1000


def around_implementation(self, *args):
    return CALL_IMPL(self, *args) - 3


def doubled(self, name):
    found = GETATTR(self, name)
    return found * 2 if isinstance(found, torch.Tensor) else found


def any_attribute(self, name):
    found = object.__getattribute__(self, name)
    return (lambda x: found(x) + 50) if name == "forward" else found


def counting_double(self, name, value):
    SETATTR(self, name, value + 1 if name == "seen" else value)


REPLACED = [
    ("__call__", other),
    ("__call__", around_call),
    ("forward", other),
    ("_call_impl", around_implementation),
    ("__getattr__", doubled),
    ("__getattribute__", any_attribute),
    ("__setattr__", counting_double),
]
PLACES = [
    # what is called, and the class that changes
    (Model, Model),
    (Model, Base),
    (Model, nn.Module),
    (Model, nn.Linear),
    (Outer, Outer),
    (Outer, Model),
    (Outer, nn.Module),
    (Derived, WithCall),
    (Derived, Derived),
]


def compiled_alone(module):
    return capture.optimize("eager", strict=True, recompile_limit=64)(module)


FORMS = {
    "module": compiled_alone,
    "function": lambda module: compiled_alone(lambda x: module(x)),
    "within": lambda module: nn.Sequential(Inside(compiled_alone(module))),
}


class Inside(nn.Module):
    def __init__(self, compiled):
        super().__init__()
        self.held = (compiled,)

    def forward(self, x):
        return self.held[0](x)


def plainly_within(module):
    return nn.Sequential(Inside(module))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("called", "changed"), PLACES, ids=lambda cls: cls.__name__)
def test_the_next_call_takes_what_the_class_says(form, called, changed, monkeypatch):
    torch.manual_seed(0)
    one, two, x = called(), called(), torch.ones(1, 2)
    two.load_state_dict(one.state_dict())
    plain = plainly_within(one) if form == "within" else one
    compiled = FORMS[form](two)

    def agree():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), plain(x), rtol=0, atol=0)

    agree()
    for name, function in REPLACED:
        with monkeypatch.context() as patch:
            patch.setattr(changed, name, function, raising=False)
            agree()
        agree()


@pytest.mark.parametrize("name", ["_call_impl", "_compiled_call_impl", "forward"])
@pytest.mark.parametrize("first", [True, False], ids=["after a call", "before any"])
def test_what_the_module_itself_is_called_by(name, first):
    module, x = Outer(), torch.ones(1, 2)
    compiled = capture.optimize("eager", strict=True)(module)
    if first:
        compiled(x)
    setattr(module.inner, name, lambda x: x * 50)
    assert torch.equal(compiled(x), x * 50 + 100)


def test_another_class_of_the_module():
    module, x = Model(), torch.ones(1, 2)
    compiled = capture.optimize("eager", strict=True)(module)
    compiled(x)
    module.__class__ = type("Other", (Model,), {"__call__": other})
    assert torch.equal(compiled(x), other(None, x))


def test_what_is_disabled_is_called_as_its_class_says(monkeypatch):
    module, x = Model(), torch.ones(1, 2)
    disabled = capture.disable(module)
    assert disabled.__name__ == CALL.__name__
    assert "training" not in vars(disabled)
    disabled(x)
    monkeypatch.setattr(Model, "__call__", other, raising=False)
    assert torch.equal(disabled(x), other(None, x))


BEFORE = """
import torch
from torch import nn
call, getattribute = nn.Module.__call__, nn.Module.__getattr__
nn.Module.__call__ = lambda self, *args: call(self, *args) + 1000
def doubled(self, name):
    found = getattribute(self, name)
    return found * 2 if isinstance(found, torch.Tensor) else found
nn.Module.__getattr__ = doubled
import capture
net, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), torch.ones(1, 2)
assert torch.equal(capture.optimize("eager", strict=True)(net)(x), net(x))
assert torch.equal(capture.optimize("eager", strict=True)(lambda x: net(x))(x), net(x))
"""


def test_torchs_class_was_changed_before_the_import():
    subprocess.run([sys.executable, "-c", BEFORE], check=True, timeout=120)
