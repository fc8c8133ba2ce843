"""Compiled graphs taken up from the cache: libraries loaded, the wrapper bound, and no stage run."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from inductor import triton_launch
from inductor.assemble import BuiltKernels, bound, run_from
from inductor.cache import Cache
from inductor.calling import Calling, calling_of, fixed_in, with_constants
from inductor.compiled import CompiledGraph
from inductor.errors import BuildError, CacheError, ParseError
from inductor.ir.plain import Reader
from inductor.ir.program import Program
from inductor.labels import labelled
from inductor.options import Options
from inductor.report import CompiledKernel, Fallback, Report
from inductor.stored import artefact, namespace
from inductor.stored.artefact import Head
from inductor.stored.keys import held_tensors
from inductor.stored.world import gpus, world
from inductor.toolchain import Library, built_before, open_cache

_FAILURES = (
    BuildError, CacheError, ParseError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError,
    SyntaxError, TypeError, ValueError,
)  # fmt: skip
"""Errors that reading may raise where a file is not what it says, or names something that this process lacks."""


def take_up(
    key: str, name: str, options: Options, gm: GraphModule | None = None, examples: Sequence[object] = ()
) -> CompiledGraph | None:
    """The graph stored under the key, for ``gm``, whose key it is, or alone; None where it has to be compiled."""
    start = time.perf_counter()
    try:
        store = Cache(options.cache_folder(), options.cache_bytes)
        found = artefact.find(key, store)
        if found is None:
            return None
        head, program = found
        loading = _Loading(head, artefact.options_read(head["options"], options), store)
        # A graph's key covers versions and GPUs already; a key alone says nothing of this process.
        if gm is None and not loading.is_of_here():
            return None
        return loading.graph(name, gm, examples, program, start)
    except _FAILURES:
        return None


class _Loading:
    """One stored graph being taken up."""

    def __init__(self, head: Head, options: Options, store: Cache) -> None:
        self.head, self.options, self.store = head, options, store
        self.reader = Reader(head["nodes"])

    def is_of_here(self) -> bool:
        """True if it was made by the versions that are here, for a processor and GPUs like those here."""
        numbers = {int(number) for number in self.head["gpus"]}
        return self.head["world"] == world(self.options) and self.head["gpus"] == gpus(numbers)

    def graph(
        self,
        name: str,
        gm: GraphModule | None,
        examples: Sequence[object],
        program: Callable[[], Program],
        start: float,
    ) -> CompiledGraph | None:
        """The compiled graph; None where its libraries or its constants are not to be had."""
        head = self.head
        constants = self._constants(gm)
        libraries = built_before(head["libraries"], self.store)
        if constants is None or libraries is None:
            return None
        built = self._built(libraries)
        taken = artefact.taken_read(head["taken"])
        calling = self._calling(name) if gm is None else calling_of(name, gm, taken)
        source = self._source(name, calling.names)
        call = bound(name, source, namespace.read(head["names"], built, constants, self.reader))
        # Where the graph itself is here it has the names for messages; alone, those of the first compilation serve.
        fixed = self._fixed() if gm is None else fixed_in(gm, examples, taken)
        report = self._report(built.kernels, start)

        def renamed() -> Program:
            return replace(program(), name=name)

        compiled = CompiledGraph(with_constants(call, fixed), source, renamed, report, calling, head["bytes"])
        compiled.key = head["key"] if all(contents is not None for _, contents in head["constants"]) else None
        return compiled

    def _constants(self, gm: GraphModule | None) -> list[torch.Tensor] | None:
        """The graph's own tensors, or those that were stored, where all of them were."""
        own = [] if gm is None else held_tensors(gm)
        found = []
        for number, contents in self.head["constants"]:
            if gm is not None and number is not None:
                found.append(own[number].detach().resolve_conj().resolve_neg())
            elif contents is not None:
                found.append(artefact.tensor_read(contents, self.reader))
            else:
                return None
        return found

    def _built(self, libraries: list[Library]) -> BuiltKernels:
        printed = artefact.triton_read(self.head["triton"], self.reader)
        launchers: dict[str, Callable[..., None]] = {}
        path = None
        if printed:
            spare = open_cache(self.options)
            launchers, path = triton_launch.load(printed, self.head["devices"], spare, self.options)
        kernels = tuple(
            CompiledKernel(name, text, path if at < 0 else libraries[at].source, tuple(operators), True)
            for name, text, at, operators in self.head["kernels"]
        )
        built = BuiltKernels(run_from(libraries), launchers, kernels, tuple(libraries))
        return labelled(built) if self.options.labels else built

    def _calling(self, name: str) -> Calling:
        taken = artefact.taken_read(self.head["taken"])
        defaults = tuple(map(self.reader.read, self.head["defaults"]))
        names = tuple(self.head["inputs"])
        return Calling(name, names, taken.tensors, taken.integers, (), taken.written, defaults)

    def _fixed(self) -> tuple[tuple[int, str, object], ...]:
        return tuple((at, name, self.reader.read(value)) for at, name, value in self.head["fixed"])

    def _source(self, name: str, names: Sequence[str]) -> str:
        """The wrapper's source with this graph's name, and those of its inputs, in messages of wrong calls."""
        source: str = self.head["source"]
        source = source.replace(f"check_list(inputs, {self.head['name']!r}, ", f"check_list(inputs, {name!r}, ")
        new = dict(zip(self.head["inputs"], names, strict=True)) if self.head["named"] else {}
        if all(old == now for old, now in new.items()):
            return source

        def check(found: re.Match[str]) -> str:
            return f"check_input({new.get(found[1], found[1])!r}, "

        return re.sub(r"check_input\('(\w+)', ", check, source)

    def _report(self, kernels: tuple[CompiledKernel, ...], start: float) -> Report:
        report: Mapping[str, Any] = self.head["report"]
        return Report(
            kernels=kernels,
            fallbacks=tuple(Fallback(*fallback) for fallback in report["fallbacks"]),
            library_calls=tuple(report["library_calls"]),
            lowered=report["lowered"],
            nests=report["nests"],
            bytes=report["bytes"],
            seconds={"take up": time.perf_counter() - start},
            from_cache=True,
        )
