"""A tensor with views gets another layout in place: the views' gradients go to the elements that the views show."""

import pytest
import torch
import torch.nn.functional as F

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


WRITES = {
    "row": lambda base, view, w: view[0].mul_(3),
    "set": lambda base, view, w: view.__setitem__(0, 1.0),
    "matrix": lambda base, view, w: view.mul_(torch.arange(1.0, view.numel() + 1).view(view.shape)),
    "base": lambda base, view, w: base.mul_(w),
    "rectified": lambda base, view, w: F.relu(view, inplace=True),
}
TAKEN = {"slice": lambda x: x[1:], "columns": lambda x: x[:, 1:], "all": lambda x: x.view(3, 3)}


@pytest.mark.parametrize("layout", ["t_", "unsqueeze_", "squeeze_"])
@pytest.mark.parametrize(("write", "taken"), [(write, taken) for write in WRITES for taken in TAKEN])
@pytest.mark.parametrize("factor", [1, 0])
def test_a_view_gets_another_layout_and_its_memory_is_written(layout, write, taken, factor):
    """With a factor of 0 nothing has a history before the write."""
    w = torch.arange(3.0).requires_grad_()

    def program(x):
        base = x * 1 if factor else torch.zeros(3, 3)
        view = TAKEN[taken](base)
        getattr(view, layout)(*[0] * (layout != "t_"))
        WRITES[write](base, view, w)
        return view * 2, base * 3, (w + x).sum()

    compiled = compile_api.compile(program, backend="aot_eager")
    assert gradient(compiled) == gradient(program)
