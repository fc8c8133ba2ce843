"""The command line: every command, and what it says when something is missing."""

import io
import json
import os
import shutil
import subprocess
import sys

import pytest
import torch

import compile_api
from compile_api.commands import verifying
from compile_api.commands.main import main
from inductor.cache import key_of

PROGRAM = """
import sys
import torch

@torch.compile
def f(x):
    x = torch.sin(x) + 1
    if x.sum() > 0:
        return x * 2
    return x

print(f(torch.ones(3)).tolist(), sys.argv[1:], __name__)
"""


def test_verify_says_that_all_is_well(capsys):
    assert main(["verify"]) == 0
    out = capsys.readouterr().out
    for part in ("Python 3", "torch 2", "C++ compiler", "cache folder", "compiled and ran a function on cpu", "ready"):
        assert part in out


def test_verify_says_how_to_get_a_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "compile_api", "verify"], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 1
    assert "no C++ compiler" in done.stdout
    assert "apt install g++" in done.stdout
    assert "the function ran right but uncompiled" in done.stdout


def test_verify_says_what_to_do_about_the_cache_folder(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "file"))
    finding = verifying.cache_folder()
    assert finding.good is False
    assert "COMPILE_API_CACHE" in finding.then


def test_verify_without_headers_or_a_gpu_is_no_failure_here(monkeypatch, tmp_path):
    monkeypatch.setattr(verifying.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert verifying.headers().good is None
    assert "python3-dev" in verifying.headers().then
    assert verifying.gpu().good is None


def test_info_is_data_too(capsys):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["packages"]["torch"] == torch.__version__.replace("+cpu", "") or facts["packages"]["torch"]
    assert facts["backends"]["inductor"] == "ready"
    assert main(["info"]) == 0
    assert "cache folder" in capsys.readouterr().out


def test_cache_is_shown_and_cleared(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "cache"))
    assert main(["cache", "show"]) == 0
    assert "does not exist" in capsys.readouterr().out
    kernels = tmp_path / "cache" / "kernels"
    kernels.mkdir(parents=True)
    (kernels / f"{key_of('ab')}.so").write_bytes(b"x" * 1000)
    assert main(["cache", "show"]) == 0
    assert "1 files" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("action", ["show", "clear"])
def test_a_cache_folder_that_is_a_file_is_told(action, monkeypatch, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "file"))
    assert main(["cache", action]) == 2
    assert "file is a file, and no folder: remove it, or let COMPILE_API_CACHE" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_clearing_leaves_what_is_not_ours(monkeypatch, tmp_path, capsys):
    project = ["thesis.docx", ".env", ".git/HEAD", "weights.pt", "kernels/gemm.cpp", "kernels/ab.so", "src/model.py"]
    for name in project:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("years of work")
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path))
    compile_api.compile(lambda x: x * 12345)(torch.ones(3))
    assert main(["cache", "clear"]) == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == sorted(project)
    assert "left 7 that no compiler of ours wrote" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["run"], ["run", "--report"], ["explain"]])
