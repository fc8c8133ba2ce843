"""The trace folder: the result of every stage as files, with a ``run.py`` that runs the compiled graph on its own."""

from __future__ import annotations

import io
from pathlib import Path

import torch

from inductor import pipeline
from inductor.compiled import CompiledGraph
from inductor.complaints import complain
from inductor.ir.program import Buffer

_RUN = '''\
"""Builds the kernels of this folder and calls the wrapper with random inputs of the sizes it was compiled for."""

import pathlib
import sys
import time

{imports}
from inductor.assemble import load_folder
from inductor.codegen.plans import Plan, PlannedKernel, PlannedStretch

folder = pathlib.Path(__file__).parent
globals().update(load_folder(folder, {plans!r}))
globals().update(torch.load(folder / "constants.pt"))
exec(compile((folder / "wrapper.py").read_text(encoding="utf-8"), str(folder / "wrapper.py"), "exec"))


def made(sizes, strides, dtype, device):
    """A random tensor; memory that strides leave out is there too."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if 0 not in sizes else 0
    flat = torch.randn(extent, device=device)
    flat = flat.to(dtype) if dtype.is_floating_point else (flat.abs() < 1).to(dtype)
    return flat.as_strided(sizes, strides)


def inputs():
    return [
{inputs}
    ]


if __name__ == "__main__":
    call(inputs())
    start = time.perf_counter()
    outputs = call(inputs())
    print(f"{{1e6 * (time.perf_counter() - start):.0f}} us")
    for output in outputs:
        print(tuple(output.shape) if isinstance(output, torch.Tensor) else output)
'''


def folder(option: bool | str, name: str) -> Path:
    """A new folder for this graph."""
    base = Path("inductor_trace" if option is True else str(option))
    for number in range(10_000):
        path = base / (name if number == 0 else f"{name}_{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{base} holds too many traces of {name}")


def run(work: pipeline.Work, option: bool | str) -> CompiledGraph:
    """Runs the pipeline and writes each stage's texts; a file that cannot be written is reported once and does not keep
    the graph from being compiled."""
    try:
        pages = _Pages(folder(option, work.name))
    except (OSError, UnicodeError) as error:
        _warn(error)
        return pipeline.run(work)
    # ``run.py`` is written from the work of the last stage, which ``pipeline.run`` does not return.
    last = work

    def observe(stage: pipeline.Stage, after: pipeline.Work) -> None:
        nonlocal last
        last = after
        number = [other.name for other in pipeline.STAGES].index(stage.name)
        for file, text in stage.texts(after).items():
            pages.write(file if stage.sources else f"{number}_{file}", text)

    compiled = pipeline.run(work, observe)
    _write_run(last, pages)
    pages.write("report.txt", f"{compiled.report}\n")
    return compiled


class _Pages:
    """The files of a trace; after one that could not be written there are no more."""

    def __init__(self, path: Path) -> None:
        self.path, self.broken = path, False

    def write(self, name: str, content: str | bytes) -> None:
        if self.broken:
            return
        data = content.encode() if isinstance(content, str) else content
        try:
            (self.path / name).write_bytes(data)
        except OSError as error:
            self.broken = True
            _warn(error)


def _warn(error: OSError | UnicodeError) -> None:
    why = f" to {error.filename}: {error.strerror}" if isinstance(error, OSError) else f": {error}"
    complain(f"the trace cannot be written{why}", stacklevel=2)


def _write_run(work: pipeline.Work, pages: _Pages) -> None:
    assert work.program is not None
    assert work.wrapper is not None
    assert work.graph is not None
    constants = io.BytesIO()
    torch.save(dict(work.graph.constants), constants)
    pages.write("constants.pt", constants.getvalue())
    lines = [
        f"        {_made(given, example)},"
        for given, example in zip(work.program.inputs, work.example_inputs, strict=True)
    ]
    text = _RUN.format(imports="\n".join(work.wrapper.imports), inputs="\n".join(lines), plans=dict(work.wrapper.plans))
    pages.write("run.py", text)


def _made(given: object, example: object) -> str:
    """The expression in ``run.py`` that makes an input."""
    if isinstance(given, Buffer) and isinstance(example, torch.Tensor):
        sizes, strides = tuple(int(size) for size in example.shape), tuple(int(stride) for stride in example.stride())
        return f"made({sizes}, {strides}, {given.dtype}, {str(given.device)!r})"
    return repr(int(example)) if isinstance(example, int | torch.SymInt) else "None"
