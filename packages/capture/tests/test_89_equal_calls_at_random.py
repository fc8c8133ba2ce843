"""Whatever changes of a layer that was not evaluated, the compiled function notices as for one that was."""

import random
import re

import pytest
import torch
from layers_at_random import changes, net_of, written

import capture
from capture.evaluator.equal_calls.machine import MachineOfEqualCalls

CHANGES = 6  # of one net, one after another


class Twins:
    """A net in eager and compiled; ``learns``: with gradients."""

    def __init__(self, text, *, learns=True, **options):
        self.nets = net_of(text), net_of(text)
        self.learns = learns
        options = {"strict": True, "equal_calls": True, "verify_equal_calls": False, "recompile_limit": 64, **options}
        self.compiled = capture.optimize("eager", options=capture.Options(**options))(self.nets[1])

    def assert_alike(self, told):
        eager, ours = (self._seen(call, net) for call, net in zip((self.nets[0], self.compiled), self.nets))
        assert _text(eager) == _text(ours), told

    def _seen(self, call, net):
        torch.manual_seed(1)
        x = torch.arange(8.0).reshape(2, 4).div(10).requires_grad_(self.learns)
        try:
            with torch.set_grad_enabled(self.learns):
                result = call(x)
            if result.requires_grad:
                result.sum().backward()
            seen = [result, x.grad]
        except Exception as error:  # noqa: BLE001 - eager's is to be ours
            seen = [type(error)]
        held = [[item for item in vars(each).items() if item[0][0] != "_"] for each in net.modules() if each is not net]
        seen += [held, net.scope.GLOBAL, net.scope.Layer.factor, [p.grad for p in net.parameters()], torch.rand(1)]
        seen += [list(net.named_parameters()), list(net.named_buffers())]
        net.zero_grad()
        return seen


def _text(seen):
    return re.sub(r"0x\w+", "", repr(seen))


def tried(seed, **options):
    """A net, and changes of it between calls."""
    draw, text = random.Random(seed), written(seed)
    twins = Twins(text, **options)
    twins.assert_alike(text)
    twins.assert_alike(f"again: {text}")
    for _ in range(CHANGES):
        place, told = draw.randrange(7), [name for name, _ in changes(twins.nets[0].layers[0])]
        picked = draw.randrange(len(told))
        for net in twins.nets:
            found = list(changes(net.layers[place]))
            name, change = found[picked % len(found)]
            try:
                change()
            except Exception:  # noqa: BLE001 - it does not fit
                continue
        twins.assert_alike(f"{place}: {name}: {text}")


@pytest.mark.parametrize("seed", range(40))
def test_layers_at_random(seed):
    tried(seed)


@pytest.mark.parametrize("seed", range(60, 100))
def test_layers_at_random_without_gradients(seed):
    tried(seed, learns=False)


@pytest.mark.parametrize("seed", range(40, 60))
def test_layers_at_random_that_are_verified(seed):
    tried(seed, verify_equal_calls=True)


def test_layers_are_done_again(monkeypatch):
    """Or the tests above would show nothing."""
    done, again = [], MachineOfEqualCalls._done_again
    monkeypatch.setattr(MachineOfEqualCalls, "_done_again", lambda self, *told: (done.append(1), again(self, *told))[1])
    for seed in range(20):
        tried(seed)
    assert len(done) > 30
