"""What a function that ``torch.func`` transforms changes besides: as often, and seen as early, as in eager."""

import textwrap

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import capture

ONES = torch.ones(3)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.weight = 0, torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.count += 1
        return x.sin() * self.count * self.weight


def counter():
    module = Counting()
    return module, lambda: module.count


def appended():
    seen = []
    return lambda w: seen.append(1) or w.sin() * len(seen), lambda: list(seen)


def stepped():
    numbers = iter((1.0, 2.0, 3.0))
    return lambda w: w * next(numbers), lambda: next(numbers)


def cached():
    kept = {}
    return lambda w: kept.setdefault("sin", w.sin()) * w, lambda: len(kept)


def written_in_place():
    buffer = torch.zeros(3)
    return lambda w: buffer.add_(1) * w.sin(), buffer.clone


def statistics():
    norm = torch.nn.BatchNorm1d(3)
    return lambda w: norm(torch.stack([w, w * 2])).sum(0), norm.running_var.clone


def lent():
    module = Counting()
    return lambda w: functional_call(module, {"weight": w}, (w,)), lambda: (module.count, module.weight)


CHANGES = (counter, appended, stepped, cached, written_in_place, statistics, lent)


def pulled(f, x):
    value, pull = vjp(f, x)
    return value, pull(ONES), pull(value)


TRANSFORMS = {
    "vjp": pulled,
    "vjp, of which the function is kept": vjp,
    "vjp, of which the value is kept": lambda f, x: vjp(f, x)[0] * 2,
    "vjp of vjp": lambda f, x: vjp(lambda v: vjp(f, v)[1](ONES)[0], x)[1](ONES),
    "vmap of vjp": lambda f, x: vmap(lambda v: vjp(f, v)[1](ONES))(torch.stack([x, x])),
    "grad": lambda f, x: grad(lambda w: f(w).sum())(x),
    "jacrev": lambda f, x: jacrev(f)(x),
    "jacfwd": lambda f, x: jacfwd(f)(x),
    "hessian": lambda f, x: hessian(f)(x),
    "jvp": lambda f, x: jvp(f, (x,), (ONES,)),
    "linearize": lambda f, x: linearize(f, x)[0],
    "vmap": lambda f, x: vmap(f)(torch.stack([x, x])),
    "vmap in chunks": lambda f, x: vmap(f, chunk_size=1)(torch.stack([x, x])),
}


def outcome(transform, change, compiled):
    function, state = change()
    try:
        results = compiled(lambda x: transform(function, x))(torch.tensor([0.1, 0.2, 0.3]))
    except (RuntimeError, StopIteration) as error:
        return type(error), state()
    if callable(results[-1]):
        results = results[0], results[1](ONES)
    return results, state()


CALLED_AGAIN = ["vjp", "vjp, of which the function is kept", "vjp of vjp"]


@pytest.mark.without_graphs("CPython runs what changes something and would be called again", cases=CALLED_AGAIN)
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")  # torch's own, of `linearize`
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_effects_are_eagers(transform, same):
    for change in CHANGES:
        found = [
            outcome(TRANSFORMS[transform], change, compiled) for compiled in (capture.optimize("eager"), _as_it_is)
        ]
        same(*found)


def _as_it_is(function):
    return function


def changed_number(x):
    holder = Counting()
    _, pull = vjp(lambda w: w.sin() * (holder.count + 1), x)
    holder.count = 4
    return pull(ONES)


def changed_number_and_a_break(x):
    holder = Counting()
    _, pull = vjp(lambda w: w.sin() * (holder.count + 1), x)
    holder.count = 4
    eval("1")
    return pull(ONES)


def changed_tensor(x):
    factor = torch.ones(3)
    _, pull = vjp(lambda w: w * (factor * 2), x)
    factor.add_(1)
    return pull(ONES)


def another_mode(x):
    with torch.no_grad():
        _, pull = vjp(torch.sin, x)
    return pull(ONES)[0].requires_grad, pull(ONES)


def an_option(x):
    return vjp(torch.sin, x)[1](ONES, create_graph=False)[0].requires_grad


