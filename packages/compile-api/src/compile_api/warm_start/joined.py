"""The result of a backend as data, and back: the differentiated plan, and the keys of its compiled graphs.

    backend     its name
    operators   of the graph as it was captured, for the report
    plan        aotgrad's, in which each compiled graph stands as
        key         of the code generator's cache
        direction   forward, backward or inference
        nodes       how many operators it has
        written     bytes that eager, and that the compiled graph writes in one call

Whatever is read is looked at before it is used: what is not as it says is refused.
Must not know where this is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeGuard

from torch.fx import GraphModule

import aotgrad
import inductor
from capture import NotStored
from compile_api.ledger import GraphCompiled, LayersShared, Ledger, kernels_of
from compile_api.memory import Written
from compile_api.warm_start.artefacts import Artefact, Artefacts

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"

_KEY = re.compile(r"[0-9a-f]{40}")
_FIELDS = {"key": str, "direction": str, "nodes": int, "written": list}


def described(
    name: str, compiled: Callable[..., Sequence[object]], artefacts: Artefacts, later: aotgrad.Later
) -> dict[str, object]:
    """Raises ``NotStored`` where it has no form as data; ``later`` hears of backward when that is compiled."""
    missing: list[str] = []

    def of_graph(inner: Callable[..., Sequence[object]]) -> Plain | None:
        try:
            return of_compiled(inner, artefacts)
        except NotStored as error:
            missing.append(str(error))
            return None

    plan = aotgrad.describe(compiled, of_graph, later=later)
    if isinstance(plan, aotgrad.Refusal):
        raise NotStored(missing[0] if missing else plan.reason)
    return {"backend": name, "operators": [*artefacts.operators.get(compiled, ())], "plan": plan}


def of_compiled(compiled: Callable[..., Sequence[object]], artefacts: Artefacts) -> dict[str, Plain]:
    """The entry of one compiled graph."""
    found = artefacts.of_graphs.get(compiled)
    if found is None or found.key is None:
        raise NotStored("it is not a compiled graph alone" if found is None else found.reason)
    written: list[Plain] = [found.written.eager, found.written.compiled]
    return {"key": found.key, "direction": found.direction, "nodes": found.nodes, "written": written}


def taken_up(
    name: str,
    data: object,
    artefacts: Artefacts,
    ledger: Ledger,
    backward: Callable[[GraphModule, list[object]], Callable[..., Sequence[object]]],
    later: aotgrad.Later,
) -> tuple[Callable[..., Sequence[object]], tuple[str, ...]]:
    """The callable, with the operators of the graph that it stands for; ``backward`` compiles its backward when
    somebody first goes back, unless ``later`` has it."""
    operators = data.get("operators") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("backend") != name or not _are_texts(operators):
        raise NotStored("what is kept of its graph is not of this form")
    why: list[str] = []

    def of_graph(kept: object) -> Callable[..., Sequence[object]] | None:
        try:
            return loaded(kept, artefacts, ledger)
        except NotStored as error:
            why.append(str(error))
            return None

    plan = data.get("plan")
    call = aotgrad.restore(plan, take_up=of_graph, backward=backward, later=later)
    if call is None:
        raise NotStored(why[0] if why else "its graph was compiled in another mode, or what is kept of it is damaged")
    artefacts.operators[call] = operators
    for layers, count in getattr(call, "stacks", ()):
        ledger.add(LayersShared(layers, count))
    return call, tuple(operators)


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def loaded(kept: object, artefacts: Artefacts, ledger: Ledger) -> Callable[..., Sequence[object]]:
    if not isinstance(kept, dict) or any(type(kept.get(name)) is not kind for name, kind in _FIELDS.items()):
        raise NotStored("what is kept of a compiled graph is not of this form")
    # A key becomes part of a path: nothing else may be read as one.
    written_ints = len(kept["written"]) == 2 and all(type(each) is int for each in kept["written"])
    if not written_ints or not _KEY.fullmatch(kept["key"]):
        raise NotStored("what is kept of a compiled graph is not of this form")
    compiled = inductor.load(kept["key"])
    if compiled is None:
        raise NotStored("a compiled graph of it is no longer in the cache")
    written = Written(*kept["written"])
    artefacts.of_graphs[compiled.call] = Artefact(kept["key"], "", kept["direction"], kept["nodes"], written)
    report = compiled.report
    ledger.add(
        GraphCompiled(
            kept["direction"],
            kept["nodes"],
            kernels_of(report.kernels),
            report.library_calls,
            tuple(fallback.operator for fallback in report.fallbacks),
            tuple(report.seconds.items()),
            tuple(fallback.reason for fallback in report.fallbacks),
            written,
        )
    )
    return compiled.call
