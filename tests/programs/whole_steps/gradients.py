"""What is done to gradients between backward and the optimizer: casting, scaling, clipping, accumulating, hooks."""

from functools import partial

import torch
from torch import nn, optim
from torch.nn import functional as F

from programs.whole_steps.training import Training, case

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
