"""Whole training steps in one compiled function are eager's: forward, loss, backward and optimizer, three times.

Everything that somebody could see is compared after each step: parameters, buffers, gradients and which of them are
None, the optimizers' state, the loss, and where the random numbers stand.  WHOLE_STEPS=all runs every step on every
backend; by default every fourth runs on one.
"""

import copy
import inspect
import os
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).parent.parent))  # the judge is a program of this repository, not a package

from search.judge import differ
from search.observed import observe
from search.runner import BACKENDS, compiler

ALL = os.environ.get("WHOLE_STEPS") == "all"
STEPS = 3


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


# -- optimizers ---------------------------------------------------------------------------------------------------

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


def test_every_optimizer_is_here():
    found = {name for name in optim.__all__ if name != "Optimizer" and inspect.isclass(getattr(optim, name))}
    assert found <= set(SETTINGS)
    assert all(hasattr(optim, name) for name in SETTINGS if name != "Muon")


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


# -- precision ----------------------------------------------------------------------------------------------------


class Autocast(Training):
    dtype = torch.bfloat16

    def loss(self, x, y):
        with torch.autocast("cpu", dtype=self.dtype):
            return F.cross_entropy(self.model(x), y)


@case
class AutocastBf16(Autocast):
    """autocast to bfloat16"""


@case
class AutocastF16(Autocast):
    """autocast to float16"""

    dtype = torch.float16


@case
class Scaled(Autocast):
    """a scaler of gradients"""

    dtype = torch.float16

    def made(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


@case
class Overflowing(Scaled):
    """a scaler whose first steps overflow"""

    def made(self):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=1)


# -- gradients ----------------------------------------------------------------------------------------------------


class Clipped(Training):
    def clip(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        norm = self.clip()
        self.optimizer.step()
        return loss, norm


@case
class ClippedNorm(Clipped):
    """clipped by norm"""

    def clip(self):
        return nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)


@case
class ClippedMax(Clipped):
    """clipped by the largest, one by one"""

    def clip(self):
        return nn.utils.clip_grad_norm_(self.model.parameters(), 0.1, norm_type=float("inf"), foreach=False)


@case
class ClippedStrictly(Clipped):
    """clipped by norm, which has to be finite"""

    def clip(self):
        return nn.utils.clip_grad_norm_(self.model.parameters(), 0.1, error_if_nonfinite=True)


@case
class ClippedValue(Clipped):
    """clipped by value"""

    def clip(self):
        return nn.utils.clip_grad_value_(self.model.parameters(), 0.01)


@case
class Accumulated(Training):
    """gradients of two halves are added up"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        total = 0.0
        for inputs, targets in zip(x.chunk(2), y.chunk(2), strict=True):
            loss = self.loss(inputs, targets) / 2
            loss.backward()
            total = total + loss.detach()
        self.optimizer.step()
        return total


@case
class AccumulatedOverCalls(Training):
    """gradients are added up over calls"""

    def made(self):
        self.calls = 0

    def step(self, x, y):
        loss = self.loss(x, y)
        loss.backward()
        self.calls += 1
        if self.calls % 2 == 0:
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=False)
        return loss


@case
class TwoLosses(Training):
    """two losses over one retained graph"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        out = self.model(x)
        first, second = F.cross_entropy(out, y), out.square().mean()
        first.backward(retain_graph=True)
        second.backward()
        self.optimizer.step()
        return first, second


@case
class TwoLossesTwoOptimizers(Training):
    """two losses, an optimizer for each half"""

    def made(self):
        self.other = optim.SGD(self.model[2].parameters(), lr=0.1)
        self.optimizer = optim.SGD(self.model[0].parameters(), lr=0.1, momentum=0.9)

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.other.zero_grad()
        hidden = self.model[1](self.model[0](x))
        loss = F.cross_entropy(self.model[2](hidden), y)
        (hidden.square().mean() + loss).backward(inputs=list(self.model[0].parameters()), retain_graph=True)
        loss.backward(inputs=list(self.model[2].parameters()))
        self.optimizer.step()
        self.other.step()
        return loss


@case
class Penalty(Training):
    """a penalty on the gradient of the input"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        x = x.detach().requires_grad_()
        loss = self.loss(x, y)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + slope.square().sum()).backward()
        self.optimizer.step()
        return loss


@case
class Edited(Training):
    """gradients are edited and dropped"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        for parameter in self.model.parameters():
            parameter.grad.mul_(0.5).add_(parameter.detach(), alpha=0.1)
        self.model[0].bias.grad = None
        self.model[2].bias.grad = torch.ones(3)
        self.optimizer.step()
        return loss


