"""The stages in order: read inputs, trace the joint graph, verify, tidy, partition, verify, compile, wrap.

Must not know: how any stage works.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from aotgrad.backward.autograd_function import Boxed
from aotgrad.backward.old_values import with_old_values
from aotgrad.backward.plan import Graphs, plan_of
from aotgrad.calling.packing import PackedProgram, open_arguments, packed_call, with_wrappings
from aotgrad.calling.wrapper import Call
from aotgrad.errors import DependsOnValues, WrongArguments, is_final, kind
from aotgrad.facts import Facts
from aotgrad.partitioning import passes
from aotgrad.partitioning.input_writes import write_inside
from aotgrad.partitioning.partition import Half, Partition, default_partition, inference
from aotgrad.plans import InferencePlan, MadeOf, TrainingPlan, inference_call, training_call
from aotgrad.recording.recorder import Decompositions, Recorder
from aotgrad.roles import AliasBase, Primal, Size
from aotgrad.tensors.subclasses import is_wrapped
from aotgrad.torch_versions import INSIDES, is_any_autocast_enabled, set_grad_enabled
from aotgrad.tracing.inputs import Signature, read_inputs, with_shared_memory
from aotgrad.tracing.joint import BoundProgram, JointGraph, trace_joint
from aotgrad.verify import verify_half, verify_joint, verify_pair

Compiler = Callable[[fx.GraphModule, list[Any]], Boxed]
LayOut = Callable[[fx.Graph], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of a caller."""

    forward: Compiler
    backward: Compiler | None = None
    inference: Compiler | None = None
    partition: Partition = default_partition
    decompositions: Decompositions | None = None
    dynamic: bool = False
    in_place: bool = False
    lay_out: LayOut | None = None
    insist: Callable[[Signature, Facts], None] | None = None
    """A function that sees the effects of a traced program on its inputs, and may raise."""
    describable: bool = False
    """True to keep the plan on the call, for `stored`."""


def compile_program(
    program: BoundProgram, example_inputs: Sequence[object], options: Options
) -> tuple[Call, Signature]:
    """`program` as compiled graphs behind a plain function of the same arguments."""
    INSIDES.require_essentials()
    with _uncollected():
        call, signature = _compile_any(program, example_inputs, options)
    call.all_or_nothing = True  # type: ignore[attr-defined]
    call.is_final = is_final  # type: ignore[attr-defined]
    return call, signature


def _compile_any(program: BoundProgram, example_inputs: Sequence[object], options: Options) -> tuple[Call, Signature]:
    if any(map(is_wrapped, example_inputs)):
        return _compile_packed(program, example_inputs, options)
    signature = read_inputs(example_inputs, dynamic=options.dynamic)
    try:
        return compile_signature(program, signature, options), signature
    except DependsOnValues:
        if signature.fake_mode.shape_env is not None:
            raise
    signature = read_inputs(example_inputs, dynamic=options.dynamic, symbols=True)
    return compile_signature(program, signature, options), signature


def _compile_packed(program: BoundProgram, args: Sequence[object], options: Options) -> tuple[Call, Signature]:
    """`compile_program` where tensor subclasses are among the arguments."""
    wrappings, flat = open_arguments(args, dynamic=options.dynamic)
    packed = PackedProgram(program, wrappings)
    signature = with_wrappings(read_inputs(flat, dynamic=False), wrappings)
    call = compile_signature(packed, signature, options)
    return packed_call(call, packed, training=torch.is_grad_enabled()), signature


def compile_signature(program: BoundProgram, signature: Signature, options: Options) -> Call:
    """`compile_program` for inputs already read."""
    joint = trace(program, signature, options)
    if options.insist is not None:
        options.insist(signature, joint.facts)
    followed = torch.is_grad_enabled() or joint.followed
    changed = _changed(joint.facts, signature, followed=followed)
    # One of several inputs over the same memory is written: traced once more, with their flat memory as the one input.
    shared = [group for group in signature.alias_groups() if not changed.isdisjoint(group)]
    if shared:
        apart, signature = joint.facts.counts, with_shared_memory(signature, shared, followed=followed)
        joint = trace(program, signature, options)
        joint = replace(joint, facts=replace(joint.facts, counts=apart))
    if not joint.trains:
        half = inference(joint)
        verify_half(half, "the inference graph", (Primal, AliasBase, Size))
        written: frozenset[int] = frozenset()
        if options.in_place:
            half, written = write_inside(half, signature, joint.facts)
        inner = _compiled(options.inference or options.forward, half.module, half.example_inputs)
        has_history = any(getattr(role, "differentiable", False) for role in joint.outputs)
        plan = InferencePlan(
            signature,
            joint.facts,
            written,
            without_history=any(given.requires_grad for given in signature.inputs) and not has_history,
            with_history=joint.followed and not torch.is_grad_enabled(),
            inference_mode=torch.is_inference_mode_enabled(),
            casts=is_any_autocast_enabled(),
        )
        return _describable(inference_call(plan, inner), MadeOf(plan, inner), options)
    pair = with_old_values(joint, options.partition(joint))
    verify_pair(pair)
    compiler = options.backward or options.forward
    compiled = _compiled(options.forward, pair.forward.module, pair.forward.example_inputs)
    graphs = Graphs(lambda: joint, lambda: pair.backward)
    training = TrainingPlan(
        signature,
        joint.facts,
        plan_of(joint, pair, graphs),
        with_history=not torch.is_grad_enabled(),
        inference_mode=torch.is_inference_mode_enabled(),
        casts=is_any_autocast_enabled(),
    )
    call = training_call(training, graphs, compiled, lambda half: compile_half(half, compiler))
    return _describable(call, MadeOf(training, compiled, graphs), options)


