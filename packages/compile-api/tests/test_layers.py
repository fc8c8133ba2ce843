"""The README's list of layers is true: each module imports only from those before it."""

import ast
import re
from pathlib import Path

import compile_api

SOURCES = Path(compile_api.__file__).parent
README = (Path(__file__).parent.parent / "README.md").read_text()
LAYERS = [name.rstrip("/") for name in re.findall(r"^\| `([\w/]+)` \|", README.split("## Layers")[1], re.MULTILINE)]


def layer_of(path):
    return path.relative_to(SOURCES).parts[0].removesuffix(".py")


def imported(path):
    """The modules of this package that a module imports at its top."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "compile_api":
            inner = node.module.split(".")[1:]
            yield from inner[:1] if inner else [alias.name for alias in node.names]


def modules():
    return [path for path in SOURCES.rglob("*.py") if layer_of(path) not in ("__init__", "__main__")]


def test_every_module_is_in_the_list():
    assert {layer_of(path) for path in modules()} == set(LAYERS)


def test_imports_point_to_earlier_layers():
    for path in modules():
        for name in imported(path):
            assert LAYERS.index(name) <= LAYERS.index(layer_of(path)), f"{path.name} imports {name}"


def test_the_models_of_onnx_are_a_library():
    """It makes models of graphs, for whoever asks: of this package it knows the table of torch's names alone."""
    for path in (SOURCES / "runtimes" / "onnx").rglob("*.py"):
        froms = [node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        ours = [name for name in froms if name.startswith("compile_api.") and ".runtimes.onnx." not in name]
        assert set(ours) <= {"compile_api.torch_versions"}, path.name
