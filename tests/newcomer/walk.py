"""What a new user tries in the first ten minutes, with nothing but installed wheels.

Each step ends in a right result or in a sentence that says what to do.  ``nox -s newcomer`` runs it in an environment
with nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEPS: list[Callable[[Path], None]] = []

README = "README.md"
PREAMBLE = "import torch, compile_api\nf = compile_api.compile(lambda x: torch.sin(x) + 1)\nx = torch.randn(9)\n"


def step(function: Callable[[Path], None]) -> Callable[[Path], None]:
    STEPS.append(function)
    return function


def command(*arguments: str, folder: Path, fails: bool = False, **env: str) -> str:
    """Runs a command as a user would, in an empty folder; returns what it printed."""
    done = subprocess.run(
        arguments, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{arguments} ended with {done.returncode}:\n{text}"
    return text


def python(program: str, folder: Path, *, fails: bool = False, **env: str) -> str:
    (folder / "program.py").write_text(program)
    return command(sys.executable, "program.py", folder=folder, fails=fails, **env)


def says(text: str, *parts: str) -> None:
    for part in parts:
        assert part in text, f"nothing says {part!r}:\n{text}"


@step
def it_is_installed_and_verifies(folder: Path) -> None:
    tool = str(Path(sysconfig.get_path("scripts")) / "compile-api")
    says(
        command(tool, "verify", folder=folder),
        "compiled and ran a function on cpu",
        "everything that is needed is here",
    )
    says(command(tool, "info", folder=folder), "compile-api-capture", "backends:")
    says(command(tool, "--help", folder=folder), "verify", "run a program")


@step
def the_readmes_lines_run(folder: Path) -> None:
    lines = (ROOT / README).read_text().split("```python\n")[1].split("```")[0]
    says(python(lines, folder), "kernels            1", "compile time")


@step
def a_break_is_explained(folder: Path) -> None:
    program = """
import torch, compile_api
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
print(compile_api.explain(f)(torch.ones(3)))
"""
    says(python(program, folder), "graph breaks (1)", "program.py:4 in f", "if x.sum() > 0:", "try: ")


@step
def a_backend_without_its_package_says_how_to_get_it(folder: Path) -> None:
    program = """
