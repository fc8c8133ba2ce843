"""The compiled module shares everything with its original; tested with a call of our own, so without compiling."""

import abc
import copy
import pickle

import pytest
import torch
from torch import nn

from compile_api.module import compiled_module


def doubled(module):
    return compiled_module(module, lambda *args: 2 * module(*args), doubled)


@pytest.fixture
def pair():
    original = nn.Linear(3, 2)
    return original, doubled(original)


def test_only_the_call_differs(pair):
    original, compiled = pair
    x = torch.randn(4, 3)
    assert torch.equal(compiled(x), 2 * original(x))
    assert type(compiled).__name__ == "Linear"
    assert isinstance(compiled, nn.Linear)
    assert repr(compiled) == repr(original)


def test_state_is_one_and_the_same(pair):
    original, compiled = pair
    compiled.weight = nn.Parameter(torch.zeros(2, 3))
    assert original.weight is compiled.weight
    compiled.load_state_dict({"weight": torch.ones(2, 3), "bias": torch.ones(2)})
    assert original.bias.sum() == 2
    assert set(compiled.state_dict()) == {"weight", "bias"}
    compiled.to(torch.float64)
    assert original.weight.dtype == torch.float64


def test_submodules_and_hooks_added_to_one_are_on_the_other(pair):
    original, compiled = pair
    compiled.add_module("child", nn.ReLU())
    assert original.child is compiled.child
    assert dict(compiled.named_modules()).keys() == {"", "child"}


def test_copies_are_compiled_and_apart(pair):
    _, compiled = pair
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        x = torch.randn(1, 3)
        assert torch.equal(twin(x), compiled(x))
        assert twin.weight is not compiled.weight


