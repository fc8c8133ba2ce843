"""The wrapper that the caller calls: flat code that passes arguments in, writes mutations back and rebuilds outputs.

Only the lines that this graph needs are written; a graph without mutation and aliasing gets none.
Must not know: what runs inside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from aotgrad.autograd_graph.saved_inputs import Noted, SavedInput, note_saved
from aotgrad.calling.result_versions import with_versions
from aotgrad.calling.storage_sizes import storage_numel
from aotgrad.calling.view_replay import Outputs, layout_arguments
from aotgrad.calling.written_inputs import mark_final_if_written, note_changes, refuse_inference_tensors, write_back
from aotgrad.errors import InputChanged, refuse_miscount
from aotgrad.facts import (
    Facts,
    OfInput,
    OfResult,
    Output,
)
from aotgrad.source import Source
from aotgrad.tensors.symbols import size_hint
from aotgrad.torch_versions import foreach_copy_
from aotgrad.tracing.inputs import GraphInput, Signature

Call = Callable[..., Sequence[Any]]
_NOTHING: tuple[Noted, Sequence[int]] = Noted(), ()


def wrap_call(
    signature: Signature,
    facts: Facts,
    inner: Callable[..., Any],
    *,
    boxed: bool,
    written: frozenset[int] = frozenset(),
    early: frozenset[int] = frozenset(),
    noted: tuple[Noted, Sequence[int]] = _NOTHING,
) -> Call:
    """The compiled function with the caller's calling convention around `inner`, which itself writes the inputs
    `written`, and `early` those that results come from.  ``noted``: inputs that nobody may write to until backward, and
    the values of `inner` that they belong to."""
    source = Source()
    source.names.update(inner=inner, InputChanged=InputChanged, refuse_miscount=refuse_miscount)
    # Most graphs for inference: the wrapper costs one call.
    if _is_plain(signature, facts, boxed) and not noted[0].groups:
        names = _names(signature)
        source.add(f"def call({names}{', /' if names else ''}):")
        source.add(f"return inner({f'[{names}]' if boxed else names})", 1)
    else:
        _write_call(source, signature, facts, boxed, written, early, noted)
    call: Call = source.build("wrapper")["call"]
    return call


def _names(signature: Signature) -> str:
    return ", ".join(f"a{position}" for position in range(signature.arity))


def _is_plain(signature: Signature, facts: Facts, boxed: bool) -> bool:
    """True if arguments and results may go through untouched."""
    direct = tuple(OfResult(index) for index in range(facts.results))
    changes = facts.mutations or facts.counts or facts.owners or (boxed and facts.versions)
    return signature.passes_through and not changes and facts.outputs == direct and not facts.sizes


def _write_call(
    source: Source,
    signature: Signature,
    facts: Facts,
    boxed: bool,
    written: frozenset[int],
    early: frozenset[int],
    noted: tuple[Noted, Sequence[int]],
) -> None:
    """Writes the function of a graph that needs more than passing arguments through."""
    names = _names(signature)
    source.add(f"def call({names}{', /' if names else ''}):")
    for position, value in signature.constants:
        _write_check(source, position, value)
    given = [_write_input(source, index, entry, signature) for index, entry in enumerate(signature.inputs)]
    returned = [f"u{i}" for i in facts.updates if i not in written] + [f"r{i}" for i in range(facts.results)]
    returned += [f"n{i}" for i in range(facts.sizes)]
    counted = {position for position, _ in facts.counts}
    unseen = {index for index in written if signature.inputs[index].position not in counted}
    # The compiled graph's write would count; the program's, through ``.data``, does not.
    passed = [f"{name}.data" if index in unseen else name for index, name in enumerate(given)]
    arguments = f"[{', '.join(passed)}]" if boxed else ", ".join(passed)
    changed = {signature.inputs[mutation.input].position for mutation in facts.mutations}
    changed.update(signature.inputs[index].position for index in written)
    _write_who_may_be_written(source, changed)
    _write_counts(source, [each for each in facts.counts if each[0] not in changed], Counter())  # before it is saved
    if returned:
        source.add(f"try: {', '.join(returned)}, = inner({arguments})", 1)
        source.add(f"except (TypeError, ValueError) as e: refuse_miscount(e, 'inference', {len(returned)}); raise", 1)
    else:
        source.add(f"inner({arguments})", 1)
    for result in facts.owners:  # without a history, so that nobody but its own views knows what it was made from
        source.add(f"r{result} = r{result}.detach()", 1)
    bases: dict[int, str] = {}
    older = _write_older(source, signature, facts, bases)
    copied = _write_mutations(source, signature, facts, given, written, early)
    _write_counts(source, [each for each in facts.counts if each[0] in changed], copied)
    _write_noted(source, signature, facts, noted, returned)
    if boxed and facts.versions:
        _write_versions(source, facts)
    rest = [older.get(id(output), output) for output in facts.outputs]
    made = Outputs(source, "p", bases)
    outputs = [made.expression(output) for output in _shared_once(source, rest, made)]
    source.add(f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})", 1)


def _write_versions(source: Source, facts: Facts) -> None:
    apart = " or ".join(f"r{index}._version != {version}" for index, version in facts.versions)
    results, versions = ", ".join(f"r{index}" for index, _ in facts.versions), [each for _, each in facts.versions]
    source.add(f"if {apart}:", 1)
    source.add(f"{results}, = {source.constant(with_versions, 'with_versions')}(({results},), {versions})", 2)


def _write_input(source: Source, index: int, entry: GraphInput, signature: Signature) -> str:
    """The name of a graph input; the flat memory under several arguments is taken from the first of them."""
    if not entry.members:
        return f"a{entry.position}"
    (length,) = entry.value.size()
    numel = (
        length
        if isinstance(length, int)
        else f"{source.constant(storage_numel(entry, signature), 'numel')}({_names(signature)})"
    )
    source.add(f"b{index} = a{entry.position}.detach().as_strided(({numel},), (1,), 0)", 1)
    return f"b{index}"


def _write_who_may_be_written(source: Source, changed: Collection[int]) -> None:
    """Writes the check, ahead of all else, for tensors made in inference mode: outside of it torch lets nobody write to
    them."""
    if changed and not torch.is_inference_mode_enabled():
        asked = " or ".join(f"a{position}.is_inference()" for position in sorted(changed))
        source.add(f"if {asked}: {source.constant(refuse_inference_tensors, 'refuse_inference_tensors')}()", 1)


def _write_check(source: Source, position: int, value: object) -> None:
    """Writes the check of a constant argument: a value that is neither tensor nor size is part of the graph, and
    calling with another would be silently wrong."""
    if isinstance(value, (int, float, str, bool, type(None))):
        same = "is" if value is None or isinstance(value, bool) else "=="
        source.add(f"if not (a{position} {same} {source.literal(value)}):", 1)
        source.add(
            f'raise InputChanged(f"argument {position} was {value!r} when compiled and is {{a{position}!r}}")', 2
        )


def _write_mutations(
    source: Source,
    signature: Signature,
    facts: Facts,
    given: Sequence[str],
    written: frozenset[int],
    early: frozenset[int],
) -> Counter[int]:
    """Writes the lines that update arguments: new layouts first, then new data.  Data that autograd does not follow
    goes in one call for each dtype, because torch copies lists of mixed dtypes one by one.  Returns how often that
    counts as a change, by the caller's position."""
    together: dict[torch.dtype, list[tuple[str, str]]] = {}
    counts, copied = dict(facts.counts), Counter[int]()
    lines: list[str] = []
    for mutation in facts.mutations:
        if mutation.input in written:
            continue
        name, new = given[mutation.input], f"u{mutation.input}"
        entry = signature.inputs[mutation.input]
        if mutation.layout is not None:
            # New data has the new layout, so the layout comes first.
            lines.append(f"{name}.as_strided_({layout_arguments(source, mutation.layout, name)})")
            copied[entry.position] += 1
        if mutation.data and mutation.tracked:
            if mutation.input not in early:
                lines.append(f"{source.constant(write_back, 'write_back')}({name}, {new}, {mutation.writes})")
            copied[entry.position] += max(mutation.writes, 1)
        elif mutation.data:
            seen = counts.get(entry.position, 0) > copied[entry.position] and not entry.members
            target = f"{name}.data" if not seen else f"{name}.detach()" if entry.requires_grad else name
            copied[entry.position] += seen
            together.setdefault(entry.value.dtype, []).append((target, new))
    for pairs in together.values():
        if len(pairs) == 1:
            lines.append("{}.copy_({})".format(*pairs[0]))
        else:
            targets, values = (", ".join(column) for column in zip(*pairs, strict=True))
            lines.append(f"{source.constant(foreach_copy_, 'copy')}(({targets}), ({values}))")
    _write_one_by_one(source, lines, [given[each.input] for each in facts.mutations if each.input not in written])
    return copied


