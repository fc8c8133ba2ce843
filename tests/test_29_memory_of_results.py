"""Which results lie in one memory is as eager has it, whatever was found to be computed twice."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import compile_api

BACKENDS = ("eager", "aot_eager", "inductor")
PROGRAMS = {
    "places of what is sorted": lambda x: (x.sort()[1], x.argsort(), x.sort(stable=True)[0]),
    "values and places": lambda x: (x.max(0)[0], x.max(0)[0], x.max(0)[1], x.cummax(0)[0], x.cummax(0)[0]),
    "one of three is used": lambda x: ((x.exp() * 2).sum(), x.exp(), x.exp()),
    "a view and a value": lambda x: (x.exp().t(), x.exp()),
    "pieces": lambda x: ((x + 1).split(1)[0], (x + 1).split(1)[0], (x * 2).unbind()[0], (x * 2).unbind()[0]),
    "several results": lambda x: (*torch.var_mean(x, 0), *torch.var_mean(x, 0)),
    "factors": lambda x: (*torch.linalg.eigh(x @ x.t()), *torch.linalg.eigh(x @ x.t())),
    "new tensors": lambda x: (torch.zeros(2), torch.zeros(2), torch.arange(3), torch.arange(3), torch.tensor([1.0])),
    "expanded": lambda x: (x.sum().expand(2), x.sum().expand(2)),
    "the largest": lambda x: (*x.topk(2), *x.topk(2)),
    "other types and layouts": lambda x: (x.double(), x.double(), x.t().contiguous(), x.t().contiguous()),
    "flat": lambda x: (x.t().contiguous(), x.t().flatten(), x.t().reshape(-1)),
    "copies": lambda x: (x.clone(), x.clone(), torch.cat([x, x]), torch.cat([x, x])),
}


def shared(results):
    """The pairs of results in one memory."""
    places = [result.untyped_storage().data_ptr() for result in results]
    return [(a, b) for a, b in itertools.combinations(range(len(places)), 2) if places[a] == places[b]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_share_memory_as_eagers_do(name, trains, backend):
    x = torch.randn(3, 3)
    compiled = compile_api.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    expected = shared(PROGRAMS[name](x.clone().requires_grad_(trains)))
    assert shared(compiled(x.clone().requires_grad_(trains))) == expected


MADE = {
    "tensor": lambda x: torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
    "as_tensor": lambda x: torch.as_tensor([[1, 2], [3, 4]]),
    "new_tensor": lambda x: x.new_tensor([[1.0, 2.0], [3.0, 4.0]]),
    "one number": lambda x: torch.tensor(5.0).expand(2, 2),
    "arange": lambda x: torch.arange(4.0).view(2, 2),
    "zeros": lambda x: torch.zeros(2, 2),
    "computed": lambda x: x.detach()[:2, :2] * 2,
}
VIEWS = {
    "every other row": lambda t: t[::2],
    "transposed": lambda t: t.T,
    "a window": lambda t: t[0, 1:],
    "flat": lambda t: t.reshape(-1)[1:],
    "a row": lambda t: t.unbind()[1],
    "detached": lambda t: t[1].detach(),
    "by strides": lambda t: t.as_strided((1,), (1,), 0),
    "written": lambda t: t.T.clone().t()[1:].add_(1),
    "all and a part": lambda t: (t, t[:, 1]),
}


def memories(results):
    """How results lie in their memory, which of them share one, and what is in them after each was written to."""
    results = [each for result in results for each in (result if isinstance(result, tuple) else [result])]
    lie = [(each.stride(), each.storage_offset(), each.untyped_storage().nbytes(), each._is_view()) for each in results]
    for number, each in enumerate(results):
        if 0 not in each.stride():
            each.fill_(number)
    return lie, shared(results), [each.tolist() for each in results]


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("view", VIEWS)
def test_views_of_what_a_function_makes_keep_the_memory_they_view(view, trains, backend):
    def program(x):
        return [VIEWS[view](make(x)) for make in MADE.values()] + [x.sum() * 2]

    x = torch.ones(3, 3, requires_grad=trains)
    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):  # and the next call gets others
        found, expected = compiled(x), program(x)
        assert memories(found[: len(MADE)]) == memories(expected[: len(MADE)])


OF_LIBRARIES = {
    "a linear layer of sequences": lambda x: F.linear(x[None], x),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "a number by einsum": lambda x: torch.einsum("ij,ij->", x, x),
    "products of four dimensions": lambda x: x[None, None] @ x.T[None, None],
    "a convolution of one image": lambda x: F.conv1d(x, torch.ones(2, 3, 2)),
    "attention by hand": lambda x: ((x @ x.T).softmax(-1)[None] @ x[None])[0],
    "a row of a product": lambda x: (x @ x.T + 1)[0],
    "a product and its transpose": lambda x: (lambda p: (p.T, p))(x @ x.T)[0],
    "norms": lambda x: F.layer_norm(F.linear(x[None], x), (3,)).view(-1),
    "solved": lambda x: torch.linalg.solve(x @ x.T + torch.eye(3), x)[1:],
    "the argument": lambda x: F.linear(x, x).sum() * 0 + x.view(-1),
    "zeros": lambda x: torch.zeros(9).view(3, 3),
    "numbers": lambda x: torch.arange(9.0).add_(1).view(3, 3).T,
    "a product of ones": lambda x: (torch.ones(3, 3) @ torch.ones(3, 3))[0],
    "filled": lambda x: torch.empty(9).fill_(2)[1:].mul_(2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("writes", [1, 2, 3])
@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_what_is_returned_may_be_written_to_with_what_needs_gradients(name, writes, trains, backend):
    """As `h += self.bias` behind a break does: autograd refuses that of views which were made while it was off, and
    loses it where a view's version was set back."""
    program, weight = OF_LIBRARIES[name], torch.tensor(2.0, requires_grad=True)
    compiled, x = compile_api.compile(program, backend=backend, fullgraph=True), torch.randn(3, 3)
    grads = []
    for call in (program, compiled, compiled):
        result = call(x.clone().requires_grad_(trains) * 1)
        for _ in range(writes):
            result.mul_(weight)
        grads += torch.autograd.grad(result.sum(), weight)
    torch.testing.assert_close(grads[1:], grads[:1] * 2)