import importlib.util, compile_api
known = importlib.util.find_spec           # as if it were not installed, wherever this runs
importlib.util.find_spec = lambda name, *rest: None if name.startswith("onnx") else known(name, *rest)
compile_api.compile(lambda x: x, backend="onnxrt")
"""
    text = python(program, folder, fails=True)
    says(text, "BackendNotReady", "needs onnx", "pip install onnx onnxruntime")


@step
def a_wrong_option_backend_and_mode_are_met_with_the_right_ones(folder: Path) -> None:
    for wrong, right in (
        ("options={'debgu': True}", "did you mean 'debug'"),
        ("backend='inducter'", "did you mean 'inductor'"),
        ("mode='max-autotun'", "did you mean 'max-autotune'"),
        ("options={'check': 3}", "True or False, not 3"),
        ("options=['check']", "options are names and values"),
        ("dynamic='yes'", "dynamic is True, False or None, not 'yes'"),
    ):
        program = f"import compile_api\ncompile_api.compile(lambda x: x, {wrong})\n"
        says(python(program, folder, fails=True), right)


@step
def without_a_cache_folder_it_is_right_and_said(folder: Path) -> None:
    (folder / "file").write_text("no folder")
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right')\n"
    text = python(PREAMBLE + check, folder, COMPILE_API_CACHE=str(folder / "file" / "cache"))
    says(text, "right")
    verified = command(
        sys.executable, "-m", "compile_api", "verify", folder=folder, fails=True,
        COMPILE_API_CACHE=str(folder / "file" / "cache"),
    )  # fmt: skip
    says(verified, "MISSING  cache folder", "set COMPILE_API_CACHE to a folder that can be written")


@step
def without_a_compiler_it_is_right_and_says_what_to_install(folder: Path) -> None:
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right'); print(compile_api.report(f))\n"
    env = {"CXX": str(folder / "none"), "COMPILE_API_CACHE": str(folder / "cache")}
    says(python(PREAMBLE + check, folder, **env), "right", "refused", "none")
    verified = command(sys.executable, "-m", "compile_api", "verify", folder=folder, fails=True, **env)
    says(verified, "no C++ compiler", "apt install g++")


@step
def an_empty_path_is_no_compiler_either(folder: Path) -> None:
    check = "torch.testing.assert_close(f(x), torch.sin(x) + 1); print('right')\n"
    says(python(PREAMBLE + check, folder, PATH=str(folder), COMPILE_API_CACHE=str(folder / "cache")), "right")


@step
def an_existing_program_is_served(folder: Path) -> None:
    (folder / "theirs.py").write_text(
        "import torch\nf = torch.compile(lambda x: torch.sin(x) + 1)\nprint(f(torch.zeros(2)).tolist())\n"
    )
    text = command(sys.executable, "-m", "compile_api", "run", "--report", "theirs.py", folder=folder)
    says(text, "[1.0, 1.0]", "kernels            1")


@step
def torchs_compiler_finds_our_backend(folder: Path) -> None:
    program = "import torch\nf = torch.compile(lambda x: torch.sin(x) + 1, backend='compile_api')\n"
    says(python(program + "print(f(torch.zeros(2)).tolist())\n", folder), "[1.0, 1.0]")


PLAIN = "import torch, compile_api\n"
DECOYS = {  # what an unmodified program asks of torch.compile, and what it is told
    "mode='fastest'": "modes are default, reduce-overhead",
    "mode='default', options={}": "either a mode or options",
    "options={'epilogue_fusoin': True}": "did you mean 'epilogue_fusion'",
    "options={'triton.cudagraphs': 'yes'}": "True or False",
    "backend='inducter'": "did you mean 'inductor'",
    "bakend='inductor'": "unexpected keyword argument 'bakend'",
}


def run(program: str, folder: Path, *arguments: str, fails: bool = False, **env: str) -> str:
    """An unmodified program under compile-api."""
    (folder / "theirs.py").write_text("import torch\n" + program)
    return command(
        sys.executable, "-m", "compile_api", "run", *arguments, "theirs.py", folder=folder, fails=fails, **env
    )  # fmt: skip


@step
def an_unmodified_program_with_a_mistake_is_told_as_torch_tells(folder: Path) -> None:
    body = "".join(
        f"try: torch.compile(lambda x: x, {wrong}); print('NOTHING')\n"
        "except Exception as e: print(type(e).__name__, e)\n"
        for wrong in DECOYS
    )
    text = run(body, folder)
    says(text, *DECOYS.values())
    assert "NOTHING" not in text, text


@step
def options_that_only_torch_has_are_said_once_and_the_rest_is_honoured(folder: Path) -> None:
    program = """
how = {"shape_padding": True, "triton.cudagraphs": True}
for _ in range(2):
    print(torch.compile(lambda x: x + 1, options=how, backend="inductor")(torch.zeros(2)).tolist())
print(torch.compile(len, disable=True) is len)
"""
    text = run(program, folder)
    says(text, "'shape_padding' has no counterpart", "True")
    assert text.count("has no counterpart") == 1, text


@step
def torchs_environment_variables_act(folder: Path) -> None:
    program = "def f(x):\n  x = x + 1\n  print('here')\n  return x * 2\ntorch.compile(f)(torch.ones(2))\n"
    text = run(program, folder, TORCH_LOGS="graph_breaks,output_code", TORCH_COMPILE_DEBUG="1")
    says(text, "graph break at", "theirs.py:4", "[compile_api.kernels]")
    assert (folder / "compile_debug" / "index.html").is_file()
    page = next((folder / "compile_debug").glob("graph_*/index.html")).read_text()
    assert "No stacktrace found" not in page
    assert "pre-wrap" in page


@step
def torchs_compiler_functions_answer_with_ours(folder: Path) -> None:
    program = """
