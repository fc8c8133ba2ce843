"""What a compiler person tries in the first hour with the engines alone, with nothing but installed wheels.

Each stumble ends in a right result or in a sentence that says what to do.  ``nox -s newcomer`` runs it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

import aotgrad
import capture
import compile_api
import cudagraphs
import inductor

X, W = torch.randn(4, 3), torch.randn(3)
LINEAR = nn.Linear(3, 3)


def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x * w, -1).relu()


def graph() -> fx.GraphModule:
    return make_fx(function)(X, W)


def program() -> Any:
    return torch.export.export(nn.Linear(3, 3), (X,))


def compiled() -> Any:
    return inductor.compile(graph(), [X, W])


def differentiated(*examples: Any) -> Any:
    return aotgrad.compile(fx.symbolic_trace(function), list(examples), forward=aotgrad.run_eagerly)


STUMBLES: dict[str, tuple[Callable[[], Any], str]] = {
    "inductor: too few inputs": (lambda: compiled()(X), "takes 2 inputs and got 1"),
    "inductor: too many inputs": (lambda: compiled()(X, W, W), "takes 2 inputs and got 3"),
    "inductor: a list of inputs": (lambda: compiled()([X, W]), "or the list to `.call`"),
    "inductor: None for a tensor": (lambda: compiled()(X, None), "is None; give a tensor"),
    "inductor: a number for a tensor": (lambda: compiled()(X, 2), "is the int 2; give a tensor"),
    "inductor: by name": (lambda: compiled()(X, w=W), "by position, and got w by name"),
    "inductor: another size": (lambda: compiled()(X[:2], W), "this graph was compiled for"),
    "inductor: a short list": (lambda: compiled().call([X]), "takes a list of 2 inputs and got a list of 1"),
    "inductor: a gradient is wanted": (lambda: compiled()(X, nn.Parameter(W)), "computes no gradients"),
    "inductor: a function": (lambda: inductor.compile(function, [X, W]), "make_fx(f)(*example_inputs)"),
    "inductor: a module": (lambda: inductor.compile(LINEAR, [X]), "torch.export.export(module"),
    "inductor: a graph alone": (lambda: inductor.compile(graph().graph, [X]), "GraphModule(module, graph)"),
    "inductor: too few examples": (lambda: inductor.compile(graph(), [X]), "was given 1 example inputs"),
    "inductor: no examples": (lambda: inductor.compile(graph(), None), "give a list with one value for each"),
    "inductor: an example of another kind": (lambda: inductor.compile(graph(), [X, 3.0]), "was traced with a tensor"),
    "inductor: an example elsewhere": (lambda: inductor.compile(graph(), [X, W.to("meta")]), "trace it again"),
    "inductor: a misspelt option": (lambda: inductor.compile(graph(), [X, W], options={"trac": 1}), "unknown option"),
    "inductor: an option of another type": (
        lambda: inductor.compile(graph(), [X, W], options={"max_autotune": "yes"}), "is True or False, not 'yes'",
    ),
    "aotgrad: a function": (
        lambda: aotgrad.compile(function, [X, W], forward=aotgrad.run_eagerly), "aotgrad.function compiles",
    ),
    "aotgrad: a module": (lambda: aotgrad.compile(LINEAR, [X], forward=aotgrad.run_eagerly), "aotgrad.module compiles"),
    "aotgrad: a program": (lambda: aotgrad.module(program(), forward=aotgrad.run_eagerly), "give program.module()"),
    "aotgrad: too few examples": (lambda: differentiated(X), "was given 1 example inputs"),
    "aotgrad: too few inputs": (lambda: differentiated(X, W)(X), "missing 1 required positional argument"),
    "aotgrad: the name of a partition": (
        lambda: aotgrad.function(function, forward=aotgrad.run_eagerly, partition="mincut"), "min_cut_partition",
    ),
    "cudagraphs: no function": (lambda: cudagraphs.capture(3, [X]), "takes a callable of tensors"),
    "cudagraphs: one tensor": (lambda: cudagraphs.capture(function, X), "give a list with a value for each"),
    "cudagraphs: too many inputs": (lambda: cudagraphs.capture(LINEAR, [X])(X, X), "is called with 2"),
    "cudagraphs: options as a mapping": (
        lambda: cudagraphs.capture(LINEAR, [X], options={"warmups": 1}), "give cudagraphs.Options(",
    ),
    "capture: options as a mapping": (lambda: capture.optimize(options={"nopython": True}), "give capture.Options("),
    "capture: a backend that returns too little": (
        lambda: capture.optimize(lambda gm, inputs: lambda *args: [])(function)(X, W), "has to return the tensor of",
    ),
    "capture: without parentheses": (lambda: capture.optimize(function)(X, W), "optimize(backend)(f)(*args)"),
    "capture: a program": (lambda: capture.optimize()(program()), "give program.module()"),
    "capture: export at once": (lambda: capture.export(function, X, W), "export(f)(*args)"),
    "backends: ipex": (lambda: compile_api.compile(function, backend="ipex"), "older than compile-api takes"),
    "backends: nvfuser": (lambda: compile_api.compile(function, backend="nvfuser"), "older than compile-api takes"),
}  # fmt: skip


def a_program_of_export() -> None:
    exported = program()
    with torch.no_grad():
        torch.testing.assert_close(inductor.compile(exported)(X), exported.module()(X))


def a_graph_of_symbolic_trace() -> None:
    with torch.no_grad():
        torch.testing.assert_close(inductor.compile(fx.symbolic_trace(function), [X, W])(X, W)[0], function(X, W))


def a_graph_of_modules() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    with torch.no_grad():
        torch.testing.assert_close(inductor.compile(fx.symbolic_trace(model), [X])(X)[0], model(X))


def a_graph_module_compiled_whole() -> None:
    model = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    torch.testing.assert_close(compile_api.compile(model, backend="eager")(X), model(X))


RIGHT = (a_program_of_export, a_graph_of_symbolic_trace, a_graph_of_modules, a_graph_module_compiled_whole)


def answer(stumble: Callable[[], Any]) -> str:
    """What the stumble is told; nothing where it is not stopped."""
    try:
        stumble()
    except Exception as error:  # noqa: BLE001 - whatever comes is what a person would read
        return f"{type(error).__name__}: {error}"
    return "(no error)"


def main() -> int:
    unhelpful = 0
    warnings.simplefilter("ignore", DeprecationWarning)
    for name, (stumble, sentence) in STUMBLES.items():
        told = answer(stumble)
        helps = sentence in told
        unhelpful += not helps
        print(f"{'ok ' if helps else 'NO '} {name}: {told}", flush=True)
    for check in RIGHT:
        told = answer(check)
        unhelpful += told != "(no error)"
        print(f"{'ok ' if told == '(no error)' else 'NO '} {check.__name__.replace('_', ' ')}: {told}", flush=True)
    return 1 if unhelpful else 0


if __name__ == "__main__":
    sys.exit(main())
