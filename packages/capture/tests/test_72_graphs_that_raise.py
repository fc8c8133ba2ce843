"""An operator that raises only when the program runs: what follows is what CPython does."""

import contextlib
import sys
import traceback

import pytest
import torch
from torch.nn import functional as nnf

import capture
from capture.recording.journal import _OF_ALL_TYPES
from capture.writing.restart import Failures

OUTSIDE = torch.tensor([5])


def failing(module, examples):
    def call(*args):
        raise ZeroDivisionError("the backend's own")

    return call


def captured(function):
    capture.reset()
    return capture.optimize("eager", options=capture.Options(strict=True, leave_idle=False))(function)


def rows(table, index=OUTSIDE):
    return table[index]


def test_the_users_handler_sees_it():
    def function(table):
        try:
            return rows(table * 2)
        except IndexError:
            return table + 1

    assert torch.equal(captured(function)(torch.ones(2)), torch.full((2,), 2.0))


def test_the_users_handler_sees_it_through_a_mode_of_torchs():
    def function(table):
        try:
            with torch.no_grad():
                return rows(table * 2)
        except IndexError:
            return table + 1

    assert torch.equal(captured(function)(torch.ones(2)), torch.full((2,), 2.0))


def test_random_numbers_are_the_same_again():
    def function(table):
        noise = torch.nn.functional.dropout(table, 0.5) + torch.rand(2)
        try:
            return rows(noise)
        except IndexError:
            return noise

    torch.manual_seed(0)
    expected = function(torch.ones(2)), torch.rand(1)
    torch.manual_seed(0)
    actual = captured(function)(torch.ones(2)), torch.rand(1)
    assert all(map(torch.equal, actual, expected))


def test_effects_before_it_happened_and_those_after_did_not():
    def function(table, seen, *more, last):
        seen.append(len(more))
        found = rows(table)
        seen.append(last)
        return found

    seen = []
    with pytest.raises(IndexError):
        captured(function)(torch.ones(2), seen, 1, 2, last=9)
    assert seen == [2]


def test_the_traceback_ends_at_the_operators_line():
    with pytest.raises(IndexError) as raised:
        captured(lambda table: rows(table).sin())(torch.ones(2))
    assert raised.value.__context__ is None
    assert {frame.filename for frame in traceback.extract_tb(raised.tb)} == {__file__}
    assert traceback.extract_tb(raised.tb)[-1].line == "return table[index]"


def test_variables_of_enclosing_functions_are_at_hand():
    offset = torch.tensor(1)

    def function(table):
        shift = 3

        def shifted():
            return rows(table, OUTSIDE - shift - offset)

        try:
            return table[OUTSIDE]
        except IndexError:
            return shifted()

    assert torch.equal(captured(function)(torch.ones(2)), torch.ones(1))


def test_what_follows_a_break_starts_over_from_there():
    def function(table, seen):
        seen.append("before")
        capture.graph_break()
        try:
            return rows(table)
        except IndexError:
            seen.append("handled")
        return table

    seen = []
    assert torch.equal(captured(function)(torch.ones(2), seen), torch.ones(2))
    assert seen == ["before", "handled"]


def test_what_changed_an_input_is_not_done_twice():
    def function(table):
        table.add_(1)
        return rows(table)

    table = torch.zeros(2)
    with pytest.raises(IndexError):
        captured(function)(table)
    assert torch.equal(table, torch.ones(2))


def test_a_graph_that_fails_alone_is_slow_and_said_once():
    capture.reset()
    function = capture.optimize(failing)(lambda x: x + 1)
    with pytest.warns(
        capture.CaptureWarning,
        match="ZeroDivisionError: the backend's own; CPython ran the function, and found no error",
    ):
        assert function(torch.zeros(1)) == 1
    assert function(torch.ones(1)) == 2
    (record,) = [record for record in capture.records() if isinstance(record, capture.FallbackRecord)]
    assert record.reason.kind == "error in a graph"


def test_a_context_manager_may_handle_it_too():
    def function(table):
        with contextlib.suppress(IndexError):
            return rows(table)
        return table

    assert torch.equal(captured(function)(torch.ones(2)), torch.ones(2))


