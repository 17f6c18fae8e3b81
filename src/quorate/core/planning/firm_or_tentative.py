"""Decides which start of a run is planned, and whether it is firm or tentative.

A start can become firm only if the hard quotas of nodes allow it for every way in which free GPUs
may be spread over the nodes. Such a start becomes firm in one of three cases:

- The start is within the pool's ``firmHorizon``.
- It is a start by a conflict.
- Loans were recalled for the start.

Any other start is tentative: the plan keeps GPUs for the start, but no GPU-hours.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from quorate.core.planning.conflict_starts import cleared_ms, start_by_conflict
from quorate.core.planning.start_now import can_carry
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.preemption.disruption_account import deferrals_due_ms
from quorate.core.profile.node_quota import kept_from_ms, promised
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.reservations import make_firm, move_firm
from quorate.core.profile.resource import FOREVER_MS
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import (
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    MoveCause,
    MoveCode,
    ReservationMoved,
    ReservationStatus,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
    StepsCounted,
)
from quorate.model.specs import Run
from quorate.model.state.records import ReservationRecord, RunRecord

CONFLICTS_MAX: Final = 3
"""A queue walk may search for starts by conflict for its first ``CONFLICTS_MAX`` runs."""
CONFLICTS_TURN: Final = 16
"""Of the later runs, a walk may search for starts by conflict for one in ``CONFLICTS_TURN``."""
PROMISES_MAX: Final = 8
"""How many starts of a run are examined to find one that can become firm under quotas of nodes."""

_ROUTINE: Final = (
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
    StepsCounted,
)
"""Frequent events. If no other event occurs, starts by conflict are searched for once a minute."""


class PlannedStarts:
    """Puts the starts of waiting runs into the plan of one walk."""

    __slots__ = ("_conflicts", "_looks_for_conflicts", "_moved", "_new_runs", "_plan")

    def __init__(self, plan: WalkPlan) -> None:
        self._plan = plan
        self.begin_again()

    def begin_again(self) -> None:
        """Reset the search for conflicts, as at the beginning of a walk."""
        plan, log = self._plan, self._plan.log
        self._conflicts = 0
        self._new_runs = {
            event.run.name if isinstance(event, RunSubmitted) else event.run
            for event in log.events
            if isinstance(event, RunSubmitted | RunRequeued)
        }
        self._moved = {
            plan.view.reservations[event.reservation].made.run
            for event in log.events
            if isinstance(event, ReservationMoved) and event.reservation in plan.view.reservations
        }
        self._looks_for_conflicts = (
            log.now_ms // MINUTE_MS != log.began_ms // MINUTE_MS
            or not all(isinstance(event, _ROUTINE) for event in log.events)
            or any(at_ms <= log.now_ms for at_ms in deferrals_due_ms(plan.view, log.began_ms))
        )

    def put(
        self, record: RunRecord, entry: Entry | None, recalled: MoveCause | None = None
    ) -> None:
        """Put the start of a run into the plan, as a firm or tentative start.

        ``recalled`` is set if loans were recalled for the run. Then the start may become firm
        beyond the pool's ``firmHorizon``, and ``recalled`` is the recorded cause if the run's
        reservation moves.
        """
        plan = self._plan
        run = record.spec
        natural_ms = None if entry is None else entry.start_ms
        is_beyond = plan.is_beyond(run.pool)
        is_asked = recalled is None and not is_beyond
        by_conflict = self.by_conflict(record, natural_ms) if is_asked else None
        entry = by_conflict or entry
        if entry is None:
            plan.fruitless.note(run)
            plan.fruitless_runs.add(run.name)
            return
        near_ms = plan.log.now_ms + plan.view.pools[run.pool].firm_horizon_ms
        found, later = by_conflict or promised(plan.profile, entry), None
        if found is None:
            later = self._kept_later(entry)
            if later is not None and (later.start_ms <= near_ms or recalled is not None):
                natural_ms, found, later = later.start_ms, later, None
        can_promise, entry = found is not None, found or entry
        is_near = not is_beyond and entry.start_ms <= near_ms
        is_wanted = is_near or by_conflict is not None or recalled is not None
        is_firm = is_wanted and can_promise
        blocked = plan.view.reservations.get(record.reservation or "") if can_promise else None
        if blocked is not None:
            cause = recalled or MoveCause(MoveCode.FOUND_AGAIN)
            move_firm(
                plan.log,
                blocked,
                entry,
                ReservationStatus.PLANNED,
                cause,
                natural_ms=natural_ms,
                by_conflict=by_conflict is not None,
            )
        elif is_firm:
            make_firm(plan.log, entry, natural_ms=natural_ms, by_conflict=by_conflict is not None)
        if is_firm or blocked is not None:
            plan.pins[run.name] = entry
        else:
            # A tentative start holds no GPU-hours, because it may be far away.
            plan.entries[run.name] = entry = replace(entry, is_tentative=True)
        plan.profile.put(entry)
        if later is not None:
            # ``entry`` cannot become firm. Room is also kept for ``later``, which can.
            plan.profile.put(replace(later, is_tentative=True))
        plan.count(entry)

    def moves_to_conflict(self, record: RunRecord, promise: ReservationRecord, pin: Entry) -> bool:
        """Move a firm start to a sooner start by a conflict; return whether it moved.

        Only two kinds of firm starts move in this way: a start that this decision has moved later,
        and starts beyond the pool's ``firmHorizon``. Any other firm start keeps its place, because
        a start by a conflict is less certain. If this decision has moved other firm starts, no
        start moves in this way. Otherwise the start could leave room that would have made the other
        moves needless.
        """
        plan = self._plan
        horizon_ms = plan.view.pools[pin.pool].firm_horizon_ms
        is_far = pin.start_ms > plan.log.now_ms + horizon_ms
        if promise.by_conflict or self._moved - {pin.run} or not (is_far or self._moved):
            return False
        entry = self.by_conflict(record, pin.start_ms)
        if entry is None:
            return False
        plan.lift_pin(pin)
        plan.hold_hours(pin, -1)
        move_firm(
            plan.log,
            promise,
            entry,
            ReservationStatus.PLANNED,
            MoveCause(MoveCode.CONFLICT_FOUND),
            natural_ms=pin.start_ms,
            by_conflict=True,
        )
        plan.put_pin(entry)
        plan.count(entry)
        return True

    def _kept_later(self, entry: Entry) -> Entry | None:
        """Return a later start than ``entry`` that can become firm; None if there is none.

        Because of hard quotas of nodes, ``entry`` cannot become firm. Room is kept for the later
        start, so that enough nodes come free, however GPUs are spread over nodes. But if enough
        GPUs are free on few nodes when the walk visits the run, the run starts sooner.
        """
        plan = self._plan
        at_ms = promisable_from_ms(plan, entry)
        run = plan.view.runs[entry.run].spec
        return None if at_ms is None else first_promisable(plan, run, at_ms)

    def by_conflict(self, record: RunRecord, natural_ms: int | None) -> Entry | None:
        """Return the start of a run by a conflict, or None.

        ``natural_ms`` is the run's start without a conflict. If there is no such start, a conflict
        is searched for only if the run lacks nothing but room. For example, the work in its way may
        be declared to last until the windows of its payers close.

        To save time, a walk searches for conflicts only for its first few runs, and for a selection
        of the other runs that changes every minute. For each of these runs, it searches in four
        cases:

        - The run has just begun to wait, or its firm start has just moved.
        - This decision is the first one in a minute.
        - This decision has an event that is not in ``_ROUTINE``.
        - A disruption account has grown enough to cover a deferred conflict.
        """
        plan = self._plan
        if natural_ms is None:
            if not self._lacks_room_only(record.spec):
                return None
            natural_ms = FOREVER_MS
        if natural_ms <= plan.log.now_ms + plan.view.pools[record.spec.pool].notice_ms:
            return None
        if record.reservation is not None:
            promise = plan.view.reservations.get(record.reservation)
            if promise and cleared_ms(plan.view, promise, plan.log.now_ms) is not None:
                return None  # Leases that were cut for this run have not ended yet.
        number, self._conflicts = self._conflicts, self._conflicts + 1
        turn = plan.log.now_ms // MINUTE_MS
        if number >= CONFLICTS_MAX and (number - turn) % CONFLICTS_TURN:
            return None
        name = record.spec.name
        if not self._looks_for_conflicts and name not in self._new_runs | self._moved:
            return None
        return start_by_conflict(plan.log, record, natural_ms)

    def _lacks_room_only(self, run: Run) -> bool:
        """Return whether a run has payers now, and would have room if no other work ran."""
        search = self._plan.search
        payers, least = search.asks.payers_of(run), run.widths()[-1]
        return can_carry(self._plan.log.view, payers, least) and not search.is_hopeless(run)


def first_promisable(plan: WalkPlan, run: Run, from_ms: int) -> Entry | None:
    """Return the first start of ``run`` that can become firm.

    Return None if none of the first ``PROMISES_MAX`` starts can become firm.
    """
    at_ms: int | None = from_ms
    for _ in range(PROMISES_MAX):
        entry = None if at_ms is None else plan.search.find(run, at_ms)
        if entry is None:
            return None
        found = promised(plan.profile, entry)
        if found is not None:
            return found
        at_ms = promisable_from_ms(plan, entry)
    return None


def promisable_from_ms(plan: WalkPlan, entry: Entry) -> int | None:
    """Return the next instant from which to search for a start; None if there is none.

    The caller has found that ``entry`` cannot become firm.
    """
    at_ms = kept_from_ms(plan.profile, entry)
    if at_ms is not None and at_ms > entry.start_ms:
        return at_ms
    return plan.search.next_change_ms(plan.view.runs[entry.run].spec, entry.start_ms)
