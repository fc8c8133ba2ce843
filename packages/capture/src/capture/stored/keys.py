"""Keys of stored versions: all that evaluation relies on and that is neither compared by content nor guarded.

Equal keys say: the same code, the same releases, the same options, the same machine's devices, and a process of which
nothing is known that evaluation takes for given.  ``NotStored`` where there is such a thing.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import sys
from dataclasses import fields
from types import FunctionType

import torch

from capture import _engine, state
from capture.bytecode.resume import Continuations
from capture.options import Options
from capture.program_settings import program_settings
from capture.stored.code import point_written
from capture.stored.contents import Content, NotStored, code, digest
from capture.torch_versions import impls


def key_of(function: FunctionType, continuations: Continuations, options: Options, settings: str) -> str:
    """The key of all versions of the frames of this function."""
    frame = function.__code__
    point = continuations.point_of(frame)
    content = [
        _releases(),
        code(continuations.original(frame).code),
        None if point is None else point_written(point),
        str(function.__globals__.get("__name__")),
        [[field.name, repr(getattr(options, field.name))] for field in fields(options)],
        settings,
        _said_by_the_program(),
        _devices(),
        sorted(map(str, _kernels())),
    ]
    return digest(content)


@functools.cache
def _own_sources() -> str:
    """The digest of this package's files: a version alone tells nothing while it is worked on."""
    folder = os.path.dirname(os.path.dirname(__file__))
    found = []
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith((".py", ".so", ".pyd")):
                at = os.stat(os.path.join(where, name))
                found.append([os.path.relpath(os.path.join(where, name), folder), at.st_size, at.st_mtime_ns])
    return digest(found)


def _releases() -> Content:
    return [
        sys.version,
        sys.implementation.cache_tag,
        importlib.util.MAGIC_NUMBER.hex(),
        list(sys.flags),
        platform.machine(),
        sys.byteorder,
        torch.__version__,
        str(torch.version.git_version),
        _engine.INTERFACE,
        _own_sources(),
    ]


def _devices() -> Content:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [count, str(torch.version.cuda), str(torch.version.hip)]


def _said_by_the_program() -> Content:
    """The settings of the program; raises where it marked functions, of which a key can say nothing."""
    process, asked = state.PROCESS, program_settings()
    if process.allowed or process.disallowed or process.assumed:
        raise NotStored("the program said of functions how they are captured")
    if asked.said_later:
        raise NotStored("functions are to be called at the ends of graphs")
    return repr(asked)


def _kernels() -> list[object]:
    """The kernels in Python that were given to torch's operators.

    Torch registers those for fakes when it needs them; operators of other names are in no stored graph.
    """
    return [key for key in impls if str(key).startswith("aten/") and not str(key).endswith("/Meta")]
