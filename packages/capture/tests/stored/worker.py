"""Runs the program in processes of its own, forked from one that has imported torch: with a store, and in eager."""

import contextlib
import hashlib
import importlib
import json
import os
import pathlib
import sys
import traceback

import torch

import capture
from capture.stored.keys import _own_sources


class Folder:
    """A store of files, as small as one can be."""

    def __init__(self, path, settings=""):
        self.path, self.settings = pathlib.Path(path), settings
        self.path.mkdir(exist_ok=True)

    def find(self, key):
        return [file.read_bytes() for file in sorted(self.path.glob(f"{key}.*"))]

    def keep(self, key, data):
        (self.path / f"{key}.{hashlib.sha256(data).hexdigest()[:16]}").write_bytes(data)


class Texts:
    """A backend whose compiled graphs are their texts."""

    def __init__(self):
        self.compiled = 0

    def __call__(self, gm, example_inputs):
        self.compiled += 1
        constants = [node for node in gm.graph.nodes if node.op in ("get_attr", "call_module")]
        named = set(gm.graph.python_code("self").globals) - set(torch.fx.graph._custom_builtins)
        return self.of(gm.forward, None if constants or named else gm.code)

    @staticmethod
    def of(forward, code):
        def run(*args):
            return forward(*args)

        run.code = code
        return run

    def describe(self, compiled):
        return compiled.code

    def take_up(self, code):
        space = {name: custom.obj for name, custom in torch.fx.graph._custom_builtins.items()}
        exec(code, space)
        return self.of(lambda *args: space["forward"](None, *args), code)


def outcome(call):
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error).__name__, str(error)


def alike(one, other, tolerance=(0, 0)):
    if isinstance(one, torch.Tensor):
        same = isinstance(other, torch.Tensor) and (one.dtype, one.requires_grad) == (other.dtype, other.requires_grad)
        same = same and one.shape == other.shape
        return same and torch.allclose(one.detach(), other.detach(), *tolerance, equal_nan=True)
    if isinstance(one, (tuple, list)):
        return (
            type(one) is type(other)
            and len(one) == len(other)
            and all(alike(*each, tolerance) for each in zip(one, other))
        )
    return one == other


class Alone:
    """Capture without a compiler behind it."""

    tolerance = (0, 0)

    def __init__(self, net, store, settings):
        self.log, self.backend = capture.Log(), Texts()
        self.call = capture.optimize(self.backend, store=Folder(store, settings), log=self.log)(net)

    @staticmethod
    def without_store(net):
        return net

    def told(self):
        stored = [record for record in self.log.records() if isinstance(record, capture.StoreRecord)]
        return {
            "compiled": self.backend.compiled,
            "outcomes": [[record.outcome, record.explanation] for record in stored],
        }


def run(folder, store, before, around, of=Alone):
    """Import the program, change it, call it: what became of the store, and whether it is eager's result."""
    sys.path.insert(0, folder)
    program = importlib.import_module("program")
    torch.manual_seed(0)
    space = {"program": program, "helper": sys.modules["helper"], "torch": torch, "net": program.Net(),
             "x": torch.randn(3, 4), "contextlib": contextlib, "capture": capture, "settings": ""}  # fmt: skip
    exec(before, space)
    with eval(around, space):
        expected = outcome(lambda: space["net"](space["x"]))
        compiled = of(space["net"], store, space["settings"])
        results = [outcome(lambda: compiled.call(space["x"])) for _ in range(2)]
        same = all(alike(expected, each, of.tolerance) for each in results)
        if not same:  # nor is what is compiled without a store
            expected = outcome(lambda: of.without_store(space["net"])(space["x"]))
            same = all(alike(expected, each) for each in results)
    return {"same": same, **compiled.told()}


def in_child(act, *args):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            told = act(*args)
        except BaseException:  # noqa: BLE001 - it is told to who waits
            told = {"crash": traceback.format_exc()}
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text or '{"crash": "it died"}')


def serve(of=Alone):
    """A program for each line of standard input."""
    torch.set_num_threads(1)
    _own_sources()  # they may be edited meanwhile
    for line in sys.stdin:
        print(json.dumps(in_child(run, *json.loads(line), of)), flush=True)


if __name__ == "__main__":
    serve()
