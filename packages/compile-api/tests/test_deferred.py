"""The peer is imported when it is used and not before; each case needs a process of its own."""

import subprocess
import sys
import textwrap

import pytest


def prints(program):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_compiling_does_not_import_the_peer():
    program = """
        import sys, torch, compile_api
        f = compile_api.compile(lambda x: torch.sin(x) + 1, backend="aot_eager", options={"strict": True})
        f(torch.ones(3))
        print("torch._dynamo.symbolic_convert" in sys.modules, sys.modules["torch._dynamo"]._waiting)
    """
    assert prints(program) == ["False", "True"]


@pytest.mark.parametrize(
    "use",
    [
        "torch._dynamo.list_backends()",
        "from torch._dynamo import list_backends",
        "import torch._dynamo as d; d.reset()",
        "from torch._dynamo.utils import counters",
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))",
    ],
)
def test_the_peer_is_whole_when_it_is_used(use):
    program = f"""
        import sys, torch, compile_api
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
        {use}
        print(sys.modules["torch._dynamo"]._waiting, "torch._dynamo.symbolic_convert" in sys.modules)
        torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(2, requires_grad=True), use_reentrant=False)
    """
    assert prints(program) == ["False", "True"]


def test_a_peer_already_imported_is_left_as_it_is():
    assert prints("import torch._dynamo as d; import compile_api; print(type(d).__name__)") == ["module"]
