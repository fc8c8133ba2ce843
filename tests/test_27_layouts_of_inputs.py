"""What a program sees and computes of an input does not depend on how it lies in memory, whether it wants a gradient or
has a history, and whether sizes vary: layouts of inputs, each over several sizes, on every backend."""

import itertools

import pytest
import torch

import compile_api

LAYOUTS = {
    "dense": lambda t: t * 1,
    "columns": lambda t: (t * 1)[:, :4],
    "every other column": lambda t: (t * 1)[:, 1::2],
    "every other row": lambda t: (t * 1)[::2],
    "rows further on": lambda t: (t * 1)[1:],
    "turned": lambda t: (t * 1).t(),
    "columns turned": lambda t: (t * 1)[:, :4].t(),
    "expanded": lambda t: (t * 1)[:1].expand(t.shape[0], -1),
    "one column": lambda t: (t * 1)[:, 3],
    "three dimensions": lambda t: (t * 1).view(-1, 2, 4)[:, 0],
}
PROGRAMS = {
    "exp": lambda x: x.exp(),
    "softmax": lambda x: x.softmax(-1),
    "product": lambda x: x * x,
    "sum": lambda x: x.sum(0),
    "branch": lambda x: x * 2 if x.is_contiguous() else x * 3,
    "strides": lambda x: x * float(x.stride(0) + 10 * x.storage_offset()),
    "first of memory": lambda x: x.as_strided((2,), (1,)) * 2,
    "reshaped": lambda x: x.reshape(-1)[1:3] + x.contiguous().sum(),
    "changed": lambda x: x.mul_(2) + 1,
}
HISTORIES = {"none": lambda t: t, "made": lambda t: t.requires_grad_()}


def outcome(run, layout, history, size):
    leaf = HISTORIES[history](torch.arange(size * 8.0).view(size, 8).div(10))
    x = LAYOUTS[layout](leaf)
    try:
        result = run(x)
        if history == "made":
            result.sum().backward()
    except RuntimeError as error:  # eager's own: writing to what is expanded
        return type(error)
    return result.detach(), x.detach(), leaf.grad, result.stride()


def same(one, other):
    if isinstance(one, type) or isinstance(other, type):
        return one is other
    pairs = zip(one[:3], other[:3], strict=True)
    values = all(a is b or (a is not None and b is not None and torch.allclose(a, b, atol=1e-6)) for a, b in pairs)
    return values and one[3] == other[3]


@pytest.mark.filterwarnings("ignore:.*runs operator by operator")  # the gradient of a window: a size is a maximum
@pytest.mark.parametrize("history", HISTORIES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_layouts_of_inputs(backend, history, monkeypatch):
    monkeypatch.setenv("COMPILE_API_STRICT", "0")
    wrong = []
    chosen = list(PROGRAMS.items())[:: 2 if backend == "inductor" else 1]  # which builds each, and knows few kinds
    for (name, program), dynamic in itertools.product(chosen, (None, True)):
        if backend != "eager" and dynamic:
            continue  # the second size is as dynamic: how it came to be is capture's own affair
        for layout in LAYOUTS:
            compile_api.reset()
            compiled = compile_api.compile(program, backend=backend, dynamic=dynamic, fullgraph=True)
            for size in (3, 6, 5):
                expected, found = (outcome(run, layout, history, size) for run in (program, compiled))
                if not same(expected, found):
                    wrong.append(f"{name} of {layout}, size {size}, dynamic {dynamic}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)
