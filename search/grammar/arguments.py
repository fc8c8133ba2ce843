"""The arguments of a program: tensors written out, modules, an optimizer, containers that share them."""

from __future__ import annotations

import random
from collections.abc import Sequence

SIZES = (
    (3,),
    (3,),
    (2, 3),
    (2, 3),
    (3, 3),
    (3, 2),
    (1, 3),
    (),
    (1,),
    (0,),
    (5,),
    (7, 1),
    (2, 1, 3),
    (4,),
    (0, 3),
    (2, 2),
    (19,),
    (11, 3),
    (6, 6),
)
VALUES = ("0.5", "-1.0", "2.0", "0.25", "-0.75", "1.5", "3.0", "-2.0", "0.1", "0.3", "0.0", "1.0", "-0.4", "0.7")
ODD_VALUES = (*VALUES, "float('nan')", "float('inf')", "-0.0")

HELPERS = (
    """class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * 2 + 0 * x""",
    """class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, gx, gy):
        return None if gx is None else gx * 2, None if gy is None else gy * 3""",
    """class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2""",
    """def helper(t, scale=1.0, into=None):
    if into is not None:
        into.append(t)
    if t.requires_grad:
        return t * scale
    t = t + scale
    return t""",
)

LAYERS = """
nn.Linear(3, 3)
nn.Linear(3, 3)
nn.Linear(3, 3, bias=False)
nn.BatchNorm1d(3)
nn.LayerNorm(3)
nn.Dropout(0.5)
nn.ReLU(inplace=True)
nn.Embedding(4, 3)
nn.PReLU()
nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
nn.GRUCell(3, 3)
nn.BatchNorm1d(3, momentum=None)
nn.Bilinear(3, 3, 3)
""".strip().splitlines()

BUFFERS = ('self.register_buffer("n", torch.zeros(()))', 'self.register_buffer("mean", torch.zeros(3))',
           'self.register_buffer("hidden", torch.ones(3), persistent=False)')  # fmt: skip

FORWARD = """
x = self.one(x)
x = self.one(x)
x = self.two(x)
x = x + self.two(x)
x += self.two(x)
x += self.w
x = x * self.w
x = F.linear(x, self.one.weight)
x = x.relu_()
x = F.dropout(x, 0.5, self.training)
self.n += 1
self.n = self.n + 1
self.n.add_(1)
self.mean.mul_(0.9).add_(x.detach().mean(), alpha=0.1)
self.mean = x.detach()
self.hidden = self.hidden * 0.5 + x.detach().mean()
self.hidden.copy_(x.detach().sum())
self.register_buffer("last", x)
self.register_buffer("last", x.detach())
self.last = x
self.last = x.detach().clone()
self.calls += 1
self.kept.append(x)
self.kept.append(self.calls)
if self.training: x = x * 2
if self.calls > 1: x = x + self.w
if x.shape[0] > 2: x = x - 1
self.w.data.mul_(0.5)
with torch.no_grad(): self.w.add_(1)
x.register_hook(lambda g: g * 2)
self.w.requires_grad_(False)
if x.requires_grad: x.retain_grad(); self.last = x
""".strip().splitlines()

BLOCK_FORWARD = """
x = self.lin(x)
x = self.lin(x)
x = x + self.lin(x)
x = x * self.scale
x += self.w
x = self.batch(x)
x = F.dropout(x, 0.5, self.training)
x = checkpoint(self.lin, x, use_reentrant=False)
self.n += 1
self.n = self.n + x.detach().mean()
self.calls += 1
x = x * self.calls
self.last = x.detach()
if self.last is not None: x = x + self.last
self.kept.append(self.calls)
if self.training: x = x * 2
x = x.mul_(self.scale)
with torch.no_grad(): self.w.add_(1)
x = x.view_as(x)
x = x.detach()
""".strip().splitlines()

UNLIKE = """
self.blocks[2].scale = 3
self.blocks[1].register_forward_hook(lambda module, given, result: result + 1)
self.blocks[2].register_forward_pre_hook(lambda module, given: (given[0] * 2,))
self.blocks[3].lin.weight = self.blocks[1].lin.weight
self.blocks[2].eval()
self.blocks[3].w.requires_grad_(False)
self.blocks[3] = self.blocks[1]
self.blocks[2].lin = nn.Identity()
self.blocks[1].double()
""".strip().splitlines()

PASSES = """
for block in self.blocks: x = block(x)
for block in self.blocks: x = block(x)
for i, block in enumerate(self.blocks): x = x + block(x) * i
for block in [*self.blocks, *self.blocks]: x = block(x)
for i, block in enumerate(self.blocks): block.scale = i // 2; x = block(x)
for block in self.blocks: self.kept.append(x); x = block(x)
""".strip().splitlines()

OPTIMIZERS = """
torch.optim.SGD({}, lr=0.1)
torch.optim.SGD({}, lr=0.1, momentum=0.9)
torch.optim.Adam({}, lr=0.1)
torch.optim.AdamW({}, lr=0.1, foreach=True)
torch.optim.Adam({}, lr=0.1, fused=True)
torch.optim.RMSprop({}, lr=0.1)
torch.optim.Adagrad({}, lr=0.1)
torch.optim.SGD({}, lr=0.1, foreach=False)
torch.optim.Adam({}, lr=0.1, amsgrad=True)
torch.optim.NAdam({}, lr=0.1)
torch.optim.Adadelta({}, lr=0.1)
""".strip().splitlines()


def literal(draw: random.Random, sizes: Sequence[tuple[int, ...]] = SIZES, values: Sequence[str] = VALUES) -> str:
    """A tensor's values as nested lists, of one of the sizes."""
    return _nested(draw, draw.choice(sizes), values)


