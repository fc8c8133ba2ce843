"""One function followed through every stage, each in the words of the engine that did it.

Nothing is described here: each stage's text is what the engine itself prints.  The first page of the documentation is
made by this module, so that it cannot say what the tool does not do.
"""

from __future__ import annotations

import inspect
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import aotgrad
import capture
import inductor
from compile_api.explain import as_written
from compile_api.page import readable

# The files that inductor's trace folder has for a graph, and what each shows.
_GENERATED = (
    ("*_graph.txt", "loops, before fusion", "text"),
    ("*_program.txt", "the program, after fusion", "text"),
    ("kernels_*.cpp", "the kernels", "cpp"),
    ("kernels.py", "the kernels", "python"),
    ("wrapper.py", "the wrapper", "python"),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """The text of one stage, as the tool prints it."""

    title: str
    text: str
    language: str = "text"

    def __str__(self) -> str:
        return f"## {self.title}\n\n```{self.language}\n{self.text.rstrip()}\n```\n"


@dataclass(frozen=True, slots=True)
class Walkthrough:
    """All stages of one function; ``print`` it, or take a stage by its title."""

    stages: tuple[Stage, ...]

    def __getitem__(self, title: str) -> Stage:
        for stage in self.stages:
            if stage.title == title:
                return stage
        raise KeyError(f"no stage {title!r}; there are {', '.join(stage.title for stage in self.stages)}")

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages))


def walkthrough(
    function: Callable[..., Any], *, inductor_options: Mapping[str, object] | None = None
) -> Callable[..., Walkthrough]:
    """``walkthrough(f)(*args)`` compiles and runs ``f`` on the arguments and shows what every stage made of it."""
    function = followed(function)

    def run(*args: object, **kwargs: object) -> Walkthrough:
        recorder = _Recorder(inductor_options or {})
        log = capture.Log()
        compiled = capture.optimize(recorder.backend, log=log)(function)
        output = compiled(*args, **kwargs)
        _differentiate(output)
        graphs = [record for record in log.records() if isinstance(record, capture.GraphRecord)]
        before = [
            Stage("The function", textwrap.dedent(inspect.getsource(function)), "python"),
            Stage("Its bytecode", str(capture.Bytecode.from_code(function.__code__))),
        ]
        guards = [Stage("What the graph relies on", "\n".join(dict.fromkeys(graphs[0].guards)))] if graphs else []
        after = [
            Stage("The bytecode that runs instead", str(capture.Bytecode.from_code(entry.code)))
            for entry in capture.translations_of(function.__code__)
            # The same code may have been compiled before, by others: theirs is not shown.
            if entry.owner is compiled.config and entry.code is not None
        ]
        # The graph stands before the guards that it relies on, whatever else was recorded comes behind.
        captured = recorder.stages[:1]
        return Walkthrough((*before, *captured, *guards, *after, *recorder.stages[1:]))

    return run


def followed(function: object) -> Any:
    """The function or ``forward`` that is followed, of a compiled one or not: something that has source and
    bytecode."""
    written = as_written(function)
    if isinstance(written, torch.nn.Module):
        written = written.forward
    if isinstance(written, type) or not hasattr(written, "__code__"):
        what = f"the class {written.__name__}" if isinstance(written, type) else type(written).__name__
        raise TypeError(f"walkthrough takes a function or a module, not {what}")
    return written


class _Recorder:
    """A backend that goes the usual way and keeps what every stage made."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.options = options
        self.stages: list[Stage] = []

    def backend(self, gm: torch.fx.GraphModule, example_inputs: list[object]) -> Callable[..., Any]:
        self.stages.append(Stage("The captured graph", readable(gm), "python"))
        return aotgrad.compile(
            gm,
            example_inputs,
            forward=self._compiler("forward"),
            backward=self._compiler("backward"),
            inference=self._compiler("inference"),
            partition=aotgrad.min_cut_partition,
            decompositions=inductor.decompositions(),
        )

    def _compiler(self, direction: str) -> Callable[[torch.fx.GraphModule, list[Any]], Any]:
        def compile_graph(gm: torch.fx.GraphModule, example_inputs: list[object]) -> Any:
            self.stages.append(Stage(f"The {direction} graph", readable(gm), "python"))
            with tempfile.TemporaryDirectory() as folder:
                compiled = inductor.compile(gm, example_inputs, options={**self.options, "trace": folder})
                self.stages.extend(_generated(direction, Path(folder)))
            return compiled.call

        # It is called while captured code runs, where capture looks at every function: the compiler must be none of
        # them.
        return capture.disable(compile_graph)


def _generated(direction: str, folder: Path) -> list[Stage]:
    # The graph's folder has its name, which counts the graphs of the process: here its direction tells it apart.
    return [
        Stage(
            f"The {direction} graph: {what}",
            path.read_text(encoding="utf-8").replace(path.parent.name, direction),
            language,
        )
        for pattern, what, language in _GENERATED
        for path in sorted(folder.rglob(pattern))
    ]


def _differentiate(output: object) -> None:
    """Runs backward, which is compiled when it is first needed."""
    if isinstance(output, torch.Tensor) and output.requires_grad:
        output.sum().backward()
