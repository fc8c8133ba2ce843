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


def told(tmp_path, text, **env):
    """The lines that a process of its own prints, whose texts hash in another way each time."""
    (tmp_path / "program.py").write_text(text)
    env = {**os.environ, "COMPILE_API_CACHE": str(tmp_path / "cache"), **env}
    command = [sys.executable, str(tmp_path / "program.py")]
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
