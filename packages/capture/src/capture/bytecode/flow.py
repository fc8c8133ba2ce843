"""Control and data flow of a body: successors, stack depths, reachable code, loops, live variables.

Everything is computed on the neutral bytecode of `instructions`, by index into ``body.instructions``.  Exceptions are
edges too: an instruction under a handler may go to it.  This module must not know about code objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from capture.bytecode.instructions import Body, Handler, Instruction
from capture.bytecode.versions import OPERANDS, PY312, PY313, Operand
from capture.errors import CaptureError

# Where control does not go on to the next instruction.
NO_FALL_THROUGH = frozenset({"JUMP", "JUMP_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})
JUMPS = frozenset(op for op, kind in OPERANDS.items() if kind is Operand.JUMP)


class MalformedBody(CaptureError):
    """A body no interpreter would run: stack depths that disagree, a jump out of the list, a fall off the end."""


# ------------------------------------------------------------------------------------------------------ stack effects

_FIXED_EFFECTS = {
    0: """NOP RESUME MAKE_CELL DELETE_FAST DELETE_DEREF DELETE_GLOBAL DELETE_NAME SETUP_ANNOTATIONS JUMP
        JUMP_NO_INTERRUPT UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT TO_BOOL GET_ITER GET_YIELD_FROM_ITER
        GET_AITER GET_AWAITABLE LOAD_ATTR LIST_TO_TUPLE SWAP CONVERT_VALUE CHECK_EXC_MATCH CHECK_EG_MATCH YIELD_VALUE
        ASYNC_GEN_WRAP SEND CALL_INTRINSIC_1 LOAD_FROM_DICT_OR_DEREF LOAD_FROM_DICT_OR_GLOBALS""",
    1: """LOAD_CONST LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_CLOSURE LOAD_DEREF LOAD_CLASSDEREF LOAD_GLOBAL
        LOAD_NAME LOAD_LOCALS LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_METHOD PUSH_NULL COPY IMPORT_FROM GET_LEN
        MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS PUSH_EXC_INFO WITH_EXCEPT_START BEFORE_WITH BEFORE_ASYNC_WITH GET_ANEXT
        RETURN_GENERATOR FOR_ITER""",
    -1: """POP_TOP STORE_FAST STORE_DEREF STORE_GLOBAL STORE_NAME DELETE_ATTR BINARY_OP BINARY_SUBSCR COMPARE_OP IS_OP
        CONTAINS_OP LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE POP_EXCEPT IMPORT_STAR IMPORT_NAME
        PRINT_EXPR END_SEND CLEANUP_THROW CALL_INTRINSIC_2 PREP_RERAISE_STAR POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE
        POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE RETURN_VALUE RERAISE LOAD_SUPER_METHOD LOAD_ZERO_SUPER_METHOD""",
    -2: """DELETE_SUBSCR STORE_ATTR MAP_ADD END_ASYNC_FOR MATCH_CLASS LOAD_SUPER_ATTR LOAD_ZERO_SUPER_ATTR""",
    -3: "STORE_SUBSCR",
}
_EFFECTS = {op: effect for effect, ops in _FIXED_EFFECTS.items() for op in ops.split()}

_EFFECTS_BY_OPERAND: dict[str, Callable[..., int]] = {
    "BUILD_TUPLE": lambda n: 1 - n,
    "BUILD_LIST": lambda n: 1 - n,
    "BUILD_SET": lambda n: 1 - n,
    "BUILD_STRING": lambda n: 1 - n,
    "BUILD_SLICE": lambda n: 1 - n,
    "BUILD_MAP": lambda n: 1 - 2 * n,
    "BUILD_CONST_KEY_MAP": lambda n: -n,
    "UNPACK_SEQUENCE": lambda n: n - 1,
    "UNPACK_EX": lambda around: around[0] + around[1],
    "FORMAT_VALUE": lambda flags: -1 if flags & 4 else 0,
    "MAKE_FUNCTION": lambda flags: -flags.bit_count(),
    "CALL": lambda n: -1 - n,
    "CALL_KW": lambda call: -1 - call[0],
    "CALL_FUNCTION_EX": lambda flags: -2 - (flags & 1),
    "RAISE_VARARGS": lambda n: -n,
}


def stack_effect(instruction: Instruction, *, jump: bool = False) -> int:
    """The change of the stack's depth by `instruction`; with `jump`, on the way on which it jumps."""
    op = instruction.op
    if jump and op == "FOR_ITER":
        return -1
    if jump and op == "SEND":
        return 0 if PY312 else -1
    effect = _EFFECTS.get(op)
    if effect is not None:
        return effect
    try:
        return _EFFECTS_BY_OPERAND[op](instruction.arg)
    except KeyError:
        raise MalformedBody(f"unknown opcode {op} at line {instruction.line}") from None


# -------------------------------------------------------------------------------------------------------------- flow


