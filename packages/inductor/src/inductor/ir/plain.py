"""IR as JSON data and back, for files that another process reads.

A value is a number, a text, a truth, None or a list of values for a tuple; everything else is an object with one key,
its tag:

    {"n": 7}              the seventh of the nodes, which come before: `[class, field, ...]`, each distinct one once
    {"l": [...]}          a list
    {"f": "inf"}          a float that JSON has no name for
    {"c": [1.0, 2.0]}     a complex number
    {"t": "torch.int64"}  a dtype, a layout or a memory format
    {"d": "cuda:0"}       a device
    {"o": "aten::add.Tensor"}   an operator, by name and overload

Nodes are of the classes listed here and of no other, and an operator is looked up, so that reading a file runs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import TypeAlias

import torch

from inductor.errors import ParseError
from inductor.ir import expr, index, kernel, layout, program
from inductor.torch_versions import OpOverload

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"
Nodes: TypeAlias = list[list[Plain]]

CLASSES: dict[str, type] = {
    found.__name__: found
    for found in (
        index.Symbol, index.FloorDiv, index.Mod, index.Index,
        expr.Const, expr.IndexValue, expr.Load, expr.Apply, expr.Masked, expr.Result,
        kernel.Store, kernel.Reduce, kernel.Scan, kernel.Let, kernel.Loop, kernel.Product, kernel.Argument,
        kernel.Kernel, kernel.Family, layout.LoopLayout, layout.CpuLayout, layout.Tiling, layout.Tile, layout.Shape,
        program.Buffer, program.Allocate, program.View, program.Launch, program.Ref, program.Call, program.Bind,
        program.Free, program.Stretch, program.Run, program.Scratch, program.Program,
    )
}  # fmt: skip
"""The classes of IR nodes that a file may hold, by name; reading makes no object of any other class."""


def _written(found: type) -> tuple[str, ...]:
    """The fields that a node is made of again; derived ones, such as kept hashes, are left out."""
    every: Sequence[Field[object]] = fields(found)
    return tuple(each.name for each in every if each.init)


_FIELDS = {found: (name, _written(found)) for name, found in CLASSES.items()}
_NAMED = {
    f"torch.{name}": value
    for name, value in vars(torch).items()
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format)
}


class Unwritable(Exception):
    """A value that has no form as plain data."""


class Writer:
    """Turns values into plain data.  ``nodes`` collects the IR nodes, each distinct one once."""

    def __init__(self) -> None:
        self.nodes: Nodes = []
        self._numbers: dict[int, int] = {}
        self._alike: dict[str, int] = {}
        self._kept: list[object] = []

    def write(self, value: object) -> Plain:
        """A value as plain data; raises ``Unwritable`` for one that has no such form."""
        if value is None or isinstance(value, bool | int | str):
            return value
        # By identity first: expressions are graphs in memory, and comparing each shared subtree would make writing
        # slow.
        if (known := self._numbers.get(id(value))) is not None:
            return {"n": known}
        if type(value) in _FIELDS:
            return {"n": self._node(value)}
        if isinstance(value, tuple):
            return [self.write(item) for item in value]
        if isinstance(value, list):
            return {"l": [self.write(item) for item in value]}
        return _leaf(value)

    def _node(self, value: object) -> int:
        name, names = _FIELDS[type(value)]
        row: list[Plain] = [name, *(self.write(getattr(value, each)) for each in names)]
        # Children are numbers in the row already, so equal rows are equal nodes, and the text of a row stands for it.
        number = self._alike.setdefault(repr(row), len(self.nodes))
        if number == len(self.nodes):
            self.nodes.append(row)
        self._numbers[id(value)] = number
        self._kept.append(value)  # so that nothing else gets its address meanwhile
        return number


def _leaf(value: object) -> Plain:
    """A value without parts as plain data, tagged where JSON has no form for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else {"f": repr(value)}
    if isinstance(value, complex):
        return {"c": [_leaf(value.real), _leaf(value.imag)]}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"t": str(value)}
    if isinstance(value, torch.device):
        return {"d": str(value)}
    if isinstance(value, OpOverload):
        return {"o": str(value.name()) + ("" if "." in value.name() else ".default")}
    raise Unwritable(f"a {type(value).__name__} among its values")


class Reader:
    """Values of plain data that a ``Writer`` made; raises ``ParseError`` for any other."""

    def __init__(self, nodes: Nodes) -> None:
        self._made: list[object] = []
        for name, *given in nodes:
            found = CLASSES.get(str(name))
            if found is None:
                raise ParseError(f"{name} is no part of a program")
            try:
                self._made.append(found(*map(self.read, given)))
            except (AttributeError, TypeError, ValueError) as error:
                raise ParseError(f"no {name} is made of {given}") from error

    def read(self, value: Plain) -> object:
        """The value that plain data stands for."""
        if isinstance(value, list):
            return tuple(map(self.read, value))
        if not isinstance(value, dict):
            return value
        ((tag, held),) = value.items()
        try:
            return self._tagged(tag, held)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ParseError(f"{value} stands for nothing") from error

    def _tagged(self, tag: str, held: Plain) -> object:
        # A negative number would count from the end: a damaged file must not be read as something else.
        if tag == "n" and isinstance(held, int) and held >= 0:
            return self._made[held]
        if tag == "l" and isinstance(held, list):
            return [self.read(item) for item in held]
        if tag == "c" and isinstance(held, list):
            real, imaginary = map(self.read, held)
            assert isinstance(real, float)
            assert isinstance(imaginary, float)
            return complex(real, imaginary)
        text = str(held)
        if tag == "f":
            return float(text)
        if tag == "t":
            return _NAMED[text]
        if tag == "d":
            return torch.device(text)
        if tag == "o":
            return operator_of(text)
        raise KeyError(tag)


def operator_of(name: str) -> OpOverload:
    """The operator of this name and overload; raises where this process has none."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    if not isinstance(found, OpOverload):
        raise TypeError(f"{name} is no operator")
    return found
