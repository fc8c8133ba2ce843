"""The cache on disk: built kernels and compiled graphs, found by a digest of what they were built from.

An entry is a shared library followed by a digest of itself, beside the source it was built from.  It appears by a
rename, so it is whole or absent however many processes write at once; one that was damaged later is recognised and
rebuilt.  A folder that somebody named may hold other things: none but files of our own names is looked at or removed.
Nothing here is ever unpickled or executed but libraries from a folder that belongs to this user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from inductor.errors import CacheError

_DIGEST_SIZE = 32
_PRIVATE = 0o700
_KERNELS, _TALLY, _BUILDING = "kernels", "tally.txt", "building-"
_ABANDONED = 24 * 3600
"""Seconds after which a folder that was built in belongs to a process that died."""
_ENTRY = re.compile(r"[0-9a-f]{40}\.(so|cpp|py|cubin|shape|tiling|graph|frame|later)")
_PROBE = 1 << 18
"""The bytes written to find out whether there is room: about as many as a kernel has."""
_ROOM = 1 / 8
"""The part of the limit that is free after old entries were removed: a look at a full folder is paid for by many new
entries."""


def digest_of(name: str, data: bytes) -> bytes:
    """The digest at the end of a file: of its name too, as whole files may have been exchanged."""
    return hashlib.sha256(name.encode() + b"\0" + data).digest()


def is_whole(name: str, data: bytes) -> bool:
    """True if the bytes of a file end with its digest."""
    return digest_of(name, data[:-_DIGEST_SIZE]) == data[-_DIGEST_SIZE:]


def key_of(parts: Iterable[str]) -> str:
    """A name that depends on every part and on where each ends."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:40]


def cached_files(folder: Path) -> Iterator[Path]:
    """The files that caches in this folder wrote, those of builds under way among them."""
    yield from (path for path in (folder / _TALLY,) if path.is_file())
    for path in (folder / _KERNELS).glob("*"):
        if _ENTRY.fullmatch(path.name):
            yield path
        elif path.name.startswith(_BUILDING):
            yield from path.glob("*")


def remove_cached_files(folder: Path) -> None:
    """Removes every file that caches in this folder wrote.  Running processes keep what they have loaded; the next ones
    build anew."""
    for path in cached_files(folder):
        with contextlib.suppress(FileNotFoundError):  # another process removed it first
            path.unlink()
    for path in [*(folder / _KERNELS).glob(f"{_BUILDING}*"), folder / _KERNELS]:
        with contextlib.suppress(OSError):  # somebody else's things are in it
            path.rmdir()


