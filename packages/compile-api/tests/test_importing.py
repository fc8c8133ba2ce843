"""The peer is imported when it is used and not before; each case needs a process of its own."""

import ast
import importlib
import inspect
import sys
import textwrap

import pytest
import torch
import torch._refs

from compile_api.importing.sizes import ANSWERS, NAME


@pytest.fixture(scope="session")
def prints(python):
    def run(program):
        done = python("-c", textwrap.dedent(program))
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    return run


def test_compiling_does_not_import_the_peer(prints):
    program = """
        import sys, torch, compile_api
        f = compile_api.compile(lambda x: torch.sin(x) + 1, backend="aot_eager", options={"strict": True})
        f(torch.ones(3))
        print("torch._dynamo.symbolic_convert" in sys.modules, compile_api.importing.is_waiting("torch._dynamo"))
    """
    assert prints(program) == ["False", "True"]


OVER_KNOWN_SIZES = """
import torch, compile_api
from torch.nn import functional as F

statistics = lambda: (torch.zeros(4), torch.ones(4))
FUNCTIONS = [
    lambda a: F.layer_norm(a, (6,), torch.ones(6), torch.zeros(6)),
    lambda a: F.rms_norm(a, (6,)),
    lambda a: F.group_norm(a, 2),
    lambda a: F.batch_norm(a, *statistics()),
    lambda a: F.batch_norm(a, *statistics(), training=True),
    lambda a: F.instance_norm(a),
    lambda a: F.local_response_norm(a, 2),
    lambda a: F.normalize(a, dim=-1),
    lambda a: a.softmax(-1) + a.log_softmax(1),
    lambda a: a.sum((1, 2)) + a.mean() + a.prod(-1).sum(1),
    lambda a: a.var(-1) + a.std(-1) + torch.std_mean(a, -1)[0],
    lambda a: a.amax(-1) + a.max(-1).values + a.median(-1).values,
    lambda a: a.logsumexp(-1) + torch.linalg.vector_norm(a, dim=-1),
    lambda a: a.cumsum(-1) + a.sort(-1).values,
    lambda a: a * (a > 0).any() + a.argmax(-1, keepdim=True),
    lambda a: F.cross_entropy(a.flatten(0, 1), torch.zeros(8, dtype=torch.long)) + F.mse_loss(a, torch.zeros(2, 4, 6)),
    lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None], is_causal=True),
    lambda a: F.max_pool1d(F.conv1d(a, torch.ones(3, 4, 3)), 2),
    lambda a: F.dropout(F.gelu(a)) + F.embedding(torch.zeros(2, 4, dtype=torch.long), torch.ones(3, 6)),
]
for function in FUNCTIONS[: COUNT]:
    compile_api.compile(function, backend=BACKEND)(torch.randn(2, 4, 6, requires_grad=True)).sum().backward()
print(*(compile_api.importing.is_waiting(name) for name in ("torch._dynamo", "sympy")))
"""


@pytest.mark.parametrize(("backend", "count"), [("eager", 19), ("aot_eager", 19), ("inductor", 4)])
def test_no_known_size_waits_for_sympy_or_the_peer(backend, count, prints):
    program = OVER_KNOWN_SIZES.replace("BACKEND", repr(backend)).replace("COUNT", str(count))
    assert prints(program) == ["True", "True"]


@pytest.mark.parametrize(
    "use",
    [
        "torch._dynamo.list_backends()",
        "from torch._dynamo import list_backends",
        "import torch._dynamo as d; d.reset()",
        "from torch._dynamo.utils import counters",
        "import torch._dynamo.testing, torch._dynamo.debug_utils",  # which the package itself does not import
        "import torch._inductor.config; assert torch._inductor.config.__spec__.origin",
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))",
    ],
)
def test_the_peer_is_whole_when_it_is_used(use, prints):
    program = f"""
        import sys, torch, compile_api
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
        {use}
        print(compile_api.importing.is_waiting("torch._dynamo"), "torch._dynamo.symbolic_convert" in sys.modules)
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
    """
    assert prints(program) == ["False", "True"]


