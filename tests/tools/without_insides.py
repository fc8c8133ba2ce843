"""Runs a plain function on a torch that seems to lack some of its insides: ``without_insides.py PACKAGE PATH...``.

The rows of these paths answer as they would on such a torch; torch itself, which needs its insides, keeps them.
"""

import importlib
import importlib.util
import sys
import warnings
from pathlib import Path

PACKAGES = ("capture", "aotgrad", "inductor", "cudagraphs", "compile_api")


def hide(package: str, paths: set[str]) -> None:
    """The package's module of rows, loaded ahead of the package, does not find these."""
    folder = Path(importlib.util.find_spec(package).submodule_search_locations[0])
    spec = importlib.util.spec_from_file_location(f"{package}.insides", folder / "insides.py")
    insides = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(insides)
    find = insides.Inside.find

    def found(row):
        if row.path in paths:
            raise insides._Missing(row.path)
        return find(row)

    insides.Inside.find = found


def main(package: str, *paths: str) -> None:
    hide(package, set(paths))
    warnings.simplefilter("ignore")
    import torch

    import compile_api

    def plain(x, w):
        return ((x @ w).relu() + x.sum(dim=-1, keepdim=True)).tanh()

    x, w = torch.randn(4, 5), torch.randn(5, 5, requires_grad=True)
    compiled = compile_api.compile(plain)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, w), plain(x, w), rtol=1e-5, atol=1e-6)
    (ours,) = torch.autograd.grad(compiled(x, w).sum(), w)
    (eager,) = torch.autograd.grad(plain(x, w).sum(), w)
    torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
    check_sentences(importlib.import_module(f"{package}.torch_versions").INSIDES, paths)


def check_sentences(insides, paths) -> None:
    """What is missing says so, in the table and where it is used; and the package says if nothing works without it."""
    lacking = insides.lacking()
    rows = {row.path: row for row in insides.rows.values()}
    for path in paths:
        assert lacking[path].endswith(rows[path].without)
        assert lacking[path] in use(insides.get(rows[path].name))
    assert bool(insides.unusable) >= any(rows[path].essential for path in paths)


def use(missing) -> str:
    try:
        missing()
    except Exception as error:  # noqa: BLE001 - each package has a kind of its own
        return f"{error} {getattr(getattr(error, 'reason', None), 'explanation', '')}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
