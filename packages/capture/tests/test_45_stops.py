"""Wherever evaluation stops, CPython finds the stack and the variables as the program left them."""

import random

import pytest

import capture
from capture.errors import Break, Reason
from capture.evaluator.stepper import Stepper

# Evaluation cannot stop at these: they move values about, or control.
NEVER_STOPPED_AT = frozenset(
    {"COPY", "SWAP", "PUSH_NULL", "POP_TOP", "NOP", "RESUME", "JUMP", "JUMP_NO_INTERRUPT", "MAKE_CELL", "RETURN_VALUE"}
    | {"PUSH_EXC_INFO", "POP_EXCEPT", "LOAD_CONST", "LOAD_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_CLOSURE", "STORE_FAST"}
    | {"STORE_DEREF", "LOAD_ASSERTION_ERROR"}
    | {"LOAD_FAST_CHECK", "LOAD_DEREF", "DELETE_FAST", "DELETE_DEREF"}  # only where the variable is unbound
)

FEW = {"b": 1}


class Row(list):
    pass


def containers(x):
    rows = (*x, 3, [4, *x], {*x, 5}, {"a": x, **FEW})
    return rows, [item * 2 for item in x], {item: str(item) for item in x}, {item % 2 for item in x}


def tuples(x):
    return len((*x, Row(x), 1, *x, Row(x), Row((1, *x)))), (*x, Row(x), *x, Row(x))


def calls(x, *more, key=1, **rest):
    first, *others = map(str, x)
    return max(*x, *more), dict(a=1, **FEW), first.join(others), f"{first!r:>5}{key}{x}", rest, sorted(x, key=abs)


def control(x):
    found = []
    for item in x:
        if item is None or not item > 1:
            continue
        try:
            found.append(10 // (item - 2))
        except ZeroDivisionError as error:
            found.append(str(error))
        finally:
            found.append(-item)
    else:
        found[0:1] = [len(found)]
    del found[-1]
    return found[::2], 1 < len(found) < 9, found[0] if found else None


def patterns(x):
    match {"a": x, "b": 2}:
        case {"a": [first, *_], **others}:
            return first, others


def variables(x):
    count = 0

    def step(by=x[0], *, scale: int = 2):
        nonlocal count
        count += by * scale
        return count

    holder = type("Holder", (), {})()
    holder.value = step()
    holder.value += 1
    del x[0]
    x[0] += holder.value
    return x, count, holder.value


PROGRAMS = [containers, tuples, calls, control, patterns, variables]


class StopsAt:
    """``Stepper.step``, except that the root's instructions are stopped at whose numbers are in ``steps``."""

    def __init__(self, steps, never=NEVER_STOPPED_AT):
        self.steps, self.never = steps, never
        self.seen = 0
        self.original = Stepper.step

    def __call__(self, stepper, frame):
        instruction = frame.instructions[frame.pc]
        if frame is stepper.frames[0] and instruction.op not in self.never:
            self.seen += 1
            if self.seen in self.steps:
                frame.current = instruction
                frame.pc += 1
                raise Break(Reason("test", f"stopped at {instruction.op}"), frame.location())
        self.original(stepper, frame)


def run_with(stops, program, monkeypatch, strict=True):
    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "step", lambda stepper, frame: stops(stepper, frame))
        options = capture.Options(leave_idle=False, strict=strict)
        return capture.optimize("eager", options=options)(program)([1, 2, 3])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_stop_at_any_instruction(program, monkeypatch):
    expected, step, seen = program([1, 2, 3]), 0, 1
    while seen > step:
        step += 1
        stops = StopsAt({step})
        assert run_with(stops, program, monkeypatch) == expected
        seen = stops.seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_stops_at_many_instructions(program, monkeypatch):
    expected, choice = program([1, 2, 3]), random.Random(0)
    for share in (2, 3, 5, 9, 17) * 4:
        steps = {step for step in range(200) if choice.randrange(share) == 0}
        assert run_with(StopsAt(steps), program, monkeypatch) == expected


@pytest.mark.parametrize("op", ["STORE_FAST", "LOAD_FAST"])
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_a_stop_that_would_lose_a_variable_is_refused(op, monkeypatch):
    def program(x):
        count = len(x)
        return count + x[0]

    expected = program([1, 2, 3])
    for step in (1, 2):
        stops = StopsAt({step}, NEVER_STOPPED_AT - {op})
        assert run_with(stops, program, monkeypatch, strict=False) == expected
    with pytest.raises(capture.InternalError, match="without the variable"):
        run_with(StopsAt(set(range(9)), NEVER_STOPPED_AT - {op}), program, monkeypatch)
