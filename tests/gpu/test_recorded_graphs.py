"""``mode="reduce-overhead"`` on a GPU; after every call all memory of the pool that nobody holds is filled with NaN."""

import copy
import gc
import importlib

import pytest
import torch
from torch import nn

import compile_api
import cudagraphs
from cudagraphs.cuda import CudaDriver
from cudagraphs.gain import Trial

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(autouse=True)
def _fresh():
    cudagraphs.reset()
    torch.manual_seed(0)
    with torch.backends.cudnn.flags(deterministic=True):  # else two runs of eager differ, too
        yield


@pytest.fixture
def manager(monkeypatch):
    """With a pool that no other test has enlarged."""
    manager = cudagraphs.Manager(CudaDriver(torch.cuda.current_device()))
    monkeypatch.setattr("cudagraphs.api._pools_for", lambda example_inputs: (manager, None))
    return manager


@pytest.fixture
def kept(monkeypatch):
    """Recordings stay, however busy the machine was on which they were timed."""
    monkeypatch.setattr(Trial, "pays", lambda self: True)


class Poisoned:
    """A compiled model after each call of which memory that nobody holds is poisoned."""

    def __init__(self, model):
        self.compiled = compile_api.compile(model, mode="reduce-overhead")

    def __call__(self, *args, **kwargs):
        result = self.compiled(*args, **kwargs)
        cudagraphs.poison()
        return result


def resnet(batch=8, size=64):
    images = torch.randn(24, batch, 3, size, size, device="cuda")
    return importlib.import_module("torchvision").models.resnet18().cuda(), [(image,) for image in images]


def gpt2(batch=2, length=64):
    hub = importlib.import_module("transformers")
    config = hub.GPT2Config(
        n_layer=4, n_embd=256, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False
    )
    tokens = torch.randint(0, 50000, (24, batch, length), device="cuda")
    return hub.GPT2Model(config).cuda(), [(batch,) for batch in tokens]


def first(result):
    return result if isinstance(result, torch.Tensor) else result[0]


def train(model, call, batches, zero_first):
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=1e-3), []
    for batch in batches:
        if zero_first:
            optimizer.zero_grad()
        loss = first(call(*batch)).square().mean()
        if not zero_first:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        cudagraphs.poison()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("zero_first", [True, False])
@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("make", [resnet, gpt2])
def test_training_gives_the_losses_that_it_gives_without_graphs(make, zero_first):
    model, batches = make()
    twin, before = copy.deepcopy(model), cudagraphs.report()
    expected = train(twin, compile_api.compile(twin), batches[:20], zero_first)
    found = train(model, Poisoned(model), batches[:20], zero_first)
    assert found == pytest.approx(expected, rel=1e-5)
    assert cudagraphs.report().replayed - before.replayed >= 30


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(("make", "sizes"), [(resnet, (64, 112)), (gpt2, (16, 256))])
def test_the_pool_takes_little_more_than_eagers_peak(manager, make, sizes):
    model, batches = make(*sizes)
    gc.collect()  # what earlier tests left would else be freed while eager's peak is measured
    torch._C._cuda_clearCublasWorkspaces()  # eager's belongs to its peak, as the pool's own belongs to the pool
    torch.cuda.empty_cache()
    others = torch.cuda.memory_reserved() - sum(p.nbytes for p in model.parameters())
    torch.cuda.reset_peak_memory_stats()
    train(model, model, batches[:4], zero_first=True)
    peak = torch.cuda.max_memory_reserved() - others  # a pool's size is what it has taken from the device, too
    train(model, compile_api.compile(model, mode="reduce-overhead"), batches[:10], zero_first=True)
    assert manager.report().replayed >= 10
    assert 0 < manager.report().pool_bytes <= 1.2 * peak, peak


@torch.no_grad()
def test_many_small_kernels_gain_and_stay_recorded(manager):
    layers = [layer for _ in range(30) for layer in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(*layers).cuda()
    call = compile_api.compile(model, mode="reduce-overhead")
    for _ in range(10):
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(call(x), model(x), rtol=1e-2, atol=1e-2)
    report = manager.report()
    assert (report.recorded, report.replayed, report.refusals) == (1, 7, ())


@torch.no_grad()
@pytest.mark.parametrize("make", [resnet, gpt2])
def test_results_that_are_held_stay_what_they_were(make):
    model, batches = make()
    model.eval()
    call = Poisoned(model)
    held = [first(call(*batch)) for batch in batches]
    for batch, result in zip(batches, held, strict=True):
        torch.testing.assert_close(result, first(model(*batch)), rtol=1e-2, atol=1e-2)


class Decoder(nn.Module):
    """One step of attention over a cache that is written in place."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.register_buffer("keys", torch.zeros(32, 64))
        self.register_buffer("values", torch.zeros(32, 64))

    def forward(self, x, position):
        query, key, value = self.qkv(x).chunk(3)
        self.keys.index_copy_(0, position, key[None])
        self.values.index_copy_(0, position, value[None])
        seen = torch.arange(32, device=x.device) <= position
        weights = (self.keys @ query).masked_fill(~seen, -torch.inf).softmax(0)
        return x + weights @ self.values


@torch.no_grad()
def test_decoding_with_a_cache_that_is_written_in_place():
    model = Decoder().cuda()
    twin = copy.deepcopy(model)
    call, x = Poisoned(model), torch.randn(64, device="cuda")
    y = x.clone()
    for step in range(32):
        position = torch.tensor([step], device="cuda")
        x, y = call(x, position), twin(y, position)
        torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(model.keys, twin.keys, rtol=1e-3, atol=1e-3)
    assert cudagraphs.report().replayed


def test_random_numbers_advance_and_repeat_with_the_seed():
    def drop_often(x):
        for _ in range(6):
            x = nn.functional.dropout(x, 0.1)
        return x

    call = Poisoned(drop_often)
    x = torch.ones(1 << 14, device="cuda")
    for _ in range(8):  # until it is known whether replays pay
        call(x)

    def three():
        torch.manual_seed(7)
        return [call(x).clone() for _ in range(3)]

    masks, again = three(), three()
    assert all(torch.equal(a, b) for a, b in zip(masks, again, strict=True))
    assert not torch.equal(masks[0], masks[1])
    assert 0.42 < (masks[0] == 0).float().mean().item() < 0.52


@torch.no_grad()
def test_several_models_take_turns_in_one_pool():
    models = [nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda() for _ in range(4)]
    calls = [Poisoned(model) for model in models]
    for _ in range(8):
        x = y = torch.randn(64, 256, device="cuda")
        for model, call in zip(models, calls, strict=True):
            x, y = call(x), model(y)
        torch.testing.assert_close(x, y, rtol=1e-2, atol=1e-2)


@torch.no_grad()
def test_sizes_that_vary_are_recorded_each_and_then_run_as_they_are():
    call = Poisoned(lambda x: (x * 2).relu() + 1)
    for size in [8, 9, 10, 11, 12, 13] * 4 + list(range(20, 60)):
        x = torch.randn(size, 16, device="cuda")
        torch.testing.assert_close(call(x), (x * 2).relu() + 1)
