"""How a tensor comes to a compiled function differs from call to call: a leaf, a step of a history, a view, frozen.

Every statement is compiled for one way of coming and then called with others, in both orders.
"""

import itertools
import random
import warnings

import pytest
import torch

import compile_api

WAYS = {
    "plain": lambda w: torch.ones(3),
    "leaf": lambda w: torch.ones(3, requires_grad=True),
    "leaf with a gradient": lambda w: with_gradient(torch.ones(3, requires_grad=True)),
    "parameter": lambda w: torch.nn.Parameter(torch.ones(3)),
    "from w": lambda w: w * 2,
    "view of w": lambda w: w[0:],
    "view of what is from w": lambda w: (w * 2)[0:],
    "kept gradient": lambda w: kept(w * 2),
    "of another leaf": lambda w: torch.ones(3, requires_grad=True) * 2,
    "detached": lambda w: w.detach(),
    "w": lambda w: w,
    "view of plain": lambda w: torch.ones(6)[::2],
    "made in inference mode": lambda w: in_inference_mode(),
}


def with_gradient(tensor):
    tensor.grad = torch.full((3,), 7.0)
    return tensor


def kept(tensor):
    tensor.retain_grad()
    return tensor


def in_inference_mode():
    with torch.inference_mode():
        return torch.ones(3)


STATEMENTS = [
    "y.sum().backward(inputs=[w])",
    "torch.autograd.backward(w.sum(), inputs=[y])",
    "out = torch.autograd.grad((y * y).sum(), [w, w], allow_unused=True)",
    "out = torch.autograd.grad((w * w).sum(), [y], allow_unused=True)",
    "(y * w).sum().backward()",
    "(y.sum() + w.sum()).backward(inputs=[w])",
    "out = torch.autograd.grad((y * w).sum(), w)",
    "out = torch.autograd.grad((y * y).sum() + w.sum(), w)[0]",
    "out = torch.autograd.grad((y * w).sum(), [w, y], allow_unused=True)",
    "out = torch.autograd.grad((y * w * w).sum(), w, create_graph=True)[0].sum()",
    "y.square().sum().backward()",
    "out = y.is_leaf, y.requires_grad, y.grad_fn is None",
    "out = y.grad if y.is_leaf else None",
    "out = y.detach() * w",
    "y.requires_grad_()",
    "y.requires_grad_(False)",
    "y.detach_()",
    "y.add_(1)",
    "y.add_(w)",
    "with torch.no_grad(): y.add_(w)",
    "with torch.no_grad(): y.copy_(w * 3)",
    "y.data.add_(1)",
    "y.data = w.detach() * 3",
    "y.grad = w.detach() * 3",
    "y[0] = 5",
    "y[0:2].mul_(w[0:2])",
    "z = y.view(3); z.mul_(2)",
    "z = y * 1; z.retain_grad(); z.sum().backward(); out = z.grad",
    "out = (y * 2).register_hook(lambda g: g * 3) and None",
    "z = y * 2; z.register_hook(lambda g: g * 3); (z * w).sum().backward()",
    "y.retain_grad()",
    "y.register_hook(lambda g: g * 3) and None",
    "out = torch.no_grad()(lambda: y * w)()",
    "out = y.clone(); out.mul_(w)",
    "out = torch.utils.checkpoint.checkpoint(lambda a: a * w, y, use_reentrant=False)",
    "out = y._version, y._is_view(), y._base is None",
    "out = y.is_inference(), (y * 2).is_inference()",
    "y.zero_(); out = y * w",
    "w.data.copy_(y.detach())",
    "with torch.no_grad(): w.copy_(y)",
    "w.grad = y.detach().clone()",
    "out = y.numpy(force=True).sum() if not y.requires_grad else 0",
    "out = y.tolist()",
]


def made(statement):
    text = f"def program(y, w):\n    out = None\n    {statement}\n    return out\n"
    place = {"torch": torch}
    exec(compile(text, f"<{statement}>", "exec"), place)
    return place["program"]


def seen(function, way):
    """All that a call shows of its tensors, and of the gradients that a backward behind it makes."""
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = WAYS[way](w)
    try:
        out = function(y, w)
    except Exception as error:  # noqa: BLE001 - whatever eager raises: the kind is compared
        return type(error).__name__, facts(y), facts(w)
    results = out if isinstance(out, tuple) else (out,)
    shown = [facts(each) for each in results], facts(y), facts(w)
    behind = [each for each in (*results, y) if isinstance(each, torch.Tensor) and each.requires_grad]
    try:
        sum((each * each).sum() for each in dict.fromkeys(behind)).backward() if behind else None
    except RuntimeError:
        return shown, "no backward", facts(y), facts(w)
    return shown, facts(y), facts(w)


def facts(value):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    grad = value.grad if value.is_leaf or value.retains_grad else None
    known = value.tolist(), value.requires_grad, value.is_leaf, value.stride(), value.retains_grad, value.is_inference()
    return *known, None if grad is None else grad.tolist()


@pytest.mark.without_graphs("of some statements there is nothing to capture", cases="some")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_tensors_that_come_otherwise(statement, backend):
    program = made(statement)
    # What was made in inference mode is refused otherwise than in eager, with a sentence (docs/faq.md).
    ways = [way for way in WAYS if backend == "eager" or "inference" not in way]
    pairs = list(itertools.permutations(ways, 2))
    different = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for pair in random.sample(pairs, 4):
            compile_api.reset()
            compiled = compile_api.compile(program, backend=backend)
            for way in (*pair, pair[0]):
                expected, found = seen(program, way), seen(compiled, way)
                if expected != found:
                    different.append((pair, way, expected, found))
    assert not different
