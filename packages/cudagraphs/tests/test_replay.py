"""Captured functions on the simulated device: what a caller sees."""

import pytest
import torch

from cudagraphs import capture_on


def test_a_replay_computes_with_the_inputs_of_the_call(device, manager, captured):
    increment = captured(lambda x: x + 1)
    assert [increment(device.tensor([n, n])).tolist() for n in range(5)] == [[n + 1, n + 1] for n in range(5)]
    assert (manager.report().recorded, manager.report().replayed) == (1, 4)


@pytest.mark.parametrize("copy_below", [0, 1 << 20])
def test_outputs_that_are_held_survive_the_next_calls(device, captured, copy_below):
    increment = captured(lambda x: x + 1, copy_below=copy_below)
    held = [increment(device.tensor([n])) for n in range(30)]
    assert [tensor.tolist() for tensor in held] == [[n + 1] for n in range(30)]


def test_a_view_keeps_the_output_it_views(device, captured):
    increment = captured(lambda x: x + 1)
    parts = [increment(device.tensor([n, n + 1]))[1:] for n in range(6)]
    assert [part.tolist() for part in parts] == [[n + 2] for n in range(6)]


def test_an_output_found_held_is_copied_out_from_then_on(device, manager, captured):
    increment = captured(lambda x: x + 1)
    held = [increment(device.tensor([n])) for n in range(10)]
    report = manager.report()
    assert len(held) == 10
    assert (report.recorded, report.copied_out, report.copied_out_bytes, report.plain) == (3, 7, 56, 0)


def test_a_large_output_found_held_is_recorded_around_first(device, manager, captured):
    increment = captured(lambda x: x + 1, copy_below=0, branches=100)
    for n in range(10):
        previous = increment(device.tensor([n]))  # held while the next call runs
    assert previous.tolist() == [10]
    # One recording with nothing held, and two that take turns.
    assert (manager.report().recorded, manager.report().copied_out) == (3, 0)


def test_memory_of_dropped_outputs_is_used_again(device, manager, captured):
    double, triple = captured(lambda x: x * 2), captured(lambda x: x * 3)
    for n in range(4):
        double(device.tensor([n] * 8))
        triple(device.tensor([n] * 8))
    first, second = manager.tree.recordings
    assert first.loans[0].block == second.loans[0].block


def test_memory_of_a_held_output_is_left_alone_by_another_function(device, captured):
    double, triple = captured(lambda x: x * 2), captured(lambda x: x * 3)
    for n in range(5):
        held = double(device.tensor([n]))
        triple(device.tensor([n]))
        assert held.tolist() == [2 * n]


def test_the_output_of_one_graph_is_read_in_place_by_the_next(device, manager, captured):
    double, increment = captured(lambda x: x * 2), captured(lambda x: x + 1)
    for n in range(6):
        assert increment(double(device.tensor([n]))).tolist() == [2 * n + 1]
    assert manager.tree.recordings[1].inputs.in_place == (0,)
    assert manager.report().recorded == 2


def test_a_changed_parameter_is_seen_and_a_moved_one_noticed(device, manager, captured):
    scale = captured(lambda w, x: w * x, static=[0])
    weight = device.tensor([2])
    for n in range(3):
        scale(weight, device.tensor([n]))
    weight.add_(1)
    assert scale(weight, device.tensor([5])).tolist() == [15]
    assert scale(device.tensor([7]), device.tensor([5])).tolist() == [35]
    assert manager.report().recorded == 2


def test_a_parameter_that_keeps_moving_is_copied(device, manager, captured):
    scale = captured(lambda w, x: w * x, static=[0], copy_below=0, branches=1)
    weights = [device.tensor([n]) for n in range(12)]
    assert [scale(weight, device.tensor([3])).tolist() for weight in weights] == [[3 * n] for n in range(12)]
    assert manager.report().recorded == 3


def test_an_input_that_lies_still_is_read_in_place_without_being_declared(device, manager, captured):
    scale = captured(lambda w, x: w * x)
    weight = device.tensor([2])
    assert [scale(weight, device.tensor([n])).tolist() for n in range(5)] == [[2 * n] for n in range(5)]
    assert [recording.inputs.in_place for recording in manager.tree.recordings] == [(0,)]


