"""An executable meaning of the IR: kernels and programs run slowly, with torch operators on whole iteration spaces.

The oracle of every test here.  It shares nothing with code generation: an index is evaluated as integers, an operator
is a row of a table, a loop is a broadcast.
"""

from __future__ import annotations

import torch

from inductor.ir.expr import Apply, Const, IndexValue, Load, Masked, Result
from inductor.ir.index import FloorDiv, Index, Symbol
from inductor.ir.kernel import Let, Reduce, Scan, Store
from inductor.ir.program import Allocate, Bind, Buffer, Call, Free, Launch, Ref, View


def run_program(program, inputs, constants=None):
    """The outputs of a program; inputs that it writes are changed in place."""
    return _Run(program, inputs, constants or {}).run()


def run_kernel(kernel, buffers, sizes=None):
    """Runs a kernel on flat tensors by argument name."""
    for number, member in enumerate(kernel.members):
        run_kernel(member, {a.name: buffers[f"{a.name}_{number}"] for a in member.arguments}, sizes)
    if not kernel.members:
        _KernelRun(kernel, buffers, sizes or {}).run()


class _Run:
    def __init__(self, program, inputs, constants):
        self.program, self.tensors, self.sizes = program, dict(constants), {}
        for declared, value in zip(program.inputs, inputs, strict=True):
            if isinstance(declared, Buffer):
                self.tensors[declared.name] = value
            elif isinstance(declared, Symbol):
                self.sizes[declared] = value

    def run(self):
        for step in self.program.steps:
            getattr(self, f"_{type(step).__name__.lower()}")(step)
        return [self._value(output) for output in self.program.outputs]

    def _value(self, value):
        if isinstance(value, Ref):
            return self.tensors[value.name]
        if isinstance(value, Index):
            return value.evaluate(self.sizes)
        if isinstance(value, list | tuple):
            return type(value)(self._value(item) for item in value)
        return value

    def _numbers(self, indices):
        return [index.evaluate(self.sizes) for index in indices]

    def _bind(self, step: Bind):
        if step.dim is not None:
            self.sizes[step.symbol] = getattr(self.tensors[step.source], step.what)(step.dim)

    def _allocate(self, step: Allocate):
        sizes, strides = self._numbers(step.buffer.sizes), self._numbers(step.buffer.strides)
        device = step.buffer.device
        if step.reuse is None:
            tensor = torch.empty_strided(sizes, strides, dtype=step.buffer.dtype, device=device)
            flat = torch.as_strided(tensor, (_extent(sizes, strides),), (1,))
            flat.view(torch.uint8).fill_(0x5A)  # so that reading what nobody wrote shows
        else:
            old = self.tensors[step.reuse]
            typed = torch.empty(0, dtype=step.buffer.dtype, device=device).set_(old.untyped_storage())
            tensor = torch.as_strided(typed, sizes, strides, 0)
        self.tensors[step.buffer.name] = tensor

    def _view(self, step: View):
        base = self.tensors[step.base]
        offset = base.storage_offset() + step.offset.evaluate(self.sizes)
        sizes, strides = self._numbers(step.buffer.sizes), self._numbers(step.buffer.strides)
        self.tensors[step.buffer.name] = torch.as_strided(base, sizes, strides, offset)

    def _launch(self, step: Launch):
        flat = {}
        for argument, name in zip(step.kernel.arguments, step.buffers, strict=True):
            tensor = self.tensors[name]
            flat[argument.name] = torch.as_strided(tensor, (argument.numel.evaluate(self.sizes),), (1,))
        run_kernel(step.kernel, flat, self.sizes)

    def _call(self, step: Call):
        kwargs = {name: self._value(value) for name, value in step.kwargs}
        results = step.target(*[self._value(value) for value in step.args], **kwargs)
        leaves, _ = torch.utils._pytree.tree_flatten(results)
        if not step.outputs:
            return
        for buffer, value in zip(step.outputs, leaves, strict=True):
            if buffer is not None:
                for size, extent in zip(buffer.sizes, value.shape, strict=True):
                    if (symbol := size.as_symbol()) is not None:
                        self.sizes.setdefault(symbol, extent)
                self.tensors[buffer.name] = _with_strides(value, self._numbers(buffer.strides))

    def _free(self, step: Free):
        del self.tensors[step.name]


