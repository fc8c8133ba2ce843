"""Rollback of what a graph wrote before it raised, so that its frame can start over in CPython.

A backend that changes nothing before all that may raise is done says so: what it returns has ``all_or_nothing = True``.
If that may have an ``is_final``, a function of an error that says of it that something was written before it came.
One whose parts do, so that only operators that capture noted may raise after a write, has ``raises_where_noted``.
Any other may run the graph as it is written, operator by operator.  Inputs that are written before the last operator
that may raise, or of which that is not certain, are then copied ahead of each call; of the others, which are those that
optimizers and counters write at the end, a count of changes tells whether they were written.  What was made in
inference mode counts none: beside it all of them are copied.  Leaves that the graph detaches, or tells to want
gradients, are told the contrary.
Must not know how a frame starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from capture.recording.graph import GraphRecorder, memory_of
from capture.torch_versions import unsafe_set_version_counter, version_of


class CannotTakeBack(Exception):
    """A tensor's history changed; ``place`` is where the program goes on to what may raise."""

    def __init__(self, place: object) -> None:
        self.place = place
        super().__init__()


class Undoing:
    """The compiled graph, all or nothing: an error leaves its inputs as they were, or is ``final``."""

    def __init__(
        self,
        compiled: Callable[..., object],
        copied: Sequence[int],
        watched: Sequence[int],
        switched: Sequence[int],
    ) -> None:
        """``switched``: inputs that want gradients from here on, or none any more."""
        self.compiled = compiled
        self.copied = copied
        self.watched = watched
        self.switched = switched
        self._final: dict[int, BaseException] = {}

    @property
    def places(self) -> tuple[Sequence[int], ...]:
        """The inputs of each kind, as they stand in the signature."""
        return self.copied, self.watched, self.switched

    def __call__(self, *args: object) -> object:
        # To write to what was made in inference mode may be refused, at the end as well.
        count = not any(_counts_no_changes(args[place]) for place in self.watched)
        watched = [args[place] for place in self.watched] if count else []
        kept = [_Kept(args[place]) for place in (self.copied if count else (*self.copied, *self.watched))]
        before = [version_of(tensor) for tensor in watched]
        wanted = [_Wanted(args[place]) for place in self.switched]
        try:
            return self.compiled(*args)
        except BaseException as error:  # of whatever operator of the graph; Ctrl-C comes between two of them
            written = before != [version_of(tensor) for tensor in watched]
            if written or any(each.is_lost() for each in wanted):
                self._final[id(error)] = error
                raise
            for tensor in kept:
                tensor.put_back()
            for flag in wanted:
                flag.put_back()
            raise

    def is_final(self, error: BaseException) -> bool:
        """True if something was changed that cannot be taken back."""
        return self._final.pop(id(error), None) is not None


def _counts_no_changes(tensor: object) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.is_inference()


class _Kept:
    """A tensor's contents, layout and count of changes, and whether it wanted gradients."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.plain = not tensor.requires_grad
        self.as_it_was = tensor.detach()
        self.cells = _each_cell_once(self.as_it_was)
        self.contents = self.cells.clone()
        self.version = None if _counts_no_changes(tensor) else version_of(tensor)

    def put_back(self) -> None:
        """Gives the tensor its contents, layout and count of changes again."""
        tensor = self.tensor
        # It came without a history, and detaching is what takes the new one away.
        if self.plain and tensor.requires_grad:
            tensor.detach_()
        was = self.as_it_was
        with torch.inference_mode(tensor.is_inference()), torch.no_grad():
            if (tensor.size(), tensor.stride()) != (was.size(), was.stride()):
                tensor.as_strided_(was.size(), was.stride(), was.storage_offset())
            self.cells.copy_(self.contents)
        if self.version is not None and unsafe_set_version_counter:
            unsafe_set_version_counter((tensor,), (self.version,))


def _each_cell_once(tensor: torch.Tensor) -> torch.Tensor:
    """A view of the memory that a tensor has: torch writes to no tensor of which two elements are one cell."""
    if tensor.layout is not torch.strided or not tensor.numel():
        return tensor
    extent = 1  # cells from the first to the last, dimension by dimension from the innermost
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and step < extent:  # expanded, or windows that share cells
            cells = 1 + sum((size - 1) * step for step, size in zip(tensor.stride(), tensor.shape, strict=True))
            return tensor.as_strided((cells,), (1,))
        extent += (size - 1) * step
    return tensor


class _Wanted:
    """The state of a tensor in autograd, as it was."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.step = tensor.grad_fn
        self.requires_grad = tensor.requires_grad

    def is_lost(self) -> bool:
        """True if it had a history, and has not got it any more."""
        return self.step is not None and self.tensor.grad_fn is not self.step

    def put_back(self) -> None:
        """Has a leaf want gradients as it did."""
        if self.tensor.is_leaf and self.tensor.requires_grad != self.requires_grad:
            self.tensor.requires_grad_(self.requires_grad)


def undoing(
    graph: GraphRecorder, inputs: Sequence[torch.fx.Node], compiled: Callable[..., object], *, may_end_earlier: bool
) -> Callable[..., object]:
    """The compiled graph with what it takes to start over after an error of it."""
    if getattr(compiled, "all_or_nothing", False):
        return compiled
    journal = graph.mode.journal
    doubtful = {} if getattr(compiled, "raises_where_noted", False) else journal.before_doubtful
    copied: list[int] = []
    watched: list[int] = []
    switched: list[int] = []
    for place, node in enumerate(inputs):
        example = node.meta.get("val")
        memory = memory_of(example) if isinstance(example, torch.Tensor) else None
        if graph.gradients_changed(node):
            switched.append(place)
        if memory is None or memory not in journal.written:
            continue
        # Contents can be copied back, a history cannot: only one that detaching undoes.
        taken_back = not graph.history_changed(node) or _is_forgotten_by_detaching(graph, node)
        # Written only where nothing may raise any more, so that a copy would be for nothing; or, in doubt, kept all
        # the same.
        if memory not in journal.before_raising and not example.is_inference():
            (copied if taken_back and memory in doubtful else watched).append(place)
        elif taken_back:
            copied.append(place)
        elif may_end_earlier and journal.raising_after[memory] is not None:
            raise CannotTakeBack(journal.raising_after[memory])
        else:
            watched.append(place)
    return Undoing(compiled, copied, watched, switched) if copied or watched or switched else compiled


def _is_forgotten_by_detaching(graph: GraphRecorder, node: torch.fx.Node) -> bool:
    """Torch detaches no view in place; the fake of an argument that is one need be none."""
    return not graph.had_history(node) and node not in graph.views and not node.meta["val"]._is_view()
