"""The report of what compiling came to, on one screen: a view of the ledger, with no facts of its own."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import capture
from capture import Location, Reason, triton_kernel_name
from compile_api.errors import CompileApiError
from compile_api.ledger import (
    GraphCaptured,
    GraphCompiled,
    GraphInaccurate,
    GraphRefused,
    Kernel,
    LayersShared,
    Ledger,
    total,
)
from compile_api.memory import Written

_SHOWN = 6
"""The number of entries that a section prints; all are in the report's fields."""


@dataclass(frozen=True, slots=True)
class Report:
    """Graphs, kernels, breaks and refusals of one compiled function so far; ``print`` it, or read its fields."""

    captured: tuple[GraphCaptured, ...]
    compiled: tuple[GraphCompiled, ...]
    refused: tuple[GraphRefused, ...]
    breaks: tuple[capture.BreakRecord, ...] = ()
    recompiled: tuple[capture.RecompileRecord, ...] = ()
    left_alone: tuple[capture.FallbackRecord, ...] = ()
    inaccurate: tuple[GraphInaccurate, ...] = ()
    frames: tuple[capture.GraphRecord, ...] = ()
    run_once: tuple[capture.SingleRunRecord, ...] = ()
    layers: tuple[LayersShared, ...] = ()
    kept: tuple[capture.StoreRecord, ...] = ()
    """The fate of versions that are kept on disk for other processes."""
    parts: tuple[str, ...] = ()
    """The places of the compiled ones, if there are several."""

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return tuple(kernel for graph in self.compiled for kernel in graph.kernels)

    @property
    def own_kernels(self) -> tuple[str, ...]:
        """The program's own Triton kernels, once for each place where a graph starts one."""
        names = (triton_kernel_name(call) for graph in self.compiled for call in graph.library_calls)
        return tuple(name for name in names if name is not None)

    @property
    def fused_operators(self) -> int:
        """The number of operators that went into generated kernels."""
        return sum(len(kernel.operators) for kernel in self.kernels)

    @property
    def seconds(self) -> float:
        """Time spent behind capture: differentiating, generating and building."""
        return sum(graph.seconds for graph in self.captured)

    @property
    def traced_again(self) -> tuple[tuple[Location, str], ...]:
        """The places where nothing on disk could be used, and where nothing could be kept, with the reason."""
        found: list[tuple[Location, str]] = []
        for each in self.kept:
            if each.outcome == "taken up":  # others that were tried before it do not matter
                found = [(at, why) for at, why in found if at != each.location]
            elif each.outcome != "stored":
                found.append((each.location, each.explanation))
        return tuple(found)

    @property
    def written(self) -> Written:
        """Bytes of results that eager and the compiled programs write in one call of each graph."""
        return sum((graph.written for graph in self.compiled), Written())

    @property
    def stages(self) -> dict[str, float]:
        """Compile time by stage; a backward graph counts from when it is first needed."""
        generated: Counter[str] = Counter()
        for graph in self.compiled:
            generated.update(dict(graph.seconds))
        before_call = sum(total(graph.seconds) for graph in self.compiled if graph.direction != "backward")
        stages = {"capture": sum(frame.capture_seconds for frame in self.frames)}
        stages["autograd"] = max(0.0, self.seconds - before_call)
        return {**stages, **generated}

    def __str__(self) -> str:
        return "\n".join([*self._figures(), *self._stories()])

    def _figures(self) -> list[str]:
        operators = sum(len(graph.operators) for graph in self.captured)
        directions = Counter(graph.direction for graph in self.compiled)
        by_direction = ", ".join(f"{count} {direction}" for direction, count in directions.items())
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.stages.items() if seconds >= 0.005)
        lines = [f"compiled parts     {len(self.parts)} ({_some(self.parts)})"] if self.parts else []
        lines += [
            f"graphs captured    {len(self.captured)} ({operators} operators)",
            f"graphs compiled    {len(self.compiled)}" + (f" ({by_direction})" if by_direction else ""),
            f"kernels            {len(self.kernels)} (from {self.fused_operators} operators)",
            f"library calls      {sum(len(graph.library_calls) for graph in self.compiled) - len(self.own_kernels)}",
            f"fallback operators {_names(self.compiled)}",
            f"compile time       {sum(self.stages.values()):.2f} s" + (f" ({stages})" if stages else ""),
        ]
        # Most graphs have no equal layers: the line is put in above that of the kernels.
        if self.layers:
            stacks = ", ".join(f"{stack.layers} of {stack.operators} operators" for stack in self.layers)
            lines.insert(len(lines) - 4, f"equal layers       {stacks}, compiled once")
        if self.kept:
            outcomes = Counter(each.outcome for each in self.kept)
            outcome = ", ".join(f"{outcomes[each]} {each}" for each in ("taken up", "stored") if outcomes[each])
            lines.append(f"warm start         {outcome or 'nothing taken up'}")
        if own := self.own_kernels:
            lines.insert(
                len(lines) - 2, f"your Triton kernels {len(own)} ({', '.join(sorted(set(own)))}), called as they are"
            )
        if self.written.eager:
            lines.append(f"memory saved       {_bytes(self.written.saved)} of {_bytes(self.written.eager)} written")
        return lines

    def _stories(self) -> Iterable[str]:
        yield from section("graph breaks", [_line(each.location, each.reason) for each in self.breaks])
        yield from section(
            "recompiled",
            # The guard that failed is enough here; what it had assumed stands in the record.
            [f"{place(each.location)}: {each.failed.partition(' (assumed')[0]}" for each in self.recompiled],
        )
        yield from section(
            "not compiled", [f"{place(each.location)}: {each.reason.explanation}" for each in self.run_once]
        )
        yield from section("traced again", [f"{place(at)}: {why}" for at, why in self.traced_again])
        yield from section("left to Python", [_line(each.location, each.reason) for each in self.left_alone])
        yield from section(
            "refused", [f"by {each.stage}: {first_line(each.reason)}; {each.consequence}" for each in self.refused]
        )
        fallbacks = [
            f"{name}: {reason}"
            for graph in self.compiled
            for name, reason in zip(graph.fallbacks, graph.fallback_reasons, strict=False)
        ]
        yield from section("run by torch's own kernels", fallbacks)
        yield from section("inaccurate", [str(each) for each in self.inaccurate])


