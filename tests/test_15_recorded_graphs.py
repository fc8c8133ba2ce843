"""``mode="reduce-overhead"``: what is compiled is recorded and replayed, in inference and in training.

Without a CUDA device the recordings are made on the emulated one of the package ``cudagraphs``: its graphs are calls
made again, and everything around them (which inputs are copied, whose memory is held, what is handed out) is as on a
GPU.  ``tests/gpu`` does the same on a real one.
"""

import copy
import itertools
import re
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

import compile_api
import cudagraphs
from cudagraphs.emulated import EmulatedDriver
from cudagraphs.gain import Took
from cudagraphs.show import show_tree

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from models.zoo import ZOO

PAGE = Path(__file__).parent.parent / "docs" / "how" / "cudagraphs.md"


class Device(EmulatedDriver):
    """Every measurement is shorter than the one before, so that recording always pays.  Copies are counted."""

    def __init__(self):
        super().__init__()
        self.clock = itertools.count(1_000_000, -1)
        self.copied_in, self.copied_out = [], 0

    def timed(self, work):
        took = next(self.clock)
        return Took(took, took), work()

    def launch(self, graph, sources):
        self.copied_in.append([tuple(source.shape) for source in sources])
        super().launch(graph, sources)

    def copy(self, destinations, sources):
        self.copied_out += len(sources)
        super().copy(destinations, sources)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def manager(monkeypatch, device):
    manager = cudagraphs.Manager(device)
    monkeypatch.setattr("cudagraphs.api._pools_for", lambda example_inputs: (manager, None))
    monkeypatch.setattr("cudagraphs.eligible._is_on_cpu", lambda value: False)  # which is the device here
    return manager


def test_the_tree_in_the_documentation_is_the_one_that_its_program_leaves(manager):
    page = PAGE.read_text()
    program, *_ = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (drawn,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(program.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"'), {"__name__": "__main__"})
    assert show_tree(manager.tree) == drawn.strip()


def recorded(model):
    return compile_api.compile(model, mode="reduce-overhead")


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))


def losses(model, call, steps=12, zero_first=True):
    """A training loop as it is usually written; the loss of every step is kept."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    seen = []
    for _ in range(steps):
        x = torch.randn(4, 8, generator=generator)
        if zero_first:
            optimizer.zero_grad()
        loss = (call(x) - x).square().mean()
        if not zero_first:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return [loss.item() for loss in seen]


@torch.no_grad()
def test_parameters_are_read_in_place_and_inputs_copied(manager):
    model = perceptron().eval()
    call = recorded(model)
    for _ in range(6):
        x = torch.randn(4, 8)
        torch.testing.assert_close(call(x), model(x))
    (recording,) = manager.tree.recordings
    assert len(recording.inputs.copied) == 1
    assert len(recording.inputs.in_place) == len(model.state_dict()) - 1  # the count of batches is not read
    assert manager.report().replayed == 3


MODELS = ["resnet18", "llama", "gpt2"]


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_a_model_copies_its_users_inputs_and_nothing_else(manager, device, name):
    model = ZOO[name].tiny().eval()
    call = recorded(model)
    for _ in range(5):
        inputs = ZOO[name].inputs(2, True)
        torch.testing.assert_close(call(*inputs), model(*inputs), rtol=1e-3, atol=1e-4)
    assert (manager.report().recorded, manager.report().replayed, manager.report().plain) == (1, 2, 0)
    assert device.copied_in == [[tuple(x.shape) for x in inputs]] * 2
    assert (device.copied_out, manager.report().copied_out) == (0, 0)


@pytest.mark.parametrize("name", MODELS)
def test_training_copies_a_models_inputs_and_the_gradient_of_its_result(manager, device, name):
    model = ZOO[name].tiny().double().train()
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(each.parameters(), lr=1e-2) for each in (model, twin)]
    calls = recorded(model), compile_api.compile(twin)
    for _ in range(6):
        inputs = [x.double() if x.is_floating_point() else x for x in ZOO[name].inputs(4, True)]
        losses = []
        for call, optimizer in zip(calls, optimizers, strict=True):
            optimizer.zero_grad()
            result = call(*inputs)
            shape = tuple(result.shape)
            losses.append(result.square().mean())
            del result
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(*losses)
        del losses
    assert (manager.report().recorded, manager.report().plain) == (2, 0)
    given = [tuple(x.shape) for x in inputs]
    assert device.copied_in == [given, [*given, shape]] * 3  # backward reads the inputs too
    assert (device.copied_out, manager.report().copied_out) == (0, 0)


@pytest.mark.parametrize("zero_first", [True, False])
def test_training_gives_the_losses_that_it_gives_without_graphs(manager, zero_first):
    plain, graphed = perceptron(), perceptron()
    expected = losses(plain, compile_api.compile(plain), zero_first=zero_first)
    assert losses(graphed, recorded(graphed), zero_first=zero_first) == pytest.approx(expected, rel=1e-5)
    for ours, theirs in zip(graphed.state_dict().values(), plain.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert (manager.report().recorded, manager.report().plain) == (2, 0)


def test_the_backward_reads_what_the_forward_saved_where_it_lies(manager):
    model = perceptron()
    losses(model, recorded(model), steps=5)
    forward, backward = manager.tree.recordings
    assert (backward.parent, forward.function, backward.function) == (forward, "forward", "backward")
    assert backward.inputs.lent


@torch.no_grad()
def test_results_that_are_held_stay_what_they_were(manager):
    model = perceptron().eval()
    call = recorded(model)
    inputs = [torch.randn(4, 8) for _ in range(10)]
    held = [call(x) for x in inputs]
    for x, y in zip(inputs, held, strict=True):
        torch.testing.assert_close(y, model(x))
    assert manager.report().recorded


@torch.no_grad()
def test_several_models_share_one_pool(manager):
    models = [perceptron().eval() for _ in range(3)]
    calls = [recorded(model) for model in models]
    for _ in range(5):
        x = torch.randn(4, 8)
        for model, call in zip(models, calls, strict=True):
            x, expected = call(x), model(x)
            torch.testing.assert_close(x, expected)
    assert len(manager.tree.recordings) >= 3


def test_a_graph_between_breaks_reads_the_one_before_in_place(manager):
    def broken(x):
        y = (x * 2).relu()
        print(end="")
        return y.square() + 1

    call = recorded(broken)
    for n in range(6):
        assert call(torch.full((4,), float(n))).tolist() == [4.0 * n * n + 1] * 4
    first, second = manager.tree.recordings
    assert (second.parent, second.inputs.in_place) == (first, (0,))


def test_a_state_that_is_changed_in_place_is_the_callers(manager):
    def decode(cache, x, n):
        cache[n] = x
        return cache.sum(0)

    call, cache = recorded(decode), torch.zeros(4, 3)
    for n in [0, 1, 2, 3] * 3:
        cache_before = cache.clone()
        cache_before[n] = n + 1.0
        torch.testing.assert_close(call(cache, torch.full((3,), n + 1.0), n), cache_before.sum(0))
        torch.testing.assert_close(cache, cache_before)
    report = compile_api.report(call)
    assert (len(report.captured), report.breaks) == (3, ())


@pytest.mark.parametrize("make", [partial(torch.optim.SGD, momentum=0.9), torch.optim.Adam])
def test_a_whole_training_step_changes_parameters_and_state_where_they_lie(manager, device, make):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    twin = copy.deepcopy(model)

    def step_of(module):
        optimizer = make(module.parameters(), lr=0.05)

        def step(x):
            optimizer.zero_grad()
            loss = (module(x) - x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    plain, call = step_of(twin), recorded(step_of(model))
    for _ in range(10):
        x = torch.randn(4, 8)
        torch.testing.assert_close(call(x), plain(x))
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-5)
    assert manager.report().replayed >= 5
    assert all(recording.inputs.changed and not recording.inputs.copied_back for recording in manager.tree.recordings)
    assert device.copied_out == 0


class Decoder(nn.Module):
    """One step of attention over a cache that is written in place."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(16, 8))
        self.register_buffer("values", torch.zeros(16, 8))

    def forward(self, x, position):
        query, key, value = self.qkv(x).chunk(3)
        self.keys.index_copy_(0, position, key[None])
        self.values.index_copy_(0, position, value[None])
        weights = (self.keys @ query).masked_fill(torch.arange(16) > position, -torch.inf).softmax(0)
        return (x + weights @ self.values).tanh()


