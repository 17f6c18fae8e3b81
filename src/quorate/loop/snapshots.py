"""Snapshots of an engine's state, written on the engine's thread or on another thread.

If there is another thread, the thread that owns the state copies only the live part of the state.
The other thread encodes and writes the copy, so the next block does not wait for the snapshot.
After the snapshot is stored, the thread that owns the state removes the archived runs from the
state.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Thread
from typing import Final

from quorate.ledger.archive import RunArchive
from quorate.ledger.chain import Head
from quorate.ledger.snapshot import Cut, cut
from quorate.model.state.state import State
from quorate.ports.errors import QuorateError, StoreReadOnlyError
from quorate.ports.store_port import EventStore

_LOG = logging.getLogger(__name__)

CLOSE_S_MAX: Final = 5.0
"""How long closing a ledger waits for a snapshot that is being written."""


@dataclass(slots=True)
class _Writing:
    """A snapshot that is being written: its state and head, and the error if writing failed."""

    state: State
    head: Head
    made: Cut
    is_kept: bool = False
    error: Exception | None = None


class Snapshots:
    """Stores snapshots of a state; used by the state's owner only.

    If ``is_beside`` is true, snapshots are written on a separate thread, one at a time.
    """

    def __init__(self, store: EventStore) -> None:
        self.is_beside = False
        self._store = store
        self._writing: _Writing | None = None
        self._thread: Thread | None = None

    def begin(self, state: State, head: Head) -> None:
        """Begin a snapshot of ``state`` at ``head``; no other snapshot may be under way."""
        assert self._writing is None, "one snapshot at a time"
        writing = self._writing = _Writing(state, head, cut(state))
        if self.is_beside:
            # The program may end while this daemon thread writes, because a snapshot is stored
            # whole or not at all.
            self._thread = Thread(target=self._write, args=(writing,), name="snapshot", daemon=True)
            self._thread.start()
        else:
            self._write(writing)
            self.settle()

    def settle(self) -> bool:
        """Return, without waiting, whether a new snapshot may begin: no other is being written.

        If a snapshot was stored since the last call, remove from the state the runs that the
        snapshot archived.
        """
        writing = self._writing
        if writing is None:
            return True
        if self._thread is not None and self._thread.is_alive():
            return False
        self._writing = self._thread = None
        self._release(writing)
        if not writing.is_kept:
            _log_failure(writing)
        return True

    def wait(self, within_s: float | None = None) -> bool:
        """Wait for a snapshot that is being written; return whether it is finished."""
        if self._thread is not None:
            self._thread.join(within_s)
        return self.settle()

    def keep_on_the_way(self, state: State, head: Head) -> bool:
        """Store a snapshot of ``state`` while the log is still being read.

        Return whether the snapshot is stored. A store that was opened for reading stores no
        snapshot.
        """
        writing = _Writing(state, head, cut(state))
        self._write(writing)
        self._release(writing)
        if not writing.is_kept and not isinstance(writing.error, StoreReadOnlyError):
            _log_failure(writing)
        return writing.is_kept

    def _write(self, writing: _Writing) -> None:
        """Write a snapshot, on any thread."""
        made = writing.made
        try:
            self._store.save_snapshot(
                writing.head, made.payload, made.rows(), base_seq=made.base_seq
            )
        except Exception as error:  # noqa: BLE001 - ``settle`` logs the error on the owner's thread
            writing.error = error
        else:
            writing.is_kept = True

    def _release(self, writing: _Writing) -> None:
        """Remove the runs that the snapshot archived; if it was not stored, only unfreeze runs."""
        made, runs = writing.made, writing.state.runs
        if writing.is_kept and made.archived:
            archive = RunArchive(self._store, upto_seq=made.seq, size=made.archived)
            runs.archived((record.spec.name for record in made.over), archive)
        else:
            runs.thaw()


def _log_failure(writing: _Writing) -> None:
    """Log why a snapshot was not stored; an unexpected error is logged with its traceback.

    Every command is committed nevertheless. Without a snapshot only the next start takes longer.
    """
    is_expected = isinstance(writing.error, QuorateError)
    _LOG.log(
        logging.WARNING if is_expected else logging.ERROR,
        "no snapshot at sequence %d: %s",
        writing.head.seq,
        writing.error,
        exc_info=None if is_expected else writing.error,
    )
