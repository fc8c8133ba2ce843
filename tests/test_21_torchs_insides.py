"""Torch's insides are used through one table per package, and a torch without one of them still gives right results."""

import ast
import datetime
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {path.name: path for path in ROOT.glob("packages/*/src/*") if path.is_dir()}
TABLES = ("insides.py", "torch_versions.py")
INSIDES = {name: importlib.import_module(f"{name}.torch_versions").INSIDES for name in SOURCES}
MODULES = [path for folder in SOURCES.values() for path in folder.rglob("*.py") if path.name not in TABLES]
GROUP = 8


def todays():
    """Rows to hide from one process: each alone where that is asked for, else a group of each package by turns."""
    for package, insides in INSIDES.items():
        rows = sorted(row.path for row in insides.rows.values())
        if os.environ.get("TORCH_INSIDES") == "all":
            yield from ((package, [row]) for row in rows)
        else:
            groups = [rows[start : start + GROUP] for start in range(0, len(rows), GROUP)]
            yield package, groups[datetime.date.today().toordinal() % len(groups)]


def test_the_mechanism_is_one_text():
    assert len({(folder / "insides.py").read_text() for folder in SOURCES.values()}) == 1
    assert len({(SOURCES[name] / "graph_modules.py").read_text() for name in ("capture", "aotgrad")}) == 1


def is_private(path):
    return any(re.match("_[^_]", part) for part in path.split("."))


def reached(tree):
    """The dotted paths that a module imports or reads."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                names[name.asname or name.name.split(".")[0]] = name.name if name.asname else name.name.split(".")[0]
                yield name.name
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                names[name.asname or name.name] = f"{node.module}.{name.name}"
                yield names[name.asname or name.name]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            yield f"{names.get(root, '?')}.{rest}"


@pytest.mark.parametrize("module", MODULES, ids=[str(path.relative_to(ROOT / "packages")) for path in MODULES])
def test_only_the_tables_reach_into_torch(module):
    tree = ast.parse(module.read_text())
    insides = INSIDES[module.relative_to(ROOT).parts[3]]
    assert not [path for path in reached(tree) if re.fullmatch(r"torch[\w.]+", path) and is_private(path)]
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}
    of_instances = {row.path.rpartition(".")[2] for row in insides.rows.values() if row.attribute}
    assert not read & of_instances - own_attributes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith("torch_versions"):
            assert {name.name for name in node.names} <= {*insides.rows, "INSIDES", "aten"}
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "aten" and is_private(node.attr):
            assert f"torch.ops.aten.{node.attr}" in insides.rows


def own_attributes(tree):
    """What the module's own classes call so."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }


@pytest.mark.parametrize(
    ("package", "paths"), [pytest.param(*each, id=f"{each[0]}: {each[1][0]}") for each in todays()]
)
def test_a_torch_that_lacks_some_gives_right_results(package, paths):
    tool = ROOT / "tests/tools/without_insides.py"
    done = subprocess.run([sys.executable, tool, package, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
