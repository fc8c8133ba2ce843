"""Checks of what the entry points were given, with a sentence that says what to do instead.

Must not know: stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn

from aotgrad.errors import WrongArguments, kind
from aotgrad.torch_versions import OpOverload


def check_graph(given: object, example_inputs: object) -> None:
    """Raises where `compile` was given no graph, or not one example for each of its inputs."""
    if not isinstance(given, fx.GraphModule):
        raise WrongArguments(f"aotgrad.compile takes a torch.fx.GraphModule, not {kind(given)}: {_instead(given)}")
    placeholders = given.graph.find_nodes(op="placeholder")
    names = ", ".join(node.name for node in placeholders)
    if not isinstance(example_inputs, Sequence) or isinstance(example_inputs, str | Mapping):
        raise WrongArguments(
            f"example_inputs is {kind(example_inputs)}; give a list with a value for each of ({names})"
        )
    needed = sum(not node.args for node in placeholders)
    if not needed <= len(example_inputs) <= len(placeholders):
        raise WrongArguments(
            f"the graph has {len(placeholders)} inputs ({names}) and was given {len(example_inputs)} example inputs"
        )


def check_function(given: object) -> None:
    """Raises where `function` was given no function of tensors."""
    if is_program(given) or isinstance(given, torch.jit.ScriptModule) or not callable(given):
        raise WrongArguments(f"aotgrad.function takes a function of tensors, not {kind(given)}: {_instead(given)}")


def check_module(given: object) -> None:
    """Raises where `module` was given no module."""
    if not isinstance(given, nn.Module) or isinstance(given, torch.jit.ScriptModule):
        raise WrongArguments(f"aotgrad.module takes a torch.nn.Module, not {kind(given)}: {_instead(given)}")


def check_compilers(**compilers: Callable[..., Any] | None) -> None:
    """Raises where a compiler cannot be called; those but `forward` may be missing."""
    for name, compiler in compilers.items():
        if not callable(compiler) and (name == "forward" or compiler is not None):
            raise WrongArguments(
                f"{name} is {kind(compiler)}; give a compiler (gm, example_inputs) -> callable(list) -> list, "
                "aotgrad.run_eagerly for one"
            )


def check_tables(partition: object, decompositions: object) -> None:
    """Raises where the one cannot cut a graph, or the other is no table of rules for operators."""
    if not callable(partition):
        raise WrongArguments(
            f"partition is {kind(partition)}; give a function of the joint graph, "
            "aotgrad.default_partition or aotgrad.min_cut_partition"
        )
    if decompositions is None:
        return
    if not isinstance(decompositions, Mapping):
        raise WrongArguments(
            f"decompositions is {kind(decompositions)}; give a table of rules by operator, "
            "aotgrad.decompositions.core() for one"
        )
    # A packet as a key would match no node, and the table would silently do nothing.
    for operator, rule in decompositions.items():
        if not isinstance(operator, OpOverload):
            raise WrongArguments(
                f"decompositions has a rule for {operator}, {kind(operator)}; name one form of an operator, "
                "torch.ops.aten.sin.default for one"
            )
        if not callable(rule):
            raise WrongArguments(f"the rule for {operator} in decompositions is {kind(rule)}; give a function")


def is_program(given: object) -> bool:
    """True for a program of torch.export, known by its class's name: nobody else has to import that."""
    kinds = type(given).__mro__
    return any(cls.__name__ == "ExportedProgram" and cls.__module__.startswith("torch.export") for cls in kinds)


def _instead(given: object) -> str:
    """The advice for an argument of the wrong kind."""
    if is_program(given):
        return "give program.module() to aotgrad.module"
    if isinstance(given, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return "TorchScript runs by itself; give what it was made of"
    if isinstance(given, fx.Graph):
        return "give torch.fx.GraphModule(module, graph) to aotgrad.compile"
    if isinstance(given, nn.Module):
        return "aotgrad.module compiles a module, with its parameters"
    if callable(given):
        return "aotgrad.function compiles a function"
    return "graphs come from torch.fx.symbolic_trace and capture; functions and modules are taken as they are"
