"""Every optimizer of torch in every form it has; groups, optimizers by hand, and schedules of their settings."""

import inspect
from functools import partial

import torch
from torch import nn, optim

from programs.whole_steps.training import CASES, Training, case

SETTINGS = {
    "Adadelta": [{}],
    "Adafactor": [{}],
    "Adagrad": [{"lr_decay": 0.1}],
    "Adam": [{"eps": 1e-3}, {"eps": 1e-3, "amsgrad": True, "weight_decay": 0.1}],
    "AdamW": [{"eps": 1e-3}, {"eps": 1e-3, "maximize": True}],
    "Adamax": [{"eps": 1e-3}],
    "ASGD": [{}],
    "LBFGS": [{"max_iter": 2}],
    "Muon": [{"lr": 1e-6}],  # it rounds to bfloat16 in between, in the run that judges, too
    "NAdam": [{"eps": 1e-3}],
    "RAdam": [{"eps": 1e-3}],
    "RMSprop": [{"eps": 1e-3}, {"eps": 1e-3, "momentum": 0.9, "centered": True}],
    "Rprop": [{}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True}],
    "SparseAdam": [{"eps": 1e-3}],
}
FUSED_ON_CPU = ("Adagrad", "Adam", "AdamW", "SGD")


def forms(name):
    """The ways in which an optimizer can run."""
    accepted = inspect.signature(getattr(optim, name)).parameters
    found = [{"foreach": False}, {"foreach": True}] if "foreach" in accepted else [{}]
    return [*found, {"fused": True}] if name in FUSED_ON_CPU else found


class Tuned(Training):
    def __init__(self, name, settings, to_none):
        self.name, self.settings, self.to_none = name, settings, to_none
        super().__init__()

    def net(self):
        if self.name == "SparseAdam":
            return nn.Sequential(nn.Embedding(4, 3, sparse=True))
        if self.name == "Muon":
            return nn.Sequential(nn.Linear(4, 8, bias=False), nn.Linear(8, 3, bias=False))
        return super().net()

    def tuner(self, parameters):
        return getattr(optim, self.name)(parameters, **{"lr": 0.01, **self.settings})

    def step(self, x, y):
        if self.name == "LBFGS":
            return self.optimizer.step(partial(self.closure, x, y))
        loss = self.closure(x, y)
        self.optimizer.step()
        return loss

    def closure(self, x, y):
        self.optimizer.zero_grad(set_to_none=self.to_none)
        loss = self.loss(x, y)
        loss.backward()
        return loss

    def batch(self):
        x, y = super().batch()
        return (torch.randint(4, (6,)) if self.name == "SparseAdam" else x), y


def _tune():
    for name, variants in SETTINGS.items():
        for settings in variants if hasattr(optim, name) else ():
            for form in forms(name):
                given = {**settings, **form}
                for to_none in (True, False):
                    text = ", ".join(f"{key}={value}" for key, value in given.items())
                    kept = "" if to_none else ", gradients kept"
                    CASES[f"{name}({text}){kept}"] = partial(Tuned, name, given, to_none)


_tune()


@case
class Groups(Training):
    """groups of parameters with settings of their own"""

    def tuner(self, parameters):
        first, *others = parameters
        groups = [{"params": [first], "lr": 0.1}, {"params": others, "weight_decay": 0.1}]
        return optim.SGD(groups, lr=0.01, momentum=0.9)


@case
class ByHand(Training):
    """an update by hand"""

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
        return loss


@case
class ByData(Training):
    """an update of ``.data``"""

    def step(self, x, y):
        self.model.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        for parameter in self.model.parameters():
            parameter.data.add_(parameter.grad.data, alpha=-0.1)
        self.model[0].bias.data = self.model[0].bias.data.clamp(-0.1, 0.1)
        return loss


# -- schedules ----------------------------------------------------------------------------------------------------


@case
class Scheduled(Training):
    """a schedule between the steps"""

    def made(self):
        self.schedule = optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 5)

    def between(self):
        self.schedule.step()


@case
class ScheduledWithin(Training):
    """a schedule within the step"""

    def made(self):
        self.schedule = optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=5)

    def step(self, x, y):
        loss = super().step(x, y)
        self.schedule.step()
        return loss


@case
class ScheduledByLoss(Training):
    """a schedule that follows the loss"""

    def made(self):
        self.schedule = optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0)

    def step(self, x, y):
        loss = super().step(x, y)
        self.schedule.step(loss.item())
        return loss