# Where a module, a module compiled in place, and classes keep what is called instead of them.
_WHERE = ("_compiled_call", "_compiled_call_impl", "_call_impl", "__call__")
# What partial functions, methods and decorated functions keep what they call in.
_AROUND = ("func", "__func__", "__wrapped__")


def report(compiled: object) -> Report:
    """The report of what ``compile`` returned, or of all that is compiled in a module or a list of them.

    So it takes a model that is wrapped for several processes, blocks that were compiled in place, and a trainer's
    dictionary of networks.
    """
    parts = ledgers_of(compiled)
    if not parts:
        what = f"this {type(compiled).__name__}" if isinstance(compiled, torch.nn.Module) else repr(compiled)
        raise CompileApiError(
            f"{what} was not made by compile_api.compile and holds nothing that was: there is nothing to report"
        )
    return of_ledgers(parts)


def ledgers_of(compiled: object) -> list[tuple[str, Ledger]]:
    """The ledgers of all that is compiled in something, each once and with its place in it."""
    # By the ledger's identity: one that is reached by several ways is reported once.
    parts: dict[int, tuple[str, Ledger]] = {}
    for name, ledger in _ledgers(compiled, ""):
        parts.setdefault(id(ledger), (name, ledger))
    return list(parts.values())


def of_ledgers(parts: Sequence[tuple[str, Ledger]]) -> Report:
    """The report of several ledgers, by their places."""
    merged = [of_ledger(ledger) for _, ledger in parts]
    if len(merged) == 1:
        return merged[0]
    # Every field is a tuple, so that reports add up field by field.
    fields: dict[str, Any] = {
        each.name: sum((getattr(one, each.name) for one in merged), ()) for each in dataclasses.fields(Report)
    }
    return Report(**{**fields, "parts": tuple(name for name, _ in parts)})


