"""Layouts that can be copied, and what a plan says."""

from itertools import product

import torch
from hypothesis import given
from hypothesis import strategies as st

from cudagraphs.inputs import InputPlan, dense_shape, overlaps_itself, plan_inputs, separates
from cudagraphs.tensors import copier

DIMS = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 8)), max_size=3)


def offsets(dims):
    return [sum(i * stride for i, (_, stride) in zip(at, dims)) for at in product(*(range(size) for size, _ in dims))]


@given(DIMS)
def test_no_overlap_means_that_every_index_has_an_element_of_its_own(dims):
    shape, strides = [size for size, _ in dims], [stride for _, stride in dims]
    assert overlaps_itself(shape, strides) or len(set(offsets(dims))) == len(offsets(dims))


@given(st.permutations([2, 3, 4]), st.permutations([0, 1, 2]))
def test_permuted_dense_layouts_do_not_overlap(shape, order):
    strides, count = [0, 0, 0], 1
    for dim in order:
        strides[dim], count = count, count * shape[dim]
    assert not overlaps_itself(shape, strides)


def test_an_expanded_dimension_occupies_memory_once():
    assert dense_shape((3, 5, 2), (10, 0, 1)) == (3, 1, 2)


def test_static_and_lent_inputs_are_read_in_place_unless_always_copied(device):
    tensors = [device.tensor([n]) for n in range(4)]
    plan = plan_inputs(device, [*tensors, 5], {0, 1}, {device.block(tensors[2]).address}, {1})
    assert (plan.in_place, plan.copied) == ((0, 2), (1, 3))
    assert plan.moved(device, tensors) == []
    assert plan.lent == {2}


def test_a_plan_names_the_inputs_that_moved(device):
    weight, x = device.tensor([1]), device.tensor([2])
    plan = plan_inputs(device, [weight, x], {0, 1}, set(), set())
    assert plan.moved(device, [device.tensor([1]), x]) == [0]
    assert plan.moved(device, [x, weight]) == [0, 1]


def test_copying_separates_a_changed_input_from_its_views(device):
    x = device.tensor([1, 2])
    assert separates(device, InputPlan((), (), (0, 1), changed=(0,)), [x, x[1:]])
    assert not separates(device, InputPlan((0, 1), (), (), changed=(0,)), [x, x[1:]])
    assert not separates(device, InputPlan((), (), (0, 1)), [x, x[1:]])


def test_copies_of_several_types_and_layouts_reach_their_buffers():
    sources = [torch.rand(2, 3), torch.arange(4), torch.rand(3, 1).expand(3, 4), torch.rand(4, 2).t(), torch.rand(2)]
    buffers = [torch.zeros_like(source) for source in sources]
    buffers[2] = torch.zeros(3, 1).expand(3, 4)
    copier(buffers)(sources)
    assert all(torch.equal(buffer, source) for buffer, source in zip(buffers, sources))
    copier([])([])
