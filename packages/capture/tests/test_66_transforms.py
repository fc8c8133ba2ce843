"""``torch.func`` in captured code: one graph with a module for what is transformed, and eager's values."""

import warnings

import pytest
import torch
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils import _pytree as pytree

import capture


def loss(w, a, target):
    return ((a @ w).tanh() - target).square().mean()


W, TARGET = torch.linspace(-1, 1, 6).reshape(3, 2), torch.ones(2, 2)
FACTOR = torch.tensor(3.0)
PER_SAMPLE = vmap(grad(lambda w, sample: (w * sample).sin().sum()), in_dims=(None, 0))


def gradient(a):
    return grad(loss)(W, a, TARGET) * 2


def gradient_and_value(a):
    (of_w, of_a), value = grad_and_value(loss, argnums=(0, 1))(W, a, TARGET)
    return of_w, of_a + 1, value


def auxiliary(a):
    gradients, (kept, more) = grad(lambda w: (loss(w, a, TARGET), (w + 1, {"a": a * 2})), has_aux=True)(W)
    return gradients, kept, more["a"]


def mapped(a):
    return vmap(lambda row: row.softmax(0) * row.shape[0] + FACTOR)(a) + vmap(torch.mul, in_dims=(1, 1), out_dims=1)(
        a, a
    )


def mapped_with_structures(a):
    found = vmap(
        lambda d, scale: {"sum": d["x"].sum() + d["more"][0][0], "pair": (d["x"] * scale,)},
        in_dims=({"x": 0, "more": 0}, None),
    )
    return vmap(lambda d, y: (d["x"] + y, [d["x"].sum()]))({"x": a}, y=a), found


def per_sample(a):
    return vmap(grad(lambda w, row: (w @ row).sin().sum()), in_dims=(None, 0))(torch.ones(2, 3), a)


def made_before(a):
    return PER_SAMPLE(torch.ones(3), a) + 1


def jacobians(a):
    return jacrev(torch.sin)(a), jacfwd(lambda t: t.exp().sum(0))(a), hessian(lambda t: t.pow(3).sum())(a[0])


def vector_products(a):
    value, pull = vjp(lambda t, u: (t.sin() * u, t.sum()), a, a + 1)
    first = pull((torch.ones_like(a), torch.tensor(2.0)))
    return value, first, jvp(torch.exp, (a,), (torch.ones_like(a),))


def nested_maps(a):
    return vmap(vmap(lambda scalar: scalar * 2 + FACTOR))(a), vmap(
        vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None)
    )(a, a)


def inner_products_of_gradients(a):
    return grad(lambda t: grad(lambda s: s.pow(3).sum())(t).sum())(a)


def keyword_arguments(a):
    return vmap(lambda row, *, scale: row * scale)(a, scale=torch.arange(3.0))


def with_random_numbers(a):
    return vmap(lambda row: row + torch.rand_like(row) * 0, randomness="different")(a)


def under_a_mode(a):
    with torch.no_grad():
        return grad(lambda t: t.sin().sum())(a) + vmap(lambda row: row.cos().detach())(a)


def not_mapped(a):
    return vmap(lambda row, other: (row * 2, other), in_dims=(0, None))(a, FACTOR)


WHOLE = [
    *(
        gradient,
        gradient_and_value,
        auxiliary,
        mapped,
        per_sample,
        made_before,
        jacobians,
        vector_products,
        nested_maps,
    ),
    *(inner_products_of_gradients, keyword_arguments, with_random_numbers, under_a_mode, not_mapped),
]


@pytest.mark.parametrize("function", WHOLE)
def test_is_one_graph_with_eagers_values(check, x, function):
    log = check(function, x)
    assert not [record for record in log.records() if isinstance(record, capture.BreakRecord)]


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

    def forward(self, a):
        return self.outer(self.inner(a).relu())


def test_gradients_per_sample_of_a_module(same, x):
    net = Net()

    def step(a, target):
        params = {name: p.detach() for name, p in net.named_parameters()}

        def of_one(params, sample, target):
            out = functional_call(net, params, (sample.unsqueeze(0),))
            return torch.nn.functional.cross_entropy(out, target.unsqueeze(0))

        return vmap(grad(of_one), in_dims=(None, 0, 0))(params, a, target)

    found, target = capture.explain(step, strict=True)(x, torch.tensor([0, 1])), torch.tensor([0, 1])
    same(found.result, step(x, target))
    assert (len(found.graphs), len(found.breaks)) == (1, 0)


