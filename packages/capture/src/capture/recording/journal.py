"""The journal of a graph: what its operators write and where they may raise, in the order of the program.

Fakes have no data, so nothing raises for what data holds; but the operators on them are the ones that will run.
Must not know how a frame starts over.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Self

import torch

from capture.recording.composites import Composites
from capture.recording.draws import NotingDraws
from capture.recording.nests import tensors_in
from capture.recording.refusals import doubtful
from capture.recording.refused_by_fakes import taken
from capture.recording.remembered import Call, Effects, Remembered
from capture.recording.result_layouts import corrected
from capture.recording.sparse_counts import SparseCounts
from capture.torch_versions import OpOverload, cdata_of, schema_of, version_of

# Operators that look at the values of floats, as the others do at positions only: by how their names begin.
_LOOKS_AT_VALUES = (
    "linalg_", "_linalg", "cholesky", "_cholesky", "lu_", "_lu", "ormqr", "geqrf", "triangular_solve", "lstsq", "svd",
    "inverse", "logdet", "slogdet", "multinomial", "bernoulli", "poisson", "binomial", "normal", "binary_cross_entropy",
    "histc", "histogram", "_histogram", "bincount", "_ctc_loss", "masked_scatter", "masked_select", "segment_reduce",
    "_assert", "_functional_assert", "repeat_interleave", "quantize", "fractional_max_pool", "sym_constrain",
)  # fmt: skip
# Operators that begin with one of these names and look at no values.
_LOOKS_AT_NONE = ("linalg_vector_norm", "linalg_cross", "linalg_vecdot")
_DIVIDES = ("div", "floor_divide", "remainder", "fmod", "pow")
_MOVES = (
    "cat", "stack", "copy", "_to_copy", "clone", "sum", "prod", "cumsum", "sort", "topk", "max", "min", "argmax",
    "argmin", "any", "all", "arange", "where", "expand", "fill", "zero", "full", "roll", "flip", "unbind",
)  # fmt: skip
_OF_ALL_TYPES = frozenset((
    "cat", "stack", "copy", "_to_copy", "clone", "sum", "prod", "cumsum", "any", "all", "arange", "where", "expand",
    "fill", "zero", "full", "roll", "flip", "unbind", "add", "sub", "rsub", "mul", "div", "eq", "ne", "lt", "le", "gt",
    "ge", "neg", "abs", "square", "mean", "logical_not", "logical_and", "logical_or", "logical_xor", "zeros_like",
    "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "isnan", "isinf", "isfinite", "alias",
    "lift_fresh", "masked_fill",
))  # fmt: skip
"""Operators of which no kernel refuses operands for their types, or of which fakes refuse the same."""
_OF_LISTS = ("_foreach_", "_fused_")
_KEEPS_NUMBERS = ("copy", "fill", "zero")
_INTEGERS = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool))
_DEVICE = torch.ops.prim.device.default
_USUAL = frozenset((torch.float32, torch.float64, torch.bfloat16, torch.float16))


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of an operator, by its schema and its name."""

    always: bool  # whatever it is given, it may raise
    of_integers: bool  # where integers are among its operands
    writes: tuple[tuple[int, str], ...]  # arguments by place and name
    list_is_written: bool
    statistics: bool
    simple: bool  # goes from number to number: nothing is left to refuse once shapes and types fit
    of_some_types: bool  # kernels may refuse types that fakes take
    work: int  # how many kernels it is in eager, about


