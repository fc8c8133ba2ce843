"""Functions that write to two arguments, of which torch refuses one: that one is another kind of tensor in each call.

What is written before the refusal is written once, and the error is eager's.
"""

import contextlib
import itertools

import pytest
import torch

import compile_api

KINDS = {
    "with a history": lambda w: w * 1,
    "a leaf": lambda w: w,
    "a view of what has a history": lambda w: (w * 1)[:2],
    "a view of a leaf": lambda w: w[:2],
    "plain": lambda w: torch.ones(2),
    "detached": lambda w: w.detach(),
    "a view without gradients": lambda w: torch.no_grad()((w * 1).narrow)(0, 0, 2),
    "one of several views": lambda w: (torch.stack([w, w]) * 1).unbind()[0],
    "of inference mode": lambda w: torch.inference_mode()(torch.ones)(2),
}
FIRST = {"plain": lambda: torch.ones(2), "with a history": lambda: torch.ones(2, requires_grad=True) * 1}


def whole(x, items):
    items[-1] += 1
    x.mul_(3)
    return 1


def part(x, items):
    items[-1] += 1
    x[0].mul_(3)
    return x * 2


def seen(call, first, kinds):
    """What both arguments are after calls with these kinds of the second one, and the errors."""
    w = torch.full((2,), 2.0, requires_grad=True)
    for kind in kinds:
        x, items, said = KINDS[kind](w), [first()], ""
        try:
            call(x, items)
        except RuntimeError as error:
            said = str(error).partition(".")[0]
        yield said, items[-1].tolist(), x.tolist(), items[-1]._version, None if x.is_inference() else x._version


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("function", [whole, part])
def test_what_is_written_before_a_refusal_is_written_once(function, first, backend):
    for kinds in itertools.product(KINDS, KINDS):
        compiled = compile_api.compile(function, backend=backend)
        assert list(seen(compiled, FIRST[first], kinds)) == list(seen(function, FIRST[first], kinds)), kinds
        assert compile_api.report(compiled).captured or kinds[0] not in ("plain", "detached")


WRITES = {"whole": lambda x: x.mul_(2), "a part": lambda x: x[:1].mul_(2)}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(("first", "then"), [*itertools.permutations(KINDS, 2)])
def test_effects_come_before_the_error_also_where_another_kind_was_written(first, then, backend, write):
    def function(x, y, seen):
        y.add_(1)
        seen.append(len(seen))
        WRITES[write](x)

    def made(kind):
        return KINDS[kind](torch.ones(2, requires_grad=True))

    region = compile_api.compile(function, backend=backend)
    with contextlib.suppress(RuntimeError):
        region(made(first), torch.zeros(2), [])
    outcomes = []
    for run in (function, region):
        x, y, seen, error = made(then), torch.zeros(2), [], None
        try:
            run(x, y, seen)
        except RuntimeError as raised:
            error = str(raised)
        outcomes.append((error, seen, y.tolist(), x.tolist()))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_the_function_made_in_inference_mode_is_refused_behind_all_effects(backend):
    def function(x, w, seen):
        with torch.inference_mode():
            made = torch.ones(2)
        seen.append(1)
        x.add_(w)
        made[0] = 2.0

    for run in (function, compile_api.compile(function, backend=backend)):
        w, seen = torch.ones(2, requires_grad=True), []
        x = w * 1
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            run(x, w, seen)
        assert (x.tolist(), seen) == ([2, 2], [1])


@pytest.mark.parametrize("operator", [torch.matmul, torch.mm, torch.add, torch.linalg.multi_dot])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_effects_come_before_the_refusal_of_a_value_with_a_history_for_out(operator, backend):
    def program(x, other, out, items):
        x.mul_(2)
        items.append(1)
        operator(*([[x, other]] if operator is torch.linalg.multi_dot else [x, other]), out=out)
        items.append(2)

    f, items = compile_api.compile(program, backend=backend), []
    f(torch.ones(3, 3), torch.ones(3, 3), torch.empty(3, 3), items)
    for _ in range(2):
        x = torch.ones(3, 3, requires_grad=True) * 1
        with pytest.raises(RuntimeError, match="support automatic differentiation"):
            f(x, torch.ones(3, 3), torch.empty(3, 3), items)
        assert x.eq(2).all()
    assert items == [1, 2, 1, 1]
