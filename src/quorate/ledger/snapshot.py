"""Snapshots: the state as bytes, so that opening a long ledger does not replay all of it.

A snapshot is only a cache. It names the head of the ledger at which it was taken. It has the format
of the program that wrote it, and programs with another format ignore it. ``restore(take(state))``
equals the state that is computed from the events. Indexes are not stored; they are computed again
from the tables.

A store keeps a ``Cut``. A cut has the state without the runs that are over, and these runs as rows
of the archive (``archive.py``). So the size of a snapshot does not grow with the runs that are
over. The thread that owns the state makes the cut; any other thread can convert the cut to bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.archive import (
    ArchivedRow,
    ArchiveRows,
    PackedRun,
    RunArchive,
    pack_run,
    unpack_run,
)
from quorate.ledger.errors import ArchiveError
from quorate.ledger.fold import collector_paused
from quorate.model.events import (
    ConflictDeclared,
    ConflictDeferred,
    ConflictResolved,
    LeaseEnding,
    LeaseStarted,
    LoanRecalled,
    MoveCause,
    NodeStatus,
    ReservationMade,
    ReservationStatus,
    Role,
    Share,
    Slice,
)
from quorate.model.specs import (
    Budget,
    Cap,
    CapId,
    Envelope,
    EnvelopeId,
    Node,
    Owner,
    Pool,
    System,
)
from quorate.model.state.apply_event import rebuild_families
from quorate.model.state.durations import DurationHistory
from quorate.model.state.free_slots import all_slots
from quorate.model.state.meters import Meter, NodeMeter, Told
from quorate.model.state.records import (
    AnnouncedConflict,
    ArrayRecord,
    CapAccount,
    ConflictRecord,
    EnvelopeAccount,
    Lease,
    Lottery,
    NodeMark,
    Phase,
    PledgeRecord,
    ReportRecord,
    RequestRecord,
    ReservationRecord,
    RoundRecord,
    RoundsRun,
    RunRecord,
    TokenRecord,
    UnwipedNode,
)
from quorate.model.state.state import State

SNAPSHOT_FORMAT: Final = 19
"""The number of the format, raised whenever a struct below or the meaning of a counter changes."""


class _Envelope(Struct, array_like=True, gc=False):
    envelope_id: EnvelopeId
    budget: str
    owner: str
    spec: Envelope
    caps: tuple[CapId, ...]
    retired: bool
    gpus_active: int
    gpus_reserved: int
    committed_gpu_ms: int
    ended_gpu_ms: int
    started_gpu_ms: int
    lent_gpus_active: int
    lent_committed_gpu_ms: int


class _Cap(Struct, array_like=True, gc=False):
    cap_id: CapId
    spec: Cap
    retired: bool
    gpus_active: int
    gpus_reserved: int
    committed_gpu_ms: int


class _Reservation(Struct, array_like=True, gc=False):
    made: ReservationMade
    seq: int
    status: ReservationStatus
    slice: Slice
    payers: tuple[Share, ...]
    planned_start_ms: int | None
    natural_start_ms: int | None
    by_conflict: bool
    cause: MoveCause | None
    conflict: str
    attempts: int


class _Conflict(Struct, array_like=True, gc=False):
    declared: ConflictDeclared
    resolved: ConflictResolved | None


class _Lease(Struct, array_like=True, gc=False):
    fact: LeaseStarted
    hold_gpu_ms: int
    grace_ms: int
    ending: LeaseEnding | None


class _Meter(Struct, array_like=True, gc=False):
    owner: str
    flavor: str
    told: Told


class _NodeMeter(Struct, array_like=True, gc=False):
    owner: str
    told: Told
    uses: dict[str, int]


class _Snapshot(Struct, array_like=True):
    format: int
    seq: int
    at_ms: int
    ledger_id: str
    public_key: str
    system: System
    pools: list[Pool]
    nodes: list[Node]
    node_status: dict[str, NodeStatus]
    node_marks: dict[str, NodeMark]
    unwiped: dict[str, UnwipedNode]
    owners: list[tuple[Owner, int]]
    budgets: list[Budget]
    envelopes: list[_Envelope]
    caps: list[_Cap]
    runs: list[PackedRun]
    archived: int
    arrays: dict[str, ArrayRecord]
    leases: list[_Lease]
    lottery: Lottery
    reservations: list[_Reservation]
    conflicts: list[_Conflict]
    pledges: list[PledgeRecord]
    disruption: list[tuple[str, str, int, int]]
    deferred: dict[str, ConflictDeferred]
    announced: dict[str, AnnouncedConflict]
    barred: dict[str, int]
    recalls: list[LoanRecalled]
    meters: list[_Meter]
    node_meters: list[_NodeMeter]
    durations: dict[str, bytes]
    thresholds: dict[str, int]
    reports: dict[str, ReportRecord]
    requests: dict[str, RequestRecord]
    tokens: dict[str, TokenRecord]
    in_rounds: dict[str, RoundsRun]
    rounds: dict[str, RoundRecord]


class _Format(Struct, array_like=True):
    format: int


_ENCODER: Final = Encoder()
_FORMAT: Final = Decoder(_Format)
_SNAPSHOT: Final = Decoder(_Snapshot)
_ARRAY: Final = struct.Struct(">BI")
"""The beginning of an array or a map in MessagePack: a byte (0xDD or 0xDF) and the length."""
_LONG_FIELD: Final = 256
"""A field with this many entries or more is encoded entry by entry."""


@dataclass(frozen=True)
class Cut:
    """A copy of a state at one instant, which later changes of the state do not affect.

    ``runs`` are the runs in memory. The runs named in ``returned`` are also in the archive, but
    have changed since they were archived. The archive has ``archived_before`` runs. It was last
    written with the snapshot at ``base_seq``; if there is no snapshot, ``base_seq`` is 0. The runs
    of the state stay frozen until ``archived`` or ``thaw`` of their table is called. Making a cut
    is quick. All other steps take longer, and may run on another thread.
    """

    packed: _Snapshot
    runs: Sequence[RunRecord]
    returned: frozenset[str]
    archived_before: int
    base_seq: int

    @property
    def seq(self) -> int:
        """The sequence number of the last event of the state."""
        return self.packed.seq

    @cached_property
    def over(self) -> list[RunRecord]:
        """The runs that are over and that are added to the archive with this cut."""
        returned = self.returned
        return [r for r in self.runs if r.ended_ms is not None and r.spec.name not in returned]

    @cached_property
    def archived(self) -> int:
        """How many runs the archive has after this cut is stored."""
        return self.archived_before + len(self.over)

    @cached_property
    def payload(self) -> bytes:
        """The state without the archived runs, as bytes.

        The state is encoded entry by entry, so that other threads can run in between. A single call
        for the whole state would block them for its whole duration.
        """
        returned = self.returned
        here = [r for r in self.runs if r.ended_ms is None or r.spec.name in returned]
        packed = msgspec.structs.replace(
            self.packed, runs=list(map(pack_run, here)), archived=self.archived
        )
        fields = msgspec.structs.astuple(packed)
        return b"".join([_ARRAY.pack(0xDD, len(fields)), *map(_encoded, fields)])

    def rows(self) -> Iterator[ArchivedRow]:
        """Yield the rows that are added to the archive, in the order of submission."""
        return map(ArchivedRow.of, self.over)


def cut(state: State) -> Cut:
    """Return a cut of ``state``, which includes the ended runs that are not archived yet."""
    runs = state.runs
    archive = runs.archive
    return Cut(
        _packed(state, (), 0),
        runs.freeze(),
        frozenset(runs.returned),
        0 if archive is None else archive.count(),
        archive.upto_seq if isinstance(archive, RunArchive) else 0,
    )


def _encoded(field: Any) -> bytes:
    """Return ``field`` as bytes; a long field is encoded entry by entry."""
    if not isinstance(field, list | dict) or len(field) < _LONG_FIELD:
        return _ENCODER.encode(field)
    encode = _ENCODER.encode
    if isinstance(field, list):
        return b"".join([_ARRAY.pack(0xDD, len(field)), *map(encode, field)])
    pairs = (part for pair in field.items() for part in pair)
    return b"".join([_ARRAY.pack(0xDF, len(field)), *map(encode, pairs)])


def take(state: State) -> bytes:
    """Return ``state`` as bytes, without the runs that are in its archive."""
    archive = state.runs.archive
    here = [record for _, record in state.runs.kept()]
    return _ENCODER.encode(_packed(state, here, 0 if archive is None else archive.count()))


def fingerprint(state: State) -> bytes:
    """Return a hash of the whole ``state``, which does not depend on the order in its tables.

    The hash covers all runs, so it does not depend on which runs are archived.
    """
    packed = _packed(state, state.runs.in_order(), 0)
    for table in (packed.pools, packed.nodes, packed.budgets):
        table.sort(key=lambda spec: spec.name)
    packed.owners.sort(key=lambda entry: entry[0].name)
    packed.envelopes.sort(key=lambda entry: entry.envelope_id)
    packed.caps.sort(key=lambda entry: entry.cap_id)
    packed.runs.sort(key=lambda entry: entry.seq)
    for run in packed.runs:
        run.charges = tuple(sorted(run.charges))
    packed.leases.sort(key=lambda entry: entry.fact.lease)
    packed.reservations.sort(key=lambda entry: entry.seq)
    packed.conflicts.sort(key=lambda entry: entry.declared.conflict)
    packed.pledges.sort(key=lambda entry: entry.pledge)
    packed.meters.sort(key=lambda entry: (entry.owner, entry.flavor))
    packed.node_meters.sort(key=lambda entry: entry.owner)
    packed.disruption.sort()
    for counted in packed.node_meters:
        counted.uses = dict(sorted(counted.uses.items()))
    packed.announced = {name: _sorted_odds(record) for name, record in packed.announced.items()}
    packed.in_rounds = {name: _by_flavor(record) for name, record in packed.in_rounds.items()}
    for name in packed.__struct_fields__:
        field = getattr(packed, name)
        if isinstance(field, dict):
            setattr(packed, name, dict(sorted(field.items())))
    return sha256(_ENCODER.encode(packed)).digest()


def _packed(state: State, runs: Iterable[RunRecord], archived: int) -> _Snapshot:
    """Return the stored form of ``state``, with ``runs`` in place of the runs of ``state``.

    The result shares no mutable value with ``state``. The order of every table is kept, because a
    decision may name entries in this order.
    """
    state.refresh()
    return _Snapshot(
        SNAPSHOT_FORMAT,
        state.seq,
        state.at_ms,
        state.ledger_id,
        state.public_key,
        state.system,
        list(state.pools.values()),
        [record.spec for record in state.nodes.values()],
        dict(state.node_status.items()),
        dict(state.node_marks.items()),
        {name: node.copy() for name, node in state.unwiped.items()},
        [(owner, state.owner_versions[name]) for name, owner in state.owners.items()],
        list(state.budgets.values()),
        [_pack_envelope(account) for account in state.envelopes.values()],
        [_pack_cap(account) for account in state.caps.values()],
        [pack_run(record) for record in runs],
        archived,
        {name: known.copy() for name, known in state.arrays.items()},
        [
            _Lease(lease.fact, lease.hold_gpu_ms, lease.grace_ms, lease.ending)
            for lease in state.leases.values()
        ],
        state.lottery,
        [_pack_reservation(record) for record in state.reservations.values()],
        [_Conflict(record.declared, record.resolved) for record in state.conflicts.values()],
        list(state.pledges.values()),
        [(*key, *account) for key, account in state.disruption.items()],
        dict(state.deferred.items()),
        # An announcement is never changed, but only replaced, so it need not be copied.
        dict(state.announced.items()),
        dict(state.barred.items()),
        list(state.recalls.values()),
        [_Meter(*key, meter.told()) for key, meter in state.meters.items()],
        [
            _NodeMeter(owner, nodes.meter.told(), dict(nodes.uses.items()))
            for owner, nodes in state.node_meters.items()
        ],
        {owner: history.recent for owner, history in state.durations.items()},
        dict(state.thresholds.items()),
        dict(state.reports.items()),
        dict(state.requests.items()),
        {name: known.copy() for name, known in state.tokens.items()},
        {name: known.copy() for name, known in state.in_rounds.items()},
        {pool: known.copy() for pool, known in state.rounds.items()},
    )


def restore(payload: bytes, rows: ArchiveRows | None = None) -> State | None:
    """Return the state stored in ``payload``; None if it is not a snapshot of this format.

    ``rows`` has the runs that were archived up to the snapshot. If some runs were archived and
    ``rows`` is not given, the result is None, too.
    """
    with collector_paused():
        try:
            if _FORMAT.decode(payload).format != SNAPSHOT_FORMAT:
                return None
            snapshot = _SNAPSHOT.decode(payload)
            if snapshot.archived and rows is None:
                return None
            return _restore(snapshot, rows)
        except (
            msgspec.DecodeError,
            ArchiveError,
            KeyError,
            IndexError,
            ValueError,
            AssertionError,
        ):
            # If the snapshot is wrong in any way, the caller computes the state from the ledger.
            return None


def _restore(found: _Snapshot, rows: ArchiveRows | None) -> State:
    state = State()
    state.seq, state.at_ms = found.seq, found.at_ms
    state.ledger_id, state.public_key, state.system = (
        found.ledger_id,
        found.public_key,
        found.system,
    )
    state.pools.update((pool.name, pool) for pool in found.pools)
    state.owners.update((owner.name, owner) for owner, _ in found.owners)
    state.owner_versions.update((owner.name, version) for owner, version in found.owners)
    state.budgets.update((budget.name, budget) for budget in found.budgets)
    for entry in found.envelopes:
        state.envelopes[entry.envelope_id] = EnvelopeAccount(*msgspec.structs.astuple(entry))
    for cap in found.caps:
        state.caps[cap.cap_id] = CapAccount(*msgspec.structs.astuple(cap))
    rebuild_families(state)
    for node in found.nodes:
        state.add_node(node, free=all_slots(node.gpus))
    for run in found.runs:
        _restore_run(state, run)
    state.arrays.update(found.arrays)
    for lease in found.leases:
        _restore_lease(state, lease)
    for name, status in found.node_status.items():
        state.mark_node(name, status, found.node_marks[name])
    for name, unwiped in found.unwiped.items():
        state.set_apart(name, unwiped)
    _restore_plans(state, found)
    if rows is not None and found.archived:
        state.runs.attach(RunArchive(rows, upto_seq=found.seq, size=found.archived))
    return state


def _restore_plans(state: State, found: _Snapshot) -> None:
    state.lottery = found.lottery
    for entry in found.reservations:
        name = entry.made.reservation
        state.reservations[name] = ReservationRecord(*msgspec.structs.astuple(entry))
    for conflict in found.conflicts:
        name = conflict.declared.conflict
        state.conflicts[name] = ConflictRecord(conflict.declared, conflict.resolved)
        if conflict.resolved is None:
            state.open_conflicts[name] = None
    state.pledges.update((pledge.pledge, pledge) for pledge in found.pledges)
    for owner, pool, lacked, at_ms in found.disruption:
        state.disruption[owner, pool] = (lacked, at_ms)
    state.deferred.update(found.deferred)
    state.announced.update(found.announced)
    state.barred.update(found.barred)
    state.recalls.update(((record.run, record.bundle), record) for record in found.recalls)
    for owner, recent in found.durations.items():
        state.durations[owner] = DurationHistory(recent)
    state.thresholds.update(found.thresholds)
    state.reports.update(found.reports)
    state.requests.update(found.requests)
    state.tokens.update(found.tokens)
    for name, record in found.in_rounds.items():
        state.join_rounds(state.runs[name], record)
    state.rounds.update(found.rounds)
    for meter in found.meters:
        state.meters[meter.owner, meter.flavor] = Meter.of(meter.told)
        state.metered[meter.flavor] = None
    for counted in found.node_meters:
        nodes = state.node_meters[counted.owner] = NodeMeter(0)
        nodes.meter, nodes.uses = Meter.of(counted.told), counted.uses


def _pack_envelope(account: EnvelopeAccount) -> _Envelope:
    return _Envelope(
        account.envelope_id,
        account.budget,
        account.owner,
        account.spec,
        account.caps,
        account.retired,
        account.gpus_active,
        account.gpus_reserved,
        account.committed_gpu_ms,
        account.ended_gpu_ms,
        account.started_gpu_ms,
        account.lent_gpus_active,
        account.lent_committed_gpu_ms,
    )


def _pack_cap(account: CapAccount) -> _Cap:
    return _Cap(
        account.cap_id,
        account.spec,
        account.retired,
        account.gpus_active,
        account.gpus_reserved,
        account.committed_gpu_ms,
    )


def _pack_reservation(record: ReservationRecord) -> _Reservation:
    return _Reservation(
        record.made,
        record.seq,
        record.status,
        record.slice,
        record.payers,
        record.planned_start_ms,
        record.natural_start_ms,
        record.by_conflict,
        record.cause,
        record.conflict,
        record.attempts,
    )


def _sorted_odds(known: AnnouncedConflict) -> AnnouncedConflict:
    """Return ``known`` with its runs sorted."""
    return AnnouncedConflict(known.due_ms, known.scope, dict(sorted(known.runs.items())))


def _by_flavor(known: RoundsRun) -> RoundsRun:
    """Return ``known`` with its flavors sorted."""
    return RoundsRun(
        known.pool,
        known.steps,
        dict(sorted(known.rates.items())),
        dict(sorted(known.received_ms.items())),
        dict(sorted(known.entitled_ms.items())),
        dict(sorted(known.counted_ms.items())),
        known.lease,
        known.nodes,
        known.started_ms,
        dict(sorted(known.received_paired_ms.items())),
        dict(sorted(known.entitled_paired_ms.items())),
    )


def _restore_run(state: State, run: PackedRun) -> None:
    name = run.spec.name
    record = state.runs[name] = unpack_run(run)
    if run.backfills:
        state.backfilled[name] = None
    if run.spec.rounds is not None:
        return  # A run in rounds is not queued; the snapshot has its state in rounds.
    if run.phase is Phase.PENDING:
        state.enqueue(record)
    elif run.phase is Phase.RUNNING and run.spec.malleable is not None:
        state.growable[name] = None


def _restore_lease(state: State, found: _Lease) -> None:
    fact = found.fact
    name = fact.lease
    gpus = state.occupy(fact.slots)
    run = state.runs[fact.run]
    state.leases[name] = Lease(fact, gpus, found.hold_gpu_ms, found.grace_ms, found.ending)
    run.leases[name] = None
    if fact.role is Role.SPARE:
        state.spares[name] = None
