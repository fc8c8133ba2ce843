"""Versions of frames that another process made: taken up without evaluation, or not at all."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

import capture
from capture.guards.conditions import program_of
from capture.guards.decided import decided
from capture.guards.sources import ArgSource

HERE = pathlib.Path(__file__).parent / "stored"
sys.path.insert(0, str(HERE))

from mutations import AROUND, CHANGES, IMPORTS, KEPT, TEXTS  # noqa: E402 - the folder is known now


class Worker:
    """Processes that run the program, each a fresh one, whose texts hash by ``seed``."""

    def __init__(self, seed="random"):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "worker.py"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __call__(self, folder, store, before="", around="contextlib.nullcontext()"):
        self.process.stdin.write(json.dumps([str(folder), str(store), before, around]) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "crash" not in told, told["crash"]
        return told

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def worker():
    made = Worker()
    yield made
    made.end()


@pytest.fixture(scope="module")
def other():
    """Processes whose sets of texts are in another order."""
    made = Worker("7")
    yield made
    made.end()


@pytest.fixture(scope="module")
def written(worker, tmp_path_factory):
    """The program, and a store that knows it."""
    path = tmp_path_factory.mktemp("written")
    shutil.copytree(HERE, path / "program")
    first = worker(path / "program", path / "store")
    assert first["same"]
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    return path


@pytest.fixture
def folder(written):
    yield written / "program"
    for file in ("program.py", "helper.py"):
        shutil.copy2(HERE / file, written / "program" / file)


@pytest.fixture
def stored(written, tmp_path):
    shutil.copytree(written / "store", tmp_path / "store")
    return tmp_path / "store"


def test_another_process_takes_it_up(worker, folder, stored):
    second = worker(folder, stored)
    assert (second["same"], second["compiled"], second["outcomes"]) == (True, 0, [["taken up", ""]])


@pytest.mark.parametrize(("file", "old", "new"), TEXTS)
def test_source_that_changed_is_seen(worker, folder, stored, file, old, new):
    text = (folder / file).read_text()
    assert old in text
    other = "class Other(Base):\n    def act(self, x):\n        return x.exp()\n\n\nclass Net("
    text = text.replace(old, new).replace("class Net(", other)
    (folder / file).write_text(text)
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    assert worker(folder, stored)["same"]


@pytest.mark.parametrize("before", [*CHANGES, "settings = 'others'"])
def test_what_changed_before_the_first_call_is_seen(worker, folder, stored, before):
    assert worker(folder, stored, before)["same"]


@pytest.mark.parametrize("around", AROUND)
def test_what_is_in_force_is_seen(worker, folder, stored, around):
    assert worker(folder, stored, IMPORTS, around)["same"]


@pytest.mark.parametrize("part", range(12))
def test_bytes_that_changed_are_refused(worker, folder, stored, part):
    (file,) = stored.iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) * part // 12] ^= 1
    file.write_bytes(data)
    told = worker(folder, stored)
    assert told["same"]
    assert told["compiled"] == 1


@pytest.mark.parametrize("part", range(4))
def test_bytes_that_end_early_are_refused(worker, folder, stored, part):
    (file,) = stored.iterdir()
    file.write_bytes(file.read_bytes()[: file.stat().st_size * part // 4])
    told = worker(folder, stored)
    assert told["same"]
    assert told["compiled"] == 1
    assert [outcome for outcome, _ in told["outcomes"]] == ["refused", "stored"]


@pytest.mark.parametrize("before", KEPT)
def test_what_no_guard_tells_of_may_change(worker, folder, stored, before):
    told = worker(folder, stored, before)
    assert (told["same"], told["compiled"]) == (True, 0), told


def body(worker, folder, store, text):
    """What became of the forward with this body, in two processes."""
    program = (folder / "program.py").read_text()
    before, _, _ = program.partition("    def forward(self, x):")
    (folder / "program.py").write_text(before + "    def forward(self, x):\n" + textwrap.indent(text, " " * 8))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    first, second = worker(folder, store), worker(folder, store)
    assert first["same"]
    assert second["same"]
    return first, second


BODIES = {
    "a break": "x = x + 1\nif x.sum() > 0:\n    x = x * 2\nreturn x - 1",
    "a handler": "try:\n    raise ValueError(x.shape[0])\nexcept ValueError as error:\n    return x * error.args[0]",
    "an exception": "x = x + 1\nraise ValueError('no')",
    "an effect": "self.kept = x + 1\nreturn x * 2",
    "a list": "kept = []\nfor k in range(3):\n    kept.append(x * k)\nreturn kept",
    "a weight": "self.lin.weight.detach().mul_(1)\nreturn x * 2",
    "a draw": "return torch.nn.functional.dropout(x, 0.5, True) * 0",
    "a function": "def inner(y):\n    return y * 2\nreturn inner(x) + (lambda z: z.sin())(x)",
    "no tensor": "return 3",
    "a mode": "with torch.no_grad():\n    y = x * 2\nreturn y + 1",
    "what it changes": "if self.__dict__.get('kept') is None:\n    self.kept = x * 2\nreturn self.kept + x",
}


@pytest.mark.parametrize("name", BODIES)
def test_forms_of_frames(worker, folder, tmp_path, name):
    first, second = body(worker, folder, tmp_path / "own", BODIES[name])
    assert second["compiled"] == 0, (first, second)
    assert {outcome for outcome, _ in second["outcomes"]} == {"taken up"}, (first, second)


def test_a_call_that_no_other_is_like_is_left_to_cpython(worker, folder, tmp_path):
    text = "self.flip = not self.flip\nreturn torch.nn.functional.dropout(x, 0.5, True) * 0 + x"
    body(worker, folder, tmp_path / "unused", f"self.flip = True\n{text}")
    (folder / "program.py").write_text((folder / "program.py").read_text().replace("        self.flip = True\n", ""))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    before = "import sys; sys.modules['__main__'].Texts.spares_single_runs = True; net.flip = True"
    first, second = (worker(folder, tmp_path / "own", before) for _ in range(2))
    assert first["same"], first
    assert second["same"], second
    assert [outcome for outcome, _ in first["outcomes"] if outcome != "refused"] == ["stored", "stored"]
    assert [outcome for outcome, _ in second["outcomes"] if outcome != "refused"] == ["taken up", "taken up"]


OF_STATE = "state, a, b = self.state, self.norm.weight, self.lin.bias\nreturn x * state[a] + state[b]"
STATE = "net.state = {net.norm.weight: torch.ones(4), net.lin.bias: torch.zeros(4)}"
OTHER_STATES = [
    "net.norm.weight = net.lin.bias",
    "net.state = {net.lin.bias: torch.zeros(4), net.norm.weight: torch.ones(4)}",
    "net.state = {net.lin.bias: torch.zeros(4), net.norm.bias: torch.ones(4)}",
    "net.state[net.norm.bias] = torch.ones(4)",
    "net.state[net.lin.bias] = 3",
    "net.norm.weight, net.lin.bias = net.lin.bias, net.norm.weight",
    "net.norm.weight = torch.nn.Parameter(torch.ones(4))",
]


@pytest.mark.parametrize("other", ["", *OTHER_STATES])
def test_state_that_is_kept_by_parameter(worker, folder, tmp_path, other):
    body(worker, folder, tmp_path / "unused", OF_STATE)
    first, second = worker(folder, tmp_path / "own", STATE), worker(folder, tmp_path / "own", f"{STATE}\n{other}")
    assert first["same"], first
    assert second["same"], second
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    assert other or second["compiled"] == 0, second


ASKED = {
    "a context variable": (
        "return x * VAR.get()",
        "import contextvars; program.VAR = contextvars.ContextVar('v', default={})", "2.0", ["3.0", "'2.0'", "x"],
    ),
    "which context variable": (
        "return x * self.a.get() + self.b.get()",
        "import contextvars as c; net.a = c.ContextVar('v', default=1.0); net.b = {}",
        "c.ContextVar('v', default=1.0)", ["net.a", "c.ContextVar('v')", "c.ContextVar('v', default=2.0)"],
    ),
    "what a tensor holds": (
        "return x * 2 if (x[:, 1:] > 0).all() else x - 1",
        "x = torch.arange(12).view(3, 4) + {}", "1", ["-1", "-5", "0"],
    ),
    "how a tensor is": (
        "return x * 2 if x.is_conj() else x - 1",
        "x = torch.ones(3, 4, dtype=torch.complex64){}", ".conj()", ["", ".conj().resolve_conj()"],
    ),
    "a variable of the environment": (
        "import os\nreturn x * (len(os.environ.get('K', 'none')) + ('L' in os.environ) + len(os.getenv('M', '')))",
        "import os; os.environ.update({})", "K='2'", ["K='33'", "L='1'", "K='2', M=''", "K='2', M='7'"],
    ),
    "a sentinel": (
        "return x * 2 if self.kept is helper.MISSING else x - 1",
        "import dataclasses; helper.MISSING = dataclasses.MISSING; net.kept = {}",
        "dataclasses.MISSING", ["dataclasses._FIELD", "None", "type(dataclasses.MISSING)()"],
    ),
}  # fmt: skip


FOUND = {
    "an object at two places": (
        "return x * self.one.k + (self.one is self.lin.one)",
        "net.one = net.lin.one = helper.Config(); net.one.k = {}", "2", ["3", "2; net.one = helper.Config()"],
    ),
    "a tuple at two places": (
        "return x * self.one[0] + self.two[0]",
        "net.one = (5, 6); net.two = {}", "net.one", ["tuple([5, 6])", "(5, 7)", "net.one; net.one = (7, 6)"],
    ),
    "a signature": (
        "import inspect\nreturn x * len(inspect.signature(self.act).parameters)",
        "{}", "", ["program.Base.act.__signature__ = 3", "program.Base.act = lambda self, *x: x[0]"],
    ),
    "a function in a table": (
        "return self.checks['a'](x)", "net.checks = {{'a': program.closed_over({})}}", "3", ["4", "'3'"],
    ),
}  # fmt: skip
"""What is found by its path, and by what it holds."""


@pytest.mark.parametrize("name", {**ASKED, **FOUND})
def test_what_is_asked_is_asked_again(worker, folder, tmp_path, name):
    text, before, one, others = {**ASKED, **FOUND}[name]
    body(worker, folder, tmp_path / "unused", text)
    first, *told = (worker(folder, tmp_path / "own", before.format(each)) for each in (one, one, *others))
    assert all(each["same"] for each in (first, *told)), (first, told)
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    assert told[0]["compiled"] == 0, told[0]


SETS = {
    "what is in it": ("return x * 2 if 'a' in self.kept else x - 1", "{'a', 'b', 'c'}", ["{'b', 'c'}", "['a', 'b']"]),
    "how much is in it": ("return x * len(self.kept)", "{'a', 'b', 'c'}", ["{'a', 'b'}", "('a', 'b')"]),
    "what equals it": ("return x * 2 if self.kept == {'a', 'b'} else x - 1", "{'a', 'b'}", ["{'a'}"]),
    "it sorted": ("for k in sorted(self.kept):\n    x = x * 2 + len(k)\nreturn x", "{'a', 'bb'}", ["{'a', 'b'}"]),
    "one made of it": ("return x * len(self.kept | {'z'})", "{'ab', 'ac', 'b'}", ["{'a'}"]),
    "classes in it": ("return x * 2 if type(x) in self.kept else x - 1", "{torch.Tensor, int}", ["{torch.Size}"]),
    "one that stays": ("return x * 2 if 'a' in self.kept else x - 1", "frozenset({'a', 'b'})", ["frozenset('b')"]),
    "numbers in order": ("for k in self.kept:\n    x = x * 2 + k\nreturn x", "{8, 0}", ["{0, 8}", "{8, 1}"]),
    "numbers that stay": ("return sum(x * k for k in self.kept)", "frozenset([8, 0])", ["frozenset([0, 8, 1])"]),
}


@pytest.mark.parametrize("name", SETS)
def test_sets_are_stored_by_what_is_in_them(worker, other, folder, tmp_path, name):
    text, kept, others = SETS[name]
    body(worker, folder, tmp_path / "unused", text)
    first = worker(folder, tmp_path / "own", f"net.kept = {kept}")
    told = [other(folder, tmp_path / "own", f"net.kept = {each}") for each in (kept, *others)]
    assert all(each["same"] for each in (first, *told)), (first, told)
    assert [outcome for outcome, _ in first["outcomes"]] == ["stored"], first
    assert [each["compiled"] for each in told] == [0, *[1] * len(others)], told


ORDERS = {
    "made of texts": "for k in {k + 'x' for k in ('a', 'b', 'c', 'd')}:\n    x = x * 2 + ord(k[0])\nreturn x",
    "a constant": "for k in {'a', 'b', 'c', 'd'}:\n    x = x * 2 + ord(k[0])\nreturn x",
    "in a list": "return x * ord(list({**{k: 1 for k in 'abcd'}}.keys() & set('abcd'))[0])",
    "in a text": "return x * ord(str(frozenset('abcd'))[12])",
    "a hash": "return x * ('a'.__hash__() % 7)",
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_of_this_process_is_not_stored(worker, other, folder, tmp_path, name):
    first, _ = body(worker, folder, tmp_path / "own", ORDERS[name])
    assert [outcome for outcome, _ in first["outcomes"]] == ["not stored"], first
    assert other(folder, tmp_path / "own")["same"]


def test_an_order_that_is_another_one_is_traced_again(worker, other, folder, tmp_path):
    body(worker, folder, tmp_path / "unused", "for k in self.kept:\n    x = x * 2 + ord(k)\nreturn x")
    before = "net.kept = set('abcdefgh')"
    first, second, third = (each(folder, tmp_path / "own", before) for each in (worker, worker, other))
    assert all(each["same"] for each in (first, second, third)), (first, second, third)
    assert (second["compiled"], third["compiled"]) == (0, 1)


VARYING = {
    "a product": "return x.reshape(-1) * x.shape[0]",
    "a half": "return x[: x.shape[0] // 2] if x.shape[0] > 2 else x",
}


@pytest.mark.parametrize("name", VARYING)
def test_sizes_that_vary(worker, folder, tmp_path, name):
    body(worker, folder, tmp_path / "own", VARYING[name])
    first = worker(folder, tmp_path / "varying", "capture.mark_dynamic(x, 0)")
    others = [worker(folder, tmp_path / "varying", f"x = torch.ones({size}, 4)") for size in (7, 2)]
    assert all(told["same"] for told in (first, *others))
    assert others[0]["compiled"] == 0, (first, others)


@given(st.lists(st.integers(1, 2**62), min_size=2, max_size=2))
def test_programs_of_conditions_are_decided_in_any_numbers(sizes):
    a, b = sympy.symbols("a b", integer=True, positive=True)
    reads = {a: ("number", 0, 0), b: ("number", 1, 0)}
    paths = (ArgSource(0, "a"), ArgSource(1, "b"))
    for condition in (a * b > 2**70, sympy.Ne(a + b, 5), (a < b) | (b**2 <= a), sympy.Min(a, b) >= 3):
        program = program_of(condition, reads)
        if program is not None:
            assert decided(paths, program, None, *sizes) == bool(condition.subs({a: sizes[0], b: sizes[1]}))


REFUSED = {
    "makes a set": "return [x * k for k in {1, 2, x.shape[0]}]",
    "an address": "return x * (id(x) % 2)",
    "another process's": "import os\nreturn x * len(os.path.expanduser('~'))",
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_stored_is_said(worker, folder, tmp_path, why):
    first, _ = body(worker, folder, tmp_path / "own", REFUSED[why])
    assert not any(outcome == "stored" for outcome, _ in first["outcomes"]), first


class Broken:
    """A store that fails."""

    settings = ""

    def find(self, key):
        raise OSError("no such folder")

    def keep(self, key, data):
        raise OSError("the disk is full")


def test_a_store_that_fails_costs_nothing_but_time(x):
    log = capture.Log()
    compiled = capture.optimize("eager", store=Broken(), log=log)(lambda x: x + 1)
    assert torch.equal(compiled(x), x + 1)
    told = [record for record in log.records() if isinstance(record, capture.StoreRecord)]
    assert [record.outcome for record in told] == ["refused", "not stored"]


@pytest.fixture
def x():
    return torch.arange(3.0)


SECOND = """
import sys

import torch

import capture
from worker import Texts


class InMemory:
    settings, keys = "first", []

    def find(self, key):
        return []

    def keep(self, key, data):
        self.keys.append(key)


class Table:
    rows = None


def fills(x, table):
    if table.rows is None:
        table.rows = 3
    return x * 2


Texts.spares_single_runs, store = True, InMemory()
compiled = capture.optimize(Texts(), store=store)(fills)
for store.settings in ("first", sys.argv[1]):
    compiled(torch.ones(3), Table())
print(len(store.keys), len(set(store.keys)))
"""


@pytest.mark.parametrize("then", ["first", "second"])
def test_a_second_evaluation_of_a_call_is_kept_under_the_settings_of_its_own_time(tmp_path, then):
    (tmp_path / "program.py").write_text(SECOND)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])}
    command = [sys.executable, tmp_path / "program.py", then]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["2", "1" if then == "first" else "2"]
