"""Memory lent to one caller after another, over torch's tensors on the CPU."""

import pytest
import torch

from cudagraphs.handout import Handout
from cudagraphs.storage import Block, View

WHOLE, TAIL = View(torch.float32, (4,), (1,), 0), View(torch.float32, (3,), (1,), 1)


class Memory:
    """Two blocks, the first seen through two views."""

    def __init__(self):
        self.bytes = torch.zeros(32, dtype=torch.uint8)
        first = self.bytes.data_ptr()
        self.handout = Handout(self.lend, [(Block(first, 16), (WHOLE, TAIL)), (Block(first + 16, 16), (WHOLE,))])

    def lend(self, block, views):
        storage = torch._C._construct_storage_from_data_pointer(block.address, torch.device("cpu"), block.nbytes)
        return [torch.empty(0).set_(storage, view.offset, view.shape, view.strides) for view in views]


@pytest.fixture
def memory():
    return Memory()


def test_tensors_are_new_objects_over_the_same_memory(memory):
    whole, tail, other = memory.handout.tensors()
    whole[1] = 5.0
    assert tail[0] == 5.0
    again = memory.handout.tensors()[0]
    assert again is not whole
    assert (again.data_ptr(), again.untyped_storage()._cdata) == (whole.data_ptr(), whole.untyped_storage()._cdata)
    assert other.data_ptr() == whole.data_ptr() + 16


def test_what_a_caller_did_to_a_tensor_is_not_seen_by_the_next(memory):
    mine = memory.handout.tensors()[0]
    mine.add_(1).requires_grad_()
    mine.sum().backward()
    mine.unsqueeze_ = "mine"
    del mine
    next_one = memory.handout.tensors()[0]
    assert (next_one.requires_grad, next_one.grad, next_one._version, vars(next_one)) == (False, None, 0, {})
    next_one.t_()
    next_one.unsqueeze_(0)
    assert memory.handout.tensors()[0].shape == (4,)


HOLDERS = {
    "a tensor": lambda t: t,
    "a view": lambda t: t[1:].view(1, -1),
    "a detached view": lambda t: t[1:].detach(),
    "its storage": lambda t: t.untyped_storage(),
    "a typed storage": lambda t: t.storage(),
    "autograd": lambda t: t.requires_grad_().square().sum(),
    "an array": lambda t: t.numpy(),
    "a parameter": lambda t: torch.nn.Parameter(t),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_whoever_holds_it_is_noticed(memory, holder):
    for _ in range(2):
        held = HOLDERS[holder](memory.handout.tensors_of(1)[0])
        assert memory.handout.held() == [1]
        del held
        assert memory.handout.held() == []


def test_a_tensor_moved_elsewhere_is_no_longer_held(memory):
    mine = memory.handout.tensors_of(1)[0]
    mine.data = torch.ones(2)
    assert memory.handout.held() == []


def test_tensors_of_inference_mode_are_told_apart():
    with torch.inference_mode():
        memory = Memory()
        assert memory.handout.tensors()[0].is_inference()
    assert not Memory().handout.tensors()[0].is_inference()


@pytest.mark.parametrize("slots", [[0], [1], [0, 1]])
def test_copies_have_memory_of_their_own_and_the_same_views(memory, slots):
    whole, tail, other = memory.handout.tensors()
    whole.copy_(torch.arange(4.0))
    other.fill_(2)
    expected = [[whole.clone(), tail.clone()], [other.clone()]]
    for slot, made in zip(slots, memory.handout.copies(slots)):
        assert all(torch.equal(a, b) and a.stride() == b.stride() for a, b in zip(made, expected[slot], strict=True))
        assert (
            len({tensor.untyped_storage().data_ptr() for tensor in made} | {t.data_ptr() for t in (whole, other)}) == 3
        )
    whole.zero_()
    assert len(memory.handout.held()) == 2  # by the tensors of this test alone
