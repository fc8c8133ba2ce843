"""The drawn example of the documentation is what the tool prints, and its layers are those of the modules."""

import ast
import runpy
from pathlib import Path

import pytest

import cudagraphs

PACKAGE = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "README.md").exists(), reason="these tests were copied away from the documentation they check"
)


def test_the_tree_in_the_documentation_is_the_one_that_is_drawn(capsys):
    runpy.run_path(str(PACKAGE / "docs" / "draw_tree.py"), run_name="__main__")
    assert capsys.readouterr().out.strip() in (PACKAGE / "docs" / "tree.md").read_text()


def test_a_module_imports_only_from_those_above_it_in_the_readme():
    rows = [line.split("|")[1].strip() for line in (PACKAGE / "README.md").read_text().splitlines() if "| `" in line]
    layers = [row.strip("`") for row in rows]
    sources = Path(cudagraphs.__file__).parent
    assert set(layers) == {path.stem for path in sources.glob("*.py")} - {"__init__"}
    for layer in layers:
        tree = ast.parse((sources / f"{layer}.py").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 1}
        assert imported <= set(layers[: layers.index(layer)]), layer


def test_the_costs_of_a_replay_can_be_measured(capsys):
    runpy.run_path(str(Path(__file__).with_name("replays.py")))["main"](calls=2, turns=1)
    assert len(capsys.readouterr().out.splitlines()) == 12
