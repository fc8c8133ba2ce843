"""The kinds of guards that real models have, and the time of those that are checked in Python.

    python -m benchmarks.guards_of_models [part of a name ...]

For the models of the corpus (inference), and for a decoding step of language models with a cache.  Each graph's guards
are timed where it was just captured, over the arguments of that call: all of them, and those alone that run Python
code.  A model's line adds up its graphs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from corpus.families import register_all
from corpus.table import CASES, is_installed

import capture
from benchmarks.guards import nanoseconds
from capture import _engine
from capture.entry import hook
from capture.guards.guard import Guard, to_spec
from capture.guards.kinds import GuardKind

IN_PYTHON = (GuardKind.PYTHON, GuardKind.RELATION)


@dataclass
class Seen:
    """The guards of one model's graphs."""

    kinds: Counter[str] = field(default_factory=Counter)
    spoken: Counter[str] = field(default_factory=Counter)
    whole: float = 0.0
    in_python: float = 0.0

    def add(self, guards: list[Guard], function: Any, args: tuple[Any, ...]) -> None:
        built = _engine.Guards(*to_spec(guards))
        asked = [guard for guard in guards if guard.kind in IN_PYTHON]
        alone = _engine.Guards(*to_spec(asked))
        empty = _engine.Guards(*to_spec([]))
        for _ in range(3):  # a dependency chain is made on the second walk
            assert built.check(function, args), guards[built.first_failure(function, args) or 0].sentence()
        nothing = nanoseconds(lambda: empty.check(function, args))
        self.whole += nanoseconds(lambda: built.check(function, args)) - nothing
        self.in_python += nanoseconds(lambda: alone.check(function, args)) - nothing
        self.kinds.update("Python" if guard.kind in IN_PYTHON else "C" for guard in guards)
        self.spoken.update(_shape_of(guard) for guard in asked)


def _shape_of(guard: Guard) -> str:
    """The function of capture's that makes such a guard."""
    function = guard.payload[-1]
    return f"{function.__module__.removeprefix('capture.')}.{function.__qualname__.split('.')[0]}"


def survey(run: Callable[[Callable[..., Any]], None], model: Callable[..., Any]) -> Seen:
    """The guards of all graphs captured while ``run`` calls the captured model."""
    seen, found, translate = Seen(), {}, hook.translate_frame

    # The guards pass by here as objects, before the engine gets them as data.
    def remember(guards: Any) -> Any:
        found["guards"] = list(guards)
        return to_spec(found["guards"])

    def look(config: Any, function: Any, args: tuple[Any, ...]) -> Any:
        entry = translate(config, function, args)
        if isinstance(entry, _engine.GuardedCode) and entry.code is not None:
            seen.add(found["guards"], function, args)
        return entry

    hook.to_spec = remember
    _engine.set_translator(look)
    try:
        run(capture.optimize("eager")(model))
    finally:
        hook.to_spec = to_spec
        _engine.set_translator(translate)
    return seen


def of_the_corpus(names: list[str]) -> Iterator[tuple[str, Seen]]:
    """Each model with its guards; a part of a name chooses."""
    register_all()
    for case in CASES.values():
        if not names or any(part in case.name for part in names):
            torch.manual_seed(0)
            args, kwargs = case.inputs()
            yield case.name, survey(lambda call, a=args, k=kwargs: call(*a, **k), case.model().eval())


def decoders() -> dict[str, Callable[[], Any]]:
    """Models of several depths that are small otherwise: guards count by layers, not by widths."""
    import transformers as hf

    small = {"vocab_size": 99, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
    some = {**small, "num_hidden_layers": 24, "num_key_value_heads": 2, "max_position_embeddings": 64}
    gpt = {"vocab_size": 99, "n_embd": 32, "n_layer": 12, "n_head": 4, "n_positions": 64}
    return {
        "Llama-24": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**some)),
        "Qwen2-24": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**some)),
        "Gemma2-24": lambda: hf.Gemma2ForCausalLM(hf.Gemma2Config(**some, head_dim=8)),
        "GPT2-12": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**gpt)),
    }


def of_decoding(names: list[str]) -> Iterator[tuple[str, Seen]]:
    """One token after a prompt, with either kind of cache: state that is looked at, and written, at every call."""
    import transformers as hf

    for name, make in decoders().items():
        for kind in (hf.DynamicCache, hf.StaticCache):
            title = f"{name} decoding, {kind.__name__}"
            if names and not any(part in title for part in names):
                continue
            model = make().eval()
            cache = kind(config=model.config) if kind is hf.DynamicCache else kind(model.config, max_cache_len=64)
            ids = torch.randint(3, 99, (1, 7))
            with torch.no_grad():
                model(ids, past_key_values=cache, use_cache=True)  # the prompt, in eager
                yield title, survey(lambda call, c=cache, i=ids: decode(call, i, c), model)


def decode(call: Callable[..., Any], ids: torch.Tensor, cache: Any, steps: int = 3) -> None:
    """Greedy: the next call takes the likeliest token, and the cache that this one wrote."""
    for _ in range(steps):
        ids = call(ids[:, -1:], past_key_values=cache, use_cache=True).logits.argmax(-1)


def main() -> None:
    names = sys.argv[1:]
    print(f"{'':40}{'C':>7}{'Python':>8}{'all, us':>10}{'Python, us':>12}")
    total: Counter[str] = Counter()
    for source in (of_the_corpus, of_decoding):
        if source is of_decoding and not is_installed("transformers"):
            continue
        for name, seen in source(names):
            total += seen.spoken
            row = f"{seen.kinds['C']:7}{seen.kinds['Python']:8}{seen.whole / 1e3:10.1f}{seen.in_python / 1e3:12.1f}"
            print(f"{name:40}{row}   " + ", ".join(f"{kind} {n}" for kind, n in seen.spoken.most_common(3)), flush=True)
    print("\n".join(f"{count:6} {kind}" for kind, count in total.most_common()))


if __name__ == "__main__":
    main()
