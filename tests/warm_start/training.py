"""The program of the mutation test trained: forward or whole steps, compiled with a store, each in its process."""

import contextlib
import importlib
import json
import math
import sys
from pathlib import Path

import torch
from whole import Whole

import capture
from capture.stored.keys import _own_sources

sys.path.insert(0, str(Path(__file__).parents[2] / "packages/capture/tests/stored"))

import worker as alone


def seen(value):
    """Tensors as JSON has them, without what they lie in."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().to(torch.complex128 if value.is_complex() else torch.float64).flatten()
        numbers = torch.view_as_real(numbers) if value.is_complex() else numbers
        return [str(value.dtype), value.requires_grad, list(value.shape), numbers.flatten().tolist()]
    if isinstance(value, dict):
        return [[str(key), seen(each)] for key, each in value.items()]
    return [seen(each) for each in value] if isinstance(value, list | tuple) else repr(value)


def step_of(net, optimizer, inside):
    """What is compiled: forward alone, with backward, or the whole step."""

    def step(x):
        result = net(x)
        loss = result.square().mean()
        loss.backward()
        if inside == "step":
            optimizer.step()
            optimizer.zero_grad()
        return result.detach()

    return net if inside == "forward" else step


def trained(wrapped, space):
    """Steps: results, gradients with those that are missing, buffers, the optimizer's state, random numbers."""
    net, x, inside = space["net"], space["x"], space["inside"]
    optimizer = space["optimizer"](net.parameters())
    call = wrapped(step_of(net, optimizer, inside))
    torch.manual_seed(7)
    told = []
    for _ in range(2 if inside == "forward" else 3):
        result = call(x)
        if inside == "forward":
            result.square().mean().backward()
        gradients = [[name, seen(each.grad)] for name, each in net.named_parameters()]
        told.append([seen(result), gradients, seen(x.grad if x.is_leaf else None)])
        if inside != "step":
            optimizer.step()
            optimizer.zero_grad()
    state = torch.get_rng_state().tolist()
    told += [seen(dict(net.named_parameters())), seen(dict(net.named_buffers())), seen(optimizer.state_dict())]
    return [*told, hash(tuple(state))]


def run(folder, store, before, around, kind):
    """In a process of its own: what a caller sees, and of what was compiled what it tells."""
    sys.path.insert(0, folder)
    program = importlib.import_module("program")
    torch.manual_seed(0)
    space = {"program": program, "helper": sys.modules["helper"], "torch": torch, "net": program.Net(),
             "x": torch.randn(3, 4), "contextlib": contextlib, "capture": capture, "inside": "forward",
             "optimizer": lambda parameters: torch.optim.SGD(parameters, 0.01, momentum=0.9)}  # fmt: skip
    exec(before, space)
    made = []

    def stored(target):
        made.append(Whole(target, store, ""))
        return made[0].call

    wraps = {"stored": stored, "eager": lambda target: target, "compiled": Whole.without_store}
    with eval(around, space):
        result = alone.outcome(lambda: trained(wraps[kind], space))
    told = made[0].told() if made else {}
    return {"result": result, **told}


def alike(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=2e-3, abs_tol=2e-4) or (one != one and other != other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


def serve():
    torch.set_num_threads(1)
    _own_sources()  # they may be edited meanwhile
    for line in sys.stdin:
        given = json.loads(line)
        told = alone.in_child(run, *given, "stored")
        expected = alone.in_child(run, *given, "eager")
        same = alike(told.get("result"), expected.get("result"))
        if not same:  # nor is what is compiled without a store
            expected = alone.in_child(run, *given, "compiled")
            same = alike(told.get("result"), expected.get("result"))
        print(json.dumps({"same": same, **told, "expected": None if same else expected}), flush=True)


if __name__ == "__main__":
    serve()