def _finishing_order(edges: list[list[int]], start: int, seen: list[bool]) -> list[int]:
    """The instructions that can be reached from `start` and were not seen yet, each after all that it leads to.

    A depth-first search with a stack of its own, as long functions would exceed Python's recursion limit.
    """
    order: list[int] = []
    path = [] if seen[start] else [(start, iter(edges[start]))]
    seen[start] = True
    while path:
        i, following = path[-1]
        for j in following:
            if not seen[j]:
                seen[j] = True
                path.append((j, iter(edges[j])))
                break
        else:
            order.append(i)
            path.pop()
    return order


class Flow:
    """The control flow of one body, which must not change meanwhile.  Nothing is computed before it is asked for."""

    def __init__(self, body: Body) -> None:
        self.instructions = body.instructions
        self.index = {instruction: i for i, instruction in enumerate(body.instructions)}

    @cached_property
    def successors(self) -> list[list[int]]:
        """The instructions after each one when nothing is raised: the next one first, then the jump target."""
        last = len(self.instructions) - 1
        result = []
        for i, instruction in enumerate(self.instructions):
            following = [] if instruction.op in NO_FALL_THROUGH else [i + 1]
            if following and i == last:
                raise MalformedBody(f"control falls off the end after {instruction!r}")
            if instruction.op in JUMPS:
                following.append(self.position(instruction.arg))
            result.append(following)
        return result

    def position(self, instruction: Instruction) -> int:
        try:
            return self.index[instruction]
        except KeyError:
            raise MalformedBody(f"{instruction!r} is a target but not in the body") from None

    def handler(self, i: int) -> int | None:
        """The instruction at which an exception raised at `i` is handled; None if it leaves the function."""
        handler = self.instructions[i].handler
        return None if handler is None else self.position(handler.target)

    # ------------------------------------------------------------------------------------------------ reachable, loops

    def reachable(self, start: int = 0) -> list[bool]:
        """For each instruction, True if it can run when execution begins at `start`."""
        seen = [False] * len(self.instructions)
        todo = [start]
        while todo:
            i = todo.pop()
            if seen[i]:
                continue
            seen[i] = True
            todo += self.edges[i]
        return seen

    def loops(self) -> list[tuple[int, int]]:
        """The stretches of code that may run more than once, as (first, last) instruction.

        A loop can be several stretches: its handlers may lie behind the code that follows it.
        """
        repeated = sorted(i for component in self._components() if self._is_cycle(component) for i in component)
        stretches: list[tuple[int, int]] = []
        for i in repeated:
            if stretches and stretches[-1][1] == i - 1:
                stretches[-1] = (stretches[-1][0], i)
            else:
                stretches.append((i, i))
        return stretches

    def innermost_loop(self, inside: Collection[int]) -> frozenset[int] | None:
        """The instructions of the smallest loop that all of `inside` are in; None where they share no loop.

        A loop is a strongly connected component of the control flow. The loops within it are the components that are
        left once the instructions at which it is entered are taken out: so the search goes inwards until no part has
        all of them.
        """
        found: frozenset[int] | None = None
        within: Sequence[int] = range(len(self.instructions) if inside else 0)
        while within:
            loops = (part for part in self._components(within) if self._is_cycle(part) and set(part).issuperset(inside))
            loop = next(loops, None)
            if loop is None:
                break
            found = frozenset(loop)
            entered = {j for i in range(len(self.edges)) if i not in found for j in self.edges[i] if j in found}
            within = sorted(found - (entered or {min(found)}))
        return found

    def _is_cycle(self, component: list[int]) -> bool:
        return len(component) > 1 or component[0] in self.edges[component[0]]

    @cached_property
    def edges(self) -> list[list[int]]:
        """The instructions at which each one may go on, exceptions included."""
        handlers = (self.handler(i) for i in range(len(self.instructions)))
        return [
            following if handler is None else [*following, handler]
            for following, handler in zip(self.successors, handlers, strict=True)
        ]

    def _components(self, within: Sequence[int] | None = None) -> list[list[int]]:
        """Groups of instructions that can all reach each other, without leaving those ``within``.

        Kosaraju's algorithm: the instruction that finishes last in a search forwards is the first to be searched
        backwards from.
        """
        comes_from: list[list[int]] = [[] for _ in self.edges]
        for i, following in enumerate(self.edges):
            for j in following:
                comes_from[j].append(i)
        starts = range(len(self.edges)) if within is None else within
        outside = [True] * len(self.edges)
        for i in starts:
            outside[i] = False
        seen = list(outside)
        finished = [i for start in starts for i in _finishing_order(self.edges, start, seen)]
        seen = list(outside)
        components = (_finishing_order(comes_from, start, seen) for start in reversed(finished))
        return [component for component in components if component]

    # ------------------------------------------------------------------------------------------------------------ depth

    @cached_property
    def depths(self) -> list[int | None]:
        """The stack depth before each instruction; None where control never comes."""
        depths: list[int | None] = [None] * len(self.instructions)
        todo = [0]
        if depths:
            depths[0] = 0

        def flows_to(i: int, depth: int) -> None:
            known = depths[i]
            if known is None:
                depths[i] = depth
                todo.append(i)
            elif known != depth:
                raise MalformedBody(f"stack depth {known} or {depth} before {self.instructions[i]!r}")

        while todo:
            i = todo.pop()
            instruction, depth = self.instructions[i], depths[i]
            assert depth is not None
            handler = instruction.handler
            # On entry the stack is cut to `depth`, then the offset (with `lasti`) and the exception are pushed.
            if handler is not None:
                flows_to(self.position(handler.target), handler.depth + handler.lasti + 1)
            for number, following in enumerate(self.successors[i]):
                jumps = number == 1 or instruction.op in NO_FALL_THROUGH
                after = depth + stack_effect(instruction, jump=jumps)
                if after < 0:
                    raise MalformedBody(f"stack underflow at {instruction!r}")
                flows_to(following, after)
        return depths

    def stack_size(self) -> int:
        """The number of stack slots that the interpreter needs."""
        size = 0
        for instruction, depth in zip(self.instructions, self.depths, strict=True):
            if depth is not None:
                # 3.13 has the keyword names of a call on the stack for a moment.
                spare = PY313 and instruction.op == "CALL_KW"
                size = max(size, depth + spare, depth + stack_effect(instruction))
        return size

    @cached_property
    def offsets_kept(self) -> list[frozenset[int]]:
        """The places of the stack that hold what a handler with ``lasti`` found: offsets in this very code."""
        places: list[frozenset[int]] = [frozenset()] * len(self.instructions)
        todo, seen = [0], {0}
        while todo:
            i = todo.pop()
            handler = self.instructions[i].handler
            onward = [(j, places[i]) for j in self.successors[i]]
            if handler is not None:
                # The handler cuts the stack, and with it the places above; its own offset comes to lie at `depth`.
                below = frozenset(place for place in places[i] if place < handler.depth)
                onward.append((self.position(handler.target), below | ({handler.depth} if handler.lasti else set())))
            for j, held in onward:
                depth = self.depths[j]
                if j not in seen and depth is not None:
                    places[j] = frozenset(place for place in held if place < depth)
                    seen.add(j)
                    todo.append(j)
        return places

    # --------------------------------------------------------------------------------------------------------- liveness

    def live(self) -> Liveness:
        """The variables that may still be read, before each instruction."""
        return Liveness(self)


