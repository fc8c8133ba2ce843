"""Frames that break and compute next to nothing in between: CPython runs the loop, or the function, and the rest is
captured as before."""

import pytest
import torch

import capture
from capture import _engine
from capture.entry import lean_frames
from capture.entry.translation import operators_of


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(lean_frames, "REVIEWED_AFTER", 4)


def frames_of(compiled, *args):
    """How many frames the engine looked at in a call, continuations among them."""
    before = _engine.counters()["frames"]
    compiled(*args)
    return _engine.counters()["frames"] - before


def lean_records():
    found = (record for record in capture.records() if isinstance(record, capture.FallbackRecord))
    return [record for record in found if record.reason.kind == "few operators"]


def compiled_of(program, *, calls=3, sizes=(30,)):
    """Compiled, and called until nothing changes any more; the results are eager's in every call."""
    capture.reset()
    compiled = capture.optimize("eager")(program)
    for call in range(calls):
        for size in sizes:
            x = torch.arange(float(size)) - call
            assert repr(compiled(x)) == repr(program(x))
    return compiled


def items(x):
    n = 0.0
    for v in x:
        if v.item() > 0:
            n += v.item()
        else:
            n -= 1
    return n


def halved(x):
    x = x.sum() + 1000
    while x.item() > 1e-3:
        x = x * 0.5
    return x


def counted(x):
    rows = 0
    for row in x.view(-1, 1):
        if row.sum().item() > 3:
            rows += 1
    return rows


def one_by_one(x):
    found = []
    for i in range(x.shape[0]):
        token = int(x[i].item())
        found.append(token)
        if token == 25:
            break
    return found


@pytest.mark.parametrize("program", [items, halved, counted, one_by_one])
def test_a_lean_loop_is_run_by_cpython(program):
    compiled = compiled_of(program)
    few, many = (frames_of(compiled, torch.arange(float(size))) for size in (12, 24))
    assert many == few <= 4
    assert {record.reason.kind for record in lean_records()} == {"few operators"}


def test_a_lean_function_is_left_alone_after_some_calls():
    compiled = compiled_of(items, calls=12, sizes=(3,))
    before = _engine.counters()["hits"]
    assert compiled(torch.ones(3)) == 3
    assert _engine.counters()["hits"] == before


def behind(x):
    n = 0
    for v in x:
        if v.item() > 2:
            n += 1
    y = x * n
    for _ in range(3):
        y = (y.sin() + y.cos()).exp() * 0.5
    return y


def test_what_is_behind_a_lean_loop_is_captured():
    compiled = compiled_of(behind, calls=14)
    kept = [record for record in capture.records() if isinstance(record, capture.GraphRecord)]
    assert any("exp" in record.operators for record in kept)
    assert frames_of(compiled, torch.arange(30.0)) >= 2
    assert len(lean_records()) == 1


def working(x):
    for _ in range(40):
        x = (x.sin() + x.cos()).exp() * 0.5
        if x.sum().item() > 1e6:
            break
    return x


def outer_works(x):
    n = 0
    for _ in range(6):
        for v in x[:8]:
            if v.item() > 2:
                n += 1
        x = ((x.sin() + n).cos() * 3).exp() + 1
    return x, n


def test_a_loop_with_work_in_it_stays_captured():
    compiled = compiled_of(working)
    assert not lean_records()
    assert frames_of(compiled, torch.zeros(30)) >= 40


def test_a_loop_with_work_around_a_lean_one_stays_captured():
    compiled = compiled_of(outer_works)
    assert len(lean_records()) == 1
    assert 6 < frames_of(compiled, torch.arange(30.0)) < 30


def in_a_try(x):
    seen = []
    for v in x:
        try:
            if v.item() > 3:
                raise KeyError(int(v))
            seen.append("low")
        except KeyError as error:
            seen.append(error.args[0])
        finally:
            seen.append(0)
    return seen, x.sum()


def left_by_an_exception(x):
    try:
        for v in x:
            if v.item() > 20:
                raise ValueError(v.item())
    except ValueError as error:
        return str(error), x * 2
    return "none", x


def returned_from(x):
    for i, v in enumerate(x):
        if v.item() > 17:
            return i, x + 1
    else:
        x = x * 2
    return -1, x


def with_cells(x):
    total = 0

    def add(v):
        nonlocal total
        total += v

    for v in x:
        if v.item() > 0:
            add(v.item())
    return total, lambda: total, x.sum()


def maybe_unbound(x):
    for v in x:
        if v.item() > 40:
            last = v.item()
    try:
        return last
    except UnboundLocalError:
        return x * 2


def under_no_grad(x):
    with torch.no_grad():
        for v in x:
            if v.item() > 3:
                x = x + 0
        grad = torch.is_grad_enabled()
    return grad, torch.is_grad_enabled(), x


def nested(x):
    n = 0
    for _ in range(3):
        for v in x[:5]:
            if v.item() > 2:
                n += 1
        while n > 10:
            n -= int(x[0].abs().item()) + 1
    return n


def in_an_expression(x):
    return [i for i, v in enumerate(x) if v.item() > 3] + [sum(1 for v in x if v.item() > 2)]


def reads_its_frame(x):
    for v in x:
        if v.item() > 3:
            y = v.item()
    return sorted(locals())


def named(x, *rest, key=3, **more):
    for v in x:
        if v.item() > key:
            key += 1
    return key, rest, more


PROGRAMS = [in_a_try, left_by_an_exception, returned_from, with_cells, maybe_unbound, under_no_grad, nested]
PROGRAMS += [in_an_expression, reads_its_frame, named]


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_those_of_eager(program):
    def shown(result):
        parts = result if isinstance(result, tuple) else (result,)
        return repr([part() if callable(part) else part for part in parts])

    capture.reset()
    compiled = capture.optimize("eager")(program)
    for call in range(8):
        for size in (30, 7):
            x = torch.arange(float(size)) - call
            assert shown(compiled(x)) == shown(program(x))


def test_a_time_limit_within_such_a_loop_meets_the_handler_around_it():
    class Over(Exception):
        pass

    def program(x):
        n = 0
        try:
            for v in x:
                n += 1
                if v.item() == 27:
                    raise Over
        except Over:
            return n, x.sin()
        return -1, x

    compiled_of(program)


def test_a_stance_that_captures_nothing_lets_go_of_nothing(monkeypatch):
    monkeypatch.setattr(lean_frames, "REVIEWED_AFTER", 10)
    capture.reset()
    compiled = capture.optimize("eager")(items)
    for _ in range(2):
        assert compiled(torch.ones(3)) == 3
    before = capture.set_stance("fail_on_recompile")
    try:
        assert [compiled(torch.ones(3)) for _ in range(4)] == [3] * 4
    finally:
        capture.set_stance(before)
    assert not lean_records()


WORK = {
    "a view": (lambda x: x.view(2, 2)[0].t(), 0),
    "a conversion": (lambda x: x.double(), 0),
    "one kernel": (lambda x: x.sin(), 1),
    "a product": (lambda x: x.view(2, 2) @ x.view(2, 2), 1),
    "a choice": (lambda x: x[torch.tensor([0, 1])], 1),
    "several kernels": (lambda x: x.isfinite(), 4),
}


@pytest.mark.parametrize("name", WORK)
def test_what_a_piece_computes_is_counted_in_kernels(name):
    program, expected = WORK[name]
    found = []
    capture.reset()
    capture.optimize(lambda gm, inputs: found.append(operators_of(gm)) or gm.forward)(program)(torch.ones(4))
    assert found == [expected]
