"""Functions that torch.jit compiled, within what is compiled: one graph where they only compute."""

import warnings
from typing import List, Optional, Tuple  # noqa: UP035 - what TorchScript reads

import pytest
import torch

import capture
import compile_api

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)

    @torch.jit.script
    def computes(x, y):
        return torch.sin(x) * y + x.mean()

    @torch.jit.script
    def branches(x, upward: bool, by: float = 2.0):
        if x.dim() > 1 and upward:
            for _ in range(x.size(0)):
                x = x * by
        else:
            x = x - by
        return x

    @torch.jit.script
    def of_lists(parts: List[torch.Tensor], last: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, int]:  # noqa: UP006, UP045
        if last is not None:
            parts.append(last)
        return torch.cat(parts, 1), len(parts)

    @torch.jit.script
    def writes(x, y):
        x.add_(y)
        return x

    @torch.jit.script
    def a_view(x):
        return x[:1], x.t()

    @torch.jit.script
    def calls_another(x):
        return computes(x, x) + branches(x, True)

    @torch.jit.script
    def draws(x):
        return torch.nn.functional.dropout(x, 0.5, True)

    @torch.jit.script
    def prints(x):
        print("seen")
        return x + 1

    @torch.jit.script
    def looks(x):
        if bool(x.sum() > 0):
            return x + 1
        return x - 1

    @torch.jit.script
    def raises(x):
        if x.size(0) > 2:
            raise ValueError("too many")
        return x * 2

    @torch.jit.ignore
    def of_python(x):
        SEEN.append(1)
        return x * 2

    @torch.jit.script
    def asks_python(x):
        return of_python(x) + 1


SEEN = []
WHOLE = {
    "computes": lambda x, w: computes(x * w, w).sin(),
    "branches": lambda x, w: (branches(x * w, True), branches(x * w, by=0.5, upward=False)),
    "lists": lambda x, w: of_lists([x * w, w], w * 2),
    "none": lambda x, w: of_lists([x, w])[0] * 2,
    "a view": lambda x, w: [each * 2 for each in a_view(x * w)],
    "another": lambda x, w: calls_another(x * w),
    "written": lambda x, w: writes(x * w, w) + 1,
}
BROKEN = {
    "prints": lambda x, w: prints(x * w) * 2,
    "looks": lambda x, w: looks(x * w) * 2,
    "python": lambda x, w: (asks_python(x * w) * 2, len(SEEN)),
}


def everything(function, calls=5):
    """What somebody could see of several calls: TorchScript compiles anew within the first ones."""
    SEEN.clear()
    torch.manual_seed(0)
    w, found = torch.randn(2, 2).requires_grad_(), []
    for call in range(calls):
        x = torch.randn(2, 2) * (call + 1)
        with torch.set_grad_enabled(call != 3):
            result = function(x, w)
        parts = [result] if isinstance(result, torch.Tensor) else list(result)
        tensors = [each for each in parts if isinstance(each, torch.Tensor)]
        if call != 3:
            sum(each.square().sum() for each in tensors).backward()
        found += [x, *parts, w.grad, *(each.requires_grad for each in tensors), *(each.stride() for each in tensors)]
        w.grad = None
    return found


def compare(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@BACKENDS
@pytest.mark.parametrize("name", WHOLE)
def test_one_that_computes_is_part_of_the_graph(name, backend):
    compiled = compile_api.compile(WHOLE[name], backend=backend, fullgraph=True)
    compare(everything(compiled), everything(WHOLE[name]))


@BACKENDS
@pytest.mark.parametrize("name", BROKEN)
def test_one_that_does_more_runs_as_in_eager(name, backend, capfd):
    expected = everything(BROKEN[name])
    said = capfd.readouterr().out
    compare(everything(compile_api.compile(BROKEN[name], backend=backend)), expected)
    assert capfd.readouterr().out == said
    with pytest.raises(capture.Unsupported):
        compile_api.compile(BROKEN[name], backend="eager", fullgraph=True)(torch.ones(2, 2), torch.ones(2, 2))


@BACKENDS
def test_what_it_writes_to_is_written(backend):
    def program(x):
        return writes(x, x * 2), x + 1

    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    for _ in range(4):
        ours, theirs = torch.ones(3), torch.ones(3)
        found, expected = compiled(ours), program(theirs)
        assert found[0] is ours
        compare([ours, *found], [theirs, *expected])


@BACKENDS
def test_sizes_vary_and_too_many_are_refused(backend):
    compiled = compile_api.compile(lambda x: raises(x + 1) * 3, backend=backend)
    for _ in range(2):
        for lines in (1, 2):
            torch.testing.assert_close(compiled(torch.ones(lines, 2)), torch.full((lines, 2), 12.0))
        with pytest.raises(torch.jit.Error, match="too many"):
            compiled(torch.ones(3, 2))


def test_what_it_draws_is_what_eager_draws():
    compiled = compile_api.compile(lambda x: draws(x) * 2, backend="eager", fullgraph=True)
    for seed in range(4):
        torch.manual_seed(seed)
        found = compiled(torch.ones(8))
        torch.manual_seed(seed)
        assert torch.equal(found, draws(torch.ones(8)) * 2)


def test_another_function_by_the_same_name_is_noticed():
    held = {"function": computes}
    compiled = compile_api.compile(lambda x: held["function"](x, x) * 2, backend="eager")
    x = torch.rand(2, 2)
    for function in (computes, writes, computes):
        held["function"] = function
        torch.testing.assert_close(compiled(x.clone()), function(x.clone(), x.clone()) * 2)


def test_under_autocast_it_runs_as_in_eager():
    def program(x):
        with torch.autocast("cpu", torch.bfloat16):
            return computes(x @ x, x)

    compiled = compile_api.compile(program, backend="eager")
    for _ in range(3):
        x = torch.rand(3, 3)
        found, expected = compiled(x), program(x)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)