def test_an_ensemble(same, x):
    nets = [Net() for _ in range(3)]
    params, buffers = stack_module_state(nets)
    base = Net().to("meta")

    def ensemble(a):
        return vmap(lambda p, b, t: functional_call(base, (p, b), (t,)), in_dims=(0, 0, None))(params, buffers, a)

    found = capture.explain(ensemble, strict=True)(x)
    same(found.result, ensemble(x))
    assert (len(found.graphs), len(found.breaks)) == (1, 0)


def test_gradients_go_through_a_transform(same, x):
    def outer(a, w):
        return (grad(lambda t: (t * w).sin().sum())(a) * vmap(lambda row: row * w[0])(a)).sum()

    results = []
    for function in (outer, capture.optimize("eager", strict=True)(outer)):
        a, w = x.clone().requires_grad_(), torch.ones(3, requires_grad=True)
        value = function(a, w)
        value.backward()
        results.append((value.detach(), a.grad, w.grad))
    same(results[1], results[0])


def of_data(a):
    return vmap(lambda row: row * 2 if row.sum() > 0 else row)(a)


def leaks_what_it_saw(a):
    kept = []
    vmap(lambda row: kept.append(row) or row * 2)(a)
    return a + len(kept)


def leaks(a):
    kept = []
    b = vmap(lambda row: kept.append(row) or row * 2)(a)
    return b, len(kept)


def counted(a):
    seen.append(1)
    return a.sum()


seen = []


def changes_what_is_outside(a):
    return grad(counted)(a) + 1


@pytest.mark.without_graphs("CPython maps what data decides", cases=["of_data"])
@pytest.mark.parametrize(
    "function", [of_data, mapped_with_structures, leaks, leaks_what_it_saw, changes_what_is_outside]
)
def test_is_right_where_it_is_not_whole(x, function):
    def outcome(function):
        seen.clear()
        try:
            result = function(x)
        except RuntimeError as error:
            return torch.zeros(0), [str(error)[:60]]
        return pytree.tree_leaves(result)[0], list(seen)

    expected, found = outcome(function), outcome(capture.optimize("eager", strict=True)(function))
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1]


def test_sizes_may_vary(same):
    mapped = lambda a: vmap(grad(lambda row: row.sin().sum()))(a) * 2
    captured, before = capture.optimize("eager", strict=True)(mapped), len(capture.records())
    for size in (3, 4, 5, 6):
        a = torch.randn(size, size + 1)
        same(captured(a), mapped(a))
    graphs = [record for record in capture.records()[before:] if isinstance(record, capture.GraphRecord)]
    assert len(graphs) == 2


@pytest.mark.without_graphs("CPython maps over nothing")
@pytest.mark.parametrize("shape", [(), (0,), (0, 3)])
def test_nothing_to_map_over(shape):
    """Eager says what becomes of it: a result without elements, or an error."""

    def told(program):
        try:
            return program(torch.ones(shape)).shape
        except (ValueError, IndexError) as error:
            return str(error)

    program = lambda x: vmap(lambda part: part + 1)(x)
    assert told(capture.optimize("eager")(program)) == told(program)


def test_a_tensor_of_inference_mode_is_differentiated():
    def program(x):
        with torch.inference_mode():
            made = x * 2
        return grad(lambda part: (part * x).sum())(made)

    x = torch.ones(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(capture.optimize("eager")(program)(x), program(x))


def failing(x):
    raise KeyError(str(x))


REFUSED = {
    "a gradient of a text": lambda x: grad(lambda text: text * text)("k"),
    "of an argument that is not there": lambda x: grad(failing, argnums=3)(x),
    "of whole numbers": lambda x: grad(failing)(x.long()),
    "a map over nothing": lambda x: vmap(failing)(3),
    "tangents that do not fit": lambda x: jvp(failing, (x,), (x, x)),
    "a function that fails": lambda x: vmap(lambda part: {}["key"])(x),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_torch_looks_at_the_arguments_before_the_function_is_called(refused):
    def program(x):
        try:
            return REFUSED[refused](x)
        except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as error:
            return type(error), x + 1

    x = torch.ones(3)
    (kind, value), (expected, _) = capture.optimize("eager")(program)(x), program(x)
    assert kind is expected
    assert torch.equal(value, x + 1)
