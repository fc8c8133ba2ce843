"""The rules of the house are checked by tools; these tests check the tools."""

import ast
import functools
import graphlib
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import tokenize
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


FOLDERS = ("packages", "tests", "search", "corpus", "benchmarks", "examples")
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def sources():
    """The text of every Python file that is written by hand, by its path: packages, tests and tools."""
    paths = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def too_long(lines_of, most):
    return {name: lines for name, lines in lines_of.items() if lines > most}


def test_modules_stay_small():
    assert len(sources()) > 1000
    assert {"noxfile.py", "conftest.py", "tests/conftest.py", "corpus/runner.py"} <= sources().keys()
    lines = {path: text.count("\n") for path, text in sources().items()}
    assert too_long(lines, 550), "the rule sees modules"
    assert not too_long(lines, 600), "split them by subject"


def lines_of_functions(path, text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, FUNCTIONS):
            yield f"{path}:{node.lineno}:{node.name}", node.end_lineno - node.lineno + 1


def test_functions_stay_small():
    lines = dict(each for path, text in sources().items() for each in lines_of_functions(path, text))
    for folder in FOLDERS[:-1]:
        assert too_long({name: count for name, count in lines.items() if name.startswith(folder)}, 20), "it is seen"
    assert not too_long(lines, 50), "what one does is more than one thing"
    assert dict(lines_of_functions("a.py", "def f():\n    def g():\n        pass\n")) == {"a.py:1:f": 3, "a.py:2:g": 2}


# -- imports ----------------------------------------------------------------------------------------------------------


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


def circle(graph):
    """A circle of imports, if there is one."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def test_no_imports_in_a_circle():
    assert circle(imports()) is None
    closed = {**imports(), "capture.guards.layouts": {"capture.guards.conditions"}}
    assert circle({**closed, "capture.guards.conditions": {"capture.guards.layouts"}}), "one is seen"


@pytest.mark.parametrize(
    "text", ["from capture.entry import hook", "from ..entry.hook import translate_frame",
             "def f():\n    import capture.entry.hook", "import_module('capture.entry.hook')"],
)  # fmt: skip
def test_imports_are_seen_inside_of_functions_and_as_texts(text):
    assert "capture.entry.hook" in imported("capture.guards.guard", ast.parse(text))


# -- calls in C -------------------------------------------------------------------------------------------------------


def calls_between(texts):
    """Of each file of C the other ones whose functions it names; what a file keeps to itself is `static`."""
    bare = {name: re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', " ", text, flags=re.DOTALL) for name, text in texts.items()}
    given = re.compile(r"^(?!static\b)[\w *]+\n(\w+)\([^;{]*\)\s*\n\{", re.MULTILINE)
    home = {function: name for name, text in bare.items() for function in given.findall(text)}
    return {
        name: {home[word] for word in re.findall(r"\w+", text) if word in home} - {name} for name, text in bare.items()
    }


def test_no_calls_in_a_circle_in_the_engine():
    two = {"a.c": "int\nf(void)\n{\n    return 1;\n}\n", "b.c": "static int\ng(void)\n{\n    return f();\n}\n"}
    assert calls_between(two) == {"a.c": set(), "b.c": {"a.c"}}
    closed = {"a.c": two["a.c"].replace("1", "g()"), "b.c": two["b.c"].replace("static ", "")}
    assert circle(calls_between(closed)), "one is seen"
    texts = {path.name: path.read_text() for path in ROOT.glob("packages/capture/csrc/*.c")}
    assert "walk.c" in calls_between(texts)["cache.c"]
    assert circle(calls_between(texts)) is None


# -- rooms ------------------------------------------------------------------------------------------------------------


def page(package):
    return (ROOT / "packages" / package.replace("_", "-") / "README.md").read_text()


def rows(text):
    """The first cells of a table."""
    return [[name] for name in re.findall(r"^\| `(\w+)/?` \|", text, re.MULTILINE)]


def lines(text):
    """Names at the beginnings of lines, each for itself."""
    heads = re.findall(r"^\w.*?(?=\s{2}|$)", text, re.MULTILINE)
    return [[name] for head in heads for name in re.findall(r"(\w+)", re.sub(r"\.py|/", "", head))]


LAYERS = {
    # Modules in no room stand below all rooms, whose table says which may not import which.
    "capture": [
        *[re.findall(r"`(\w+)`", re.search(r"^\| \(none\) \| (.*) \|$", page("capture"), re.MULTILINE)[1])],
        *rows(page("capture").split("## Rooms")[1]),
    ],
    "aotgrad": lines(re.search(r"The list:\n\n```\n(.*?)```", page("aotgrad"), re.DOTALL)[1]),
    "inductor": lines(re.search(r"## Layers\n.*?```\n(.*?)```", page("inductor"), re.DOTALL)[1]),
    "cudagraphs": rows(page("cudagraphs").split("## Layers")[1]),
    "compile_api": [*rows(page("compile_api").split("## Layers")[1]), ["commands"], ["__main__"]],
}
"""Modules and folders of a package, those first that all others may import: as its README lists them."""


def layer_of(module):
    """Its place in the list; of the package itself, which is what it exports, one above all."""
    package, _, inner = module.partition(".")
    places = [place for place, names in enumerate(LAYERS[package]) if inner.partition(".")[0] in names]
    assert places or not inner, f"the README of {package} does not list {inner}"
    return places[0] if places else len(LAYERS[package])


def upwards(edges):
    """Those from a module to one of its package that stands above it; the face's commands alone are its users, too."""
    for module, other in edges:
        package, _, inner = module.partition(".")
        within = inner and other.partition(".")[0] == package
        asks_the_face = other == "compile_api" and layer_of(module) >= layer_of("compile_api.commands")
        if within and layer_of(other) > layer_of(module) and not asks_the_face:
            yield module, other


