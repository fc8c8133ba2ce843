"""What is not recorded runs as it is, and the report says why."""

import gc

import pytest

from cudagraphs import CannotRecord, CudaGraphsError, Options, Refusal


def reasons(manager):
    return [refusal.reason for refusal in manager.report().refusals]


def test_a_function_that_waits_for_the_device_is_refused_with_its_line(device, manager, captured):
    def peek(x):
        return x + x.tolist()[0]

    peeking = captured(peek)
    assert [peeking(device.tensor([n])).tolist() for n in range(4)] == [[2 * n] for n in range(4)]
    (refusal,) = manager.report().refusals
    assert (refusal.reason, manager.report().recorded) == (Refusal.UNSAFE_OPERATOR, 0)
    assert refusal.where.endswith(f"test_refusals.py:{peek.__code__.co_firstlineno + 1}")


def test_the_first_of_several_errors_is_the_one_reported(device, manager, captured, monkeypatch):
    record = device.record

    def fails_at_its_end_too(*call):
        try:
            return record(*call)
        finally:
            raise RuntimeError("the recording was broken off")

    monkeypatch.setattr(device, "record", fails_at_its_end_too)
    peeking = captured(lambda x: x + x.tolist()[0])
    for n in range(3):
        peeking(device.tensor([n]))
    (refusal,) = manager.report().refusals
    assert "not permitted" in refusal.detail
    assert "test_refusals.py" in refusal.where


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_within_a_recording(device, manager, captured, enabled):
    """It may hold graphs, which must not be freed there; and the collector is left as it was."""
    seen = []
    watching = captured(lambda x: (seen.append((device.recording(), gc.isenabled())), x + 1)[1])
    (gc.enable if enabled else gc.disable)()
    try:
        for n in range(3):
            watching(device.tensor([n]))
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
    assert seen == [(False, enabled), (True, False)]


def test_the_users_own_error_is_raised_as_it_is(device, captured):
    def fail(x):
        raise LookupError("mine")

    failing = captured(fail)
    for _ in range(3):
        with pytest.raises(LookupError, match="mine"):
            failing(device.tensor([1]))


def test_a_function_that_keeps_a_tensor_is_refused(device, manager, captured):
    kept = []

    def hoard(x):
        kept.append(x * 2)
        return x + 1

    hoarding = captured(hoard)
    assert [hoarding(device.tensor([n])).tolist() for n in range(4)] == [[n + 1] for n in range(4)]
    assert reasons(manager) == [Refusal.KEEPS_MEMORY]


def test_nothing_more_is_recorded_in_a_pool_that_someone_else_uses(device, manager, captured):
    kept = []
    hoarding = captured(lambda x: kept.append(x * 2) or x + 1)
    increment = captured(lambda x: x + 1)
    for n in range(4):
        hoarding(device.tensor([n]))
        assert increment(device.tensor([n])).tolist() == [n + 1]
    assert reasons(manager) == [Refusal.KEEPS_MEMORY, Refusal.POOL_DISTURBED]


def test_an_output_that_is_no_tensor_is_refused(device, manager, captured):
    nested = captured(lambda x: [{"y": x + 1}])
    assert [nested(device.tensor([n]))[0]["y"].tolist() for n in range(3)] == [[1], [2], [3]]
    assert reasons(manager) == [Refusal.UNKNOWN_OUTPUT]


def test_an_input_that_cannot_be_compared_is_refused(device, manager, captured):
    pick = captured(lambda x, choice: x + choice.value)
    choice = type("Choice", (), {"value": 1})()
    assert pick(device.tensor([1]), choice).tolist() == [2]
    assert reasons(manager) == [Refusal.UNKNOWN_VALUE]


def test_an_input_whose_elements_overlap_is_refused(device, manager, captured):
    increment = captured(lambda x: x + 1)
    from cudagraphs.storage import View

    windows = View("i64", (2, 2), (1, 1), 0)
    overlapping = [device.view_of(device.tensor([1, 2, 3]), windows) for _ in range(3)]
    assert [increment(x).tolist() for x in overlapping] == [[2, 3, 3, 4]] * 3
    assert reasons(manager) == [Refusal.OVERLAPPING_LAYOUT]


def test_an_expanded_input_is_copied_without_its_repetitions(device, manager, captured):
    from cudagraphs.storage import View

    increment = captured(lambda x: x + 1)
    for n in range(3):
        expanded = device.view_of(device.tensor([n]), View("i64", (3,), (0,), 0))
        assert increment(expanded).tolist() == [n + 1] * 3
    assert manager.tree.recordings[0].buffers[0].storage.nbytes == 8


def test_a_changed_input_that_shares_memory_with_another_runs_plainly(device, manager, captured):
    def update(x, y):
        x.add_(10)
        return y * 2

    bump = captured(update)
    for n in range(4):
        both = device.tensor([n])
        assert bump(both, both[:]).tolist() == [2 * (n + 10)]
        assert bump(device.tensor([0]), device.tensor([n])).tolist() == [2 * n]
    assert reasons(manager) == [Refusal.OVERLAPPING_INPUTS]


def test_too_many_sizes(device, manager, captured):
    increment = captured(lambda x: x + 1, recordings_per_function=3)
    for size in [1, 2, 3, 4, 5] * 3:
        assert increment(device.tensor([7] * size)).tolist() == [8] * size
    assert reasons(manager) == [Refusal.TOO_MANY_RECORDINGS]
    assert manager.report().recorded == 3


def test_a_full_pool(device, manager, captured):
    increment = captured(lambda x: x + 1, pool_bytes=1)
    for size in [1, 2] * 3:
        assert increment(device.tensor([7] * size)).tolist() == [8] * size
    assert (reasons(manager), manager.report().recorded) == ([Refusal.POOL_FULL], 1)


