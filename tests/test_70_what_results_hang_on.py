"""A result hangs on the arguments that eager's hangs on: reading a value for a mask, or detached, is no way back to it.

Otherwise a backward goes through what is behind an argument that gets no gradient, and finds it used up.
"""

import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import compile_api

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the operators, and of functions left to eager
OPERATORS = [op for op in op_db if torch.float32 in op.dtypes and not op.name.startswith("jiterator")]
FORMS = {
    "itself": lambda result, t: result,
    "a mask of it": lambda result, t: torch.where(result.isnan().any(), t, t * 2),
    "itself, detached": lambda result, t: t * result.detach().real.sum(),
    "what has no derivative": lambda result, t: t * result.abs().sign().sum(),
}


def leaves_behind(results):
    pending, found = [each.grad_fn for each in results if each.grad_fn is not None], {}
    while pending:
        step = pending.pop()
        if step not in found:
            found[step] = getattr(step, "variable", None)
            pending += [before for before, _ in step.next_functions if before is not None]
    return {id(leaf) for leaf in found.values() if leaf is not None}


def program_of(op, form):
    def program(t, input, args, kwargs):
        results = [each for each in tree_leaves(op(input, *args, **kwargs)) if isinstance(each, torch.Tensor)]
        return [FORMS[form](each, t) for each in results]

    return program


def leaf_of(value):
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.detach().clone().requires_grad_() if floats else value


def differences(op, form, backend):
    """The samples whose results hang on other leaves than eager's, of those that eager takes."""
    for sample in list(op.sample_inputs("cpu", torch.float32))[:3]:
        given = tree_map(leaf_of, (torch.ones(3), sample.input, list(sample.args), dict(sample.kwargs)))
        program = program_of(op, form)
        try:
            torch.manual_seed(0)
            expected = leaves_behind(program(*given))
        except (RuntimeError, NotImplementedError):
            continue
        compile_api.reset()
        torch.manual_seed(0)
        if leaves_behind(compile_api.compile(program, backend=backend)(*given)) != expected:
            yield op.name, sample


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_results_hang_on_what_eagers_hang_on(form, backend):
    for op in [next(op for op in OPERATORS if op.name == "add"), *random.sample(OPERATORS, 8)]:
        assert not list(differences(op, form, backend)), op.name


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_leaves_alone_what_a_mask_was_computed_from(backend):
    f = compile_api.compile(lambda w, t: t.masked_fill(w > 1, 1.0), backend=backend)
    t = torch.ones((), requires_grad=True)
    w = t * 1
    w.backward(retain_graph=False)  # what is behind it is used up
    f(w, t).backward()
    assert t.grad == 2


def test_a_function_whose_backward_gives_nothing_goes_back_to_its_own_arguments():
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, gradient):
            return None

    @compile_api.compile
    def f(w, y):
        return Nothing.apply(w), [each.detach() for each in y]

    w = torch.ones(1, requires_grad=True)
    y = w * 3
    y.backward()
    f(w, y)[0].backward()
    assert w.grad == 3


# Their gradients are zeros that are made of no gradient that arrives.
CONSTANTS = {
    "power": lambda y: y**0,
    "sign": torch.sign,
    "round": torch.round,
    "power, in place": lambda y: (y * 1).pow_(0),
}


@pytest.mark.parametrize("make", [lambda w: w, lambda w: w + 1], ids=["a leaf", "with a history"])
@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_of_zero_arrive_from_one_of_several_results(backend, name, make):
    def program(y):
        result = CONSTANTS[name](y)
        return result, result.sum()

    f = compile_api.compile(program, backend=backend)
    for which in (0, 1):
        w = torch.tensor([2.0], requires_grad=True)
        f(make(w))[which].sum().backward()
        assert w.grad == 0
