"""The file of a compiled graph: two lines of JSON, and the digest that every entry of the cache ends with.

The first line is an object:

    format      "inductor graph 1"
    key, world  what it is found by, and of that what versions it was made with
    gpus        the GPUs that it names, by kind
    options     those that it was compiled with
    name        the graph's, and of its `inputs` those that the wrapper names in messages
    source      the wrapper
    names       what the wrapper's names stand for (stored/namespace.py)
    libraries   the keys of its kernels' libraries in the same folder, the runner's first
    triton      its kernels for GPUs: parameters, text, whether positions are checked, and the shape and arguments
    devices     which GPU each of them runs on
    kernels     what the report says of each kernel, with the number of its library
    report      the report's other numbers
    taken       what it takes, by position; `fixed` the inputs whose values are part of it, `defaults` the last inputs'
    constants   tensors that it holds: the number in the graph, and the contents where they are small
    nodes       what the values among these are made of (ir/plain.py)

The second is the program, which is read when somebody asks for it: `{"nodes": ..., "program": ...}`.

Nothing in it is run but the wrapper, which this package wrote: the digest is checked before anything is read, and the
folder belongs to this user alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, cast

import torch

from inductor.cache import Cache
from inductor.calling import Fixed, Taken
from inductor.codegen.triton import PrintedTritonKernel
from inductor.ir.kernel import Kernel
from inductor.ir.plain import Plain, Reader, Writer
from inductor.ir.program import Program
from inductor.options import Options
from inductor.stored.keys import contents

FORMAT = "inductor graph 1"
Head = dict[str, Any]


def file_of(key: str) -> str:
    return f"{key}.graph"


def text_of(head: Mapping[str, Plain], program: Program) -> str:
    """The file's two lines."""
    writer = Writer()
    root = writer.write(program)
    return f"{_line({'format': FORMAT, **head})}\n{_line({'nodes': writer.nodes, 'program': root})}\n"


def _line(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def find(key: str, store: Cache) -> tuple[Head, Callable[[], Program]] | None:
    """The first line of the file, and a function that reads the second; None where there is no whole file of this form
    under the key."""
    data = store.find_data(file_of(key))
    if data is None:
        return None
    first, _, second = data.partition(b"\n")
    try:
        head = json.loads(first)
    except ValueError:
        return None
    is_ours = isinstance(head, dict) and head.get("format") == FORMAT and head.get("key") == key
    return (head, lambda: _program(second)) if is_ours else None


def _program(line: bytes) -> Program:
    held = json.loads(line)
    return cast(Program, Reader(held["nodes"]).read(held["program"]))


# -- parts of the first line ------------------------------------------------------------------------------------------


def options_written(options: Options) -> Plain:
    """The options that decide what is compiled."""
    held = {each.name: getattr(options, each.name) for each in fields(Options)}
    return {**held, "cpp_flags": [*options.cpp_flags], "trace": False, "cache_dir": None}


def options_read(held: Mapping[str, Any], here: Options) -> Options:
    """The stored options, with the places of files and tools from those given here."""
    chosen = Options(**{**held, "cpp_flags": tuple(held["cpp_flags"])})
    return replace(
        chosen,
        cache_dir=here.cache_dir,
        cache_bytes=here.cache_bytes,
        compiler=here.compiler,
        build_processes=here.build_processes,
        fallback=here.fallback,
    )


def taken_written(taken: Taken) -> Plain:
    return {name: [*positions] for name, positions in asdict(taken).items()}


def taken_read(held: Mapping[str, Sequence[int]]) -> Taken:
    return Taken(**{name: tuple(positions) for name, positions in held.items()})


def fixed_written(fixed: Fixed, writer: Writer) -> Plain:
    return [[at, name, writer.write(value)] for at, name, value in fixed]


def triton_written(kernels: Sequence[PrintedTritonKernel], writer: Writer) -> Plain:
    """The parts of Triton kernels that are needed to compile and start them, without the IR that they were printed
    from."""
    return [[k.parameters, k.body, k.checked, writer.write(_outside(k.kernel))] for k in kernels]


def _outside(kernel: Kernel) -> Kernel:
    return replace(kernel, axes=(), loops=(), once=(), product=None, members=(), families=())


def triton_read(held: Sequence[Any], reader: Reader) -> tuple[PrintedTritonKernel, ...]:
    return tuple(
        PrintedTritonKernel(cast(Kernel, reader.read(kernel)), parameters, body, checked)
        for parameters, body, checked, kernel in held
    )


def tensor_written(value: torch.Tensor, most: int, writer: Writer) -> Plain:
    """The contents of a tensor; None where it is too large, or not in the CPU's memory."""
    data = None if value.requires_grad else contents(value, most)
    if data is None:
        return None
    return [writer.write(value.dtype), [*value.shape], base64.b64encode(data).decode()]


def tensor_read(held: Sequence[Any], reader: Reader) -> torch.Tensor:
    dtype, sizes, text = held
    data = bytearray(base64.b64decode(text))
    kind = cast(torch.dtype, reader.read(dtype))
    made = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
    return made.reshape(sizes)
