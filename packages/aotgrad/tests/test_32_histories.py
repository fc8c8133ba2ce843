"""Derivatives of gradients go on where autograd goes on, and not through all that operators compute."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import aotgrad
from aotgrad.recording import own_functions

PARTITIONS = [aotgrad.default_partition, aotgrad.min_cut_partition]

WITHOUT = {
    "no_grad": "with torch.no_grad(): s = (w * w).sin()",
    "no_grad, then more": "with torch.no_grad(): s = w * w\n    s = s.sin()",
    "set_grad_enabled": "torch.set_grad_enabled(False); s = w * w; torch.set_grad_enabled(True)",
    "set_grad_enabled as a scope": "with torch.set_grad_enabled(False): s = w * w",
    "nested": "with torch.no_grad():\n        s = w * w\n        with torch.enable_grad(): w * w\n        s = s * w",
    "a decorator": "s = torch.no_grad()(torch.sin)(w)",
    "detach": "s = (w * w).detach()",
    "data": "s = w.data",
    "data of a value": "s = (w * w).data.sin()",
    "several results": "with torch.no_grad(): s = (w * w).split(1)[0]",
    "a gradient without a graph": "s = torch.autograd.grad((w * w * w).sum(), w)[0]",
    "equal work": "u = w * w\n    with torch.no_grad(): s = w * w\n    x = x + u",
    "what has only its size": "s = torch.zeros_like(w) + 2",
}
WRITTEN = {
    "no_grad": "y = w * 2\n    with torch.no_grad(): y.mul_(3)",
    "a view": "y = w * 2\n    with torch.no_grad(): y[0].mul_(3)",
    "an item": "y = w * 2\n    with torch.no_grad(): y[0] = 3",
    "data": "y = w * 2\n    y.data.mul_(3)",
    "detach": "y = w * 2\n    y.detach().mul_(3)",
    "twice": "y = w * 2\n    y.data.mul_(3)\n    z = y + 1\n    with torch.no_grad(): y.copy_(x)\n    y = y * z",
    "filled": "y = w * 2\n    with torch.no_grad(): y.fill_(3)",
    "a view that is read": "y = (w * 2)[:1]\n    with torch.no_grad(): y.mul_(3)",
    "a view of an argument": "y = w * 1\n    y = y.view_as(y)[1:]\n    with torch.no_grad(): y.mul_(3)",
    "a view by its base": "z = w * 2\n    y = z[1:]; y.sin()\n    with torch.no_grad(): z.mul_(3)",
    "a view, by data": "y = (w * 2)[1:]\n    y.data.mul_(y)",
    "a view twice": "y = (w * 2)[:1]\n    y.data.mul_(3); z = y + 1\n    with torch.no_grad(): y.exp_()\n    y = y * z",
    "a view, then with gradients": "y = (w * 2)[:1]\n    with torch.no_grad(): y.mul_(3)\n    y.mul_(2)",
    "then with gradients": "y = w * 2\n    with torch.no_grad(): y.mul_(3)\n    y.mul_(2)",
}
USES = ["x.sin() * {}", "({} * x).exp()", "(x * {}).sum() * torch.cat([x, {}]).sin()", "(x * x).add_({}).sin()"]
TABLES = ((WITHOUT, "s"), (WRITTEN, "y"))
CASES = [(code, use.replace("{}", name)) for codes, name in TABLES for code in codes.values() for use in USES]


def function(code, use):
    scope = {"torch": torch}
    exec(f"def f(x, w):\n    {code}\n    return {use}", scope)
    return scope["f"]


def twice(f):
    x, w = (torch.tensor(values, dtype=torch.double, requires_grad=True) for values in ([0.3, 0.8], [0.5, 0.7]))
    first = torch.autograd.grad(f(x, w).sum(), (x, w), create_graph=True, allow_unused=True)
    total = sum(gradient.square().sum() for gradient in first if gradient is not None)
    return first, torch.autograd.grad(total, (x, w), allow_unused=True, materialize_grads=True)


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize(("code", "use"), CASES)
def test_second_gradients_go_as_autograd_goes(code, use, partition):
    f = function(code, use)
    ours = aotgrad.function(f, forward=aotgrad.run_eagerly, partition=partition)
    torch.testing.assert_close(twice(ours), twice(f))


def test_lists_of_a_graph():
    """FX has lists of its own in its nodes."""
    graph = torch.fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    joined = graph.call_function(torch.cat, ([x, graph.call_function(getattr, (w, "data"))],))
    graph.output((graph.call_function(torch.sin, (joined,)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    inputs = [torch.ones(2, dtype=torch.double, requires_grad=True) for _ in range(2)]
    call = aotgrad.compile(gm, inputs, forward=aotgrad.run_eagerly)
    torch.testing.assert_close(twice(lambda x, w: call(x, w)[0]), twice(lambda x, w: gm(x, w)[0]))


@pytest.mark.parametrize("code", [WITHOUT["no_grad"], WITHOUT["data"], WITHOUT["detach"]])
def test_within_a_checkpoint(code):
    inner = function(code, "(x.sin() * s).exp()")

    def f(x, w):
        return checkpoint(inner, x, w, use_reentrant=False) * x * inner(x, w)

    torch.testing.assert_close(twice(aotgrad.function(f, forward=aotgrad.run_eagerly)), twice(f))


def own(forward, backward, setup=None):
    """A function with a backward of its own."""
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if setup is not None:
        members["setup_context"] = staticmethod(setup)
    return type("Own", (torch.autograd.Function,), members)


def kept(ctx, result, *values):
    ctx.save_for_backward(*values)
    return result


Rounded = own(lambda ctx, x: (x * 4).round(), lambda ctx, g: g * 4)
Reversed = own(lambda ctx, x: x.view_as(x), lambda ctx, g: -g)
Cubed = own(lambda ctx, x: kept(ctx, x * x * x, x), lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2)
Exp = own(lambda ctx, x: kept(ctx, y := x.exp(), y), lambda ctx, g: g * ctx.saved_tensors[0])
Between = own(lambda ctx, x: kept(ctx, (y := x.exp()) * 2, y), lambda ctx, g: 2 * g * ctx.saved_tensors[0])
Scaled = own(lambda ctx, x, by: (setattr(ctx, "by", by), x * by)[1], lambda ctx, g: (g * ctx.by * 2, None))
Pair = own(
    lambda ctx, x, w: kept(ctx, (x * w, x.sin()), x, w),
    lambda ctx, g, h: (g * ctx.saved_tensors[1] + h, g * ctx.saved_tensors[0] * 2),
)
Apart = own(
    lambda x: x * x,
    lambda ctx, g: g * ctx.saved_tensors[0] * 3,
    lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)
Data = own(lambda ctx, x: kept(ctx, x * x, x), lambda ctx, g: (g * ctx.saved_tensors[0]).data * 2)
DataOfSaved = own(lambda ctx, x: kept(ctx, x * x, x), lambda ctx, g: g * ctx.saved_tensors[0].data * 2)
Written = own(lambda ctx, x: (ctx.mark_dirty(x), x.mul_(3))[1], lambda ctx, g: g * 5)
Rebound = own(lambda ctx, x: (kept(ctx, None, x), x := x * x)[1], lambda ctx, g: g * 2 * ctx.saved_tensors[0])
Careless = own(lambda ctx, x: kept(ctx, torch.no_grad()(torch.sin)(x), x), lambda ctx, g: g * ctx.saved_tensors[0])


class Noting(torch.autograd.Function):
    """Stores to attributes and items that are called as its parameters are, and binds others."""

    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        kept = {"x": 1}
        kept["x"] = by
        more = kept["x"]
        return x * more

    @staticmethod
    def backward(ctx, g):
        return -ctx.by * g, None


FUNCTIONS = {
    "notes under the names of its parameters": lambda x, w: Noting.apply(x * w, 0.5) ** 3,
    "rounded": lambda x, w: Rounded.apply(x * w) ** 2 * x,
    "reversed": lambda x, w: (Reversed.apply(x.sin()) * w).exp(),
    "saves what it is given": lambda x, w: (Cubed.apply(x) * w).exp(),
    "saves what it gives": lambda x, w: Exp.apply(x * w) * x,
    "saves what is between": lambda x, w: Between.apply(x * w) * x,
    "takes a number": lambda x, w: Scaled.apply(x, 0.5).sin() * Scaled.apply(w, 2).exp() * Scaled.apply(x, 3.0),
    "two results": lambda x, w: (p := Pair.apply(x, w * x), p[0].sin() * p[1] * w)[1],
    "one of two results": lambda x, w: Pair.apply(x, w)[0].sin(),
    "a context apart": lambda x, w: (Apart.apply(x) * w).sin(),
    "one in another": lambda x, w: Cubed.apply(Exp.apply(Between.apply(x))) * w,
    "its result is returned": lambda x, w: Exp.apply(x * w),
    "without gradients": lambda x, w: (Cubed.apply(x) * torch.no_grad()(Cubed.apply)(w)).exp(),
    "data in backward": lambda x, w: Data.apply(x) * x * w,
    "data of what is saved": lambda x, w: DataOfSaved.apply(x) * x * w,
    "writes": lambda x, w: Written.apply(x * w).sin() * w,
    "no_grad within": lambda x, w: Careless.apply(x).exp() * w,
    "binds its parameter anew": lambda x, w: Rebound.apply(x * w).exp() * w,
    "its result is written": lambda x, w: Cubed.apply(x).mul_(w).sin(),
    "a view of its result": lambda x, w: Rounded.apply(x)[:1].exp() * w,
    "twice": lambda x, w: Rounded.apply(x) * Rounded.apply(w) * Rounded.apply(x),
}


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_with_a_backward_of_their_own(name, partition):
    f = FUNCTIONS[name]
    ours = aotgrad.function(f, forward=aotgrad.run_eagerly, partition=partition)
    torch.testing.assert_close(twice(ours), twice(f))


BINDINGS = {
    "x = 1": True,
    "a = 1; x = a; return a": True,
    "a, x = x, 1": True,
    "x, a = 1, x": True,
    "a = 1; return x": False,  # one instruction from Python 3.13 on
    "a = b = x": False,
    "for x in (1, 2): pass": True,
    "del x": True,
    "ctx.x = x; ctx[x] = x": False,
    "(x := 1)": True,
    "(lambda: x)()": False,
    "def inner():\n        nonlocal x\n        x = 1\n    inner()": True,
    "def inner():\n        x = 1\n    inner()": False,
    "import x": True,
    "rest = x": False,
    "rest, more = x, 1": False,
    "more = args": False,
    "args = x": True,
}


@pytest.mark.parametrize(("body", "binds"), BINDINGS.items())
def test_what_binds_a_parameter_anew(body, binds):
    scope = {}
    exec(f"def forward(ctx, x, *args):\n    {body}", scope)
    assert own_functions._binds_anew(scope["forward"].__code__) is binds


def test_a_function_that_draws_is_refused_in_one_sentence():
    drawn = own(lambda ctx, x: kept(ctx, x * (m := torch.rand(2)), m), lambda ctx, g: g * ctx.saved_tensors[0])
    ours = aotgrad.function(lambda x, w: drawn.apply(x * w).sin(), forward=aotgrad.run_eagerly)
    with pytest.raises(RuntimeError, match="draws random numbers in its forward"):
        twice(ours)


class Moving(nn.Module):
    """Multiplies by a mean that moves with the batches, and that gradients go through."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.ones(4))

    def forward(self, x):
        mean = self.mean * 0.9 + x.mean(0) * 0.1
        self.mean.copy_(mean.detach())
        return (x * mean).sin()


