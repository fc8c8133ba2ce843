"""Training follows eager's loss curve to float32 rounding, and the optimizer ends in the same state.

Five steps of each network by default; COMPILE_API_ALL_STEPS=1 runs fifty, and the networks of transformers and
torchvision where those are installed.
"""

import copy
import importlib.util
import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import compile_api

THOROUGH = "COMPILE_API_ALL_STEPS" in os.environ
STEPS = 50 if THOROUGH else 5


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outside) for _ in range(2))
        self.relu = nn.ReLU(inplace=True)
        shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.shortcut = nn.Identity() if stride == 1 and inside == outside else shortcut

    def forward(self, x):
        y = self.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        y += self.shortcut(x)
        return self.relu(y)


def resnet18():
    widths = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    stem = nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(
        *stem, *(Residual(*width) for width in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)
    )


class Block(nn.Module):
    """A transformer's layer, with its norms ahead (GPT, ViT) or behind (BERT)."""

    def __init__(self, width, *, ahead, causal):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.ahead, self.causal = ahead, causal

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, 4, width // 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        if self.ahead:
            x = x + self.attend(self.norms[0](x))
            return x + self.mlp(self.norms[1](x))
        x = self.norms[0](x + self.attend(x))
        return self.norms[1](x + self.mlp(x))


class Language(nn.Module):
    def __init__(self, *, causal):
        super().__init__()
        self.table, self.places = nn.Embedding(64, 32), nn.Embedding(24, 32)
        self.layers = nn.Sequential(*(Block(32, ahead=causal, causal=causal) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 64, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        x = self.table(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.layers(x)))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches, self.places = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 17, 32) * 0.02)
        self.token = nn.Parameter(torch.zeros(1, 1, 32))
        self.layers = nn.Sequential(*(Block(32, ahead=True, causal=False) for _ in range(2)))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(64, 16), nn.LSTM(16, 24, 2, batch_first=True), nn.Linear(24, 64)

    def forward(self, tokens):
        return self.head(self.lstm(self.table(tokens))[0])


def missing_operators():
    """torchvision's Python, which transformers imports, runs without its binary if two operators are declared."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return library
    return None


def hugging_bert():
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForMaskedLM(BertConfig(vocab_size=64, max_position_embeddings=32, **sizes, **dropout))


def hugging_gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4, **dropout))


def torchvision_resnet18():
    from torchvision.models import resnet18 as build

    return build(num_classes=10)


IMAGES = {"resnet18": resnet18, "vit": ViT}
DECLARED = missing_operators() if THOROUGH else None
TEXTS = {"bert": lambda: Language(causal=False), "gpt2": lambda: Language(causal=True), "lstm": Recurrent}
if THOROUGH and importlib.util.find_spec("transformers"):
    TEXTS |= {"transformers-bert": hugging_bert, "transformers-gpt2": hugging_gpt2}
if THOROUGH and importlib.util.find_spec("torchvision"):
    IMAGES |= {"torchvision-resnet18": torchvision_resnet18}


def batch_for(name, generator):
    if name in IMAGES:
        side = 32 if name == "resnet18" else 64 if name.startswith("torchvision") else 16
        x = torch.randn(4, 3, side, side, generator=generator)
        return x, torch.randint(0, 10, (4,), generator=generator)
    tokens = torch.randint(0, 64, (4, 17), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def train(name, module, call):
    """Losses of every step, and what module and optimizer hold at the end."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    curve = []
    for _ in range(STEPS):
        inputs, targets = batch_for(name, generator)
        optimizer.zero_grad()
        result = call(inputs)
        logits = getattr(result, "logits", result)
        loss = F.cross_entropy(logits.flatten(0, -2), targets.flatten())
        loss.backward()
        optimizer.step()
        curve.append(loss.item())
    return torch.tensor(curve), module.state_dict(), optimizer.state_dict()["state"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*IMAGES, *TEXTS])
def test_training_follows_eager(name):
    module = {**IMAGES, **TEXTS}[name]().train()
    twin = copy.deepcopy(module)
    compiled = compile_api.compile(module, backend="aot_eager")
    ours = train(name, module, compiled)
    theirs = train(name, twin, twin)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    report = compile_api.report(compiled)
    assert {graph.direction for graph in report.compiled} == {"forward", "backward"}
    assert not report.refused