def test_it_is_a_submodule_like_any_other(pair):
    _, compiled = pair
    outer = nn.Sequential(compiled, nn.ReLU())
    assert list(outer.state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(outer(torch.ones(1, 3)), compiled(torch.ones(1, 3)).relu())


WRAPPED = ["{}", "_orig_mod.{}"]


@pytest.mark.parametrize("keys", WRAPPED)
def test_state_of_torchs_wrapper_is_loaded_wherever_the_module_is(pair, keys):
    original, compiled = pair
    state = {keys.format("weight"): torch.ones(2, 3), keys.format("bias"): torch.zeros(2)}
    compiled.load_state_dict(state)
    assert original.weight.sum() == 6
    assert set(state) == {keys.format("weight"), keys.format("bias")}
    outer = nn.ModuleDict({"net": nn.Sequential(compiled)})
    outer.load_state_dict({f"net.0.{key}": value * 2 for key, value in state.items()})
    assert original.weight.sum() == 12
    with pytest.raises(RuntimeError, match="Unexpected key"):
        compiled.load_state_dict({**state, "_orig_mod.other": torch.ones(1)})


def test_libraries_that_ask_for_torchs_wrapper_find_one(pair):
    original, compiled = pair
    assert isinstance(compiled, torch._dynamo.OptimizedModule)
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    assert not isinstance(original, torch._dynamo.eval_frame.OptimizedModule)
    assert isinstance(compiled, nn.Linear)
    assert compiled._orig_mod is original
    compiled._orig_mod = original
    assert set(compiled.state_dict()) == {"weight", "bias"}
    other = nn.Linear(3, 2)
    compiled._orig_mod = other
    assert compiled.weight is other.weight
    assert compiled.dynamo_ctx(other)(torch.ones(1, 3)).shape == (1, 2)


class WithSlots(nn.Linear):
    __slots__ = ("scale",)

    def __init__(self):
        super().__init__(3, 2)
        self.scale = 3

    def forward(self, x):
        return super().forward(x) * self.scale


class LooksItselfUp(nn.Linear):
    """As the classes that ``fully_shard`` makes do."""

    def __new__(cls, *args, **kwargs):
        mro = cls.__mro__
        assert mro[0] is LooksItselfUp, "a subclass made on the fly"
        return super().__new__(cls)


class Registers(type):
    made = []

    def __new__(meta, name, bases, body):
        meta.made.append(name)
        return super().__new__(meta, name, bases, body)


class OfAMetaclass(nn.Linear, metaclass=Registers):
    pass


class Refuses(nn.Linear):
    def __init_subclass__(cls, *, tag):
        raise AssertionError("nobody subclasses this")


class Abstract(nn.Linear, abc.ABC):
    @abc.abstractmethod
    def missing(self): ...


class Whole(Abstract):
    def missing(self): ...


@pytest.mark.parametrize("cls", [WithSlots, LooksItselfUp, OfAMetaclass, Refuses, Whole])
def test_any_class_of_module(cls):
    original = cls() if cls is WithSlots else cls(3, 2)
    compiled = doubled(original)
    x = torch.ones(1, 3)
    assert torch.equal(compiled(x), 2 * original(x))
    assert isinstance(compiled, cls)
    assert Registers.made in (["OfAMetaclass"], [])
    if cls is WithSlots:
        compiled.scale = 5
        assert original.scale == compiled.scale == 5
    else:
        assert type(type(compiled)(3, 2)) is cls, "the user's class means the user's class"


def test_a_class_that_changes_afterwards(pair):
    original, compiled = pair
    nn.utils.parametrizations.weight_norm(original)
    assert torch.equal(compiled.weight, original.weight)


def other_call(self, x):
    return x * 0 - 1


def test_another_call_of_the_class_is_taken(monkeypatch):
    import compile_api

    class Model(nn.Linear):
        pass

    x = torch.ones(1, 2)
    calls = [compile_api.compile(Model(2, 2), backend="eager"), compile_api.disable(Model(2, 2))]
    for call in calls:
        call(x)
    for cls in (Model, nn.Linear, nn.Module):
        with monkeypatch.context() as patch:
            patch.setattr(cls, "__call__", other_call, raising=False)
            assert all(torch.equal(call(x), x * 0 - 1) for call in calls)
    assert compile_api.report(calls[0]).captured


def test_a_compiled_class_takes_what_its_base_says(monkeypatch):
    import compile_api

    class Base:
        def __call__(self, x):
            return x + 1

    @compile_api.compile(backend="eager")
    class Derived(Base):
        pass

    x = torch.ones(1, 2)
    assert torch.equal(Derived()(x), x + 1)
    assert compile_api.report(Derived).captured
    monkeypatch.setattr(Base, "__call__", other_call)
    assert torch.equal(Derived()(x), x * 0 - 1)


def test_a_copy_shares_what_a_copy_shares(pair):
    _, compiled = pair
    twin = copy.copy(compiled)
    assert twin.weight is compiled.weight
    twin.extra = 1
    assert not hasattr(compiled, "extra")


def test_compiled_twice_is_compiled_once():
    import compile_api

    first = compile_api.compile(nn.Linear(3, 2), backend="eager")
    second = compile_api.compile(first, backend="aot_eager")
    assert second._orig_mod is first._orig_mod
    assert second(torch.ones(1, 3)).shape == (1, 2)
    assert compile_api.report(second).captured[0].backend == "aot_eager"


def test_scripts_of_torch_see_the_module_as_it_was_written():
    import compile_api

    with pytest.warns((DeprecationWarning, FutureWarning), match="deprecated"):  # the second from torch 2.14 on
        scripted = torch.jit.script(compile_api.compile(nn.Linear(3, 2)))
    assert scripted(torch.ones(1, 3)).shape == (1, 2)


class Averaged(nn.Linear):
    """Asks what the other one is, as averages and comparisons of modules do."""

    def agrees_with(self, other):
        return isinstance(other, type(self)) and type(self) is type(other)


def test_compiled_modules_of_one_class_are_of_one_class():
    compiled = doubled(Averaged(2, 2))
    copied, other = copy.deepcopy(compiled), doubled(Averaged(2, 2))
    assert compiled.agrees_with(copied)
    assert copied.agrees_with(other)
    assert not compiled.agrees_with(doubled(nn.Linear(2, 2)))
