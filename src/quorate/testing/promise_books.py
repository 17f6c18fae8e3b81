"""The books of promises and conflicts: what a history must show, kept block by block.

Independent of how the core plans: a start is promised, and is late only when something else was
late, lost or changed since; a conflict draws by a seed that was fixed when it was declared, in a
block of its own; whoever may be drawn has entered; and what was cleared for a reservation is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from quorate.core.expected import is_overdue
from quorate.core.holds import expected_ms
from quorate.core.limits import Limit, payers_of
from quorate.core.lottery import chain_link, seed_of, seed_parts
from quorate.core.lottery_audit import Lotteries
from quorate.model.amounts import PPM
from quorate.model.events import (
    BudgetApplied,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    Event,
    LeaseStarted,
    LoanRecalled,
    MoveCode,
    NodeApplied,
    NodeMarked,
    OwnerApplied,
    PoolApplied,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
    ReservationOutcome,
    Role,
    Share,
    Slice,
    SpareFilled,
)
from quorate.model.records import Lease, Phase, RunRecord
from quorate.model.view import StateView
from quorate.testing.firm_oracle import (
    Place,
    PutBack,
    is_plain,
    lacking,
    overstaying,
    places_of,
)

_DRAW: Final = b"quorate-lottery-draw/1\0"
_LATE: Final = (MoveCode.LEASE_OVERRAN, MoveCode.EXECUTOR_LATE)
_CALLED_OFF: Final = (MoveCode.CONFLICT_CALLED_OFF, MoveCode.CONFLICT_CLEARING)
_CHANGES: Final = (NodeMarked, NodeApplied, PoolApplied, BudgetApplied, OwnerApplied)


@dataclass(slots=True)
class _Promise:
    """A firm start as it was last recorded, and whether a decision was made when it was due."""

    made: ReservationMade
    planned_ms: int | None
    by_conflict: bool
    place: Slice
    payers: tuple[Share, ...]
    is_missed: bool = False


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
        self._changes = 0
        self._began: frozenset[str] = frozenset()
        self._recalled: set[str] = set()
        self._beside: list[Place] = []
        self.moved_later = 0
        """How often a firm start moved later."""
        self.shared_slack = 0
        """How often one did though a younger lease shares the slack that an older one overran."""
        self._declared: dict[str, tuple[ConflictDeclared, int]] = {}
        self._cleared: dict[str, _Cleared] = {}
        self._made_room: dict[str, str] = {}
        self._looked_ms = 0

    def shaken(self) -> None:
        """Note that the program was down: what was due meanwhile could not start."""
        self._changes += 1
        for promise in self._promises.values():
            promise.is_missed = True

    def looked(self, now_ms: int) -> None:
        """Note that something is decided at ``now_ms``; what was due before was not looked at."""
        for promise in self._promises.values():
            planned_ms = promise.planned_ms
            if planned_ms is not None and self._looked_ms <= planned_ms < now_ms - 1:
                promise.is_missed = True
        self._looked_ms = now_ms

    def enter(self, height: int, events: Sequence[Event], view: StateView) -> Iterator[str]:
        """Write a block down, and yield what is wrong with it."""
        if any(isinstance(event, _CHANGES) for event in events) or _is_late(view):
            self._changes += 1
        # What fills a spare has slots that were taken before.
        fillers = {e.filler for e in events if isinstance(e, SpareFilled)}
        self._began = frozenset(
            e.lease for e in events if isinstance(e, LeaseStarted) and e.run not in fillers
        )
        self._recalled = {e.waiting_run for e in events if isinstance(e, LoanRecalled)}
        moving = {
            e.reservation for e in events if isinstance(e, ReservationMoved | ReservationClosed)
        }
        self._beside = [
            self._place(promise, promise.planned_ms, view)
            for name, promise in self._promises.items()
            if name not in moving and promise.planned_ms is not None and not promise.by_conflict
        ]
        for event in events:
            for violation in self._lotteries.enter(event):
                yield str(violation)
            match event:
                case ReservationMade():
                    self._promises[event.reservation] = _Promise(
                        event,
                        event.planned_start_ms,
                        event.by_conflict,
                        event.slice,
                        event.payers,
                    )
                case ReservationMoved():
                    yield from self._move(event, view)
                case ReservationClosed():
                    yield from self._close(event)
                case ConflictDeclared():
                    self._declared[event.conflict] = (event, height)
                    yield from _left_out(event, view)
                case ConflictResolved():
                    yield from self._resolve(event, height)
                case _:
                    pass
        yield from self._unused(view)
        yield from self._feasible(view)

    # --- Promises ---

    def _move(self, event: ReservationMoved, view: StateView) -> Iterator[str]:
        promise = self._promises[event.reservation]
        planned_ms, start_ms = promise.planned_ms, event.planned_start_ms
        is_later = planned_ms is not None and (start_ms is None or start_ms > planned_ms)
        code = event.cause.code
        if code is MoveCode.CONFLICT_CLEARING:
            (name,) = (name for _, name in event.cause.objects)
            if self._made_room.get(event.reservation) != name:
                yield f"{event.reservation} waits for conflict {name}, which made no room for it"
        elif code is MoveCode.LOANS_RECALLED:
            if promise.made.run not in self._recalled:
                yield f"{event.reservation} moves for loans, and none was recalled for it"
        elif is_later and not promise.by_conflict:
            yield from self._moved_later(event, promise, view)
        elif planned_ms is not None and start_ms is not None and start_ms < planned_ms:
            yield f"{event.reservation} moves from {planned_ms} to {start_ms}, which is sooner"
        promise.planned_ms, promise.by_conflict = start_ms, event.by_conflict
        promise.place, promise.payers = event.slice, event.payers
        promise.is_missed = False

    def _moved_later(
        self, event: ReservationMoved, promise: _Promise, view: StateView
    ) -> Iterator[str]:
        """Yield that a firm start moved later though its place would stand, or for no cause.

        Its recorded place must stand once what the cause names is put back, unless something else
        is missing there too that is late, lost or changed: then that counts as put back as well.
        """
        self.moved_later += 1
        what = f"{event.reservation} moves from {promise.planned_ms} to {event.planned_start_ms}"
        if event.cause.code in (*_CALLED_OFF, MoveCode.AS_RECORDED, MoveCode.FOUND_AGAIN):
            yield f"{what} for {event.cause}, which is no cause for one that counts on no conflict"
            return
        planned_ms = promise.planned_ms
        assert planned_ms is not None, promise
        place = self._place(promise, planned_ms, view)
        if place.run not in view.pending or not is_plain(view, place):
            return
        began = PutBack(self._began)
        # What is due and has not started ends as much later.
        beside = [_delayed(other, view.at_ms) for other in self._beside]
        if not lacking(view, place, beside, began) and not promise.is_missed:
            yield f"{what} for {event.cause} though its place stands"
        back = _put_back(view, event)
        back = PutBack(back.leases | self._began, back.nodes, back.limits)
        left = lacking(view, place, self._beside, back)
        if left and not promise.is_missed:
            yield f"{what} for {event.cause}, and without that it lacks {left}"

    @staticmethod
    def _place(promise: _Promise, planned_ms: int, view: StateView) -> Place:
        """Return the recorded place of a firm start."""
        run = view.runs[promise.made.run].spec
        end_ms = planned_ms + expected_ms(run, view.pools[run.pool])
        return Place(run.name, planned_ms, end_ms, promise.place, promise.payers)

    def _close(self, event: ReservationClosed) -> Iterator[str]:
        promise = self._promises.pop(event.reservation)
        self._cleared.pop(event.reservation, None)
        if event.outcome is not ReservationOutcome.ACTIVATED:
            return
        planned_ms = promise.planned_ms
        # What ends at the very instant of a start is waited for, so it may be one tick later.
        is_late = planned_ms is not None and event.at_ms > planned_ms + 1
        if is_late and not promise.by_conflict and not promise.is_missed:
            yield f"{event.reservation} starts at {event.at_ms}, firm for {planned_ms}"

    def _feasible(self, view: StateView) -> Iterator[str]:
        """Yield firm places that cannot all be kept, and what overstays in front of them."""
        places = places_of(view)
        for place in places:
            promise = view.runs[place.run].reservation or ""
            if self._promises[promise].is_missed or not is_plain(view, place):
                continue
            yield from (
                f"{lease} stands in front of {promise}"
                for lease in overstaying(view, place, places)
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
        if event.outcome is ConflictOutcome.CLEARED and declared.reservation in self._promises:
            leases = tuple(lease for cut in event.cuts for lease in cut.leases)
            self._made_room[declared.reservation] = event.conflict
            self._cleared[declared.reservation] = _Cleared(event.conflict, leases, self._changes)


def _delayed(place: Place, now_ms: int) -> Place:
    """Return a place as it is taken from ``now_ms`` on, if it was due before."""
    late_ms = max(0, now_ms - place.start_ms)
    return replace(place, start_ms=place.start_ms + late_ms, end_ms=place.end_ms + late_ms)


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


def _put_back(view: StateView, event: ReservationMoved) -> PutBack:
    """Return what the cause of a move names, as put back."""
    objects = event.cause.objects
    named = {kind: frozenset(n for k, n in objects if k == kind) for kind, _ in objects}
    leases = named.get("lease", frozenset())
    if event.cause.code in _LATE:
        # As many as are named; the others that are late there are no less a cause.
        leases |= frozenset(
            name
            for name, lease in view.leases.items()
            if (lease.ending is not None and lease.ending.deadline_ms < view.at_ms)
            or (
                lease.ending is None
                and is_overdue(view, view.runs[lease.fact.run], view.at_ms)
                and event.cause.code is MoveCode.LEASE_OVERRAN
            )
        )
    return PutBack(
        leases,
        named.get("node", frozenset()),
        frozenset().union(*(named.get(kind, ()) for kind in ("envelope", "cap", "owner"))),
    )


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
