"""A served program's compiled module is a wrapper like torch's: its keys, its hooks, its attributes."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import compile_api


@pytest.fixture
def pair():
    compile_api.install()
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    yield module, torch.compile(module, backend="eager")
    compile_api.uninstall()


def test_keys_names_and_type_are_torchs(pair):
    module, compiled = pair
    genuine = torch._dynamo.eval_frame.OptimizedModule
    assert isinstance(compiled, genuine)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [name for name, _ in compiled.named_children()] == ["_orig_mod"]
    assert compiled._orig_mod is module
    assert len(compiled) == 2
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    with pytest.raises(RuntimeError, match="Missing key"):
        compiled.load_state_dict(module.state_dict())


def test_modes_attributes_and_hooks(pair):
    module, compiled = pair
    compiled.eval()
    assert not module.training
    assert not module[1].training
    compiled.tag = "set"
    assert module.tag == "set"
    del compiled.tag
    assert not hasattr(module, "tag")
    calls = []
    hook = compiled.register_forward_hook(lambda *_: calls.append("hook"))
    compiled(torch.ones(1, 3))
    hook.remove()
    compiled(torch.ones(1, 3))
    assert calls == ["hook"]
    assert compile_api.report(compiled).captured


def test_copies_pickles_and_saved_files_are_compiled(pair):
    _, compiled = pair
    compiled.eval()
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    x = torch.ones(1, 3)
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), torch.load(file, weights_only=False)):
        assert torch.equal(twin(x), compiled(x))
        assert type(twin) is type(compiled)
        assert twin._orig_mod is not compiled._orig_mod
        assert len(compile_api.report(twin).captured) == 1


def test_what_libraries_do_to_unwrap_and_wrap_again(pair):
    module, compiled = pair
    compiled._orig_mod = module
    other = nn.Linear(3, 2)
    compiled._orig_mod = other
    assert compiled(torch.ones(1, 3)).shape == (1, 2)
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert len(compile_api.report(compiled).captured) == 1


def test_state_moves_both_ways(pair):
    module, served = pair
    ours = compile_api.compile(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)), backend="eager")
    ours.load_state_dict(served.state_dict())
    assert torch.equal(ours[0].weight, module[0].weight)
    served._orig_mod.load_state_dict(ours.state_dict())
    served.load_state_dict({f"_orig_mod.{key}": value for key, value in ours.state_dict().items()})


def plain(x, y: int = 2):
    return x + y


def test_tools_that_read_functions_find_the_one_that_was_written(pair):
    compiled = torch.compile(plain, backend="eager")
    assert compiled.__code__ is plain.__code__
    assert compiled.__globals__ is globals()
    assert compiled.__defaults__ == (2,)
    assert compiled._torchdynamo_orig_callable is plain
    with pytest.warns((DeprecationWarning, FutureWarning), match="deprecated"):  # the second from torch 2.14 on
        scripted = torch.jit.script(compiled), torch.jit.script(pair[1].eval())
    assert torch.equal(scripted[0](torch.ones(1), 3), torch.full((1,), 4.0))
    torch.testing.assert_close(scripted[1](torch.ones(1, 3)), pair[0](torch.ones(1, 3)))


def test_torch_exports_the_wrapped_module(pair):
    module, compiled = pair
    x = torch.ones(1, 3)
    exported = torch.export.export(compiled.eval(), (x,)).module()
    torch.testing.assert_close(exported(x), module(x))
