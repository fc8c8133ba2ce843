"""Rules for kernels and programs.  A broken rule is a defect of the pass that made them, never of the user.

Three levels, each checked after the stage that makes it: nests by ``verify_graph``, steps and their kernels by
``verify_program``, decisions of targets by ``verify_layouts``.  They run where the option ``verify`` asks for it,
which all tests do; printers rely on them and check nothing themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from inductor.errors import InvalidIR
from inductor.ir.expr import Apply, Expr, IndexValue, Load, Masked, Result, walk
from inductor.ir.graph import Graph, Nest
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import PRODUCT, Kernel, Let, Reduce, Scan, Statement, Store, numbers_last
from inductor.ir.layout import CpuLayout, Shape
from inductor.ir.ops import OPERATORS, REDUCTIONS, SCANS
from inductor.ir.program import Allocate, Bind, Buffer, Call, Free, Launch, Program, Ref, Run, View

MIXED = frozenset(("where", "cast", "bitcast", "rand", "randn", "randint64"))
"""The operators whose operands need not have one dtype."""
PARTS = ("mean", "m2", "weight")


def verify_kernel(kernel: Kernel) -> None:
    """Checks that axes are bound, values defined before they are read, dtypes agreed and roles of arguments true."""
    if not kernel.members:
        _KernelRules(kernel).check()
        return
    for member in kernel.members:
        verify_kernel(member)
    given = [(a.dtype, a.role) for a in numbers_last(a for member in kernel.members for a in member.arguments)]
    if kernel.loops or kernel.axes or given != [(a.dtype, a.role) for a in kernel.arguments]:
        raise InvalidIR(f"kernel {kernel.name}: it is not what its members are")


class _KernelRules:
    """The rules of one kernel, checked in one walk in the order in which it runs.

    ``values`` holds what may be read now: the dtype, and whether it is the moments of a welford reduction, whose
    three parts are read by name.  ``outer`` are the symbols that every index may mention; a loop adds its own axes.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.arguments = {argument.name: argument for argument in kernel.arguments}
        self.values: dict[str, tuple[torch.dtype, bool]] = {}
        self.written: set[str] = set()
        self.outer = frozenset((*kernel.axes, *kernel.sizes))

    def check(self) -> None:
        self.require(len(self.arguments) == len(self.kernel.arguments), "two arguments of one name")
        # Loops are passes over the same row: a printer keeps one set of variables for all of them.  On CPUs they may be
        # segments of a row, none of which reduces anything.
        inner = {loop.axes for loop in self.kernel.loops if loop.axes}
        plain = all(isinstance(statement, Let | Store) for loop in self.kernel.loops for statement in loop.body)
        segments = plain and self.kernel.device == "cpu" and all(len(axes) == 1 for axes in inner)
        self.require(len(inner) <= 1 or segments, "loops over different axes")
        for let in self.kernel.once:
            self.statement(let, frozenset(self.kernel.sizes))
            self.define(let.name, let.value.dtype, False)
        self.product()
        for loop in self.kernel.loops:
            scope = self.outer | set(loop.axes)
            fresh: list[str] = []
            # A reduction is known only once its loop has ended: a statement beside it that read its result would read
            # part of a sum.
            pending: dict[str, tuple[torch.dtype, bool]] = {}
            for statement in loop.body:
                self.statement(statement, scope)
                if isinstance(statement, Let | Scan):
                    dtype = statement.dtype if isinstance(statement, Scan) else statement.value.dtype
                    self.define(statement.name, dtype, False)
                    # What is named in a loop with axes is another value in each of its turns, and gone behind it; named
                    # in a loop without axes, it is there for all loops that follow.
                    fresh += [statement.name] if loop.axes else []
                elif isinstance(statement, Reduce):
                    pending[statement.name] = (statement.dtype, statement.kind == "welford")
            for name, (dtype, moments) in pending.items():
                self.define(name, dtype, moments)
            for name in fresh:
                del self.values[name]
        self.roles()

    def product(self) -> None:
        made = self.kernel.product
        if made is None:
            return
        self.require(self.kernel.axes[-len(made.rows) - len(made.columns) :] == made.rows + made.columns, "other axes")
        # An element of the left factor is the same for all columns, and the other way round: each may mention its own
        # side of the result, the batch, and the axis that is summed over.
        self.expr(made.left, (self.outer - set(made.columns)) | {made.inner})
        self.expr(made.right, (self.outer - set(made.rows)) | {made.inner})
        self.define(PRODUCT, torch.float32, False)

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            raise InvalidIR(f"kernel {self.kernel.name}: {message}")

    def define(self, name: str, dtype: torch.dtype, moments: bool) -> None:
        self.require(name not in self.values and name not in self.arguments, f"{name} is defined twice")
        self.values[name] = (dtype, moments)

    def statement(self, statement: Statement, scope: frozenset[Symbol]) -> None:
        self.expr(statement.value, scope)
        if isinstance(statement, Reduce):
            self.require(statement.kind in REDUCTIONS, f"no reduction {statement.kind}")
        if isinstance(statement, Scan):
            self.require(statement.kind in SCANS, f"no scan {statement.kind}")
            self.require(statement.dtype == statement.value.dtype, f"{statement.name} is not {statement.dtype}")
        if isinstance(statement, Store):
            self.store(statement, scope)

    def store(self, store: Store, scope: frozenset[Symbol]) -> None:
        argument = self.arguments.get(store.buffer)
        self.require(argument is not None and argument.role != "in", f"{store.buffer} is not given to be written")
        assert argument is not None
        # Half precision is computed in float32, and narrowed by the store itself; every other dtype has to agree.
        half = argument.dtype in (torch.float16, torch.bfloat16) and store.value.dtype == torch.float32
        same = store.value.dtype == argument.dtype
        self.require(same or half, f"{store.value.dtype} stored to {store.buffer}")
        for _, value in store.bindings:
            self.expr(value, scope)
        self.index(store.index, scope | {symbol for symbol, _ in store.bindings})
        self.written.add(store.buffer)

    def expr(self, expr: Expr, scope: frozenset[Symbol]) -> None:
        for node in walk(expr):
            if isinstance(node, Load):
                argument = self.arguments.get(node.buffer)
                self.require(argument is not None, f"{node.buffer} is no argument")
                assert argument is not None
                self.require(argument.dtype == node.dtype, f"{node.buffer} is not {node.dtype}")
                # What is made by this kernel may be read behind the statement that stores it, at the same element.
                known = argument.role != "out" or node.buffer in self.written
                self.require(known, f"{node.buffer} is read before it is written")
                self.index(node.index, scope | {symbol for symbol, _ in node.bindings})
            elif isinstance(node, IndexValue):
                self.index(node.index, scope)
            elif isinstance(node, Result):
                self.result(node)
            elif isinstance(node, Masked):
                same = node.body.dtype == node.other.dtype == node.dtype
                self.require(node.condition.dtype == torch.bool and same, "an ill-typed masked")
            elif isinstance(node, Apply):
                self.apply(node)

    def result(self, node: Result) -> None:
        self.require(node.name in self.values, f"{node.name} is read before it is defined, or outside its loop")
        dtype, moments = self.values[node.name]
        self.require(dtype == node.dtype, f"{node.name} is not {node.dtype}")
        self.require(node.part in PARTS if moments else not node.part, f"{node.name} has no part {node.part!r}")

    def apply(self, node: Apply) -> None:
        self.require(node.op in OPERATORS, f"no operator {node.op}")
        operator = OPERATORS[node.op]
        self.require(len(node.args) == operator.arity, f"{node.op} takes {operator.arity} operands")
        # The condition of ``where`` is bool whatever it chooses between.
        operands = node.args[1:] if node.op == "where" else node.args if node.op not in MIXED else ()
        self.require(len({arg.dtype for arg in operands}) <= 1, f"operands of {node.op} differ in dtype")
        if node.op == "where":
            self.require(node.args[0].dtype == torch.bool, "the condition of where is not bool")
        # "given" is not checked: there the node itself says its dtype (casts, random numbers).
        if operator.result == "same":
            self.require(node.dtype == node.args[-1].dtype, f"{node.op} changes the dtype")
        elif operator.result == "bool":
            self.require(node.dtype == torch.bool, f"{node.op} is not bool")

    def index(self, index: Index, scope: Iterable[Symbol]) -> None:
        unbound = index.symbols - set(scope)
        self.require(not unbound, f"{', '.join(sorted(map(str, unbound)))} not bound in {index}")

    def roles(self) -> None:
        for argument in self.kernel.arguments:
            if argument.role != "in":
                self.require(argument.name in self.written, f"{argument.name} is never written")
        numbers = [argument.number for argument in self.kernel.arguments]
        # Launchers take buffers first, then numbers by value: see ``numbers_last``.
        self.require(numbers == sorted(numbers), "a number before a buffer")
        read_only = all(argument.role == "in" for argument in self.kernel.arguments if argument.number)
        self.require(read_only and (self.kernel.device == "cuda" or not any(numbers)), "a number is written")