def drawn_before_and_within(x):
    factor = torch.rand(3)
    value, pull = vjp(lambda w: torch.nn.functional.dropout(w, 0.5) * factor, x)
    return value, pull(ONES)


IN_BETWEEN = (changed_number, changed_number_and_a_break, changed_tensor, another_mode, an_option)


@pytest.mark.without_graphs("CPython pulls back in another mode or with an option", cases=["another_mode", "an_option"])
@pytest.mark.parametrize("function", [*IN_BETWEEN, drawn_before_and_within])
def test_a_pullback_is_of_the_function_as_it_was(function, same):
    found = []
    for each in (capture.optimize("eager")(function), function):
        torch.manual_seed(0)
        found.append(each(torch.tensor([0.1, 0.2, 0.3], requires_grad=True)))
    same(*found)


LINEAR = torch.nn.Linear(3, 3)
HELD = {"factor": 1}


def lends_a_parameter(x):
    value, pull = vjp(lambda w: functional_call(LINEAR, {"bias": w}, (x,)), x)
    return value.shape, pull(ONES)


def jacobian_by_hand(x):
    _, pull = vjp(lambda w: w.sin() * w.sum(), x)
    return vmap(pull)(torch.eye(3)), pull(ONES)


def item_of_a_dict(x):
    HELD["factor"] = 2
    _, pull = vjp(lambda w: w.sin() * HELD["factor"], x)
    HELD["factor"] = 5
    return pull(ONES)


def own_objects(x):
    def function(w):
        sums = [torch.zeros(3)]
        sums[0].add_(w)
        sums.append(w)
        return sums[0] * sums[1]

    return vjp(function, x)[1](ONES)


@pytest.mark.parametrize("function", [lends_a_parameter, jacobian_by_hand, own_objects, item_of_a_dict])
def test_what_changes_nothing_is_one_graph(function, same):
    x = torch.tensor([0.1, 0.2, 0.3])
    found = capture.explain(function, strict=True)(x)
    assert (len(found.graphs), len(found.breaks)) == (1, 0)
    same(found.result, function(x))


_NUMBERS = {
    "count": "n += 1",
    "used within": "n += 1; w = w * n",
    "used before": "w = w * n; n += 2",
    "size": "n = w.shape[-1] + n",
    "size alone": "n = w.shape[-1] * 2",
    "twice": "n += 1; n = n * 2; w = w + n",
}
_TRANSFORMED = {
    "grad": "grad(loss)(w) * n",
    "grad twice": "grad(lambda v: grad(loss)(v).sum() * n)(w) + n",
    "jvp": "jvp(loss, (w,), (w,))[1] * n",
    "vjp": "vjp(loss, w)[1](torch.ones(()))[0] * n",
    "vmap": "vmap(loss)(w.expand(2, -1)) * n",
    "jacrev": "jacrev(loss)(w) * n",
    "in a row": "grad(loss)(w) * n + grad(loss)(w) * n",
    "size of a result": "(grad(loss)(w), torch.zeros(n))",
    "number": "(grad(loss)(w), n)",
    "vmap of grad": "vmap(grad(loss))(w.expand(2, -1)) * n",
}


@pytest.mark.parametrize("changed", _NUMBERS)
def test_a_number_that_varies_and_changes_in_a_transformed_function(changed):
    for result in _TRANSFORMED.values():
        told = []
        for around in (lambda play: play, capture.optimize("eager", strict=True)):
            names = {"torch": torch, "grad": grad, "jvp": jvp, "vjp": vjp, "vmap": vmap, "jacrev": jacrev}
            body = f"        nonlocal n\n        {_NUMBERS[changed]}\n        return w.sin().sum()"
            play = f"def play(w):\n    nonlocal n\n    def loss(w):\n{body}\n    return {result}\n"
            text = "def make():\n    n = 1\n" + textwrap.indent(play, "    ") + "    return play\n"
            exec(text, names)
            play = around(names["make"]())
            told.append([str(play(torch.linspace(0, 1, size))) for size in (2, 3, 4, 5, 5)])
        assert told[0] == told[1], result
