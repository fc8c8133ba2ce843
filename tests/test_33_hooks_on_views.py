"""Hooks on views, and gradients that views keep, where something was computed from the view before."""

import pytest
import torch

import compile_api


def by_a_function(w):
    return w.t()


VIEWS = {
    "looked at": lambda w: w.view(-1),
    "a row": lambda w: w[0],
    "one of several": lambda w: w.unbind()[0],
    "expanded": lambda w: w.expand(2, 2, 3),
    "of a result": lambda w: (w * 2).view(-1),
    "by a function": by_a_function,
    "no view": lambda w: w * 2,
}
WATCHED = {
    "a hook": lambda view, seen: view.register_hook(lambda grad: seen.append(grad.sum().item())),
    "a hook that changes": lambda view, seen: view.register_hook(lambda grad: grad * 3),
    "kept": lambda view, seen: view.retain_grad(),
}


@pytest.mark.parametrize("watched", WATCHED)
@pytest.mark.parametrize("kind", VIEWS)
def test_gradients_come_by_the_view(kind, watched):
    def program(w, seen):
        view = VIEWS[kind](w)
        loss = view.sin().sum() + w.sum()
        WATCHED[watched](view, seen)
        return view, loss

    def run(function):
        w, seen = torch.arange(6.0).view(2, 3).requires_grad_(), []
        view, loss = function(w, seen)
        loss.backward()
        return w.grad, torch.tensor(seen), view.grad if view.retains_grad else torch.ones(1)

    compiled = compile_api.compile(program, backend="aot_eager")
    torch.testing.assert_close(run(compiled), run(program))
    report = compile_api.report(compiled)
    assert len(report.captured) == (1 if kind == "no view" else 2)
    assert {each.reason.kind for each in report.breaks} == {"autograd"}