class Cache:
    """A folder of entries, private to this user.  Where it cannot be written to, as on a full disk, a ``spare`` one
    keeps the entries, and ``on_failure`` gets the reason."""

    def __init__(
        self,
        folder: Path,
        limit_bytes: int,
        spare: Callable[[], Cache] | None = None,
        on_failure: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.spare = spare
        self.on_failure = on_failure
        self._instead_of_this: Cache | None = None
        self.folder = folder / _KERNELS
        self.tally = folder / _TALLY
        self.limit_bytes = limit_bytes
        _make_private(folder)
        _make_private(self.folder)

    def find(self, key: str) -> Path | None:
        """The path of the library with this key, if there is a whole one."""
        path = self.folder / f"{key}.so"
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheError(f"cannot read the kernel cache entry {path}: {error.strerror}") from error
        if not is_whole(path.name, data):
            return None
        _touch(path)
        return path

    def source_path(self, key: str) -> Path:
        return self.folder / f"{key}.cpp"

    def scratch(self) -> tempfile.TemporaryDirectory[str]:
        """A folder to build in, on the same file system as the entries."""
        try:
            return tempfile.TemporaryDirectory(dir=self.folder, prefix=_BUILDING)
        except OSError as error:
            raise CacheError(f"cannot write to the kernel cache {self.folder}: {error.strerror}") from error

    def keep(self, key: str, source: Path, library: Path) -> Path:
        """Takes over a freshly built library and its source, both from a scratch folder."""
        target = self.folder / f"{key}.so"
        try:
            digest = digest_of(target.name, library.read_bytes())
            with library.open("ab") as file:
                file.write(digest)
            size = library.stat().st_size + source.stat().st_size
            os.replace(source, self.source_path(key))
            os.replace(library, target)
        except OSError as error:
            raise CacheError(f"cannot keep a kernel in {self.folder}: {error.strerror}") from error
        self._grown(size, keeping=key)
        return target

    def has_room(self) -> bool:
        """True if a file as large as kernels are can be written."""
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(bytes(_PROBE))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            return False
        return True

    def keep_text(self, name: str, text: str) -> Path:
        """A file with this text; its name must depend on it."""
        path = self.folder / name
        try:
            if path.exists() and path.read_text(encoding="utf-8") == text:
                return path
            with self.scratch() as scratch:
                fresh = Path(scratch) / name
                fresh.write_text(text, encoding="utf-8")
                os.replace(fresh, path)
        except (OSError, CacheError) as error:
            return self._instead(error).keep_text(name, text)
        return path

    def _instead(self, error: OSError | CacheError) -> Cache:
        """The cache that keeps what this one cannot; raises where there is none."""
        if isinstance(error, OSError):
            text = f"cannot keep a kernel in {self.folder}: {error.strerror}"
            error = CacheError(text)
        if self.spare is None:
            raise error
        self.on_failure(str(error))
        self._instead_of_this = self.spare()
        return self._instead_of_this

    def find_data(self, name: str) -> bytes | None:
        """The bytes kept under a name, which must be a digest of everything they were made from; None if they are
        absent or damaged."""
        path = self.folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None if self._instead_of_this is None else self._instead_of_this.find_data(name)
        except OSError as error:
            failed = CacheError(f"cannot read the kernel cache entry {path}: {error.strerror}")
            return self._instead(failed).find_data(name)
        if not is_whole(name, data):
            return None
        _touch(path)
        return data[:-_DIGEST_SIZE]

    def keep_data(self, name: str, data: bytes) -> None:
        """Keeps bytes that this package reads itself, unlike libraries, which the loader opens."""
        try:
            with self.scratch() as scratch:
                fresh = Path(scratch) / name
                fresh.write_bytes(data + digest_of(name, data))
                os.replace(fresh, self.folder / name)
        except (OSError, CacheError) as error:
            self._instead(error).keep_data(name, data)
            return
        self._grown(len(data) + _DIGEST_SIZE, keeping=name)

    @staticmethod
    def content(name: str, data: bytes) -> bytes:
        """The kept part of the bytes of a file of this name; nothing of a file that is not whole."""
        return data[:-_DIGEST_SIZE] if is_whole(name, data) else b""

    def entries(self) -> Iterator[Path]:
        """The files of all entries."""
        yield from (path for path in sorted(self.folder.glob("*")) if _ENTRY.fullmatch(path.name))

    def take_over(self, name: str, data: bytes) -> bool:
        """A file of another cache, under its name there; whether it was not here yet."""
        if not _ENTRY.fullmatch(name):
            raise CacheError(f"{name!r} is no name of a cache entry")
        path = self.folder / name
        if path.exists():
            return False
        try:
            with self.scratch() as scratch:
                fresh = Path(scratch) / name
                fresh.write_bytes(data)
                os.replace(fresh, path)
        except OSError as error:
            raise CacheError(f"cannot keep a kernel in {self.folder}: {error.strerror}") from error
        self._grown(len(data), keeping=name)
        return True

    def _grown(self, size: int, keeping: str) -> None:
        """Counts a new entry; removes old ones where the folder may be too full, and at least once a day."""
        counted_at, held = _read_tally(self.tally)
        held += size
        if held > self.limit_bytes or not 0 <= time.time() - counted_at < _ABANDONED:
            try:
                counted_at, held = int(time.time()), self._evict(keeping)
            except OSError:  # somebody removed the folder, or closed it
                return
        with contextlib.suppress(OSError):  # the entry is kept; a later look counts it
            self.tally.write_text(f"{counted_at} {held}\n", encoding="utf-8")

    def _evict(self, keeping: str) -> int:
        """Removes the entries unused for longest where there are too many; returns the bytes that are left."""
        entries = []
        with os.scandir(self.folder) as found:
            for entry in found:
                if entry.name.startswith(_BUILDING):
                    _remove_abandoned(entry)
                if _ENTRY.fullmatch(entry.name):
                    status = _stat(entry)
                    if status is not None:
                        entries.append((status.st_mtime_ns, status.st_size, entry))
        held = sum(size for _, size, _ in entries)
        if held <= self.limit_bytes:
            return held
        # By the time of last use, which ``_touch`` sets; every file of the entry just made stays.
        for _, size, entry in sorted(entries, key=lambda item: item[0]):
            if held <= self.limit_bytes * (1 - _ROOM):
                break
            if not entry.name.startswith(keeping):
                Path(entry.path).unlink(missing_ok=True)
                held -= size
        return held


def _read_tally(path: Path) -> tuple[int, int]:
    """The time when the folder was last looked through, and about the bytes in it: processes may miss each other's."""
    try:
        counted_at, held = path.read_text(encoding="utf-8").split()
        return int(counted_at), int(held)
    except (OSError, ValueError):
        return 0, 0


def _make_private(folder: Path) -> None:
    """Makes the folder, or refuses one that others could have written to."""
    try:
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise CacheError(f"cannot make the kernel cache {folder}: {error.strerror}") from error
    if status.st_uid != os.getuid():
        raise CacheError(f"the kernel cache {folder} belongs to another user and is not used")
    if stat.S_IMODE(status.st_mode) & 0o022:
        _close(folder)


def _close(folder: Path) -> None:
    """Takes other users' permission to write away; refuses a folder with other things in it, which is not ours to
    change."""
    others = f"others may write to the kernel cache {folder}, so it is not used"
    if any(_is_foreign(path.name) for path in folder.iterdir()):
        raise CacheError(f"{others}: close it with chmod go-w, or let COMPILE_API_CACHE name another folder")
    try:
        folder.chmod(_PRIVATE)
    except OSError as error:
        raise CacheError(others) from error


def _is_foreign(name: str) -> bool:
    """True for a name that caches do not write."""
    known = name in (_KERNELS, _TALLY) or name.startswith(_BUILDING) or _ENTRY.fullmatch(name)
    return not known


def _remove_abandoned(entry: os.DirEntry[str]) -> None:
    status = _stat(entry)
    if status is not None and status.st_mtime < time.time() - _ABANDONED:
        shutil.rmtree(entry.path, ignore_errors=True)


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat()
    except FileNotFoundError:  # another process removed it first
        return None


def _touch(path: Path) -> None:
    """Marks the entry as used; a cache that may only be read keeps no such record."""
    try:
        os.utime(path)
    except OSError:
        return
