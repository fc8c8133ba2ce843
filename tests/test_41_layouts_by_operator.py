"""How results of torch's operators lie in memory, of operands in every layout: as eager's kernels lay them out.

All operators of ``op_db`` that take one tensor, or two, and nothing else; the function is told the same while it runs.
"""

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import compile_api

IMAGES = torch.rand(2, 4, 4, 6) + 0.1
LAYOUTS = {
    "sequences, turned": (torch.rand(3, 6, 4) + 0.1).mT,
    "channels last": IMAGES.to(memory_format=torch.channels_last),
    "turned around": (torch.rand(6, 4, 4, 2) + 0.1).permute(3, 2, 1, 0),
    "with gaps": (torch.rand(2, 4, 8, 12) + 0.1)[..., ::2, ::2],
    "with gaps and turned": (torch.rand(2, 12, 8) + 0.1).mT[:, ::2, ::2],
    "some channels": (torch.rand(2, 8, 4, 6) + 0.1).to(memory_format=torch.channels_last)[:, :4],
    "expanded": (torch.rand(1, 4, 6) + 0.1).expand(3, 4, 6),
}
NOT_OF_VALUES = ("empty", "item", "bernoulli", "dropout", "multinomial", "normal", "rand", "uniform", "cauchy",
                 "exponential", "geometric", "linalg", "fft", "masked", "rrelu")  # fmt: skip
OPERATORS = [
    operator
    for operator in op_db
    if torch.float32 in operator.dtypes and not any(word in operator.name for word in NOT_OF_VALUES)
]


def applied(operator, operands):
    """Nothing where the operator takes no such operands, or gives no table."""
    try:
        result = operator.op(*operands)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, Warning):
        return None
    is_table = isinstance(result, torch.Tensor) and result.layout is torch.strided and result.dim() > 1
    return result if is_table and result.numel() else None


def differences(operands, backend):
    results = [(operator, applied(operator, operands)) for operator in OPERATORS]
    expected = [(operator, result.stride()) for operator, result in results if result is not None]

    def program(*operands):
        made = [operator.op(*operands) for operator, _ in expected]
        return made, [each.stride() for each in made]

    made, told = compile_api.compile(program, backend=backend, fullgraph=True)(*operands)
    found = zip(expected, [each.stride() for each in made], told, strict=True)
    return [(operator.name, *lies) for (operator, wanted), *lies in found if lies != [wanted, wanted]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_one_operand(layout, backend):
    assert differences([LAYOUTS[layout]], backend) == []


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("layout", ["sequences, turned", "some channels", "expanded"])
@pytest.mark.parametrize("order", [1, -1], ids=["beside a contiguous one", "behind a contiguous one"])
def test_of_two_operands(order, layout, backend):
    operands = [LAYOUTS[layout], LAYOUTS[layout].contiguous() + 1][::order]
    assert differences(operands, backend) == []