def _write_one_by_one(source: Source, lines: Sequence[str], targets: Sequence[str]) -> None:
    """Writes the updates so that an error in one is final once another has been written: torch may refuse each write,
    as that of a leaf, or raise behind it."""
    if not lines:
        return
    source.add("written = 0", 1)
    source.add("try:", 1)
    for line in lines:
        source.add(line, 2)
        source.add("written += 1", 2)
    source.add("except BaseException as error:", 1)
    source.add(
        f"{source.constant(mark_final_if_written, 'mark_final_if_written')}(error, written, ({', '.join(targets)},))", 2
    )
    source.add("raise", 2)


def _write_counts(source: Source, counts: Sequence[tuple[int, int]], copied: Counter[int]) -> None:
    """Writes the increments of versions that fewer writes here than in the program leave open, changes of a view's
    layout among them."""
    names = [f"a{position}" for position, count in counts for _ in range(count - copied[position])]
    if names:
        source.add(f"{source.constant(note_changes, 'note_changes')}([{', '.join(names)}])", 1)


def _write_noted(
    source: Source, signature: Signature, facts: Facts, noted: tuple[Noted, Sequence[int]], returned: Sequence[str]
) -> None:
    """Writes the line that notes, once all is written back, the versions of inputs that autograd saved in that
    state."""
    inputs, values = noted
    tracked = {mutation.input for mutation in facts.mutations if mutation.tracked}
    for number, group in enumerate(inputs.groups):
        of_results = zip(values, inputs.of_results, strict=True)
        results = "".join(f"{returned[value]}, " for value, noted_in in of_results if noted_in == number)
        saved = "".join(f"{_as_saved(signature.inputs[each.input], each, tracked)}, " for each in group)
        source.add(f"{source.constant(note_saved, 'note_saved')}(({results}), {number}, ({saved}))", 1)


