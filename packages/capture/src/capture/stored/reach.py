"""Functions that an evaluation ran, and what of libraries they reach by names: no guard tells of either.

Code of the program is compared, and what it reads is guarded.  What code of torch and the standard library reads of
its globals is taken as fixed while a process runs; another process may have put something else there before its first
call.  So every global that such code names is compared, and of modules and classes among them the members it names.
Must not know how a version is written.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import fx

from capture.origins import STANDARD_LIBRARY, is_installed
from capture.stored.contents import Content, Contents, NotStored, class_name, digest
from capture.stored.names import NamesWritten
from capture.torch_versions import OpOverload, OpOverloadPacket
from capture.values.base import module_name, trusted

Entered = tuple[CodeType, FunctionType | None]
"""Code that was evaluated, and the function that it was the code of; None: one that was made on the way."""

Found = Mapping[int, tuple[FunctionType | CodeType, int]]
"""By identity, what a guard finds on a path, and the path's number in the table."""

_OF_THE_PROCESS = frozenset(
    ("os", "posix", "nt", "sys", "platform", "socket", "locale", "getpass", "tempfile", "subprocess", "random")
    + ("secrets", "uuid", "time", "datetime")
)
_SAME_ANYWHERE = frozenset(
    ("exc_info", "intern", "maxsize", "version_info", "platform", "byteorder", "float_info", "int_info", "path")
    + ("fspath", "PathLike", "getrefcount", "modules", "_getframe")
    + ("environ", "getenv")  # what is read of them is guarded
)
_BY_ADDRESS = frozenset({"id", "hash", "__hash__"})


def reached(
    entered: Iterable[Entered], root: CodeType, found: Found, names: NamesWritten
) -> tuple[list[int], list[int]]:
    """All functions that were entered: their places in the table of names, and in that of paths where no name leads.

    ``found``: what is compared where a guard finds it.
    """
    inner = _with_inner([root, *(_code(each) for each, _ in found.values())])
    places: list[int] = []
    paths: list[int] = []
    _refuse_addresses(root)
    for code, function in entered:
        of_library = function is not None and _is_of_library(function)
        if not of_library:
            _refuse_addresses(code)
        place = None if function is None else names.place(function)
        if place is not None:
            inner |= _with_inner([code])
            places.append(place)
        elif id(code) not in inner:
            raise NotStored(f"no name leads to `{code.co_qualname}`, which was inlined")
        elif id(function) in found:
            paths.append(found[id(function)][1])
        elif function is not None and not of_library:
            Reach(names.contents).of(function)  # which raises where it asks for what is another process's
        elif of_library:
            raise NotStored(f"no name leads to `{code.co_qualname}` of a library, which was inlined")
    return sorted(set(places)), sorted(set(paths))


def _code(found: FunctionType | CodeType) -> CodeType:
    return found if isinstance(found, CodeType) else found.__code__


def reach(functions: Iterable[object], contents: Contents) -> str:
    """The digest of what these functions name."""
    found = Reach(contents)
    return digest([found.of(each) for each in functions if isinstance(each, FunctionType)])


_OPERATORS = ("torch", "capture", "_operator", "operator", "math", "builtins")
_OF_TORCH = frozenset({"aten", "prims", "prim"})


def refuse_operators(module: fx.GraphModule) -> None:
    """Raises for operators that the program defined: another process may define others by the same names."""
    for part in module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            if node.op == "call_function":
                _refuse_operator(node.target)


def _refuse_operator(target: Any) -> None:
    if isinstance(target, (OpOverload, OpOverloadPacket)):
        packet = target._overloadpacket if isinstance(target, OpOverload) else target
        space = packet._qualified_op_name.partition("::")[0]
        if space in _OF_TORCH:
            return
    elif (module_name(target) or "builtins").partition(".")[0] in _OPERATORS:
        return
    raise NotStored(f"`{target}` is no operator of torch's own")


class Reach:
    """The contents of all that functions name, compared in one process at one moment."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def of(self, function: FunctionType) -> Content:
        """The contents of the globals that a function names, and of the members that it may look up in them."""
        wanted = sorted(_names(function.__code__))
        fixed, space = _is_of_library(function), function.__globals__
        return [function.__qualname__, *self._all(wanted, fixed, space)]

    def _all(self, wanted: list[str], fixed: bool, space: dict[str, object]) -> Iterator[Content]:
        owners: list[object] = []
        for name in wanted:
            if name in space:
                obj = space[name]
            elif name in vars(builtins):
                obj = vars(builtins)[name]
            else:
                continue
            # Other globals of the program are guarded where they are read.
            if fixed or isinstance(obj, (ModuleType, type)):
                yield [name, self._content(obj)]
            owners.append(obj)
        yield from self._members(owners, wanted)

    def _members(self, owners: list[object], wanted: list[str]) -> Iterator[Content]:
        """The members that the code names of torch's and the standard library's classes and modules."""
        seen: set[int] = set()
        while owners:
            owner = owners.pop()
            if id(owner) in seen or not _is_fixed_owner(owner):
                continue
            seen.add(id(owner))
            of = _dictionary(owner)
            for name in wanted:
                if name not in of:
                    continue
                _refuse_process(owner, name)
                yield [name, self._content(of[name])]
                owners.append(of[name])

    def _content(self, obj: object) -> Content:
        """The content of a value; one of a library's that cannot be compared is told by its class.

        What is relied on of such a value is guarded (hooks, modes), or asked of torch's state.
        """
        try:
            return self.contents.shallow(obj)
        except NotStored:
            return ["a", class_name(type(obj))]


def _is_fixed_owner(owner: object) -> bool:
    return isinstance(owner, (ModuleType, type)) and trusted(owner)


def _dictionary(owner: object) -> dict[str, object]:
    if isinstance(owner, type):
        found: dict[str, object] = {}
        for cls in reversed(type.__getattribute__(owner, "__mro__")):
            found |= type.__getattribute__(cls, "__dict__")
        return found
    return ModuleType.__getattribute__(owner, "__dict__")


def _refuse_process(owner: object, name: str) -> None:
    """Raises where a name asks for what is another process's."""
    module = getattr(owner, "__name__", "") if isinstance(owner, ModuleType) else ""
    if module in _OF_THE_PROCESS and name not in _SAME_ANYWHERE and not name.startswith("__"):
        raise NotStored(f"it may ask `{module}.{name}`, whose answer is another process's")


def _is_of_library(function: FunctionType) -> bool:
    return trusted(function) and is_library(function.__code__)


def is_library(code: CodeType) -> bool:
    return is_installed(code) or not code.co_filename or "site-packages" in code.co_filename or _is_standard(code)


def _is_standard(code: CodeType) -> bool:
    from_standard: Callable[[str], bool] = code.co_filename.startswith
    return from_standard(STANDARD_LIBRARY) or from_standard("<frozen")


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _names(each)
    return found


def _with_inner(codes: Iterable[CodeType]) -> set[int]:
    """The identities of the codes, and of those of the functions that they define."""
    found: set[int] = set()
    for code in codes:
        found.add(id(code))
        found |= _with_inner(each for each in code.co_consts if isinstance(each, CodeType))
    return found


def _refuse_addresses(code: CodeType) -> None:
    """Raises for code of the program that may ask for what is another one in each process."""
    if _BY_ADDRESS.intersection(code.co_names):
        raise NotStored(f"`{code.co_qualname}` asks for an address or a hash, which are other ones in each process")
