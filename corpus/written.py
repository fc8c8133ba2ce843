"""Architectures written for the corpus: each has a habit of real code that the libraries' models do not show."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from corpus.table import Case, Inputs, add, image


class UNet(nn.Module):
    """Skips kept in a list and popped on the way up; sizes compared to pad what does not fit."""

    def __init__(self, width: int = 8, depth: int = 3) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth)]
        self.down = nn.ModuleList(_double_conv(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.bottom = _double_conv(widths[-1], widths[-1] * 2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in reversed(widths))
        self.merge = nn.ModuleList(_double_conv(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x, skip = up(x), skips.pop()
            # Sides that are odd lose a row on their way down: a branch on sizes, not on values.
            if x.shape[-2:] != skip.shape[-2:]:
                rows, columns = (have - got for have, got in zip(skip.shape[-2:], x.shape[-2:], strict=True))
                x = F.pad(x, (0, columns, 0, rows))
            x = merge(torch.cat([skip, x], dim=1))
        return self.head(x)


def _double_conv(inward: int, outward: int) -> nn.Sequential:
    layers = [nn.Conv2d(inward, outward, 3, padding=1), nn.BatchNorm2d(outward), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(outward, outward, 3, padding=1), nn.ReLU(inplace=True))


class Tagger(nn.Module):
    """A bidirectional LSTM over packed sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 12, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(24, 5)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        states, (last, _) = self.lstm(packed)
        padded, _ = pad_packed_sequence(states, batch_first=True, total_length=ids.size(1))
        return self.head(padded), last[-2:].transpose(0, 1).flatten(1)


