"""No path through the package imports torch's own compiler; each in one process, which says where it was imported."""

import subprocess
import sys
import textwrap

PATHS = """
import contextlib, io, sys, tempfile, traceback, warnings
import torch
import compile_api
from compile_api.importing.deferred import is_waiting
from torch.utils.checkpoint import checkpoint

PEER = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "torch._functorch.partitioners",
        "torch.export", "torch._export")
before = set(sys.modules)
WAITED = {name for name in PEER if is_waiting(name)}
strict = {"strict": True}
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 2))


def first_call(): compile_api.compile(lambda x: torch.sin(x) + 1, options=strict)(torch.ones(3))

def changed_sizes():
    f = compile_api.compile(lambda x: (x.sin() @ x.T).softmax(-1).sum(-1), options=strict)
    for size in (3, 5, 7, 8): f(torch.ones(size, 4))

def dynamic(): compile_api.compile(lambda x: x.reshape(-1) * x.shape[0], dynamic=True, options=strict)(torch.ones(3, 4))

def changed_sizes_in_training():
    f = compile_api.compile(net, options=strict)
    for size in (3, 5, 7): f(torch.ones(size, 4)).sum().backward()

def numbers():
    f = compile_api.compile(lambda x, n: x * n + x.sum().item(), options=strict)
    for n in (2, 3, 0.5, 0.25): f(torch.ones(3), n)

def masks(): compile_api.compile(lambda x: x[x > 0] + 1, options=strict)(torch.randn(9))

def step():
    f, optimizer = compile_api.compile(net, options=strict), torch.optim.AdamW(net.parameters())
    for _ in range(2):
        f(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

def compiled_step():
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    def one(x):
        net(x).sum().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    f = compile_api.compile(one)
    for _ in range(2): f(torch.ones(3, 4))

def autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16): compile_api.compile(net[0], options=strict)(torch.ones(3, 4))

def checkpoints():
    for reentrant in (False, True):
        f = compile_api.compile(lambda x: checkpoint(net, x, use_reentrant=reentrant), options=strict)
        f(torch.ones(3, 4, requires_grad=True)).sum().backward()

def breaks():
    def f(x):
        if x.sum() > 0: print("break")
        return x + 1
    compile_api.compile(f)(torch.ones(2))

def looking():
    f = compile_api.compile(net)
    f(torch.ones(3, 4))
    str(compile_api.report(f)), str(compile_api.explain(lambda x: x + 1)(torch.ones(2)))
    compile_api.export(lambda x: x + 1)(torch.ones(2))
    str(compile_api.walkthrough(one_more)(torch.ones(2)))

def one_more(x): return x + 1

def logs():
    compile_api.set_logs("all")
    compile_api.compile(lambda x: x * 3 + 1)(torch.ones(3))
    compile_api.set_logs("")

def folders():
    with tempfile.TemporaryDirectory() as folder:
        compile_api.compile(lambda x: x * 4, options={"debug": folder, "check": True})(torch.ones(3))

def backends():
    for name in ("eager", "aot_eager", "cudagraphs"): compile_api.compile(net, backend=name)(torch.ones(3, 4))

def served():
    compile_api.install()
    torch.compile(lambda x: x + 5)(torch.ones(2))
    module = torch.nn.Linear(4, 4)
    module.compile()
    module(torch.ones(2, 4))
    torch.compiler.reset()
    compile_api.uninstall()

def controls():
    with compile_api.set_stance("force_eager"): first_call()
    compile_api.mark_dynamic(torch.ones(3), 0)
    compile_api.reset()

def module_states():
    f = compile_api.compile(net)
    f.load_state_dict(f.state_dict())
    import copy, pickle
    copy.deepcopy(f), pickle.dumps(f)
    torch.optim.swa_utils.AveragedModel(f).update_parameters(f)

def random_numbers(): compile_api.compile(lambda x: torch.rand_like(x) + torch.randn(3), options=strict)(torch.ones(3))

def transforms(): compile_api.compile(lambda x: torch.func.grad(lambda y: (y * y).sum())(x))(torch.ones(3))

def subgraphs():
    f = compile_api.compile(lambda x: torch.cond(x.shape[0] > 2, torch.sin, torch.cos, (x,)))
    f(torch.ones(3))


for path in (first_call, changed_sizes, dynamic, changed_sizes_in_training, numbers, masks, step, compiled_step,
             autocast, checkpoints, breaks, looking, logs, folders, backends, served, controls, module_states,
             random_numbers, transforms, subgraphs):
    if len(sys.argv) > 1 and path.__name__ not in sys.argv[1:]: continue
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path()
    now = [name for name in PEER if name in sys.modules and name not in before and not is_waiting(name)]
    now += [name for name in PEER if name in before and name in WAITED and not is_waiting(name)]
    before.update(now)
    WAITED.difference_update(now)
    if now: print(path.__name__, *now)
""".replace(
    "before = set(sys.modules)\n", "before = set(sys.modules)\nWAITED = {name for name in PEER if is_waiting(name)}\n"
)


def test_no_path_imports_the_peer(tmp_path):
    (tmp_path / "paths.py").write_text(textwrap.dedent(PATHS))
    done = subprocess.run([sys.executable, "paths.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [], "the peer was imported, by path"
