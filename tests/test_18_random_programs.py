"""Generated programs that break, switch modes, take views and change tensors in place: values, gradients, aliases and
who has a history are eager's, whichever mode the program is called in.

RANDOM_PROGRAMS says how many.
"""

import itertools
import os

import hypothesis.strategies as st
import torch
from hypothesis import given, settings
from torch.utils import _pytree as pytree

import capture
import compile_api

SIMPLE = """
a = a * w
a = a + b.sum()
a = a.clamp(-3, 3)
a = torch.where(a > 0, a, w)
a = (a * b).cumsum(0)
a = a.clone(); a.add_(b)
a = a.clone(); a[0] = b.sum()
b = torch.cat([a, b])[:3] * w
b = b.detach()
b = b.clone(); b[1:].mul_(2); items.append(b[:2])
b = b * (a.max().item() + 1)
buf.add_(a.detach())
buf.copy_(b.detach()); items.append(buf)
items.append(a[1:])
items.append(a.view(3, 1))
items.append(a.detach())
items.append(w[1:])
items.append(a.requires_grad)
items.append(torch.is_grad_enabled())
items.append(w)
a, b = b, a
n = int((a > 0).sum().item())
capture.graph_break()
""".strip().splitlines()
HEADS = """
if n > 1:
if a.sum() > 0:
for n in range(2):
for v in (a, b):
with torch.no_grad():
with torch.enable_grad():
with torch.set_grad_enabled(n > 1):
""".strip().splitlines()


def blocks(depth=3):
    simple = st.sampled_from(SIMPLE).map(lambda line: [line])
    if depth == 0:
        return simple
    inner = st.lists(blocks(depth - 1), min_size=1, max_size=3).map(lambda parts: [*itertools.chain(*parts)])
    return simple | st.tuples(st.sampled_from(HEADS), inner).map(lambda t: [t[0], *indented(t[1])])


def indented(lines):
    return ["    " + line for line in lines]


def program(lines):
    source = "\n".join(["def program(a, b, w, buf, items):", *indented(["n = 2", *lines, "return a, b, n, items"])])
    namespace = {"torch": torch, "capture": capture}
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace["program"]


def outcome(function, mode):
    """All that a caller sees of a call: values, histories, gradients, and which tensors are one or share memory."""
    w, a = torch.tensor([0.5, -1.0, 2.0], requires_grad=True), torch.tensor([1.0, -2.0, 3.0])
    arguments = [a, w * 0.5, w, torch.zeros(3), []]
    with mode():
        leaves = pytree.tree_leaves([function(*arguments), arguments])
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    objects, memories = [[*map(of, tensors)] for of in (id, lambda tensor: tensor.untyped_storage()._cdata)]
    return (
        [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves],
        [(tensor.stride(), history(tensor)) for tensor in tensors],
        [gradient(tensor, w) for tensor in tensors if history(tensor) == (True, True)],
        [(objects.index(one), memories.index(memory)) for one, memory in zip(objects, memories, strict=True)],
        torch.is_grad_enabled(),
    )


def history(tensor):
    try:
        return tensor.requires_grad, tensor.grad_fn is not None
    except RuntimeError as error:  # torch allows no use of a view whose base was changed in another mode
        return str(error)


def gradient(tensor, w):
    return torch.autograd.grad(tensor.sum(), w, allow_unused=True, retain_graph=True)[0]


@settings(max_examples=int(os.environ.get("RANDOM_PROGRAMS", "60")), deadline=None)
@given(st.lists(blocks(), min_size=1, max_size=4), st.permutations([torch.no_grad, torch.enable_grad]))
def test_calls_show_what_eagers_show(parts, modes):
    plain = program(itertools.chain(*parts))
    compiled = compile_api.compile(plain, backend="aot_eager")
    for mode in modes:
        torch.testing.assert_close(outcome(compiled, mode), outcome(plain, mode), equal_nan=True)
    compile_api.reset()
