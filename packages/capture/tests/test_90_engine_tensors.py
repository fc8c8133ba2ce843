"""Tensor guards of the C engine against real tensors, read in C and read through attributes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from torch.nn import Parameter

from capture._engine import Guards, bind_tensors
from capture.entry import hook

READERS = ["dtype", "device_type", "device_index", "layout", "dim", "sizes", "strides"]


class Subclass(torch.Tensor):
    pass


def word_offset(tensor: torch.Tensor) -> int:
    """Where in the Python object the one word of its at::Tensor lies."""
    words = range(0, type(tensor).__basicsize__, ctypes.sizeof(ctypes.c_void_p))
    return next(w for w in words if ctypes.c_size_t.from_address(id(tensor) + w).value == tensor._cdata)


def addresses() -> dict[str, int]:
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
    names = [f"aoti_torch_get_{reader}" for reader in READERS]
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names}


@pytest.fixture(params=["in C", "by attributes"])
def reading(request):
    """Both ways to read tensors."""
    offset = word_offset(torch.zeros(1)) if request.param == "in C" else None
    assert bind_tensors(offset, addresses(), (torch.Tensor, Parameter)) == (request.param == "in C")
    yield request.param
    hook.bind_tensors()


def spec_of(tensor, extras=(("layout", torch.strided),)):
    return (
        type(tensor),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tuple(tensor.shape),
        tensor.stride(),
        extras,
    )


def guards_of(tensor, **kwargs):
    return Guards((("arg", 0), (("tensor", 0, spec_of(tensor, **kwargs)),), ()))


BITS = {"is_neg": "6is_neg", "is_conj": "7is_conj", "_is_zerotensor": "14_is_zerotensor"}
ZEROS = torch.zeros(2, dtype=torch.complex64)
WITH_BITS = {
    "is_neg": ZEROS._neg_view(),
    "is_conj": ZEROS.conj(),
    "_is_zerotensor": torch._efficientzerotensor((2,), dtype=torch.complex64),
}


@pytest.mark.parametrize("name", BITS)
def test_what_the_memory_does_not_show_is_part_of_a_check(reading, name):
    guards = guards_of(ZEROS, extras=((name, False),))
    odd = guards_of(WITH_BITS[name], extras=((name, True),))
    for _ in range(2):  # by attributes first
        assert guards.check(None, (ZEROS,))
        assert not guards.check(None, (WITH_BITS[name],))
        assert odd.check(None, (WITH_BITS[name],))
        assert not odd.check(None, (ZEROS,))


def test_torch_has_the_functions_that_tell_bits():
    assert hook._addresses().keys() >= BITS.keys()


TENSORS = {
    "plain": torch.randn(2, 3),
    "other size": torch.randn(3, 2),
    "transposed": torch.randn(3, 2).t(),
    "scalar": torch.tensor(1.0),
    "empty": torch.randn(0, 3),
    "five dims": torch.randn(1, 2, 3, 4, 5),
    "channels last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": torch.randn(3).expand(2, 3),
    "half": torch.randn(2, 3).half(),
    "bfloat16": torch.randn(2, 3).bfloat16(),
    "int": torch.ones(2, 3, dtype=torch.int64),
    "bool": torch.ones(2, 3, dtype=torch.bool),
    "complex": torch.ones(2, 3, dtype=torch.complex64),
    "grad": torch.randn(2, 3, requires_grad=True),
    "parameter": Parameter(torch.randn(2, 3)),
    "frozen parameter": Parameter(torch.randn(2, 3), requires_grad=False),
    "subclass": torch.randn(2, 3).as_subclass(Subclass),
    "meta": torch.randn(2, 3, device="meta"),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_passes_its_own_check_and_no_other(reading, name):
    guards = guards_of(TENSORS[name])
    for _ in range(3):  # the first pass learns how the tensor reads in C
        assert [other for other, tensor in TENSORS.items() if guards.check(None, (tensor,))] == [name]


def test_a_new_tensor_of_the_same_kind_passes(reading):
    guards = guards_of(torch.randn(4, 5))
    assert all(guards.check(None, (torch.randn(4, 5),)) for _ in range(3))


def test_changes_in_place_are_seen(reading):
    tensor = torch.randn(4, 6)
    guards = guards_of(tensor)
    assert guards.check(None, (tensor,))
    tensor.requires_grad_()
    assert not guards.check(None, (tensor,))
    tensor.requires_grad_(False)
    assert guards.check(None, (tensor,))
    tensor.resize_(6, 4)
    assert not guards.check(None, (tensor,))


def test_open_sizes_accept_any_size_but_not_another_rank(reading):
    spec = (torch.Tensor, torch.float32, torch.device("cpu"), False, (None, 3), (None, 1), None)
    guards = Guards((("arg", 0), (("tensor", 0, spec),), ()))
    assert [guards.check(None, (torch.randn(n, 3),)) for n in (2, 7, 0)] == [True] * 3
    assert not guards.check(None, (torch.randn(2, 4),))
    assert not guards.check(None, (torch.randn(2, 3, 1),))
    assert not guards.check(None, (torch.randn(3, 2).t(),))


def test_a_sparse_tensor_is_no_strided_tensor(reading):
    guards = Guards(
        (("arg", 0), (("tensor", 0, spec_of(torch.randn(2, 3))[:5] + (None, (("layout", torch.strided),))),), ())
    )
    assert guards.check(None, (torch.randn(2, 3),))
    assert not guards.check(None, (torch.randn(2, 3).to_sparse(),))


def test_extras_are_further_attributes(reading):
    guards = guards_of(torch.randn(2), extras=(("is_leaf", True), ("grad", None)))
    assert guards.check(None, (torch.randn(2),))
    marked = torch.randn(2, requires_grad=True).sin().detach().requires_grad_()
    assert not guards.check(None, (marked * 1,))


def test_a_fake_tensor_with_symbolic_sizes_only_fits_open_sizes(reading):
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    fake = mode.from_tensor(torch.randn(4, 3), static_shapes=False)
    exact = (type(fake), torch.float32, None, None, (4, 3), None, None)
    open_sizes = (type(fake), torch.float32, None, None, (None, None), None, None)
    assert not Guards((("arg", 0), (("tensor", 0, exact),), ())).check(None, (fake,))
    assert Guards((("arg", 0), (("tensor", 0, open_sizes),), ())).check(None, (fake,))
    assert mode.shape_env.guards == []


@pytest.mark.parametrize("tensor", [torch.zeros(2), Parameter(torch.zeros(2)), torch.zeros(2).as_subclass(Subclass)])
def test_the_word_lies_at_one_place_for_all_kinds_of_tensors(tensor):
    assert word_offset(tensor) == word_offset(torch.zeros(3, 4))


def test_binding_without_all_functions_reads_attributes():
    some = addresses()
    del some["aoti_torch_get_sizes"]
    assert bind_tensors(16, some, torch.Tensor) is False
    assert guards_of(TENSORS["plain"]).check(None, (TENSORS["plain"],))
    assert hook.bind_tensors(), "the package itself reads tensors in C"


def test_global_state_is_guarded_by_calling_for_it():
    guards = Guards((("call", torch.is_grad_enabled), (("is", 0, True),), ()))
    assert guards.check(None, ())
    with torch.no_grad():
        assert not guards.check(None, ())


class Holder:
    """Tensors in the dict of an object: what a chain leads over."""

    def __init__(self):
        self.tensors = {str(i): Parameter(torch.zeros(2, 3)) for i in range(12)}


def test_strides_that_follow_from_sizes(reading):
    spec = (torch.Tensor, torch.float32, torch.device("cpu"), False, (None, None, 4), ((1,), (2,), 1), ())
    guards = Guards((("arg", 0), (("tensor", 0, spec),), ()))
    for _ in range(2):  # by attributes at first, where it learns
        assert guards.check(None, (torch.ones(2, 3, 4),))
        assert guards.check(None, (torch.ones(5, 6, 4),))
        assert not guards.check(None, (torch.ones(2, 5, 4)[:, :3],))
        assert not guards.check(None, (torch.ones(3, 2, 4).transpose(0, 1),))


def resized(tensor):
    tensor.data = torch.zeros(3, 2)


CHANGES = {
    "data of another shape": resized,
    "data of another dtype": lambda tensor: setattr(tensor, "data", torch.zeros(2, 3, dtype=torch.float64)),
    "strides": lambda tensor: setattr(tensor, "data", torch.zeros(3, 2).t()),
    "requires_grad": lambda tensor: tensor.requires_grad_(False),
    "class": lambda tensor: setattr(tensor, "__class__", type("Another", (Parameter,), {})),
    "swapped": lambda tensor: torch.utils.swap_tensors(tensor, Parameter(torch.zeros(4))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tensors_below_a_chain_change_without_any_dict(reading, change):
    holder = Holder()
    below = tuple((("key", n), (("tensor", 0, spec_of(t, extras=())),), ()) for n, t in holder.tensors.items())
    guards = Guards((("arg", 0), (), ((("dict",), (), ((("key", "tensors"), (), below),)),)))
    assert all(guards.check(None, (holder,)) for _ in range(4))
    CHANGES[change](holder.tensors["7"])
    assert not guards.check(None, (holder,))


def test_tensors_below_a_chain_when_they_are_read_in_another_way():
    holder = Holder()
    below = tuple((("key", n), (("tensor", 0, spec_of(t, extras=())),), ()) for n, t in holder.tensors.items())
    guards = Guards((("arg", 0), (), ((("dict",), (), ((("key", "tensors"), (), below),)),)))
    assert all(guards.check(None, (holder,)) for _ in range(4))
    bind_tensors(None, {}, ())
    assert guards.check(None, (holder,))
    hook.bind_tensors()
    assert guards.check(None, (holder,))
    holder.tensors["3"].requires_grad_(False)
    assert not guards.check(None, (holder,))
