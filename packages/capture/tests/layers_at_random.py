"""Nets of layers written at random, and changes of one thing of a layer, whatever it is, between two calls."""

import enum
import functools
import random
import types
import weakref

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Kind(enum.Enum):
    ONE, TWO = 1.0, 2.0


READS = {  # what a layer has, and lines of a forward that look at it
    "self.scale = 1.5": ("x = x * self.scale", "x = x + torch.full((4,), self.scale)"),
    "self.count = 2": ("x = x + self.count", "for _ in range(self.count): x = x * 1.5", "x = x[:, : self.count + 2]"),
    "self.flag = True": ("x = x if self.flag else -x", "x = x + self.flag"),
    "self.limit = None": ("x = x * 2 if self.limit is None else x.clamp(max=self.limit)",),
    "self.name = 'abc'": ("x = x * len(self.name)", "x = x * 2 if self.name == 'abc' else x"),
    "self.sizes = [1, 2]": ("x = x + sum(self.sizes)", "x = x * self.sizes[-1]", "x = x * (2 if self.sizes else 3)",
                            "x = x.expand(*self.sizes[:0], 2, 4)", "x = x * self.sizes.index(2)",
                            "x = x + [y * 2 for y in self.sizes][0]"),
    "self.table = {'a': 1.0, 'b': 2.0}": ("x = x + self.table['a']", "x = x * self.table.get('c', 2)",
                                          "for k, v in self.table.items(): x = x + v if k == 'a' else x * v",
                                          "x = x + (2 if 'b' in self.table else 3)", "x = x * len(self.table)",
                                          "x = helper(x, **self.table)"),
    "self.pair = (1, 2.5)": ("x = x + self.pair[0]", "a, b = self.pair; x = x * b + a"),
    "self.config = Config()": ("x = x * self.config.alpha", "x = x * 2 if self.config.mode == 'up' else x",
                               "x = x + self.config.deep.k", "x = x * getattr(self.config, 'beta', 3)",
                               "x = x + self.config.total()", "x = x + self.config.told"),
    "self.space = SimpleNamespace(alpha=1.5, t=torch.ones(4))": ("x = x * self.space.alpha", "x = x + self.space.t"),
    "self.inner = nn.Linear(4, 4)": ("x = self.inner(x)", "x = x * 2 if isinstance(self.inner, nn.Linear) else x",
                                     "x = functional.linear(x, self.inner.weight)",
                                     "x = checkpoint(self.inner, x, use_reentrant=False)",
                                     "x = x + sum(p.sum() for p in self.parameters())",
                                     "x = x * len(list(self.named_modules()))", "x = x + self.inner.in_features"),
    "self.norm = nn.LayerNorm(4)": ("x = self.norm(x)", "x = x * self.norm.eps"),
    "self.batch = nn.BatchNorm1d(4)": ("x = self.batch(x)",),
    "self.register_buffer('bias', torch.ones(4))": ("x = x + self.bias", "x = x * len(self._buffers)"),
    "self.weight = nn.Parameter(torch.ones(4))": ("x = x * self.weight", "x = x * self.weight.shape[0]",
                                                  "x = x * 2 if self.weight.requires_grad else x",
                                                  "x = x * 2 if self.weight.grad is None else x",
                                                  "x = x + getattr(self.weight, 'tag', 1)"),
    "self.dtype = torch.float32": ("x = x.to(self.dtype).float()", "x = x * (self.dtype == torch.float32)"),
    "self.act = torch.relu": ("x = self.act(x)",),
    "self.act_two = helper": ("x = self.act_two(x)",),
    "self.module = nn.ReLU()": ("x = self.module(x)",),
    "self.part = functools.partial(torch.mul, other=2)": ("x = self.part(x)",),
    "self.kind = Kind.ONE": ("x = x * self.kind.value", "x = x * 2 if self.kind is Kind.ONE else x"),
    "self.many = nn.ModuleList([nn.Linear(4, 4), nn.Tanh()])": ("for each in self.many: x = each(x)",
                                                                "x = self.many[0](x)", "x = x * len(self.many)"),
    "self.seq = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))": ("x = self.seq(x)",),
    "self.named = nn.ModuleDict({'a': nn.Linear(4, 4)})": ("x = self.named['a'](x)",),
    "self.odds = 0.5": ("x = functional.dropout(x, self.odds, self.training)",),
    "self.plain = torch.ones(4)": ("x = x + self.plain",),
    "self.held = [torch.ones(4), torch.ones(4)]": ("x = x + self.held[0]", "x = x + sum(self.held)",
                                                   "x = x * 2 if self.held[0] is self.held[1] else x"),
    "self.ref = weakref.ref(CONFIG)": ("x = x * self.ref().alpha",),
    "self.same = self.sizes = [1, 3]": ("x = x * 2 if self.same is self.sizes else x", "x = x + self.same[0]"),
    "": ("x = x * 2 if self.training else x", "x = x * self.told", "x = x * type(self).factor", "x = x * self.factor",
         "x = x * GLOBAL['scale']", "x = x * (2 if hasattr(self, 'extra') else 3)", "x = x + torch.rand_like(x)",
         "x = x.contiguous()", "x = x[:]", "x = x.detach()", "x = x.add_(1)", "x.mul_(2)", "x = x.view(-1, 4)",
         "x = x * len(self.__dict__)", "x = x * len(self._forward_hooks)",
         "with torch.no_grad(): x = x + x.detach() * 2", "x = x + sum(y.sum() for y in x.unbind())"),
}  # fmt: skip
WRITES = {
    "self.calls = 0": ("self.calls += 1", "self.calls += 1; x = x * self.calls"),
    "self.last = None": ("self.last = x.detach()", "x = x if self.last is None else x + self.last; self.last = x"),
    "self.log = []": ("self.log.append(1); x = x * len(self.log)", "self.log.append(x)"),
    "self.table = {'a': 1.0, 'b': 2.0}": ("self.table['n'] = self.table.get('n', 0) + 1",),
    "self.register_buffer('mean', torch.zeros(4))": ("self.mean.add_(1)", "self.mean = self.mean + 1"),
    "self.config = Config()": ("self.config.alpha = self.config.alpha + 1",),
    "": ("GLOBAL['scale'] = GLOBAL['scale'] + 1", "type(self).factor = type(self).factor + 1"),
}
FORWARDS = (
    *("for layer in self.layers: x = layer(x)",) * 4,
    "for layer in self.layers: x = x + layer(x)",
    "for layer in self.layers: x = layer(layer(x))",
    "for layer in [*self.layers, *self.layers]: x = layer(x)",
    "for index, layer in enumerate(self.layers): x = layer(x) * index",
    "for layer in self.layers: x = layer(x=x)",
    "for index, layer in enumerate(self.layers): x = layer(x[: 1 + index % 2] if index > 1 else x)",
    "for index, layer in enumerate(self.layers): x = layer(x.double().float() if index > 3 else x)",
    "for index, layer in enumerate(self.layers): layer.scale = index // 3; x = layer(x)",
    "for index, layer in enumerate(self.layers): GLOBAL['scale'] = index // 2; x = layer(x)",
    "for index, layer in enumerate(self.layers): layer.train(index > 3); x = layer(x)",
    "for index, layer in enumerate(self.layers): x = layer(x.detach().requires_grad_() if index == 3 else x)",
    "for index, layer in enumerate(self.layers): x = layer(x.t().contiguous().t() if index > 3 else x)",
    "y = x * 2\nfor index, layer in enumerate(self.layers): x = layer(y if index == 4 else x) + y",
    "for layer in self.layers: x = self.layers[0].bias + layer(x) if hasattr(layer, 'bias') else layer(x)",
)
HEAD = """
def helper(x, a=1.0, b=2.0, **others):
    return x * a + b + len(others)

class Config:
    def __init__(self):
        self.alpha, self.mode, self.deep = 1.5, "up", SimpleNamespace(k=3)
    def __repr__(self):
        return str(vars(self))
    def total(self):
        return self.alpha + self.deep.k
    @property
    def told(self):
        return self.alpha * 2

CONFIG = Config()

class Layer(nn.Module):
    factor = 2
    @property
    def told(self):
        return self.factor + 1
    def __init__(self):
        super().__init__()
        {made}
    def forward(self, x):
        {lines}
        return x

class Derived(Layer):
    def forward(self, x):
        return super().forward(x) * 0.5

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(7))
    def forward(self, x):
        x = x * 1
        {body}
        return x
"""