def _with_strides(value, strides):
    """A result as the tracer saw it; some library kernels choose strides of their own."""
    if all(size == 1 or a == b for size, a, b in zip(value.shape, value.stride(), strides, strict=True)):
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)


def _extent(sizes, strides):
    return 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


class _KernelRun:
    """Values are tensors that broadcast over (kernel axes..., loop axes...)."""

    def __init__(self, kernel, buffers, sizes):
        self.kernel, self.buffers, self.sizes, self.results = kernel, buffers, dict(sizes), {}
        self.outer = len(kernel.axes)
        self._over(next((loop.axes for loop in kernel.loops if loop.axes), ()))

    def _over(self, inner):
        """Sets the axes; segments of a row have each their own."""
        self.axes = self.kernel.axes + inner
        self.extents = [axis.size.evaluate(self.sizes) for axis in self.axes]
        self.positions = {}
        for dim, (axis, extent) in enumerate(zip(self.axes, self.extents, strict=True)):
            shape = [1] * len(self.axes)
            shape[dim] = extent
            self.positions[axis] = torch.arange(extent).reshape(shape)

    def run(self):
        for loop in self.kernel.passes:
            if loop.axes not in ((), self.axes[self.outer :]):
                self._over(loop.axes)
            for statement in loop.body:
                self._statement(statement, bool(loop.axes))

    def _shape(self, inner):
        return [extent if inner or dim < self.outer else 1 for dim, extent in enumerate(self.extents)]

    def _statement(self, statement, inner):
        if isinstance(statement, Let):
            self.results[statement.name, ""] = self._value(statement.value)
        elif isinstance(statement, Reduce):
            self._reduce(statement, inner)
        elif isinstance(statement, Scan):
            self._scan(statement)
        else:
            self._store(statement, inner)

    def _reduce(self, statement, inner):
        value = self._value(statement.value).expand(self._shape(inner))
        dims = tuple(range(self.outer, len(self.axes)))
        flat = value.flatten(self.outer) if dims else value.unsqueeze(-1)
        for part, result in _REDUCE[statement.kind](flat, statement.dtype).items():
            self.results[statement.name, part] = result.reshape(*result.shape, *(1 for _ in dims))

    def _scan(self, statement):
        shape = self._shape(True)
        flat = self._value(statement.value).expand(shape).flatten(self.outer)
        _require(flat.dtype == statement.dtype, statement)
        self.results[statement.name, ""] = _SCAN[statement.kind](flat).reshape(shape)

    def _store(self, statement: Store, inner):
        shape = self._shape(inner)
        symbols = {symbol: self._value(value) for symbol, value in statement.bindings}
        index = self._index(statement.index, symbols)
        target = self.buffers[statement.buffer]
        index = torch.as_tensor(index).expand(shape).reshape(-1)
        value = self._value(statement.value).expand(shape).reshape(-1).clone()  # it may be what is written
        _require(value.dtype == target.dtype or target.dtype in (torch.float16, torch.bfloat16), statement)
        if statement.mask is not None:
            kept = self._value(statement.mask).expand(shape).reshape(-1)
            index, value = index[kept], value[kept]
        if statement.mode == "add":
            target.index_put_((index,), value.to(target.dtype), accumulate=True)
        elif statement.mode != "set":
            combine = {"mul": "prod", "max": "amax", "min": "amin"}[statement.mode]
            target.scatter_reduce_(0, index, value.to(target.dtype), combine)
        else:
            target[index] = value.to(target.dtype)

    # -- expressions --------------------------------------------------------------------------------------------------

    def _index(self, index, symbols):
        total = 0
        for monomial, coefficient in index.terms:
            product = coefficient
            for atom in monomial:
                product = product * self._atom(atom, symbols)
            total = total + product
        return total

    def _atom(self, atom, symbols):
        if isinstance(atom, Symbol):
            for table in (symbols, self.positions, self.sizes):
                if atom in table:
                    return table[atom]
            raise KeyError(f"{atom} is not bound in {self.kernel.name}")
        numerator, divisor = self._index(atom.numerator, symbols), self._index(atom.divisor, symbols)
        return numerator // divisor if isinstance(atom, FloorDiv) else numerator % divisor

    def _value(self, expr, mask=None):
        if isinstance(expr, Const):
            return torch.tensor(expr.value, dtype=expr.dtype)
        if isinstance(expr, Result):
            value = self.results[expr.name, expr.part]
            _require(value.dtype == expr.dtype, expr)
            return value
        if isinstance(expr, IndexValue):
            return torch.as_tensor(self._index(expr.index, {})).to(expr.dtype)
        if isinstance(expr, Masked):
            condition = self._value(expr.condition, mask)
            both = condition if mask is None else condition & mask
            return torch.where(condition, self._value(expr.body, both), self._value(expr.other))
        if isinstance(expr, Load):
            return self._load(expr, mask)
        args = [self._value(arg, mask) for arg in expr.args]
        result = _apply(expr, args)
        _require(result.dtype == expr.dtype, expr)
        return result

    def _load(self, expr: Load, mask):
        symbols = {symbol: self._value(value, mask) for symbol, value in expr.bindings}
        index = torch.as_tensor(self._index(expr.index, symbols))
        if mask is not None:
            index, mask = torch.broadcast_tensors(index, mask)
            index = torch.where(mask, index, 0)
        buffer = self.buffers[expr.buffer]
        _require(buffer.dtype == expr.dtype, expr)
        if not buffer.numel():
            return torch.zeros(index.shape, dtype=buffer.dtype)
        return buffer[index]