class Seq2Seq(nn.Module):
    """A GRU decoder unrolled with attention, each step fed with the best guess of the one before."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.cell = nn.GRUCell(2 * width, width)
        self.score = nn.Linear(2 * width, 1)
        self.head = nn.Linear(width, 40)

    def forward(self, source: Tensor, steps: int = 4) -> dict[str, Tensor]:
        memory, hidden = self.encoder(self.embed(source))
        state, token = hidden[-1], torch.ones_like(source[:, 0])
        logits, maps = [], []
        for _ in range(steps):
            context, weights = self.attend(state, memory)
            state = self.cell(torch.cat([self.embed(token), context], dim=-1), state)
            logits.append(self.head(state))
            maps.append(weights)
            token = logits[-1].argmax(-1)
        return {"logits": torch.stack(logits, 1), "attention": torch.stack(maps, 1), "last": token}

    def attend(self, state: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        # Additive attention: the state stands beside each place of the memory, as a view that repeats it.
        pairs = torch.cat([state[:, None].expand_as(memory), memory], dim=-1)
        weights = self.score(pairs.tanh()).squeeze(-1).softmax(-1)
        return torch.bmm(weights[:, None], memory)[:, 0], weights


class DCGAN(nn.Module):
    """Generator and discriminator in one step, with spectral norm and the parameters initialised through `apply`."""

    def __init__(self, latent: int = 8, width: int = 8) -> None:
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(latent, 2 * width, 4), nn.BatchNorm2d(2 * width), nn.ReLU(True),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh(),
        )  # fmt: skip
        normed = nn.utils.parametrizations.spectral_norm(nn.Conv2d(width, 2 * width, 4, 2, 1))
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2, True), normed, nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * width, 1, 4), nn.Flatten(0),
        )  # fmt: skip
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        """In place on parameters, before anything is captured."""
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)

    def forward(self, noise: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        fake = self.generator(noise[:, :, None, None])
        judge = self.discriminator  # called three times: each call moves the vectors of its spectral norm
        against = F.binary_cross_entropy_with_logits(judge(fake.detach()), torch.zeros(len(fake)))
        against = against + F.binary_cross_entropy_with_logits(judge(real), torch.ones(real.size(0)))
        return fake, F.softplus(-judge(fake)).mean(), against


class GraphNet(nn.Module):
    """Messages summed with `index_add`, degrees and softmax over neighbours with scatters."""

    def __init__(self, width: int = 12, layers: int = 2) -> None:
        super().__init__()
        self.message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.score = nn.ModuleList(nn.Linear(2 * width, 1, bias=False) for _ in range(layers))
        self.update = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))

    def forward(self, nodes: Tensor, edges: Tensor, graph_of: Tensor) -> Tensor:
        source, target = edges
        for message, score, update in zip(self.message, self.score, self.update, strict=True):
            pairs = torch.cat([nodes[source], nodes[target]], -1)
            weights = self._softmax(F.leaky_relu(score(pairs))[:, 0], target, nodes.size(0))
            gathered = torch.zeros_like(nodes).index_add(0, target, message(pairs).relu() * weights[:, None])
            nodes = update(gathered, nodes)
        pooled = nodes.new_zeros(2, nodes.shape[1])
        return pooled.scatter_add_(0, graph_of[:, None].expand_as(nodes), nodes)

    @staticmethod
    def _softmax(scores: Tensor, groups: Tensor, size: int) -> Tensor:
        """A softmax over the edges into each node: reductions by index instead of by axis."""
        top = torch.full((size,), -math.inf).scatter_reduce(0, groups, scores.detach(), "amax")
        weights = (scores - top[groups]).exp()
        total = torch.zeros(size).scatter_add(0, groups, weights)
        return weights / total[groups].clamp_min(1e-9)


class CachedTransformer(nn.Module):
    """A decoder whose keys and values live in a dict of tuples that the caller hands in and gets back changed."""

    def __init__(self, width: int = 16, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(30, width)
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.project = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.back = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, ids: Tensor, cache: dict[str, tuple[Tensor, Tensor]] | None = None) -> Any:
        cache = {} if cache is None else cache
        x = self.embed(ids)
        for i, (norm, project, back) in enumerate(zip(self.norm, self.project, self.back, strict=True)):
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in project(norm(x)).chunk(3, -1))
            if f"layer{i}" in cache:
                k, v = (torch.cat(pair, dim=2) for pair in zip(cache[f"layer{i}"], (k, v), strict=True))
            cache[f"layer{i}"] = (k, v)  # an effect on the caller's dict, which it sees after the call
            mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2))
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            x = x + back(seen.transpose(1, 2).flatten(2))
        return x @ self.embed.weight.T, cache


class Recommender(nn.Module):
    """Bags of features in an EmbeddingBag per field, and their pairwise products."""

    def __init__(self, fields: int = 3, width: int = 8) -> None:
        super().__init__()
        self.bags = nn.ModuleDict({f"field{i}": nn.EmbeddingBag(40, width, mode="sum") for i in range(fields)})
        self.dense = nn.Sequential(nn.Linear(5, width), nn.ReLU())
        self.top = nn.Linear(fields * (fields + 1) // 2 + width, 1)

    def forward(self, dense: Tensor, sparse: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
        low = self.dense(dense)
        # Which bags there are is asked of the caller's dict: another set of keys is another graph.
        found = [low] + [bag(*sparse[name]) for name, bag in self.bags.items() if name in sparse]
        stacked = torch.stack(found, dim=1)
        products = stacked @ stacked.mT
        rows, columns = torch.tril_indices(len(found), len(found), offset=-1)
        return self.top(torch.cat([low, products[:, rows, columns]], dim=1)).squeeze(1)


class MixtureOfExperts(nn.Module):
    """The two best experts of each token, their results weighted by masks; a balance loss kept on the module."""

    def __init__(self, width: int = 12, experts: int = 4) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )
        self.balance: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        odds = self.gate(x).softmax(-1)
        best, chosen = odds.topk(2, dim=-1)
        best = best / best.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        # Every expert sees every token: what a mask leaves out is computed, so that no size depends on data.
        for i, expert in enumerate(self.experts):
            weight = torch.where(chosen == i, best, torch.zeros_like(best)).sum(-1, keepdim=True)
            result += weight * expert(x)
        used = F.one_hot(chosen, len(self.experts)).float().mean((0, 1, 2))
        self.balance = (used * odds.mean((0, 1))).sum()
        return result + 0 * self.balance


class Autoencoder(nn.Module):
    """A variational autoencoder: noise only in training, through torch's own generator."""

    def __init__(self, width: int = 24, latent: int = 4) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, 16), nn.ELU(), nn.Linear(16, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, 16), nn.ELU(), nn.Linear(16, width))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=-1)
        code = self._sample(mean, log_variance)
        divergence = -0.5 * torch.mean(1 + log_variance - mean.pow(2) - log_variance.exp())
        rebuilt = torch.sigmoid(self.decode(code))
        return {"rebuilt": rebuilt, "code": code, "loss": F.mse_loss(rebuilt, x) + divergence}

    def _sample(self, mean: Tensor, log_variance: Tensor) -> Tensor:
        """Draws where gradients have to pass: the noise is apart from what it is scaled by."""
        if not self.training:
            return mean
        deviation = torch.exp(0.5 * log_variance)
        return torch.randn_like(deviation).mul(deviation).add_(mean)