def _describable(call: Call, made_of: MadeOf, options: Options) -> Call:
    if options.describable:
        call.made_of = made_of  # type: ignore[attr-defined]
    return call


def _changed(facts: Facts, signature: Signature, *, followed: bool) -> set[int]:
    """The inputs that are written to, or whose changes autograd counts: tensors that it saved of the same memory are
    out of date."""
    changed = set(facts.updates)
    if followed and any(entry.requires_grad for entry in signature.inputs):
        counted = {position for position, _ in facts.counts}
        changed |= {index for index, entry in enumerate(signature.inputs) if entry.position in counted}
    return changed


def trace(program: BoundProgram, signature: Signature, options: Options) -> JointGraph:
    """The verified joint graph; without gradients if nothing can be differentiated."""
    wants_grad = any(entry.requires_grad for entry in signature.inputs)
    training = wants_grad and torch.is_grad_enabled()
    with _without_looking_at_values():
        joint = trace_joint(program, signature, decompositions=options.decompositions or {}, training=training)
        if wants_grad and not training and joint.followed:  # it enables gradients itself
            joint = trace_joint(program, signature, decompositions=options.decompositions or {}, training=True)
    verify_joint(joint)
    for tidy in passes.JOINT_PASSES:
        joint = tidy(joint)
    verify_joint(joint)
    if options.lay_out is not None and joint.trains:
        options.lay_out(joint.graph)
    return joint


def _without_looking_at_values() -> AbstractContextManager[object]:
    """Switches anomaly mode off while tracing: it looks for NaN behind every node, and fake tensors hold no values."""
    return torch.autograd.set_detect_anomaly(False) if torch.is_anomaly_enabled() else nullcontext()


def compile_half(half: Half, compiler: Compiler) -> Boxed:
    # First needed inside autograd, where grad mode is whatever backward was called with.
    with torch.no_grad(), _uncollected():
        return _compiled(compiler, half.module, half.example_inputs)


def _compiled(compiler: Compiler, gm: fx.GraphModule, example_inputs: list[object]) -> Boxed:
    made = compiler(gm, example_inputs)
    if not callable(made):
        name = getattr(compiler, "__qualname__", None) or type(compiler).__qualname__
        raise WrongArguments(
            f"the compiler {name} returned {kind(made)}; it has to return a callable(list) -> list for the graph it "
            "was given"
        )
    return made


@contextmanager
def _uncollected() -> Iterator[None]:
    """Suspends garbage collection: a compilation makes many objects that stay, and beside a library as large as torch
    every search for garbage among them takes a quarter of a second."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def graph_program(gm: fx.GraphModule) -> BoundProgram:
    """Runs a torch-level graph node by node, telling the recorder which node it is at."""
    return _GraphProgram(gm)


class _GraphProgram:
    """A torch-level graph as a program to trace."""

    def __init__(self, gm: fx.GraphModule) -> None:
        self._gm = gm

    def __call__(self, recorder: Recorder, args: Sequence[object]) -> Sequence[Any]:
        returned = _Narrator(self._gm, recorder).run(*args)
        return returned if isinstance(returned, (list, tuple)) else (returned,)


class _Narrator(fx.Interpreter):
    """Interprets a graph and names the current node as the source of what is recorded.

    Contexts that the graph is in when it fails are left, and grad mode is what it was; also those of graphs within it,
    which operators call (a checkpoint's region): inference mode, left after tracing, would bring tracing's modes back.
    """

    def __init__(self, gm: fx.GraphModule, recorder: Recorder, *, within: bool = False) -> None:
        super().__init__(gm)
        self._recorder, self._within = recorder, within
        self._entered: list[tuple[Callable[[Any], Any], Any]] = []

    def run(self, *args: object, **kwargs: object) -> Any:
        mode = torch.is_grad_enabled()
        try:
            return super().run(*args, **kwargs)
        finally:
            for leave, handle in reversed(self._entered):
                leave(handle)
            set_grad_enabled(mode)

    def run_node(self, n: fx.Node) -> Any:
        if not self._within:
            self._recorder.source = n
        result = super().run_node(n)
        if n.target in _CONTEXTS:
            self._entered.append((_CONTEXTS[n.target], result))
        elif n.target in _CONTEXTS.values():
            self._entered.pop()
        return result

    def get_attr(self, target: object, args: object, kwargs: object) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, fx.GraphModule):
            return value
        return lambda *given: _Narrator(value, self._recorder, within=True).run(*given)


_autocast, _grad_mode = torch.amp.autocast_mode, torch.autograd.grad_mode
_CONTEXTS: dict[Any, Callable[[Any], Any]] = {
    _autocast._enter_autocast: _autocast._exit_autocast,
    _grad_mode._enter_inference_mode: _grad_mode._exit_inference_mode,
}
"""The functions that enter a context, each with the one that leaves it again."""
