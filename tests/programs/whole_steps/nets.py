"""Several nets in a step, and nets whose parts are frozen, shared, checkpointed, noisy, normed."""

import copy

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from programs.whole_steps.training import Training, case

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
