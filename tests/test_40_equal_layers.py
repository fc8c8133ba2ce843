"""Equal layers of a graph are traced and compiled once, and compute what eager computes, whatever the layers hold."""

import copy
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import compile_api

BACKENDS = ["aot_eager", "inductor"]
DEPTH, WIDTH = 6, 12


class Layer(nn.Module):
    """A block of a transformer, of some twenty operators."""

    def __init__(self, width=WIDTH, dropout=0.0):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = dropout

    def forward(self, x, mask=None):
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.query(self.first(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / 3.0
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        x = x + F.dropout(self.out(mixed), self.dropout, self.training)
        return x + self.down(F.gelu(self.up(self.second(x))))


class Net(nn.Module):
    def __init__(self, layers=None):
        super().__init__()
        self.embed, self.head = nn.Linear(5, WIDTH), nn.Linear(WIDTH, 3)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH)) if layers is None else layers

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Masked(Net):
    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


class Collecting(Net):
    """Returns what each layer gave, as ``output_hidden_states`` does."""

    def forward(self, x):
        found = [self.embed(x)]
        for layer in self.layers:
            found.append(layer(found[-1]))
        return self.head(found[-1]), found


class Checkpointed(Net):
    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


class Alternating(Net):
    """Every other layer has no attention: the two together are what repeats."""

    def forward(self, x):
        x = self.embed(x)
        for place, layer in enumerate(self.layers):
            x = layer(x) if place % 2 else x + layer.down(torch.tanh(layer.up(layer.second(x))))
        return self.head(x)


class TwoStacks(Net):
    """An encoder, and a decoder of another width."""

    def __init__(self):
        super().__init__()
        self.between = nn.Linear(WIDTH, 8)
        self.others = nn.ModuleList(Layer(8) for _ in range(DEPTH))

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        x = self.between(x)
        for layer in self.others:
            x = layer(x)
        return x


class Counting(Layer):
    """Has statistics and a counter that each call changes."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, mask=None):
        self.calls.add_(1)
        x = super().forward(x, mask)
        return x * 0.5 + self.norm(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class InPlace(Layer):
    """Writes to what it computed itself."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).mul_(0.5).add_(x).clamp_(-9, 9)


class OneStream(Layer):
    """Writes to what it was given: all layers add to one tensor."""

    def forward(self, x, mask=None):
        return x.add_(super().forward(x.clone(), mask))


class Casting(Layer):
    def forward(self, x, mask=None):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            mixed = self.out(self.query(self.first(x))[..., :WIDTH])
        return super().forward(x + 1e-3 * mixed.float(), mask)


def of(kind, **options):
    return lambda: Net(nn.ModuleList(kind(**options) for _ in range(DEPTH)))


def tied():
    """All layers are one, as in ALBERT."""
    return Net(nn.ModuleList([Layer()] * DEPTH))


def partly_frozen():
    net = Net()
    for layer in net.layers[:2]:
        layer.requires_grad_(False)
    return net


def partly_without_bias():
    net = Net()
    for layer in net.layers[-2:]:
        layer.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
    return net


def hooked():
    net = Net()
    net.layers[3].register_forward_hook(lambda module, args, result: result * 1.5)
    return net


SHARED = {
    "plain": Net, "masked": Masked, "collecting": Collecting, "checkpointed": Checkpointed,
    "alternating": Alternating, "two stacks": TwoStacks, "statistics": of(Counting), "dropout": of(Layer, dropout=0.3),
    "in place": of(InPlace),
    "autocast": of(Casting), "tied": tied, "partly frozen": partly_frozen, "partly without bias": partly_without_bias,
}  # fmt: skip
WHOLE = {"one stream": of(OneStream), "hooked in the middle": hooked}


def compiled(net, backend, **options):
    return compile_api.compile(net, backend=backend, fullgraph=True, options={"strict": True, **options})


def step(call, net, x, seed):
    """A training step, and all that somebody could see of it."""
    torch.manual_seed(seed)
    results = call(x)
    leaves = [results] if isinstance(results, torch.Tensor) else [results[0], *results[1]]
    sum(each.square().mean() for each in leaves).backward()
    gradients = {name: None if p.grad is None else p.grad.clone() for name, p in net.named_parameters()}
    return leaves, gradients, dict(net.named_buffers()), x.grad, torch.rand(())


