"""``compile-api cache show|clear``: what is kept on disk between processes."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from inductor.options import Options


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("cache", help="show or clear the folder of built kernels")
    parser.add_argument("action", choices=["show", "clear"])
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    folder = Options.read(None).cache_folder()
    if not folder.is_dir():
        print(f"{folder} does not exist: nothing has been compiled yet, or COMPILE_API_CACHE names another folder")
        return 0
    return show(folder) if chosen.action == "show" else clear(folder)


def show(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file()]
    by_kind: dict[str, list[Path]] = {}
    for path in files:
        by_kind.setdefault(path.suffix or "other", []).append(path)
    print(f"{folder}: {len(files)} files, {_size(files) / 1e6:.1f} MB")
    for kind, paths in sorted(by_kind.items()):
        oldest = (time.time() - min(path.stat().st_mtime for path in paths)) / 86400
        print(f"  {kind:8} {len(paths):6} files {_size(paths) / 1e6:9.2f} MB, the oldest {oldest:.1f} days")
    return 0


def clear(folder: Path) -> int:
    """Processes that run keep what they have loaded; the next ones build anew."""
    if not _is_ours(folder):
        print(f"{folder} holds what no compiler of ours wrote, so it is left alone: remove it by hand", file=sys.stderr)
        return 2
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = _size(files)
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    print(f"removed {len(files)} files, {size / 1e6:.1f} MB, from {folder}")
    return 0


_OURS = {".so", ".cpp", ".cc", ".py", ".txt", ".json", ".cubin", ".ptx", ".pt", ".bin", ".lock", ".ir", ".fx", ".tmp"}


def _is_ours(folder: Path) -> bool:
    """A mistyped COMPILE_API_CACHE must not cost a home folder: only known kinds of files, and no hidden ones."""
    if folder.resolve() in (Path.home(), Path("/"), Path.cwd()):
        return False
    return all(path.suffix in _OURS or path.suffix == "" for path in folder.rglob("*") if path.is_file())


def _size(paths: list[Path]) -> int:
    return sum(path.stat().st_size for path in paths)