def _as_saved(entry: GraphInput, saved: SavedInput, tracked: Collection[int]) -> str:
    """The expression for an input in the shape in which it was saved; detached where it hangs on this very call, which
    it would keep alive for ever."""
    name = f"a{entry.position}"
    if tuple(map(size_hint, entry.value.shape)) != saved.shape:
        return f"{name}.detach().as_strided({saved.shape}, {(0,) * len(saved.shape)})"
    return f"{name}.detach()" if saved.input in tracked else name


def _write_older(source: Source, signature: Signature, facts: Facts, bases: dict[int, str]) -> dict[int, str]:
    """Names of views made before the write-back: they are older than the program's last write.  Those that autograd
    follows, or of an input whose layout changes, are made after it."""
    apart = {mutation.input for mutation in facts.mutations if mutation.tracked or mutation.layout is not None}
    apart.update(index for index, entry in enumerate(signature.inputs) if entry.members)
    named: dict[int, str] = {}
    made = Outputs(source, "m", bases)
    for output in facts.outputs:
        if not isinstance(output, (OfInput, OfResult)) or not output.older or id(output) in named:
            continue
        if isinstance(output, OfResult) or output.input not in apart:
            named[id(output)] = f"e{len(named)}"
            source.add(f"{named[id(output)]} = {made.expression(output)}", 1)
    return named


def _shared_once(source: Source, outputs: Sequence[Output | str], made: Outputs) -> Sequence[Output | str]:
    """The outputs, where one that occurs twice is built once, ahead of the return."""
    built: dict[int, str] = {}
    seen: dict[int, int] = {}
    for output in outputs:
        seen[id(output)] = seen.get(id(output), 0) + 1
    named: list[Output | str] = []
    for output in outputs:
        if seen[id(output)] > 1 and isinstance(output, (OfInput, OfResult)) and output.steps:
            if id(output) not in built:
                built[id(output)] = f"o{len(built)}"
                source.add(f"{built[id(output)]} = {made.expression(output)}", 1)
            named.append(built[id(output)])
        else:
            named.append(output)
    return named
