"""The store of one use of ``optimize``: asked before a frame is evaluated, and given what evaluation made.

Where files are, how many, and who may write them is the caller's matter.  Whatever goes wrong with a store costs time
and nothing else: the frame is evaluated as if there were none, and a ``StoreRecord`` tells why.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Protocol

from capture import _engine
from capture import state as state_of_process
from capture.bytecode.resume import NOWHERE, Continuations
from capture.entry.cache import CodeState
from capture.entry.translate import Backend
from capture.entry.translation import Translation
from capture.errors import Location, words_of
from capture.guards.guard import to_spec
from capture.guards.sources import Inputs
from capture.log import Log, StoreRecord
from capture.options import Options
from capture.program_settings import program_settings
from capture.signals import let_through
from capture.silence import looking
from capture.stored.code import Parts
from capture.stored.contents import Contents, NotStored
from capture.stored.keys import key_of
from capture.stored.reach import refuse_operators
from capture.stored.versions import Around, Made, Reading, Taken, varies, written


class Store(Protocol):
    """A place in which versions are kept as bytes."""

    @property
    def settings(self) -> str:
        """All else that the results depend on: the backend's options and release, flags of torch's that it reads."""

    def find(self, key: str) -> Sequence[bytes]:
        """The versions that were kept under the key, the newest first."""

    def keep(self, key: str, data: bytes) -> None:
        """Keeps one more version."""


class Owner(Protocol):
    """The configuration, of which this holds no reference."""

    backend: Backend
    continuations: Continuations
    options: Options
    log: Log


class Storing:
    """The store as one configuration asks it; what comes of that is recorded."""

    def __init__(self, owner: Owner, store: Store) -> None:
        self._owner: Callable[[], Owner | None] = weakref.ref(owner)
        self.store = store

    def _asked(self) -> Owner:
        owner = self._owner()
        assert owner is not None
        return owner

    def _tell(self, location: Location, outcome: str, explanation: str = "") -> None:
        self._asked().log.add(StoreRecord(location, outcome, explanation))

    def note_key(self, inputs: Inputs, state: CodeState) -> None:
        """Notes the key as it is before an evaluation, in which torch may register more kernels."""
        state.key = None
        try:
            state.key = self._key(inputs.function)
        except Exception as error:  # noqa: BLE001 - whoever asks for the key, or keeps a version, meets it again
            let_through(error)

    # -- taking up ---------------------------------------------------------------------------------------------------

    def take_up(self, inputs: Inputs, state: CodeState, location: Location) -> tuple[Taken, _engine.Guards] | None:
        """The first stored version whose contents are here and whose guards hold; one with nothing open first."""
        if state.versions and program_settings().recompiling_is_an_error:
            return None
        try:
            key = state.key or self._key(inputs.function)
            found = self.store.find(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, evaluation goes on as without a store
            self._refused(error, location)
            return None
        # Of this moment: objects are compared as they are when the version is taken up.
        contents = Contents()
        for data in self._in_order(key, found):
            try:
                taken = self._tried(data, inputs, state, contents)
            except Exception as error:  # noqa: BLE001 - whatever it is, evaluation goes on as without a store
                self._refused(error, location)
                continue
            state_of_process.PROCESS.taken_up[key] = hash(data)
            self._tell(location, "taken up")
            return taken
        return None

    def _in_order(self, key: str, found: Sequence[bytes]) -> list[bytes]:
        """The versions of a key as they are tried: those with nothing open first.

        Equal layers, each compiled by itself, ask one after another: the next one's version lies beside the last one's.
        """
        last = state_of_process.PROCESS.taken_up.get(key)
        places = {hash(data): place for place, data in enumerate(found)}
        start = places.get(last, 0) if last is not None else 0
        near = sorted(range(len(found)), key=lambda place: abs(place - start))
        return sorted((found[place] for place in near), key=varies)

    def _tried(self, data: bytes, inputs: Inputs, state: CodeState, contents: Contents) -> tuple[Taken, _engine.Guards]:
        """The stored version, if it can be read here and its guards hold."""
        owner = self._asked()
        reading = Reading(data, inputs, contents)
        guards = _engine.Guards(*to_spec(reading.guards))
        with looking():
            failed = guards.first_failure(inputs.function, inputs.args)
            if failed is not None:
                raise NotStored(str(reading.guards[failed].failure(inputs)))
            if not guards.check(inputs.function, inputs.args):
                raise NotStored("its guards do not hold")
        strict, nopython, learnt = owner.options.strict, owner.options.nopython, state.learnt
        # Only now that guards hold is anything made: the backend may load code.
        around = Around(owner.backend, owner.continuations, owner.log, learnt.be_cautious, strict, nopython)
        return reading.rest(around), guards

    def _key(self, function: FunctionType) -> str:
        owner = self._asked()
        return key_of(function, owner.continuations, owner.options, self.store.settings)

    def _refused(self, error: Exception, location: Location) -> None:
        let_through(error)
        self._tell(location, "refused", str(error) if isinstance(error, NotStored) else words_of(error))

    # -- keeping -----------------------------------------------------------------------------------------------------

    def keep(
        self, inputs: Inputs, state: CodeState, made: Translation, guards: _engine.Guards, location: Location
    ) -> None:
        """Gives a version to the store, if it has a stored form and its guards hold still.

        Under the key from before it was evaluated, by which others will ask.
        """
        try:
            data = self._written(inputs, made)
            with looking():
                holds = guards.check(inputs.function, inputs.args)
            if not holds:
                raise NotStored("what it relies on changed meanwhile")
            self.store.keep(state.key or self._key(inputs.function), data)
        except Exception as error:  # noqa: BLE001 - whatever it is, evaluation goes on as without a store
            let_through(error)
            self._tell(location, "not stored", str(error) if isinstance(error, NotStored) else words_of(error))
        else:
            self._tell(location, "stored")

    def _written(self, inputs: Inputs, made: Translation) -> bytes:
        owner, frame = self._asked(), inputs.function.__code__
        if made.once and (made.stopped is not None or owner.continuations.original(frame).is_continuation):
            raise NotStored("its own effects change what it relies on, and it goes on behind a break")
        if made.recheck is not None:
            raise NotStored("it takes locks of the program")
        if made.of_this_process:
            raise NotStored(made.of_this_process[0])
        if made.graph is not None:
            refuse_operators(made.graph)
        place = owner.continuations.original(frame).place
        places = frozenset(map(place, made.visited)) - {NOWHERE}
        version = Made(
            None if made.once else made.code,
            made.guards,
            Parts() if made.once else made.parts,
            made.entered,
            made.operators,
            places,
            made.broke,
            made.stopped is not None,
            made.changed,
            made.once,
            made.asked,
            made.tables,
            made.varies,
        )
        return written(version, inputs.function, owner.backend, owner.continuations)
