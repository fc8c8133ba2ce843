"""Results that lie in the memory of an argument are known as views, whether or not an operator's schema says so."""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from inductor.deps import gives_views

aten = torch.ops.aten


def memory(values):
    tensors = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    plain = (each for each in tensors if each.layout is torch.strided and type(each) is torch.Tensor and each.numel())
    return {each.untyped_storage().data_ptr() for each in plain}


class Shared(TorchDispatchMode):
    """The operators that were seen to give a view, and are not known to."""

    def __init__(self):
        super().__init__()
        self.unknown, self.views = set(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **kwargs or {})
        if not func._schema.is_mutable and memory(result) & memory((args, kwargs)):
            self.views += 1
            if not gives_views(func):
                self.unknown.add(str(func))
        return result


@pytest.mark.filterwarnings("ignore")
def test_what_operators_give_as_views_is_known():
    with Shared() as seen:
        for op in op_db:
            if torch.float32 not in op.supported_dtypes("cpu") or op.name.startswith("jiterator"):
                continue
            for sample, _ in zip(op.sample_inputs("cpu", torch.float32), range(1), strict=False):
                try:
                    op(sample.input, *sample.args, **sample.kwargs)
                except (RuntimeError, TypeError, NotImplementedError):
                    continue
    assert seen.views > 100
    assert not seen.unknown


UNSAID = {
    aten._unsafe_view.default: ([4],),
    aten.unsafe_split.Tensor: (1,),
    aten.unsafe_chunk.default: (2,),
    aten.unsafe_split_with_sizes.default: ([1, 1],),
    aten.type_as.default: (torch.ones(1),),
    aten.dropout.default: (0.5, False),
    aten.atleast_2d.default: (),
}


@pytest.mark.parametrize("operator", UNSAID, ids=str)
def test_operators_that_do_not_say_so(operator):
    x = torch.ones(2, 2)
    assert memory(operator(x, *UNSAID[operator])) == memory(x)
    assert all(result.alias_info is None for result in operator._schema.returns)
    assert gives_views(operator)
