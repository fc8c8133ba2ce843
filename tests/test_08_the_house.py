"""The rules of the house are checked by tools; these tests check the tools."""

import ast
import functools
import graphlib
import importlib.util
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUFF = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which("ruff")


@pytest.mark.skipif(RUFF is None, reason="ruff is installed by the lint session; it need not be here")
@pytest.mark.parametrize(
    "line",
    ["import torch._dynamo", "from torch._inductor import config", "import torch\ntorch.compile(len)",
     "from torch._functorch.aot_autograd import aot_function", "import torch\ntorch.export.export(None, ())"],
)  # fmt: skip
def test_the_peers_modules_are_banned_in_packages(line):
    checked = subprocess.run(
        [RUFF, "check", "--select", "TID251", "--stdin-filename", "packages/inductor/src/inductor/x.py", "-"],
        input=line + "\n", capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert "TID251" in checked.stdout


def test_every_package_has_its_papers():
    for folder in (ROOT / "packages").iterdir():
        for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"):
            assert (folder / name).is_file(), f"{folder.name} lacks {name}"
        assert list(folder.glob("src/*/py.typed"))


# -- the sources ------------------------------------------------------------------------------------------------------


@functools.cache
def modules():
    """Every module of the packages by its name, parsed; of the one in C what its stub says."""
    found = {}
    for folder in sorted(ROOT.glob("packages/*/src")):
        for path in sorted(folder.rglob("*.py*")):
            if path.suffix not in (".py", ".pyi"):
                continue
            name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")
            found[name] = ast.parse(path.read_text())
    return found


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def too_long(lines_of, most):
    return {name: lines for name, lines in lines_of.items() if lines > most}


def test_modules_stay_small():
    paths = list(ROOT.glob("packages/*/src/**/*.py"))
    assert len(paths) > 400
    lines = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in paths}
    assert not too_long(lines, 600), "split them by subject"


def test_functions_stay_small():
    lines = {
        f"{name}:{node.name}:{node.lineno}": node.end_lineno - node.lineno + 1
        for name, tree in modules().items() for node in ast.walk(tree) if isinstance(node, FUNCTIONS)
    }  # fmt: skip
    assert too_long(lines, 30), "the rule sees functions"
    assert not too_long(lines, 50), "what one does is more than one thing"


# -- imports ----------------------------------------------------------------------------------------------------------

BACK = {
    # It looks through the calls under way for the tracer's: a name that is compared, and nothing is imported by it.
    ("aotgrad.recording.own_functions", "aotgrad.tracing.joint"),
}
"""The imports that close a circle today.  Each does: one that no longer does has to go from the list."""


