"""Start here: one line around a function, and the same results."""

import torch

import compile_api


def test_a_decorated_function_gives_eagers_result():
    def plain(x, y):
        return torch.sin(x) + torch.cos(y)

    @compile_api.compile
    def compiled(x, y):
        return torch.sin(x) + torch.cos(y)

    x, y = torch.randn(10_000), torch.randn(10_000)
    torch.testing.assert_close(compiled(x, y), plain(x, y))
    assert len(compile_api.report(compiled).captured) == 1


def test_the_function_form_leaves_the_original_alone():
    def foo(x):
        return x * 2 + 1

    compiled = compile_api.compile(foo)
    x = torch.randn(10, 10)
    assert torch.equal(compiled(x), foo(x))
    assert len(compile_api.report(compiled).captured) == 1
    assert compiled is not foo
    assert compiled.__name__ == "foo"


def test_both_operators_become_one_kernel():
    @compile_api.compile
    def f(x, y):
        return torch.sin(x) + torch.cos(y)

    f(torch.randn(64), torch.randn(64))
    report = compile_api.report(f)
    assert len(report.captured) == 1
    assert len(report.kernels) == 1
    assert report.fused_operators == 3
    assert report.compiled[0].fallbacks == ()


def test_arguments_may_be_any_python():
    @compile_api.compile
    def f(x, *rest, scale=2, **named):
        total = x * scale
        for each in rest:
            total = total + each
        return {"total": total, "bias": named["bias"] + 1, "count": len(rest)}

    out = f(torch.ones(3), torch.ones(3), torch.ones(3), bias=torch.zeros(3))
    assert torch.equal(out["total"], torch.full((3,), 4.0))
    assert torch.equal(out["bias"], torch.ones(3))
    assert out["count"] == 2
    assert len(compile_api.report(f).captured) == 1


def test_a_number_where_a_tensor_was_is_another_graph():
    compiled = compile_api.compile(lambda x, y: x + y)
    x = torch.randn(5, 5)
    assert torch.equal(compiled(x, x), x + x)
    assert torch.equal(compiled(x, 3), x + 3)
    assert len(compile_api.report(compiled).captured) == 2