@torch.no_grad()
def test_a_cache_is_written_where_it_lies(manager, device):
    model = Decoder()
    twin, call = copy.deepcopy(model), recorded(model)
    x = y = torch.randn(8)
    for step in range(16):
        position = torch.tensor([step])
        x, y = call(x, position), twin(y, position)
        torch.testing.assert_close(x, y)
    torch.testing.assert_close(model.state_dict(), twin.state_dict())
    places = {buffer.data_ptr() for buffer in model.buffers()}
    for recording in manager.tree.recordings:
        plan = recording.inputs
        written = {plan.addresses[plan.in_place.index(index)] for index in plan.changed}
        assert (written, recording.returns) == (places, 1)
    assert (manager.report().replayed, device.copied_out) == (13, 0)


@pytest.mark.parametrize(
    ("options", "most", "reason"),
    [({"cuda_graph_pool_bytes": 1}, 1, "as much memory"), ({"cuda_graph_recordings": 2}, 2, "as many recordings")],
)
def test_pool_and_recordings_are_limited_by_options(manager, options, most, reason):
    call = compile_api.compile(lambda x: (x * 2).relu(), mode="reduce-overhead", options=options, dynamic=True)
    for size in [3, 4, 5] * 5:
        assert call(torch.ones(size)).tolist() == [2.0] * size
    assert manager.report().recorded == most
    assert any(reason in refused.reason for refused in call.ledger.refused())


def test_a_graph_that_works_on_the_cpu_is_refused_with_operator_and_line(monkeypatch):
    manager = cudagraphs.Manager(Device())
    monkeypatch.setattr("cudagraphs.api._pools_for", lambda example_inputs: (manager, None))
    call = recorded(lambda x: (x * 2).relu())
    for _ in range(4):
        assert call(torch.tensor([1.0, -1.0])).tolist() == [2.0, 0.0]
    (refused,) = call.ledger.refused()
    assert refused.stage == "cudagraphs"
    assert "mul" in refused.reason
    assert "test_15_recorded_graphs.py" in refused.reason
    assert manager.report().recorded == 0
