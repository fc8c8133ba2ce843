"""What autograd sees of a compiled function is what it sees of the function: versions, histories, who is used twice.

Every way of writing, in every grad mode, on tensors alone and on tensors that share memory.
"""

import contextlib

import pytest
import torch

import aotgrad

MODES = {"grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
GIVEN = {
    "apart": lambda: torch.ones(3, 3),
    "a view": lambda: torch.ones(4, 3)[1:],
    "a view of a leaf": lambda: torch.ones(4, 3, requires_grad=True)[1:],
    "a result": lambda: torch.ones(3, 3, requires_grad=True) * 2,
}
WRITES = """
x.data.add_(1)
x.data.add_(1); x.add_(1)
x.add_(1); x.mul_(2)
x.detach().zero_()
x.data.view(-1)[:2].fill_(3)
x.detach()[1:].mul_(2); x.data.neg_()
x.add_(w)
x.mul_(2); x.data.add_(w)
x[:0].add_(1)
x.view(-1).add_(1); x[0] = 5
x.copy_(w)
x.data.copy_(w)
x.data = w.detach()
torch._foreach_mul_([x], 2)
""".strip().splitlines()


def seen(tensors):
    made = [(t.grad_fn is not None if t.requires_grad else None, t.requires_grad) for t in tensors]
    return made, [None if t.is_inference() else t._version for t in tensors], [t.tolist() for t in tensors]


def after(call, make, mode):
    """What is seen of the arguments, and of the result, or what was raised."""
    given = [*make(), torch.full((3, 3), 0.5, requires_grad=True)]
    with MODES[mode]():
        try:
            result = call(*given)
        except aotgrad.Unsupported:  # run as it is, it is what it is
            return None
        except RuntimeError as error:
            return str(error)
    return seen(given), seen([result])[::2]


def in_text(text, arguments):
    scope = {}
    exec(f"def f({arguments}, w):\n    {text}\n    return w * 2\n", {"torch": torch}, scope)
    return scope["f"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("text", WRITES)
def test_a_write_is_counted_as_often_as_in_eager(text, given, mode):
    f, make = in_text(text, "x"), lambda: [GIVEN[given]()]
    found = after(aotgrad.function(f, forward=aotgrad.run_eagerly), make, mode)
    assert found is None or found == after(f, make, mode)


def views():
    memory = torch.ones(3, 3)
    return [memory, memory.view(-1)]


def data():
    memory = torch.ones(3, 3)
    return [memory, memory.data.view(-1)]


@pytest.mark.parametrize("make", [views, data])
@pytest.mark.parametrize("text", ["x.add_(1)", "x.add_(1); y.mul_(2); y.add_(1)", "x.data.add_(1); y[0] = 4"])
def test_writes_to_memory_that_is_shared_are_counted(text, make):
    f = in_text(text, "x, y")
    assert after(aotgrad.function(f, forward=aotgrad.run_eagerly), make, "grad") == after(f, make, "grad")


@pytest.mark.parametrize("text", ["x.add_(w)", "y.mul_(2); x.copy_(w)", "y[:9:3].add_(w[0])"])
def test_shared_memory_that_gets_a_history_is_left_to_eager(text):
    f = aotgrad.function(in_text(text, "x, y"), forward=aotgrad.run_eagerly)
    with pytest.raises(aotgrad.Unsupported, match="share memory"):
        f(*views(), torch.ones(3, 3, requires_grad=True))


def test_a_write_through_data_between_forward_and_backward():
    weight = torch.nn.Parameter(torch.tensor([1.0, 4.0]))
    loss = weight.square().sum()
    aotgrad.function(lambda w: w.data.clamp_(max=2.0), forward=aotgrad.run_eagerly)(weight)
    loss.backward()
    assert weight.grad.tolist() == [2.0, 4.0]