def test_an_input_that_only_seemed_to_lie_still_is_copied_from_then_on(device, manager, captured):
    increment = captured(lambda x: x + 1, copy_below=0, branches=100)
    still = device.tensor([7])
    assert [increment(still).tolist() for _ in range(3)] == [[8]] * 3
    assert [increment(device.tensor([n])).tolist() for n in range(5)] == [[n + 1] for n in range(5)]
    assert [recording.inputs.copied for recording in manager.tree.recordings] == [(), (0,)]


def test_another_tensor_at_the_address_of_a_dropped_one_does_not_lie_still(device, manager, captured):
    increment = captured(lambda x: x + 1)
    addresses = set()
    for n in range(4):
        x = device.tensor([n])
        addresses.add(device.address(x))
        assert increment(x).tolist() == [n + 1]
        del x
    assert len(addresses) == 1
    assert manager.tree.recordings[0].inputs.copied == (0,)


def test_a_change_to_an_input_reaches_the_caller(device, captured):
    def update(x):
        x.add_(10)
        return x * 2

    bump = captured(update)
    for n in range(5):
        mine = device.tensor([n])
        assert bump(mine).tolist() == [2 * (n + 10)]
        assert mine.tolist() == [n + 10]


def test_a_change_that_torch_does_not_see_reaches_the_caller_if_declared(device, captured):
    def update(x):
        device.compute("add", x, 10, out=x)  # no version is counted
        return x * 2

    bump = captured(update, mutated=[0])
    for n in range(5):
        mine = device.tensor([n])
        bump(mine)
        assert mine.tolist() == [n + 10]


def test_a_view_of_an_input_is_a_view_of_this_calls_input(device, captured):
    tail = captured(lambda x: [x[1:], x])
    for n in range(4):
        mine = device.tensor([0, n, n + 1])[1:]
        part, same = tail(mine)
        assert part.tolist() == [n + 1]
        assert part.storage is mine.storage
        assert same is mine


def test_two_outputs_over_one_storage_stay_so(device, captured):
    views = captured(lambda x: (lambda y: (y, y[1:]))(x + 1))
    for n in range(4):
        whole, part = views(device.tensor([n, n]))
        whole.add_(5)
        assert part.tolist() == [n + 6]


def test_plain_values_and_constants(device, captured):
    constant = device.tensor([99])
    add = captured(lambda x, k: (x + k, k, None, constant))
    for n in range(4):
        for k in (1, 2):
            total, *rest = add(device.tensor([n]), k)
            assert (total.tolist(), rest) == ([n + k], [k, None, constant])


def test_the_result_has_the_functions_own_structure(device, captured):
    for fn, kind in [
        (lambda x: [x + 1], list),
        (lambda x: (x + 1,), tuple),
        (lambda x: x + 1, type(device.tensor([1]))),
    ]:
        call = captured(fn)
        assert {type(call(device.tensor([n]))) for n in range(3)} == {kind}


def test_a_captured_function_inside_another_becomes_part_of_it(device, manager, captured):
    inner = captured(lambda x: x + 1)
    outer = captured(lambda x: inner(x) * 2)
    for n in range(6):
        assert outer(device.tensor([n])).tolist() == [2 * n + 2]
    assert {recording.function for recording in manager.tree.recordings} == {outer.__name__}


def test_parameters_and_buffers_of_a_module_are_inputs(device, manager):
    module = torch.nn.BatchNorm1d(2)
    captured = capture_on(None, module, [None])
    assert captured._function.static == {1, 2, 3, 4, 5}
    x = torch.ones(3, 2)
    assert torch.equal(captured(x), module(x))


def test_an_output_held_by_another_function_is_read_and_never_overwritten(device, captured):
    double = captured(lambda x: x * 2)
    double(device.tensor([0]))
    table = double(device.tensor([21]))
    look_up = captured(lambda x: x + table)
    for n in range(5):
        assert look_up(device.tensor([n])).tolist() == [n + 42]
        assert double(device.tensor([n])).tolist() == [2 * n]
    assert table.tolist() == [42]
