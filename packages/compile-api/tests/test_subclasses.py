"""Parameters and inputs of classes with a `__torch_dispatch__` of their own."""

import pytest
import torch
from torch.utils import _pytree as pytree

import compile_api


class Wrapping(torch.Tensor):
    """A tensor around another one."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner):
        self.inner = inner.detach()

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Wrapping(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map_only(Wrapping, lambda value: value.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Wrapping, func(*args, **kwargs))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_parameter_of_a_subclass(backend):
    module, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
    module.weight = torch.nn.Parameter(Wrapping(module.weight.data))
    compiled, expected = compile_api.compile(module, backend=backend), module(x).inner
    for _ in range(2):
        found = compiled(x)
        assert type(found) is Wrapping
        torch.testing.assert_close(found.inner, expected)
    found.sum().backward()
    torch.testing.assert_close(module.weight.grad.inner, torch.ones(2, 3))
    assert not compile_api.report(compiled).captured, "CPython computes with subclasses, after a break"
