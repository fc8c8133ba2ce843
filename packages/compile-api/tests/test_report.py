"""``report`` of what holds compiled ones: each is found, wherever people put them."""

import functools
import time

import pytest
import torch
from torch import nn

import compile_api

X = torch.ones(2, 3)


def compiled():
    return compile_api.compile(nn.Linear(3, 3), backend="eager")


def in_place():
    module = nn.Linear(3, 3)
    compile_api.compile_in_place(module, backend="eager")
    return module


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(compiled(), nn.ReLU(), in_place())

    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize(
    ("holder", "parts"),
    [
        (lambda: nn.Sequential(compiled(), compiled()), ("0", "1")),
        (lambda: nn.Sequential(in_place(), in_place()), ("0", "1")),
        (Trainer, ("net.0", "net.2")),
        (lambda: compile_api.compile(Trainer(), backend="eager"), ("", "net.0", "net.2")),
        (lambda: [compiled(), {"critic": compiled()}], ("[0]", "[1]['critic']")),
        (lambda: torch.optim.swa_utils.AveragedModel(nn.Sequential(compiled(), compiled())), ("module.0", "module.1")),
    ],
)
def test_all_that_are_held_are_reported(holder, parts):
    held = holder()
    if isinstance(held, nn.Module):
        held(X)
        assert compile_api.report(held).captured
    assert compile_api.report(held).parts == parts
    assert f"compiled parts     {len(parts)}" in str(compile_api.report(held))


class Decorated(nn.Module):
    @compile_api.compile(backend="eager")
    def forward(self, x):
        return x + 1


class Encoder(nn.Linear):
    def encode(self, x):
        return self(x)


def with_a_method(name):
    model = Encoder(3, 3)
    setattr(model, name, compile_api.compile(getattr(model, name), backend="eager"))
    return model


@pytest.mark.parametrize("make", [Decorated, lambda: with_a_method("forward"), lambda: with_a_method("encode")])
def test_compiled_methods_of_a_model_are_reported(make):
    model = make()
    (model.encode if isinstance(model, Encoder) else model)(X)
    for holder in (model, nn.Sequential(model)):
        assert len(compile_api.report(holder).captured) == 1


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed training")
def test_around_a_compiled_model():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(compiled())
        model(X).sum().backward()
        assert len(compile_api.report(model).captured) == 1
    finally:
        # Its last reference goes with the interpreter's lock held, and waits for a thread that may want the lock yet.
        time.sleep(0.05)
        torch.distributed.destroy_process_group()


def test_functions_in_disguise():
    f = compile_api.compile(lambda x, y: x + y, backend="eager")
    f(X, X)

    @functools.wraps(f)
    def around(*args):
        return f(*args)

    for each in (f, functools.partial(f, X), around):
        assert len(compile_api.report(each).captured) == 1


def test_what_holds_nothing_compiled_says_so():
    with pytest.raises(compile_api.CompileApiError, match="holds nothing that was"):
        compile_api.report(nn.Sequential(nn.Linear(1, 1)))


class Endless:
    """An object that answers every question with another of its kind, as a mock does."""

    def __getattr__(self, name: str) -> "Endless":
        return Endless()

    def __call__(self) -> None:
        pass


class Round:
    def __init__(self) -> None:
        self.__wrapped__ = self

    def __call__(self) -> None:
        pass


@pytest.mark.parametrize("made", [Endless, Round])
def test_wrappers_without_an_end_hold_nothing(made):
    with pytest.raises(compile_api.CompileApiError, match="holds nothing that was"):
        compile_api.report(made())
