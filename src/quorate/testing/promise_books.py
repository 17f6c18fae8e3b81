"""Checks the firm starts and conflicts of a ledger, block by block, by rules for every history.

In the code, a firm start is called a promise. The rules do not depend on how the core plans. A firm
start may be late only if another object was late, lost or changed after the start was recorded. A
conflict is drawn in a later block than the one that declares it, with the seed that the declaration
fixed. Every run that may be drawn has a token. A reservation uses the room that a conflict made for
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from quorate.core.admission.holds import expected_ms
from quorate.core.audit.lottery_audit import Lotteries
from quorate.core.preemption.lottery import chain_link, seed_of, seed_parts
from quorate.core.preemption.money_limits import Limit, payers_of
from quorate.core.profile.lease_ends import is_overdue, is_told_late, recall_of
from quorate.model.amounts import PPM
from quorate.model.events import (
    BudgetApplied,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
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
    StartReason,
)
from quorate.model.state.records import BackfillMark, Lease, Phase, RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import eligible_since_ms
from quorate.testing.changes import Changes
from quorate.testing.firm_oracle import (
    Place,
    PutBack,
    is_counted,
    lacking,
    overstaying,
    places_of,
    share_of,
    stoppable,
    stopped_by,
)

_DRAW: Final = b"quorate-lottery-draw/1\0"
OBJECTS_MAX: Final = 16
"""The largest number of objects that the cause of a move names."""
_CALLED_OFF: Final = (
    MoveCode.CONFLICT_CALLED_OFF,
    MoveCode.CONFLICT_NO_HEADROOM,
    MoveCode.CONFLICT_BARRED,
    MoveCode.CONFLICT_COOL_DOWN,
    MoveCode.CONFLICT_UNSTARTED,
    MoveCode.CONFLICT_RATE_ZERO,
    MoveCode.CONFLICT_NOT_COVERED,
    MoveCode.CONFLICT_SOFT_QUOTA,
    MoveCode.CONFLICT_NOT_NEEDED,
    MoveCode.CONFLICT_NO_ROOM,
    MoveCode.CONFLICT_NO_LOTTERY,
    MoveCode.CONFLICT_CLEARING,
)
_NEVER: Final = (1 << 62, 1 << 62)
"""A pair (event, instant) later than all others, for runs that overstayed and may stop no lease."""
_CHANGES: Final = (NodeMarked, NodeApplied, PoolApplied, BudgetApplied, OwnerApplied)


@dataclass(slots=True)
class _Promise:
    """A firm start as the ledger last recorded it, and the decisions that should carry it out."""

    made: ReservationMade
    planned_ms: int | None
    by_conflict: bool
    place: Slice
    payers: tuple[Share, ...]
    recorded: int
    """The number of the event that recorded the start."""
    due_ms: int | None
    """When the run must start: at the planned start, or at the first decision after it."""
    missed_ms: int | None = None
    """The time of the first decision after the planned start; None if that start was not missed."""


@dataclass(slots=True)
class _Cleared:
    """The leases that a conflict cut, and the value of ``PromiseBooks._changes`` at that time."""

    conflict: str
    leases: tuple[str, ...]
    changes: int


class PromiseBooks:
    """Checks a ledger: call ``enter`` with every block in order, and the state after the block.

    ``secret`` and ``length`` are those of the lottery's hash chain.
    """

    def __init__(self, secret: bytes, length: int) -> None:
        self._secret = secret
        self._length = length
        self._lotteries = Lotteries()
        self._promises: dict[str, _Promise] = {}
        self._changes = 0
        self._changed = Changes()
        self._events = 0
        self._began: frozenset[str] = frozenset()
        self._recalled: list[LoanRecalled] = []
        self._recalled_for: frozenset[str] = frozenset()
        """The reservations that the current block moves because loans were recalled for them."""
        self._beside: list[Place] = []
        self._activated: dict[str, Place] = {}
        """The firm starts that are carried out in the current block, by run."""
        self._activated_at: dict[str, int] = {}
        """The number of the event that closes the reservation of each run in ``_activated``."""
        self._hastened: list[tuple[int, Place]] = []
        """The starts that move because loans were recalled for them, as recorded before the block.

        Each has the number of the event that moves it. Starts that moved before that event had to
        leave room for it.
        """
        self._moved: frozenset[str] = frozenset()
        self._by_conflict: frozenset[str] = frozenset()
        """The runs whose starts are by a conflict that is not settled."""
        self._clearing: dict[str, int] = {}
        """The new start of each run that waits for the end of leases that a conflict cut for it."""
        self._ended: frozenset[str] = frozenset()
        self._marked: dict[str, tuple[BackfillMark, ...]] = {}
        self._cut: frozenset[str] = frozenset()
        self._deadlines: dict[str, int] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        self.moved_later = 0
        """How often a firm start moved later."""
        self.shared_slack = 0
        """How many of the moves in ``moved_later`` would not have happened without a younger lease.
        In each of these cases, the younger lease used slack that an overdue older lease needed."""
        self._shares: dict[str, Share] = {}
        """The payer of each lease, and the GPUs and hours that it pays for."""
        self._handed: dict[str, tuple[int, tuple[str, ...]]] = {}
        """The leases that begin by a hand-over in the current block. For each of them: the number
        of its event, and the leases that it replaces."""
        self._took: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self._firm_since: dict[str, int] = {}
        self._declared: dict[str, tuple[ConflictDeclared, int]] = {}
        self._cleared: dict[str, _Cleared] = {}
        self._made_room: dict[str, str] = {}
        """The last conflict that has cut leases for each reservation."""
        self._settled: set[str] = set()
        """The reservations whose present starts are by a conflict that has cut leases for them."""
        self._looked_ms = self._before_ms = self._entered_ms = 0

    def shaken(self, now_ms: int) -> None:
        """Record that the program was down until ``now_ms``: starts due in that time may be late.

        Starts due since the last block may also be late, because decisions after that block are
        lost. No other start may be late, because the program runs when it is due.
        """
        self._changes += 1
        self._looked_ms = min(self._looked_ms, self._entered_ms)
        for promise in self._promises.values():
            # This includes starts that were missed before and wait for a stop to end.
            due_ms = promise.due_ms
            if due_ms is not None and self._looked_ms <= due_ms < now_ms - 1:
                promise.missed_ms = promise.due_ms = now_ms
        self.looked(now_ms)

    def looked(self, now_ms: int) -> None:
        """Record a decision at ``now_ms``; starts due since the last decision were missed.

        A decision that recorded nothing, such as a refusal, is ignored if the clock was later set
        back to an earlier instant. By the ledger's time, no start was due at that decision.
        """
        self._looked_ms = min(self._looked_ms, max(now_ms, self._entered_ms))
        for promise in self._promises.values():
            planned_ms = promise.planned_ms
            if planned_ms is not None and self._looked_ms <= planned_ms < now_ms - 1:
                promise.missed_ms = promise.due_ms = now_ms
        if now_ms > self._looked_ms:
            self._before_ms, self._looked_ms = self._looked_ms, now_ms

    def enter(self, height: int, events: Sequence[Event], view: StateView) -> Iterator[str]:
        """Enter a block into the books, and yield its faults."""
        self._look_around(events, view)
        for event in events:
            self._events += 1
            self._changed.enter(self._events, event)
            self._note_taken(event)
            for violation in self._lotteries.enter(event):
                yield str(violation)
            match event:
                case ReservationMade():
                    self._firm_since[event.run] = self._events
                    self._promises[event.reservation] = _Promise(
                        event,
                        event.planned_start_ms,
                        event.by_conflict,
                        event.slice,
                        event.payers,
                        self._events,
                        event.planned_start_ms,
                    )
                case ReservationMoved():
                    yield from self._move(event, view)
                case ReservationClosed():
                    yield from self._close(event)
                case LeaseEnding() if event.reason is EndReason.RECALLED:
                    yield from self._told(event, view)
                case LeaseEnding() if event.reason is EndReason.OVERSTAYED:
                    yield from self._stopped_early(event)
                    self._wait_for(event)
                case ConflictDeclared():
                    self._declared[event.conflict] = (event, height)
                    yield from _left_out(event, view)
                case ConflictResolved():
                    yield from self._resolve(event, height)
                case _:
                    pass
        yield from self._unused(view)
        yield from self._feasible(view)
        self._forget_missed(view.at_ms)
        self._entered_ms = view.at_ms
        self._marked = {name: view.runs[name].backfills for name in view.backfilled}
        self._waiting = {
            name: _waits_since(view, view.runs[record.made.run])
            for name, record in view.reservations.items()
        }

    # --- Promises ---

    def _forget_missed(self, at_ms: int) -> None:
        """Allow no further delay to missed starts that a decision by ``at_ms`` has considered."""
        for promise in self._promises.values():
            if promise.missed_ms is not None and promise.missed_ms <= at_ms:
                promise.missed_ms = None

    def _note_taken(self, event: Event) -> None:
        """Record when the GPUs of a lease were taken.

        For a lease that begins by a swap or a hand-over, this is the start of its run.
        """
        if not isinstance(event, LeaseStarted):
            return
        is_new = event.lease in self._began
        self._began -= {event.lease}
        if is_new and event.reason is StartReason.START:
            self._started[event.run] = self._events
        self._took[event.lease] = self._events if is_new else self._started.get(event.run, 0)

    def _look_around(self, events: Sequence[Event], view: StateView) -> None:
        """Record the leases that begin and end in a block, and the firm starts that do not move."""
        if any(isinstance(event, _CHANGES) for event in events) or _is_late(view):
            self._changes += 1
        self._cut = frozenset(
            lease
            for e in events
            if isinstance(e, ConflictResolved)
            for cut in e.cuts
            for lease in cut.leases
        )
        self._deadlines = {}
        for e in events:
            if isinstance(e, LeaseEnding):
                run = e.lease.rpartition("/")[0]
                self._deadlines[run] = max(e.deadline_ms, self._deadlines.get(run, 0))
        self._began = _begun(events)
        self._shares |= {e.lease: share_of(e) for e in events if isinstance(e, LeaseStarted)}
        self._handed = _handed_over(events, self._events + 1)
        self._ended = frozenset(e.lease for e in events if isinstance(e, LeaseEnded))
        self._recalled = [e for e in events if isinstance(e, LoanRecalled)]
        self._recalled_for = frozenset(
            e.reservation
            for e in events
            if isinstance(e, ReservationMoved) and e.cause.code is MoveCode.LOANS_RECALLED
        )
        moving = {
            e.reservation for e in events if isinstance(e, ReservationMoved | ReservationClosed)
        }
        self._moved = frozenset(
            promise.made.run
            for e in events
            if isinstance(e, ReservationMoved)
            and (promise := self._promises.get(e.reservation)) is not None
        )
        settled = {
            self._declared[e.conflict][0].reservation
            for e in events
            if isinstance(e, ConflictResolved) and e.outcome is ConflictOutcome.CLEARED
            if e.conflict in self._declared
        }
        self._by_conflict = frozenset(
            promise.made.run
            for name, promise in self._promises.items()
            if promise.by_conflict and name not in settled | self._settled
        )
        self._clearing = {
            e.reservation.rpartition("@")[0]: e.planned_start_ms
            for e in events
            if isinstance(e, ReservationMoved)
            and e.cause.code is MoveCode.CONFLICT_CLEARING
            and e.planned_start_ms is not None
            and e.by_conflict
        }
        self._activated, self._activated_at = {}, {}
        for number, e in enumerate(events, self._events + 1):
            if isinstance(e, ReservationClosed) and e.outcome is ReservationOutcome.ACTIVATED:
                promise = self._promises.get(e.reservation)
                if promise is not None and promise.planned_ms is not None:
                    run = promise.made.run
                    self._activated[run] = self._place(promise, promise.planned_ms, view)
                    self._activated_at[run] = number
        self._beside = [
            self._place(promise, promise.planned_ms, view)
            for name, promise in self._promises.items()
            if name not in moving and promise.planned_ms is not None and not promise.by_conflict
        ]
        self._hastened = [
            (number, self._place(promise, promise.planned_ms, view))
            for number, e in enumerate(events, self._events + 1)
            if isinstance(e, ReservationMoved)
            and e.cause.code is MoveCode.LOANS_RECALLED
            and (promise := self._promises.get(e.reservation)) is not None
            and promise.planned_ms is not None
            and not promise.by_conflict
        ]
        fitting = list(self._beside)
        for name, promise in self._promises.items():
            run, planned_ms = promise.made.run, promise.planned_ms
            if promise.by_conflict and run not in self._by_conflict and planned_ms is not None:
                place = self._place(promise, planned_ms, view)
                is_there = name not in moving or run in self._clearing
                later = _delayed(place, self._clearing.get(run, planned_ms))
                # Leases that overstay are stopped for another start at that start, or sooner.
                stopped = stopped_by(view, later, fitting)
                stopped = replace(stopped, leases=stopped.leases & stopped.gone_ms.keys())
                if is_there and not lacking(view, later, fitting, stopped):
                    fitting.append(later)
                    self._beside.append(place)

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
            if promise.made.run not in {each.waiting_run for each in self._recalled}:
                yield f"{event.reservation} moves because of loans, but no loan was recalled for it"
        elif is_later and not promise.by_conflict:
            yield from self._moved_later(event, promise, view)
        elif code is MoveCode.CONFLICT_FOUND:
            if is_later or not event.by_conflict:
                yield f"{event.reservation} moves for a conflict, but no sooner, or needs none"
        elif planned_ms is not None and start_ms is not None and start_ms < planned_ms:
            yield f"{event.reservation} moves from {planned_ms} to {start_ms}, which is sooner"
        promise.planned_ms = promise.due_ms = start_ms
        if code is MoveCode.CONFLICT_CLEARING:
            self._settled.add(event.reservation)
        else:
            self._settled.discard(event.reservation)
        promise.by_conflict = event.by_conflict
        promise.place, promise.payers = event.slice, event.payers
        promise.recorded = self._events

    def _moved_later(
        self, event: ReservationMoved, promise: _Promise, view: StateView
    ) -> Iterator[str]:
        """Yield a fault if a firm start moved later although it could stay, or the cause is false.

        A cause is true if the recorded start would be possible with the named objects as before.
        """
        self.moved_later += 1
        what = f"{event.reservation} moves from {promise.planned_ms} to {event.planned_start_ms}"
        if event.cause.code in (*_CALLED_OFF, MoveCode.AS_RECORDED, MoveCode.FOUND_AGAIN):
            yield f"{what} for {event.cause}, but that cause needs a conflict"
            return
        planned_ms = promise.planned_ms
        assert planned_ms is not None, promise
        place = self._place(promise, planned_ms, view)
        if place.run not in view.pending:
            return
        # Leases that began in this block are left out, because they did not exist before. If
        # another firm start was carried out after this start was recorded, the leases of its run
        # are left out, too, and the other start is used as it was recorded.
        places = {
            run: activated
            for run, activated in self._activated.items()
            if self._activated_at[run] > promise.recorded
        }
        late = {name for name in view.leases if view.leases[name].fact.run in places}
        began = self._began | late
        # Until leases are cut for a start by conflict, that start takes no room from other starts.
        activated = [p for run, p in places.items() if run not in self._by_conflict]
        beside = [*self._beside, *activated]
        # A start that was due and was not carried out ends later by its delay.
        # So does a start that waits for leases that were cut for it.
        delayed = [
            _delayed(other, max(view.at_ms, self._clearing.get(other.run, 0))) for other in beside
        ]
        delayed += [other for number, other in self._hastened if number > self._events]
        is_counted_on = is_counted(view, place) and promise.missed_ms is None
        # A loan that was recalled for another run, after the start was recorded, returns to the
        # other run. A loan recalled for this run returns in time for the start after the move.
        waiting_run = "" if event.reservation in self._recalled_for else promise.made.run
        with_loans = PutBack(began, unrecalled=self._unrecalled(waiting_run, view))
        if is_counted_on and not lacking(view, place, delayed, with_loans):
            yield f"{what} for {event.cause}, although its place is still free"
        if is_counted_on and event.cause.code is MoveCode.LEASE_OVERRAN:
            yield from _stoppable_in_time(what, view, place, delayed, with_loans)
        back = self._put_back(event, promise, view)
        is_real = back != PutBack() or self._is_behind(event, view)
        if not is_real and promise.missed_ms is None:
            yield f"{what} for {event.cause}, but nothing of that kind has changed"
        cured = replace(back, leases=back.leases | began, paid=self._paid_before())
        left = lacking(view, place, beside, cured)
        if left:
            # Another start may have moved for its own cause and then been carried out. If this
            # start lacks room even without the other one, the other one is left out. This start
            # must then have room when the cause of its own move is undone.
            others = [other for other in beside if other.run not in self._moved]
            if lacking(view, place, others, with_loans):
                left = lacking(view, place, others, cured)
        if left and promise.missed_ms is None:
            yield f"{what} for {event.cause}, but even without that it lacks {left}"
        is_by_older = any(self._took.get(name, 0) < promise.recorded for name in back.leases)
        younger = self._younger(promise, view) - began
        if promise.missed_ms is None and is_by_older and younger:
            with_all = lacking(view, place, delayed, PutBack(began))
            without = lacking(view, place, delayed, PutBack(began | younger))
            self.shared_slack += bool(with_all) and not without

    def _paid_before(self) -> dict[str, tuple[Share, ...]]:
        """Return the former payers of the leases that later events of the block hand over.

        When a start moves, its payers get free, and later events of the block may hand leases over
        to these payers.
        """

        def paid(lease: str) -> Iterator[Share]:
            number, replaced = self._handed.get(lease, (0, ()))
            if number <= self._events:
                yield self._shares[lease]
            for former in replaced if number > self._events else ():
                yield from paid(former)

        later = (name for name, (number, _) in self._handed.items() if number > self._events)
        return {name: tuple(paid(name)) for name in later}

    def _younger(self, promise: _Promise, view: StateView) -> frozenset[str]:
        """Return the leases that took room after the firm start was last recorded.

        Late leases are left out. So are leases of runs that already had a firm start at that time.
        """
        return frozenset(
            name
            for name, lease in view.leases.items()
            if self._took.get(name, 0) > promise.recorded
            and self._firm_since.get(lease.fact.run, self._events) > promise.recorded
            and not _was_late(view, name)
        )

    def _unrecalled(self, run: str, view: StateView) -> frozenset[str]:
        """Return the leases that this block recalled for runs other than ``run``."""
        return frozenset(
            name
            for each in self._recalled
            if each.waiting_run != run
            for name in view.runs[each.run].leases
            if each.bundle in (0, view.leases[name].fact.bundle)
        )

    def _is_behind(self, event: ReservationMoved, view: StateView) -> bool:
        """Return whether a start moves behind a late start, or a start that waits for cut leases.

        The cause of the move names the run in front, or leases that ended in the same block.
        """
        runs = {name for kind, name in event.cause.objects if kind == "run"}
        if not runs.isdisjoint(self._clearing):
            return True
        due = [place for place in (*self._beside, *self._activated.values()) if place.run in runs]
        leases = {name for kind, name in event.cause.objects if kind == "lease"}
        is_late = any(place.start_ms < view.at_ms for place in self._activated.values())
        return any(place.start_ms < view.at_ms for place in due) or (
            is_late and bool(leases & self._ended)
        )

    def _put_back(self, event: ReservationMoved, promise: _Promise, view: StateView) -> PutBack:
        """Return assumptions that undo the cause of a move, as far as the cause is true.

        A cause may name leases that are late, and objects that have changed since the start was
        recorded. If a cause names an overdue lease, all leases of the lease's run are assumed to
        have ended, including spares, because the run ends as a whole. If a cause names
        ``OBJECTS_MAX`` objects, it may have left out others, so every late lease is assumed to have
        ended.
        """
        objects = event.cause.objects
        leases = {name for kind, name in objects if kind == "lease"}
        if len(objects) >= OBJECTS_MAX:
            leases |= set(view.leases)
        runs = {known.fact.run for known in _overrunning(view, leases)}
        # A late lease may end after the move, in the same block, while its run continues. For
        # example, a spare of an overdue run was filled.
        ended = {name.rpartition("/")[0] for name in leases & self._ended}
        runs |= {run for run in ended if _is_overdue(view, run)}
        leases |= {lease for run in runs for lease in view.runs[run].leases}
        named = {("node", name) for kind, name in objects if kind == "node"}
        kinds = ("domain", "envelope", "cap", "owner", "pool")
        named |= {each for each in objects if each[0] in kinds}
        # A cause names an owner because of its quota or because of its parents.
        named |= {("family", name) for kind, name in objects if kind == "owner"}
        run = view.runs[promise.made.run].spec
        real = {
            each
            for each in named
            if self._changed.is_since(promise.recorded, each, run.owner, view)
        }
        if any(kind == "pool" for kind, _ in real):
            # If the selector of a pool changes, the pool may take nodes of another pool in any
            # domain.
            real |= {("domain", domain) for domain, _ in promise.place.domains}
        return PutBack(
            frozenset(name for name in leases if _was_late(view, name)),
            frozenset(name for kind, name in real if kind == "node"),
            frozenset(each for each in real if each[0] != "node"),
        )

    @staticmethod
    def _place(promise: _Promise, planned_ms: int, view: StateView) -> Place:
        """Return a firm start as it was recorded."""
        run = view.runs[promise.made.run].spec
        end_ms = planned_ms + expected_ms(run, view.pools[run.pool])
        return Place(run.name, planned_ms, end_ms, promise.place, promise.payers)

    def _close(self, event: ReservationClosed) -> Iterator[str]:
        promise = self._promises.pop(event.reservation)
        self._cleared.pop(event.reservation, None)
        if event.outcome is not ReservationOutcome.ACTIVATED:
            return
        # A start may be one tick late, because it waits for leases that end at its instant.
        is_late = promise.due_ms is not None and event.at_ms > promise.due_ms + 1
        if is_late and not promise.by_conflict:
            yield f"{event.reservation} starts at {event.at_ms}, firm for {promise.planned_ms}"

    def _told(self, event: LeaseEnding, view: StateView) -> Iterator[str]:
        """Yield a fault if a recalled lease was stopped too late despite a timely decision.

        There was a timely decision if the last decision before the present one was made when the
        stop was due already.
        """
        lease = view.leases.get(event.lease)
        recall = None if lease is None else recall_of(view, lease)
        if lease is None or recall is None or event.deadline_ms <= recall.due_ms:
            return
        bundle = (view.leases[name] for name in view.runs[lease.fact.run].leases)
        grace_ms = max(each.grace_ms for each in bundle)
        if self._before_ms >= recall.due_ms - grace_ms:
            yield (
                f"{event.lease} must end by {event.deadline_ms}, but its recall is due at "
                f"{recall.due_ms}"
            )

    def _wait_for(self, event: LeaseEnding) -> None:
        """Let starts that were due a millisecond ago wait for a stop without grace.

        Such a stop is ordered only a millisecond after the start was due, because the work may end
        by itself at the due instant. If the executor is late, another bundle may be stopped a
        millisecond later.
        """
        for promise in self._promises.values():
            if promise.due_ms == event.at_ms - 1 and event.deadline_ms == event.at_ms:
                promise.due_ms = event.at_ms

    def _stopped_early(self, event: LeaseEnding) -> Iterator[str]:
        """Yield a fault if backfill is stopped and no near firm start allows the stop.

        A firm start allows the stop if it is due by the lease's deadline, and its run began to wait
        before the lease started. Leases that a conflict cuts are not checked.
        """
        if event.lease in self._cut:
            return
        run = event.lease.rpartition("/")[0]
        started = [(mark.seq, mark.at_ms) for mark in self._marked.get(run, ())]
        deadline_ms = self._deadlines[run]
        if not any(
            promise.planned_ms is not None
            and promise.planned_ms <= deadline_ms
            and not promise.by_conflict
            and any(_is_after(mark, self._waiting.get(name, (0, 0))) for mark in started)
            for name, promise in self._promises.items()
        ):
            yield f"{event.lease} is stopped for a start, but no start is due by {deadline_ms}"

    def _feasible(self, view: StateView) -> Iterator[str]:
        """Yield firm starts that do not fit, and overstaying leases that block them.

        Each firm start must fit beside the open leases and all other firm starts. Leases that may
        be stopped for the start are left out, because they are stopped one grace before it. Leases
        that may be stopped for another start are left out from the time of that other start on. A
        missed start is not checked until the next decision.
        """
        places = places_of(view)
        for place in places:
            promise = view.runs[place.run].reservation or ""
            if self._promises[promise].missed_ms is not None:
                continue
            yield from (
                f"{lease} is in the way of {promise}" for lease in overstaying(view, place, places)
            )
            left = lacking(view, place, places, PutBack(stoppable(view, place)))
            if left:
                left = lacking(view, place, places, stopped_by(view, place, places))
            if left:
                yield f"{promise} cannot be kept: {left[:3]}"

    def _unused(self, view: StateView) -> Iterator[str]:
        """Yield the reservations that do not start when due, although a conflict made room."""
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
        yield from self._not_overstaying(declared, event)
        if event.draws:
            if height <= declared_height:
                yield f"conflict {event.conflict} is drawn in the block that declares it"
            link = chain_link(self._secret, declared.preimage_index, length=self._length)
            seed = seed_of(seed_parts(declared, link)).hex()
            if event.seed != seed:
                yield f"conflict {event.conflict} draws by {event.seed}, but {seed} was fixed"
            drawn = [(each.owner, each.run) for each in event.draws]
            if drawn != _redrawn(declared, event.seed)[: len(drawn)]:
                yield f"conflict {event.conflict} draws {drawn}, but its seed gives other draws"
        if event.outcome is ConflictOutcome.CLEARED and declared.reservation in self._promises:
            leases = tuple(lease for cut in event.cuts for lease in cut.leases)
            self._made_room[declared.reservation] = event.conflict
            self._settled.add(declared.reservation)
            self._cleared[declared.reservation] = _Cleared(event.conflict, leases, self._changes)

    def _not_overstaying(
        self, declared: ConflictDeclared, event: ConflictResolved
    ) -> Iterator[str]:
        """Yield runs that a conflict cuts as overstaying although they overtook no firm run.

        According to the state before the block, a cut run must have started after the run of the
        conflict began to wait. If the conflict is for no run, the cut run must have started after
        some run with a firm start began to wait.
        """
        own = self._waiting.get(declared.reservation)
        waiting = self._waiting.values() if own is None else (own,)
        for cut in event.cuts:
            if cut.step is CutStep.BACKFILL and not any(
                _is_after((mark.seq, mark.at_ms), since)
                for mark in self._marked.get(cut.run, ())
                if mark.bundle in (0, cut.bundle)
                for since in waiting
            ):
                yield (
                    f"conflict {event.conflict} cuts {cut.run}, which is in the way of no firm "
                    "start"
                )


def _waits_since(view: StateView, run: RunRecord) -> tuple[int, int]:
    """Return the event by which a run began to wait, and the instant since which it may start.

    Before this instant, upstreams or the limit of an array blocked the run; for other runs the
    instant is 0. For a run that was itself stopped because it overstayed, return a pair that is
    later than all others, so that no bundle is stopped for this run.
    """
    if run.has_overstayed:
        return _NEVER
    is_alone = run.spec.follow is None and run.spec.array is None
    since_ms = 0 if is_alone else eligible_since_ms(view, run)
    return _NEVER if since_ms is None else (run.waiting_seq, since_ms)


def _is_after(started: tuple[int, int], waiting: tuple[int, int]) -> bool:
    """Return whether a bundle started after a run began to wait; each value is (event, instant)."""
    return started[0] >= waiting[0] and started[1] >= waiting[1]


def _begun(events: Sequence[Event]) -> frozenset[str]:
    """Return the leases that begin in a block on GPUs that are new to their runs.

    A lease that begins by a swap, a hand-over or the return of a spare uses GPUs that its run had
    taken before. It is left out, unless its run starts in the block.
    """
    began = [event for event in events if isinstance(event, LeaseStarted)]
    new = [event for event in began if event.reason in (StartReason.START, StartReason.GROW)]
    # A run that starts has a lease other than a spare. If all new leases of a run are spares, the
    # run was already running, and gets its spares back.
    working = [event for event in new if event.role is not Role.SPARE]
    runs = {event.run for event in working}
    starting = {event.run for event in working if event.reason is StartReason.START}
    return frozenset(
        {event.lease for event in new if event.run in runs}
        | {event.lease for event in began if event.run in starting}
    )


def _handed_over(events: Sequence[Event], first: int) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Return, for each lease that begins by a hand-over, its event and the leases it replaces.

    The event is given by its number; the first of ``events`` has the number ``first``. If several
    leases of a run begin together, all leases that they replace are listed with the first of them,
    because only the sum for each payer matters.
    """
    found = dict[str, tuple[int, tuple[str, ...]]]()
    ended = dict[str, list[str]]()
    for number, event in enumerate(events, first):
        if isinstance(event, LeaseEnded) and event.reason is EndReason.HANDOVER:
            ended.setdefault(event.lease.rpartition("/")[0], []).append(event.lease)
        elif isinstance(event, LeaseStarted) and event.reason is StartReason.HANDOVER:
            found[event.lease] = (number, tuple(ended.pop(event.run, ())))
    return found


