"""The wrapper: a program as flat Python, one function with a line per step; everything it calls is bound before the
first call.

What is printed is what runs, so a trace of it can be read, and stepped through.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor.codegen.called import DIRECT, IMPORTS, NAMESPACE, raise_outside
from inductor.codegen.cpp import PrintedKernel
from inductor.codegen.doubles import double_text
from inductor.codegen.expressions import IndexStyle, Precedence, index_text, infix
from inductor.codegen.plans import Plan, plan_of
from inductor.codegen.printer import Lines, Names
from inductor.codegen.spelling import as_python, object_name, target_name
from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Apply, Const, IndexValue
from inductor.ir.index import Index
from inductor.ir.program import WIDEST, Allocate, Bind, Buffer, Call, Free, Launch, Program, Ref, Run, View
from inductor.torch_versions import (
    OpOverload,
    cuda_getCurrentRawStream,
    cuda_getDevice,
    schema_of,
    set_grad_enabled,
)

INDEX_STYLE = IndexStyle(
    divide=infix("//", Precedence.MULTIPLY),
    modulo=infix("%", Precedence.MULTIPLY),
    floor_divide=infix("//", Precedence.MULTIPLY),
    floor_modulo=infix("%", Precedence.MULTIPLY),
)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """The function's source and the objects that its names stand for.  ``imports`` are the same as Python lines, for
    running the source on its own; kernels and constants are not among them.  ``plans`` are those of the runs."""

    source: str
    namespace: dict[str, Any]
    imports: tuple[str, ...]
    plans: Mapping[str, Plan]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels that the function calls: those on the CPU through ``run``, which makes a function of a plan; those on
    GPUs through ``launchers``."""

    printed: Mapping[str, PrintedKernel]
    run: Callable[[str, Plan], Callable[..., bool]]
    launchers: Mapping[str, Callable[..., None]]


def print_wrapper(
    program: Program, kernels: Kernels, constants: Mapping[str, torch.Tensor], check_inputs: bool = True
) -> Wrapper:
    """The wrapper of a program."""
    return _WrapperPrinter(program, kernels, constants, check_inputs).print()


def _touched_by_kernels(program: Program) -> tuple[set[str], set[str]]:
    """The buffers that kernels read or write, and those they write."""
    launches = [step for step in program.steps if isinstance(step, Launch)]
    touched = {name for step in launches for name in step.buffers}
    written = {
        name
        for step in launches
        for name, argument in zip(step.buffers, step.kernel.arguments, strict=True)
        if argument.role != "in"
    }
    # A view may be what a kernel reads: its base has to lie as expected, too.
    touched |= {step.base for step in program.steps if isinstance(step, View)}
    for step in reversed(program.steps):  # what is written where it lies is read there
        if isinstance(step, Allocate) and step.reuse is not None and step.buffer.name in touched:
            touched.add(step.reuse)
    return touched, written


