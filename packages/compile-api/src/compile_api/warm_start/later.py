"""Compiled backward graphs, found by the names that aotgrad has for them: its graph need not be read.

Backward is compiled when somebody first goes back, long after its version was stored: so its key is in a file of its
own, beside the kernels.  That is named by all that the version is named by, and by what is in force then.
Must not know: what a backward graph is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from capture import NotStored, let_deliveries_through
from compile_api.ledger import Ledger
from compile_api.warm_start.artefacts import Artefacts
from compile_api.warm_start.joined import loaded, of_compiled
from compile_api.warm_start.store import FrameStore, cache


@dataclass(frozen=True, slots=True)
class KeptBackward:
    """The store that aotgrad asks for compiled backward graphs, and keeps them in."""

    store: FrameStore
    artefacts: Artefacts
    ledger: Ledger

    def find(self, name: str) -> Callable[[list[object]], Sequence[object]] | None:
        try:
            kept = cache().find_data(self._file(name))
            return None if kept is None else loaded(json.loads(kept), self.artefacts, self.ledger)
        except NotStored:
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, backward is compiled
            let_deliveries_through(error)
            return None

    def keep(self, name: str, compiled: Callable[[list[object]], Sequence[object]]) -> None:
        try:
            cache().keep_data(self._file(name), json.dumps(of_compiled(compiled, self.artefacts)).encode())
        except NotStored:
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, another process compiles it
            let_deliveries_through(error)

    def _file(self, name: str) -> str:
        return hashlib.sha256(f"{self.store.settings}\n{name}".encode()).hexdigest()[:40] + ".later"
