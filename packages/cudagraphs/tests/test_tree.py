"""Loans, the choice of a recording, and the drawing."""

import weakref

from cudagraphs.options import Options
from cudagraphs.show import show_tree
from cudagraphs.storage import Block, CopyPolicy, Ledger, Lent, Loans, covers
from cudagraphs.tree import choose, obstacle


class Switch:
    """One block that is held or not."""

    def __init__(self):
        self.slots = [0]

    def held(self):
        return self.slots


def lent(address):
    return Lent(None, Block(address, 8), None, 0)


def test_a_block_is_covered_only_as_a_whole():
    protected = {0x100: 16, 0x110: 16}
    assert covers(protected, Block(0x100, 16))
    assert covers(protected, Block(0x110, 8))
    assert not covers(protected, Block(0x108, 8))
    assert not covers(protected, Block(0x100, 32))


def test_a_ledger_forgets_what_nobody_holds():
    held, dropped = Switch(), Switch()
    ledger = Ledger()
    ledger.lend(Loans(held, [Block(0x100, 8)], None))
    ledger.lend(Loans(dropped, [Block(0x200, 8)], None))
    dropped.slots = []
    assert [one.block.address for one in ledger.live()] == [0x100]
    assert len(ledger.clear()) == 1
    assert ledger.live() == []


def test_small_things_are_copied_at_once_and_large_ones_after_some_branches():
    policy = CopyPolicy(Options(copy_below=8, branches=2))
    policy.stood_in_the_way(0, 8)
    for _ in range(2):
        policy.stood_in_the_way(1, 9)
    assert policy.copied == {0}
    policy.stood_in_the_way(1, 9)
    assert policy.copied == {0, 1}


def recordings_of(device, manager, captured):
    """Two recordings of one function: the second made while the first's output was held."""
    increment = captured(lambda x: x + 1)
    held = [increment(device.tensor([n])) for n in range(3)]
    del held
    return manager.tree.recordings


def test_a_recording_that_would_overwrite_something_held_is_not_chosen(device, manager, captured):
    first, second = recordings_of(device, manager, captured)
    loan = lent(first.loans[0].block.address)
    inputs = [device.tensor([1])]
    assert choose([first, second], None, [], inputs) is first
    assert choose([first, second], None, [loan], inputs) is second
    assert choose([first], None, [loan], inputs) is None
    assert obstacle(device, [first], [loan], inputs).in_the_way == [loan]


def test_children_of_the_present_recording_come_first(device, manager, captured):
    first, second = recordings_of(device, manager, captured)
    assert choose([first, second], first, [], [device.tensor([1])]) is second
    assert second.path() == [first, second]


def test_the_tree_is_drawn_with_its_paths_and_memory(device, manager, captured):
    recordings_of(device, manager, captured)
    root, *lines = show_tree(manager.tree).splitlines()
    assert root == "root"
    assert lines[0].startswith("└─ #1 ")
    assert lines[1].startswith("   └─ #2 ")
    assert "protects 0x0+8" in lines[1]


def test_a_drawing_of_a_model_stays_a_line_for_each_recording(captured, device, manager):
    """Indices in a row are a range; many blocks are counted."""

    def scale(x, *weights):
        return [weight * x for weight in weights]

    scale.__qualname__ = "scale"
    call = captured(scale, 12, static=range(1, 12))
    weights = [device.tensor([n, n]) for n in range(11)]
    for n in range(3):
        call(device.tensor([n, n]), *weights)
    (line,) = show_tree(manager.tree).splitlines()[1:]
    assert line == "└─ #1 scale: in place: 1-11; copied in: 0; returns 11 blocks of 176 bytes"


def test_a_function_that_is_gone_leaves_no_recording(captured, device, manager):
    """Nor do the recordings that follow on its own keep them."""
    first, second = captured(lambda x: [x + 1, x * 3]), captured(lambda x: x * 2)
    for n in range(4):
        saved, kept = first(device.tensor([n]))
        assert second(saved).tolist() == [2 * n + 2]
    of_first, of_second = map(weakref.ref, manager.tree.recordings)
    assert of_second().parent is of_first()
    del first, saved
    manager.step_begin()
    third = captured(lambda x: x + 5)
    assert [third(device.tensor([n])).tolist() for n in range(3)] == [[5], [6], [7]]
    assert (of_first(), of_second().parent, kept.tolist()) == (None, None, [9])
    assert [recording.number for recording in manager.tree.recordings] == [2, 3]
