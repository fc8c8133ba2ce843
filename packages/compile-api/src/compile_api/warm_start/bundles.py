"""Bundles: all that a cache holds in one file, which another machine of the same kind takes up.

    compile-api bundle 1
    <sha256 of all that follows>
    <length of the index>
    {"files": [[name, length], ...]}
    the files, one after another, as they are in the cache

Loading a bundle is loading code, as installing a package is: its kernels and the code of its frames run when calls fit
them.  So whoever loads one has to trust who made it; nothing is ever loaded that was not asked for.
What was made by other releases, or for other processors, is loaded and never found; frames are found in programs whose
files lie where they lay.
Must not know: what is in the files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import inductor
from compile_api.errors import CompileApiError
from compile_api.warm_start.store import MOST, cache, joined, versions

_HEAD = b"compile-api bundle 1\n"


def save_cache(path: str | os.PathLike[str]) -> int:
    """Writes all that the cache holds into one file; how many entries those are."""
    names, parts = [], []
    for file in cache().entries():
        try:
            data = file.read_bytes()
        except FileNotFoundError:  # another process removed it
            continue
        names.append((file.name, len(data)))
        parts.append(data)
    index = json.dumps({"files": names}).encode()
    body = b"%d\n%b%b" % (len(index), index, b"".join(parts))
    target = Path(path)
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        fresh.write_bytes(_HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        os.replace(fresh, target)
    except OSError as error:
        raise CompileApiError(f"cannot write the bundle {target}: {error.strerror}") from error
    return len(names)


def load_cache(path: str | os.PathLike[str]) -> int:
    """Puts what a bundle holds into the cache, of which later processes take it up; how many entries were added.

    Loading a bundle is loading code: load none of which you do not know who made it.
    """
    try:
        found = Path(path).read_bytes()
    except OSError as error:
        raise CompileApiError(f"cannot read the bundle {os.fspath(path)}: {error.strerror}") from error
    try:
        return sum(_added(name, data) for name, data in _files(found, os.fspath(path)))
    except inductor.CacheError as error:
        raise CompileApiError(str(error)) from error


def _files(found: bytes, path: str) -> Iterator[tuple[str, bytes]]:
    start = len(_HEAD) + 65
    digest, body = found[len(_HEAD) : start - 1], memoryview(found)[start:]
    if not found.startswith(_HEAD) or hashlib.sha256(body).hexdigest().encode() != digest:
        raise CompileApiError(f"{path} is no bundle of this format, or damaged: nothing of it was loaded")
    length, _, _ = found[start : start + 20].partition(b"\n")
    at = start + len(length) + 1
    index = json.loads(found[at : at + int(length)])
    at += int(length)
    for name, size in index["files"]:
        yield name, found[at : at + size]
        at += size


def _added(name: str, data: bytes) -> bool:
    """Versions of a frame join those that are there."""
    kept = cache()
    if not name.endswith(".frame"):
        return kept.take_over(name, data)
    before = kept.find_data(name)
    if before is None:
        return kept.take_over(name, data)
    known = list(versions(before))
    more = [each for each in versions(inductor.Cache.content(name, data)) if each not in known]
    if more:
        kept.keep_data(name, joined([*known, *more][:MOST]))
    return bool(more)