def compare(found, expected):
    tolerance = {"rtol": 2e-4, "atol": 2e-5}
    torch.testing.assert_close(found, expected, **tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*SHARED, *WHOLE])
def test_layers_compute_what_eager_computes(name, backend):
    net = {**SHARED, **WHOLE}[name]()
    other = copy.deepcopy(net)
    call = compiled(net, backend)
    for seed in range(2):
        x = torch.randn(3, 6, 5)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compare(step(call, net, ours, seed), step(other, other, theirs, seed))
    layers = [stack.layers for stack in compile_api.report(call).layers]
    assert max(layers, default=0) >= DEPTH // 2 if name in SHARED else True


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["masked", "collecting", "two stacks", "tied"])
def test_layers_infer_what_eager_infers(name, backend):
    net = SHARED[name]().eval()
    call = compiled(net, backend)
    with torch.no_grad():
        for length in (6, 6, 9):
            x = torch.randn(2, length, 5)
            compare(call(x), net(x))
    assert compile_api.report(call).layers


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_vary_are_compiled_twice(backend):
    net, lengths = Net(), (4, 7, 9, 12)
    other = copy.deepcopy(net)
    call = compiled(net, backend)
    for length in lengths:
        x = torch.randn(2, length, 5)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compare(step(call, net, ours, 0), step(other, other, theirs, 0))
    report = compile_api.report(call)
    assert [stack.layers for stack in report.layers] == [DEPTH, DEPTH]
    assert len(report.captured) == 2


@pytest.mark.parametrize("make", [torch.optim.AdamW, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)])
def test_a_whole_step_is_forward_backward_and_update_of_layers(make):
    def trained(wrap):
        torch.manual_seed(0)
        net = Net()
        optimizer = make(net.parameters())

        def training_step(x):
            loss = net(x).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            return loss

        call = wrap(training_step)
        return [call(torch.ones(2, 4, 5) * k) for k in range(4)], net.state_dict(), call

    losses, state, call = trained(lambda f: compiled(f, "inductor"))
    expected_losses, expected, _ = trained(lambda f: f)
    compare((losses, state), (expected_losses, expected))
    assert compile_api.report(call).layers


def test_gradients_of_gradients_come_through_layers():
    net = Net()
    call = compiled(net, "inductor")

    def penalty(call, x):
        (gradient,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), [*net.parameters()], allow_unused=True)

    x = torch.randn(2, 4, 5, requires_grad=True)
    compare(penalty(call, x), penalty(net, x))
    report = compile_api.report(call)
    assert (len(report.captured), report.breaks) == (1, ())


def test_a_layer_is_compiled_once_however_many_there_are():
    kernels = []
    for depth in (4, 12):
        call = compiled(Net(nn.ModuleList(Layer() for _ in range(depth))), "inductor")
        call(torch.randn(2, 4, 5)).sum().backward()
        kernels.append(len(compile_api.report(call).kernels))
    assert kernels[0] == kernels[1]


def test_the_option_compiles_the_graph_as_a_whole():
    net = Net()
    call = compiled(net, "inductor", equal_layers=False)
    compare(call(torch.ones(2, 4, 5)), net(torch.ones(2, 4, 5)))
    assert compile_api.report(call).layers == ()


def test_the_report_says_how_many_layers_are_one():
    call = compiled(Net(), "inductor")
    call(torch.ones(2, 4, 5))
    (stack,) = compile_api.report(call).layers
    assert f"equal layers       {DEPTH} of {stack.operators} operators, compiled once" in str(compile_api.report(call))


FORMULAS = {
    "addcmul": (lambda b, c: torch.addcmul(b, c, c), lambda b, c: torch.addcmul(b, c, b)),
    "cat": (lambda b, c: torch.cat([b, c, c], 1)[:, 5:17], lambda b, c: torch.cat([b, c, b], 1)[:, 5:17]),
    "order": (lambda b, c: b - c, lambda b, c: c - b),
    "sign": (lambda b, c: b - c, lambda b, c: b + c),
}