def _stoppable_in_time(
    what: str, view: StateView, place: Place, others: Sequence[Place], back: PutBack
) -> Iterator[str]:
    """Yield a fault if stops of overstaying leases would have made the move ``what`` needless.

    No lease is stopped to free a hard quota, so a lack of quota is no fault.
    """
    if any(text.startswith("quota ") for text in lacking(view, place, others, back)):
        return
    names = {
        name
        for name in stoppable(view, place)
        if view.at_ms <= place.start_ms - view.leases[name].grace_ms
    }
    if names and not lacking(view, place, others, replace(back, leases=back.leases | names)):
        yield f"{what}, although {', '.join(sorted(names))} may be stopped for it"


def _delayed(place: Place, now_ms: int) -> Place:
    """Return a firm start, moved to ``now_ms`` if it was due before."""
    late_ms = max(0, now_ms - place.start_ms)
    return replace(place, start_ms=place.start_ms + late_ms, end_ms=place.end_ms + late_ms)


def _redrawn(declared: ConflictDeclared, seed: str) -> list[tuple[str, str]]:
    """Return every draw of ``seed``, computed as in docs/reference/lottery.md, without the core."""
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
    """Return whether a lease is past its deadline to stop, or a conflict past its due time."""
    declared = (view.conflicts[name].declared for name in view.open_conflicts)
    return any(conflict.due_ms < view.at_ms for conflict in declared) or any(
        lease.ending is not None and lease.ending.deadline_ms < view.at_ms
        for lease in view.leases.values()
    )


