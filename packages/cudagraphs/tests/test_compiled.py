"""Functions that a compiler made: boxed, guarded by their caller, checked by their graph."""

import pytest
import torch
from torch import fx

from cudagraphs import Manager, Options, Refusal, capture_compiled
from cudagraphs.emulated import EmulatedDriver
from cudagraphs.gain import Took

EACH_CALL_COUNTS = Options(warmups=1, gain_samples=0)


@pytest.fixture
def manager():
    return Manager(EmulatedDriver())


def graph_of(*operators):
    graph = fx.Graph()
    value = graph.placeholder("x")
    for operator in operators:
        value = graph.call_function(operator, (value,))
        value.stack_trace = 'File "model.py", line 7, in forward'
    graph.output(value)
    return fx.GraphModule({}, graph)


def emptying(fn):
    """A boxed function that lets go of its inputs, as compiled code does."""

    def boxed(inputs):
        values = inputs[:]
        inputs.clear()
        return fn(*values)

    return boxed


def test_a_boxed_function_may_empty_its_list(manager):
    call = capture_compiled(
        emptying(lambda x, w: [x * w]), graph_of(), [torch.ones(2)] * 2, options=EACH_CALL_COUNTS, where=manager
    ).call
    w = torch.full((2,), 3.0)
    assert [call([torch.full((2,), float(n)), w])[0].tolist() for n in range(5)] == [[3.0 * n] * 2 for n in range(5)]
    assert (manager.report().recorded, manager.report().plain) == (1, 0)


def test_each_value_of_an_integer_has_a_recording_of_its_own(manager):
    call = capture_compiled(
        emptying(lambda n, x: [x[:n] + n]), graph_of(), [2, torch.ones(4)], options=EACH_CALL_COUNTS, where=manager
    ).call
    for n in (2, 3, 2, 3, 2, 3):
        assert call([n, torch.ones(4)])[0].tolist() == [n + 1.0] * n
    assert manager.report().recorded == 2


def test_an_operator_that_cannot_be_recorded_is_named_with_its_line_and_told(manager):
    told = []
    captured = capture_compiled(
        emptying(lambda x: [x.nonzero()]),
        graph_of(torch.ops.aten.relu.default, torch.ops.aten.nonzero.default),
        [torch.ones(2)],
        name="inference",
        tell=told.append,
        where=manager,
    )
    assert [captured.call([torch.ones(1)])[0].tolist() for _ in range(4)] == [[[0]]] * 4
    (refused,) = told
    assert (refused.reason, refused.function) == (Refusal.DYNAMIC_SHAPE, "inference")
    assert "nonzero" in refused.detail
    assert "model.py" in refused.where


def test_a_refusal_of_a_later_call_is_told_once(manager):
    told = []
    call = capture_compiled(
        emptying(lambda n, x: [x + n]),
        graph_of(),
        [1, torch.ones(2)],
        options=Options(warmups=1, gain_samples=0, recordings_per_function=2),
        tell=told.append,
        where=manager,
    ).call
    for n in [1, 2, 3, 4] * 3:
        call([n, torch.ones(2)])
    assert [refused.reason for refused in told] == [Refusal.TOO_MANY_RECORDINGS]


def test_without_a_device_the_refusal_is_told_at_once():
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is there")
    told = []
    captured = capture_compiled(emptying(lambda x: [x + 1]), graph_of(), [torch.ones(2)], tell=told.append)
    assert captured.call([torch.ones(2)])[0].tolist() == [2.0, 2.0]
    assert [refused.reason for refused in told] == [Refusal.NO_CUDA]


def test_an_input_that_the_graph_writes_to_is_changed_for_the_caller(manager):
    """By a kernel that torch knows nothing of; the graph says so."""
    graph = fx.Graph()
    x, total = graph.placeholder("x"), graph.placeholder("total")
    graph.call_function(torch.ops.aten.add_.Tensor, (total, x))
    graph.output((x,))

    def kernel(x, total):
        total.data.add_(x)
        return [x * 2]

    call = capture_compiled(
        emptying(kernel), fx.GraphModule({}, graph), [torch.ones(2)] * 2, options=EACH_CALL_COUNTS, where=manager
    ).call
    for n in range(5):
        total = torch.full((2,), 10.0)
        assert call([torch.full((2,), float(n)), total])[0].tolist() == [2.0 * n] * 2
        assert total.tolist() == [10.0 + n] * 2
    assert manager.report().plain == 0


class Slow(EmulatedDriver):
    """Whatever is measured takes as long as the rest."""

    def timed(self, work):
        return Took(1.0, 1.0), work()


def test_a_function_that_gains_nothing_is_not_looked_at_any_more():
    manager = Manager(Slow())
    captured = capture_compiled(
        emptying(lambda x: [x + 1]), graph_of(), [torch.ones(2)], options=Options(warmups=1), where=manager
    )
    captured._function._unguarded = ()  # the device is the CPU here, whose inputs would all be looked at
    calls = [captured.call([torch.full((2,), float(n))])[0].tolist() for n in range(8)]
    assert calls == [[n + 1.0] * 2 for n in range(8)]
    (refused,) = manager.report().refusals
    assert refused.reason is Refusal.NO_GAIN
    assert (manager.report().replayed, manager.report().plain) == (4, 0)
    manager.reset()
    captured.call([torch.ones(2)])
    assert manager.report().warmups == 2
