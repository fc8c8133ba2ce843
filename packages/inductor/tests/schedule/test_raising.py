"""Which of torch's operators may raise for what their operands hold: the list names torch's own, and none that does."""

import itertools
import warnings

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from inductor.raising import _SAFE, _SAFE_FAMILIES, is_safe

ATEN = dir(torch.ops.aten)


def test_the_list_names_operators_of_torch():
    assert {name for name in _SAFE if not hasattr(torch.ops.aten, name)} == set()
    assert [start for start in _SAFE_FAMILIES if not any(name.startswith(start) for name in ATEN)] == []


class Last(TorchDispatchMode):
    """The operator that ran last."""

    name = ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.name = func._schema.name.rpartition("::")[2]
        return func(*args, **(kwargs or {}))


def filled(tensor: torch.Tensor, values: tuple[float, ...]) -> torch.Tensor:
    made = torch.tensor(list(itertools.islice(itertools.cycle(values), tensor.numel())), dtype=tensor.dtype)
    return made.reshape(tensor.shape).requires_grad_(tensor.requires_grad)


def raiser(op, sample, values: tuple[float, ...]) -> str:
    """The operator that raises where floats hold these values; none where it is well."""
    of_floats = lambda tensor: filled(tensor, values) if tensor.dtype == torch.float32 else tensor
    given, args, kwargs = tree_map_only(torch.Tensor, of_floats, (sample.input, sample.args, sample.kwargs))
    with warnings.catch_warnings(action="ignore"), Last() as last:
        try:
            op(given, *args, **kwargs)
        except (RuntimeError, IndexError, ValueError, NotImplementedError):
            return last.name
    return ""


@pytest.mark.filterwarnings("ignore:torch.qr is deprecated")  # of torch's own samples, once in a process
@pytest.mark.parametrize("op", op_db, ids=lambda op: op.full_name)
def test_what_is_called_safe_raises_for_no_contents(op):
    if torch.float32 not in op.supported_dtypes("cpu") or op.name.startswith(("jiterator", "sparse")):
        return  # nothing that NaN could be put into, or no operators of CPUs and dense tensors
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), 4):
        if not raiser(op, sample, (1.0, 0.5)):  # else it is for their layout, or the memory behind them
            assert not is_safe(raiser(op, sample, (float("nan"), float("inf"), -1e30, 0.0, 1.0)))
