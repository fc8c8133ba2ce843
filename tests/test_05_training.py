"""Gradients through compiled code are eager's, and a training loop follows eager's curve."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import aotgrad
import capture.entry.hook
import compile_api
import inductor

BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_of_inputs_and_parameters(backend):
    module = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    twin = copy.deepcopy(module)
    x = torch.randn(5, 6, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    compile_api.compile(module, backend=backend, fullgraph=True)(x).square().sum().backward()
    twin(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    for ours, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_norm_updates_its_running_statistics(backend):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    twin = copy.deepcopy(module)
    compiled = compile_api.compile(module, backend=backend, fullgraph=True)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8)
        torch.testing.assert_close(compiled(x), twin(x))
    torch.testing.assert_close(module[1].running_mean, twin[1].running_mean)
    torch.testing.assert_close(module[1].running_var, twin[1].running_var)
    assert module[1].num_batches_tracked == 3


def test_a_loss_over_classes_keeps_two_numbers_per_row():
    kept = []

    def compiler(gm, example_inputs):
        kept.append([tuple(given.shape) for given in example_inputs])
        return inductor.compile(gm, example_inputs).call

    loss = aotgrad.function(
        nn.functional.cross_entropy,
        forward=compiler,
        partition=aotgrad.min_cut_partition,
        decompositions=inductor.decompositions(),
    )
    logits, labels = torch.randn(16, 50, requires_grad=True), torch.randint(0, 50, (16,))
    (ours,) = torch.autograd.grad(loss(logits, labels), logits)
    (theirs,) = torch.autograd.grad(nn.functional.cross_entropy(logits, labels), logits)
    torch.testing.assert_close(ours, theirs)
    forward, backward = kept
    assert set(backward) - set(forward) == {(16, 1), ()}


def losses(module, compiled, steps=10):
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    curve = []
    for _ in range(steps):
        x = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(x), (x.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return torch.tensor(curve)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_training_loop_follows_eager(backend):
    module = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2))
    twin = copy.deepcopy(module)
    torch.testing.assert_close(
        losses(module, compile_api.compile(module, backend=backend, fullgraph=True)), losses(twin, twin)
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_backward_inside_the_compiled_function(backend):
    module = nn.Linear(6, 2)
    twin = copy.deepcopy(module)

    def step(mod, x):
        loss = mod(x).square().mean()
        loss.backward()
        return loss

    x = torch.randn(4, 6)
    torch.testing.assert_close(compile_api.compile(step, backend=backend, fullgraph=True)(module, x), step(twin, x))
    torch.testing.assert_close(module.weight.grad, twin.weight.grad)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_whole_training_step_is_one_graph(backend):
    """Forward, backward and the optimizer: with gradients of the step before, and without."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    twin = copy.deepcopy(module)

    def step_of(module):
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    plain, compiled = step_of(twin), compile_api.compile(step_of(module), backend=backend, fullgraph=True)
    for _ in range(5):
        x = torch.randn(4, 6)
        torch.testing.assert_close(compiled(x), plain(x))
    for ours, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
        assert not ours.grad.requires_grad


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_schedule_between_training_steps(backend):
    """Steps over lists of tensors, as on GPUs, at a rate and a momentum that are others in every step."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

    def losses_of(module, wrap):
        optimizer = torch.optim.AdamW(module.parameters(), 0.01, foreach=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=50)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            return loss

        compiled, losses = wrap(step), []
        for seed in range(10):
            losses.append(compiled(torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))))
            schedule.step()
        return torch.stack(losses)

    twin = copy.deepcopy(module)
    ours = losses_of(module, lambda step: compile_api.compile(step, backend=backend, fullgraph=True))
    torch.testing.assert_close(ours, losses_of(twin, lambda step: step), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", [torch.no_grad, torch.enable_grad])
def test_a_break_without_gradients_leaves_those_after_it(first):
    """What follows the block is captured within it, where gradients are off, and enables them itself."""

    def settle(x, w):
        with torch.no_grad():
            start = x @ w
            if start.sum() > 100:
                return start
        return torch.tanh(start @ w)

    x, w = torch.rand(3, 3), torch.rand(3, 3, requires_grad=True)
    settled = compile_api.compile(settle)
    with first():
        settled(x, w)
    (ours,) = torch.autograd.grad(settled(x, w).sum(), w)
    torch.testing.assert_close(ours, torch.autograd.grad(settle(x, w).sum(), w)[0])
    modes = 2 if first is torch.no_grad else 1
    report = compile_api.report(settled)
    assert (len(report.captured), len(report.breaks)) == (2 * modes, modes)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_gradient_scaler_in_the_step(backend):
    """Also where a step is left out because a gradient is infinite."""
    module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    twin = copy.deepcopy(module)

    def step_of(module):
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            return loss, scaler.get_scale()

        return step

    plain, compiled = step_of(twin), compile_api.compile(step_of(module), backend=backend)
    for factor in (1, 1, float("inf"), 1, 1):
        x = torch.randn(4, 6) * factor
        torch.testing.assert_close(compiled(x), plain(x), equal_nan=True)
    torch.testing.assert_close(list(module.parameters()), list(twin.parameters()))
    report = compile_api.report(compiled)
    assert {each.reason.kind for each in report.breaks} == {"tensor value"}
    assert len(report.captured) >= 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_compiler_wrote_is_not_captured(backend, monkeypatch):
    """Here the graph ends at the checks of the distribution: CPython runs backward, while capture is on."""
    module = nn.Linear(4, 2)
    twin = copy.deepcopy(module)

    def step_of(module):
        optimizer = torch.optim.SGD(module.parameters(), 0.1)

        def step(x, chosen):
            policy = torch.distributions.Categorical(logits=module(x))
            loss = policy.log_prob(chosen).mean() - 0.01 * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return step

    plain, compiled = step_of(twin), compile_api.compile(step_of(module), backend=backend)
    captured, translate = [], capture.entry.hook.translate

    def noting(settings, inputs, *others):
        captured.append(inputs.function.__code__.co_filename)
        return translate(settings, inputs, *others)

    monkeypatch.setattr(capture.entry.hook, "translate", noting)
    for _ in range(4):
        x, chosen = torch.randn(3, 4), torch.randint(0, 2, (3,))
        torch.testing.assert_close(compiled(x, chosen), plain(x, chosen))
    torch.testing.assert_close(list(module.parameters()), list(twin.parameters()))
    assert captured
    assert not [name for name in captured if name.startswith(("<compiled", "<generated"))]


def in_full_precision(x, w):
    with torch.autocast("cpu", enabled=False):
        return x.float()[:, None] @ w[None, :]


def in_another_precision(x, w):
    with torch.autocast("cpu", torch.float16):
        return (x[:, None] @ w[None, :]).sin()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("region", [in_full_precision, in_another_precision])
@pytest.mark.parametrize("outer", [torch.bfloat16, torch.float16])
def test_a_region_of_autocast_holds_within_another(region, outer, backend):
    x, w = torch.tensor([1.0, 257.0, 1001.0]), torch.rand(4, requires_grad=True)
    with torch.autocast("cpu", outer):
        expected, actual = region(x, w), compile_api.compile(region, backend=backend, fullgraph=True)(x, w)
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(*(torch.autograd.grad(result.sum(), w)[0] for result in (actual, expected)))


@pytest.mark.parametrize("outer", [False, True])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_a_checkpoint_computes_is_not_kept(backend, reentrant, outer):
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh()) for _ in range(3)]
    kept = []

    def program(x, run):
        for layer in layers:
            x = run(layer, x)
        return x.exp()

    def called(run):
        result = compile_api.compile(program, backend=backend)(torch.ones(4, 8, requires_grad=True), run)
        kept.append(sum(saved.numel() for saved in result.grad_fn.saved_tensors))
        return result

    def again(layer, x):
        return checkpoint(layer, x, use_reentrant=reentrant)

    for run in (nn.Module.__call__, again):
        checkpoint(called, run, use_reentrant=False) if outer else called(run)
    plain, thrifty = kept
    assert thrifty < plain