def test_under_strict_it_is_an_error():
    function = capture.optimize(failing, options=capture.Options(strict=True))(lambda x: x + 1)
    with pytest.raises(capture.InternalError, match="the graph raised ZeroDivisionError"):
        function(torch.zeros(1))


def test_an_interrupted_graph_leaves_all_as_it_was():
    """A layer that counted the call, in a program that did not, is none of the program's states."""
    norm, weight, log, interrupts = torch.nn.BatchNorm1d(4), torch.eye(4), [], [KeyboardInterrupt()]

    def interrupted(module, examples):
        def call(*args):
            result = module(*args)
            if interrupts:
                raise interrupts.pop()
            return result

        return call

    def step(x):
        log.append(1)
        return (norm(x) @ weight).tanh()

    compiled = capture.optimize(interrupted)(step)
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.randn(8, 4))
    assert (len(log), norm.num_batches_tracked, norm.running_mean.any()) == (0, 0, False)
    compiled(torch.randn(8, 4))
    assert (len(log), norm.num_batches_tracked) == (1, 1)


def test_an_interrupt_is_not_answered_by_more_work():
    def interrupted(module, examples):
        def call(*args):
            raise KeyboardInterrupt

        return call

    with pytest.raises(KeyboardInterrupt):
        capture.optimize(interrupted)(lambda x: x + 1)(torch.zeros(1))


def running(module, examples):
    """Operator by operator, and nothing promised."""
    return module.forward


def promising(module, examples):
    """Writes at the end."""

    def call(*args):
        copies = [arg.clone() for arg in args]
        results = module.forward(*copies)
        for arg, copy in zip(args, copies, strict=True):
            arg.copy_(copy)
        return results

    call.all_or_nothing = True
    return call


@pytest.mark.parametrize("backend", [running, promising])
def test_changes_ahead_of_an_error_happen_once(backend):
    counted = [0]

    def function(table, seen):
        counted[0] += 1
        seen.add_(1)
        return rows(table)

    seen = torch.zeros(2)
    compiled = capture.optimize(backend)(function)
    for _ in range(3):
        with pytest.raises(IndexError, match="index 5 is out of bounds"):
            compiled(torch.ones(2), seen)
    assert torch.equal(seen, torch.full((2,), 3.0))
    assert counted == [3]
    assert seen._version == 3


def test_a_history_that_changed_ends_the_graph_ahead_of_what_may_raise():
    def function(table, hidden):
        hidden.mul_(2)
        return rows(table)

    capture.reset()
    compiled = capture.optimize(running)(function)
    leaf = torch.ones(2, requires_grad=True)
    hidden = leaf * 1
    with pytest.raises(IndexError):
        compiled(torch.ones(2), hidden)
    hidden.sum().backward()
    assert torch.equal(leaf.grad, torch.full((2,), 2.0))


@pytest.mark.without_graphs("eager refuses it", cases=["False"])
@pytest.mark.parametrize("fits", [True, False])
def test_a_tensor_is_not_its_own_gradient(fits):
    """What follows is not done."""

    def function(x, y):
        x.grad = y if fits else x
        x.detach().view(-1).mul_(2)

    x, expected = torch.ones(2), 2.0 if fits else 1.0
    with contextlib.nullcontext() if fits else pytest.raises(RuntimeError, match="as its own grad"):
        capture.optimize(running)(function)(x, torch.ones(2))
    assert x.tolist() == [expected] * 2


def test_a_change_that_nobody_knows_of_is_not_done_twice():
    def changing(module, examples):
        def call(table, seen):
            seen.add_(1)
            raise ZeroDivisionError("the backend's own")

        return call

    seen = torch.zeros(1)
    with pytest.raises(ZeroDivisionError):
        capture.optimize(changing)(lambda table, seen: (table + 1, seen.add_(1)))(torch.ones(2), seen)
    assert seen == 1


def late(module, examples):
    """Raises when all is done, which nobody could foresee, and cannot be taken back."""

    def call(*args):
        module(*args)
        raise ZeroDivisionError("late")

    return call


def test_what_cannot_be_taken_back_is_raised_within_the_blocks_of_the_rest():
    events = []

    @contextlib.contextmanager
    def noted():
        try:
            yield
        finally:
            events.append(torch.is_grad_enabled())

    def function(x):
        with noted(), torch.no_grad():
            try:
                print(end="")
                x.exp_()
            except ZeroDivisionError as error:
                events.append(str(error))
                raise
            finally:
                events.append("finally")

    with pytest.raises(ZeroDivisionError):
        capture.optimize(late)(function)(torch.ones(2))
    assert events == ["late", "finally", True]
    assert torch.is_grad_enabled()