def _lines(parts):
    return "\n        ".join("\n".join(parts).split("\n")) or "pass"


def written(seed):
    """The text of a net."""
    draw = random.Random(seed)
    made, lines = {}, []
    for table, count in ((READS, draw.randint(1, 4)), (WRITES, draw.choice((0, 0, 1, 2)))):
        for have in draw.choices(list(table), k=count):
            made[have.replace("Config()", draw.choice(("Config()", "CONFIG")))] = None
            lines.append(draw.choice(table[have]))
    draw.shuffle(lines)
    body = draw.choice(FORWARDS)
    return HEAD.format(made=_lines(made), lines=_lines(lines), body=_lines([body]))


def net_of(text):
    scope = {"torch": torch, "nn": nn, "functional": functional, "checkpoint": checkpoint, "Kind": Kind}
    scope |= {"weakref": weakref, "functools": functools, "SimpleNamespace": types.SimpleNamespace}
    scope["GLOBAL"] = {"scale": 2.0}
    exec(text, scope)
    torch.manual_seed(0)
    net = scope["Net"]()
    net.scope = types.SimpleNamespace(**scope)
    return net


# -- changes -----------------------------------------------------------------------------------------------------


def _hook(module, args, result):
    return result + 1


def _forward(x):
    return x * 0.25


