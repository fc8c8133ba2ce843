"""Steps: forward and backward share a pool, and a program may say where a step begins."""

import gc
import weakref

import pytest

from cudagraphs import CudaGraphsError


def train(device, forward, backward, steps):
    """A model of a training loop: the backward reads what the forward saved."""
    weight, losses = device.tensor([3]), []
    for n in range(steps):
        loss, saved = forward(weight, device.tensor([n]))
        (gradient,) = backward(saved, weight)
        del saved
        weight.add_(gradient)
        losses.append(loss)
    return [loss.tolist() for loss in losses], weight.tolist()


def forward(weight, x):
    saved = weight * x
    return [saved * saved, saved + 1]


def backward(saved, weight):
    return [saved * 2]


def test_training_gives_the_losses_that_it_gives_without_graphs(device, manager, captured):
    graphed = captured(forward, static=[0]), captured(backward, static=[1])
    assert train(device, *graphed, 20) == train(device, forward, backward, 20)
    assert manager.report().replayed >= 36


def test_gradients_that_are_held_during_the_next_forward_are_copied_out(device, manager, captured):
    """As where ``zero_grad`` comes after the forward: the warm-up shows it, and two recordings do for all steps."""
    run_forward, run_backward = captured(forward, static=[0]), captured(backward, static=[1])
    weight, gradient = device.tensor([3]), None
    for n in range(12):
        saved = run_forward(weight, device.tensor([n]))[1]
        if gradient is not None:
            assert gradient.tolist() == [2 * (3 * (n - 1) + 1)]
        gradient = None
        (gradient,) = run_backward(saved, weight)
        del saved
    report = manager.report()
    assert (report.recorded, report.plain, report.copied_out) == (2, 0, 11)


def test_the_backward_is_a_child_of_the_forward(device, manager, captured):
    train(device, captured(forward, static=[0]), captured(backward, static=[1]), 5)
    first, second = manager.tree.recordings[:2]
    assert (second.parent, second.inputs.in_place) == (first, (0, 1))


def test_a_step_that_begins_with_nothing_alive_starts_at_the_root(device, manager, captured):
    double, triple = captured(lambda x: x * 2), captured(lambda x: x * 3)
    for n in range(3):
        double(device.tensor([n]))
        triple(device.tensor([n]))
    assert [recording.parent for recording in manager.tree.recordings] == [None, None]


def test_step_begin_keeps_what_is_held(device, manager, captured):
    increment = captured(lambda x: x + 1)
    held = []
    for n in range(5):
        manager.step_begin()
        held.append(increment(device.tensor([n])))
    assert [tensor.tolist() for tensor in held] == [[n + 1] for n in range(5)]


def test_released_outputs_raise_instead_of_reading_another_steps_values(device, manager, captured):
    increment = captured(lambda x: x + 1)
    held = []
    for n in range(4):
        manager.step_begin(release=True)
        held.append(increment(device.tensor([n])))
    assert held[-1].tolist() == [4]
    with pytest.raises(CudaGraphsError, match="earlier step"):
        held[-2].tolist()
    assert (manager.report().recorded, manager.report().released) == (1, 2)


def test_after_a_reset_everything_is_recorded_anew_and_held_outputs_stay(device, manager, captured):
    increment = captured(lambda x: x + 1)
    held = [increment(device.tensor([n])) for n in range(3)]
    manager.reset()
    held += [increment(device.tensor([n])) for n in range(3, 7)]
    assert [tensor.tolist() for tensor in held] == [[n + 1] for n in range(7)]


@pytest.mark.parametrize("function_is_gone", [False, True])
def test_a_reset_lets_go_of_the_graphs_even_while_outputs_are_held(device, manager, captured, function_is_gone):
    """What a graph keeps may have to go before something else can: a communicator, say."""
    increment = captured(lambda x: x + 1)
    held = [increment(device.tensor([n])) for n in range(3)]
    (buffer,) = {weakref.ref(buffer) for recording in manager.tree.recordings[:1] for buffer in recording.buffers}
    if function_is_gone:
        del increment
    manager.reset()
    gc.collect()
    assert buffer() is None
    assert [tensor.tolist() for tensor in held] == [[1], [2], [3]]