# -- graphs -----------------------------------------------------------------------------------------------------------


def verify_graph(graph: Graph) -> None:
    """Checks that every nest reads and writes buffers that exist, with their dtypes, by axes of its own."""
    for operation in graph.operations:
        if isinstance(operation, Nest):
            _verify_nest(operation, graph)


def _verify_nest(nest: Nest, graph: Graph) -> None:
    def require(holds: bool, complaint: str) -> None:
        if not holds:
            raise InvalidIR(f"nest {nest.name}: {complaint}")

    require(nest.reduced <= set(nest.domain), "it reduces over axes that it does not have")
    for statement in (statement for loop in nest.loops for statement in loop.body):
        for load in (node for node in walk(statement.value) if isinstance(node, Load)):
            known = graph.buffers.get(load.buffer)
            require(known is not None and known.dtype == load.dtype, f"{load.buffer} is no {load.dtype} buffer")
        if isinstance(statement, Store):
            require(statement.buffer in graph.buffers, f"{statement.buffer} is no buffer")
            # Axes have a size; symbols without one are sizes themselves, and bound by the call.
            free = {symbol for symbol in statement.index.symbols if symbol.size is not None}
            bound = {*nest.domain, *(symbol for symbol, _ in statement.bindings)}
            require(free <= bound, f"{statement.index} is not bound")