def _nested(draw: random.Random, size: tuple[int, ...], values: Sequence[str]) -> str:
    if not size:
        return draw.choice(values)
    # A list cannot say how long its empty lists would be: the text closes the call that it stands in, and goes on.
    if size[0] == 0 and len(size) > 1:
        return "[]).reshape" + str(size).replace(" ", "") + " + torch.tensor(0.0"
    return "[" + ", ".join(_nested(draw, size[1:], values) for _ in range(size[0])) + "]"


def model(draw: random.Random) -> str:
    """A module whose forward is drawn from lines of habits."""
    lines = ["class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        self.{name} = {draw.choice(LAYERS)}" for name in ("one", "two")]
    # Tied layers: two names for one module.
    if draw.random() < 0.1:
        lines.append("        self.two = self.one")
    lines += [f"        {line}" for line in BUFFERS]
    lines += ["        self.w = nn.Parameter(torch.ones(3))", "        self.calls = 0", "        self.kept = []"]
    body, block = draw.sample(FORWARD, draw.randint(1, 5)), ""
    # Equal blocks in a row, some of them made unlike afterwards: what compiling equal layers once relies on.
    if draw.random() < 0.25:
        block = "\n\n\n" + _block(draw)
        lines += ["        self.blocks = nn.ModuleList(Block() for _ in range(5))"]
        lines += [f"        {line}" for line in draw.sample(UNLIKE, draw.choice((0, 0, 1, 2)))]
        body.insert(draw.randint(0, len(body)), draw.choice(PASSES))
    # A model that uses none of its layers is no model.
    if not any("self.one" in line or "self.two" in line for line in body):
        body.insert(draw.randint(0, len(body)), "x = self.one(x)")
    ends = ["return x"] * 6 + ["return x, self.n", "return self.w", "return x.sum()"]
    body.append(draw.choice(ends))
    return "\n".join([*lines, "", "    def forward(self, x):", *("        " + line for line in body)]) + block


def _block(draw: random.Random) -> str:
    """A block of which a model has several, each equal to the others but for its parameters and for what is done to
    one."""
    lines = ["class Block(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += ["        self.lin, self.batch = nn.Linear(3, 3), nn.BatchNorm1d(3)"]
    lines += ["        self.w = nn.Parameter(torch.ones(3))", '        self.register_buffer("n", torch.zeros(()))']
    lines += ["        self.scale, self.calls, self.last, self.kept = 2, 0, None, []", "", "    def forward(self, x):"]
    body = [*draw.sample(BLOCK_FORWARD, draw.randint(1, 4)), "return x"]
    return "\n".join([*lines, *("        " + line for line in body)])


CHOICES = """
y = torch.tensor(<literal>)
y = torch.tensor(<literal>)
y = x
y = x[:1]
y = w.detach()
y = x.t()
y = x.view(-1)
y = torch.tensor(<literal>, dtype=torch.bfloat16)
y = torch.tensor(<literal>, dtype=torch.float64)
y = torch.tensor(<literal>, requires_grad=True)
y = w * 2
y = w * 1
y = w.clone()
y = (w * 3)[:1]
y = (w + 1).t()
y = w[:1]
y = x.expand(2, *x.shape)
y = x.clone().requires_grad_()
y = w
y = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).t()

i = torch.tensor([0, 2])
i = torch.tensor([1])
i = torch.tensor([0, 1, 1])
i = torch.tensor(0)
i = torch.tensor([], dtype=torch.int64)
i = torch.tensor([[0], [1]])

k = torch.tensor([True, False, True])
k = x > 0
k = torch.tensor([True])
k = torch.tensor(True)

model = Model()
model = Model()
model = Model()
model = Model().eval()

lin = nn.Linear(3, 3)
lin = nn.Linear(3, 2)
lin = model.one
lin = nn.BatchNorm1d(3)
lin = nn.Sequential(nn.Linear(3, 3), model)

opt = <optimizer>

items = []
items = [x]
items = [x, y]
items = [w, x]
items = [x + 1, 2]
items = [x, x]

table = {}
table = {"k": x}
table = {"k": w, "n": 2}
table = {"k": x, "t": y}

state = SimpleNamespace(count=0, t=x)
state = SimpleNamespace(count=0, t=w)
state = SimpleNamespace(count=0, t=torch.zeros(3))
state = SimpleNamespace(count=1, t=y, last=None)

n = 0
n = 1
n = 2
n = 3
n = 5

flag = True
flag = False

seen = []
""".strip().split("\n\n")
TRAINED = ("model.parameters()", "model.parameters()", "[w]", "[w, *model.parameters()]")


def arguments(draw: random.Random) -> list[str]:
    """Lines that make everything a program may take; those that it does not take are left out later."""
    # NaN spreads over everything and hides other differences: seldom.
    values = ODD_VALUES if draw.random() < 0.1 else VALUES
    lines = [
        f"x = torch.tensor({literal(draw, values=values)})",
        f"w = torch.tensor({literal(draw)}, requires_grad=True)",
    ]
    if draw.random() < 0.1:
        lines.append("w.grad = torch.ones_like(w)")
    for choices in CHOICES:
        line = draw.choice(choices.splitlines()).replace("<literal>", literal(draw))
        lines.append(line.replace("<optimizer>", draw.choice(OPTIMIZERS).format(draw.choice(TRAINED))))
    return lines


NAMES = ("x", "y", "w", "i", "k", "model", "lin", "opt", "items", "table", "state", "n", "flag", "seen")