# Opcodes that look at a local variable's slot.  LOAD_FAST_AND_CLEAR also empties it.
_READS = frozenset(
    {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "MAKE_CELL", "LOAD_CLOSURE"}
    | {"LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
)


class Liveness:
    """Backward data flow over variable slots, as bit sets.

    A variable is live where some path reads its slot before writing it.  Cells count as read by whatever uses
    their slot, be it to store into them.  An exception edge leaves in the middle of an instruction, before its write.
    """

    def __init__(self, flow: Flow) -> None:
        self._bits: dict[str, int] = {}
        # One bit for each name: a function has few variables and many instructions, and sets of names would be slow.
        reads, writes = [], []
        for instruction in flow.instructions:
            read = write = 0
            if OPERANDS.get(instruction.op) is Operand.SLOT:
                bit = 1 << self._bits.setdefault(instruction.arg, len(self._bits))
                read = bit if instruction.op in _READS else 0
                write = bit if instruction.op in ("STORE_FAST", "LOAD_FAST_AND_CLEAR") else 0
            reads.append(read)
            writes.append(write)
        self._before = _solve(flow, reads, writes)

    def before(self, i: int) -> frozenset[str]:
        """The variables that are live before instruction `i`."""
        live = self._before[i]
        return frozenset(name for name, bit in self._bits.items() if live >> bit & 1)


def _solve(flow: Flow, reads: list[int], writes: list[int]) -> list[int]:
    """The live variables before each instruction, as bits: a fixed point, found by walking backwards."""
    before = [0] * len(reads)
    handlers = [flow.handler(i) for i in range(len(reads))]
    changed = True
    while changed:  # one pass for straight code, one more for each nesting of loops
        changed = False
        for i in range(len(reads) - 1, -1, -1):
            after = 0
            for following in flow.successors[i]:
                after |= before[following]
            live = reads[i] | after & ~writes[i]
            handler = handlers[i]
            if handler is not None:
                live |= before[handler]
            if live != before[i]:
                before[i] = live
                changed = True
    return before


def raises_again(instruction: Instruction) -> bool:
    """True if this raises the exception that was being handled, which leaves its traceback as it is."""
    again = instruction.op in ("RERAISE", "END_ASYNC_FOR", "CLEANUP_THROW")
    return again or (instruction.op == "RAISE_VARARGS" and instruction.arg == 0)


def acts_when_closed(handler: Handler | None) -> bool:
    """True if a generator that is closed where it waits, under this handler, runs code of its own.

    From 3.12 on a handler around every generator turns StopIteration into another error: that one does not count, nor
    does the one that passes an exception on to what is waited for.
    """
    while handler is not None and handler.target.op == "CLEANUP_THROW":
        handler = handler.target.handler
    return handler is not None and handler.target.op != "CALL_INTRINSIC_1"