def imported(name, tree):
    """The modules that a module names: at its top, inside of functions, or by a text, as `import_module` takes it."""
    folder = name if name in {each.rpartition(".")[0] for each in modules()} else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), folder)
            parts = (f"{module}.{alias.name}" for alias in node.names)
            yield from (part if part in modules() else module for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


@functools.cache
def imports():
    return {name: (modules().keys() & set(imported(name, tree))) - {name} for name, tree in modules().items()}


def circle(back):
    """A circle of imports, those in ``back`` left out."""
    graph = {name: {each for each in found if (name, each) not in back} for name, found in imports().items()}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_imports_in_a_circle():
    assert circle(BACK) is None
    assert imports()["cudagraphs.eligible"] >= {"cudagraphs.driver"}, "they are seen"
    assert imports()["capture.recording.graph"] >= {"capture.recording.shapes"}, "by a text, too"


@pytest.mark.parametrize("edge", sorted(BACK))
def test_what_closes_a_circle_still_does(edge):
    assert circle(BACK - {edge}) is not None


def test_the_face_asks_engines_for_what_they_show_their_users():
    inner = {name for name in modules() if "." in name and not name.startswith("compile_api.")}
    of_the_face = [found for name, found in imports().items() if name.partition(".")[0] == "compile_api"]
    assert not inner & set().union(*of_the_face), "ask the engine for it by what its package itself exports"


# -- state of modules -------------------------------------------------------------------------------------------------

TABLES = """
    aotgrad.recording.custom_ops._ORIGINALS aotgrad.decompositions.registry.OWN aotgrad.pre_autograd.rules.RULES
    capture.evaluator.builtin_rules.registry.PURE capture.evaluator.builtin_rules.registry.RULES
    capture.evaluator.builtin_rules.dynamic_floats._RULES capture.evaluator.opcodes.registry.HANDLERS
    capture.evaluator.wrap_rules.RULES capture.operators.definitions._DEFINED
    capture.operators.dynamic_sizes.symint_operators._DEFINITIONS capture.operators.dynamic_sizes.programs.PROGRAMS
    capture.operators.dynamic_sizes.programs.PROGRAMS_OF_NUMBERS capture.recording.refusals._DOUBTS
    capture.writing.writer._BUILDERS capture.writing.writer._REPLAYS
    compile_api.backends._BACKENDS compile_api.runtimes.onnx.model.RULES
    inductor.lowerings.registry.LIBRARY inductor.lowerings.registry.LOWERINGS inductor.lowerings.registry.OF_ANY_SIZE
"""
"""Filled by decorators, or with definitions that hold for good."""

STATE = """
    aotgrad.state.STATE capture.state.PROCESS compile_api.state.STATE cudagraphs.state.STATE inductor.state.STATE
"""
"""What a process has one of: what the user said for good, what is under way in a thread, counters and locks."""

CONSTANTS = """
    capture.evaluator.frame.NULL capture.values.constant.FALSE capture.values.constant.NONE
    capture.values.constant.NOT_IMPLEMENTED capture.values.constant.TRUE capture.values.constant.UNBOUND
"""
"""Objects of classes that are not frozen; nobody writes to these."""

GROWING = {"count", "deque", "defaultdict", "Counter", "Lock", "RLock", "local", "ContextVar", "WeakSet"}
EMPTY = {"dict", "list", "set", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}


def frozen(kind):
    return any("frozen=True" in ast.unparse(each) for each in kind.decorator_list)


def can_change(value, own_classes):
    """Whether a module's variable holds what is there to be written to: an empty container, a counter, a lock, or an
    object of a class of the same module that is not frozen."""
    if not isinstance(value, ast.Call):
        return ast.unparse(value) in ("{}", "[]")
    name = ast.unparse(value.func).rpartition(".")[2]
    return name in GROWING or (name in EMPTY and not value.args) or (name in own_classes)


def state(tree):
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef) and not frozen(node)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and can_change(node.value, classes):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield ast.unparse(target)
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


@pytest.mark.parametrize(
    "text", ["X = {}", "X: set[int] = set()", "import threading\nX = threading.local()", "class A: ...\nX = A()",
             "def f():\n    global X\n    X = 1"],
)  # fmt: skip
def test_state_is_seen(text):
    assert list(state(ast.parse(text))) == ["X"]


def test_modules_hold_no_state_but_what_is_listed():
    """Caches of functions are not counted: what they keep is what the function would answer."""
    found = {f"{name}.{each}" for name, tree in modules().items() for each in state(tree)}
    listed = {*TABLES.split(), *STATE.split(), *CONSTANTS.split()}
    assert not found - listed, "a new one: pass it as an argument instead"
    assert not listed - found, "gone: take it off the list"


# -- Any --------------------------------------------------------------------------------------------------------------

ANY = """
    aotgrad 87, aotgrad.autograd_graph 25, aotgrad.backward 85, aotgrad.calling 20, aotgrad.decompositions 6,
    aotgrad.partitioning 13, aotgrad.pre_autograd 93, aotgrad.recording 62, aotgrad.recurrent 30, aotgrad.stacks 7,
    aotgrad.tensors 35, aotgrad.tracing 27, capture 28, capture.bytecode 8, capture.entry 32, capture.evaluator 146,
    capture.guards 38, capture.operators 62, capture.recording 59, capture.stored 11, capture.values 70,
    capture.writing 15,
    compile_api 243, compile_api.commands 4, compile_api.importing 33, compile_api.runtimes 51, cudagraphs 87,
    inductor 116, inductor.codegen 9, inductor.lowerings 128, inductor.rewrites 14, inductor.runtime 4,
    inductor.schedule 3, inductor.stored 21,
"""
"""How often each room says ``Any``, which switches the checks of types off: to become less."""