@case
class SkippedWhenBad(Training):
    """a step that is left out where the loss is no number"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        if torch.isfinite(loss):
            loss.backward()
            self.optimizer.step()
        return loss.item()


@case
class Hooked(Training):
    """hooks on parameters after their gradients have arrived"""

    def made(self):
        self.order = []
        for index, parameter in enumerate(self.model.parameters()):
            parameter.register_post_accumulate_grad_hook(partial(self.arrived, index))

    def arrived(self, index, parameter):
        self.order.append(index)
        parameter.grad.mul_(2)


@case
class HookedGradients(Training):
    """hooks on parameters that change gradients"""

    def made(self):
        for index, parameter in enumerate(self.model.parameters()):
            parameter.register_hook(lambda grad, index=index: grad * (index + 1))


# -- several nets -------------------------------------------------------------------------------------------------


class Averaged(Training):
    options = {}

    def made(self):
        self.average = optim.swa_utils.AveragedModel(self.model, **self.options)

    def step(self, x, y):
        loss = super().step(x, y)
        self.average.update_parameters(self.model)
        return loss


@case
class Swa(Averaged):
    """an average of the parameters"""


@case
class Ema(Averaged):
    """a moving average of the parameters"""

    options = {"multi_avg_fn": optim.swa_utils.get_ema_multi_avg_fn(0.9), "use_buffers": True}

    def net(self):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))


@case
class EmaByHand(Training):
    """a moving average by hand"""

    def made(self):
        self.slow = copy.deepcopy(self.model).requires_grad_(False)

    def step(self, x, y):
        loss = super().step(x, y)
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
        return loss


@case
class Gan(Training):
    """two nets against each other"""

    def made(self):
        self.judge = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))
        self.judge_optimizer = optim.RMSprop(self.judge.parameters(), lr=1e-2, eps=1e-3)

    def step(self, x, y):
        real, fake = F.one_hot(y, 3).to(x.dtype), self.model(x)
        self.judge_optimizer.zero_grad()
        judged = F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(fake.detach())).mean()
        judged.backward()
        self.judge_optimizer.step()
        self.optimizer.zero_grad()
        made = F.softplus(-self.judge(fake)).mean()
        made.backward()
        self.optimizer.step()
        return judged, made


@case
class Student(Training):
    """a student of a frozen teacher"""

    def made(self):
        self.teacher = nn.Linear(4, 3).eval().requires_grad_(False)

    def loss(self, x, y):
        with torch.no_grad():
            wanted = self.teacher(x).softmax(-1)
        return F.kl_div(self.model(x).log_softmax(-1), wanted, reduction="batchmean")


# -- nets ---------------------------------------------------------------------------------------------------------


@case
class Frozen(Training):
    """frozen parameters"""

    def net(self):
        net = super().net()
        net[0].weight.requires_grad_(False)
        return net


@case
class Thawed(Training):
    """parameters that are frozen after the first step"""

    def between(self):
        self.model[0].weight.requires_grad_(not self.model[0].weight.requires_grad)


@case
class Unused(Training):
    """parameters that take no part"""

    def made(self):
        self.model.register_parameter("spare", nn.Parameter(torch.ones(3)))
        self.optimizer = optim.Adam(self.model.parameters(), eps=1e-3)


@case
class Tied(Training):
    """tied weights"""

    def net(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
        net[2].weight = net[0].weight
        return net


@case
class TiedWords(Training):
    """words in and out by one table"""

    def net(self):
        return nn.Embedding(4, 4, padding_idx=0)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x) @ self.model.weight.T, y)

    def batch(self):
        return torch.randint(4, (6,)), torch.randint(4, (6,))


class Checkpointed(Training):
    reentrant = False

    def loss(self, x, y):
        hidden = checkpoint(self.model[:2], x.requires_grad_(), use_reentrant=self.reentrant)
        return F.cross_entropy(self.model[2](hidden), y)


@case
class CheckpointedPlainly(Checkpointed):
    """a checkpoint"""


@case
class CheckpointedAgain(Checkpointed):
    """a checkpoint that reenters"""

    reentrant = True


@case
class InPlace(Training):
    """activations in place and a residual"""

    def net(self):
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.Hardswish(inplace=True))

    def loss(self, x, y):
        out = self.model[:2](x)
        skip = x.clone()
        out += skip
        return F.cross_entropy(self.model[2:](out), y)


@case
class Detached(Training):
    """a state that is detached in place"""

    def made(self):
        self.hidden = torch.zeros(6, 8)

    def net(self):
        return nn.ModuleList([nn.GRUCell(4, 8), nn.Linear(8, 3)])

    def loss(self, x, y):
        self.hidden.detach_()
        self.hidden = self.model[0](x, self.hidden)
        return F.cross_entropy(self.model[1](self.hidden), y)


@case
class Normed(Training):
    """convolutions and batch norm"""

    def net(self):
        layers = [nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.AdaptiveAvgPool1d(1)]
        return nn.Sequential(nn.Unflatten(1, (1, 4)), *layers, nn.Flatten(), nn.Linear(4, 3))


@case
class Dropped(Training):
    """dropout"""

    def net(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))


@case
class Noisy(Training):
    """noise on the input and on gradients"""

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x + 0.1 * torch.randn_like(x), y)
        loss.backward()
        for parameter in self.model.parameters():
            parameter.grad.add_(torch.rand(parameter.shape, dtype=x.dtype), alpha=0.1)
        self.optimizer.step()
        return loss


@case
class Attending(Training):
    """attention and layer norm"""

    def net(self):
        return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x[None])[0], y)


@case
class Recurrent(Training):
    """a recurrent net"""

    def net(self):
        return nn.LSTM(4, 3, batch_first=True)

    def loss(self, x, y):
        return F.cross_entropy(self.model(x[None])[0][0], y)


@case
class Parametrized(Training):
    """weights that are made of others"""

    def net(self):
        first = nn.utils.parametrizations.weight_norm(nn.Linear(4, 8))
        return nn.Sequential(first, nn.Tanh(), nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3)))


@case
class Counting(Training):
    """a net that counts and keeps what it saw"""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(4, 3)
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(4))
            self.last = None

        def forward(self, x):
            self.seen += 1
            self.mean.copy_(self.mean * 0.9 + x.mean(0) * 0.1)
            self.last = self.line(x - self.mean)
            return self.last

    def net(self):
        return self.Net()


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


# -- comparing ----------------------------------------------------------------------------------------------------


class Run:
    """A training as it goes, call by call."""

    def __init__(self, make, wrap, wide=False):
        torch.manual_seed(0)
        self.training, self.wide = make(), wide
        if wide:
            for net in vars(self.training).values():
                if isinstance(net, nn.Module):
                    net.double()
        self.step = wrap(self.training.step)

    def once(self, index):
        torch.manual_seed(index)
        batch = [each.double() if self.wide and each.is_floating_point() else each for each in self.training.batch()]
        try:
            seen = {"result": self.step(*batch)}
        except Exception as error:  # noqa: BLE001 - eager's is to be ours
            seen = {"raised": error}
        sights = observe(**seen, world=dict(vars(self.training)), batch=batch, random=torch.get_rng_state())
        self.training.between()
        return sights


def in_double(make, steps):
    run = Run(make, lambda step: step, wide=True)
    return [run.once(index) for index in range(steps)][-1]


def check(name, backend):
    make = CASES[name]
    expected, actual = Run(make, lambda step: step), Run(make, compiler(backend))
    for index in range(STEPS):
        found = differ(expected.once(index), actual.once(index), partial(in_double, make, index + 1))
        assert found is None, f"step {index + 1}: {found}"


ORDER = "the inputs of a compiled function give their gradients in another order than eager's"
SPARSE = "a graph with a sparse gradient in it is not compiled in silence"
NOT_YET = {
    **{("hooks on parameters after their gradients have arrived", backend): ORDER for backend in BACKENDS[1:]},
    **{(name, backend): SPARSE for name in CASES if name.startswith("SparseAdam") for backend in BACKENDS[1:]},
}
"""What differs still; it fails once it does not."""


def chosen():
    backends = {
        name: BACKENDS if ALL else (BACKENDS[index % 3],) * (index % 4 == 1) for index, name in enumerate(CASES)
    }
    pairs = [(name, backend) for name, given in backends.items() for backend in given]
    marks = {pair: pytest.mark.xfail(reason=NOT_YET[pair], strict=True) for pair in pairs if pair in NOT_YET}
    return [pytest.param(*pair, marks=marks.get(pair, ())) for pair in pairs]


@pytest.mark.parametrize(("name", "backend"), chosen())
def test_a_whole_step(name, backend):
    check(name, backend)
