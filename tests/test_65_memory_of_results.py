"""Which results share memory with one another, and with arguments: as in eager, for programs write to them."""

import itertools
import random

import pytest
import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

import compile_api

NETWORKS = list(itertools.product([nn.RNN, nn.GRU, nn.LSTM], [1, 2], [False, True], [False, True], [1, 3]))


def shared(given, results):
    """Pairs of tensors over the same memory, and where in it, and in how much of it, each result lies."""
    tensors = [each for each in [*given, *results] if isinstance(each, torch.Tensor) and each.layout is torch.strided]
    made = [each for each in tensors[len(given) :] if each.numel()]
    pairs = itertools.combinations(range(len(tensors)), 2)
    memory = [each.untyped_storage()._cdata if each.numel() else object() for each in tensors]
    return (
        [pair for pair in pairs if memory[pair[0]] == memory[pair[1]]],
        [(each.storage_offset(), each.untyped_storage().nbytes()) for each in made],
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("training", [False, True])
def test_states_of_recurrent_networks(training, backend):
    for kind, layers, both, first, steps in [*NETWORKS[:6], *NETWORKS[-1:]] if backend == "inductor" else NETWORKS:
        network = nn.Sequential(kind(3, 2, layers, bidirectional=both, batch_first=first))
        x = torch.randn(steps, steps, 3)
        with torch.set_grad_enabled(training):
            found, expected = (
                shared([x], tree_flatten(function(x))[0])
                for function in (compile_api.compile(network, backend=backend), network)
            )
        assert found[0] == expected[0], (kind, layers, both, first, steps)


def test_a_state_is_written_to():
    network = nn.GRU(3, 2)
    compiled, x = compile_api.compile(network), torch.ones(3, 2, 3)

    def loss(function):
        network.zero_grad()
        results, state = function(x)
        state.detach()[:, 1] = 0  # a sequence that starts anew
        results.square().sum().backward()
        return [each.grad.clone() for each in network.parameters()]

    torch.testing.assert_close(loss(compiled), loss(network))


# No values to compare; a GPU's own; torch does not say that their results are views, and docs/faq.md does.
LEFT_OUT = ("empty", "new_empty", "jiterator", "unsafe_")
OPERATORS = [each for each in op_db if torch.float32 in each.dtypes and not each.name.startswith(LEFT_OUT)]


def plain(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@pytest.mark.filterwarnings("ignore")  # of what is in beta, sparse, deprecated
@pytest.mark.parametrize(("backend", "count"), [("aot_eager", 60), ("inductor", 10)])
def test_results_of_operators(backend, count):
    differ = []
    for operator in random.sample(OPERATORS, count):
        sample = next(iter(operator.sample_inputs("cpu", torch.float32)))
        given = tree_map(plain, (sample.input, sample.args, sample.kwargs))
        tensors = [each for each in tree_flatten(given)[0] if isinstance(each, torch.Tensor)]

        def program(x, args, kwargs, operator=operator):
            return operator.op(x, *args, **kwargs)

        found, expected = (
            shared(tensors, tree_flatten(function(*given))[0])
            for function in (compile_api.compile(program, backend=backend), program)
        )
        if found != expected:
            differ.append((operator.full_name, found, expected))
    assert not differ


APART = {
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "part": lambda t: t.detach()[1:],
    "view": lambda t: t.view(-1).detach(),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(("first", "second"), [(one, other) for one in APART for other in APART])
def test_histories_of_one_memory_are_each_their_own(first, second, backend):
    """What was detached and then written to has a history of its own, whoever else is returned of that memory."""

    def program(x, w):
        made = x * 1
        one = APART[first](made)
        one.add_(w)
        other = APART[second](one)
        other.mul_(w)
        return made, one, other

    outcomes = []
    for run in (program, compile_api.compile(program, backend=backend)):
        w = torch.tensor(2.0, requires_grad=True)
        results = run(torch.ones(4), w)
        sum((each * number).sum() for number, each in enumerate(results) if each.requires_grad).backward()
        outcomes.append(([(each.requires_grad, each.tolist()) for each in results], w.grad))
    assert outcomes[0] == outcomes[1]
