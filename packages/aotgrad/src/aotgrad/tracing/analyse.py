"""Facts about mutation and aliasing, read off functional tensors after the program has run once.

Must not know: how the program was run, how gradients are traced.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch.autograd.function import BackwardCFunction

from aotgrad.autograd_graph.result_levels import behind
from aotgrad.errors import Unsupported
from aotgrad.facts import (
    Argument,
    Base,
    Constant,
    Data,
    Detach,
    Facts,
    Followed,
    Frozen,
    Mutation,
    OfInput,
    OfResult,
    OfSize,
    Output,
    Restride,
    SizeRef,
    Step,
    Unfollowed,
)
from aotgrad.recording.recorder import Recorder
from aotgrad.tensors import functional
from aotgrad.tensors.symbols import SYM_TYPES, is_size
from aotgrad.tensors.views import owner_of, restride, root_of, steps_between
from aotgrad.torch_versions import CreationMeta, base_of, get_creation_meta, version_of


@dataclass(slots=True)
class TracedInput:
    """One graph input during the run."""

    node: fx.Node
    fake: Any
    value: Any = None  # what the program sees: a functional tensor, or the SymInt itself
    leaf: torch.Tensor | None = None  # where autograd delivers the gradient
    tracked: bool = False  # requires grad on arrival
    history: Any = None  # the autograd node behind it on arrival
    layout: torch.Tensor | None = None  # a tensor without data that follows changes of layout in place
    version: int | None = None  # of what the program sees, on arrival; tensors of inference mode have none
    within: bool = False  # within a tensor subclass object that requires grad
    seen: dict[int, Any] = field(default_factory=dict)  # what the program sees, by the caller's position
    connected: set[int] = field(
        default_factory=set
    )  # tangents that make its gradient zeros where they do not add to it
    reached: bool = False  # by autograd, whatever functions answer on the way


@dataclass(slots=True)
class Analysis:
    """Facts, with the tensors and nodes that they speak of."""

    facts: Facts
    updates: list[torch.Tensor]  # functional tensors, one for each input with new data
    results: list[torch.Tensor]  # functional tensors, in the order of `OfResult.result`
    result_nodes: list[fx.Node]
    sizes: list[fx.Node]
    within: frozenset[int]  # ids of results within objects that autograd follows
    views: bool  # does autograd follow views of inputs?

    @property
    def differentiable(self) -> list[bool]:
        """For each update and result, whether autograd follows it."""
        updates = [mutation.tracked for mutation in self.facts.mutations if mutation.data]
        return [*updates, *(bool(value.requires_grad) or id(value) in self.within for value in self.results)]

    @property
    def followed(self) -> bool:
        """True if autograd follows anything that the caller gets."""
        return self.views or any(self.differentiable)


def analyse(
    recorder: Recorder, inputs: Sequence[TracedInput], outputs: Sequence[object], *, training: bool
) -> Analysis:
    """The effects of the program on its inputs, and the kind of each of its outputs."""
    mutations = [found for index, entry in enumerate(inputs) if (found := _mutation(index, entry)) is not None]
    reader = _Outputs(recorder, inputs, {m.input for m in mutations if m.layout}, training)
    reader.count_sharing(outputs)
    kinds = tuple(reader.read(output) for output in outputs)
    # After the outputs: integers of the graph are numbered in the order in which they are asked for.
    mutations = [reader.with_sizes(mutation) for mutation in mutations]
    counts, versions = tuple(_counts(inputs)), tuple(_versions(reader.results, reader.result_nodes))
    facts = Facts(
        tuple(mutations),
        kinds,
        len(reader.results),
        len(reader.sizes),
        counts,
        versions,
        tuple(n for n, value in enumerate(reader.results) if value.is_inference() != torch.is_inference_mode_enabled()),
        reader.owners(),
    )
    updates = [inputs[index].value for index in facts.updates]
    within = frozenset(id(inner) for opened in recorder.opened_results for inner in opened.inner)
    tracked = [inputs[mutation.input].value for mutation in facts.mutations if mutation.tracked]
    _refuse_leaves(recorder, inputs, [*reader.results, *tracked])
    if not within.issubset(map(id, reader.results)):
        raise Unsupported("a tensor subclass that requires grad is returned as a view", "return a copy of it")
    analysis = Analysis(facts, updates, reader.results, reader.result_nodes, reader.sizes, within, reader.views)
    if torch.is_inference_mode_enabled() and analysis.followed:
        raise Unsupported("inference mode is left and gradients are recorded", "call the function outside of the mode")
    if torch.is_inference_mode_enabled() or not (torch.is_grad_enabled() or analysis.followed):
        analysis.facts = replace(facts, outputs=_in_the_callers_mode(kinds))
    return analysis


def _in_the_callers_mode(outputs: Sequence[Output]) -> tuple[Output, ...]:
    """The outputs for a caller without gradients: views made without them need no step for that, views made with them
    do."""
    plain: dict[int, Output] = {}
    callers = Unfollowed(inference=torch.is_inference_mode_enabled())
    for output in outputs:
        if isinstance(output, (OfInput, OfResult)) and id(output) not in plain:
            steps = tuple(step for step in output.steps if step != callers)
            if steps == output.steps and steps and not isinstance(steps[-1], (Data, Detach, Base, Unfollowed)):
                steps = (*steps, Followed())
            plain[id(output)] = replace(output, steps=steps)
    return tuple(plain.get(id(output), output) for output in outputs)


def _refuse_leaves(recorder: Recorder, inputs: Sequence[TracedInput], given_out: Sequence[torch.Tensor]) -> None:
    """Refuses a tensor that the program makes itself and that requires grad: gradients arrive at inputs only."""
    given = any(entry.tracked or entry.within for entry in inputs) or bool(recorder.opened_leaves)
    for result in given_out:
        if result.requires_grad and (result.grad_fn is None or not given):
            raise Unsupported(
                "a tensor made within the graph requires grad, and so does what is returned",
                "make it outside of the graph",
            )


def _mutation(index: int, entry: TracedInput) -> Mutation | None:
    """The change of one input; None where there is none, an error where the graph cannot express it."""
    value = entry.value
    if not isinstance(value, torch.Tensor):
        return None
    if functional.storage_replaced(value) or value.numel() != entry.fake.numel():
        raise Unsupported(
            f"graph input {index} gets another storage (set_ or resize_)", "keep that call out of the graph"
        )
    data, layout = functional.data_mutated(value), functional.layout_mutated(value)
    tracked = data and value.grad_fn is not entry.history
    gets_a_history = data and value.grad_fn is not None
    is_no_leaf_any_more = gets_a_history and entry.tracked and entry.history is None
    if (value.requires_grad != entry.tracked and not gets_a_history) or is_no_leaf_any_more:
        raise Unsupported(
            f"requires_grad of graph input {index} changes", "call requires_grad_ or detach_ outside the graph"
        )
    if any(functional.layout_mutated(member) for member in entry.seen.values() if member is not value):
        raise Unsupported("an input that shares memory changes its shape in place", "use the returning operator")
    if not data and not layout:
        return None
    if data and entry.fake.is_inference() and not torch.is_inference_mode_enabled():
        raise Unsupported(
            "an inference tensor is changed", "call the function in inference mode"
        )  # when it is written back
    new_layout = _layout_after(entry) if layout else None
    if layout and (entry.tracked or new_layout is None):
        raise Unsupported(
            f"graph input {index} requires grad and changes its shape in place", "use the returning operator"
        )
    if tracked and len(entry.seen) > 1:
        raise Unsupported("inputs that share memory get a history by a change in place", "change copies of them")
    return Mutation(index, data, tracked, new_layout, _counted(entry))


def _counts(inputs: Sequence[TracedInput]) -> Iterator[tuple[int, int]]:
    """The caller's tensors whose versions move, and how far: tensors that autograd saved of them before are out of
    date.

    A write through `.data` moves none.  Of inputs that share memory it is told by the run in which they were apart.
    """
    for entry in inputs:
        if isinstance(entry.value, torch.Tensor) and len(entry.seen) == 1:
            count = _counted(entry)
            if count:
                yield next(iter(entry.seen)), count


def _versions(results: Sequence[torch.Tensor], nodes: Sequence[fx.Node]) -> Iterator[tuple[int, int]]:
    """The version counts of results: an operator that makes a tensor from nothing writes to it, which counts where it
    is called by its name."""
    for index, (value, node) in enumerate(zip(results, map(root_of, nodes), strict=True)):
        made = not any(_has_tensors(source.meta.get("val")) for source in node.all_input_nodes)
        if not value.is_inference() and (made or version_of(value)):
            yield index, int(version_of(value))


def _has_tensors(value: object) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, tuple | list) and any(map(_has_tensors, value)))


def _counted(entry: TracedInput) -> int:
    """The number of writes to an input that autograd counts."""
    if functional.data_mutated(entry.value) and functional.mutations_hidden(entry.value):
        return 0
    if entry.version is None:
        return int(functional.data_mutated(entry.value))
    return int(version_of(entry.value)) - entry.version


def _layout_after(entry: TracedInput) -> Restride | None:
    """The layout that the input has after the call, which is that of its data unless that was replaced."""
    after = functional.current(entry.value)
    if restride(entry.fake, after) is None or entry.layout is None:
        return None
    found, before = entry.layout, entry.fake
    return Restride(tuple(found.size()), tuple(found.stride()), found.storage_offset() - before.storage_offset())


def _forgot_layout(entry: TracedInput) -> bool:
    """True if the data that replaced this input's is laid out in another way than the input is."""
    return entry.layout is None or functional.current(entry.value).stride() != entry.layout.stride()


