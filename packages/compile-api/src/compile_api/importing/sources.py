"""Answers to what torch's symbols ask of the peer, as long as the peer has not been loaded.

The first size that varies becomes a symbol, and a symbol has an origin: "the size of that tensor in dimension 0".  The
classes for origins lie in the peer's package, whose import takes seconds.  Classes of ours are given out instead, and
which files are not the user's is told by their names.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from compile_api.importing.deferred import Deferral, defer, deferral_of, is_waiting
from compile_api.importing.sizes import NAME as SIZES
from compile_api.torch_versions import Source

NAME = "torch._dynamo.source"
PEER = "torch._dynamo"
_FOLDER = Path(torch.__file__).parent
_NOT_THE_USERS = (
    "__init__.py", "_compile.py", "_dynamo/**/*.py", "_higher_order_ops/*.py", "_inductor/sizevars.py",
    "_library/custom_ops.py", "_library/fake_impl.py", "_logging/*.py", "_subclasses/*.py", "export/_trace.py",
    "fx/experimental/recording.py", "fx/experimental/sym_node.py", "fx/experimental/symbolic_shapes.py",
    "fx/interpreter.py", "fx/_symbolic_trace.py",
)  # fmt: skip


class TensorProperty(enum.Enum):
    """The property of a tensor that a symbol stands for."""

    SIZE = 0
    STRIDE = 1
    STORAGE_OFFSET = 2

    def method_name(self) -> str:
        return self.name.lower()


class _Named(Source):
    """An origin that is no more than the expression it is printed as."""

    @functools.cached_property
    def name(self) -> str:
        return self._name_template


@dataclass(frozen=True)
class TensorPropertySource(_Named):
    """A size or stride of one dimension, or the offset."""

    base: Source
    prop: TensorProperty
    idx: int | None = None

    @property
    def _name_template(self) -> str:
        where = "" if self.idx is None else f"[{self.idx}]"
        return f"{self.base.name}.{self.prop.method_name()}(){where}"

    def is_ephemeral(self) -> bool:
        return self.base.is_ephemeral()


@dataclass(frozen=True)
class AttrSource(_Named):
    """An attribute, for the tensors inside of tensor subclasses."""

    base: Source
    member: str

    @property
    def _name_template(self) -> str:
        return f"{self.base.name}.{self.member}"

    def is_ephemeral(self) -> bool:
        return self.base.is_ephemeral()


@dataclass(frozen=True)
class ConstantSource(_Named):
    """A number that has a name and no place in the user's program."""

    source_name: str

    @property
    def _name_template(self) -> str:
        return self.source_name


@dataclass(frozen=True)
class EphemeralSource(_Named):
    """A tensor made in passing, while another one is being faked."""

    desc: str | None = None

    @property
    def _name_template(self) -> str:
        return f"<ephemeral{'' if self.desc is None else ': ' + self.desc}>"

    def is_ephemeral(self) -> bool:
        return True


class OfThePeerAlone(Source):
    """Stands for origins that only the peer's capture makes: torch asks whether one is there."""


ANSWERS = {
    **{each.__name__: each for each in (TensorProperty, TensorPropertySource, AttrSource, ConstantSource)},
    "EphemeralSource": EphemeralSource,
    **dict.fromkeys(("RandomValueSource", "FloatTensorSource", "CallMethodItemSource"), OfThePeerAlone),
}


def put_off() -> None:
    """Puts off torch's origins of symbols, with the list of files that it leaves out of "where in your program was
    that", and the code generator that it asks about frames."""
    defer(NAME, {name: _giving(answer) for name, answer in ANSWERS.items()})
    defer("torch._inductor", {"codecache": _giving(NoGeneratedCode)})
    sizes = deferral_of(SIZES)
    if sizes is not None:
        sizes.then.append(_know_files_by_name)


class NoGeneratedCode:
    """Stands for the peer's code generator where torch asks, for a stack trace, which of its lines made a frame."""

    class PyCodeCache:
        @staticmethod
        def stack_frames_for_code(path: str, line: int) -> None:
            """None, as no frame is of its lines: it has not been imported."""


def _giving(answer: type) -> Callable[[Deferral], type]:
    return lambda real: answer


def _know_files_by_name(sizes: ModuleType) -> None:
    """Tells symbolic sizes which files are torch's own: they ask a dozen modules where they lie, and import the peer to
    ask it."""
    genuine = vars(sizes).get("uninteresting_files")
    if genuine is None:
        return

    @functools.wraps(genuine)
    def uninteresting_files() -> set[str]:
        return _by_name() if is_waiting(PEER) else set(genuine())

    vars(sizes)["uninteresting_files"] = uninteresting_files


@functools.cache
def _by_name() -> set[str]:
    return {str(path) for pattern in _NOT_THE_USERS for path in _FOLDER.glob(pattern)} | {"<string>"}
