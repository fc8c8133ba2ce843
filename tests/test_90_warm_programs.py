"""What one process compiled of larger programs is taken up by the next one, with results that are eager's in both."""

import os
import subprocess
import sys

import pytest

ASKED = """
import functools, os, sys, torch, compile_api

@functools.lru_cache
def asked(what):
    print("asked")
    return int(os.environ[what])

def f(x):
    return x.sin() * asked("ANSWER")

x = torch.ones(3)
call = compile_api.compile(f, fullgraph=True, options={"warm_start": True})
same = torch.allclose(call(x), x.sin() * asked("ANSWER"))
print(same, *(record.outcome for record in compile_api.report(call).kept))
"""


def told(tmp_path, text, arguments=(), **env):
    """The lines that a process of its own prints, whose texts hash in another way each time."""
    (tmp_path / "program.py").write_text(text)
    env = {**os.environ, "COMPILE_API_CACHE": str(tmp_path / "cache"), **env}
    command = [sys.executable, str(tmp_path / "program.py"), *arguments]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_functions_that_remember_are_asked_again(tmp_path):
    assert told(tmp_path, ASKED, ANSWER="3") == ["asked", "True stored"]
    assert told(tmp_path, ASKED, ANSWER="3") == ["asked", "True taken up"]
    assert told(tmp_path, ASKED, ANSWER="4") == ["asked", "True refused stored"]


MODEL = """
import torch, compile_api
import transformers as T

sizes = dict(vocab_size=99, max_position_embeddings=64, num_hidden_layers=2, num_attention_heads=4)
torch.manual_seed(0)
config = T.BertConfig(hidden_size=32, intermediate_size=64, **sizes)
{before}
model = T.BertForMaskedLM(config).eval()
tokens = torch.arange(24).reshape(2, 12)
call = compile_api.compile(model, options={{"warm_start": True}})
seen, wanted = call(tokens, labels=tokens), model(tokens, labels=tokens)
seen.loss.backward()
print(torch.allclose(seen.logits, wanted.logits, atol=1e-4), all(p.grad is not None for p in model.parameters()))
report = compile_api.report(call)
print(*(record.outcome for record in report.kept), sum("take up" not in dict(g.seconds) for g in report.compiled))
"""