@cache
def traits_of(func: OpOverload) -> Traits:
    """The traits of an operator; an operator of another library than torch may raise whatever it is given."""
    name = schema_of(func).name.rpartition("::")[2]
    plain = name.rstrip("_")
    of_torch = func.namespace in ("aten", "prims")
    # By its name, as torch has no mark for operators that look at data.
    always = not of_torch or (plain.startswith(_LOOKS_AT_VALUES) and plain not in _LOOKS_AT_NONE)
    moves = torch.Tag.pointwise in func.tags or plain in _MOVES or _is_view(func)
    # Norms write their running statistics too, which no schema marks: ``statistics`` tells.
    arguments = enumerate(schema_of(func).arguments)
    changed = [(p, a) for p, a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return Traits(
        always,
        plain.startswith(_DIVIDES) or not moves,
        tuple((p, a.name) for p, a in changed),
        any(isinstance(a.type, torch.ListType) for _, a in changed),
        of_torch and plain.endswith(("batch_norm", "instance_norm")),
        of_torch and (torch.Tag.pointwise in func.tags or name.startswith(_OF_LISTS) or plain in _KEEPS_NUMBERS),
        plain not in _OF_ALL_TYPES and not _is_view(func),
        _work_of(func, plain),
    )


def _work_of(func: OpOverload, plain: str) -> int:
    """The number of kernels that an operator comes to in eager, about.

    Views, numbers that are read, and types that are changed to read one, are nothing.  Of a program's own operators
    nothing is known.
    """
    gives_tensors = any("Tensor" in str(returned.type) for returned in schema_of(func).returns)
    if _is_view(func) or not gives_tensors or plain == "_to_copy":
        return 0
    return 1 if func.namespace in ("aten", "prims") else 2


def _is_view(func: OpOverload) -> bool:
    """True if a result lies in the memory of an operand, and is not the operand itself."""
    infos = [argument.alias_info for argument in (*schema_of(func).arguments, *schema_of(func).returns)]
    return any(info is not None and not info.is_write for info in infos)


def _has_integers(operands: object) -> bool:
    return any(tensor.dtype in _INTEGERS for tensor in tensors_in(operands))


def _has_unusual_types(operands: object) -> bool:
    """True if the types of tensors differ, or are no common ones of floats."""
    kinds = {tensor.dtype for tensor in tensors_in(operands)}
    return len(kinds) > 1 or not kinds <= _USUAL


def _has_plain_numbers(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if no operand is a truth, which some kernels refuse where they take numbers."""
    return not any(isinstance(each, bool) for each in (*args, *kwargs.values()))


class Journal:
    """Memory in the order it is written, and how much of it was written when something last might have raised.

    Doubtful is more than what may raise: whatever fakes do not check as kernels do.
    """

    def __init__(self) -> None:
        self.written: dict[int, torch.UntypedStorage] = {}
        self.order: list[int] = []  # memory, each time that it is written
        self.before_raising: dict[int, torch.UntypedStorage] = {}
        self.before_doubtful: dict[int, torch.UntypedStorage] = {}
        self.raising_after: dict[int, object] = {}  # where, of the first that may raise after that memory was written
        self.are_of_data: Callable[[Sequence[torch.Tensor]], bool] | None = None  # whether sizes of some are
        self.place: Any = None  # of the program's instruction that is evaluated
        self.closed = False  # what a backend computes on these tensors is none of the program's
        self.doubts = 0
        self._in_lists: list[tuple[torch.Tensor, int]] = []  # written as part of one, with how often before that
        self.raisers = 0  # how many operators may raise, for what data holds or for their operands' types
        self._raising = 0  # of these, those that raise for what data holds
        self._doubtful = 0
        self.work = 0  # how many kernels the operators would be in eager, about

    def note(self, func: OpOverload, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Notes an operator before it runs on fakes: what it writes, and in what ways it may raise."""
        if self.closed:
            return
        traits = traits_of(func)
        written = self._written(func, traits, args, kwargs)
        self.doubts += doubtful(func, args, kwargs, written)
        for tensor in written:
            memory = tensor.untyped_storage()
            self.written.setdefault(int(cdata_of(memory)), memory)
            self.order.append(int(cdata_of(memory)))
        raises = traits.always or (traits.of_integers and _has_integers((args, kwargs)))
        # A data-dependent size may be 0, which many operators refuse.
        if self.are_of_data is not None and not (raises or traits.simple):
            raises = self.are_of_data(tensors_in((args, kwargs)))
        raiser = raises or (traits.of_some_types and _has_unusual_types((args, kwargs)))
        self._note_what_may_happen(raiser, raises, raiser or not (traits.simple and _has_plain_numbers(args, kwargs)))
        if traits.list_is_written:
            self._in_lists += [(tensor, version_of(tensor)) for tensor in written if not tensor.is_inference()]

    def _note_what_may_happen(self, raisers: int, raises: bool, is_doubtful: bool) -> None:
        """Marks all memory that was written so far as written before something that may raise."""
        self.raisers += raisers
        self._raising += raises
        self._doubtful += is_doubtful
        if self.written and is_doubtful:
            self.before_doubtful.update(self.written)
        if self.written and raises:
            for key in self.written.keys() - self.before_raising.keys():
                self.raising_after[key] = self.place
            self.before_raising.update(self.written)

    def counts(self) -> tuple[int, ...]:
        """The counts of all that is noted, to be compared with later ones."""
        return self.doubts, self.raisers, self._raising, self._doubtful, len(self.order)

    def effects_since(self, before: tuple[int, ...], draws: int) -> Effects | None:
        """The difference of the counts as one record; None where memory was written, which cannot be told again."""
        doubts, raisers, raising, doubtful_, written = map(operator.sub, self.counts(), before)
        if written:
            return None
        return Effects(doubts, raisers, raising > 0, doubtful_ > 0, draws)

    def note_again(self, effects: Effects) -> None:
        """Notes an operator that does what it did before."""
        if not self.closed:
            self.doubts += effects.doubts
            self._note_what_may_happen(effects.raisers, effects.raises, effects.doubtful)

    def count_lists(self) -> None:
        """Counts a change of each tensor of a list that was written, as torch's kernels do; its fakes count none."""
        pairs, self._in_lists = self._in_lists, []
        uncounted = [tensor for tensor, version in pairs if version_of(tensor) == version]
        if uncounted:
            torch.autograd.graph.increment_version(uncounted)

    def _written(
        self, func: OpOverload, traits: Traits, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> list[torch.Tensor]:
        """The operands that an operator writes to, by its schema; running statistics are not marked there."""
        given = [args[place] if place < len(args) else kwargs.get(name) for place, name in traits.writes]
        if traits.statistics:
            arguments = schema_of(func).arguments
            given += [
                args[place] if place < len(args) else kwargs.get(argument.name)
                for place, argument in enumerate(arguments)
                if argument.name.startswith("running_")
            ]
        return [tensor for tensor in tensors_in(given) if tensor.layout is torch.strided]


class Noting(NotingDraws):
    """A fake tensor mode that keeps a journal."""

    cache_enabled: bool

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.journal = Journal()
        self._counts = SparseCounts()
        self.remembered = Remembered(self) if self.shape_env is None else None
        self._depth = 0  # of dispatches: an operator's fake kernel may be made of other operators
        self._composites = Composites()

    def __enter__(self) -> Self:
        self._composites.entered()
        super().__enter__()
        return self

    def __exit__(self, *of: object) -> None:
        super().__exit__(*of)
        self._composites.left()

    @cached_property
    def avoid_device_init(self) -> bool:
        """Torch's answer, kept: it looks for devices each time that the mode is entered, and none come meanwhile."""
        return bool(super().avoid_device_init)

    def dispatched(
        self, func: OpOverload, types: object, args: Any = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Runs an operator on fakes, or gives again what it gave for such operands before."""
        if func is _DEVICE:  # asked many times, by torch's functions in C++
            return args[0].device
        parts = None if self._depth else self._composites.parts(func)
        if parts is not None:
            return parts(self, args, kwargs or {})
        call = None if self.remembered is None else self.remembered.call(func, args, kwargs or {})
        if call is None or self.remembered is None:
            return self._run(func, types, args, kwargs or {})
        if call.outcome is None:
            return self._run_and_remember(call, self.remembered, func, types, args, kwargs or {})
        # Operators that a fake kernel is made of are no work of their own: the outer one was counted.
        if self._depth == 0:
            self.journal.work += call.outcome.work
        self.journal.note_again(call.outcome.effects)
        self.draws += call.outcome.effects.draws
        return self.remembered.again(call.outcome, call.tensors)

    def _run_and_remember(
        self,
        call: Call,
        remembered: Remembered,
        func: OpOverload,
        types: object,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> object:
        before, draws = self.journal.counts(), self.draws
        # Torch's own memory would hide which operators a fake kernel is made of, from the second graph on.
        kept, self.cache_enabled = self.cache_enabled, False
        try:
            result = self._run(func, types, args, kwargs)
        finally:
            self.cache_enabled = kept
        remembered.keep(call, result, self.journal.effects_since(before, self.draws - draws), traits_of(func).work)
        return result

    def _run(self, func: OpOverload, types: object, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        if self._depth == 0:
            self.journal.work += traits_of(func).work
        self._depth += 1
        try:
            self._counts.insist_on_known(func, args, kwargs)
            self.journal.note(func, args, kwargs)
            result = taken(func, args, kwargs)
            if result is NotImplemented:
                result = corrected(func, args, kwargs, super().__torch_dispatch__(func, types, args, kwargs))
            self._counts.note(func, result)
            return result
        finally:
            self._depth -= 1


# Torch keeps its own compiler out of such a method by a wrapper around each call if it finds it in the class; while a
# frame is captured it is kept out anyway.
Noting.__torch_dispatch__ = Noting.dispatched  # type: ignore[method-assign]