def test_rooms_import_from_rooms_below():
    edges = [(module, other) for module, found in imports().items() for other in found]
    assert list(upwards(edges)) == []


@pytest.mark.parametrize(
    "edge", [("capture.guards.guard", "capture.entry.hook"), ("aotgrad.tensors.views", "aotgrad.tracing.joint"),
             ("inductor.ir.expr", "inductor.lower"), ("cudagraphs.node", "cudagraphs.manager"),
             ("compile_api.options", "compile_api.wiring"), ("capture.log", "capture.values.base"),
             ("capture.values.base", "capture")],
)  # fmt: skip
def test_an_import_from_a_room_above_is_seen(edge):
    assert list(upwards([edge])) == [edge]


def crossing(edges):
    """Imports from engine to engine, and from an engine of the face."""
    for module, other in edges:
        package, another = module.partition(".")[0], other.partition(".")[0]
        if package not in (another, "compile_api"):
            yield module, other


def test_engines_import_neither_one_another_nor_the_face():
    assert list(crossing((module, other) for module, found in imports().items() for other in found)) == []
    assert list(crossing([("capture.log", "inductor"), ("aotgrad.api", "compile_api.options")]))


def test_the_face_asks_engines_for_what_they_show_their_users():
    inner = {name for name in modules() if "." in name and not name.startswith("compile_api.")}
    of_the_face = [found for name, found in imports().items() if name.partition(".")[0] == "compile_api"]
    assert not inner & set().union(*of_the_face), "ask the engine for it by what its package itself exports"


# -- state of modules -------------------------------------------------------------------------------------------------

TABLES = """
    aotgrad.decompositions.registry.OWN aotgrad.pre_autograd.rules.RULES
    aotgrad.recording.own_functions._HAVING_PROGRAMS_RUN
    capture.evaluator.builtin_rules.registry.PURE capture.evaluator.builtin_rules.registry.RULES
    capture.evaluator.builtin_rules.dynamic_floats._RULES capture.evaluator.opcodes.registry.HANDLERS
    capture.evaluator.wrap_rules.RULES
    capture.operators.dynamic_sizes.symint_operators._DEFINITIONS capture.operators.dynamic_sizes.programs.PROGRAMS
    capture.operators.dynamic_sizes.programs.PROGRAMS_OF_NUMBERS capture.recording.refusals._DOUBTS
    capture.writing.writer._BUILDERS capture.writing.writer._REPLAYS
    compile_api.backends._BUILT_IN compile_api.runtimes.onnx.model.RULES
    inductor.lowerings.registry.LIBRARY inductor.lowerings.registry.LOWERINGS inductor.lowerings.registry.OF_ANY_SIZE
"""
"""Filled by decorators, where a module is imported."""

STATE = """
    aotgrad.state.STATE capture.state.PROCESS compile_api.state.STATE cudagraphs.state.STATE inductor.state.STATE
"""
"""What a process has one of: what the user said for good, what is under way in a thread, counters and locks."""