@pytest.mark.parametrize("within", ["checkpoint", "vmap", "plain"])
@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_that_differ_in_one_operand_are_two(name, within, backend):
    early, late = FORMULAS[name]

    def layer(h, w, is_late):
        b, c = (h @ w).tanh().sin(), (h * 0.5).cos().exp().sigmoid()
        return (late if is_late else early)(b, c).tanh().abs() + h

    def program(h, counter, weights):
        counter.add_(1)
        for place, w in enumerate(weights):
            if within == "checkpoint":
                h = checkpoint(layer, h, w, place >= 4, use_reentrant=False)
            elif within == "vmap":
                h = torch.vmap(lambda row, w=w, place=place: layer(row[None], w, place >= 4)[0])(h)
            else:
                h = layer(h, w, place >= 4)
        return h

    weights = [torch.randn(WIDTH, WIDTH) / 4 for _ in range(12)]
    h, found, expected = torch.randn(3, WIDTH, requires_grad=True), torch.zeros(()), torch.zeros(())
    call = compile_api.compile(program, backend=backend, options={"strict": True}, fullgraph=True)
    for _ in range(3):
        compare(call(h, found, weights), program(h, expected, weights))
    compare(found, expected)
    ours, theirs = (torch.autograd.grad(f(h, found, weights).sum(), h) for f in (call, program))
    compare(ours, theirs)


def test_an_error_in_a_late_layer_takes_back_what_earlier_ones_wrote():
    net = of(Counting)().train()
    net.layers[-1].down = nn.Embedding(3, WIDTH)
    net.layers[-1].up = nn.Linear(WIDTH, 2)
    net.layers[-1].forward = lambda x: x + net.layers[-1].down(x.long())[..., 0]
    call = compiled(net, "inductor")
    with pytest.raises(IndexError):
        call(torch.full((2, 4, 5), 1e6))
    other = copy.deepcopy(net)
    with pytest.raises(IndexError):
        other(torch.full((2, 4, 5), 1e6))
    assert [float(layer.calls) for layer in net.layers[:-1]] == [1.0] * (DEPTH - 1)


def switched(state, statement):
    """The statement under a mode, or behind a call that sets one."""
    before = state.choice(("", "", "", "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)"))
    modes = (
        "no_grad()",
        "enable_grad()",
        "inference_mode()",
        "set_grad_enabled(False)",
        "autocast('cpu', torch.bfloat16)",
    )
    lines = [statement, *([before] if state.random() < 0.3 else [])]
    for _ in range(state.choice((0, 1, 1, 2))):
        lines = [f"with torch.{state.choice(modes)}:", *(f"    {line}" for line in lines)]
    return [*([before] if before else []), *lines]


@pytest.mark.without_graphs("autograd may be set to follow or not, and little else done", cases="some")
@pytest.mark.parametrize("number", range(20))
def test_modes_around_equal_layers_are_in_force_as_in_eager(number):
    draw = random.Random()
    updates = switched(draw, "weight.data.mul_(0.5).add_(x.detach().sin().mean())")
    loop = ["for weight in weights:", *(f"    {line}" for line in updates)]
    last = switched(draw, "y = (x * weights[0]).sin()")
    text = "\n    ".join(["def program(x, weights):", *switched(draw, "y = x + 1"), *loop, *last, "return y * 2"])
    place = {"torch": torch}
    exec(compile(text, f"<modes {number}>", "exec"), place)

    def outcome(function):
        weights = [torch.full((3,), 1.0 + n) for n in range(24)]
        y = function(torch.ones(3, requires_grad=True), weights)
        found = torch.is_grad_enabled(), y.requires_grad, y.is_inference(), y, torch.stack(weights)
        torch.set_grad_enabled(True)
        return found

    compiled = compile_api.compile(place["program"], backend="aot_eager")
    for _ in range(2):
        found, expected = outcome(compiled), outcome(place["program"])
        assert found[:3] == expected[:3], text
        torch.testing.assert_close(found[3:], expected[3:], msg=text)
