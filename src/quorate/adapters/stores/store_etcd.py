"""The store in etcd: blocks as keys, older blocks in an archive, snapshots on this machine.

Several programs may write: at each head, the first append succeeds, and all other appends get an
error. The files on this machine are the lock, the snapshot with the archived runs
(``archive_file.py``), and other files of the service. Their paths have the prefix ``local`` of the
URL, and only one program at a time may use them. Whenever a segment of older blocks moves to the
archive, a snapshot is published there, too. A machine without a snapshot starts from a published
one.

docs/adr/0045 gives the reasons.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Final, Self

import msgspec

from quorate.adapters.etcd.election import Candidate, Election, Look
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Delete, Get, Put, Row, Txn, after_prefix
from quorate.adapters.etcd.etcd_watch import KeyWatch
from quorate.adapters.etcd.leadership import Following, Standing, Timers
from quorate.adapters.etcd.lease_bound import LeaseBound
from quorate.adapters.etcd.membership import EtcdMembership
from quorate.adapters.file_errors import translated
from quorate.adapters.s3.archive_s3 import S3Archive
from quorate.adapters.stores.archive_file import (
    ArchiveFile,
    archive_path,
    copy_archive,
    remove_archive,
)
from quorate.adapters.stores.archive_folder import ArchiveFolder
from quorate.adapters.stores.etcd_append import EtcdAppender, fence_of
from quorate.adapters.stores.etcd_moved import EtcdMove
from quorate.adapters.stores.etcd_reading import EtcdReader
from quorate.adapters.stores.etcd_records import EtcdKeys, head_of
from quorate.adapters.stores.etcd_turns import LEAVE_S, EtcdTurns
from quorate.adapters.stores.etcd_upkeep import SEGMENT_BYTES, EtcdUpkeep
from quorate.adapters.stores.sqlite_file import check_directory
from quorate.adapters.stores.writer_lock import WriterLock
from quorate.ledger.archive import ArchivedRow, RowQuery
from quorate.ledger.chain import GENESIS, Block, Head, sound_end
from quorate.ledger.checkpoint import Checkpoint
from quorate.ports.errors import (
    LedgerNotFoundError,
    QuorateError,
    SegmentError,
    StoreError,
    StoreReadOnlyError,
)
from quorate.ports.leader_port import MemberRecord
from quorate.prepared_types import prepared

_LOG = logging.getLogger(__name__)

MEMBERS_S: Final = 2.0
"""The time limit of a read of the list of services; other callers wait during the read."""


class EtcdStore:
    """A ledger in etcd. Made by ``create``, ``open`` (for writing) or ``read``."""

    is_shared = True

    def __init__(
        self,
        address: EtcdAddress,
        *,
        lock: WriterLock | None = None,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._address = address
        self._lock = lock
        # Where the ledger ends for a reader that does not follow it; None for other stores.
        self._end: Head | None = None
        self._keys = keys = EtcdKeys(address.name)
        self._client = client = EtcdClient(address)
        bucket = None if address.bucket is None else S3Archive(address.bucket)
        self._bucket = bucket
        files = ArchiveFolder(address.archive) if bucket is None else bucket
        self._bound = bound = LeaseBound(client)
        self._reader = EtcdReader(bound, files, keys, address.place)
        leave = partial(client.commit, within_s=LEAVE_S)
        turns = EtcdTurns(bound, keys, self._until_moved, leave)
        self._appender = EtcdAppender(bound, keys, address.place, turns)
        self._move = EtcdMove(client, keys, address.place)
        self._upkeep = EtcdUpkeep(client, files, keys, address.place, segment_bytes=segment_bytes)
        self._archive = ArchiveFile(address.local, is_kept_open=True)
        self._watch: KeyWatch | None = None
        self._watching = Lock()
        self._leader_watches: list[KeyWatch] = []

    @classmethod
    def create(cls, address: EtcdAddress, *, segment_bytes: int = SEGMENT_BYTES) -> Self:
        """Return the store of a new, empty ledger; raises ``LedgerExistsError``."""
        with ExitStack() as undo:
            lock = _locked(address.local, 0.0, undo)
            store = cls(address, lock=lock, segment_bytes=segment_bytes)
            undo.callback(store.close)
            store._appender.create()
            # A snapshot of an earlier ledger with this name does not belong to the new ledger.
            with translated(address.local):
                remove_archive(address.local)
            undo.pop_all()
            return store

    @classmethod
    def open(
        cls, address: EtcdAddress, *, wait_s: float = 0.0, segment_bytes: int = SEGMENT_BYTES
    ) -> Self:
        """Return the store of an existing ledger, for reading and writing.

        Raises ``LedgerHeldError`` if another process still holds the files of this machine after
        ``wait_s``, and ``LedgerMovedError`` if the ledger was moved. An etcd that has run out of
        space is compacted and defragmented.
        """
        with ExitStack() as undo:
            lock = _locked(address.local, wait_s, undo)
            store = cls(address, lock=lock, segment_bytes=segment_bytes)
            undo.callback(store.close)
            store._reader.head()
            store._move.check_not_moved()
            store._upkeep.recover_space()
            undo.pop_all()
            return store

    @classmethod
    def read(
        cls, address: EtcdAddress, *, is_following: bool = True, within_s: float | None = None
    ) -> Self:
        """Return the store of an existing ledger, for reading only; writers are not blocked.

        If ``is_following`` is False, the store ends where the ledger ends now. If ``within_s`` is
        given, the store asks etcd for this end only once, with this time limit.
        """
        with ExitStack() as undo:
            store = cls(address)
            undo.callback(store.close)
            head = store.look_at_head(within_s=within_s)
            store._end = None if is_following else head
            undo.pop_all()
            return store

    def head(self) -> Head:
        """Return the present end of the log, as a quorum of etcd has it."""
        return self._end or self._reader.head()

    def wait_for(self, seq: int, *, within_s: float) -> Head:
        """Return the head as soon as the log has event ``seq``, or after ``within_s``.

        The call only waits for a watch of etcd, and sends no request. So the head may be out of
        date by the delay of the watch.
        """
        place = self._address.place

        def has(row: Row | None, _: int) -> bool:
            return row is not None and head_of(row, place).seq >= seq

        row, _ = self._head_watch().wait(has, within_s)
        if row is None:
            raise LedgerNotFoundError(place)
        return head_of(row, place)

    def look_at_head(self, *, within_s: float | None) -> Head:
        """Return the present head, as a quorum of etcd has it; each call asks one member once."""
        rows = self._client.get(Get(self._keys.head), within_s=within_s)
        if not rows:
            raise LedgerNotFoundError(self._address.place)
        return head_of(rows[0], self._address.place)

    def stand_for_leader(
        self,
        name: str,
        service: str,
        *,
        grpc: str = "",
        timers: Timers | None = None,
        on_change: Callable[[Standing], None] = lambda _: None,
    ) -> Election:
        """Return a candidate called ``name`` with the address ``service``; the caller starts it.

        From now on this store appends only while the candidate leads. A change of the leader takes
        effect for appends before ``on_change`` is called with the candidate's new standing.
        """
        self._check_writable()
        keys = self._keys
        watch = KeyWatch(self._client, keys.leader)
        self._leader_watches.append(watch)

        def look(after: int, within_s: float) -> Look:
            row, revision = watch.wait(lambda _, at: at > after, within_s)
            return Look(row, revision)

        def changed(standing: Standing) -> None:
            self._appender.fence = fence_of(keys.leader, standing)
            on_change(standing)

        changed(Following(leader=None))
        candidate = Candidate(
            name=name, address=service, leader_key=keys.leader, term_key=keys.term, grpc=grpc
        )
        return Election(self._client, candidate, look, timers=timers, on_change=changed)

    def act_within(self, left_s: Callable[[], float] | None) -> None:
        """Set the time limit of reads and writes of ledger blocks; see ``LedStore``."""
        self._bound.bind(left_s)

    def join(self, member: MemberRecord) -> EtcdMembership:
        """Add ``member`` to the services of this ledger, until the returned object is closed."""
        key = self._keys.members + member.name.encode()
        return EtcdMembership(self._client, key, msgspec.json.encode(member))

    def members(self) -> list[MemberRecord]:
        """Return the services of this ledger that renewed their entry lately, by name."""
        keys = self._keys.members
        found = self._bound.get(Get(keys, after_prefix(keys)), within_s=MEMBERS_S)
        try:
            return [msgspec.json.decode(row.value, type=prepared(MemberRecord)) for row in found]
        except msgspec.DecodeError as error:
            what = f"{self._address.place}: the entry of a service is unreadable: {error}"
            raise StoreError(what) from error

    def check_unserved(self) -> None:
        """Raise ``LedgerServedError`` if services serve this ledger; see ``MovedStore``."""
        self._move.check_unserved()

    def mark_moved(self, head: Head, target: str) -> None:
        """Refuse all later appends; see ``MovedStore``."""
        self._check_writable()
        self._move.mark(head, target)

    def kept_end(self) -> Checkpoint | None:
        """Return None: only the quorum of etcd records the end; see ``EventStore``."""
        return None

    def verified_head(self) -> Head:
        """Return the head after the archived blocks; see ``EventStore``.

        etcd has the hashes of the files with these blocks, and each read of a file compares them.
        """
        segments = self._reader.segments()
        return segments[-1].head if segments else GENESIS

    def append(self, block: Block, *, expected: Head) -> None:
        """Append ``block`` in one transaction; see ``EventStore``."""
        self._check_writable()
        self._appender.append(block, expected)

    def take_turn(self) -> None:
        """Wait until no other writer can append before this one; see ``TurnStore``."""
        self._check_writable()
        self._appender.take_turn()

    def end_turn(self) -> None:
        """Let other writers append; see ``TurnStore``."""
        self._appender.end_turn()

    def append_all(self, blocks: Iterable[Block]) -> Head:
        """Append ``blocks`` and return the head; see ``EventStore``."""
        self._check_writable()
        return self._appender.append_all(blocks)

    def blocks(self, *, from_height: int = 1) -> Iterator[Block]:
        """Yield the blocks from ``from_height`` on; see ``EventStore``."""
        assert from_height >= 1, from_height
        return self._reader.blocks(from_height, self.head().height)

    def height_at(self, seq: int) -> int:
        """Return the height of the block that holds event ``seq``; see ``EventStore``."""
        head = self.head()
        assert 1 <= seq <= head.seq, (seq, head.seq)
        return self._reader.height_at(seq, head.height)

    def sound_head(self) -> Head:
        """Return the end of the valid chain of blocks; later blocks may be damaged or missing."""
        return sound_end(self._readable())

    def save_snapshot(
        self,
        head: Head,
        payload: bytes,
        ended: Iterable[ArchivedRow] = (),
        *,
        base_seq: int = 0,
    ) -> None:
        """Store ``payload`` as the state at ``head``, and the archived runs ``ended``.

        See ``EventStore``. Then whole segments of blocks up to ``head`` move to the archive. If
        this fails, the snapshot is kept, and the blocks move with a later snapshot.
        """
        self._check_writable()
        with translated(self._address.local):
            self._archive.save(head, payload, ended, base_seq=base_seq)
        try:
            # The snapshot may belong to another log, which may be longer than this one.
            if self._upkeep.close_segments(min(head.height, self._reader.head().height)):
                self._publish(head)
        except QuorateError as error:
            _LOG.warning(
                "%s: old blocks or the snapshot did not reach the archive: %s",
                self._address.place,
                error,
            )

    def load_snapshot(self) -> tuple[Head, bytes] | None:
        """Return this machine's snapshot; None if this machine has no snapshot.

        A writer first replaces the snapshot by a newer published snapshot, if there is one.
        """
        head = self.head()
        kept = self._kept_snapshot(head)
        if self._lock is not None and self._took_published(head, kept):
            kept = self._kept_snapshot(head)
        return kept

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name``; see ``EventStore``."""
        return self._archive.run(name, upto_seq)

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of archived runs; see ``EventStore``."""
        return self._archive.names(query)

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return rows of archived runs; see ``EventStore``."""
        return self._archive.rows(query)

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived; see ``EventStore``."""
        return self._archive.count(owner, upto_seq)

    def check_writable(self) -> None:
        """Raise a ``StoreError`` unless etcd accepts a write."""
        key = self._keys.prefix + b"check"
        self._client.commit(Txn(compare=(), then=(Put(key, b""),)))

    def remove(self) -> None:
        """Remove every key of the ledger from etcd, and this machine's snapshot.

        The archive of the segments stays.
        """
        prefix = self._keys.prefix
        self._client.commit(Txn(compare=(), then=(Delete(prefix, after_prefix(prefix)),)))
        with translated(self._address.local):
            remove_archive(self._address.local)

    def close(self) -> None:
        """Release all resources; see ``EventStore``."""
        try:
            for watch in (*self._leader_watches, *([self._watch] if self._watch else ())):
                watch.close()
            self._archive.close()
            self._client.close()
            if self._bucket is not None:
                self._bucket.close()
        finally:
            if self._lock is not None:
                self._lock.release()

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the store."""
        self.close()

    def _head_watch(self) -> KeyWatch:
        """Return the watch of the head's key, which begins with the first call."""
        with self._watching:
            if self._watch is None:
                self._watch = KeyWatch(self._client, self._keys.head)
            return self._watch

    def _until_moved(self, revision: int, within_s: float) -> int:
        """Wait until the head has changed after ``revision``; see ``EtcdTurns``."""
        try:
            row, _ = self._head_watch().wait(
                lambda row, _: row is not None and row.mod_revision > revision, within_s
            )
        except StoreError as error:
            # The caller reads etcd next, and gets the error if it persists.
            _LOG.debug("the head is not watched yet: %s", error)
            return revision
        return revision if row is None else max(revision, row.mod_revision)

    def _readable(self) -> Iterator[Block]:
        """Yield the blocks up to the first segment that cannot be read."""
        try:
            yield from self.blocks()
        except SegmentError as error:
            _LOG.warning("%s", error)

    def _check_writable(self) -> None:
        if self._lock is None:
            raise StoreReadOnlyError(f"{self._address.place} was opened for reading")

    def _kept_snapshot(self, head: Head) -> tuple[Head, bytes] | None:
        """Return this machine's snapshot if it belongs to the log that ends at ``head``."""
        try:
            with translated(self._address.local):
                kept = self._archive.load()
                if kept is not None and not self._is_of_log(kept[0], head):
                    raise StoreError("it belongs to another ledger")
        except QuorateError as error:
            _LOG.warning("the snapshot was ignored: %s", error)
            return None
        return kept

    def _is_of_log(self, found: Head, head: Head) -> bool:
        return found.height <= head.height and self._reader.is_at(found)

    def _publish(self, head: Head) -> None:
        """Copy the snapshot of this machine, with all archived runs, to the archive."""
        draft = self._draft()
        try:
            copy_archive(self._address.local, draft)
            self._upkeep.publish_snapshot(head.height, draft)
        finally:
            draft.unlink(missing_ok=True)

    def _took_published(self, head: Head, kept: tuple[Head, bytes] | None) -> bool:
        """Replace the snapshot ``kept`` by a newer published one; return False if none is newer."""
        height = 0 if kept is None else kept[0].height
        try:
            for published, name in self._upkeep.published_snapshots():
                if height < published <= head.height:
                    self._fetch(name)
                    _LOG.info("%s: starts from the snapshot %s", self._address.place, name)
                    return True
        except QuorateError as error:
            _LOG.warning("no published snapshot was used: %s", error)
        return False

    def _fetch(self, name: str) -> None:
        """Replace this machine's snapshot by the published snapshot ``name``."""
        draft = self._draft()
        try:
            self._upkeep.fetch_snapshot(name, draft)
            self._archive.replace(draft)
        finally:
            draft.unlink(missing_ok=True)

    def _draft(self) -> Path:
        path = archive_path(self._address.local)
        return path.with_name(f"{path.name}.draft")


def _locked(local: Path, wait_s: float, undo: ExitStack) -> WriterLock:
    """Return the lock of the files with the prefix ``local``; ``undo`` releases it."""
    with translated(local):
        check_directory(local.parent)
        lock = WriterLock(local, wait_s=wait_s)
    undo.callback(lock.release)
    return lock
