"""A module imports only from layers above it in the README's list, and never from the peer."""

import ast
import re
from pathlib import Path

import aotgrad

SOURCE = Path(aotgrad.__file__).parent
README = Path(__file__).parents[1] / "README.md"


def listed():
    """The modules in their order; those of a room stand behind it, by both names."""
    listing = re.search(r"The list:\n\n```\n(.*?)```", README.read_text(), re.DOTALL).group(1)
    room = ""
    for line in listing.splitlines():
        name = line.split()[0].removesuffix("/")
        if line[0] != " ":
            room = name
        yield name if line[0] != " " else f"{room}.{name}"


LAYERS = list(listed())


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def layer_of(name):
    """What of the list a module is, or is in."""
    parts = name.split(".")
    return ".".join(parts[:2]) if ".".join(parts[:2]) in LAYERS else parts[0]


def name_of(path):
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def test_every_module_is_in_the_list():
    assert {layer_of(name_of(path)) for path in SOURCE.rglob("*.py")} == {*LAYERS, "__init__"}
    rooms = {layer.partition(".")[0] for layer in LAYERS if "." in layer}
    inside = {name_of(path) for room in rooms for path in (SOURCE / room).glob("*.py")}
    assert inside - rooms == {layer for layer in LAYERS if "." in layer}


def test_imports_go_up():
    for path in SOURCE.rglob("*.py"):
        if path != SOURCE / "__init__.py":
            used = {layer_of(name.removeprefix("aotgrad.")) for name in imports(path) if name.startswith("aotgrad.")}
            assert all(LAYERS.index(name) <= LAYERS.index(layer_of(name_of(path))) for name in used), path


def test_the_peer_is_not_imported():
    banned = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.export", "torch.compile")
    assert not [name for path in SOURCE.rglob("*.py") for name in imports(path) if name.startswith(banned)]