def dropping(module, examples):
    """A backend that runs what is read, and no more."""
    module.graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    module.recompile()
    return module.forward


UNREAD = {
    "truth minus tensor": lambda x: True - x,
    "tensor minus truth": lambda x: x - True,
    "truths minus number": lambda x: (x > 0) - 1.0,
    "rsub": lambda x: torch.rsub(x, True),
    "rsub with a truth for a factor": lambda x: torch.rsub(x, 1, alpha=True),
    "in place": lambda x: x.clone().sub_(True),
    "a list": lambda x: torch._foreach_sub([x], True),
}


OF_TYPES = {
    "mm": lambda x, y: torch.mm(torch.stack([x] * 3), torch.stack([y] * 3)),
    "layer_norm": lambda x, y: nnf.layer_norm(x, (3,), y),
    "heaviside": lambda x, y: torch.heaviside(x, y),
    "index_select": lambda x, y: x.index_select(0, y),
    "index_fill": lambda x, y: x.index_fill(0, y, 1.0),
    "bitwise_and": lambda x, y: x & y,
    "gcd": lambda x, y: torch.gcd(y, x),
    "lerp": lambda x, y: torch.lerp(y, y, 0.5),
    "gelu": lambda x, y: nnf.gelu(y),
    "round": lambda x, y: y.round(decimals=1),
    "topk": lambda x, y: y.topk(1),
    "argmax": lambda x, y: y.argmax(),
    "atan2": lambda x, y: torch.atan2(x, y),
    "dropout": lambda x, y: nnf.dropout(y, 0.5),
    "dropout in place": lambda x, y: nnf.dropout(y.clone(), 0.5, inplace=True),
    "alpha_dropout": lambda x, y: nnf.alpha_dropout(y, 0.5, training=True),
    "fill_ by several values": lambda x, y: x.clone().fill_(y),
}
TYPES = (torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def ended(function, *args):
    try:
        return function(*args).tolist()
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)


REFUSED = (
    *("truth minus tensor", "tensor minus truth", "rsub", "rsub with a truth for a factor", "a list"),
    *("heaviside", "bitwise_and", "gcd"),
)


@pytest.mark.without_graphs("eager refuses it for all types", cases=REFUSED)
@pytest.mark.parametrize("name", [*UNREAD, *OF_TYPES])
def test_what_nobody_reads_is_refused(name):
    """Fakes let it pass, and a backend may drop it: here the program gives something else."""

    def function(x, y):
        UNREAD[name](x) if name in UNREAD else OF_TYPES[name](x, y)
        return x + 1

    x = torch.ones(3)
    each = [ended(function, x, x.to(kind)) for kind in TYPES]
    assert any(isinstance(one, tuple) for one in each)
    assert each == [ended(capture.optimize(dropping)(function), x, x.to(kind)) for kind in TYPES]


OF_ALL_TYPES = [(name, getattr(torch, name)) for name in sorted(_OF_ALL_TYPES) if hasattr(torch, name)]
FORMS = (lambda call, y: call(y), lambda call, y: call(y, y), lambda call, y: call([y, y]), lambda call, y: call(y, 0))


@pytest.mark.parametrize(("name", "call"), OF_ALL_TYPES)
def test_what_is_said_to_be_of_all_types_is(name, call):
    """Its kernels refuse none, or fakes do as well."""

    def function(x, y):
        form(call, y)
        return x + 1

    x = torch.ones(3)
    for form in FORMS:
        with contextlib.suppress(TypeError):  # another number of operands
            expected = [ended(function, x, x.to(kind)) for kind in TYPES]
            assert expected == [ended(capture.optimize(dropping)(function), x, x.to(kind)) for kind in TYPES]