def _is_followed(view: torch.Tensor) -> bool:
    """True if autograd follows the view; refuses one that torch allows no use of any more."""
    try:
        return view.grad_fn is not None
    except RuntimeError as error:  # torch allows no use of it any more
        hint = "make the view and the change with gradients either on or off"
        raise Unsupported("a view made without gradients is returned of a tensor changed with them", hint) from error


def _as_autograd_knows(base: torch.Tensor, view: torch.Tensor, steps: Sequence[object]) -> Sequence[Any]:
    """The steps to a view that behaves to autograd as eager's: a later change of it reaches its base, or does not."""
    if not functional.counts_with(base, view):
        steps = [Data(0 if view.is_inference() else version_of(view)), *steps]
    if view.is_inference():
        return [*(steps or [_ALIAS]), Unfollowed(inference=True)]
    if base_of(view) is None:
        return steps if steps and (steps[-1] == _DETACH or isinstance(steps[-1], Data)) else [*steps, Detach()]
    if base.requires_grad and not _is_followed(view) and isinstance(next(iter(steps), None), Restride):
        return [*steps, Detach()]
    apart = _first_followed(base, view, steps)
    if 0 < apart < len(steps) and not any(isinstance(step, Restride) for step in steps):
        return [*steps[:apart], *(_made_unfollowed(view) or (Unfollowed(),)), *steps[apart:]]
    return [*(steps or [_ALIAS]), *_made_unfollowed(view)]


