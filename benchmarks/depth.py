"""First calls of a Llama by its depth, in fresh processes: cold, warm, and how much deeper costs more.

    python -m benchmarks.depth --layers 2 8 32 80 --modes inference training step --device cpu

Each in a process of its own; ``warm`` is a second one that finds on disk what the first one left.  Seconds are those on
the wall, and of the processors in this process and in the compilers that it starts.  ``step`` is forward, loss,
backward and AdamW in one compiled function: its first two calls, as only the second finds all there that it relies on.
"""

from __future__ import annotations

import argparse
import json
import tempfile

from benchmarks.start import first_call

CHILD = """
import importlib, json, os, sys, time
import torch
from corpus.vision import define_missing_operators
define_missing_operators()
hub = importlib.import_module("transformers")
layers, mode, who, device = int(sys.argv[1]), *sys.argv[2:5]
sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=4)
torch.manual_seed(0)
model = hub.LlamaModel(hub.LlamaConfig(vocab_size=1000, num_hidden_layers=layers, use_cache=False, **sizes)).to(device)
tokens = torch.randint(0, 1000, (2, 32), device=device)
torch.set_grad_enabled(mode != "inference")
def loss():
    result = model(input_ids=tokens).last_hidden_state.square().mean()
    if mode != "inference":
        result.backward()
    return result
loss()
model.zero_grad()
if mode == "step":
    optimizer = torch.optim.AdamW(model.parameters())
    def call():
        result = loss()
        optimizer.step()
        optimizer.zero_grad()
        return result
else:
    call = loss
wall, processors = time.perf_counter(), sum(os.times()[:4])
if who == "ours":
    import compile_api
    compiling = compile_api.compile
else:
    compiling = torch.compile
if mode == "step":
    call = compiling(call)
    call()
else:
    model = compiling(model)
call()
if device == "cuda":
    torch.cuda.synchronize()
seconds = [time.perf_counter() - wall, sum(os.times()[:4]) - processors]
start = time.perf_counter()
for _ in range(5):
    call()
if device == "cuda":
    torch.cuda.synchronize()
print(json.dumps([*seconds, (time.perf_counter() - start) / 5]))
"""


def measured(layers: int, mode: str, who: str, device: str) -> dict[str, list[float]]:
    """Wall, processors and the time of a later call, in seconds."""
    arguments = [str(layers), mode, who, device]
    with tempfile.TemporaryDirectory() as folder:
        # Compiles what Python imports to byte code, in a cache that is not measured.
        first_call(CHILD, ["2", mode, who, device], f"{folder}/before", folder)
        return {which: first_call(CHILD, arguments, f"{folder}/measured", folder) for which in ("cold", "warm")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8, 32, 80])
    parser.add_argument("--modes", nargs="+", default=["inference", "training", "step"])
    parser.add_argument("--who", nargs="+", default=["ours", "torch.compile"])
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    print(f"{'':34}{'cold: wall':>11}{'processors':>12}{'warm: wall':>12}{'processors':>12}{'a call, ms':>12}")
    for mode in asked.modes:
        for who in asked.who:
            for layers in asked.layers:
                found = measured(layers, mode, who, asked.device)
                (cold, cold_used, _), (warm, warm_used, later) = found["cold"], found["warm"]
                row = f"{mode:10} {who:14} {layers:3} layers"
                figures = f"{cold:11.2f}{cold_used:12.2f}{warm:12.2f}{warm_used:12.2f}{later * 1e3:12.2f}"
                print(f"{row:34}{figures}", flush=True)
                print(json.dumps({"mode": mode, "who": who, "layers": layers, **found}), flush=True)


if __name__ == "__main__":
    main()
