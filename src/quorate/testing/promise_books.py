"""The books of promises and conflicts: what a history must show, kept block by block.

Independent of how the core plans: a start is promised, and is late only when something else was
late, lost or changed since; a conflict draws by a seed that was fixed when it was declared, in a
block of its own; whoever may be drawn has entered; and what was cleared for a reservation is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from quorate.core.expected import is_overdue
from quorate.core.holds import expected_ms
from quorate.core.limits import Limit, payers_of
from quorate.core.lottery import chain_link, seed_of, seed_parts
from quorate.core.lottery_audit import Lotteries
from quorate.core.soft import why_no_conflict
from quorate.model.amounts import PPM
from quorate.model.events import (
    BudgetApplied,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeApplied,
    NodeMarked,
    OwnerApplied,
    PoolApplied,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    Role,
    Slice,
    StartReason,
)
from quorate.model.records import Lease, Phase, RunRecord
from quorate.model.specs import EnvelopeId
from quorate.model.view import StateView
from quorate.testing.in_front import stand_in_front

_DRAW: Final = b"quorate-lottery-draw/1\0"
_NO_HEADROOM: Final = "no conflict: its owner's hard quota is what it waits for"
_TOO_DEAR: Final = "GPU-hours to conflicts within a day, and this would cost"
EXCUSED: Final = -1
"""In place of how often things had been shaken: something has happened to this promise alone."""
_CHANGES: Final = (NodeMarked, NodeApplied, PoolApplied, BudgetApplied, OwnerApplied)


@dataclass(slots=True)
class _Promise:
    """A reservation: when and where it is to start, and how often things had been shaken by then.

    One that counts on a conflict is surer of its room than of its time: what is cut takes its
    grace, and others may move, start, give up or have room made meanwhile (``moves``).
    """

    made: ReservationMade
    number: int
    planned_ms: int | None
    excuses: int
    by_conflict: bool
    moves: int
    place: Slice
    payers: frozenset[EnvelopeId]


@dataclass(slots=True)
class _Cleared:
    """Room that was made for a reservation: what has to go, and what had changed by then."""

    conflict: str
    leases: tuple[str, ...]
    changes: int


class PromiseBooks:
    """Feed it every block of a ledger, in order, with the state after it.

    ``secret`` and ``length`` are those of the lottery's chain.
    """

    def __init__(self, secret: bytes, length: int) -> None:
        self._secret = secret
        self._length = length
        self._lotteries = Lotteries()
        self._promises: dict[str, _Promise] = {}
        self._made = 0
        self._excuses = 0
        self._changes = 0
        self._moves = 0
        self._declared: dict[str, tuple[ConflictDeclared, int]] = {}
        self._cleared: dict[str, _Cleared] = {}
        self._made_room: dict[str, str] = {}
        self._looked_ms = 0

    def shaken(self) -> None:
        """Note that the program was down: what was due meanwhile is late."""
        self._excuses += 1
        self._changes += 1

    def looked(self, now_ms: int) -> None:
        """Note that something is decided at ``now_ms``: what was due before, nobody looked at."""
        planned = (promise.planned_ms for promise in self._promises.values())
        if any(at_ms is not None and self._looked_ms <= at_ms < now_ms - 1 for at_ms in planned):
            self.shaken()
        self._looked_ms = now_ms

    def enter(self, height: int, events: Sequence[Event], view: StateView) -> Iterator[str]:
        """Write a block down, and yield what is wrong with it."""
        self._excuse(events, view)
        moved: set[str] = set()
        for event in events:
            for violation in self._lotteries.enter(event):
                yield str(violation)
            match event:
                case ReservationMade():
                    self._made += 1
                    self._promises[event.reservation] = _Promise(
                        event,
                        self._made,
                        event.planned_start_ms,
                        self._excuses,
                        event.by_conflict,
                        self._moves,
                        event.slice,
                        frozenset(share.payer for share in event.payers),
                    )
                case ReservationMoved():
                    yield from self._move(event, moved, view)
                    moved.add(event.reservation)
                case ReservationClosed():
                    yield from self._close(event)
                case ConflictDeclared():
                    self._declared[event.conflict] = (event, height)
                    yield from _left_out(event, view)
                case ConflictResolved():
                    yield from self._resolve(event, height)
                case LeaseEnded():
                    # Its owner may be back within its share, and no other of its runs in a burst.
                    self._moves += _has_target(view, event)
                case _:
                    pass
        yield from self._unused(view)

    # --- Promises ---

    def _excuse(self, events: Sequence[Event], view: StateView) -> None:
        """Note what has changed, is late, or takes longer than was said."""
        if any(isinstance(event, _CHANGES) for event in events) or _is_late(view):
            self.shaken()
        elif any(isinstance(e, HoldExtended) or _outlasts(e, view) for e in events) or (
            _has_overdue(view)
        ):
            self._excuses += 1
        for event in events:
            if isinstance(event, LeaseStarted) and event.reason is StartReason.HANDOVER:
                self._hand_over(event.payer)

    def _hand_over(self, payer: EnvelopeId) -> None:
        """Note that work goes on at the cost of ``payer``, which may miss it where it promised it.

        It is asked for what it has promised last, and only where the work would end otherwise.
        """
        for promise in self._promises.values():
            if payer in promise.payers:
                promise.excuses = EXCUSED

    def _move(self, event: ReservationMoved, moved: set[str], view: StateView) -> Iterator[str]:
        promise = self._promises[event.reservation]
        planned_ms, start_ms = promise.planned_ms, event.planned_start_ms
        if not event.cause:
            yield f"{event.reservation} moves to {start_ms} and nobody says why"
        is_later = planned_ms is not None and (start_ms is None or start_ms > planned_ms)
        was_due = planned_ms is not None and planned_ms <= event.at_ms
        if is_later and event.cause.startswith("reservation "):
            yield from self._pushed(event, promise, moved)
        elif is_later and event.cause.startswith("conflict "):
            name = event.cause.split()[1]
            if self._made_room.get(event.reservation) != name:
                yield f"{event.reservation} waits for conflict {name}, which made no room for it"
        elif is_later and self._is_firm(promise) and not _is_refused(event, promise, view):
            yield (
                f"{event.reservation} moves from {planned_ms} to {start_ms} though nothing is "
                f"late, lost or changed: {event.cause}"
            )
        if is_later:
            if not _is_over_quota(event):  # It could not start there either.
                yield from stand_in_front(event, view, promise.place if was_due else None)
            # Others were planned around it.
            self._excuses += 1
        self._moves += 1
        promise.planned_ms, promise.excuses = start_ms, self._excuses
        promise.by_conflict, promise.moves = event.by_conflict, self._moves
        promise.place = event.slice
        promise.payers = frozenset(share.payer for share in event.payers)

    def _is_firm(self, promise: _Promise) -> bool:
        """Return whether nothing has happened since that would excuse a promise that is broken."""
        has_moved = promise.by_conflict and promise.moves != self._moves
        return promise.excuses == self._excuses and not has_moved

    def _pushed(self, event: ReservationMoved, promise: _Promise, moved: set[str]) -> Iterator[str]:
        """Yield a push by a reservation that did not move before, or was made later."""
        other = event.cause.split()[1].rstrip(",")
        known = self._promises.get(other)
        if other not in moved or known is None or known.number > promise.number:
            yield f"{event.reservation} moves because {other} has, which it has not"

    def _close(self, event: ReservationClosed) -> Iterator[str]:
        promise = self._promises.pop(event.reservation)
        self._cleared.pop(event.reservation, None)
        # Without it a conflict may cut others, and cost more than the pool bears.
        self._moves += 1
        if event.outcome is not ReservationOutcome.ACTIVATED:
            return
        planned_ms = promise.planned_ms
        # What ends at the very instant of a start is waited for, so it may be one tick later.
        is_late = planned_ms is not None and event.at_ms > planned_ms + 1
        if is_late and self._is_firm(promise):
            yield (
                f"{event.reservation} starts at {event.at_ms}, promised for {planned_ms}, though "
                "nothing was late, lost or changed"
            )

    def _unused(self, view: StateView) -> Iterator[str]:
        """Yield reservations whose room is there, as nothing else has changed, and that wait."""
        for name, cleared in tuple(self._cleared.items()):
            promise = self._promises[name]
            if cleared.changes != self._changes:
                del self._cleared[name]
                continue
            is_due = promise.planned_ms is not None and promise.planned_ms < view.at_ms
            if is_due and not any(lease in view.leases for lease in cleared.leases):
                yield f"{name} does not start though conflict {cleared.conflict} made room for it"

    # --- Conflicts ---

    def _resolve(self, event: ConflictResolved, height: int) -> Iterator[str]:
        declared, declared_height = self._declared[event.conflict]
        if any(cut.step is CutStep.SHRINK and cut.bundle == 0 for cut in event.cuts):
            yield f"conflict {event.conflict} cuts a run below its minimum"
        if event.draws:
            if height <= declared_height:
                yield f"conflict {event.conflict} is drawn in the block that declares it"
            link = chain_link(self._secret, declared.preimage_index, length=self._length)
            seed = seed_of(seed_parts(declared, link)).hex()
            if event.seed != seed:
                yield f"conflict {event.conflict} draws by {event.seed}, fixed was {seed}"
            drawn = [(each.owner, each.run) for each in event.draws]
            if drawn != _redrawn(declared, event.seed)[: len(drawn)]:
                yield f"conflict {event.conflict} draws {drawn}, which its seed does not"
        self._moves += 1
        if event.outcome is ConflictOutcome.CLEARED and declared.reservation in self._promises:
            leases = tuple(lease for cut in event.cuts for lease in cut.leases)
            self._made_room[declared.reservation] = event.conflict
            self._cleared[declared.reservation] = _Cleared(event.conflict, leases, self._changes)


def _redrawn(declared: ConflictDeclared, seed: str) -> list[tuple[str, str]]:
    """Return every draw of ``seed``, as docs/reference/lottery.md says, and by no other code."""
    counter = 0

    def below(bound: int) -> int:
        nonlocal counter
        while True:
            block = sha256(_DRAW + bytes.fromhex(seed) + counter.to_bytes(8, "big")).digest()
            counter += 1
            number = int.from_bytes(block[:8], "big")
            if number < (1 << 64) - (1 << 64) % bound:
                return number % bound

    owners = sorted({token.owner for token in declared.tokens})
    found = []
    while owners:
        owner = owners.pop(below(len(owners)))
        runs = sorted(token.run for token in declared.tokens if token.owner == owner)
        while runs:
            found.append((owner, runs.pop(below(len(runs)))))
    return found


def _is_late(view: StateView) -> bool:
    """Return whether something that was told to stop has not, or a conflict that is due waits."""
    declared = (view.conflicts[name].declared for name in view.open_conflicts)
    return any(conflict.due_ms < view.at_ms for conflict in declared) or any(
        lease.ending is not None and lease.ending.deadline_ms < view.at_ms
        for lease in view.leases.values()
    )


def _outlasts(event: Event, view: StateView) -> bool:
    """Return whether a stop may take longer than its run would have been expected to.

    Plans count on a run that is about to end. One that is told to stop just before that, as its
    window closes or somebody cancels it, works no more, and has its grace to go all the same.
    """
    if not isinstance(event, LeaseEnding) or event.lease not in view.leases:
        return False
    record = view.runs[view.leases[event.lease].fact.run]
    assert record.since_ms is not None, record
    said_ms = record.since_ms + expected_ms(record.spec, view.pools[record.spec.pool])
    return event.deadline_ms > said_ms


def _has_overdue(view: StateView) -> bool:
    """Return whether some run takes longer than it said."""
    names = {lease.fact.run for lease in view.leases.values()}
    return any(is_overdue(view, view.runs[name], view.at_ms) for name in names)


def _is_over_quota(event: ReservationMoved) -> bool:
    """Return whether a hard quota keeps a reservation from starting: it promises no headroom."""
    cause = event.cause
    return cause.startswith("waiting for quota headroom") or cause.endswith(_NO_HEADROOM)


def _is_refused(event: ReservationMoved, promise: _Promise, view: StateView) -> bool:
    """Return whether quotas keep a reservation from starting, or its conflict from being called.

    What a conflict would cost, and what its owner has by then, is known only then.
    """
    if _is_over_quota(event) or not promise.by_conflict:
        return _is_over_quota(event)
    run = view.runs.get(promise.made.run)
    if run is not None and why_no_conflict(view, run, event.at_ms, promise.place.flavor):
        return True
    return _TOO_DEAR in event.cause


def _left_out(declared: ConflictDeclared, view: StateView) -> Iterator[str]:
    """Yield runs that could be drawn, are small enough, and did not enter.

    Only what is beyond doubt is asked about: runs of one lease that the cuts do not reach.
    """
    if not declared.tokens:
        return
    entered = {token.run for token in declared.tokens}
    for lease in view.leases.values():
        record = view.runs[lease.fact.run]
        if len(record.leases) > 1 or lease.gpus > declared.size_max or lease.fact.run in entered:
            continue
        could = _is_sure(lease, record, view) and _is_in(lease, declared, view)
        if could and _may_be_drawn(record, declared, view):
            yield f"{lease.fact.run} did not enter conflict {declared.conflict}"


def _is_sure(lease: Lease, record: RunRecord, view: StateView) -> bool:
    fact = lease.fact
    return (
        record.phase is Phase.RUNNING
        and record.stopping is None
        and lease.ending is None
        and fact.bundle == 0
        and fact.role is not Role.SPARE
        and not record.spec.sensitive
        and not _may_be_burst(record, view)
        and fact.run not in view.backfilled
        and not any(node in view.node_status for node, _ in fact.slots)
    )


def _has_target(view: StateView, ended: LeaseEnded) -> bool:
    """Return whether the owner of what has ended has a share that it may be beyond."""
    owner = view.owners.get(view.runs[ended.lease.rpartition("/")[0]].spec.owner)
    return owner is not None and owner.quota.fair_share_target_ppm is not None


def _may_be_burst(record: RunRecord, view: StateView) -> bool:
    """Return whether its owner has a share that it keeps without the run, so that it may be cut."""
    owner = view.owners.get(record.spec.owner)
    target_ppm = None if owner is None else owner.quota.fair_share_target_ppm
    if target_ppm is None:
        return False
    others = (x for x in view.leases.values() if x.fact.run != record.spec.name)
    mine = [x for x in others if view.runs[x.fact.run].spec.owner == record.spec.owner]
    flavors = {view.nodes[node].spec.flavor for x in mine for node, _ in x.fact.slots}
    return any(
        PPM * sum(x.gpus for x in mine) >= target_ppm * view.flavor_gpus(flavor)[0]
        for flavor in (*flavors, record.spec.flavors[0])
    )


def _is_in(lease: Lease, declared: ConflictDeclared, view: StateView) -> bool:
    """Return whether a lease is what a conflict is about."""
    scope = declared.scope
    if scope.limit:
        limit = Limit.of(scope.limit)
        return lease.fact.payer in payers_of(view, limit) and limit.counts(lease.fact.tier)
    islands = (view.nodes[node].island for node, _ in lease.fact.slots)
    return all(
        (key.pool, key.flavor) == (scope.pool, scope.flavor)
        and (not scope.domains or key.domain in scope.domains)
        for key in islands
    )


def _may_be_drawn(record: RunRecord, declared: ConflictDeclared, view: StateView) -> bool:
    """Return whether a run has run long enough, or began in front of the reservation."""
    since_ms = record.since_ms
    if since_ms is None or since_ms >= declared.at_ms:
        return False
    least_ms = view.pools[record.spec.pool].least_runtime_ms
    made_ms = None
    if declared.reservation in view.reservations:
        made_ms = view.reservations[declared.reservation].made.at_ms
    return declared.due_ms - since_ms >= least_ms or (made_ms is not None and since_ms > made_ms)