USES_NONE_OF_IT = """
import torch, torch.utils.checkpoint
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.AdamW(net.parameters())
net(torch.ones(4, 3)).sum().backward()
optimizer.step()
x = torch.ones(2, requires_grad=True)
torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
print(net.weight, x.grad, torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))(torch.ones(2, 3)))
with FakeTensorMode():
    y = torch.ones(2, 3) + torch.ones(3)
    print(y, y.expand(4, 2, 3).stride(), (y.int() * 2.5).dtype, torch.cat([y, y]).shape, y.reshape(-1).shape)
    try:
        torch.ones(2) + torch.ones(3)
    except RuntimeError as error:
        print(error)
print(make_fx(lambda x: torch.nn.functional.gelu(x.view(-1)), tracing_mode="fake")(torch.ones(2, 2)).code)
"""
USES_ALL_OF_IT = """
import pickle, torch, torch.distributed
from torch.fx.experimental.proxy_tensor import make_fx

x, y = torch.ones(3, 4), torch.ones(5, 4)
traced = make_fx(lambda x, y: torch.cat([x, y]) * x.shape[0], tracing_mode="symbolic")(x, y)
print(traced.code, traced.shape_env.guards, traced.shape_env.replacements)
import sympy, torch._inductor.config
print(sympy.Symbol("s") + 1, isinstance(1, sympy.Basic), type(sympy), torch._inductor.config.max_autotune)
print(torch.compile(lambda x: (x * 2 + x.shape[0]).tolist(), backend="eager", dynamic=True)(torch.ones(3)))
net = torch.compile(torch.nn.Linear(2, 2), backend="eager")
print(isinstance(net, torch._dynamo.OptimizedModule), isinstance(3, torch._dynamo.OptimizedModule), type(net))
print(type(torch._dynamo), torch._dynamo.__spec__.name, torch._dynamo.__doc__, pickle.dumps(torch._dynamo.explain))
print(sorted(each for each in vars(torch._dynamo) if not each.startswith("_")), dir(torch._dynamo.source))
print(torch.fx.experimental.validator.translation_validation_enabled(), torch._dynamo.list_backends())
"""


@pytest.mark.parametrize("program", [USES_NONE_OF_IT, USES_ALL_OF_IT], ids=["none of it", "all of it"])
def test_torch_behaves_as_without_us(program, prints):
    alone = prints(program)
    assert prints(f"import compile_api\n{program}") == alone
    assert len(alone) > 20


def test_a_peer_already_imported_is_left_as_it_is(prints):
    assert prints("import torch._dynamo as d; import compile_api; print(type(d).__name__)") == ["module"]


def test_small_programs_wait_neither_for_sympy_nor_for_the_peer(prints):
    program = """
        import sys, torch, compile_api
        x = torch.ones(3, requires_grad=True)
        compile_api.compile(lambda x: (x * 2).sigmoid().sum())(x).backward()
        print(*(compile_api.importing.is_waiting(name) for name in ("torch._dynamo", "sympy")))
    """
    assert prints(program) == ["True", "True"]


@pytest.mark.parametrize(
    "use",
    [
        "import sympy; assert sympy.Symbol('s').is_Symbol",
        "import sympy; assert not isinstance(1, sympy.Basic)",
        "from torch.fx.experimental.symbolic_shapes import guard_or_true",
        "compile_api.compile(lambda x: x * x.shape[0], dynamic=True)(torch.ones(3))",
    ],
)
def test_symbols_are_there_when_they_are_used(use, prints):
    program = f"""
        import sys, torch, compile_api
        {use}
        print(compile_api.importing.is_waiting("sympy"), sys.modules["torch.fx.experimental.symbolic_shapes"].__name__)
    """
    assert prints(program) == ["False", "torch.fx.experimental.symbolic_shapes"]


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without distributed tensors")
def test_nothing_is_a_distributed_tensor_until_there_are_some(prints):
    program = """
        import sys, torch, compile_api
        compile_api.compile(torch.nn.functional.gelu)(torch.ones(3, dtype=torch.bfloat16))
        attend = compile_api.compile(lambda x: (x.softmax(-1) @ x.t()).sum())
        attend(torch.ones(3, 4, requires_grad=True)).backward()
        print(compile_api.importing.is_waiting("torch.distributed.tensor"))

        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
        spread = distribute_tensor(torch.ones(4, 2), init_device_mesh("cpu", (1,)), [Shard(0)])
        product = (spread @ spread.t()).relu()
        print(type(product) is DTensor, product.placements == (Shard(0),), int(product.full_tensor().sum()))
        torch.distributed.destroy_process_group()
    """
    assert prints(program) == ["True", "True", "True", "32"]


