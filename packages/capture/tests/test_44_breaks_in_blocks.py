"""Breaks inside loops, ``with`` and ``try``: what follows is captured again, block and all."""

import contextlib
import operator
import sys
import traceback
import weakref

import pytest
import torch

import capture


def counts(log):
    graphs = [len(record.operators) for record in log.records() if isinstance(record, capture.GraphRecord)]
    return graphs, len([record for record in log.records() if isinstance(record, capture.BreakRecord)])


def test_the_rounds_of_a_loop_share_what_was_captured_for_one(check, x):
    def rounds(a):
        for _ in range(50):
            a = a * 1.01 + 1
            capture.graph_break()
            a = a.sin()
        return a

    log = check(rounds, x, graphs=3, breaks=1)
    assert counts(log) == ([2, 1, 2], 1)


def test_the_stack_does_not_grow_with_the_rounds(check, x):
    rounds = 3 * sys.getrecursionlimit()

    def many(a):
        n = 0
        while n < rounds:
            n += 1
            capture.graph_break()
        return a + n

    check(many, x, graphs=2, breaks=1)


def test_loops_in_loops(check, x):
    def nested(a):
        for row in [a, a + 1, a + 2]:
            for k, scale in enumerate((1, 2)):
                a = a + row * scale
                capture.graph_break()
                a = a - k
        return a

    check(nested, x, graphs=5, breaks=1)


def test_a_loop_over_a_list_that_grows(check, x):
    def grow(a):
        items = [1, 2]
        for item in items:
            a = a + item
            capture.graph_break()
            if len(items) < 4:
                items.append(item + 1)
        return a, items

    check(grow, x, graphs=3, breaks=1)


@pytest.mark.parametrize("view", [dict.items, dict.values, dict.keys, reversed, enumerate])
def test_a_loop_over_a_dict(check, x, view):
    def over(a):
        seen = []
        for item in view({"a": a, "b": a + 1}):
            capture.graph_break()
            seen.append(item)
        return seen, a + 1

    check(over, x, graphs=2, breaks=1)


def test_a_loop_over_a_generator(check, x):
    def over(a):
        def steps():
            for k in range(3):
                yield a * k

        total = 0
        for item in steps():
            total = total + item
            capture.graph_break()
            total = total * 2
        return total

    check(over, x, graphs=3, breaks=1)


def test_break_continue_and_else(check, x):
    def leave(a, limit):
        for k in range(9):
            if k % 2:
                continue
            a = a * 2
            if a.sum() > limit:
                break
        else:
            a = a - 1
        return a

    check(leave, x, 100.0, graphs=3, breaks=1)
    check(leave, x, 1e9, graphs=4, breaks=1)


def test_every_part_of_a_try_is_captured(check, x):
    def parts(a):
        try:
            a = a + 1
            capture.graph_break()
            a = a * 2
            raise KeyError("k")
        except KeyError as error:
            a = a - 1
            capture.graph_break()
            a = a * 3
            text = repr(error)
        finally:
            a = a / 2
        return a + 1, text

    log = check(parts, x, graphs=4, breaks=2)
    assert sum(counts(log)[0]) == 6


def test_what_a_handler_sees_is_real(check, x):
    def look(a):
        try:
            a = a + 1
            raise ValueError("v") from KeyError("k")
        except ValueError as error:
            lines = [frame.line for frame in traceback.extract_tb(error.__traceback__)]
            return a * 2, lines[-1], repr(error.__cause__), sys.exc_info()[1] is error

    check(look, x, graphs=2, breaks=None)


def test_an_exception_raised_while_handling_another(check, x):
    def chain(a):
        try:
            try:
                a = a + 1
                capture.graph_break()
                raise KeyError("inner")
            except KeyError:
                capture.graph_break()
                raise ValueError("outer")
        except ValueError as error:
            return a * 2, repr(error.__context__), error.__cause__, error.__suppress_context__

    check(chain, x, graphs=2, breaks=2)


def test_a_bare_raise_after_a_break_in_the_handler(check, x):
    def again(a):
        try:
            try:
                return [a][3]
            except IndexError:
                capture.graph_break()
                raise
        except IndexError as error:
            return a + 1, str(error)

    check(again, x, graphs=1, breaks=1)


def test_finally_runs_once_when_an_exception_leaves(check, x):
    done = []

    def leave(a):
        try:
            a = a + 1
            capture.graph_break()
            return [a][5]
        finally:
            done.append(1)

    check(leave, x, breaks=1)
    assert done == [1, 1]
    assert sys.exc_info() == (None, None, None)