class Clipped(nn.Linear):
    def forward(self, x):
        with torch.no_grad():
            self.weight.clamp_(-0.2, 0.2)
        return super().forward(x).tanh()


CRITICS = {
    "spectral norm": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.Tanh()),
    "as a parametrization": lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), nn.Tanh()),
    "of convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.utils.spectral_norm(nn.Conv1d(1, 2, 2)), nn.SiLU(), nn.Flatten()
    ),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.SiLU()),
    "both": lambda: nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 4)), nn.BatchNorm1d(4), nn.SiLU()),
    "instance norm": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Tanh(), nn.Flatten()
    ),
    "a moving mean": Moving,
    "clipped weights": lambda: Clipped(4, 4),
}


def trained(make, compiled, times):
    """Three steps of a critic whose penalty is on its gradients; it judges others before."""
    torch.manual_seed(0)
    module = make().double()
    critic = compiled(module)
    for step in range(3):
        torch.manual_seed(step)
        real, fake, x = (torch.randn(6, 4, dtype=torch.double) for _ in range(3))
        score = sum(critic(each).sum() for each in (real, fake)[:times])
        (gradient,) = torch.autograd.grad(critic(x.requires_grad_()).sum(), x, create_graph=True)
        (score + 10 * (gradient.norm(dim=1) - 1).square().mean()).backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter -= 0.02 * parameter.grad
    return [each.grad for each in module.parameters()], [each.detach() for each in module.state_dict().values()]


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("name", CRITICS)
def test_gradient_penalties_of_modules_that_change_themselves(name, partition):
    times = 0 if name == "clipped weights" else 2
    ours = trained(CRITICS[name], lambda m: aotgrad.module(m, forward=aotgrad.run_eagerly, partition=partition), times)
    torch.testing.assert_close(ours, trained(CRITICS[name], lambda m: m, times))


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("change", ["v.mul_(3)", "v.mul_(w)", "v.data.mul_(3)", "v[0] = w[0]", "u = v * w; v.sin_()"])
def test_small_inputs_that_are_changed_and_read(change, partition):
    scope = {"torch": torch}
    exec(f"def f(v, w):\n    {change}\n    return (v * w).sin()", scope)
    ours = aotgrad.function(scope["f"], forward=aotgrad.run_eagerly, partition=partition)
    found = [twice(lambda x, w, f=f: f(x * 1.5, w)) for f in (ours, scope["f"])]
    torch.testing.assert_close(*found)


def test_who_needs_no_old_value_keeps_none():
    graphs = []

    def shown(gm, example_inputs):
        graphs.append(gm.graph)
        return aotgrad.run_eagerly(gm, example_inputs)

    aotgrad.module(CRITICS["both"](), forward=shown)(torch.randn(6, 4))
    taken = [node.name for node in graphs[0].find_nodes(op="placeholder")]
    returned = [node for node in graphs[0].output_node().args[0] if node.target is torch.ops.aten.clone.default]
    assert not {node.args[0].name for node in returned}.intersection(taken)
