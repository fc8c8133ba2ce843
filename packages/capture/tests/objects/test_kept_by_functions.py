"""Containers and attributes that functions, enums and context variables keep are read anew in each call."""

import contextvars
import enum
import functools

import pytest
import torch

import capture


class Keeper:
    @capture.disable
    def method(self, x):
        return x

    @staticmethod
    @capture.disable
    def static(x):
        return x

    @functools.lru_cache
    def memoised(self, x):
        return x


@capture.disable
def left_out(x):
    return x


class Kept(enum.Enum):
    TABLE = {"k": 2}
    ROW = [2, 3]
    PAIR = ({"k": 2}, "x")


VAR = contextvars.ContextVar("kept", default={"k": 2})
ROWS = contextvars.ContextVar("rows", default=([2], 3))
HOLDERS = {
    "left_out": lambda: left_out,
    "method": lambda: Keeper.method,
    "bound method": lambda: Keeper().method,
    "static": lambda: Keeper.static,
    "memoised": lambda: Keeper.memoised,
}
READS = {
    "number": (lambda f: f.number, lambda f, k: setattr(f, "number", k)),
    "table": (lambda f: f.table["k"], lambda f, k: f.table.update(k=k)),
    "row": (lambda f: f.row[0], lambda f, k: f.row.__setitem__(0, k)),
    "missing": (lambda f: 1 if hasattr(f, "extra") else 0, lambda f, k: setattr(f, "extra", k)),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_attributes_of_functions(holder, read):
    value, write = READS[read]
    found = HOLDERS[holder]()
    owner = getattr(found, "__func__", found)
    owner.number, owner.table, owner.row = 1, {"k": 1}, [1]
    owner.__dict__.pop("extra", None)
    call = capture.optimize("eager", strict=True)(lambda x: x * value(HOLDERS[holder]()))
    for k in (3, 4, 4):
        assert call(torch.ones(2)).tolist() == [value(HOLDERS[holder]())] * 2
        write(owner, k)


def test_functions_that_count_their_calls():
    def step(x):
        left_out.calls += 1
        return x * left_out.calls

    left_out.calls = 0
    call = capture.optimize("eager", strict=True)(step)
    assert [call(torch.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert left_out.calls == 4


CONTAINERS = {
    "table of an enum": (lambda: Kept.TABLE.value, "k"),
    "row of an enum": (lambda: Kept.ROW.value, 0),
    "pair of an enum": (lambda: Kept.PAIR.value[0], "k"),
    "private of an enum": (lambda: Kept.TABLE._value_, "k"),
    "default of a variable": (lambda: VAR.get(), "k"),
    "row in a default": (lambda: ROWS.get()[0], 0),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name):
    found, key = CONTAINERS[name]

    def step(x, k):
        kept = found()
        before = kept[key]
        kept[key] = before + k
        return x * before, kept is found(), kept

    call = capture.optimize("eager", strict=True)(step)
    wanted = found()[key]
    for k in (1, 2, 3):
        result, is_same, kept = call(torch.ones(1), k)
        assert (result.item(), is_same, kept is found(), found()[key]) == (wanted, True, True, wanted + k)
        wanted += k
