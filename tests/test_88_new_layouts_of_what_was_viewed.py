"""A tensor with views gets another layout in place: the views' gradients go to the elements that the views show."""

import pytest
import torch

import compile_api

LAYOUTS = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(0),
    "as_strided_": lambda x: x.as_strided_((2, 2), (1, 2)),
}
VIEWS = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, 1],
    "transposed": lambda x: x.t(),
    "flat": lambda x: x.view(-1),
    "slice": lambda x: x[:, 1:],
    "diagonal": lambda x: x.diagonal(),
    "expanded": lambda x: x.expand(2, 3, 3),
}


@pytest.mark.parametrize(("layout", "taken"), [(layout, taken) for layout in LAYOUTS for taken in VIEWS])
def test_a_view_keeps_its_history_when_its_base_gets_another_layout(layout, taken):
    def program(x):
        base = x * 1
        view = VIEWS[taken](base)
        LAYOUTS[layout](base)
        return view * 3, base * 2

    compiled = compile_api.compile(program, backend="aot_eager")
    assert gradient(compiled) == gradient(program)


def gradient(program):
    x = torch.arange(1.0, 10).view(3, 3).requires_grad_()
    sum((part * torch.arange(part.numel()).view(part.shape)).sum() for part in program(x)).backward()
    return x.grad.tolist()
