"""The archive of ended runs: the part of a snapshot that is written once, and read run by run.

A snapshot has the runs that are not over. Each run that was over when the snapshot was taken is a
row of the archive. Snapshot and archive are caches: the same data follows from the events, and
``ledger verify --deep`` compares both with the events. A row never changes. Each row names the
snapshot with which it was written, so that a reader of an earlier snapshot does not see later rows
(docs/adr/0033).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.errors import ArchiveError
from quorate.model.events import RunStopping, Tier
from quorate.model.refusal import Refusal
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.records import BackfillMark, Phase, RunRecord, Unstarted
from quorate.model.state.run_table import RunQuery

PAGE_ROWS: Final = 512
"""How many rows one query returns at most when many rows are read."""
READ_KEPT_MAX: Final = 2_048
"""How many archived runs are kept decoded in memory at most: those that were read last."""


class PackedRun(Struct, array_like=True, gc=False):
    """The stored form of a run, in a snapshot or in a row of the archive."""

    spec: Run
    seq: int
    submitted_ms: int
    phase: Phase
    refusal: Refusal | None
    refused_since_ms: int
    leases_ever: int
    charges: tuple[tuple[EnvelopeId, Tier, int], ...]
    started_ms: int | None
    ended_ms: int | None
    note: str
    stopping: RunStopping | None
    gpus_desired: int | None
    since_ms: int | None
    reservation: str | None
    reservations_ever: int
    backfills: tuple[BackfillMark, ...]
    waiting_seq: int
    cut_ms: int | None
    cut_by: str
    via_conflict: str
    steps_cut_by: str
    has_overstayed: bool = False
    unstarted: Unstarted | None = None


def pack_run(record: RunRecord) -> PackedRun:
    """Return the stored form of ``record``; its open leases are stored separately."""
    return PackedRun(
        record.spec,
        record.seq,
        record.submitted_ms,
        record.phase,
        record.refusal,
        record.refused_since_ms,
        record.leases_ever,
        tuple((payer, tier, gpu_ms) for (payer, tier), gpu_ms in record.charges.items()),
        record.started_ms,
        record.ended_ms,
        record.note,
        record.stopping,
        record.gpus_desired,
        record.since_ms,
        record.reservation,
        record.reservations_ever,
        record.backfills,
        record.waiting_seq,
        record.cut_ms,
        record.cut_by,
        record.via_conflict,
        record.steps_cut_by,
        record.has_overstayed,
        record.unstarted,
    )


def unpack_run(run: PackedRun) -> RunRecord:
    """Return the record of the stored ``run``, without leases."""
    return RunRecord(
        run.spec,
        run.seq,
        run.submitted_ms,
        run.phase,
        run.refusal,
        run.refused_since_ms,
        {},
        run.leases_ever,
        {(payer, tier): gpu_ms for payer, tier, gpu_ms in run.charges},
        run.started_ms,
        run.ended_ms,
        run.note,
        run.stopping,
        run.gpus_desired,
        run.since_ms,
        run.reservation,
        run.reservations_ever,
        run.backfills,
        run.waiting_seq,
        run.cut_ms,
        run.cut_by,
        run.via_conflict,
        run.steps_cut_by,
        run.has_overstayed,
        run.unstarted,
    )


T = TypeVar("T")

_ENCODER: Final = Encoder()
_RUN: Final = Decoder(PackedRun)


class ArchivedRow(NamedTuple):
    """A run that is over, as a store keeps it: columns for queries, and the record as bytes."""

    seq: int
    name: str
    owner: str
    phase: str
    is_claim: bool
    payload: bytes

    @classmethod
    def of(cls, record: RunRecord) -> ArchivedRow:
        """Return the row of ``record``, a run that is over."""
        spec = record.spec
        payload = _ENCODER.encode(pack_run(record))
        return cls(record.seq, spec.name, spec.owner, record.phase.value, spec.sensitive, payload)


class RowQuery(NamedTuple):
    """Which rows a store returns.

    The rows are of runs that were archived up to the sequence number ``upto_seq``. These runs were
    submitted after ``after_seq``, and before ``before_seq`` if that is given. The rows are in the
    order of submission, or in reverse order if ``is_newest_first`` is true.
    """

    upto_seq: int
    after_seq: int
    before_seq: int | None
    owner: str | None
    phase: str | None
    is_claim: bool | None
    is_newest_first: bool
    limit: int


class ArchiveRows(Protocol):
    """The queries that a store answers about archived runs.

    Methods raise ``ArchiveError`` if the stored rows cannot be read.
    """

    def archived_run(self, name: str, upto_seq: int) -> ArchivedRow | None:
        """Return the row of the run ``name`` if it was archived up to ``upto_seq``, else None."""
        ...

    def archived_names(self, query: RowQuery) -> list[tuple[int, str]]:
        """Return (sequence number of the submission, name) of the rows for ``query``, in order."""
        ...

    def archived_rows(self, query: RowQuery) -> list[ArchivedRow]:
        """Return the rows that match ``query``, in the order that it states."""
        ...

    def archived_count(self, owner: str, upto_seq: int) -> int:
        """Return how many runs of ``owner`` were archived up to ``upto_seq``."""
        ...


class RunArchive:
    """The ``size`` runs that were archived up to the snapshot at sequence number ``upto_seq``."""

    def __init__(self, rows: ArchiveRows, *, upto_seq: int, size: int) -> None:
        self._rows = rows
        self.upto_seq = upto_seq
        self._size = size
        # The records that were read last, by name; None for a name that is not archived.
        self._read: OrderedDict[str, RunRecord | None] = OrderedDict()

    def get(self, name: str) -> RunRecord | None:
        """Return the record of the run ``name``; None if the run is not archived."""
        read = self._read
        if name in read:
            read.move_to_end(name)
            return read[name]
        row = self._rows.archived_run(name, self.upto_seq)
        found = read[name] = None if row is None else _record(row)
        if len(read) > READ_KEPT_MAX:
            read.popitem(last=False)
        return found

    def count(self, owner: str | None = None) -> int:
        """Return how many runs of ``owner`` are archived; of all owners if ``owner`` is None."""
        if owner is None:
            return self._size
        return self._rows.archived_count(owner, self.upto_seq)

    def names(self, query: RunQuery) -> Iterator[tuple[int, str]]:
        """Yield (sequence number of the submission, name) of the runs for ``query``, in order.

        Each owner is queried separately, because the store's index keeps an order only among the
        runs of one owner.
        """
        owners = [None] if query.owners is None else sorted(query.owners)
        each = [self._names_of(query, owner) for owner in owners]
        return iter(merge(*each, reverse=query.is_newest_first))

    def _names_of(self, query: RunQuery, owner: str | None) -> Iterator[tuple[int, str]]:
        wanted = self._query(query, owner)
        return _paged(self._rows.archived_names, wanted, lambda entry: entry[0])

    def records(self) -> Iterator[RunRecord]:
        """Yield every record, in the order of submission."""
        rows = _paged(self._rows.archived_rows, self._query(RunQuery(), None), lambda row: row.seq)
        return map(_record, rows)

    def _query(self, query: RunQuery, owner: str | None) -> RowQuery:
        return RowQuery(
            upto_seq=self.upto_seq,
            after_seq=query.after_seq,
            before_seq=query.before_seq,
            owner=owner,
            phase=None if query.phase is None else query.phase.value,
            is_claim=query.is_claim,
            is_newest_first=query.is_newest_first,
            limit=PAGE_ROWS,
        )


def _paged(
    ask: Callable[[RowQuery], Sequence[T]], query: RowQuery, seq_of: Callable[[T], int]
) -> Iterator[T]:
    """Yield all rows that match ``query``; ``ask`` reads them page by page."""
    while True:
        page = ask(query)
        yield from page
        if len(page) < query.limit:
            return
        last = seq_of(page[-1])
        if query.is_newest_first:
            query = query._replace(before_seq=last)
        else:
            query = query._replace(after_seq=last)


def _record(row: ArchivedRow) -> RunRecord:
    """Return the record of ``row``.

    Raises ``ArchiveError`` if the record cannot be read, or differs from the row's columns.
    """
    try:
        run = _RUN.decode(row.payload)
    except msgspec.DecodeError as error:
        raise ArchiveError(f"the archived run {row.name!r} cannot be read: {error}") from error
    is_told = (run.seq, run.spec.name, run.spec.owner, run.phase.value, run.spec.sensitive)
    if is_told != row[:5] or run.ended_ms is None:
        raise ArchiveError(f"the archived run {row.name!r} does not match its row")
    return unpack_run(run)