def _first_followed(base: torch.Tensor, view: torch.Tensor, steps: Sequence[object]) -> int:
    """The number of steps before the last ones to a view, which autograd follows though an earlier one was made without
    gradients; all of them where there is none."""
    # Of one of several views torch tells that it is one, and no longer how what it views was made.
    may_be = _made_unfollowed(view) or get_creation_meta(view) == CreationMeta.MULTI_OUTPUT_NODE
    node, place = view.grad_fn if may_be else None, len(steps)
    while node is not None and node is not base.grad_fn and node.next_functions and place:  # a leaf ends there
        node, place = node.next_functions[0][0], place - (2 if _picks(steps[place - 1]) else 1)
    return len(steps) if node is not None else place


def _picks(step: object) -> bool:
    """True for the step to one of several views, which autograd makes together."""
    return isinstance(step, Step) and step.target is operator.getitem


def _made_unfollowed(view: torch.Tensor) -> tuple[Unfollowed, ...]:
    made_in = get_creation_meta(view)
    if made_in in (CreationMeta.NO_GRAD_MODE, CreationMeta.INFERENCE_MODE):
        return (Unfollowed(inference=made_in == CreationMeta.INFERENCE_MODE),)
    return ()


_OF_FUNCTIONS = (CreationMeta.IN_CUSTOM_FUNCTION, CreationMeta.MULTI_OUTPUT_NODE)
_MADE_BY_VIEWS = (torch.ops.aten.empty_permuted.default,)
"""Operators whose kernels end in a view, of which torch's own functions know nothing."""
_ALIAS, _DETACH = Step(torch.ops.aten.alias.default), Step(torch.ops.aten.detach.default)


