"""What a module's forward changes of its module: generated programs of two to four statements, called four times,
leave the module that eager leaves, names in their order included.

STATE_PROGRAMS says how many are drawn; the number tried is printed.
"""

import os
import random

import pytest
import torch
from torch import nn

import compile_api

STATEMENTS = """
self.register_buffer('last', x)
self.register_buffer('last', x * 2, persistent=False)
self.register_buffer('none', None)
self.register_buffer('n', self.n + 1)
self.n = self.n + 1
self.n += 1
self.n.add_(1)
self.n = None
self.n = x
self.n = torch.zeros(2) if self.n is None else self.n + 1
self._buffers['n'] = x + 1
self._buffers['late'] = x + self.count
self._buffers.pop('late', None)
self.last = x + self.w
self.last = None
self.none = x
self.none = nn.Parameter(x.detach() * 2)
self.count += 1
self.count = self.count * 2 + 1
self.plain = x
self.plain = self.plain + self.count
self.plain = nn.Parameter(torch.ones(2) * self.count)
self.__dict__['plain'] = x - 1
self.__dict__['n'] = x * 3
self.__dict__.pop('n', None)
self.register_parameter('late', nn.Parameter(x.detach() + 1))
self.register_parameter('absent', None)
self._parameters['w'] = nn.Parameter(self.w.detach() + 1)
self.w = nn.Parameter(self.w.detach() * 2)
self.w.data = self.w.data + 1
self.w.data.add_(1)
self.w.requires_grad_(False)
self.w = None
self.add_module('extra', nn.Identity())
self.register_module('extra', nn.ReLU())
self.extra = nn.Linear(2, 2, bias=False)
self.inner = nn.Sequential(nn.Identity(), self.inner)
self.inner = None
self.inner.n = self.inner.n + x
self.inner.count += 1
self.inner.register_buffer('last', x)
self.inner.last = x
self.inner.w = nn.Parameter(torch.ones(2))
self._modules['inner'].n += 1
del self.extra
del self.last
del self.plain
del self.n
delattr(self, 'w')
setattr(self, 'n', self.n * 2)
object.__setattr__(self, 'plain', x)
self.items.append(x)
self.items[0] = self.count
self.items.extend([self.n, self.w])
self.table['x'] = x
self.table.update(n=self.n, count=self.count)
self.table['count'] = self.table.get('count', 0) + 1
self.parameters_.append(nn.Parameter(x.detach()))
self.parameters_[0] = nn.Parameter(x.detach() * 3)
self.modules_['b'] = nn.Identity()
self.modules_.pop('a', None)
self.modules_.update({'c': nn.ReLU()})
self.list_.append(nn.Identity())
self.list_[0] = nn.ReLU()
self.list_.insert(0, nn.Tanh())
self.training = not self.training
self.eval()
self.train()
self._non_persistent_buffers_set.add('n')
self._non_persistent_buffers_set.discard('n')
self.n, self.last = x, self.n
self.alias = self.n
self.n, self.inner.n = self.inner.n, self.n
self._buffers['n'], self._buffers['none'] = self._buffers['none'], self._buffers['n']
self.table['a'], self.table['b'] = self.table.get('b'), self.table.get('a', x)
self.table.pop('x', None)
self.table.clear()
del self._buffers['n']
self.training = 3
self.named = nn.Buffer(x)
self.plain = nn.Buffer(x, persistent=False)
super().__setattr__('n', x + 2)
super().__setattr__('plain', x + 2)
nn.Module.__setattr__(self, 'inner', None)
self.w, self.n = None, None
self.alias = self.inner
x = x + self.n
x = x * self.w
x = self.inner(x)
x = x + self.count
x = x.clone().add_(1)
torch.nn.init.ones_(self.w)
self.load_state_dict({'n': x.detach()}, strict=False)
self.zero_grad()
""".strip().splitlines()

BODY = """
class Program(Base):
    def forward(self, x):
        {}
        return x
"""


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(2))
        self.w = nn.Parameter(torch.ones(2))
        self.count = 0

    def forward(self, x):
        self.n = self.n + 1
        self.count += 1
        return x + self.n * self.count


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, -2.0]))
        self.register_buffer("n", torch.zeros(2))
        self.register_buffer("none", None)
        self.inner = Inner()
        self.count, self.plain, self.items, self.table = 0, torch.zeros(2), [0], {}
        self.parameters_ = nn.ParameterList([torch.ones(2)])
        self.modules_ = nn.ModuleDict({"a": nn.Identity()})
        self.list_ = nn.ModuleList([nn.Identity()])


def program(statements):
    namespace = {"torch": torch, "nn": nn, "Base": Base}
    exec(compile(BODY.format("\n        ".join(statements)), "<program>", "exec"), namespace)
    return namespace["Program"]


def plain(value):
    """A value as text that tells its type, and what it is made of."""
    if isinstance(value, torch.Tensor):
        return type(value).__name__, value.requires_grad, value.detach().tolist()
    if isinstance(value, nn.Module):
        return type(value).__name__, plain({k: v for k, v in vars(value).items() if k != "_compiled_call_impl"})
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, set):
        return sorted(value)
    return value if isinstance(value, (int, str)) else type(value).__name__


def calls(cls, wrap):
    """What four calls return or raise, and the module after each."""
    torch.manual_seed(0)
    module = cls()
    call, seen = wrap(module), []
    for step in range(4):
        try:
            result = plain(call(torch.tensor([1.0, 2.0]) * (step + 1)))
        except (AttributeError, KeyError, IndexError, TypeError, RuntimeError) as error:
            result = type(error).__name__, str(error)
        state = [(name, plain(value)) for name, value in module.state_dict().items()]
        seen.append((result, plain(module), state))
    return seen


def difference(statements, backend, with_graphs):
    """How the calls differ, if they do; statements of which there is a graph are added to ``with_graphs``."""
    compile_api.reset()
    cls, compiled = program(statements), []
    expected = calls(cls, lambda module: module)

    def wrap(module):
        compiled.append(compile_api.compile(module, backend=backend))
        return compiled[-1]

    found = calls(cls, wrap)
    if compile_api.report(compiled[0]).frames:
        with_graphs.append(statements)
    return next((f"call {i}:\n  {e}\n  {f}" for i, (e, f) in enumerate(zip(expected, found)) if e != f), None)


def drawn(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        yield [draw.choice(STATEMENTS) for _ in range(draw.randint(2, 4))]


def test_every_statement_alone_leaves_eagers_module():
    with_graphs = []
    wrong = {line: why for line in STATEMENTS if (why := difference([line], "eager", with_graphs))}
    assert not wrong, "\n".join(f"{line}\n  {why}" for line, why in wrong.items())
    assert len(with_graphs) >= 30, "the other statements compute nothing, or assign what a graph cannot"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_programs_of_such_statements_leave_eagers_module(backend, capsys):
    count = int(os.environ.get("STATE_PROGRAMS", "60"))
    seed = int(os.environ.get("STATE_SEED", random.randrange(10**6)))
    with_graphs = []
    wrong = [(lines, why) for lines in drawn(count, seed) if (why := difference(lines, backend, with_graphs))]
    with capsys.disabled():
        print(f" {count} programs over modules, seed {seed}, {len(wrong)} wrong", end="")
    assert not wrong, "\n".join(f"{lines}\n  {why}" for lines, why in wrong)
    assert len(with_graphs) >= count // 4