said = torch._dynamo.explain(lambda x: x + 1)(torch.ones(2))
print(said.graph_count, said.graph_break_count, "kernels" in str(said))
print("aot_eager" in torch._dynamo.list_backends(), "aot_eager" in torch.compiler.list_backends())
torch._dynamo.reset(); torch.compiler.reset(); torch.compiler.cudagraph_mark_step_begin()
torch._dynamo.graph_break(); torch._dynamo.mark_dynamic(torch.ones(3), 0)
print(torch.compiler.is_compiling(), torch.compiler.disable(lambda x: x)(3), torch._dynamo.disable(lambda x: x)(4))
with torch.compiler.set_stance("force_eager"): print(torch.compile(lambda x: x + 1)(torch.ones(1)).item())
"""
    says(run(program, folder), "1 0 True", "True True", "False 3 4", "2.0")


@step
def checkpoints_move_between_torchs_wrapper_and_ours(folder: Path) -> None:
    save = """
m = torch.compile(torch.nn.Linear(2, 2))
print(sorted(m.state_dict()), isinstance(m, torch._dynamo.eval_frame.OptimizedModule))
torch.save(m.state_dict(), "theirs.pt")
"""
    says(run(save, folder), "['_orig_mod.bias', '_orig_mod.weight'] True")
    load = (
        PLAIN
        + """
plain = torch.nn.Linear(2, 2)
ours = compile_api.compile(plain)
ours.load_state_dict(torch.load("theirs.pt"))
print(sorted(ours.state_dict()), ours._orig_mod is plain, isinstance(ours, torch.nn.Linear))
same = torch.equal(plain.weight, torch.load("theirs.pt")["_orig_mod.weight"])
print(isinstance(ours, torch._dynamo.OptimizedModule), same)
"""
    )
    says(python(load, folder), "['bias', 'weight'] True True", "True True")


@step
def logs_are_asked_for_in_every_way(folder: Path) -> None:
    program = (
        PLAIN
        + """
compile_api.set_logs("breaks", "recompiles"); compile_api.set_logs(graph_breaks=True)
try: compile_api.set_logs("brakes")
except compile_api.BadOption as error: print(error)
"""
    )
    says(python(program, folder), "did you mean 'breaks'", "logs are graphs, guards, breaks")


@step
def a_users_own_backend_is_minified(folder: Path) -> None:
    program = (
        PLAIN
        + """
@compile_api.register_backend
def mine(gm, inputs):
    if any("cos" in str(node.target) for node in gm.graph.nodes): raise ZeroDivisionError("cosine")
    return gm.forward
def f(x): return x.sin() + torch.cos(x)
if __name__ == "__main__":
    try: compile_api.compile(f, backend="mine")(torch.ones(3))
    except RuntimeError: pass
"""
    )
    python(program, folder, COMPILE_DEBUG="1")
    minify = (sys.executable, "-m", "compile_api", "minify", "compile_debug/graph_0_f", "--backend", "mine")
    says(command(*minify, folder=folder, fails=True), "add --import")
    says(command(*minify, "--import", "program.py", folder=folder), "operators are enough (cos)")


@step
def a_function_is_walked_through(folder: Path) -> None:
    tool = (sys.executable, "-m", "compile_api", "walkthrough")
    says(command(*tool, folder=folder), "## The captured graph", "## The inference graph: the kernels")


@step
def breaks_are_priced_and_containers_reported(folder: Path) -> None:
    program = (
        PLAIN
        + """
def f(x):
    x = x + 1
    print("in between")
    return x * 2
print(compile_api.explain(f)(torch.ones(3)))
blocks = torch.nn.Sequential(compile_api.compile(torch.nn.Linear(3, 3)), torch.nn.Linear(3, 3))
compile_api.compile_in_place(blocks[1])
blocks(torch.ones(1, 3))
print(compile_api.report(blocks))
"""
    )
    says(python(program, folder), "what they cost (1)", "a graph of 1 operator ends", "compiled parts     2 (0, 1)")


@step
def export_is_called_in_every_way(folder: Path) -> None:
    program = (
        PLAIN
        + """
f, x = lambda a, b: a + b, torch.ones(2)
for call in (lambda: compile_api.export(f)(x, x), lambda: compile_api.export(f, x, x),
             lambda: compile_api.export(f, (x, x)),
             lambda: compile_api.export(f, args=(x, x)), lambda: compile_api.export(f, (x,), {"b": x})):
    print("a graph:", isinstance(call()[0], torch.fx.GraphModule))