def test_gradients_stay_off_after_a_break_under_no_grad(check, x):
    def off(a):
        with torch.no_grad():
            b = a * 2
            capture.graph_break()
            c = b + a
        return c * 2 + a, torch.is_grad_enabled()

    log = check(off, x.requires_grad_(), graphs=2, breaks=1)
    assert "add" in str(counts(log)) or sum(counts(log)[0]) >= 4


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return 3

    def __exit__(self, cls, value, trace):
        self.log.append((cls, repr(value), trace is None))
        return cls is ValueError


@contextlib.contextmanager
def written_as_a_generator(log):
    log.append("in")
    try:
        yield 3
    except ValueError as error:
        log.append(traceback.extract_tb(error.__traceback__)[-1].line)
    finally:
        log.append("out")


@pytest.mark.parametrize("manager", [Manager, written_as_a_generator])
@pytest.mark.parametrize("fails", [True, False])
def test_a_managers_exit_sees_the_exception(check, x, manager, fails):
    def managed(a):
        log = []
        with manager(log) as number:
            a = a + number
            capture.graph_break()
            a = a * 2
            if fails:
                raise ValueError("x")
        return a + 1, log

    # The frame of a generator has a graph of its own; what reads the traceback that is thrown into it breaks twice.
    is_generator = manager is written_as_a_generator
    check(managed, x, graphs=3 if is_generator else 2, breaks=3 if is_generator and fails else 1)


def test_what_the_program_has_let_go_is_gone(x):
    watched, gone = [], []
    watch = capture.disable(lambda tensor: watched.append(weakref.ref(tensor)))
    look = capture.disable(lambda: gone.append(watched[-1]() is None))

    def step(a):
        big = a + 1
        watch(big)
        b = big * 2
        del big
        capture.graph_break()
        look()
        return b

    region = capture.optimize("eager", strict=True)(step)
    region(x)
    region(x)
    assert gone == [True, True]


def test_unbound_variables_stay_unbound(check, x):
    def unbound(a):
        for k in range(3):
            if k == 1:
                try:
                    print(late)
                except NameError as error:
                    a, text = a + 1, str(error)
            capture.graph_break()
            late = k
            if k == 0:
                del late
        return a, text

    check(unbound, x, breaks=1)


def deleted_but_wanted(a, y):
    z, r = y, a + 1
    del y
    try:
        return r + y  # noqa: F821 - it is gone
    except UnboundLocalError as error:
        return str(error), z


def deleted_twice(a, y):
    inner, r = lambda: y, a + 1  # noqa: F821 - it will be gone
    del y
    try:
        del y  # noqa: F821 - it is gone
    except UnboundLocalError as error:
        return str(error), r, inner is None


def unbound_in_a_closure(a, y):
    inner = lambda: (late, y)
    r = a + 1
    try:
        inner()
    except NameError as error:
        first = type(error), str(error)
    try:
        late, r = late, y
    except NameError as error:
        return first, type(error), str(error), r


def bound_in_one_branch(a, y):
    if y is None:
        late = 1
    r = a + 1
    return [late for _ in range(2)], r


def unbound_in_a_cell(a, y):
    a.add_(1)
    late = late  # noqa: F821 - it is bound below, in no call
    return lambda: late


def deleted_by_a_closure(a, y):
    def end():
        nonlocal y
        del y

    a.add_(y)
    end()
    return y


def unbound_behind_a_break(a, y):
    with torch.no_grad():
        capture.graph_break()
        a.add_(1)
        late = late  # noqa: F821 - it is bound below, in no call
    return lambda: late


def deleted_behind_a_break(a, y):
    with torch.no_grad():
        capture.graph_break()
        a.add_(1)
        del late  # noqa: F821 - it is bound below, in no call
    late = a
    return lambda: late


WANTED_IN_VAIN = [deleted_but_wanted, deleted_twice, unbound_in_a_closure, bound_in_one_branch]
WANTED_IN_VAIN += [unbound_in_a_cell, deleted_by_a_closure, unbound_behind_a_break, deleted_behind_a_break]


BREAK_FIRST = [unbound_behind_a_break, deleted_behind_a_break]
if sys.version_info < (3, 12):  # comprehensions are functions there
    BREAK_FIRST.append(bound_in_one_branch)


@pytest.mark.parametrize("play", WANTED_IN_VAIN)
def test_a_variable_that_is_asked_for_in_vain(check, x, play):
    check(play, x, 2 * x, breaks=int(play in BREAK_FIRST))