CONSTANTS = """
    capture.evaluator.frame.NULL capture.values.constant.FALSE capture.values.constant.NONE
    capture.values.constant.NOT_IMPLEMENTED capture.values.constant.TRUE capture.values.constant.UNBOUND
    capture.evaluator.builtin_rules.factors._DOUBLE capture.evaluator.builtin_rules.locks._NO_LIMIT
    capture.evaluator.builtin_rules.locks._ONE capture.evaluator.builtin_rules.positions._ALL
    capture.evaluator.builtin_rules.positions._REST capture.evaluator.opcodes.containers._ABSENT
    compile_api.options.MODES
"""
"""Objects of classes that are not frozen; nobody writes to these."""

LENT = {
    "aotgrad.torch_versions.INSIDES", "capture.torch_versions.INSIDES", "compile_api.torch_versions.INSIDES",
    "cudagraphs.torch_versions.INSIDES", "inductor.torch_versions.INSIDES",  # rows are found when they are asked for
    *("capture.graph_modules._TEXTS", "aotgrad.graph_modules._TEXTS"),  # torch's own
}  # fmt: skip

GROWING = {"count", "deque", "defaultdict", "Counter", "Lock", "RLock", "local", "ContextVar", "WeakSet"}
EMPTY = {"dict", "list", "set", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary"}
WRITING = {"append", "add", "update", "pop", "popitem", "clear", "setdefault", "extend", "insert", "remove", "discard"}
HOLDS_FOR_GOOD = re.compile(r"frozen=True|_path|\b(NamedTuple|\w*Enum|Protocol|\w*(Error|Warning|Source))\b")


@functools.cache
def classes_that_change():
    """Of all modules, by name, those whose objects can be written to."""
    kinds = [node for tree in modules().values() for node in tree.body if isinstance(node, ast.ClassDef)]
    said = [(kind.name, " ".join(map(ast.unparse, [*kind.decorator_list, *kind.bases]))) for kind in kinds]
    return {name for name, words in said if not HOLDS_FOR_GOOD.search(words)}


def parts(value):
    """What a variable holds: the items of a tuple, list or dict that is written out, each for itself."""
    if isinstance(value, ast.Tuple | ast.List | ast.Set) and value.elts:
        return [part for item in value.elts for part in parts(item)]
    return [part for item in value.values for part in parts(item)] if getattr(value, "values", ()) else [value]


def can_change(value):
    """Whether it is there to be written to: an empty container, a counter, a lock, or an object of a class of ours that
    is not frozen."""
    if not isinstance(value, ast.Call):
        return ast.unparse(value) in ("{}", "[]")
    name = ast.unparse(value.func).rpartition(".")[2]
    return name in GROWING or (name in EMPTY and not value.args) or name in classes_that_change()


def assigned(body):
    """Each variable of a module or a class with its value, wherever at the top it is given one."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((ast.unparse(name), node.value) for name in names)
        if isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{name}", value)
                for name, value in assigned(node.body)
                if "field(" not in ast.unparse(value)
            )
        elif not isinstance(node, FUNCTIONS):
            for inner in ("body", "orelse", "handlers", "finalbody"):
                yield from assigned(getattr(node, inner, ()))


def written(function):
    """Names to which, or within which, a function writes, its own variables left out."""
    own = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(function):
        into = isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
        calls = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITING
        place = node.func if calls else node if into else None
        while isinstance(place, ast.Subscript | ast.Attribute):
            place = place.value
        if isinstance(place, ast.Name) and place.id not in own:
            yield place.id


def state(tree):
    held = dict(assigned(tree.body))
    yield from (name for name, value in held.items() if any(can_change(part) for part in parts(value)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, FUNCTIONS):
            yield from held.keys() & set(written(node))


@pytest.mark.parametrize(
    "text", ["X = {}", "X: set[int] = set()", "import threading\nX = threading.local()", "X = Log()", "X = (1, [])",
             "def f():\n    global X\n    X = 1", "if True:\n    X = []", "X = {0: 1}\ndef f(k):\n    X[k] = 2",
             "X = [1]\ndef f():\n    X.append(2)", "X = str\ndef f():\n    X.seen = True", "X = {0: []}"],
)  # fmt: skip
def test_state_is_seen(text):
    assert set(state(ast.parse(text))) == {"X"}


def test_state_of_classes_is_seen():
    assert list(state(ast.parse("class A:\n    seen = []"))) == ["A.seen"]


def test_modules_hold_no_state_but_what_is_listed():
    """Caches of functions are not counted: what they keep is what the function would answer."""
    found = {f"{name}.{each}" for name, tree in modules().items() for each in state(tree)}
    listed = {*TABLES.split(), *STATE.split(), *CONSTANTS.split(), *LENT}
    assert not found - listed, "a new one: pass it as an argument instead"
    assert not listed - found, "gone: take it off the list"


# -- Any --------------------------------------------------------------------------------------------------------------

ANY = """
    aotgrad 85, aotgrad.autograd_graph 24, aotgrad.backward 85, aotgrad.calling 20, aotgrad.decompositions 6,
    aotgrad.partitioning 13, aotgrad.pre_autograd 90, aotgrad.recording 77, aotgrad.recurrent 30, aotgrad.stacks 7,
    aotgrad.stored 23, aotgrad.tensors 38, aotgrad.tracing 26, capture 28, capture.bytecode 8, capture.entry 32,
    capture.evaluator 144, capture.guards 36, capture.operators 62, capture.recording 64, capture.stored 11,
    capture.values 68, capture.writing 15,
    compile_api 242, compile_api.commands 4, compile_api.importing 33, compile_api.runtimes 51, cudagraphs 87,
    inductor 122, inductor.codegen 9, inductor.lowerings 127, inductor.rewrites 7, inductor.runtime 4,
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
    return sum("Any" in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in ast.walk(tree))


def test_any_is_said_as_often_as_is_listed():
    planted = "from typing import Any\ndef f(x: Any, *y: list[typing.Any]) -> object: ..."
    assert says_any(ast.parse(planted)) == 2
    found = Counter()
    for name, tree in modules().items():
        found[room_of(name)] += says_any(tree)
    listed = {room: int(count) for room, count in re.findall(r"(\S+) (\d+),", ANY)}
    more = {room: count for room, count in found.items() if count > listed.get(room, 0)}
    assert not more, "say what is known of it: a class, a protocol, a type variable, or `object` where nothing is"
    assert not {room: found[room] for room in listed if found[room] < listed[room]}, "less: lower the number"


# -- reasons ----------------------------------------------------------------------------------------------------------


def is_text(node):
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def kinds_as_texts(tree):
    """Like ``ctx.stop("size", ...)`` and ``Reason("size", ...)``, and questions like ``reason.kind == "size"``."""
    for node in ast.walk(tree):
        asked = ast.unparse(node.left) if isinstance(node, ast.Compare) else ""
        if re.search(r"\breason\.kind$", asked) and any(map(is_text, node.comparators)):
            yield ast.unparse(node)
        called = ast.unparse(node.func) if isinstance(node, ast.Call) and node.args else ""
        if re.search(r"(\.stop|\bReason)$", called) and is_text(node.args[0]):
            yield ast.unparse(node)


def test_reasons_have_a_kind_and_not_its_text():
    planted = (
        "ctx.stop('size', 'it varies'); Reason(f'{x}', ''); ctx.stop(Kind.SIZE, 'it varies'); reason.kind == 'size'"
    )
    assert len(list(kinds_as_texts(ast.parse(planted)))) == 3
    assert [(name, text) for name, tree in modules().items() for text in kinds_as_texts(tree)] == []


# -- errors -----------------------------------------------------------------------------------------------------------


def broad_without_a_reason(text):
    """Lines of handlers that take every exception, and do not say why: on their line, before it, or below it."""
    lines = ["", *text.splitlines(), ""]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler):
            said = re.sub(r"# noqa: [A-Z0-9, ]+$", "", lines[node.lineno])
            around = [lines[line].lstrip()[:1] for line in (node.lineno - 1, node.lineno + 1)]
            taken = "BaseException" if node.type is None else ast.unparse(node.type)
            if re.search(r"\b(Base)?Exception\b", taken) and "#" not in {*said, *around}:
                yield node.lineno


