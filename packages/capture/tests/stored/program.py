"""The program of the mutation test: whatever is changed here, or before its first call, has to be seen."""

import helper
import torch

SCALE = 2.0
CONFIG = helper.Config()
TABLE = {"shift": 0.5}


def inner(x):
    return helper.twist(x) * SCALE


def closed_over(k):
    def closed(x):
        return x * k

    return closed


closed = closed_over(3)


def doubled(function):
    def wrapper(x):
        return function(x) + function(x)

    return wrapper


@doubled
def decorated(x):
    return x - 0.25


def default(x, k=1.0, *, more=0.5):
    return x + k * more


class Base(torch.nn.Module):
    def act(self, x):
        return torch.relu(x)


class Net(Base):
    factor = 1.5

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.norm = torch.nn.LayerNorm(4)
        self.drop = torch.nn.Dropout(0.5)
        self.eval()

    @property
    def half(self):
        return 0.5

    @staticmethod
    def turned(x):
        return x.sin()

    def forward(self, x):
        x = self.drop(self.norm(self.lin(x)))
        x = self.act(x) * self.factor + self.half
        x = inner(x) + closed(x) + decorated(x)
        if CONFIG.double:
            x = x + x
        x = helper.Scaler.apply_to(self.turned(x)) + TABLE["shift"]
        return torch.nn.functional.softplus(default(x))