def test_a_variable_that_is_asked_for_in_vain_once(same):
    """The same code behind a break, where the variable of a closure is bound or not."""

    def function(a, is_bound):
        if is_bound:
            late = a
        with torch.no_grad():
            capture.graph_break()
            a = a + 1
            late = late * 2
        return a, (lambda: late)()

    compiled = capture.optimize("eager", strict=True)(function)
    for is_bound in (False, True, False, True):
        if is_bound:
            same(function(torch.ones(2), True), compiled(torch.ones(2), True))
        else:
            with pytest.raises(UnboundLocalError, match="'late'"):
                compiled(torch.ones(2), False)


def test_closures_made_in_a_broken_loop_share_their_variable(check, x):
    def closures(a):
        made = []
        for k in range(3):
            b = a * k
            made.append(lambda: b)
            capture.graph_break()
        return [function() for function in made]

    check(closures, x, graphs=3, breaks=1)


def test_a_list_that_only_grows_is_not_looked_into(same, x):
    def collect(a):
        seen = []
        for _ in range(20):
            a = a + 1
            capture.graph_break()
            seen.append(a)
            seen += [a]
            seen.extend((a,))
        return seen

    log = capture.Log()
    same(collect(x), capture.optimize("eager", strict=True, log=log)(collect)(x))
    assert not [record for record in log.records() if isinstance(record, capture.RecompileRecord)]


def test_a_list_that_grew_is_looked_into(check, x):
    def look(a, seen):
        seen.append(a + 1)
        return len(seen), seen[0] + seen[-1]

    check(look, x, [x * 2])


def test_what_a_backend_raises_after_a_break_passes_through_the_blocks_around_it():
    entered = []

    @contextlib.contextmanager
    def block():
        entered.append("in")
        try:
            yield
        finally:
            entered.append("out")

    def f(x):
        with torch.no_grad(), block():
            y = x + 1
            capture.graph_break()
            return y * 2

    def backend(gm, example_inputs):
        if any(node.target is operator.mul for node in gm.graph.nodes):
            raise ValueError("not today")
        return gm.forward

    for _ in range(2):
        with pytest.raises(capture.BackendError, match="not today"):
            capture.optimize(backend)(f)(torch.ones(2))
        assert torch.is_grad_enabled()
    assert entered == ["in", "out"] * 2


def test_a_warning_that_is_an_error_passes_through_the_blocks_around_it():
    def f(x, factor):
        with torch.no_grad():
            y = x + 1
            capture.graph_break()
            return y * factor

    compiled = capture.optimize("eager", recompile_limit=2)(f)
    for factor in (1.0, 2, True):
        with contextlib.suppress(capture.CaptureWarning):
            torch.testing.assert_close(compiled(torch.ones(2), factor), f(torch.ones(2), factor))
        assert torch.is_grad_enabled()


# -- super() behind breaks --------------------------------------------------------------------------------------------
# `super()` behind a graph break: its object is in a cell, or it was made before the break and is handed over.


class Base:
    def forward(self, x):
        return x * 2


class InCell(Base):
    def forward(self, x):
        print(end="")
        alike = [self for _ in range(2)]
        of_self = lambda: self
        return super().forward(x) + len(alike) + (of_self() is self)


class InInnerFunction(Base):
    def forward(self, x):
        x = x + x.sum().item()

        def inner():
            return super(InInnerFunction, self).forward(x)

        return super().forward(inner())


class MadeBefore(Base):
    def forward(self, x):
        above = super()
        print(end="")
        return above.forward(x) + self.of(above, x)

    def of(self, above, x):
        return above.forward(x) - 1


class OfSets(set):
    def __init__(self, *items):
        super().__init__(items)


@pytest.mark.parametrize("cls", [InCell, InInnerFunction, MadeBefore])
def test_the_method_above_is_found(cls):
    compiled = capture.optimize("eager")(lambda x: cls().forward(x))
    for size in (2, 2, 3):
        assert compiled(torch.ones(size)).equal(cls().forward(torch.ones(size)))


def test_a_set_of_sizes_that_vary_is_initialised():
    compiled = capture.optimize("eager")(lambda x, n: (x + 1, OfSets(1, n)))
    assert [compiled(torch.ones(2), n)[1] for n in (1, 2, 3)] == [OfSets(1, n) for n in (1, 2, 3)]


def test_locals_behind_a_break_hold_values_of_cells():
    def function(x, k):
        print(end="")
        inner = lambda: k
        return x + inner(), locals()["k"]

    assert capture.optimize("eager")(function)(torch.ones(2), 3)[1] == 3