@pytest.mark.parametrize("kind", ["Exception", "BaseException as error", "(ValueError, Exception)", ""])
def test_a_handler_of_every_exception_is_seen(kind):
    planted = f"try:\n    f()\nexcept {kind}:  # noqa: BLE001\n    pass\n".replace("except :", "except:")
    assert list(broad_without_a_reason(planted)) == [3]
    assert not list(broad_without_a_reason(planted.replace("BLE001", "BLE001 - whatever it is")))
    assert not list(broad_without_a_reason(planted.replace("    pass", "    # whatever it is\n    pass")))


def test_whoever_takes_every_exception_says_why():
    sources = {path: path.read_text() for path in ROOT.glob("packages/*/src/**/*.py")}
    assert {str(path): found for path, text in sources.items() if (found := [*broad_without_a_reason(text)])} == {}


# -- questions ---------------------------------------------------------------------------------------------------------

QUESTIONS = (ROOT / "CONTRIBUTING.md").read_text()
ANSWERS = re.findall(r"^\| .+ \| `packages/[\w-]+/src/(.+)\.py` \| `(\w+)` \|$", QUESTIONS, re.MULTILINE)


@pytest.mark.parametrize(("path", "name"), ANSWERS)
def test_where_something_is_decided_is_found_in_the_packages_page(path, name):
    module = path.replace("/", ".")
    package, stem = module.partition(".")[0], module.rpartition(".")[2]
    assert name in {*defined(modules()[module])}, "it decides nothing by that name"
    assert re.search(rf"\b{stem}\b", page(package)), "its README does not name it"


