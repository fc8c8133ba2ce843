"""What tracing does for each argument does not grow with the number of the others."""

import collections

import torch

import aotgrad
from aotgrad.pre_autograd import rules
from aotgrad.recording.watched_views import Watched
from aotgrad.tensors import functional


def updated(*tensors):
    """An optimizer's step."""
    parameters, gradients = tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):
            parameter.add_(gradient, alpha=-0.5)
    return [parameter.view(-1) for parameter in parameters]


def looked_at(monkeypatch, count):
    """How often tracing asks which memory a tensor has, and how many operators the mode above autograd is told of."""
    seen = collections.Counter()
    memory_of, run = functional.memory_of, rules.EarlyRules._run
    monkeypatch.setattr(functional, "memory_of", lambda value: (seen.update(["memory"]), memory_of(value))[1])
    monkeypatch.setattr(rules.EarlyRules, "_run", lambda *told: (seen.update(["operators"]), run(*told))[1])
    parameters = [torch.ones(2, 2) for _ in range(count)]
    aotgrad.function(updated, forward=aotgrad.run_eagerly)(*parameters, *(torch.ones(2, 2) for _ in range(count)))
    monkeypatch.undo()
    assert all(parameter.eq(0.5).all() for parameter in parameters)
    return seen


def test_each_argument_costs_as_much_as_the_last(monkeypatch):
    few, many = looked_at(monkeypatch, 4), looked_at(monkeypatch, 32)
    assert few["memory"] > 8
    assert many["memory"] <= 8 * few["memory"]
    assert many["operators"] <= 8 * few["operators"]


def test_questions_are_no_operators():
    assert not rules.QUESTIONS & rules.RULES.keys()


def test_the_last_write_to_each_view_counts():
    base = torch.zeros(3, 4, requires_grad=True).clone()
    views = [base[0], base[1], torch.zeros(4)[:2]]
    watched = Watched()
    for view in views:
        watched.add(view)
    watched.look()
    with torch.no_grad():
        views[2].add_(1)
    watched.look()
    assert [watched.was_written_unfollowed(view) for view in views] == [False, False, True]
    views[0].mul_(2)  # each view of the base has a new history
    watched.look()
    assert [watched.was_written_unfollowed(view) for view in views] == [False, False, True]