def test_a_recording_that_does_not_pay_is_dropped(device, manager, captured):
    device.launch_seconds = 1.0
    increment = captured(lambda x: x + 1, gain_samples=2)
    assert [increment(device.tensor([n])).tolist() for n in range(6)] == [[n + 1] for n in range(6)]
    assert (reasons(manager), manager.tree.recordings) == ([Refusal.NO_GAIN], [])
    assert (manager.report().replayed, manager.report().plain) == (3, 2)


def test_a_recording_that_pays_is_kept(device, manager, captured):
    device.operator_seconds = 1.0
    increment = captured(lambda x: x + 1, gain_samples=2)
    for n in range(6):
        increment(device.tensor([n]))
    assert (reasons(manager), manager.report().replayed) == ([], 5)


@pytest.mark.parametrize("wrong", [{"warmups": 0}, {"branches": -1}, {"recordings_per_function": -1}])
def test_impossible_options_are_refused(wrong):
    with pytest.raises(CudaGraphsError):
        Options(**wrong)


def test_a_refusal_reads_well(device, manager, captured):
    captured(lambda x, y: x, inputs=2)(device.tensor([1]), object())
    assert "neither a tensor nor a plain value" in str(manager.report())
    assert "input 1 is a object" in str(manager.report())


def test_a_failing_allocator_leaves_the_plain_call(device, manager, captured, monkeypatch):
    def fail(tensor):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(device, "buffer_like", fail)
    increment = captured(lambda x: x + 1)
    assert [increment(device.tensor([n])).tolist() for n in range(4)] == [[n + 1] for n in range(4)]
    assert reasons(manager) == [Refusal.DEVICE_FAILED]


def test_an_output_that_requires_grad_is_refused(device, manager, captured, monkeypatch):
    monkeypatch.setattr(device, "requires_grad", lambda tensor: tensor.view.shape == (2,))
    head = captured(lambda x: x[:2] + 1)
    assert [head(device.tensor([n] * 3)).tolist() for n in range(4)] == [[n + 1] * 2 for n in range(4)]
    assert reasons(manager) == [Refusal.NEEDS_GRAD]


def test_a_case_for_which_nothing_fits_is_looked_at_more_and_more_rarely(device, manager, captured, monkeypatch):
    looks = []
    increment = captured(lambda x: x + 1, recordings_per_function=1)
    held = [increment(device.tensor([n])) for n in range(2)]
    look = manager._ledger.live
    monkeypatch.setattr(manager._ledger, "live", lambda: looks.append(1) or look())
    for n in range(100):
        assert increment(device.tensor([n])).tolist() == [n + 1]
    assert len(looks) < 10
    del held
    before = manager.report().replayed
    for n in range(70):
        increment(device.tensor([n]))
    assert manager.report().replayed > before


def test_an_output_that_is_the_output_of_another_graph_is_refused(device, manager, captured):
    double = captured(lambda x: x * 2)
    double(device.tensor([0]))
    table = double(device.tensor([21]))
    both = captured(lambda x: (x + 1, table))
    for n in range(4):
        assert [value.tolist() for value in both(device.tensor([n]))] == [[n + 1], [42]]
    assert reasons(manager) == [Refusal.UNKNOWN_MEMORY]


def test_a_launch_that_the_device_refuses_leaves_the_plain_call(device, manager, captured, monkeypatch):
    increment = captured(lambda x: x + 1)
    for n in range(3):
        increment(device.tensor([n]))

    def refuse(graph, sources):
        raise CannotRecord(Refusal.DEVICE_FAILED, "not from there")

    monkeypatch.setattr(device, "launch", refuse)
    assert [increment(device.tensor([n])).tolist() for n in range(3)] == [[1], [2], [3]]
    assert (reasons(manager), manager.tree.recordings) == ([Refusal.DEVICE_FAILED], [])


def test_host_memory_is_refused_unless_it_is_pinned_and_lies_still(device, manager, captured):
    upload = captured(lambda x: x + 1)
    assert [upload(device.host_tensor([n], pinned=False)).tolist() for n in range(3)] == [[1], [2], [3]]
    moving = captured(lambda x: x * 2)
    held = [device.host_tensor([n], pinned=True) for n in range(5)]
    assert [moving(x).tolist() for x in held] == [[2 * n] for n in range(5)]
    assert reasons(manager) == [Refusal.CPU_INPUT] * 2
    assert manager.report().recorded == 0


def test_pinned_memory_that_lies_still_is_read_at_every_replay(device, manager, captured):
    double, staging = captured(lambda x: x * 2), device.host_tensor([0], pinned=True)
    for n in range(5):
        assert double(staging).tolist() == [2 * n]
        staging.add_(1)
    assert (manager.report().recorded, manager.report().plain) == (1, 0)
    assert manager.tree.recordings[0].keeps == (staging,)
    other = device.host_tensor([50], pinned=True)
    assert double(other).tolist() == [100]
    assert double(staging).tolist() == [10]


def test_what_a_size_needs_once_is_done_before_it_is_recorded(device, manager, captured):
    """Tuning a kernel waits for the device, which a recording cannot contain."""
    tuned = set()

    def increment(x):
        if x.view.shape not in tuned:
            x.tolist()
            tuned.add(x.view.shape)
        return x + 1

    call = captured(increment)
    for size in [1, 2, 3] * 3:
        assert call(device.tensor([5] * size)).tolist() == [6] * size
    assert (reasons(manager), manager.report().recorded, manager.report().replayed) == ([], 3, 6)