def _overrunning(view: StateView, leases: Iterable[str]) -> Iterator[Lease]:
    """Yield those of ``leases`` that are late and not stopping."""
    for name in leases:
        if name in view.leases and view.leases[name].ending is None and _was_late(view, name):
            yield view.leases[name]


def _is_overdue(view: StateView, run: str) -> bool:
    """Return whether a run is running past its declared end."""
    record = view.runs[run]
    return record.phase is Phase.RUNNING and is_overdue(view, record, view.at_ms)


def _was_late(view: StateView, name: str) -> bool:
    """Return whether a lease is past its declared end, or past its deadline to stop.

    Also return True if the lease is recalled and its stop may last longer than its notice.
    """
    lease = view.leases.get(name)
    if lease is None:
        return False
    if lease.ending is not None and lease.ending.deadline_ms < view.at_ms:
        return True
    if is_told_late(view, lease):
        return True
    return is_overdue(view, view.runs[lease.fact.run], view.at_ms)


def _left_out(declared: ConflictDeclared, view: StateView) -> Iterator[str]:
    """Yield runs that could be drawn and are small enough, but got no token.

    Only clear cases are checked: runs with a single lease that no cut could end.
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
    """Return whether a run may count as burst: without it, its owner still reaches the target."""
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
    """Return whether a lease is in the scope of a conflict."""
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
    """Return whether a run is past its minimum runtime, or started after the reservation."""
    since_ms = record.since_ms
    if since_ms is None or since_ms >= declared.at_ms:
        return False
    least_ms = view.pools[record.spec.pool].least_runtime_ms
    made_ms = None
    if declared.reservation in view.reservations:
        made_ms = view.reservations[declared.reservation].made.at_ms
    return declared.due_ms - since_ms >= least_ms or (made_ms is not None and since_ms > made_ms)