class _WrapperPrinter:
    """One program being printed."""

    def __init__(
        self, program: Program, kernels: Kernels, constants: Mapping[str, torch.Tensor], check_inputs: bool
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.plans: dict[str, Plan] = {}
        self.check_inputs = check_inputs
        self.lines = Lines()
        self.namespace: dict[str, Any] = dict(NAMESPACE)
        self.imports = list(IMPORTS)
        self.names = Names(
            set(self.namespace)
            | set(keyword.kwlist)
            | {"inputs", "call", "raise_outside"}
            | {"stream", "stream_of", "current_gpu", "on_gpu", "scratch", "at"}
        )
        self.local: dict[str, str] = {}
        self.known: dict[str, Buffer] = {}
        self.windows: set[str] = set()  # buffers that are views of memory they took over
        self.scratch = dict(program.scratch.places) if program.scratch is not None else {}
        self.late = self._binds(late=True)
        self.given = {given.name for given in program.inputs if isinstance(given, Buffer)}  # and what is a view of them
        self.seen = _seen(program)
        self.has_calls = any(isinstance(step, Call) for step in program.steps)
        self.constants = constants
        self.devices = program.launches()
        gpus = {device for device in self.devices.values() if device.type == "cuda"}
        self.only_gpu = next(iter(gpus)) if len(gpus) == 1 else None
        self.known_sizes = {step.symbol.name for step in program.steps if isinstance(step, Bind)}
        self.known_sizes |= {
            step.number.name for step in program.steps if isinstance(step, Call) and step.number is not None
        }
        self.read_by_kernels, self.written_by_kernels = _touched_by_kernels(program)

    def print(self) -> Wrapper:
        for name, tensor in self.constants.items():
            self.namespace[self._local(name)] = tensor
        for buffer in self.program.constants:
            self.known[buffer.name] = buffer
        if any(printed.kernel.cpu.checked for printed in self.kernels.printed.values()):
            self.namespace.update(raise_outside=raise_outside)
            self.imports.append("from inductor.codegen.called import raise_outside")
        with self.lines.block("def call(inputs):"):
            if self.only_gpu is not None:
                self._enter(self.only_gpu)
            if not self.has_calls:
                self._body()
            else:  # library calls must not record a graph for autograd
                self.lines.line("grad_mode = torch.is_grad_enabled()")
                self._bind_inside("set_grad_enabled", set_grad_enabled, "_set_grad_enabled")
                self.lines.line("set_grad_enabled(False)")
                with self.lines.block("try:"):
                    self._body()
                with self.lines.block("finally:"):
                    self.lines.line("set_grad_enabled(grad_mode)")
        return Wrapper(str(self.lines), self.namespace, tuple(self.imports), self.plans)

    def _enter(self, device: torch.device) -> None:
        """Makes the kernels' device the current one: they are launched on its current stream."""
        self._bind_gpu()
        # The function calls itself on the other device: on the usual one this costs a comparison.
        with self.lines.block(f"if current_gpu() != {device.index or 0}:"):
            self.lines.line(f"with on_gpu({device.index or 0}):")
            self.lines.line("    return call(inputs)")
        self.lines.line(f"stream = stream_of({device.index or 0})")

    def _bind_gpu(self) -> None:
        if "on_gpu" in self.namespace:
            return
        # A torch without CUDA prints programs all the same.
        self._bind_inside("current_gpu", cuda_getDevice, "_cuda_getDevice")
        self._bind_inside("stream_of", cuda_getCurrentRawStream, "_cuda_getCurrentRawStream")
        self.namespace["on_gpu"] = torch.cuda.device
        self.imports.append("from torch.cuda import device as on_gpu")

    def _bind_inside(self, name: str, function: object, spelling: str) -> None:
        self.namespace[name] = function
        self.imports.append(f"{name} = torch._C.{spelling}")

    def _body(self) -> None:
        self._inputs()
        if self.program.scratch is not None:
            dtype, device = self._dtype(torch.uint8), self._bound("cpu", torch.device("cpu"))
            size = self.program.scratch.bytes
            self.lines.line(f"scratch = empty_strided(({size},), (1,), dtype={dtype}, device={device})")
            self.lines.line("at = scratch.data_ptr()")
        for step in self.program.items:
            _STEPS[type(step)](self, step)
        outputs = [self._argument(output) for output in self.program.outputs]
        self.lines.line(f"return ({', '.join(outputs)}{',' if len(outputs) == 1 else ''})")

    # -- names --------------------------------------------------------------------------------------------------------

    def _local(self, name: str) -> str:
        """The Python name of a buffer or symbol."""
        if name not in self.local:
            plain = name if name.isidentifier() else "value"
            free = plain not in self.names
            self.local[name] = self.names.reserve(plain) if free else self.names.fresh(f"{plain}_")
        return self.local[name]

    def _bound(self, prefix: str, value: object, text: str | None = None) -> str:
        """The name of an object that the function uses; ``text`` is how Python writes it where that does not follow
        from the object."""
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = self.names.fresh(prefix) if prefix in self.names else self.names.reserve(prefix)
        self.namespace[name] = value
        if (text := text or as_python(value)) is not None:
            self.imports.append(f"{name} = {text}")
        return name

    def _size(self, name: str) -> str:
        if name not in self.known_sizes:
            raise UnsupportedGraph(f"a size that no input tells: {name}; give the graph that number as an input")
        return self._local(name)

    def _index(self, index: Index) -> str:
        names = {symbol: self._size(symbol.name) for symbol in index.symbols}
        return str(index_text(index, INDEX_STYLE, names))

    def _tuple(self, indices: Sequence[Index]) -> str:
        return f"({', '.join(self._index(index) for index in indices)}{',' if len(indices) == 1 else ''})"

    def _dtype(self, dtype: torch.dtype) -> str:
        return self._bound(str(dtype).removeprefix("torch."), dtype)

    # -- inputs and outputs -------------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        inputs = self.program.inputs
        if not inputs:
            return
        names = [
            self._local(f"input{position}" if given is None else given.name) for position, given in enumerate(inputs)
        ]
        # Unpacking is the test of how many there are; only a wrong call pays for finding out what is wrong.
        self.lines.line(f"try: {', '.join(names)}{',' if len(names) == 1 else ''} = inputs; inputs.clear()")
        call = f"check_list(inputs, {self.program.name!r}, {len(names)})"
        self.lines.line(f"except (AttributeError, TypeError, ValueError): {call}")
        for bind in self._binds(late=False):
            self._bind(bind)
        for given in inputs:
            if isinstance(given, Buffer):
                self.known[given.name] = given
                if self.check_inputs:
                    self._check(given)
                if given.name in self.read_by_kernels:
                    self._read_as_it_is(given)

    def _read_as_it_is(self, given: Buffer) -> None:
        """Handles inputs that torch negates lazily or that have no memory, as kernels see memory alone; where inputs
        are unchecked, the caller vouches for contiguous ones."""
        name = self._local(given.name)
        marks = ["is_neg", "_is_zerotensor"] if self.check_inputs else ["is_neg"] if _may_be_negated(given) else []
        if marks:
            made = "refuse_marked" if given.name in self.written_by_kernels else "plain"
            self.lines.line(f"if {' or '.join(f'{name}.{mark}()' for mark in marks)}: {name} = {made}({name})")

    def _binds(self, late: bool) -> list[Bind]:
        """The sizes of inputs, or with ``late`` those that are known once a call has returned."""
        steps = self.program.steps
        returned = {output.name for step in steps if isinstance(step, Call) for output in step.outputs if output}
        return [step for step in steps if isinstance(step, Bind) and (step.source in returned) == late]

    def _bind(self, step: Bind) -> None:
        source = self._local(step.source)
        symbol = self._local(step.symbol.name)
        if step.what == "bits":
            self.lines.line(f"{symbol} = bits_of({source})")
        elif step.dim is None:
            # Kernels take 64 bits: what is more would be cut off.  Who has the graph runs it as it is then, and does
            # not come here; what was loaded by its key has no graph.
            if step.symbol in self.program.inputs:
                self.lines.line(f"if not -{WIDEST} <= {symbol} <= {WIDEST}:")
                self.lines.line(f"    refuse_wide({symbol})")
            # An integer input is unpacked under its symbol's name; a number that a call returned has one of its own.
            if symbol != source and step.symbol not in self.program.inputs:
                self.lines.line(f"{symbol} = {source}")
        else:
            self.lines.line(f"{symbol} = {source}.{'size' if step.what == 'size' else 'stride'}({step.dim})")

    def _check(self, given: Buffer) -> None:
        name, sizes, strides = self._local(given.name), self._tuple(given.sizes), self._tuple(given.strides)
        dtype, device = self._dtype(given.dtype), given.device.type
        tests = [f"{name}.shape != {sizes}", f"{name}.stride() != {strides}", f"{name}.dtype is not {dtype}"]
        # Kernels would read addresses of another device.  What libraries read is theirs to judge: the state of random
        # numbers that attention on GPUs leaves for backward lies on the CPU, though its fake does not say so.
        if given.name in self.read_by_kernels and device in ("cpu", "cuda"):
            tests.append(f"not {name}.is_{device}")
        else:
            device = ""
        self.lines.line(f"if {' or '.join(tests)}:")
        self.lines.line(f"    check_input({given.name!r}, {name}, {sizes}, {strides}, {dtype}, {device!r})")

    # -- steps --------------------------------------------------------------------------------------------------------

    def _ignore(self, step: Bind) -> None:
        """Sizes are bound where their source appears: at the top, or behind the call that returns it."""

    def _allocate(self, step: Allocate) -> None:
        buffer = step.buffer
        self.known[buffer.name] = buffer
        if buffer.name in self.scratch:
            return
        name = self._local(buffer.name)
        if step.reuse is None:
            device = self._bound(str(buffer.device).replace(":", ""), buffer.device)
            self.lines.line(
                f"{name} = empty_strided({self._tuple(buffer.sizes)}, {self._tuple(buffer.strides)}, "
                f"dtype={self._dtype(buffer.dtype)}, device={device})"
            )
            return
        self._reuse(self.known[step.reuse], buffer)

    def _reuse(self, old: Buffer, buffer: Buffer) -> None:
        """Names the memory of a dead buffer anew.  A view of it is the fastest way, but results, and tensors that
        results are views of, must not be views of anything themselves."""
        name, dead = self._local(buffer.name), self._local(old.name)
        seen = buffer.name in self.seen
        # The same tensor object serves where nothing about it changes.
        alike = (old.dtype, old.sizes, old.strides) == (buffer.dtype, buffer.sizes, buffer.strides)
        shape = f"{self._tuple(buffer.sizes)}, {self._tuple(buffer.strides)}"
        if alike and not (seen and old.name in self.windows):
            self.lines.line(f"{name} = {dead}")
            if old.name in self.windows:
                self.windows.add(buffer.name)
        elif old.dtype == buffer.dtype and not seen:
            self.lines.line(f"{name} = {dead}.as_strided({shape})")
            self.windows.add(buffer.name)
        else:
            self.lines.line(f"{name} = reinterpret({dead}, {shape}, {self._dtype(buffer.dtype)})")

    def _view(self, step: View) -> None:
        buffer, base = step.buffer, self._local(step.base)
        self.known[buffer.name] = buffer
        offset = f"{base}.storage_offset()"
        if step.offset.terms:
            offset += f" + {self._index(step.offset)}"
        shape = f"{self._tuple(buffer.sizes)}, {self._tuple(buffer.strides)}"
        line = f"{self._local(buffer.name)} = {base}.as_strided({shape}, {offset})"
        if step.base in self.given:
            self.given.add(buffer.name)
        if step.own:
            dtype = self._dtype(buffer.dtype)
            self.lines.line(f"{self._local(buffer.name)} = reinterpret({base}, {shape}, {dtype}, {offset})")
        elif not self.has_calls or buffer.name in self.given or buffer.name not in self.seen:
            self.lines.line(line)
        else:  # what became a view while autograd was off may not be written to beside what needs a gradient
            self.lines.lines("set_grad_enabled(grad_mode)", line, "set_grad_enabled(False)")

    def _run(self, run: Run) -> None:
        plan, launches = plan_of(run, self.kernels.printed), run.launches
        first, more = launches[0].kernel.name, len(launches) - 1
        name = f"{first}_and_{more}_more" if more else first
        function = self._bound(name, self.kernels.run(name, plan))
        self.plans[function] = plan
        arguments = [self._address(buffer) for buffer in run.buffers]
        arguments += [self._size(size) for size in run.sizes]
        text = f"{function}({', '.join([*arguments, self._threads(run)])})"
        checked = [launch.kernel for launch in launches if launch.kernel.cpu.checked]
        if not checked:
            self.lines.line(text)
            return
        # Kernels cannot raise: they return whether a position was outside.
        with self.lines.block(f"if {text}:"):
            self.lines.line(f"raise_outside({', '.join(checked[-1].origins)!r})")

    def _threads(self, run: Run) -> str:
        """The number of threads that take part in a run, or the expression that decides it."""
        if not run.threads:
            return "1"
        known = run.work.as_int() is not None
        return "threads()" if known else f"threads() if {self._index(run.work)} >= {run.enough} else 1"

    def _address(self, name: str) -> str:
        return f"at + {self.scratch[name]}" if name in self.scratch else f"{self._local(name)}.data_ptr()"

    def _launch(self, step: Launch) -> None:
        kernel = step.kernel
        arguments = [self._address(name) for name in step.buffers]
        arguments += [self._size(size.name) for size in kernel.sizes]
        launcher = self._bound(kernel.name, self.kernels.launchers[kernel.name])
        self._launch_on_gpu(launcher, arguments, self.devices[kernel.name].index or 0)

    def _launch_on_gpu(self, launcher: str, arguments: Sequence[str], device: int) -> None:
        if self.only_gpu is not None:
            self.lines.line(f"{launcher}({', '.join(['stream', *arguments])})")
            return
        # Kernels on several devices: each is launched on its own device's stream.
        self._bind_gpu()
        with self.lines.block(f"with on_gpu({device}):"):
            self.lines.line(f"{launcher}({', '.join([f'stream_of({device})', *arguments])})")

    def _call(self, step: Call) -> None:
        target = self._target(step.target)
        arguments = [self._argument(argument) for argument in step.args]
        arguments += [f"{name}={self._argument(value)}" for name, value in step.kwargs]
        # With an out-variant the operator writes its results itself; without one they are copied.
        into = [self._local(name) for name in step.into]
        places = [argument.name for argument in schema_of(step.target).arguments if argument.is_out] if into else []
        if places:
            arguments += [f"{place}={name}" for place, name in zip(places, into, strict=True)]
        text = f"{target}({', '.join(arguments)})"
        kinds = [result.type.kind() for result in schema_of(step.target).returns]
        lists = "ListType" in kinds
        if lists and len(kinds) > 1:  # among several results, as fused optimizers have them
            text = f"flattened({text})"
        reason = f"  # {step.reason}" if step.reason else ""
        if into and not places:
            results = self._unpack(text, [self.names.fresh("result") for _ in into], lists, reason)
            for name, result in zip(into, results, strict=True):
                self.lines.line(f"{name}.copy_({result})")
            return
        if step.number is not None:
            self.lines.line(f"{self._local(step.number.name)} = {text}{reason}")
            return
        names = ["_" if output is None else self._local(output.name) for output in step.outputs]
        if not names or into:
            self.lines.line(text + reason)
            return
        self._unpack(text, names, lists, reason)
        # Sizes that depend on values are known from here on.
        for bind in self.late:
            if bind.source in names:
                self._bind(bind)
        for output in step.outputs:
            if output is not None:
                self._receive(output)

    def _target(self, target: OpOverload) -> str:
        """The object to call: for operators behind Python functions that function itself, if the operator names it."""
        if (direct := getattr(target, "direct", None)) is not None:
            return self._bound(target_name(target), direct, f"{as_python(target)}.direct")
        return self._bound(target_name(target), DIRECT.get(target, target))

    def _receive(self, output: Buffer) -> None:
        """Checks a library's result that kernels read: its layout may differ from the tracer's, or its dtype be wider,
        as that of a bias's gradient under autocast."""
        self.known[output.name] = output
        if output.name in self.read_by_kernels:
            # Only where kernels read it: libraries and users take a tensor as it lies.
            name, strides = self._local(output.name), self._tuple(output.strides)
            dtype = self._bound(object_name(output.dtype), output.dtype)
            self.lines.line(f"if {name}.stride() != {strides} or {name}.dtype is not {dtype}:")
            self.lines.line(f"    {name} = laid_out({name}, {self._tuple(output.sizes)}, {strides}, {dtype})")

    def _unpack(self, text: str, names: list[str], lists: bool, reason: str) -> list[str]:
        only = "," if lists and len(names) == 1 else ""  # a list of one, as `split` gives it of what is small
        self.lines.line(f"{', '.join(names)}{only} = {text}{reason}")
        return names

    def _argument(self, value: object) -> str:
        if isinstance(value, Ref):
            return self._local(value.name)
        if isinstance(value, Index):
            return self._index(value)
        if isinstance(value, Const | IndexValue | Apply):
            return double_text(value, self._index, self._square_root)
        if isinstance(value, list | tuple):
            inside = ", ".join(self._argument(item) for item in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
        if isinstance(value, bool | int | str | None.__class__):
            return repr(value)
        # Infinities and NaN have no literals in Python.
        if isinstance(value, float):
            return repr(value) if value == value and abs(value) != float("inf") else f"float({str(value)!r})"
        return self._bound(object_name(value), value)

    def _square_root(self) -> str:
        return self._bound("sqrt", math.sqrt, "__import__('math').sqrt")

    def _free(self, step: Free) -> None:
        if step.name not in self.scratch:
            self.lines.line(f"del {self._local(step.name)}")


_STEPS: Mapping[type, Callable[[Any, Any], None]] = {
    Allocate: _WrapperPrinter._allocate,
    View: _WrapperPrinter._view,
    Launch: _WrapperPrinter._launch,
    Run: _WrapperPrinter._run,
    Call: _WrapperPrinter._call,
    Bind: _WrapperPrinter._ignore,
    Free: _WrapperPrinter._free,
}
"""The method that prints each kind of step."""


def _seen(program: Program) -> set[str]:
    """The buffers that are results, and those that results are views of."""
    seen = {output.name for output in program.outputs if isinstance(output, Ref)}
    for step in reversed(program.steps):
        if isinstance(step, View) and step.buffer.name in seen:
            seen.add(step.base)
    return seen


def _may_be_negated(given: Buffer) -> bool:
    """True if a tensor with these strides may be one that torch negates on reading: the imaginary part of a conjugate,
    which takes every second number of its memory, so that neighbours are never adjacent."""
    strides = (stride.as_int() for size, stride in zip(given.sizes, given.strides, strict=True) if size != 1)
    return given.dtype.is_floating_point and 1 not in strides