def _ledgers(thing: object, name: str) -> Iterator[tuple[str, Ledger]]:
    own = _own_ledger(thing)
    if own is not None:
        yield name, own
    if isinstance(thing, torch.nn.Module):
        for child, module in thing.named_modules():
            # Compiled as a module, or one of its methods: both keep a ledger.
            for method, held in (("", module), *_methods(module)):
                inner = _own_ledger(held)
                if inner is not None:
                    yield ".".join(filter(None, (name, child, method))), inner
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _ledgers(value, f"{name}[{key!r}]")
    elif isinstance(thing, list | tuple | set | frozenset):
        for number, value in enumerate(thing):
            yield from _ledgers(value, f"{name}[{number}]")


def _methods(module: torch.nn.Module) -> Iterator[tuple[str, object]]:
    """``forward``, which its class may have compiled, and what was put in the place of this module's methods."""
    # An attribute of the instance that hides a method of its class was put there by somebody.
    own = {name for name, value in vars(module).items() if callable(value) and hasattr(type(module), name)}
    yield from ((name, _attribute(module, name)) for name in sorted(own | {"forward"}))


_MOST_WRAPPERS = 100
"""More do not stand around one another: they go round in circles, or each question makes a new one."""


def _own_ledger(thing: object) -> Ledger | None:
    for _ in range(_MOST_WRAPPERS):
        if thing is None:
            break
        for each in (thing, *(_attribute(thing, name) for name in _WHERE)):
            ledger = _attribute(each, "ledger")
            if isinstance(ledger, Ledger):
                return ledger
        thing = next((inner for inner in (_attribute(thing, name) for name in _AROUND) if inner is not None), None)
    return None


def _attribute(thing: object, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # noqa: BLE001 - whatever a property of the user's raises, it is no ledger
        return None


def of_ledger(ledger: Ledger) -> Report:
    """Everything on record in one ledger."""
    return Report(
        ledger.captured(),
        ledger.compiled(),
        ledger.refused(),
        ledger.breaks(),
        ledger.recompiled(),
        ledger.left_alone(),
        ledger.inaccurate(),
        ledger.frames_captured(),
        ledger.run_once(),
        ledger.layers_shared(),
        ledger.kept(),
    )


def place(location: Location) -> str:
    """A line of the user's program, as short as it stays clear."""
    path = location.filename
    _, installed, inside = path.rpartition("site-packages" + os.sep)
    if installed:
        path = inside
    elif path.startswith(os.getcwd() + os.sep):
        path = os.path.relpath(path)
    return f"{path}:{location.line} in {location.function}"


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _line(location: Location, reason: Reason) -> str:
    lines = [f"{place(location)}: {first_line(reason.explanation)}"]
    if location.source:
        lines.append(f"    {location.source}")
    if reason.hint:
        lines.append(f"    try: {reason.hint}")
    return "\n".join(lines)


def section(title: str, entries: list[str]) -> Iterable[str]:
    """Equal entries once, the most frequent first, and no more than fit on a screen."""
    if not entries:
        return
    counted = Counter(entries).most_common()
    yield f"{title} ({len(entries)})"
    for text, times in counted[:_SHOWN]:
        yield "  " + (f"{times}x " if times > 1 else "") + text.replace("\n", "\n  ")
    if len(counted) > _SHOWN:
        yield f"  and {len(counted) - _SHOWN} more"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name or "itself" for name in names[:_SHOWN]) + more


def _names(graphs: tuple[GraphCompiled, ...]) -> str:
    names = [name for graph in graphs for name in graph.fallbacks]
    return f"{len(names)} ({', '.join(sorted(set(names)))})" if names else "0"


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"
