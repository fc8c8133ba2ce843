"""The FX graph being recorded: inputs by source, operations run on fake tensors, outputs by demand.

Knows FX and fake tensors; knows nothing of Python's values beyond the nodes handed to it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import keyword
import logging
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import fx

from capture.errors import InternalError, Location
from capture.graph_modules import graph_module
from capture.guards.guard import Guard
from capture.guards.layouts import OpenLayout, Relied
from capture.guards.sources import Inputs, MadeSource, Source
from capture.operators.transforms import transformed
from capture.recording.fakes import Arrived, Fakes, has_gradients_of_its_base
from capture.recording.journal import Noting
from capture.recording.regions import Regions, module_of
from capture.silence import silenced
from capture.torch_versions import (
    FakeTensorMode,
    cdata_of,
    enter_autocast,
    enter_inference_mode,
    exit_autocast,
    exit_inference_mode,
    is_view,
    set_grad_enabled,
    version_of,
)

# Nodes that matter although nothing uses them, besides operations that mutate an operand.
_STATE_SWITCHES: tuple[object, ...] = (
    set_grad_enabled,
    enter_autocast,
    exit_autocast,
    enter_inference_mode,
    exit_inference_mode,
)


GONE = "gone"  # in the meta of a node that is no longer in the graph, but in a module of it


def _shapes() -> ModuleType:
    """The module that knows of dynamic sizes, imported when there are some.

    It brings along sympy, which takes longer to import than all of capture.
    """
    return importlib.import_module("capture.recording.shapes")


def _as_text_means(target: Callable[..., object], args: Sequence[Any]) -> Callable[..., object]:
    """The function that computes, for a negative number to a power, what the text of the graph would not say.

    FX writes an operator between its operands without brackets, and ``-2 ** x`` is minus ``2 ** x``.
    """
    negative = target is operator.pow and isinstance(args[0], (int, float)) and str(args[0]).startswith("-")
    if not negative:
        return target
    return torch.pow if isinstance(args[1].meta["val"], torch.Tensor) else pow


class GraphRecorder:
    """One per translation: one fake mode, one graph, and a shape environment where sizes are dynamic.

    A shape environment is made only then: its first use in a process imports two seconds' worth of torch.
    """

    def __init__(self, *, symbolic: bool) -> None:
        # Each size, stride and offset that varies is a symbol of its own: two that are equal now need not be later.
        self.shape_env = _shapes().ShapeEnv(duck_shape=False) if symbolic else None
        self._deferred = None if self.shape_env is None else _shapes().DeferredConditions(self.shape_env)
        self.mode = Noting(shape_env=self.shape_env, allow_non_fake_inputs=False)
        self.mode.journal.are_of_data = None if self.shape_env is None else _shapes().have_sizes_of_data
        self.fakes = Fakes(self.mode)
        self.inputs: dict[Source, fx.Node] = {}
        self._came: dict[fx.Node, Arrived] = {}
        self.inputs_over: dict[int | None, list[torch.Tensor]] = {}
        self.operations = 0
        self.views_without_history: dict[int | None, list[torch.Tensor]] = {}
        self.lost_histories: dict[int, object] = {}  # views of which torch tells nothing more, and since where
        self.views: set[fx.Node] = set()  # inputs with a history that are views, and were written to
        self.views_known: set[int] = set()  # inputs of which is known whether they are views
        self.arrived: dict[int, tuple[Any, Any]] = {}  # inputs with a history, and the last step of it
        self.readers: set[type] = set()  # functions with a backward of their own that looks at what was kept for it
        self.used_up: set[object] = set()  # steps of autograd's history that a backward in the graph has freed
        self.reentrant: dict[Any, Any] = {}  # last steps of checkpoints that take part in a whole backward only; where
        self.spoilt = 0  # how often fakes were changed by an operation that is not in the graph
        self.regions = Regions()
        self.transforms = 0  # how many transforms of functions are being evaluated, each within the one before
        self._cuts = 0
        self._root = torch.nn.Module()
        self._names: set[str] = set()
        self._last_input: fx.Node | None = None

    @functools.cached_property
    def graph(self) -> fx.Graph:
        """The graph, made when something is to be recorded.

        Most frames compute nothing, and a graph is a cycle of objects, which programs that count what a collection
        finds would meet.
        """
        return fx.Graph()

    @property
    def nodes(self) -> tuple[fx.Node, ...]:
        return tuple(self.graph.nodes) if "graph" in vars(self) else ()

    # -- inputs --------------------------------------------------------------------------------------------------

    def add_input(self, source: Source, example: object) -> fx.Node:
        """A placeholder after all earlier ones, named after the path it is read from."""
        name = self._fresh_name(source.expression())
        with self._insertion_point():
            node = self.graph.placeholder(name)
        _describe(node, example)
        if isinstance(example, torch.Tensor):
            node.meta["history"] = (example.requires_grad, example.grad_fn)
            self._came[node] = Arrived(example)
            self.inputs_over.setdefault(memory_of(example), []).append(example)
        self.inputs[source] = self._last_input = node
        return node

    def numbers(self) -> list[Source]:
        """The sources of the numbers that the graph is given, as they are or in tensors."""
        made = [source.parent for source in self.inputs if isinstance(source, MadeSource)]
        plain = [source for source, node in self.inputs.items() if not isinstance(node.meta["val"], torch.Tensor)]
        return made + plain

    def example(self, source: Source) -> object:
        """The fake for an input, as it comes with the call."""
        node = self.inputs[source]
        value = node.meta["val"]
        came = self._came[node].again(value, self.fakes) if node in self._came else value
        return self.fakes.viewed(came) if node in self.views else came

    def fake_input(self, tensor: torch.Tensor, source: Source, layout: OpenLayout) -> torch.Tensor:
        """The fake tensor for a real one; what is open of its sizes and strides becomes symbols."""
        if has_gradients_of_its_base(tensor):
            return self.fakes.like_its_base(self.fake_input(tensor.detach(), source, layout))
        if not layout:
            return self.fakes.of(tensor)
        unrelated = tensor
        with silenced():
            if is_view(tensor) or tensor.grad is not None:
                # Torch would make symbols for the base, which is no input, and fakes for the gradient, which may be
                # one of its own, and of another shape.
                unrelated = tensor.data.requires_grad_(tensor.requires_grad)
            fake = self.mode.from_tensor(
                unrelated, trace=False, **_shapes().symbolic_arguments(unrelated, source, layout)
            )
        if isinstance(tensor, torch.nn.Parameter):
            fake._is_param = True
        return fake if fake.is_leaf is tensor.is_leaf else self.fakes.with_history(fake)

    def strides_relied_on(self, fake: torch.Tensor, tensor: torch.Tensor) -> Relied:
        """The strides of an input that a call has to have, in the form of ``guards.layouts``."""
        relied: Relied = fake.stride() if self.shape_env is None else _shapes().strides_relied_on(fake, tensor)
        return relied

    def symbolic_number(self, value: float, source: Source) -> torch.SymInt | torch.SymFloat:
        assert self.shape_env is not None
        made: torch.SymInt | torch.SymFloat = _shapes().fresh_symbol(self.shape_env, value, source)
        return made

    def source_of(self, number: torch.SymInt | torch.SymFloat) -> Source | None:
        """The formula by which a number follows from what the frame starts from; None if it does not."""
        source: Source | None = _shapes().source_of(number)
        return source

    def relations(self, location: Location) -> list[Guard]:
        """The guards for what the trace relied on of dynamic sizes."""
        return [] if self.shape_env is None else list(_shapes().relations(self.shape_env, location))

    def fixed_sizes(self) -> int:
        """The number of times that something took what varies for a constant."""
        return 0 if self.shape_env is None else int(_shapes().fixed_sizes(self.shape_env))

    def reader_of(self, size: torch.SymInt) -> Callable[[Inputs], int] | None:
        """A function that computes a size from what the frame starts from; None if it does not follow from that."""
        reader: Callable[[Inputs], int] | None = _shapes().reader_of(size)
        return reader

    @contextlib.contextmanager
    def _insertion_point(self) -> Iterator[None]:
        """A context in which nodes are put behind the last input: all placeholders come before everything else."""
        last = self._last_input
        root = next(iter(self.graph.nodes), None)
        place = self.graph.inserting_after(last) if last is not None else self.graph.inserting_before(root)
        with place:
            yield

    def _fresh_name(self, expression: str) -> str:
        name = re.sub(r"\W+", "_", expression).strip("_").lower() or "input"
        if name[0].isdigit() or keyword.iskeyword(name):
            name = f"_{name}"
        base, count = name, 0
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._names.add(name)
        return name

    # -- operations ----------------------------------------------------------------------------------------------

    def call(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, object], example: object
    ) -> fx.Node:
        """Adds the call of a function."""
        self.operations += 1
        self.mode.journal.count_lists()
        node = self.graph.call_function(_as_text_means(target, args), args, kwargs)
        _describe(node, example)
        return node

    def call_method(self, name: str, args: tuple[object, ...], kwargs: dict[str, object], example: object) -> fx.Node:
        """Adds the call of a method."""
        self.operations += 1
        node = self.graph.call_method(name, args, kwargs)
        _describe(node, example)
        return node

    def select(self, node: fx.Node, index: object, example: object) -> fx.Node:
        """One result of a node that gives several."""
        chosen = self.graph.call_function(operator.getitem, (node, index))
        chosen.meta["work"] = 0
        _describe(chosen, example)
        return chosen

    def mark_last(self, target: Callable[..., object], name: str) -> None:
        """Say something of the last operation of a kind, for who reads the graph."""
        node = next((node for node in reversed(self.nodes) if node.target is target), None)
        if node is not None:
            node.meta[name] = True

    def mark_deferred(self) -> object:
        """A mark of what is taken for granted of data-dependent sizes so far; nothing checks it at run time."""
        return None if self._deferred is None else self._deferred.mark()

    def deferred_since(self, mark: object) -> list[object]:
        return [] if self._deferred is None else list(self._deferred.since(mark))

    def not_negative(self, condition: object) -> object:
        """The expression that a condition wants to be no less than zero; None for other conditions."""
        return _shapes().not_negative(condition)

    def is_data_dependent(self, symbol: object) -> bool:
        """True if a symbol stands for a data-dependent value."""
        return bool(_shapes().is_data_dependent(symbol))

    def switch(self, function: Any, *args: object) -> object:
        """Records a change of the library's state and makes it, so that fake operations see it too."""
        nodes = tuple(arg.node if isinstance(arg, Handle) else arg for arg in args)
        actual = tuple(arg.live if isinstance(arg, Handle) else arg for arg in args)
        node = self.graph.call_function(function, nodes)
        return Handle(node, function(*actual))

    def computes(self) -> bool:
        """True if the graph has more than arithmetic on sizes and switches of state."""
        operations = (node for node in self.nodes if node.op != "placeholder")
        return any(node.target not in _STATE_SWITCHES and not _is_number(node.meta["val"]) for node in operations)

    def changes_an_input(self) -> bool:
        """True if an input is changed, also through a view or ``.data``, or where that cannot be told; or what it is
        for autograd, or how it lies.

        A write through ``.data`` is counted apart from the tensor's; tensors made in inference mode count none.
        """
        tensors = [value for node in self.inputs.values() if isinstance(value := node.meta["val"], torch.Tensor)]
        memory = set(map(memory_of, tensors))
        for node, came in self._came.items():
            if self.gradients_changed(node) or came.changes_layout(node.meta["val"]):
                return True
        return any(tensor.is_inference() for tensor in tensors) or any(
            _updates_statistics(node) or (_is_changed(node) and memory_of(node.meta["val"]) in memory)
            for node in self.nodes
        )

    def had_history(self, node: fx.Node) -> bool:
        """True if an input wanted gradients when it came."""
        return bool(node.meta["history"][0])

    def history_changed(self, node: fx.Node) -> bool:
        """True if an operation that autograd follows was done to an input in place, or torch tells nothing of it."""
        try:
            return bool(node.meta["history"][1] is not node.meta["val"].grad_fn)
        except RuntimeError:  # a view that came without a history and was written to, of what has one since
            return True

    def gradients_changed(self, node: fx.Node) -> bool:
        """True if an input was detached, or told to want gradients or none."""
        return node in self._came and self._came[node].changes_gradients(node.meta["val"])

    def changed_memory(self) -> set[int | None]:
        """The memory of tensors that operations changed, or may have changed where that is not counted."""
        changed: set[int | None] = set()
        for node in self.nodes:
            if _is_changed(node):
                changed.add(memory_of(node.meta["val"]))
            all_of_them = _updates_statistics(node)
            for given in node.all_input_nodes:
                value = given.meta.get("val")
                if isinstance(value, torch.Tensor) and (all_of_them or value.is_inference()):
                    changed.add(memory_of(value))
        return changed

    def memory_before(self, mark: tuple[int, set[fx.Node]]) -> set[int | None]:
        """The memory of the tensors that were there, inputs met since among them."""
        older = [node for node in self.nodes if node in mark[1] or node.op == "placeholder"]
        return {memory_of(value) for node in older if isinstance(value := node.meta.get("val"), torch.Tensor)}

    def mark(self) -> tuple[int, set[fx.Node]]:
        """The state of the graph to go back to by ``forget``."""
        return self.operations, set(self.nodes)

    def forget(self, mark: tuple[int, set[fx.Node]]) -> None:
        """Drop the operations recorded since; inputs met since stay."""
        self.operations, kept = mark
        for node in reversed(self.nodes):
            if node not in kept and node.op != "placeholder":
                self.graph.erase_node(node)

    def differentiated_since(self, mark: tuple[int, set[fx.Node]]) -> bool:
        return any(node.target is torch.autograd.grad and node not in mark[1] for node in self.nodes)

    def close_region(
        self, mark: tuple[int, set[fx.Node]], passed: Sequence[fx.Node], options: Mapping[str, object]
    ) -> None:
        """Marks what was recorded since as a region, which backward runs again instead of keeping its tensors."""
        nodes = [node for node in self.nodes if node not in mark[1] and node.op != "placeholder"]
        self.regions.close(nodes, passed, options)

    def entry(self, outer: fx.Node, example: torch.Tensor) -> fx.Node:
        """A node for a tensor as a transformed function sees it, until ``cut`` makes a module of the function."""
        node = self.graph.call_function(transformed, (outer,))
        _describe(node, example)
        return node

    @contextlib.contextmanager
    def constants_allowed(self) -> Iterator[None]:
        """Derivatives of derivatives bring tensors of torch's own, with data, where nothing makes fakes of them."""
        self.mode.allow_non_fake_inputs = True
        try:
            yield
        finally:
            self.mode.allow_non_fake_inputs = False

    def cut(
        self, mark: tuple[int, set[fx.Node]], entries: Sequence[fx.Node], results: Sequence[fx.Node]
    ) -> tuple[fx.GraphModule, list[fx.Node]]:
        """Make a module of what was recorded since, and say what it takes besides ``entries``.

        Numbers that follow from others outside stay there: the program may go on with them.
        """
        outside = mark[1].union(entries)
        nodes = [node for node in self.nodes if node not in outside and node.op != "placeholder"]
        nodes = _without_numbers_of_others(nodes, entries)
        inside = {*nodes, *entries}
        # In the order of use: a set of nodes would have another order in each process.
        used = [step for node in nodes for step in node.all_input_nodes]
        given = [step for step in dict.fromkeys([*used, *results]) if step not in inside]
        module = module_of(nodes, [*entries, *given], results, f"function_{self._cuts}", self._root)
        for node in reversed([*entries, *nodes]):
            node.meta[GONE] = True
            self.graph.erase_node(node)
        return module, given

    def attach(self, module: fx.GraphModule) -> fx.Node:
        """A node for a module that ``cut`` made; there may be several."""
        name = f"function_{self._cuts}"
        self._cuts += 1
        self._root.add_module(name, module)
        made = self.graph.get_attr(name)
        made.meta["val"] = None
        return made

    def unread(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Tensors that nobody reads, of operators that may raise: a backend may leave out what is no result."""
        live: set[fx.Node] = set()
        waiting = [*outputs, *self.inputs.values()]
        while waiting:
            node = waiting.pop()
            if node not in live:
                live.add(node)
                waiting += node.all_input_nodes
        memory = {memory_of(value) for node in live if isinstance(value := node.meta.get("val"), torch.Tensor)}
        found: list[fx.Node] = []
        for node in self.nodes:
            # Eager would raise there, so the graph must: a result that nobody uses keeps the operator.
            if node not in live and node.meta.get("may_raise"):
                given = [node, *node.all_input_nodes] if node.meta["val"] is None else [node]
                tensors = [each for each in given if isinstance(each.meta.get("val"), torch.Tensor)][:1]
                if isinstance(node.meta["val"], (tuple, list)) and isinstance(node.meta["val"][0], torch.Tensor):
                    tensors = [self.select(node, 0, node.meta["val"][0])]
                found += [each for each in tensors if memory_of(each.meta["val"]) not in memory]
        return [self.graph.call_method("detach", (node,)) for node in found]

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self, outputs: list[fx.Node], name: str) -> tuple[fx.GraphModule, list[Source]]:
        """Closes the graph; returns the module and the sources of the inputs that it really uses."""
        self.mode.journal.closed = True
        root = self._root
        # While something was recorded, regions were marks on nodes: only now is it known what is used of each.
        outputs = self.regions.fold(self.graph, outputs, root)
        self.graph.output(tuple(outputs))
        self._drop_state_switches_without_work()
        sources = []
        for source, node in list(self.inputs.items()):
            if node.users:
                sources.append(source)
            else:
                self.graph.erase_node(node)
        self._check_inputs(sources)
        return graph_module(root, self.graph, name), sources

    def _check_inputs(self, sources: list[Source]) -> None:
        """One placeholder for each source, in their order, before everything else: else no call would fit the graph."""
        placeholders = [node for node in self.nodes if node.op == "placeholder"]
        first = list(self.nodes[: len(placeholders)])
        if placeholders != [self.inputs[source] for source in sources] or placeholders != first:
            paths = ", ".join(source.expression() for source in sources)
            raise InternalError(f"a graph takes {', '.join(map(str, placeholders))}, and would be given {paths}")

    def _drop_state_switches_without_work(self) -> None:
        if self.operations:
            return
        for node in reversed(self.nodes):
            if node.target in _STATE_SWITCHES:
                self.graph.erase_node(node)


def _without_numbers_of_others(nodes: Sequence[fx.Node], entries: Sequence[fx.Node]) -> list[fx.Node]:
    """The nodes, but for numbers that follow from numbers outside: those the program may go on with there."""
    inside = {*nodes, *entries}
    for node in nodes:
        if _is_number(node.meta.get("val")) and inside.isdisjoint(node.all_input_nodes):
            inside.discard(node)
    return [node for node in nodes if node in inside]


def _is_number(example: object) -> bool:
    return isinstance(example, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _describe(node: fx.Node, example: object) -> None:
    """``version`` is the count of the tensor's changes when the node gave it."""
    node.meta["example_value"] = node.meta["val"] = example
    if isinstance(example, torch.Tensor) and not example.is_inference():
        node.meta["version"] = version_of(example)


def _is_changed(node: fx.Node) -> bool:
    """True if a node's tensor was changed since the node gave it."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and "version" in node.meta and version_of(value) != node.meta["version"]


def memory_of(tensor: torch.Tensor) -> int | None:
    """The address of the storage, which tensors over the same memory share; None for layouts without one."""
    return int(cdata_of(tensor.untyped_storage())) if tensor.layout is torch.strided else None


def _updates_statistics(node: fx.Node) -> bool:
    """True for normalisations that change running statistics, which they do not count as a change.

    The sixth argument says whether they do.
    """
    if not _operation(node).endswith(("batch_norm", "instance_norm")):
        return False
    flags = [*node.args[5:6], *(node.kwargs[name] for name in ("training", "use_input_stats") if name in node.kwargs)]
    return any(flag is not False for flag in flags) or (not flags and "instance_norm" in _operation(node))


def _operation(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", ""))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A context in which torch does not log errors of fake operations.

    They are the user's own, and eager reports them: torch's log of them would come first, and twice.
    """
    log = logging.getLogger(FakeTensorMode.__module__)
    log.addFilter(_drop)
    try:
        yield
    finally:
        log.removeFilter(_drop)


def _drop(record: logging.LogRecord) -> bool:
    return False


class Handle:
    """The result of a state switch: its node in the graph, and the live object of the evaluation."""

    __slots__ = ("live", "node")

    def __init__(self, node: fx.Node, live: object) -> None:
        self.node = node
        self.live = live