def test_models_of_transformers_are_taken_up(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    plain, other = (MODEL.format(before=each) for each in ("", "config.hidden_act = 'relu'"))
    assert told(tmp_path, plain, PYTHONHASHSEED="1")[1].startswith("stored")
    assert told(tmp_path, plain, PYTHONHASHSEED="2") == ["True True", "taken up 0"]
    first, second = told(tmp_path, other, PYTHONHASHSEED="3")
    assert (first, second.split()[0]) == ("True True", "refused")


VARIES = """
import sys, torch, compile_api
import torch.nn.functional as F

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 8))
emb = torch.nn.Embedding(50, 8)
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)


def batches(x, k):
    return net(x).softmax(-1) * x.shape[0] / (x.shape[1] + 1)


def reshaped(x, k):
    return net(x.reshape(-1, 8)).view(x.shape[1], x.shape[0], 8).flip(0), x.shape


def halved(x, k):
    return torch.cat([net(x[:, : x.shape[1] // 2]), x[:, x.shape[1] // 2 :]], 1).cumsum(1)


def numbers(x, k):
    return net(x) * k + k // 2, x[:, :k], k + 1


def floats(x, k):
    return net(x) * (k / 7) + k / 3


def selected(x, k):
    return net(x[x[..., 0] > 0]).sum(0)


def masked(x, k):
    scores = x @ x.mT
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -1e9).softmax(-1) @ x


def embedded(x, k):
    return net(emb(torch.arange(x.shape[1]) % 50) + x).amax(1)


def stepped(x, k):
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), x)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def observed(call, how, sizes):
    torch.manual_seed(0)
    for module in (net, emb):
        for parameter in module.parameters():
            parameter.data.uniform_(-0.3, 0.3)
            parameter.grad = None
    optimizer.state.clear()
    seen = []
    for batch, length in sizes:
        x = torch.randn(batch, length, 8)
        with torch.set_grad_enabled(how != "inference"):
            found = call(x, length // 2 + 1)
        values = [each for each in (found if isinstance(found, tuple) else (found,))]
        if how == "training":
            followed = [each for each in values if isinstance(each, torch.Tensor) and each.requires_grad]
            torch.autograd.backward([each.square().sum() for each in followed])
        seen += [each.detach() if isinstance(each, torch.Tensor) else each for each in values]
        seen += [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    return [*seen, *(p.detach().clone() for p in net.parameters())]


how, names, *sizes = sys.argv[1:]
sizes = [tuple(map(int, each.split("x"))) for each in sizes]
for name in names.split(","):
    call = compile_api.compile(globals()[name], options={"warm_start": True})
    ours, theirs = observed(call, how, sizes), observed(globals()[name], how, sizes)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    report = compile_api.report(call)
    told = [f"{record.outcome} {record.explanation}" for record in report.kept if record.outcome != "refused"]
    print(name, *told, sum("take up" not in dict(g.seconds) for g in report.compiled))
"""
PROGRAMS = "batches,reshaped,halved,numbers,floats,selected,masked,embedded"


@pytest.mark.parametrize(("how", "names"), [("inference", PROGRAMS), ("training", PROGRAMS), ("step", "stepped")])
def test_sizes_that_vary_are_taken_up(tmp_path, how, names):
    told(tmp_path, VARIES, [how, names, "3x4", "3x4", "5x6", "7x9"])
    lines = [line.split() for line in told(tmp_path, VARIES, [how, names, "3x4", "4x10", "3x4", "2x12"])]
    assert all(set(outcomes) == {"taken", "up"} and compiled == "0" for _, *outcomes, compiled in lines), lines


SCHEDULED = """
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)


def f(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


def reset():
    optimizer.state.clear()
    for p in model.parameters():
        p.data.fill_(0.5)
"""
MARKED = """
MISSING = object()


def scaled(x, by=MISSING):
    return x if by is MISSING else x * by


def f(x):
    return scaled(x) + scaled(x, 2)
"""
RECURRENT = """
model = torch.nn.LSTM(4, 5)


def f(x):
    return model(x[None])[0].sum(0)
"""
MAPPED = """
def f(x):
    return torch.vmap(lambda row: row * 2)(x).sum()
"""
ASKING = """
import collections.abc, os

if "LATER" in os.environ:
    import dbm.dumb, http.cookiejar, sqlite3  # which register classes


class Table:
    pass


def f(x):
    return x * 2 if isinstance(Table(), collections.abc.Mapping) else x * 3
"""
WITHOUT_A_DEVICE = """
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # torch raises, if it is built for one


def is_recorded():
    try:
        return torch.cuda.is_current_stream_capturing()
    except RuntimeError:
        return False


def f(x):
    return x * 2 if is_recorded() else x * 3
"""
PENALISED = """
def f(x):
    leaf = x.detach().requires_grad_()
    leaf.sin().sum().backward(create_graph=True)  # of which torch warns
    return leaf.grad.detach() * 2
"""
TWICE = """

def reset(): pass
{program}
x = torch.ones(3, 4)
call = compile_api.compile(f, options={{"warm_start": True}})
for _ in range(2):
    reset()
    seen = call(x)
    reset()
    torch.testing.assert_close(seen, f(x))
    x = x + 1
print(*(record.outcome for record in compile_api.report(call).kept if record.outcome != "refused"))
"""


@pytest.mark.parametrize("program", [SCHEDULED, MARKED, RECURRENT, MAPPED, ASKING, WITHOUT_A_DEVICE, PENALISED])
def test_what_programs_do_around_tensors_is_taken_up(tmp_path, program):
    text = "import torch, compile_api\n" + TWICE.format(program=program)
    (stored,) = told(tmp_path, text)
    assert set(stored.split()) == {"stored"}
    assert told(tmp_path, text, LATER="") == [stored.replace("stored", "taken up")]


LAYERS = """
import torch, compile_api


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x * (1 + self.number)


outcomes = []
for number in range(20):
    call = compile_api.compile(Layer(number), options={"warm_start": True})
    assert call(torch.ones(2)).tolist() == [number + 1.0] * 2
    outcomes += [record.outcome for record in compile_api.report(call).kept]
print(*(outcomes.count(each) for each in ("stored", "taken up", "refused")))
"""


def test_layers_compiled_one_by_one_are_taken_up_one_after_another(tmp_path):
    assert told(tmp_path, LAYERS)[0].startswith("20 0")
    stored, taken_up, refused = map(int, told(tmp_path, LAYERS)[0].split())
    assert (stored, taken_up) == (0, 20)
    assert refused < 45


REGISTERED = """
import abc, sys, torch, compile_api


class Base(abc.ABC):
    pass


class X:
    pass


class Y:
    pass


Base.register(X if sys.argv[1] == "X" else Y)


def f(x):
    return x * 2 if isinstance(X(), Base) else x * 3


call = compile_api.compile(f, options={"warm_start": True})
print(call(torch.ones(1)).item() == f(torch.ones(1)).item(), compile_api.report(call).kept[-1].outcome)
"""


def test_classes_registered_in_one_process_are_not_those_of_another(tmp_path):
    order = ["X", "Y", "Y", "X"]
    lines = [told(tmp_path, REGISTERED, [each])[0] for each in order]
    assert lines == ["True stored", "True stored", "True taken up", "True taken up"]


EXCHANGED = """
import os, sys, torch, compile_api


def f(x):
    return (x.sin() * x.exp()).sum()


def g(x):
    return (x.cos() * x.exp()).sum()


for function in (f, g):
    x, y = (torch.linspace(0, 1, 4, requires_grad=True) for _ in range(2))
    compile_api.compile(function, options={"warm_start": True})(x).backward()
    function(y).backward()
    print(torch.allclose(x.grad, y.grad))
"""


@pytest.mark.parametrize("kind", ["later", "graph", "frame", "so"])
def test_files_that_were_exchanged_are_noticed(tmp_path, kind):
    assert told(tmp_path, EXCHANGED) == ["True", "True"]
    files = sorted((tmp_path / "cache").rglob(f"*.{kind}"))
    assert len(files) > 1
    for one, other in zip(files, [each.read_bytes() for each in files[1:] + files[:1]]):
        one.write_bytes(other)
    assert told(tmp_path, EXCHANGED) == ["True", "True"]


RATES = """
import torch, compile_api

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters())


def step(x):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


call = compile_api.compile(step, options={"warm_start": True})
for rate in (0.1, 0.2, 0.3):
    optimizer.param_groups[0]["lr"] = rate
    call(torch.ones(3, 4))
print(*(record.explanation for record in compile_api.report(call).kept if record.outcome == "not stored"))
print(*(record.outcome for record in compile_api.report(call).kept if record.outcome != "refused"))
"""


def test_rates_that_vary_are_taken_up(tmp_path):
    unstored, outcomes = told(tmp_path, RATES)
    assert (unstored, set(outcomes.split())) == ("", {"stored"})
    assert set(told(tmp_path, RATES)[1].split()) == {"taken", "up"}