class NeuralODE(nn.Module):
    """Runge-Kutta of the fourth order: the field is a closure, its calls are counted on the module."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(width + 1, 16), nn.Tanh(), nn.Linear(16, width))
        self.evaluations = 0

    def forward(self, x: Tensor, times: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0)) -> Tensor:
        def slope(t: float, y: Tensor) -> Tensor:
            self.evaluations += 1  # from within a closure that another method calls
            return self.field(torch.cat([y, torch.full_like(y[..., :1], t)], dim=-1))

        self.evaluations = 0
        path = [x]
        for start, end in itertools.pairwise(times):
            path.append(self._step(slope, start, end - start, path[-1]))
        return torch.stack(path)

    @staticmethod
    def _step(slope: Callable[[float, Tensor], Tensor], t: float, h: float, y: Tensor) -> Tensor:
        first = slope(t, y)
        second = slope(t + h / 2, y + h * first / 2)
        third = slope(t + h / 2, y + h * second / 2)
        return y + h / 6 * (first + 2 * second + 2 * third + slope(t + h, y + h * third))


class Flow(nn.Module):
    """Affine couplings and invertible mixing, with the logarithm of the determinant along the way."""

    def __init__(self, width: int = 6, steps: int = 3) -> None:
        super().__init__()
        self.mixing = nn.ParameterList(torch.linalg.qr(torch.randn(width, width))[0] for _ in range(steps))
        self.nets = nn.ModuleList(
            nn.Sequential(nn.Linear(width // 2, 16), nn.ReLU(), nn.Linear(16, width)) for _ in range(steps)
        )
        self.base = torch.distributions.Normal(0.0, 1.0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logdet = x.new_zeros(x.size(0))
        for mixing, net in zip(self.mixing, self.nets, strict=True):
            x = x @ mixing
            logdet = logdet + torch.linalg.slogdet(mixing).logabsdet
            kept, changed = x.tensor_split(2, dim=-1)
            log_scale, shift = net(kept).chunk(2, dim=-1)
            log_scale = log_scale.tanh()
            x = torch.cat([kept, changed * log_scale.exp() + shift], dim=-1)
            logdet += log_scale.sum(-1)
        return x, self.base.log_prob(x).sum(-1) + logdet


class TemporalConvolutions(nn.Module):
    """Dilated causal convolutions under weight norm, the parametrisation that recomputes the weight on every read."""

    def __init__(self, width: int = 8, levels: int = 3) -> None:
        super().__init__()
        normed = nn.utils.parametrizations.weight_norm
        self.convolutions = nn.ModuleList(
            normed(nn.Conv1d(3 if i == 0 else width, width, 3, dilation=2**i)) for i in range(levels)
        )
        self.shortcut = nn.Conv1d(3, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = self.shortcut(x)
        for i, convolution in enumerate(self.convolutions):
            x = F.dropout(convolution(F.pad(x, (2 * 2**i, 0))).relu(), 0.1, self.training)
            kept = kept + x
        return kept[..., -1]


class Perceiver(nn.Module):
    """Latents that read a long input by cross attention, all in einsum."""

    def __init__(self, width: int = 16, latents: int = 5, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.heads, self.depth = heads, depth
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(width, 2 * width, bias=False)
        self.after = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.register_buffer("bands", torch.arange(1.0, width // 2 + 1), persistent=False)
        self.bands: Tensor

    def forward(self, x: Tensor) -> Tensor:
        batch, length, *_ = x.shape
        angles = torch.einsum("n,f->nf", torch.linspace(-1, 1, length), self.bands) * math.pi
        x = x + torch.cat([angles.sin(), angles.cos()], dim=-1)
        latents = self.latents.expand(batch, *self.latents.shape)
        for _ in range(self.depth):
            latents = latents + self._attend(latents, x)
            latents = latents + self.after(latents)
        return torch.einsum("bld->bd", latents) / latents.shape[1]

    def _attend(self, latents: Tensor, x: Tensor) -> Tensor:
        query, (key, value) = self.to_q(latents), self.to_kv(x).chunk(2, dim=-1)
        query, key, value = (t.reshape(*t.shape[:2], self.heads, -1) for t in (query, key, value))
        weights = torch.einsum("blhd,bnhd->bhln", query, key).mul(query.shape[-1] ** -0.5).softmax(-1)
        return torch.einsum("bhln,bnhd->blhd", weights, value).flatten(2)


class Capsules(nn.Module):
    """Routing by agreement: a loop whose last turn is different."""

    def __init__(self, inward: int = 6, outward: int = 4, routes: int = 10, width: int = 5) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(outward, routes, inward, width))

    def forward(self, x: Tensor, turns: int = 3) -> Tensor:
        votes = torch.einsum("bri,orid->bord", x, self.weight)
        logits, held = torch.zeros(votes.shape[:3]), votes.detach()
        for turn in range(turns):
            last = turn == turns - 1
            found = self.squash((logits.softmax(1)[..., None] * (votes if last else held)).sum(2))
            if last:
                break
            logits = logits + (held * found.unsqueeze(2)).sum(-1)
        return found.norm(dim=-1)

    @staticmethod
    def squash(x: Tensor, *, dim: int = -1) -> Tensor:
        # Lengths below one: without the small number a capsule of zeros would have no gradient but NaN.
        squared = x.square().sum(dim, keepdim=True)
        return squared / (1 + squared) * x / (squared.sqrt() + 1e-8)


class StateSpace(nn.Module):
    """A selective scan: one step of the state after another, written into a list and stacked."""

    def __init__(self, width: int = 8, states: int = 4) -> None:
        super().__init__()
        self.inward = nn.Linear(width, 2 * width)
        self.select = nn.Linear(width, 2 * states + 1)
        self.log_rates = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        x, gate = self.inward(x).chunk(2, dim=-1)
        states = self.log_rates.shape[1]
        step, into, out = self.select(x).split([1, states, states], dim=-1)
        step = F.softplus(step)[..., None]
        decay = torch.exp(-step * self.log_rates.exp())
        drive = step * into.unsqueeze(-2) * x.unsqueeze(-1)
        # A loop over a size: it is unrolled, and a longer sequence is a longer graph.
        state, results = x.new_zeros(x.size(0), x.size(2), states), []
        for t in range(x.size(1)):
            state = decay[:, t] * state + drive[:, t]
            results.append((state * out[:, t, None]).sum(-1))
        return (torch.stack(results, dim=1) + x * self.skip) * F.silu(gate)


class Memory(nn.Module):
    """Reads and rewrites its own buffers, and counts how often in one of them."""

    def __init__(self, slots: int = 6, width: int = 8) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.register_buffer("slots", torch.randn(slots, width))
        self.register_buffer("age", torch.zeros(slots))
        self.register_buffer("writes", torch.tensor(0))
        self.slots: Tensor
        self.age: Tensor
        self.writes: Tensor

    def forward(self, x: Tensor) -> Tensor:
        # Clones: autograd would refuse buffers that are written after it kept them.
        match = F.normalize(self.key(x), dim=-1) @ F.normalize(self.slots.clone(), dim=-1).T
        read = match.softmax(-1) @ self.slots.clone()
        with torch.no_grad():
            oldest = self.age.argmax()
            self.slots.mul_(0.9)
            # The index is a tensor: which slot is written is data-dependent.
            self.slots[oldest] = x.mean(0)
            self.age += 1
            self.age[oldest] = 0
            self.writes += 1
        return read


class Clipped(torch.autograd.Function):
    """The identity, with gradients held within a bound."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float) -> Tensor:
        ctx.bound = bound
        ctx.save_for_backward(x)
        return x * 1  # the input itself would be a result that is an input, for which autograd has a rule of its own

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return (grads[0] * (x.abs() < ctx.bound)).clamp(-ctx.bound, ctx.bound), None


