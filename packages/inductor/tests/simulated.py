"""A GPU that is not there: programs made for it, whose kernels Triton's interpreter runs on the CPU's memory.

What is traced, lowered, scheduled and printed is what a GPU would get; only Triton's compiler, the launches and the
libraries of the device are missing.  Triton decides at its import whether it interprets: TRITON_INTERPRET=1.
"""

import os
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy
import pytest
import torch
from compiled import traced
from reference import _Run, run_kernel
from torch._subclasses import FakeTensor

from inductor import triton_launch
from inductor.cache import key_of
from inductor.codegen import triton
from inductor.ir.program import Launch
from inductor.lower import lower
from inductor.options import Options
from inductor.schedule import schedule
from inductor.schedule.layouts import with_layout
from inductor.toolchain import open_cache

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
FILES = TemporaryDirectory(prefix="interpreted")
OPTIONS = Options(cache_dir=FILES.name)
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def interpret(printed, options, arguments):
    """One launch of a kernel on the CPU's tensors, and its sizes."""
    text = triton.HEADER + printed.text
    file = open_cache(options).keep_text(f"{key_of([text])}.py", text)
    sizes = dict(zip(printed.kernel.sizes, arguments[len(printed.kernel.arguments) :], strict=True))
    programs = printed.shape.programs.evaluate(sizes)
    with numpy.errstate(all="ignore"):  # masked lanes divide by zero and the like
        function = getattr(triton_launch.module_of(file), printed.kernel.name)
        numbers = [argument.number for argument in printed.kernel.arguments]
        given = [by_value(value) if number else value for number, value in zip(numbers, arguments, strict=False)]
        function[(programs,)](*given, *arguments[len(given) :], **printed.shape.constants)


def by_value(tensor):
    """A number as the interpreter has it: it would give a kernel Python's own, of which no dtype is known."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    dtype = {torch.float64: tl.float64, torch.float32: tl.float32, torch.int64: tl.int64, torch.int32: tl.int32}
    kind = dtype[tensor.dtype]
    return tl.tensor(TensorHandle(tensor.numpy().reshape(1), kind), kind)


def can_be_interpreted(printed):
    """Whether the interpreter has all that a kernel calls: not so the GPU's mathematics library."""
    return not any(name in printed.text for name in ("libdevice.", "_floats("))


class Simulated(_Run):
    """Runs a GPU's program; kernels that are not or cannot be interpreted are left to the reference."""

    def _launch(self, step: Launch):
        tensors = [self.tensors[name] for name in step.buffers]
        printed = triton.print_kernel(with_layout(replace(step.kernel, device="cuda")))
        extents = [argument.numel.evaluate(self.sizes) for argument in step.kernel.arguments]
        flat = [torch.as_strided(t, (extent,), (1,)) for t, extent in zip(tensors, extents, strict=True)]
        names = [argument.name for argument in step.kernel.arguments]
        by_name = dict(zip(names, flat, strict=True))
        if not INTERPRETED or not can_be_interpreted(printed):
            run_kernel(step.kernel, by_name, self.sizes)
        elif printed.shape.programs.evaluate(self.sizes):
            self._interpret(printed, by_name)

    def _interpret(self, printed, tensors):
        try:
            interpret(printed, OPTIONS, [*tensors.values(), *(self.sizes[symbol] for symbol in printed.kernel.sizes)])
        except Exception as error:
            if "ufunc 'bitwise_" not in str(error):  # it has no truth values of single elements
                raise
            run_kernel(printed.kernel, tensors, self.sizes)

    def _allocate(self, step):
        super()._allocate(replace(step, buffer=replace(step.buffer, device=CPU)))

    def _value(self, value):
        return CPU if isinstance(value, torch.device) else super()._value(value)

    def _call(self, step):
        if any(word in str(step.target) for word in ("cudnn", "_efficient_attention", "_flash_attention")):
            pytest.skip(f"{step.target} needs a GPU")
        super()._call(step)


def simulated(function, inputs, on_host=()):
    """What ``inductor.compile`` makes of a function of tensors on a GPU, to be given the same ones on the CPU."""
    program, constants = program_for_gpu(function, inputs, on_host)
    return lambda *given: Simulated(program, given, constants).run()


def program_for_gpu(function, inputs, on_host=()):
    """The program, and its constants.  The inputs at the places ``on_host`` stay on the CPU, and what is computed from
    them alone."""
    gm, staying = traced(function, *inputs), set()
    places = {node: place for place, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    for node in gm.graph.nodes:
        given = node.all_input_nodes
        if places.get(node) in on_host or node.op == "get_attr" or (given and staying.issuperset(given)):
            staying.add(node)
            continue
        node.args, node.kwargs = moved(node.args), moved(node.kwargs)
        node.meta["val"] = moved(node.meta.get("val"))
    graph = lower(gm, inputs)
    return schedule(graph), graph.constants


def moved(value):
    """The CPU's fake tensors, and its name, as the GPU's: without the GPU's libraries nothing can be traced there."""

    def move(leaf):
        if isinstance(leaf, FakeTensor) and leaf.layout == torch.strided:
            with leaf.fake_mode:
                elements = leaf.untyped_storage().nbytes() // leaf.element_size()
                storage = torch.empty(elements, dtype=leaf.dtype, device=GPU)
                return storage.as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())
        return GPU if leaf == CPU and isinstance(leaf, torch.device) else leaf

    return torch.fx.node.map_aggregate(value, move)