# -- programs ---------------------------------------------------------------------------------------------------------


def verify_program(program: Program) -> None:
    """Checks that every buffer is made before it is used and not used once it is freed, and every kernel."""
    rules = _ProgramRules(program)
    for step in program.steps:
        rules.step(step)
    for output in program.outputs:
        if isinstance(output, Ref):
            rules.present(output.name, "the result")


class _ProgramRules:
    """The rules of a program's steps, checked in their order, with the buffers that exist at each point."""

    def __init__(self, program: Program) -> None:
        self.name = program.name
        inputs = [buffer for buffer in program.inputs if isinstance(buffer, Buffer)]
        self.buffers = {buffer.name: buffer for buffer in (*inputs, *program.constants)}
        self.gone: set[str] = set()

    def present(self, name: str, who: str) -> None:
        if name not in self.buffers or name in self.gone:
            state = "was freed" if name in self.gone else "does not exist"
            raise InvalidIR(f"program {self.name}: {who} uses {name}, which {state}")

    def add(self, buffer: Buffer) -> None:
        if buffer.name in self.buffers:
            raise InvalidIR(f"program {self.name}: {buffer.name} is made twice")
        self.buffers[buffer.name] = buffer

    def step(self, step: Allocate | View | Launch | Call | Bind | Free) -> None:
        if isinstance(step, Allocate):
            # Memory of a buffer whose last user has run is taken over, without being freed in between.
            if step.reuse is not None:
                self.present(step.reuse, step.buffer.name)
            self.add(step.buffer)
        elif isinstance(step, View):
            self.present(step.base, step.buffer.name)
            self.add(step.buffer)
        elif isinstance(step, Free):
            self.present(step.name, "free")
            self.gone.add(step.name)
        elif isinstance(step, Launch):
            self.launch(step)
        elif isinstance(step, Call):
            for buffer in step.outputs:
                if buffer is not None:
                    self.add(buffer)

    def launch(self, step: Launch) -> None:
        verify_kernel(step.kernel)
        for name, argument in zip(step.buffers, step.kernel.arguments, strict=True):
            self.present(name, step.kernel.name)
            if self.buffers[name].dtype != argument.dtype:
                raise InvalidIR(f"program {self.name}: {name} is not {argument.dtype} as {step.kernel.name} expects")
        given = zip(step.buffers, step.kernel.arguments, strict=True)
        # Kernels are compiled as if arguments were apart (``restrict``).  Only what members of a joint kernel read may
        # be given to several of them, as nobody writes it there.
        shared = {name for name, argument in given if argument.role == "in"} if step.kernel.members else set()
        written = [name for name in step.buffers if name not in shared]
        roles = zip(step.buffers, step.kernel.arguments, strict=True)
        clash = any(argument.role != "in" and name in shared for name, argument in roles)
        if clash or len(set(written)) != len(written):
            raise InvalidIR(f"program {self.name}: {step.kernel.name} is given one buffer twice")


# -- layouts ----------------------------------------------------------------------------------------------------------


def verify_layouts(program: Program) -> None:
    """Checks that every kernel has a layout of its target, with one for each of its loops; that ``items`` are the
    steps; that buffers in scratch memory are made by the program."""

    def require(holds: bool, complaint: str) -> None:
        if not holds:
            raise InvalidIR(f"program {program.name}: {complaint}")

    launches = [step for step in program.steps if isinstance(step, Launch)]
    for kernel in (launch.kernel for launch in launches):
        wanted = CpuLayout if kernel.device == "cpu" else Shape
        require(isinstance(kernel.layout, wanted), f"{kernel.name} has no layout for its target")
        if isinstance(kernel.layout, CpuLayout):
            require(len(kernel.layout.loops) == len(kernel.loops), f"{kernel.name} has loops without a layout")
        else:
            members = sum(family.count for family in kernel.families)
            require(members == len(kernel.members), f"{kernel.name} has members of no family")
    # ``items`` are the steps again, with launches that are one call put into a ``Run``: none is lost, none doubled.
    items = [launch for item in program.items for launch in (item.launches if isinstance(item, Run) else [item])]
    require({id(step) for step in program.steps} == {id(item) for item in items}, "its items are not its steps")
    made = {step.buffer.name for step in program.steps if isinstance(step, Allocate)}
    places = {} if program.scratch is None else dict(program.scratch.places)
    require(places.keys() <= made, "scratch memory for what is not made")