try: compile_api.export(f, (x, x), dynamic_shapes={})
except compile_api.BadOption as error: print(error)
"""
    )
    text = python(program, folder)
    says(text, "dynamic=True")
    assert text.count("a graph: True") == 5, text


@step
def an_exported_module_is_called_as_the_module_is(folder: Path) -> None:
    program = """
m, x = torch.nn.Linear(3, 2), torch.ones(1, 3)
graph, guards = torch._dynamo.export(m)(x)
print("same:", torch.equal(graph(x), m(x)), graph.weight is m.weight, torch._dynamo.export(m)(x).graph_module(x).shape)
print(torch._dynamo.export(lambda x: {"a": x + 1})(x)[0](x))
"""
    says(run(program, folder), "same: True True torch.Size([1, 2])", "{'a': tensor(")


@step
def torch_exports_what_is_served(folder: Path) -> None:
    program = """
m, x = torch.nn.Sequential(torch.nn.Linear(3, 2)), torch.ones(1, 3)
print("same:", torch.allclose(torch.export.export(torch.compile(m), (x,)).module()(x), m(x)))
"""
    says(run(program, folder), "same: True")


@step
def what_catches_torchs_errors_catches_ours(folder: Path) -> None:
    program = """
try: torch.compile(lambda x: x, backend="zz")
except torch._dynamo.exc.InvalidBackend as error: print("caught:", error)
"""
    says(run(program, folder), "caught: there is no backend 'zz'")


@step
def the_peer_stays_away_and_is_whole_when_it_is_asked_for(folder: Path) -> None:
    program = (
        PLAIN
        + """
import sys
f = compile_api.compile(lambda x: x.sin().sum(-1))
for size in (2, 3, 5): f(torch.ones(size, 4))
print([name for name in sys.modules if name.startswith(("torch._dynamo.symbolic", "torch._inductor."))])
from torch._dynamo import *
print(callable(explain), torch._dynamo.__doc__ is not None, "reset" in dir(torch._dynamo))
"""
    )
    says(python(program, folder), "[]", "True True True")


@step
def the_first_hour(folder: Path) -> None:
    program = (
        PLAIN
        + """
import copy, functools, io, pickle
x, net = torch.ones(1, 3), torch.nn.Linear(3, 3)
m = compile_api.compile(net)
class K:
    @compile_api.compile
    @staticmethod
    def f(x): return x + 1
@compile_api.compile
def g(x): return x + 1
file = io.BytesIO(); torch.save(m, file); file.seek(0)
for twin in (copy.copy(m), copy.deepcopy(m), pickle.loads(pickle.dumps(m)), torch.load(file, weights_only=False),
             compile_api.compile(m), torch.optim.swa_utils.AveragedModel(m), torch.nn.DataParallel(m)):
    torch.testing.assert_close(twin(x), net(x))
m(x).sum().backward(); torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0); m.half(); m.float()
assert pickle.loads(pickle.dumps(g)) is g
for call in (K.f, K().f, g, functools.partial(g), compile_api.compile(functools.partial(torch.add, 1))):
    assert call(torch.ones(1)) == 2
for wrong in ("max-autotune", 3, property(g)):
    try: compile_api.compile(wrong); print("NOTHING")
    except TypeError as error: assert "takes a function or a module" in str(error)
print("all of it")
"""
    )
    text = python(program, folder)
    says(text, "all of it")
    assert "NOTHING" not in text


def main() -> int:
    stumbles = 0
    for each in STEPS:
        name = each.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory() as folder:
            try:
                each(Path(folder))
            except Exception as error:  # noqa: BLE001 - whatever stops a newcomer is a stumble, and the walk goes on
                stumbles += 1
                print(f"STUMBLED  {name}\n    {str(error).strip()}".replace("\n", "\n    "), flush=True)
            else:
                print(f"ok  {name}", flush=True)
    return 1 if stumbles else 0


if __name__ == "__main__":
    sys.exit(main())