def _require(condition, where):
    if not condition:
        raise AssertionError(f"the IR is ill-typed: {where}")


# -- tables -----------------------------------------------------------------------------------------------------------


def _welford(value, dtype):
    value = value.to(dtype)
    mean = value.mean(-1)
    return {
        "mean": mean,
        "m2": ((value - mean.unsqueeze(-1)) ** 2).sum(-1),
        "weight": torch.full_like(mean, value.shape[-1]),
    }


def _first(value, largest):
    if value.dtype == torch.bool:
        value = value.to(torch.uint8)
    return {"": value.argmax(-1) if largest else value.argmin(-1)}


def _extreme(value, largest):
    if not value.shape[-1]:
        return {"": value.new_full(value.shape[:-1], -torch.inf if largest else torch.inf)}
    return {"": value.amax(-1) if largest else value.amin(-1)}


_SCAN = {
    "sum": lambda x: x.cumsum(-1, dtype=x.dtype),
    "prod": lambda x: x.cumprod(-1, dtype=x.dtype),
    "max": lambda x: x.cummax(-1).values,
    "min": lambda x: x.cummin(-1).values,
}
_REDUCE = {
    "sum": lambda value, dtype: {"": value.sum(-1, dtype=dtype)},
    "prod": lambda value, dtype: {"": value.prod(-1, dtype=dtype)},
    "max": lambda value, dtype: _extreme(value, True),
    "min": lambda value, dtype: _extreme(value, False),
    "argmax": lambda value, dtype: _first(value, True),
    "argmin": lambda value, dtype: _first(value, False),
    "any": lambda value, dtype: {"": value.any(-1)},
    "all": lambda value, dtype: {"": value.all(-1)},
    "welford": _welford,
}


def _within(index, size):
    if bool(((index < 0) | (index >= size)).any()):
        raise IndexError("index out of range")
    return index


def _wrapped(index, size):
    wrapped = torch.where(index < 0, index + size, index)
    if bool(((wrapped < 0) | (wrapped >= size)).any()):
        raise IndexError("index out of range")
    return wrapped


_OPERATORS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "mod": torch.remainder,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "not": torch.bitwise_not,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
    "fma": lambda a, b, c: a * b + c,
    "wrapped": _wrapped,
    "within": _within,
}


def _apply(expr: Apply, args):
    if expr.op == "cast":
        return args[0].to(expr.dtype)
    if expr.op == "bitcast":
        return args[0].view(expr.dtype)
    if expr.op == "rounded":
        return args[0].to(expr.param).to(expr.dtype)
    if expr.op in _OPERATORS:
        return _OPERATORS[expr.op](*args)
    return getattr(torch, expr.op)(*args)
