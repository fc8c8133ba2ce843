"""Compiled graphs written to the cache, or the reason why one is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from inductor.cache import Cache
from inductor.calling import attribute, fixed_in, taken_by
from inductor.compiled import CompiledGraph
from inductor.errors import CacheError
from inductor.ir.plain import Plain, Unwritable, Writer
from inductor.ir.program import Call, Program
from inductor.pipeline import Work
from inductor.report import Report
from inductor.stored import artefact, namespace
from inductor.stored.keys import CONTENTS, OWN_NAMESPACES, Key, held_tensors
from inductor.torch_versions import OpOverload


def keep(key: Key, gm: GraphModule, work: Work, compiled: CompiledGraph) -> None:
    """Stores the compiled form of ``gm``; where it cannot be stored, the report has the reason."""
    reason = _tracers_alone(key, gm, work)
    if reason is None:
        try:
            reason = _store(key, gm, work, compiled)
        except (CacheError, Unwritable) as error:
            reason = str(error)
    compiled.report = replace(compiled.report, not_stored=reason)


def _tracers_alone(key: Key, gm: GraphModule, work: Work) -> str | None:
    """The reason not to store a graph whose compilation had effects on its tracer, which whoever takes it up would
    miss."""
    if key.has_learned:
        return "compiling it told its tracer more of sizes that vary"
    if work.gm is gm:
        return None
    if key.has_sizes:
        return "it was traced again with sizes that vary, of which tracing tells the tracer"
    targets = {node.target for node in gm.graph.nodes if isinstance(node.target, OpOverload)}
    others = sorted(str(target) for target in targets if target.namespace not in OWN_NAMESPACES)
    return f"it was traced again through {', '.join(others)}, whose code is not part of it" if others else None


def _store(key: Key, gm: GraphModule, work: Work, compiled: CompiledGraph) -> str | None:
    assert work.program is not None
    assert work.built is not None
    store = Cache(work.options.cache_folder(), work.options.cache_bytes)
    if any(library.source.parent != store.folder for library in work.built.libraries):
        return "its kernels are in a folder that ends with this process"
    head = _head(key, gm, work, compiled)
    store.keep_data(artefact.file_of(key.text), artefact.text_of(head, work.program).encode())
    constants: Any = head["constants"]
    compiled.key = key.text if all(contents is not None for _, contents in constants) else None
    return None


def _head(key: Key, gm: GraphModule, work: Work, compiled: CompiledGraph) -> dict[str, Plain]:
    """The first line of the file."""
    program, built, printed, wrapper = work.program, work.built, work.printed, work.wrapper
    assert program is not None
    assert built is not None
    assert printed is not None
    assert wrapper is not None
    assert work.graph is not None
    # One writer for all of the line: parts share the nodes that they have in common.
    writer, taken = Writer(), taken_by(program)
    names = [str(node.name) for node in gm.graph.find_nodes(op="placeholder")]
    defaults = [node.args[0] for node in gm.graph.find_nodes(op="placeholder") if node.args]
    held = work.graph.constants
    devices = {name: device.index or 0 for name, device in program.launches().items() if device.type == "cuda"}
    head: dict[str, Plain] = {
        "key": key.text,
        "world": key.world,
        "gpus": {**key.gpus},
        "options": artefact.options_written(work.options),
        "name": program.name,
        "inputs": [*names],
        "named": work.gm is gm,
        "source": wrapper.source,
        "names": {**namespace.written(wrapper, built, [*held.values()], _operators(program), writer)},
        "libraries": [library.source.stem for library in built.libraries],
        "triton": artefact.triton_written(printed.triton, writer),
        "devices": {**devices},
        "kernels": _kernels(work),
        "report": _report(compiled.report),
        "bytes": compiled.result_bytes,
        "taken": artefact.taken_written(taken),
        "fixed": artefact.fixed_written(fixed_in(gm, work.example_inputs, taken), writer),
        "defaults": [writer.write(value) for value in defaults],
        "constants": _constants(gm, work.gm, held, writer),
    }
    return {**head, "nodes": [*writer.nodes]}


def _operators(program: Program) -> list[OpOverload]:
    return [step.target for step in program.steps if isinstance(step, Call)]


def _kernels(work: Work) -> Plain:
    """The report's description of each kernel, with the number of its library; -1 for those on GPUs."""
    assert work.built is not None
    numbers = {library.source: number for number, library in enumerate(work.built.libraries)}
    return [
        [kernel.name, kernel.source, numbers.get(kernel.path, -1) if kernel.path else -1, [*kernel.operators]]
        for kernel in work.built.kernels
    ]


def _report(report: Report) -> Plain:
    return {
        "fallbacks": [[fallback.operator, fallback.reason] for fallback in report.fallbacks],
        "library_calls": [*report.library_calls],
        "lowered": {**report.lowered},
        "nests": report.nests,
        "bytes": report.bytes,
    }


def _constants(gm: GraphModule, prepared: GraphModule, kept: dict[str, torch.Tensor], writer: Writer) -> list[Plain]:
    """Each tensor that the program keeps: its number among the graph's own, and its contents."""
    own = {_place(tensor): number for number, tensor in reversed([*enumerate(held_tensors(gm))])}
    sources = {
        f"c_{node.name}": attribute(prepared, str(node.target)) for node in prepared.graph.find_nodes(op="get_attr")
    }
    rows: list[tuple[int | None, Plain]] = []
    left = CONTENTS
    for name, tensor in kept.items():
        source = sources.get(name, tensor)
        number = own.get(_place(source))
        contents = artefact.tensor_written(tensor if number is None else source, left, writer)
        if number is None and contents is None:
            raise Unwritable("it holds a large tensor that tracing made")
        left -= tensor.numel() * tensor.element_size() if contents is not None else 0
        rows.append((number, contents))
    if any(contents is None for _, contents in rows):  # the file alone will not do: who has the graph has its tensors
        rows = [(number, contents if number is None else None) for number, contents in rows]
    return [[number, contents] for number, contents in rows]


def _place(tensor: torch.Tensor) -> tuple[object, ...]:
    """A key that is equal for tensors of the same elements in the same memory, and for no others."""
    if type(tensor) not in _PLAIN or tensor.layout != torch.strided or not tensor.numel():
        return (id(tensor),)
    if tensor.device.type not in ("cpu", "cuda"):
        return (id(tensor),)
    return tensor.data_ptr(), tensor.dtype, tensor.device, tensor.shape, tensor.stride()


_PLAIN = (torch.Tensor, torch.nn.Parameter)