ANYWHERE = {
    "hook": lambda layer: layer.register_forward_hook(_hook),
    "pre_hook": lambda layer: layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "train": lambda layer: layer.train(not layer.training),
    "forward": lambda layer: setattr(layer, "forward", _forward),
    "extra": lambda layer: setattr(layer, "extra", 1),
    "factor": lambda layer: setattr(layer, "factor", 5),
    "frozen": lambda layer: layer.requires_grad_(False),
    "double": lambda layer: layer.half().float(),
    "other buffer": lambda layer: layer.register_buffer("added", torch.ones(1)),
}


def changes(layer):
    """All that may change of a layer, each as a name and what changes it."""
    yield from ((name, functools.partial(change, layer)) for name, change in ANYWHERE.items())
    yield from _of_object(layer, "layer", set())


def _of_object(obj, path, seen):
    if id(obj) in seen:
        return
    seen.add(id(obj))
    held = vars(obj)
    tables = {name: held[name] for name in ("_parameters", "_buffers", "_modules") if name in held}
    for name in list(held):
        if not name.startswith("_") and name != "training":
            yield f"del {path}.{name}", functools.partial(delattr, obj, name)
            yield from _of(held[name], functools.partial(setattr, obj, name), f"{path}.{name}", seen)
    for name, table in tables.items():
        for key in list(table):
            if table[key] is not None:
                yield from _of(table[key], functools.partial(table.__setitem__, key), f"{path}.{name}[{key!r}]", seen)


def _of(value, put, path, seen):
    """``put`` puts another value in its place."""
    for name, other in _others(value):
        yield f"{path} = {name}", functools.partial(lambda other: put(other()), other)
    if isinstance(value, list):
        yield f"{path}.append", lambda: value.append(value[0] if value else 1)
        yield f"{path}.reverse", value.reverse
        yield f"{path}.pop", lambda: value.pop() if value else None
        for index, item in enumerate(value):
            yield from _of(item, functools.partial(value.__setitem__, index), f"{path}[{index}]", seen)
    elif isinstance(value, dict):
        yield f"{path} + c", lambda: value.update(c=4.0)
        yield f"{path} turned", lambda: [value.update({key: value.pop(key)}) for key in list(value)[:1]]
        for key in list(value):
            yield f"del {path}[{key!r}]", functools.partial(value.pop, key, None)
            yield from _of(value[key], functools.partial(value.__setitem__, key), f"{path}[{key!r}]", seen)
    elif isinstance(value, nn.Module) or type(value).__name__ in ("Config", "SimpleNamespace"):
        yield from _of_object(value, path, seen)
    elif isinstance(value, torch.Tensor):
        yield f"{path} tagged", lambda: setattr(value, "tag", 3)
        yield f"{path} with gradient", lambda: setattr(value, "grad", torch.ones_like(value))
        yield f"{path} frozen or not", lambda: value.requires_grad_(not value.requires_grad)
        yield f"{path} resized", lambda: setattr(value, "data", torch.ones(1))


def _others(value):
    if isinstance(value, bool):
        return [("not it", lambda: not value), ("int", lambda: int(value))]
    if isinstance(value, (int, float)):
        return [
            ("more", lambda: value + 1),
            ("other type", lambda: float(value) if isinstance(value, int) else int(value)),
            ("minus", lambda: -value),
            ("a tensor", lambda: torch.tensor(float(value))),
        ]
    if isinstance(value, str):
        return [("longer", lambda: value + "x")]
    if value is None:
        return [("a number", lambda: 0.5)]
    if isinstance(value, tuple):
        return [("longer", lambda: (*value, 3)), ("turned", lambda: value[::-1]), ("a list", lambda: list(value))]
    if isinstance(value, nn.Parameter):
        return [("twice", lambda: nn.Parameter(value.detach() * 2)), ("wide", lambda: nn.Parameter(value.double()))]
    if isinstance(value, torch.Tensor):
        return [("half", lambda: value.half()), ("strided", lambda: value.repeat_interleave(2)[::2])]
    if isinstance(value, nn.Module):
        return [("nothing", nn.Identity), ("another", lambda: nn.Tanh())]
    if isinstance(value, Kind):
        return [("other", lambda: Kind.TWO)]
    if callable(value):
        return [("another", lambda: torch.neg)]
    return [("a number", lambda: 3)]
