"""A module imports only from layers above it in the README's list, and never from the peer."""

import ast
import re
from pathlib import Path

import aotgrad

SOURCE = Path(aotgrad.__file__).parent
README = Path(__file__).parents[1] / "README.md"


def layers():
    listing = re.search(r"## The layers\n.*?```\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    return [
        line.split()[0].removesuffix(".py").removesuffix("/")
        for line in listing.splitlines()
        if line and line[0] != " "
    ]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def owner(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def test_every_module_is_in_the_list():
    assert {owner(path) for path in SOURCE.rglob("*.py")} == {*layers(), "__init__"}


def test_imports_go_up():
    order = {name: index for index, name in enumerate(layers())}
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "__init__.py":
            used = {name.split(".")[1] for name in imports(path) if name.startswith("aotgrad.")}
            assert all(order[name] <= order[owner(path)] for name in used), path


def test_the_peer_is_not_imported():
    banned = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.export", "torch.compile")
    assert not [name for path in SOURCE.rglob("*.py") for name in imports(path) if name.startswith(banned)]