PRODUCTS = {
    "linear": lambda a, b: nnf.linear(a(3), b(0, 3)),
    "mm": lambda a, b: a(2, 2) @ b(2, 2),
    "mv": lambda a, b: a(2, 2) @ b(2),
    "bmm": lambda a, b: a(1, 2, 2) @ b(1, 2, 2),
    "addmm": lambda a, b: torch.addmm(b(2, 2), a(2, 2), a(2, 2)),
    "conv1d": lambda a, b: nnf.conv1d(a(1, 1, 3), b(1, 1, 2)),
    "cross": lambda a, b: torch.linalg.cross(a(3), b(3)),
    "heaviside": lambda a, b: torch.heaviside(a(2), b(2)),
    "index_add": lambda a, b: a(2).index_add(0, torch.zeros(2, dtype=torch.int64), b(2)),
    "index_copy": lambda a, b: a(2).index_copy(0, torch.zeros(2, dtype=torch.int64), b(2)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_graph_does_not_go_on_behind_a_product_of_two_types(name):
    """Eager does not come there: who traces what follows would be warned by it."""

    def noting(module, examples):
        compiled.append(module.code)
        return module.forward

    def function(x, y):
        PRODUCTS[name](lambda *sizes: x.expand(sizes).clone(), lambda *sizes: y.expand(sizes).clone())
        return x.sin()

    compiled = []
    for kind in (torch.bfloat16, torch.float64, torch.int64):
        with pytest.raises(RuntimeError, match=r"type|scalar|match"):
            capture.optimize(noting)(function)(torch.ones(1), torch.ones(1, dtype=kind))
    assert not any(".sin()" in code for code in compiled)


@pytest.mark.without_graphs("eager refuses it")
def test_a_matrix_of_positions_is_refused_where_nobody_reads():
    def function(x, places):
        x.index_select(0, places)
        return x + 1

    given = torch.ones(3), torch.zeros(1, 1, dtype=torch.int64)
    assert ended(capture.optimize(dropping)(function), *given) == ended(function, *given)


def rewriting(table, written):
    written[:] = [1]
    return rows(table * 2)


CONTAINERS = {
    "a module in another": (torch.nn.Sequential(torch.nn.Embedding(4, 2), torch.nn.BatchNorm1d(2)), (OUTSIDE,)),
    "a list that is rewritten": (rewriting, (torch.ones(2), [0])),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_error_is_eagers_whatever_the_code_rebuilds(kind):
    program, args = CONTAINERS[kind]
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        captured(program)(*args)
    assert sys.exc_info() == (None, None, None)


def test_tools_may_hash_the_code():
    """They keep what they count by the code of frames."""

    def program(model, x, written):
        written[:] = [1]
        return model(x)

    region = captured(program)
    region(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()), torch.ones(2, 3), [])
    (entry,) = capture._engine.entries(program.__code__)
    assert isinstance(hash(entry.code), int)


def test_what_is_raised_while_a_graphs_error_is_looked_at_leaves_nothing_handled(monkeypatch):
    """As the handler of a signal may."""

    def interrupted(self, error):
        raise KeyboardInterrupt

    monkeypatch.setattr(Failures, "start_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        captured(rows)(torch.ones(2))
    assert sys.exc_info() == (None, None, None)


def _given(kind):
    w = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        unknown = (w * 1).view(3, 2)
    return {
        "computed": w * 1,
        "a leaf": w,
        "a view": (w * 1).view(3, 2).t(),
        "of a leaf": w.view(3, 2).t(),
        "one of several": (w * 1)[None].unbind(0)[0],
        "of no history": unknown.t(),
        "without gradients": w.detach(),
    }[kind]


_GIVEN = ["computed", "a leaf", "a view", "of a leaf", "one of several", "of no history", "without gradients"]


@pytest.mark.parametrize("then", _GIVEN)
@pytest.mark.parametrize("first", _GIVEN)
def test_what_torch_lets_nobody_write_to_is_refused_behind_all_effects(first, then):
    def function(x, y, seen):
        y.add_(1)
        seen.append(len(seen))
        x.mul_(2)

    region = captured(function)
    with contextlib.suppress(RuntimeError):
        region(_given(first), torch.ones(2), [])
    outcomes = []
    for run in (function, region):
        x, y, seen, error = _given(then), torch.ones(2), [], None
        try:
            run(x, y, seen)
        except RuntimeError as raised:
            error = str(raised)
        outcomes.append((error, seen, y.tolist(), x.tolist()))
    assert outcomes[0] == outcomes[1]