def test_a_program_is_served(command, tmp_path, python):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = python("-m", "compile_api", *command, "program.py", "--flag", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "['--flag', '3'] __main__" in done.stdout
    assert ("graph breaks (1)" in done.stderr) == (command != ["run"])


@pytest.mark.parametrize("command", [["run", "--report"], ["explain"]])
@pytest.mark.parametrize("given", [["-"], ["-c", PROGRAM], ["-m", "module"]])
def test_a_program_may_come_from_elsewhere(command, given, tmp_path, monkeypatch, capsys):
    (tmp_path / "module.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(PROGRAM))
    assert main([*command, *given, "--flag", "-x"]) == 0
    told = capsys.readouterr()
    assert "['--flag', '-x'] __main__" in told.out
    assert "graph breaks (1)" in told.err
    assert "if x.sum() > 0:" in told.err


WHERE = """
import os, sys
path = list(sys.path)
os.chdir("/")
import beside
print(globals().get("__file__"), __name__, __package__, type(__spec__).__name__, type(__builtins__), sys.argv, path[0])
"""


@pytest.mark.parametrize("named", [["folder/__main__.py"], ["folder"], ["folder.zip"], ["-m", "folder"], ["-c", WHERE]])
def test_a_program_finds_itself_and_its_modules_where_python_puts_them(named, tmp_path, python):
    for name, text in (("folder/__main__.py", WHERE), ("folder/beside.py", ""), ("beside.py", "")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.make_archive(str(tmp_path / "folder"), "zip", tmp_path / "folder")
    plain = subprocess.run([sys.executable, *named, "3"], cwd=tmp_path, capture_output=True, text=True, check=False)
    served = python("-m", "compile_api", "run", *named, "3", cwd=tmp_path)
    assert (served.stdout, served.returncode) == (plain.stdout, plain.returncode), served.stderr
    assert ("__main__" in plain.stdout) == (named[0] != "-c")


LATE = """
import atexit, dataclasses, pickle, sys, threading, torch

@dataclasses.dataclass
class State:
    step: int = 3

def save():
    compiled = torch.compile(lambda x: x + 1, backend="aot_eager")
    print(len(pickle.dumps(State())) > 0, compiled(torch.ones(2)).tolist())

def later():
    threading.main_thread().join()
    save()

threading.Thread(target=later).start() if sys.argv[1] == "thread" else atexit.register(save)
"""


@pytest.mark.parametrize("when", ["thread", "atexit"])  # torch 2.11's fake tensors die in the second after the first
@pytest.mark.parametrize("program", [["late.py"], ["-m", "late"]])
def test_what_a_program_leaves_for_later_finds_it_as_it_was(program, when, tmp_path, python):
    (tmp_path / "late.py").write_text(LATE)
    done = python("-m", "compile_api", "explain", *program, when, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "True [2.0, 2.0]"
    assert "graphs captured    1" in done.stderr


def test_a_program_that_fails_fails_as_it_would(tmp_path, python):
    (tmp_path / "program.py").write_text("import sys; sys.exit(7)")
    done = python("-m", "compile_api", "run", "program.py", cwd=tmp_path)
    assert done.returncode == 7


def test_a_program_may_close_its_output(tmp_path, python):
    (tmp_path / "closes.py").write_text("import sys; print('hello'); sys.stdout.close()")
    done = python("-m", "compile_api", "run", "closes.py", cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "", 0)


def test_a_missing_program_is_a_sentence(capsys):
    assert main(["explain", "no_such.py"]) == 2
    assert capsys.readouterr().err == "compile-api: there is no program no_such.py\n"
    assert main(["run"]) == 2


def test_a_mistake_in_the_program_is_shown_where_it_is(tmp_path, capsys):
    (tmp_path / "program.py").write_text("import torch\ntorch.compile(len, backend='inducter')\n")
    assert main(["run", str(tmp_path / "program.py")]) == 1
    said = capsys.readouterr().err
    assert 'program.py", line 2' in said
    assert "did you mean 'inductor'" in said


def test_a_report_tells_what_was_switched_off_from_what_was_never_called(tmp_path, capsys):
    (tmp_path / "program.py").write_text("import torch\ntorch.compile(len, disable=True)\n")
    assert main(["explain", str(tmp_path / "program.py")]) == 0
    assert capsys.readouterr().err == "torch.compile was switched off: nothing was compiled\n"


def test_a_file_that_holds_no_graph_is_a_sentence(tmp_path, capsys):
    (tmp_path / "index.html").write_text("<html>")
    assert main(["minify", str(tmp_path / "index.html")]) == 2
    assert "index.html is no graph: give a graph's folder, written under COMPILE_DEBUG=1" in capsys.readouterr().err


def test_a_walkthrough_of_the_users_function_and_of_an_example(tmp_path, capsys, python):
    before = sys.modules["__main__"]
    assert main(["walkthrough"]) == 0
    assert sys.modules["__main__"] is before
    shown = capsys.readouterr().out
    assert "def attention_weights" in shown
    assert "## The inference graph: the kernels" in shown
    program = tmp_path / "own.py"
    program.write_text("def double(x):\n    return x * 2 + 1\n")
    done = python("-m", "compile_api", "walkthrough", "own.py:double", "--shapes", "3,5", "--training", cwd=tmp_path)
    assert "return x * 2 + 1" in done.stdout, done.stderr
    assert "## The backward graph" in done.stdout
    assert "3, 5" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["own.py:doubel"], "did you mean 'double'"),
        (["double"], "program.py:function"),
        (["none.py:double"], "there is no program none.py"),
        (["own.py:double", "--shapes", "big"], "takes sizes"),
        (["own.py:Kept"], "not the class Kept"),
        (["own.py:number"], "takes a function or a module, not int"),
        (["ends.py:double"], "ends.py ended itself with 3 while it was imported"),
    ],
)
def test_a_walkthrough_that_cannot_be(arguments, said, tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text("number = 3\nclass Kept: ...\ndef double(x):\n    return x * 2 + 1\n")
    (tmp_path / "ends.py").write_text("def double(x):\n    return x * 2 + 1\nraise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["walkthrough", *arguments]) == 2
    assert said in capsys.readouterr().err


FOLLOWED = """
import sys
import torch
import compile_api

assert sys.argv == ["own.py"], sys.argv

@torch.compile
def torchs(x):
    return x * 2 + 1

@compile_api.compile
def ours(x, y=3):
    return x * 2 + y

class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1

module = Net()
compiled = compile_api.compile(module)
"""


@pytest.mark.parametrize("name", ["torchs", "ours", "module", "compiled"])
def test_whatever_was_made_of_a_function_is_followed(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text(FOLLOWED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert main(["walkthrough", f"own.py:{name}"]) == 0
    shown = capsys.readouterr().out
    assert "return x * 2 +" in shown
    assert "## The bytecode that runs instead" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "compile-api explain script.py"),
        (["run"], "compile-api run script.py"),
        (["run", "-m", "nomod"], "there is no module nomod"),
        (["run", "-m", "nomod.part"], "there is no module nomod.part"),
    ],
)
def test_a_program_that_is_not_there_is_told(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cache show", "info"])
def test_whoever_reads_may_stop_reading(command):
    program = [sys.executable, "-m", "compile_api", *command.split()]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(program, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("served", [True, False])
def test_files_that_a_program_leaves_open_are_written_at_its_end(served, tmp_path, python):
    script, file = tmp_path / "program.py", tmp_path / "log.txt"
    install = "" if served else "import compile_api; compile_api.install()\n"
    script.write_text(
        f"{install}import torch\n"
        "f = torch.compile(lambda x: x + 1, backend='eager')\n"
        f"log = open({str(file)!r}, 'w')\n"
        "log.write(str(f(torch.ones(1)).item()))\n"
    )
    done = python(*(["-m", "compile_api", "run"] if served else []), str(script))
    assert done.returncode == 0, done.stderr
    assert file.read_text() == "2.0"


@pytest.mark.parametrize("arguments", [["show", "more"], ["clear", "my.bundle"], ["pack"], ["load"]], ids=" ".join)
def test_a_file_is_named_where_one_is_meant(arguments, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path))
    (tmp_path / "kept").touch()
    assert main(["cache", *arguments]) != 0
    assert "file" in capsys.readouterr().err
    assert (tmp_path / "kept").exists()


def test_nothing_is_packed_of_a_folder_that_is_not_there(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COMPILE_API_CACHE", str(tmp_path / "none"))
    assert main(["cache", "pack", str(tmp_path / "bundle")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