def _centred(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """A hook that returns something puts it in the place of the arguments."""
    return (args[0] - args[0].mean(-1, keepdim=True),)


def _doubled(module: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> Tensor:
    return result * 2


class Hooked(nn.Module):
    """An input changed by a pre-hook, features kept by a forward hook, and a backward of its own."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))
        self.layers[0].register_forward_pre_hook(_centred)
        self.layers[1].register_forward_hook(_noted)
        self.layers[2].register_forward_hook(_doubled)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        result = Clipped.apply(self.layers(x), 0.01)
        return result, self.layers[1].noted.mean(0)


def _noted(module: nn.Module, args: tuple[Tensor, ...], result: Tensor) -> None:
    module.noted = result  # type: ignore[assignment]


def _edges() -> Inputs:
    """Two graphs in one batch, by the number of each node's graph."""
    return (torch.randn(9, 12), torch.randint(9, (2, 20)), torch.tensor([0] * 4 + [1] * 5)), {}


def _bags() -> Inputs:
    """Ids in a row with the places where bags begin; lengths differ."""
    sparse = {f"field{i}": (torch.randint(40, (7,)), torch.tensor([0, 2, 5])) for i in range(3)}
    return (torch.randn(3, 5), sparse), {}


def _half_filled() -> Inputs:
    """Three more tokens after five whose keys and values the caller kept."""
    return (torch.randint(30, (2, 3)),), {
        "cache": {f"layer{i}": (torch.randn(2, 4, 5, 4), torch.randn(2, 4, 5, 4)) for i in range(2)}
    }


def _floats(*size: int) -> Callable[[], Inputs]:
    return lambda: ((torch.randn(*size),), {})


WRITTEN: dict[str, tuple[Callable[[], nn.Module], Callable[[], Inputs]]] = {
    "unet": (UNet, image(36)),
    "tagger": (Tagger, lambda: ((torch.randint(1, 50, (3, 7)), torch.tensor([4, 7, 2])), {})),
    "seq2seq": (Seq2Seq, lambda: ((torch.randint(40, (3, 6)),), {"steps": 3})),
    "dcgan": (DCGAN, lambda: ((torch.randn(3, 8), torch.randn(3, 3, 16, 16)), {})),
    "graph_net": (GraphNet, _edges),
    "cached_transformer": (CachedTransformer, _half_filled),
    "recommender": (Recommender, _bags),
    "mixture_of_experts": (MixtureOfExperts, _floats(2, 5, 12)),
    "autoencoder": (Autoencoder, _floats(4, 24)),
    "neural_ode": (NeuralODE, _floats(4, 6)),
    "flow": (Flow, _floats(5, 6)),
    "temporal_convolutions": (TemporalConvolutions, _floats(2, 3, 15)),
    "perceiver": (Perceiver, _floats(2, 20, 16)),
    "capsules": (Capsules, _floats(3, 10, 6)),
    "state_space": (StateSpace, _floats(2, 6, 8)),
    "memory": (Memory, _floats(3, 8)),
    "hooked": (Hooked, _floats(3, 8)),
}


def register() -> None:
    for name, (model, inputs) in WRITTEN.items():
        add(Case(f"written/{name}", "written", model, inputs))
