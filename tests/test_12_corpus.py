"""Real architectures captured: those written for the corpus, and a few of libraries.  ``nox -s corpus`` runs all."""

import importlib.util
import inspect
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # the corpus is a program of this repository, not a package

from corpus import step
from corpus.families import register_all
from corpus.runner import differs, run
from corpus.table import CASES

import capture

register_all()
WRITTEN = [name for name in CASES if name.startswith("written/")]
BROKEN = {
    "written/tagger": "how many numbers a packed sequence holds is known from the lengths' values alone",
}
LIBRARY = [
    "torchvision/resnet18", "torchvision/squeezenet1_1", "timm/repvgg_a0", "hf/Bert", "hf/GPT2", "hf/Llama", "hf/T5",
    "hf/ViT", "hf/Wav2Vec2",
]  # fmt: skip
PACKAGES = {"torchvision": "torchvision", "timm": "timm", "hf": "transformers"}


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", WRITTEN)
def test_written_for_the_corpus(name, mode):
    outcome = run(CASES[name], mode)
    assert outcome.is_right, str(outcome)
    assert outcome.is_whole is (name not in BROKEN), str(outcome)


STEPS = ["mixture_of_experts", "autoencoder", "hooked", "memory", "capsules", "dcgan", "recommender"]


@pytest.mark.parametrize("name", STEPS)
def test_whole_steps(name):
    """Forward, loss, backward and optimizer in one compiled function; ``nox -s corpus -- --mode step`` runs all."""
    outcome = step.run(CASES[f"written/{name}"])
    assert outcome.is_right, str(outcome)
    assert outcome.is_whole, str(outcome)


@pytest.mark.filterwarnings("ignore")  # the libraries' own
@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("name", LIBRARY)
def test_of_libraries(name, mode):
    package = PACKAGES[name.split("/")[0]]
    if importlib.util.find_spec(package) is None or name not in CASES:
        pytest.skip(f"{package} is not installed")
    outcome = run(CASES[name], mode)
    assert outcome.is_right, str(outcome)
    breaks = (name, mode) == ("hf/Wav2Vec2", "training") and draws_whether_layers_run()
    assert outcome.is_whole is not breaks, str(outcome)


def draws_whether_layers_run():
    """Transformers up to 5.17 at least draws a number for each layer and branches on it, though none is ever left out;
    5.24 asks first."""
    from transformers.models.wav2vec2.modeling_wav2vec2 import Wav2Vec2Encoder

    return "layerdrop > 0" not in inspect.getsource(Wav2Vec2Encoder.forward)


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_a_language_model_writes_with_three_graphs():
    """The prompt, one step, and one step for a cache of any length."""
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=3, n_head=2, n_embd=32, vocab_size=100, bos_token_id=1, eos_token_id=2)
    model, log = GPT2LMHeadModel(config).eval(), capture.Log()
    prompt = torch.randint(3, 100, (2, 7))
    settings = {"max_new_tokens": 25, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    expected = model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings)
    model.forward = capture.optimize("eager", strict=True, log=log)(model.forward)
    assert torch.equal(model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings), expected)
    kinds = [type(record) for record in log.records()]
    assert (kinds.count(capture.GraphRecord), kinds.count(capture.BreakRecord)) == (3, 0)


def test_a_difference_is_seen():
    expected, actual = {"result": [torch.ones(2)]}, {"result": [torch.tensor([1.0, 1.5])]}
    assert differs(expected, expected) == ""
    assert differs(expected, actual) == "['result'][0] is off by 0.5"