TENSOR = torch.ones(2, 3)
PLAIN = [
    *((name, (value,)) for name in ("guard_or_true", "guard_or_false", "statically_known_true", "expect_true")
      for value in (True, False)),
    *((name, values) for name in ("sym_and", "sym_or") for values in ((True,), (True, False), (False, False, True))),
    ("sym_eq", (2, 2)), ("sym_eq", (2, 3)), ("sym_eq", ((1, 2), [1, 2])), ("sym_eq", ([1], [1, 2])),
    ("guarding_hint_or_throw", (3,)), ("guard_int", (3,)), ("has_free_symbols", (TENSOR,)),
    ("is_nested_int", (3,)), ("is_symbolic", (3,)), ("has_guarding_hint", (3,)),
    ("compute_unbacked_bindings", (None, TENSOR)), ("has_free_unbacked_symbols", (TENSOR,)),
    ("free_unbacked_symbols", ((TENSOR, 3),)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values"), PLAIN)
def test_plain_numbers_have_the_answers_that_torch_gives(name, values):
    shapes = importlib.import_module("torch.fx.experimental.symbolic_shapes")
    if not hasattr(shapes, name):
        pytest.skip(f"this release of torch has no {name}")
    assert ANSWERS[name](*values) == getattr(shapes, name)(*values)


@pytest.mark.parametrize("name", ["_iterate_exprs", "_iterate_nodes"])
def test_plain_numbers_have_no_symbols_in_them(name):
    real = getattr(importlib.import_module("torch.fx.experimental.symbolic_shapes"), name)
    assert list(ANSWERS[name]([TENSOR, 3])) == list(real([TENSOR, 3])) == []


@pytest.mark.parametrize("rule", ["_broadcast_shapes", "_maybe_broadcast", "expand"])
def test_all_that_rules_of_shapes_ask_has_an_answer(rule):
    """Releases of torch ask by different names; one that is missing costs every first call the import of sympy."""
    tree = ast.parse(inspect.getsource(inspect.unwrap(getattr(torch._refs, rule))))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    asked = {name.name for node in imports if node.module == NAME for name in node.names}
    assert asked <= {*ANSWERS, "GuardOnDataDependentSymNode"}


def test_older_names_have_the_answers_of_newer_ones():
    assert ANSWERS["size_hint"](3, allow_none=True) == ANSWERS["guarding_hint_or_throw"](3)
    assert ANSWERS["has_hint"](3) == ANSWERS["has_guarding_hint"](3)


LOOKS = {
    "its list of names": "exec('from heavy import *', found := {}); assert found['explain'] and found['run']",
    "its names": "assert 'explain' in dir(heavy)",
    "its docstring": "assert heavy.__doc__ == 'Takes long.'",
    "its version": "assert heavy.__version__ == '3'",
    "its source": "import inspect; assert '__all__' in inspect.getsource(heavy)",
    "reloading it": "import importlib; assert importlib.reload(heavy) is heavy and heavy.run(1) == 1",
    "its submodules": "import pkgutil; assert [each.name for each in pkgutil.iter_modules(heavy.__path__)] == ['part']",
    "names it lacks": "assert not hasattr(heavy, 'nothing') and not hasattr(heavy, '__nothing__')",
    "pickling": "import pickle; f = heavy.run; assert pickle.loads(pickle.dumps(f)) is f",
    "patching": "from unittest.mock import patch\nwith patch('heavy.run', 3): assert heavy.run == 3",
    "a submodule": "from heavy.part import small; assert small and heavy.explain",
    "a submodule that it imports itself": """
import heavy.part
assert sys.runs == 1 and heavy.part is sys.modules["heavy.part"] and heavy.explain is heavy.part.small
assert heavy.part.__spec__.name == "heavy.part" and heavy.part.__spec__.loader.path == heavy.part.__file__
""",
    "its type, once it is used": "heavy.explain; assert type(heavy) is type(sys)",
    "its finder, once it is used": "n = len(sys.meta_path); heavy.explain; assert len(sys.meta_path) < n",
    "threads": """
import threading
found = []
threads = [threading.Thread(target=lambda: found.append(heavy.explain)) for _ in range(4)]
code = "from heavy import explain; found.append(explain)"
threads += [threading.Thread(target=lambda: exec(code, {"found": found})) for _ in range(2)]
for each in threads: each.start()
for each in threads: each.join()
assert len(found) == 6
""",
}
HEAVY = """'Takes long.'
__all__ = ["explain", "run"]
__version__ = "3"
import time
time.sleep(0.05)
from heavy.part import small as explain
def run(x): return x
"""


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    """A package whose import is put off."""
    from compile_api.importing.deferred import defer

    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text(HEAVY)
    (tmp_path / "heavy" / "part.py").write_text(
        "import sys; sys.runs = getattr(sys, 'runs', 0) + 1\ndef small(): pass\n"
    )
    monkeypatch.setattr(sys, "runs", 0, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    defer("heavy", {})
    yield sys.modules["heavy"]
    for name in ("heavy", "heavy.part"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("look", LOOKS)
def test_a_deferred_package_is_like_any_other_where_it_is_looked_at(look, heavy):
    exec(LOOKS[look], {"heavy": heavy, "sys": sys})


LOOKS_AT_THE_PEER = [
    "from torch._dynamo import *; assert list_backends and explain and torch._dynamo.__doc__",
    "from torch._dynamo.source import LocalSource; assert torch._dynamo.explain",
    "import sympy, inspect; assert sympy.__version__ and '__all__' in inspect.getsource(torch._dynamo)",
]


@pytest.mark.parametrize("look", LOOKS_AT_THE_PEER)
def test_the_peer_is_like_any_other_package_where_it_is_looked_at(look, prints):
    prints(f"import torch, compile_api\n{look}")


def test_a_load_that_fails_can_be_tried_again(tmp_path, monkeypatch):
    from compile_api.importing.deferred import defer, is_waiting

    (tmp_path / "heavy.py").write_text("import os\nif os.environ.get('BROKEN'): raise ImportError('once')\nvalue = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("BROKEN", "1")
    defer("heavy", {})
    import heavy

    with pytest.raises(ImportError, match="once"):
        heavy.value
    monkeypatch.delenv("BROKEN")
    assert is_waiting("heavy")
    assert heavy.value == 3
    assert not is_waiting("heavy")
    del sys.modules["heavy"]


@pytest.mark.parametrize("raised", [ImportError, KeyboardInterrupt])
def test_a_package_that_fails_between_two_submodules_can_be_tried_again(raised, tmp_path, monkeypatch):
    """As Ctrl-C does to sympy: the submodule that was there already has to become an attribute of the package."""
    from compile_api.importing.deferred import defer

    (tmp_path / "heavier").mkdir()
    (tmp_path / "heavier" / "first.py").write_text("value = 3\n")
    (tmp_path / "heavier" / "second.py").write_text(f"import sys\nif sys.runs == 0: raise {raised.__name__}\n")
    init = "import sys, heavier.first\nimport heavier.second\nvalue = heavier.first.value\n"
    (tmp_path / "heavier" / "__init__.py").write_text(init)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "runs", 0, raising=False)
    defer("heavier", {})
    import heavier

    with pytest.raises(raised):
        heavier.value
    sys.runs = 1
    assert heavier.value == 3
    for name in ("heavier", "heavier.first", "heavier.second"):
        del sys.modules[name]


def test_all_that_torch_asks_of_origins_of_symbols_has_an_answer():
    from torch._subclasses import fake_tensor, meta_utils

    from compile_api.importing.sources import ANSWERS

    asked = set()
    for module in (fake_tensor, meta_utils):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.ImportFrom) and node.module == "torch._dynamo.source":
                asked |= {each.name for each in node.names}
    assert asked <= set(ANSWERS)


def test_origins_of_symbols_print_as_torchs_do(prints):
    program = """
        import torch, compile_api
        from compile_api.importing import sources as ours
        import torch._dynamo.source as theirs
        theirs.LocalSource
        given = {"TensorPropertySource": lambda m: (m.ConstantSource("x"), m.TensorProperty.STRIDE, 1),
                 "AttrSource": lambda m: (m.ConstantSource("x"), "inner"),
                 "ConstantSource": lambda m: ("x",), "EphemeralSource": lambda m: ("y",)}
        for name, arguments in given.items():
            print(*(getattr(m, name)(*arguments(m)).name.replace(" ", "") for m in (ours, theirs)), sep="\\n")
    """
    printed = prints(program)
    assert len(printed) == 8
    assert printed[::2] == printed[1::2]


def test_the_text_of_a_package_is_searched_once_for_each_name(prints):
    """Torch's fakes write ``from package import name`` within each operator, and Python looks for ``__path__`` then."""
    program = """
        import torch, compile_api
        from compile_api.importing.deferred import deferral_of
        searched = []
        class Text(str):
            def __contains__(self, name):
                searched.append(name)
                return super().__contains__(name)
        torch._dynamo, torch.fx.experimental.symbolic_shapes
        deferral = deferral_of("torch.fx.experimental.symbolic_shapes")
        deferral.source = Text(deferral.source)
        f = compile_api.compile(lambda x: torch.relu(x @ x).mm(x).sum(-1).cumsum(0) + 1, backend="aot_eager")
        f(torch.ones(3, 3))
        print(deferral.waiting, 0 < len(searched) == len(set(searched)))
    """
    assert prints(program) == ["True", "True"]
