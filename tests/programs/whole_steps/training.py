"""A whole training step as a case: a small net, its optimizer, and what a step does."""

import inspect

import torch
from torch import nn, optim
from torch.nn import functional as F


class Training:
    """A small net, its optimizer, and a step over one batch."""

    def __init__(self):
        self.model = self.net()
        self.optimizer = self.tuner(self.model.parameters())
        self.made()

    def net(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    def tuner(self, parameters):
        return optim.AdamW(parameters, lr=1e-2, eps=1e-3)  # a small epsilon would make a step of a rounding

    def made(self):
        """What else there is."""

    def loss(self, x, y):
        return F.cross_entropy(self.model(x), y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def between(self):
        """What is done between two steps, in eager."""

    def batch(self):
        return torch.randn(6, 4), torch.randint(3, (6,))


CASES = {}


def case(cls):
    """``cls`` under the first line of its docstring."""
    CASES[inspect.getdoc(cls).splitlines()[0]] = cls
    return cls
