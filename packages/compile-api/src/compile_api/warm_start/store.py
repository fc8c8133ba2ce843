"""The store of versions of frames: files in the cache of the kernels that they call, under its bound and its rules.

One file for each key, with its versions one after another, the newest first:

    compile-api frames 1        which format
    <length>                    of the version that follows, in bytes
    <the version>               as capture writes it

A file appears by a rename and ends with a digest of itself, as every entry of that cache does.  Of two processes that
add to one file at once, the later one may leave out what the other added: that is traced once more.
Must not know what is in a version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import fields

import inductor
from compile_api.options import CompileOptions
from compile_api.warm_start.sources import sources_of

FORMAT = b"compile-api frames 1\n"
MOST = 128
"""The number of versions of one frame that are kept."""
_OF_NO_MATTER = frozenset({"warm_start", "trace", "debug", "check"})
"""Options that decide whether there is a store, and nothing of what is in it."""
_PACKAGES = ("aotgrad", "compile_api", "cudagraphs")


class FrameStore:
    """The place where capture looks for versions, and leaves new ones."""

    def __init__(self, options: CompileOptions, backend: str) -> None:
        self._meant = repr(
            [backend, *((each.name, getattr(options, each.name)) for each in fields(options) if _matters(each.name))]
        )

    @property
    def settings(self) -> str:
        """A digest of everything else that decides what a frame becomes, as it is now."""
        around = inductor.surroundings(inductor.Options.read(None))
        return hashlib.sha256("\n".join((self._meant, around, sources_of(_PACKAGES))).encode()).hexdigest()

    def find(self, key: str) -> Sequence[bytes]:
        data = cache().find_data(name_of(key))
        return [] if data is None else list(versions(data))

    def keep(self, key: str, data: bytes) -> None:
        kept = cache()
        found = kept.find_data(name_of(key))
        # The newest comes first and the oldest falls off; one that is there already moves to the front.
        known = [] if found is None else [each for each in versions(found) if each != data]
        kept.keep_data(name_of(key), joined([data, *known[: MOST - 1]]))


def _matters(name: str) -> bool:
    return name not in _OF_NO_MATTER


def cache() -> inductor.Cache:
    """Opened for each use: the folder may have been moved, removed or closed since."""
    options = inductor.Options.read(None)
    return inductor.Cache(options.cache_folder(), options.cache_bytes)


def name_of(key: str) -> str:
    """The file's name."""
    return f"{key[:40]}.frame"


def joined(data: Sequence[bytes]) -> bytes:
    return FORMAT + b"".join(b"%d\n%b" % (len(each), each) for each in data)


def versions(data: bytes) -> Iterator[bytes]:
    """The versions of one file; none of one in another format, and no more where it is not what it says."""
    if not data.startswith(FORMAT):
        return
    at = len(FORMAT)
    while at < len(data):
        # A length has no more digits than that: a damaged file is not searched to its end.
        end = data.find(b"\n", at, at + 20)
        length = data[at:end] if end > 0 else b""
        if not length.isdigit() or end + 1 + int(length) > len(data):
            return
        at = end + 1 + int(length)
        yield data[end + 1 : at]