def room_of(module):
    """The folder that a module is in; of those in none the package."""
    names = module.split(".")
    return ".".join(names[:2]) if ".".join(names[:2]) in rooms() else names[0]


@functools.cache
def rooms():
    inner = {name.rpartition(".")[0] for name in modules()}
    return {name for name in inner if name.count(".") == 1}


def says_any(tree):
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))


def test_any_is_said_as_often_as_is_listed():
    planted = "from typing import Any\ndef f(x: Any, *y: list[Any]) -> object: ..."
    assert says_any(ast.parse(planted)) == 2
    found = Counter()
    for name, tree in modules().items():
        found[room_of(name)] += says_any(tree)
    listed = {room: int(count) for room, count in re.findall(r"(\S+) (\d+),", ANY)}
    more = {room: count for room, count in found.items() if count > listed.get(room, 0)}
    assert not more, "say what is known of it: a class, a protocol, a type variable, or `object` where nothing is"
    assert not {room: found[room] for room in listed if found[room] < listed[room]}, "less: lower the number"


# -- reasons ----------------------------------------------------------------------------------------------------------


def kinds_as_texts(tree):
    """Calls like ``ctx.stop("size", ...)`` and ``Reason("size", ...)``."""
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) and node.args else ""
        if re.search(r"(\.stop|\bReason)$", called) and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
            yield ast.unparse(node)


def test_reasons_have_a_kind_and_not_its_text():
    planted = "ctx.stop('size', 'it varies'); Reason(f'{x}', ''); ctx.stop(Kind.SIZE, 'it varies')"
    assert len(list(kinds_as_texts(ast.parse(planted)))) == 2
    assert [(name, text) for name, tree in modules().items() for text in kinds_as_texts(tree)] == []


# -- questions ---------------------------------------------------------------------------------------------------------

ANSWERS = re.findall(r"^\| .+ \| `(packages/.+\.py)` \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("answer", ANSWERS)
def test_where_something_is_decided_is_found_in_the_packages_page(answer):
    path = ROOT / answer
    assert path.is_file()
    page = (ROOT / Path(*path.relative_to(ROOT).parts[:2]) / "README.md").read_text()
    assert re.search(rf"\b{path.stem}\b", page), "its README does not name it"


def test_there_are_ten_questions():
    assert len(ANSWERS) == 10


# -- releases, long runs, merges --------------------------------------------------------------------------------------


def release_check(*arguments):
    command = [sys.executable, ROOT / "tests/tools/release.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_versions_changelogs_and_ranges_agree():
    checked = release_check()
    assert checked.returncode == 0, checked.stdout


def test_a_release_without_its_wheels_is_refused(tmp_path):
    checked = release_check(tmp_path)
    assert "capture: no wheel compile_api_capture-" in checked.stdout
    assert checked.returncode == 1


def test_a_long_run_tells_how_far_it_is(tmp_path):
    (tmp_path / "conftest.py").write_text(
        (ROOT / "conftest.py").read_text().replace("seconds: float = 30.0", "seconds: float = 0")
    )
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    assert "1 tests done, 0 failed" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_no_file_holds_what_a_merge_left_behind():
    """Wherever one stands: a document is not compiled, so nothing else would say so."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # a source archive: git is not here to say which files are ours
        names = [str(path) for path in ROOT.rglob("*.md")]
    else:
        names = [name for name in listed.stdout.split("\0") if name]
    marker = re.compile(rb"^(<{7} |>{7} |\|{7} |={7}$)", re.MULTILINE)
    assert names
    for path in (ROOT / name for name in names):
        if path.is_file():
            found = marker.search(path.read_bytes())
            assert found is None, f"{path} holds {found[0]!r} of a merge"