def defined(tree):
    for node in tree.body:
        yield from [node.name] if isinstance(node, FUNCTIONS | ast.ClassDef) else dict(assigned([node]))


def test_there_are_ten_questions():
    assert len(ANSWERS) == 10


# -- drawings ---------------------------------------------------------------------------------------------------------


def files_named(text):
    """Python files that a page names, with the folder where it says one."""
    return set(re.findall(r"(?<![\w/.-])\w[\w/]*\.py\b", text))


@pytest.mark.parametrize("package", LAYERS)
def test_a_packages_page_names_files_that_are_there(package):
    assert files_named("a.py, b/c.py ── d.py; not packages/compile-api/x.py") == {"a.py", "b/c.py", "d.py"}
    folder = ROOT / "packages" / package.replace("_", "-")
    here = [f"/{path.relative_to(folder)}" for path in folder.rglob("*.py")]
    here += [f"/{path}" for path in sources()]  # of the whole repository
    gone = {name for name in files_named(page(package)) if not any(path.endswith(f"/{name}") for path in here)}
    assert gone == set()


# -- what is said of the code -----------------------------------------------------------------------------------------


def said_and_lines(text):
    """Lines of comments and docstrings, and all lines but those of tables: what a module assigns at its top."""
    tree = ast.parse(text)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and is_text(node.value)]
    tables = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
    said, held = (
        {line for node in nodes for line in range(node.lineno, node.end_lineno + 1)} for nodes in (texts, tables)
    )
    written = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    return len(said | comments), len(written - (held - comments))


@pytest.mark.parametrize("folder", ["packages/*/src", "search", "corpus", "benchmarks"])
def test_a_seventh_of_what_is_written_says_why(folder):
    assert said_and_lines('"""A."""\nX = [\n 1]\n\ndef f():\n    # why\n    return 1') == (2, 4)
    for place in ROOT.glob(folder):
        counts = [said_and_lines(path.read_text()) for path in place.rglob("*.py")]
        said, written = map(sum, zip(*counts, strict=True))
        assert 0.15 <= said / written <= 0.25, f"{place}: {said} of {written} lines"


DOCUMENTED = ast.Module | ast.ClassDef | FUNCTIONS


def no_first_lines(tree):
    """First lines of docstrings that ask, or begin with what one would have to know already."""
    for node in ast.walk(tree):
        said = (ast.get_docstring(node) or "") if isinstance(node, DOCUMENTED) else ""
        if re.match(r"(What|Which|Where|How|Whether|The same)\b", said):
            yield said.splitlines()[0]


def test_a_first_line_says_what_the_thing_is():
    planted = ast.parse(
        '"""How."""\nclass A:\n    """What.\n\n    Else."""\n    def f():\n        """The same, tidied."""\n'
    )
    assert [*no_first_lines(planted)] == ["How.", "What.", "The same, tidied."]
    assert not [*no_first_lines(ast.parse('def f():\n    """Whatever it is.  The same."""'))]
    assert [(name, line) for name, tree in modules().items() for line in no_first_lines(tree)] == []


# -- tests ------------------------------------------------------------------------------------------------------------


def twice(names):
    """Numbers that more than one of these files has."""
    return {number for number, count in Counter(numbers(names)).items() if count > 1}


def numbers(names):
    return re.findall(r"^test_(\d+)_", "\n".join(names), re.MULTILINE)


def is_in_order(names):
    """True if the files are listed, by their names, in the order of their numbers."""
    listed = [int(number) for number in numbers(sorted(names))]
    return listed == sorted(listed)


@pytest.mark.parametrize("folder", ["tests", "packages/aotgrad/tests", "packages/capture/tests"])
def test_a_tour_has_one_place_for_each_number(folder):
    assert twice(["test_01_a.py", "test_02_b.py", "test_02_c.py", "test_100_d.py", "test_100_e.py"]) == {"02", "100"}
    assert not is_in_order(["test_10_a.py", "test_11_b.py", "test_100_c.py"])
    names = [path.name for path in (ROOT / folder).glob("test_*.py")]
    assert not twice(names)
    assert is_in_order(names), "there are two digits: what is one more belongs to a subject that has a file"
