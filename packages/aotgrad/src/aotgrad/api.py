"""The public entry points: a graph, a function, a module.

Must not know: stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import fx, nn

from aotgrad.argument_checks import check_compilers, check_function, check_graph, check_module, check_tables
from aotgrad.frontends import CompiledFunction, CompiledModule
from aotgrad.layered import compile_graph
from aotgrad.partitioning.partition import Partition, default_partition
from aotgrad.pipeline import Compiler, LayOut, Options
from aotgrad.torch_versions import OpOverload


def compile(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    forward: Compiler,
    backward: Compiler | None = None,
    inference: Compiler | None = None,
    partition: Partition = default_partition,
    decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
    dynamic: bool = False,
    in_place: bool = False,
    lay_out: LayOut | None = None,
    layers: bool = False,
    describable: bool = False,
) -> Callable[..., Sequence[Any]]:
    """Compiles a torch-level graph whose parameters and buffers are inputs.

    `example_inputs` are real or fake tensors and integers.  The result holds for inputs of the same layout, dtype,
    device, `requires_grad` and aliasing, under the same grad mode: guards are the caller's.

    With `in_place` a graph for inference writes changed inputs itself, by `copy_` into them at its end.

    `lay_out` sees the graph of forward and backward before it is cut, and may change the strides of values inside:
    what compiles forward has to save them so, and what compiles backward finds them so.

    With `layers`, equal layers of a graph whose nodes say in ``meta["example_value"]`` what they give are traced and
    compiled once, and called one after another.

    With `describable` the result keeps what `aotgrad.describe` needs.
    """
    check_graph(gm, example_inputs)
    check_compilers(forward=forward, backward=backward, inference=inference)
    check_tables(partition, decompositions)
    options = Options(forward, backward, inference, partition, decompositions, dynamic, in_place, lay_out)
    options = replace(options, describable=describable)
    return compile_graph(gm, example_inputs, options, layers=layers)


def function(
    fn: Callable[..., Any],
    *,
    forward: Compiler,
    backward: Compiler | None = None,
    inference: Compiler | None = None,
    partition: Partition = default_partition,
    decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
    dynamic: bool = False,
) -> Callable[..., Any]:
    """`fn` compiled for each kind of call it gets: any nest of tensors in and out.

    `fn` must compute with its arguments alone: it runs once per kind of call, and tensors that it closes over become
    constants.
    """
    check_function(fn)
    check_compilers(forward=forward, backward=backward, inference=inference)
    check_tables(partition, decompositions)
    return CompiledFunction(fn, Options(forward, backward, inference, partition, decompositions, dynamic))


def module(
    mod: nn.Module,
    *,
    forward: Compiler,
    backward: Compiler | None = None,
    inference: Compiler | None = None,
    partition: Partition = default_partition,
    decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
    dynamic: bool = False,
) -> nn.Module:
    """A module that computes what `mod` computes, from the same parameters and buffers, compiled."""
    check_module(mod)
    check_compilers(forward=forward, backward=backward, inference=inference)
    check_tables(partition, decompositions)
    return CompiledModule(mod, Options(forward, backward, inference, partition, decompositions, dynamic))


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Compiler,
    bw_compiler: Compiler | None = None,
    partition_fn: Partition = default_partition,
    decompositions: Mapping[OpOverload, Callable[..., Any]] | None = None,
    inference_compiler: Compiler | None = None,
    *,
    dynamic: bool = False,
) -> Callable[..., Any]:
    """`function` under its older spelling."""
    check_function(fn)
    check_compilers(forward=fw_compiler, backward=bw_compiler, inference=inference_compiler)
    check_tables(partition_fn, decompositions)
    options = Options(fw_compiler, bw_compiler, inference_compiler, partition_fn, decompositions, dynamic)
    return CompiledFunction(fn, options)


def aot_module(mod: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
    """`module` under its older spelling; arguments as those of `aot_function`."""
    check_module(mod)
    compiled: CompiledFunction = aot_function(mod, *args, **kwargs)  # type: ignore[assignment]
    return CompiledModule(mod, compiled.options)
