"""Functions with a backward of their own, behind some of the results: who uses which results, after which writes."""

import gc
import itertools
import weakref

import pytest
import torch

import aotgrad

WRITTEN = ("", "v", "w")
ANSWERS = {
    "whatever arrives": lambda x, y, g, h: (torch.full_like(x, 5.0), torch.ones_like(g)),
    "what was saved": lambda x, y, g, h: (x, y + 1),
    "one of two": lambda x, y, g, h: (g * 2, g + 1),
    "crosswise": lambda x, y, g, h: (h * 1, x),
    "nothing for one": lambda x, y, g, h: (None, x),
    "more than arrives": lambda x, y, g, h: (g + 1, h * y + x),
}
PROGRAMS = {
    "both": lambda f, v, w: f(v, w),
    "one and another": lambda f, v, w: (f(v, w)[0], w * 1.0),
    "behind another": lambda f, v, w: (f(v * v, w)[0], v * w),
    "two": lambda f, v, w: (f(v, w)[0], f(w, v)[1]),
    "apart": lambda f, v, w: (f(v, w)[0] * w, v * 1.0),
    "three": lambda f, v, w: (*f(v, w), v * w),
    "levels": lambda f, v, w: (lambda first: (first, first * 2 + w, v * 3.0))(f(v, w)[0]),
    "twice": lambda f, v, w: (f(*f(v, w))[0], v.sin(), w * 1.0),
}


def function(answer):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x * 2, y * 3

        @staticmethod
        def backward(ctx, g, h):
            return answer(*ctx.saved_tensors, g, h)

    return Own.apply


def gradients(program, order, written, create):
    v = torch.tensor([2.0, 3.0], requires_grad=True)
    w = torch.tensor([5.0, 7.0], requires_grad=True)
    results = program(v, w)
    for tensor in {"v": [v], "w": [w]}.get(written, []):
        tensor.detach().add_(1)
    for number in order:
        try:
            found = torch.autograd.grad(
                results[number].sum(), (v, w), allow_unused=True, create_graph=create, retain_graph=True
            )
        except RuntimeError as error:
            yield "modified" if "modified" in str(error) else str(error)
        else:
            yield [None if gradient is None else gradient.tolist() for gradient in found]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("answer", ANSWERS)
def test_who_uses_which_results_after_which_writes(answer, program):
    own = function(ANSWERS[answer])

    def compared(v, w):
        return PROGRAMS[program](own, v, w)

    compiled = aotgrad.function(compared, forward=aotgrad.run_eagerly)
    orders = [order for length in (1, 2) for order in itertools.permutations(range(2), length)]
    for order, written, create in itertools.product(orders, WRITTEN, (False, True)):
        ours, theirs = (list(gradients(each, order, written, create)) for each in (compiled, compared))
        # Eager asks for all that the function saved, whether or not its backward reads it.
        assert all(mine == its for mine, its in zip(ours, theirs, strict=True) if its != "modified")


def test_a_write_to_what_another_result_needs_is_no_concern():
    def program(x, w):
        return x * w, w * 2

    compiled, w = aotgrad.function(program, forward=aotgrad.run_eagerly), torch.ones(3, requires_grad=True)
    x = torch.rand(3)
    product, double = compiled(x, w)
    x.add_(1)
    double.sum().backward()
    assert w.grad.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_answers_that_do_not_hang_on_what_arrives_are_refused_where_sizes_vary():
    own = function(ANSWERS["whatever arrives"])
    compiled = aotgrad.function(lambda v: (own(v, v)[0], v * 2), forward=aotgrad.run_eagerly, dynamic=True)
    with pytest.raises(aotgrad.Unsupported, match="whatever arrives"):
        compiled(torch.ones(3, requires_grad=True))


class ItsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad


class ItsView(ItsInput):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)


class ViewOfItsOwn(ItsInput):
    @staticmethod
    def forward(ctx, x):
        return (x * 2).view(-1)


class TwoViews(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x), x[:1]

    @staticmethod
    def backward(ctx, grad, of_part):
        return grad


@pytest.mark.parametrize("function", [ItsInput, ItsView, ViewOfItsOwn, TwoViews])
@pytest.mark.parametrize("viewed", [False, True])
def test_views_that_a_function_returned_refuse_to_be_written_to(function, viewed):
    def program(x):
        result = function.apply(x.clone())
        result = result[0] if isinstance(result, tuple) else result
        return result.view(1, -1) if viewed else result

    def after(f):
        x = torch.ones(3, requires_grad=True)
        result = f(x)
        gradient = torch.autograd.grad(result.sum(), x, retain_graph=True)[0]
        with pytest.raises(RuntimeError) as refused:
            result.mul_(2)
        return gradient.tolist(), str(refused.value).split("This view", 1)[1]

    assert after(aotgrad.function(program, forward=aotgrad.run_eagerly)) == after(program)


class OfTheSecond(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return None, h * 3


def test_autograd_comes_to_what_gets_no_gradient():
    def program(x, y):
        return OfTheSecond.apply(x, y)[1]

    def after(f):
        w, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        x = w.exp()
        told = []
        for _ in range(2):
            try:
                told.append(torch.autograd.grad(f(x, y).sum(), w, allow_unused=True))
            except RuntimeError as error:  # the history of `x` was used up
                told.append(str(error))
        return told

    assert after(aotgrad.function(program, forward=aotgrad.run_eagerly)) == after(program)


def test_who_called_the_compiler_is_let_go():
    """A frame that the trace kept would keep those that called it, with their variables, until cycles are collected: a
    checkpoint that raised, say, whose hooks end with its exception."""

    class Kept:
        pass

    def caller():
        kept = Kept()
        x = torch.ones(2, requires_grad=True)
        aotgrad.function(lambda x: function(ANSWERS["what was saved"])(x, x)[0].detach(), forward=aotgrad.run_eagerly)(
            x
        )
        return weakref.ref(kept)

    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()