def _has_function_between(view: torch.Tensor, base: torch.Tensor) -> bool:
    """True if autograd passes a function of the program on its way from a view to its base: repeating the view would
    leave that out."""
    end = base.grad_fn
    waiting, seen = [view.grad_fn], {end}
    while waiting:
        step = waiting.pop()
        if step is None or step in seen:
            continue
        if isinstance(step, BackwardCFunction):
            return True
        seen.add(step)
        waiting.extend(source for source, _ in step.next_functions)
    return False


def has_history(output: torch.Tensor) -> bool:
    try:
        return output.grad_fn is not None
    except RuntimeError:  # torch allows no use of it any more, which whoever returns it is told
        return False


def _layout_numbers(value: object) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else value


@dataclass(slots=True)
class _Outputs:
    """Reads outputs one after another; collects the tensors and sizes that the graph must return for them."""

    recorder: Recorder
    inputs: Sequence[TracedInput]
    restrided: set[int]
    training: bool
    results: list[torch.Tensor] = field(default_factory=list)
    result_nodes: list[fx.Node] = field(default_factory=list)
    sizes: list[fx.Node] = field(default_factory=list)
    views: bool = False  # of inputs, that autograd follows
    _sharing: dict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    _read: dict[int, Output] = field(default_factory=dict)
    _bases: dict[int, int] = field(default_factory=dict)
    _owned: Counter[int] = field(default_factory=Counter)  # outputs by the id of what autograd knows them by
    _owners: dict[int, tuple[int, torch.Tensor]] = field(default_factory=dict)  # those of several outputs, numbered
    _passed: set[int] = field(default_factory=set)  # ids of outputs that others come from
    _arguments: dict[int, int] = field(default_factory=dict)  # positions of what the program sees, by id
    _inputs_over: dict[int, int] = field(default_factory=dict)  # the first input of each memory

    def __post_init__(self) -> None:
        for index, entry in enumerate(self.inputs):
            for position, argument in entry.seen.items():
                self._arguments.setdefault(id(argument), position)
            if isinstance(entry.value, torch.Tensor):
                self._inputs_over.setdefault(functional.memory_of(entry.value), index)

    def count_sharing(self, outputs: Sequence[object]) -> None:
        tensors = {id(o): o for o in outputs if isinstance(o, torch.Tensor) and functional.is_functional(o)}
        for output in tensors.values():
            self._sharing[functional.memory_of(output)].append(output)
            self._owned[id(owner_of(output))] += 1
        followed = [output for output in tensors.values() if self.training and has_history(output)]
        self._passed = {id(followed[number]) for numbers in behind(followed) for number in numbers}

    def read(self, output: object) -> Output:
        if isinstance(output, SYM_TYPES):
            return self._size(output)
        if not isinstance(output, torch.Tensor) or not functional.is_functional(output):
            return Constant(output)
        if id(output) not in self._read:
            self._read[id(output)] = self._tensor(output)
        return self._read[id(output)]

    def owners(self) -> tuple[int, ...]:
        """The results that are no views in the program, where the graph makes one by a view and others view it."""
        return tuple(
            index
            for index, (value, node) in enumerate(zip(self.results, self.result_nodes, strict=True))
            if len(self._sharing_with(value)) > 1 and self._is_made_by_a_view(value, node)
        )

    def with_sizes(self, mutation: Mutation) -> Mutation:
        if mutation.layout is None:
            return mutation
        return replace(mutation, layout=self._portable(mutation.layout))

    def _size(self, value: object) -> Output:
        node = self.recorder.sizes.node_for(value)
        return OfSize(self._size_index(node)) if isinstance(node, fx.Node) else Constant(node)

    def _size_index(self, node: fx.Node) -> int:
        if node not in self.sizes:
            self.sizes.append(node)
        return self.sizes.index(node)

    def _tensor(self, output: torch.Tensor) -> Output:
        if id(output) in self._arguments:
            return Argument(self._arguments[id(output)])
        index = self._inputs_over.get(functional.memory_of(output))
        if index is not None:
            return self._view_of_input(index, output)
        base = self._base_of(output)
        if base is output:
            result = self._result(output)
            return OfResult(result, self._own_steps(output, self.result_nodes[result]))
        if self.training and output.requires_grad and owner_of(output) is not owner_of(base):
            raise Unsupported("two results share memory, each with a history of its own", "return a copy of one")
        return OfResult(self._result(base), self._path(base, output), self._is_older(output))

    def _view_of_input(self, index: int, output: torch.Tensor) -> Output:
        entry = self.inputs[index]
        if self.training and output.requires_grad and base_of(output) is not entry.value:
            raise Unsupported(
                "a detached view of an input gets a history of its own and is returned", "return a copy of it"
            )
        if index in self.restrided and _forgot_layout(entry):
            raise Unsupported(
                "a view is returned of an input that changes its shape in place and is written to",
                "return a copy",
            )
        self.views |= output.requires_grad and _is_followed(output)
        position, argument = self._viewed(entry, output)
        steps = self._path(argument, output, restrided=index in self.restrided)
        return OfInput(index, steps, position, self._is_older(output))

    def _is_older(self, view: torch.Tensor) -> bool:
        """True for a view without a history whose base was written to since it was made."""
        known = self.recorder.view_versions.get(id(view))
        return known is not None and not view.requires_grad and known[1] != version_of(view)

    def _viewed(self, entry: TracedInput, output: torch.Tensor) -> tuple[int, torch.Tensor]:
        """The caller's tensor that this is a view of, where several share memory: a later change has to reach that one,
        with its history."""
        if len(entry.seen) == 1:
            return next(iter(entry.seen)), entry.value
        nodes = (self.recorder.node_of(functional.current(value)) for value in (entry.value, output))
        steps = steps_between(*nodes) or [Step(None)]
        # The first step from the flat memory is the one by which the caller's tensor is made.
        layout = tuple(map(_layout_numbers, steps[0].args))
        found = [
            (position, member)
            for position, member in entry.seen.items()
            if layout == (tuple(member.size()), tuple(member.stride()), member.storage_offset())
        ]
        if len(found) != 1:
            raise Unsupported(
                "a view is returned of one of several inputs that share memory, and it is not clear of which",
                "return a copy of it",
            )
        return found[0]

    def _base_of(self, output: torch.Tensor) -> torch.Tensor:
        """The tensor that the graph returns for `output`: itself, unless it shares memory that a view must keep."""
        sharing = self._sharing_with(output)
        if len(sharing) == 1 and (id(output) in self._passed or not self._is_followed_view(output)):
            return output
        owners = list(map(owner_of, sharing))
        # What an autograd function returns may be a view of a tensor without history: it ran without grad mode.
        owners.sort(key=lambda tensor: tensor.is_inference() or -version_of(tensor))  # what comes by `.data` has none
        followed = next((tensor for tensor in (*owners, *sharing) if tensor.requires_grad), None)
        return followed if followed is not None else next(filter(self._is_made, owners), owners[0])

    def _is_followed_view(self, output: torch.Tensor) -> bool:
        """True if autograd may have to know the base of this view."""
        base = base_of(output)
        if not self.training or not output.requires_grad:
            return self.training and base is not None and not base.requires_grad
        _is_followed(output)  # refuses what torch forbids to use
        return base is None or not _has_function_between(output, base)

    def _own_steps(self, output: torch.Tensor, node: fx.Node) -> tuple[Any, ...]:
        """The steps that give a result its standing with autograd, where nobody has its base: made without gradients,
        or by a function with a backward of its own, it refuses to be written to with them."""
        if self._is_seen_as_view(output, node):
            return (Detach(),)
        if self.training and output.requires_grad and id(output) not in self._passed:
            made_in = CreationMeta.DEFAULT if base_of(output) is None else get_creation_meta(output)
            return (_ALIAS, Frozen(made_in)) if made_in in _OF_FUNCTIONS else ()
        records = torch.is_grad_enabled() and not output.requires_grad and base_of(output) is not None
        unfollowed = _made_unfollowed(output) if records and len(self._sharing_with(output)) == 1 else ()
        return (_ALIAS, *unfollowed) if unfollowed else ()

    def _sharing_with(self, output: torch.Tensor) -> list[torch.Tensor]:
        return self._sharing[functional.memory_of(output)]

    def _is_seen_as_view(self, output: torch.Tensor, node: fx.Node) -> bool:
        """True if the graph makes by a view a tensor that is none in the program; for tensors that autograd follows,
        its function takes care of that."""
        return len(self._sharing_with(output)) == 1 and self._is_made_by_a_view(output, node)

    def _is_made_by_a_view(self, value: torch.Tensor, node: fx.Node) -> bool:
        known = not self.training and not value.is_inference()
        return known and base_of(value) is None and (root_of(node) is not node or node.target in _MADE_BY_VIEWS)

    def _is_made(self, value: torch.Tensor) -> bool:
        """True for a tensor made by an operator that is no view: it is not to change with what becomes of a view of
        it."""
        node = self.recorder.node_of(functional.current(value))
        return root_of(node) is node

    def _result(self, value: torch.Tensor) -> int:
        """The number of a tensor among the graph's results."""
        asked = id(value)
        known = self._bases.get(asked)
        if known is None:
            if value.layout is not torch.strided:
                raise Unsupported(f"a result has layout {value.layout}", "only strided tensors are compiled")
            node = self.recorder.node_of(functional.current(value))
            if root_of(node).op != "call_function":
                # A constant, or an input under another name: the caller must get memory of its own.
                value = value.clone()
                node = self.recorder.node_of(functional.current(value))
            known = self._bases[asked] = len(self.results)
            self.results.append(value)
            self.result_nodes.append(node)
        return known

    def _path(self, base: torch.Tensor, view: torch.Tensor, *, restrided: bool = False) -> tuple[object, ...]:
        """Steps that make `view` from the real counterpart of `base`; those to a base of its own, which `detach` makes,
        are made once for all of its views."""
        owner = owner_of(view)
        if any(owner is each for each in (base, owner_of(base))) or self._owned[id(owner)] < 2:
            return self._steps(base, view, restrided=restrided)
        number, _ = self._owners.setdefault(id(owner), (len(self._owners), owner))
        behind = () if view is owner else self._steps(owner, view)
        return (*self._steps(base, owner, restrided=restrided), Base(number), *behind)

    def _steps(self, base: torch.Tensor, view: torch.Tensor, *, restrided: bool = False) -> tuple[object, ...]:
        if view.requires_grad and has_history(view) and _has_function_between(view, base):
            raise Unsupported("a function with a backward of its own returns what it was given", "return a copy of it")
        inner, outer = functional.current(base), functional.current(view)
        steps: Sequence[Any] | None = None
        # A chain of views of an input whose layout changed would start from another layout.
        if not restrided:
            steps = steps_between(self.recorder.node_of(inner), self.recorder.node_of(outer))
        if steps is None:
            layout = restride(inner, outer)
            if layout is None:
                raise Unsupported(
                    "an output is a view of another dtype of a tensor that was mutated", "return a copy of it instead"
                )
            steps = [layout]
        return tuple(map(self._portable, _as_autograd_knows(base, view, steps)))

    def _portable(self, step: object) -> Any:
        """The step with sizes named by their index among the graph's outputs."""
        if isinstance(step, Step):
            args = tuple(map(self._portable_value, step.args))
            return Step(step.target, args, tuple((key, self._portable_value(value)) for key, value in step.kwargs))
        if isinstance(step, Restride):
            return Restride(*(self._portable_value(value) for value in (step.size, step.stride, step.offset)))
        return step

    def _portable_value(self, value: object) -> Any:
        if isinstance(value, fx.Node):
            assert is_size(value), f"view step reads tensor {value}"
            return SizeRef(self._size_index(value))
        if isinstance(value, SYM_TYPES):
            return self._portable_value(self.recorder.sizes.node_for(value))
        if isinstance(value, (list, tuple)):
            return (list if isinstance(value, list) else tuple)(map(self._portable_value, value))
        return value
