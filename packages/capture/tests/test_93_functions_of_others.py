"""What begins no frame that the hook looks at, and is given to ``optimize``: captured as if a function called it."""

import functools
import operator
import os
import random
import warnings

import pytest
import torch
import torch.nn.functional as F

import capture

X = torch.linspace(-1, 1, 9).reshape(3, 3)
NOT_ASKED = ("manual_seed", "seed", "set_", "empty", "resize", "pin_memory")


def outcome(function, *args):
    """What a call gives or raises, and the operators of each graph; or why there is no whole one."""
    log = capture.Log()
    try:
        with torch.random.fork_rng():
            result = capture.optimize("eager", nopython=True, log=log)(function)(*args)
    except capture.Unsupported as error:
        return error.reason.kind, None
    except Exception as error:  # noqa: BLE001 - whatever eager raises
        return type(error), str(error)
    operators = [each.operators for each in log.records() if isinstance(each, capture.GraphRecord)]
    return operators, repr(result) if isinstance(result, torch.Tensor | tuple) else type(result)


@pytest.mark.parametrize("namespace", [F, operator, torch, torch.Tensor, torch.linalg, torch.special])
def test_any_function_is_captured_as_if_another_called_it(namespace):
    """Of namespaces with many names a third, drawn anew in each run; all of them with ``SWEEPS=all``."""
    captured, names = 0, sorted(dir(namespace))
    if len(names) > 300 and os.environ.get("SWEEPS") != "all":
        names = random.Random().sample(names, len(names) // 3)
    for name in names:
        function = getattr(namespace, name)
        if name.startswith(("_", *NOT_ASKED)) or isinstance(function, type) or not callable(function):
            continue
        if capture.is_left_out(function):  # `torch.cond`, for one, which torch's compiler does
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = outcome(function, X.clone())
            assert ours == outcome(lambda *args, f=function: f(*args), X.clone()), name
        captured += bool(isinstance(ours[0], list) and ours[0])
    assert captured >= (3 if namespace is operator else 10)


PARTIALS = [
    functools.partial(torch.add, other=1),
    functools.partial(F.gelu, approximate="tanh"),
    functools.partial(functools.partial(torch.mul), other=2),
    X.add,
    X.__add__,
    torch.ops.aten.sin.default,
    torch.no_grad()(lambda a, b=2: a.sin() * b),
    torch.vmap(lambda a, b=2: a * b),
    torch.func.grad(lambda a: (a * a).sum()),
]
EACH_PARTIAL = pytest.mark.parametrize("function", PARTIALS, ids=range(len(PARTIALS)))


@EACH_PARTIAL
def test_it_is_captured_whole_and_answers_as_it_did(function):
    log = capture.Log()
    region = capture.optimize("eager", nopython=True, log=log)(function)
    assert torch.equal(region(X), function(X))
    assert [type(each) for each in log.records()] == [capture.GraphRecord]
    for name in ("__name__", "__qualname__", "__doc__"):
        assert getattr(region, name, None) == getattr(function, name, None)
    assert capture.as_written(region) is function


def test_a_module_whose_forward_is_no_python():
    module = torch.nn.ReLU()
    for module.forward in (torch.sin, functools.partial(torch.add, other=1)):
        log = capture.Log()
        assert torch.equal(capture.optimize("eager", nopython=True, log=log)(module)(X), module.forward(X))
        assert [type(each) for each in log.records()] == [capture.GraphRecord]


def test_each_has_versions_of_its_own():
    optimize = capture.optimize("eager", nopython=True, recompile_limit=2)
    for name in ("sin", "cos", "tan", "exp"):
        function = getattr(torch, name)
        assert torch.equal(optimize(function)(X), function(X))


def test_records_tell_where_it_is():
    def written(a):
        return a.sin().item()

    for function, place in ((torch.Tensor.tolist, "<call of tolist>:1"), (torch.no_grad()(written), f"{__file__}:")):
        log = capture.Log()
        capture.optimize("eager", log=log)(function)(X.sum())
        assert all(str(each.location).startswith(place) for each in log.records())
        assert log.records()
