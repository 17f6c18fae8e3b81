"""The walk: over firm places and the queue; what can start starts, the rest is planned.

Firm places are put in first, in the order in which they became firm; those that do not fit any more
are planned anew around the others, and the cause is recorded. Then come the waiting runs in queue
order, the first ``reservationDepth`` of each pool and every firm one: each gets the earliest start
that quotas, payers and room allow beside all that is put in. A run that can start now does; a start
within the pool's horizon becomes firm; any other is a forecast and is not recorded. Beyond the
depth a bounded number of runs start in what is left. docs/adr/0025-planning.md.

A reader may have the walk go on beyond the depth, up to one run (``Reach``).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.hard_quota import HARD, waiting
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.cut_cooldown import held_back, held_until_ms
from quorate.core.lifecycle.fill import admit_on_spares, kept_from_fill, write_fill
from quorate.core.lifecycle.follow import eligible_since_ms, waits_for_upstream
from quorate.core.lifecycle.run_phases import grant_claim
from quorate.core.lifecycle.starts import write_start
from quorate.core.planning.beyond_depth import start_beyond
from quorate.core.planning.conflict_starts import (
    call_conflict,
    cleared_ms,
    look_ms,
    start_by_conflict,
)
from quorate.core.planning.fruitless import Fruitless
from quorate.core.planning.kept_starts import KeptStarts
from quorate.core.planning.move_causes import cause_of
from quorate.core.planning.overstay import Overstayer, can_stay, overstayers
from quorate.core.planning.recall import (
    Planned,
    has_loans,
    plan_recall,
    recallable,
    write_recall,
)
from quorate.core.planning.room_now import Lack
from quorate.core.planning.start_search import Searcher
from quorate.core.preemption.disruption_account import deferrals_due_ms
from quorate.core.profile.firm_places import in_order, payers_of, pin_of, place_of, stands
from quorate.core.profile.node_quota import counted, kept_from_ms, promised
from quorate.core.profile.plan_entry import Entry, shares_of, slice_of
from quorate.core.profile.profile import Profile
from quorate.core.profile.reservations import close_firm, make_firm, move_firm, without_hold
from quorate.core.profile.reserved_refusal import reserved
from quorate.core.profile.room_left import only_domains, only_slice, room_beside
from quorate.core.tenancy.queue_order import Queue, Scores, in_turn, ranked_lines
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import (
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    MoveCause,
    MoveCode,
    PoolApplied,
    ReservationOutcome,
    ReservationStatus,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
    StepsCounted,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Follow, Run
from quorate.model.state.line_ranks import Ranked
from quorate.model.state.records import ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.waiting_index import Line, Place, line_of

CONFLICTS_MAX: Final = 3
"""For how many runs, its first ones, each walk looks for a sooner start by a conflict."""
CONFLICTS_TURN: Final = 16
"""Of the other runs, one in so many has its turn in a walk."""
PROMISES_MAX: Final = 8
"""How many starts of a run are examined for one that node quotas allow on whichever nodes."""

SHORT_SEARCH_STEPS: Final = 300
"""Steps of the first, short search for each start: overlapping caps make finding payers hard."""

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
"""Frequent events: after these alone, starts by a conflict are looked for once a minute only."""

_LACKS: Final = {
    RefusalCode.WAITING_FOR_QUOTA: Lack.QUOTA,
    RefusalCode.NO_ENVELOPE: Lack.FUNDS,
    RefusalCode.INSUFFICIENT_FUNDS: Lack.FUNDS,
    RefusalCode.BORROW_LIMIT: Lack.FUNDS,
    RefusalCode.FUNDS_ELSEWHERE: Lack.FUNDS,
    RefusalCode.NO_NODES: Lack.ROOM,
    RefusalCode.INSUFFICIENT_CAPACITY: Lack.ROOM,
    RefusalCode.NO_SINGLE_DOMAIN: Lack.ROOM,
    RefusalCode.RESERVED: Lack.NOTHING,
}
"""What a run lacks, by the code of its last refusal; other codes are looked into each time."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a reader's walk goes on beyond the depth of ``pool``: up to ``run``.

    The walk looks at ``runs_max`` runs at most. Beyond the depth no start becomes firm, no conflict
    is looked for and no loan is recalled, as in a decision. Unlike in a decision, every run is
    planned, however many runs like it have no start.
    """

    run: str
    pool: str
    runs_max: int


class Walk:
    """One walk of one decision. Afterwards, its profile has everything that is planned."""

    __slots__ = (
        "_conflicts",
        "_depths",
        "_fruitless",
        "_fruitless_runs",
        "_is_waiting",
        "_kept",
        "_late",
        "_long_search",
        "_looks_for_conflicts",
        "_new_runs",
        "_planned",
        "_reach",
        "_started_runs",
        "entries",
        "has_left_place",
        "has_new_spares",
        "log",
        "pins",
        "profile",
        "ranked",
        "scores",
        "search",
        "seen",
        "view",
    )

    def __init__(self, log: DecisionLog, *, reach: Reach | None = None) -> None:
        self.log = log
        self._reach = reach
        self.view = log.frozen()
        self._depths = [(name, pool.reservation_depth) for name, pool in self.view.pools.items()]
        self.profile = Profile(self.view, log.now_ms)
        self.search = Searcher(self.profile, has_executor=log.has_executor)
        self._kept: KeptStarts | None = None if reach else KeptStarts(self.profile, self.search)
        """Starts of the walk before; None in a walk that leaves nothing to the next."""
        self.scores = Scores(self.view, log.now_ms)
        self.ranked: list[Ranked] = []
        """The lines of waiting runs in their order before anything is planned."""
        self.pins: dict[str, Entry] = {}
        """The firm places by run."""
        self.entries: dict[str, Entry] = {}
        """What is planned and not firm, by run."""
        self._long_search = SearchBudget()
        """The search steps that all starts of this walk share if a short search is not enough."""
        self._late: list[Overstayer] | None = None
        self._planned: dict[str, int] = {}
        self.seen: set[str] = set()
        """The waiting runs that were looked at."""
        self._fruitless = Fruitless(self.view, self.seen)
        self._fruitless_runs: set[str] = set()
        self._started_runs: dict[str, Entry] = {}
        self._conflicts = 0
        self._new_runs = {
            event.run.name if isinstance(event, RunSubmitted) else event.run
            for event in log.events
            if isinstance(event, RunSubmitted | RunRequeued)
        }
        self._looks_for_conflicts = (
            log.now_ms // MINUTE_MS != log.began_ms // MINUTE_MS
            or not all(isinstance(event, _ROUTINE) for event in log.events)
            or any(at_ms <= log.now_ms for at_ms in deferrals_due_ms(self.view, log.began_ms))
        )
        self.has_new_spares = False
        """Whether a run with spares has started, which runs before it in the queue could fill."""
        self.has_left_place = False
        """Whether a firm run has started elsewhere or sooner than in the place it was promised.

        Runs before it in the queue, which wait, were planned beside that place.
        """
        self._is_waiting = False
        """Whether a run that has a start has stayed waiting: what starts then is backfill."""

    # --- Firm places ---

    def put_pins(self) -> None:
        """Put every firm place in; move those that do not fit any more, and record why."""
        aside: list[tuple[ReservationRecord, Entry]] = []
        clearing: list[tuple[ReservationRecord, Entry, int]] = []
        records = [record for _, record in in_order(self.view)]
        for record in records:
            if not record.by_conflict:
                self._put_record(record, aside, clearing)
        causes = self._causes([pin for _, pin in aside])
        # A start by a conflict takes what the others leave, and displaces none of them.
        for record in records:
            if record.by_conflict:
                self._put_record(record, aside, clearing)
        self.profile.shut()
        for record, pin, gone_ms in clearing:
            self._wait_for_cuts(record, pin, gone_ms)
        for (record, pin), cause in zip(aside, causes, strict=True):
            self._move(record, pin, cause)

    def _put_record(
        self,
        record: ReservationRecord,
        aside: list[tuple[ReservationRecord, Entry]],
        clearing: list[tuple[ReservationRecord, Entry, int]],
    ) -> None:
        """Put one firm place in, unless it waits for leases that were cut or does not fit any more.

        Then it is added to ``clearing`` or to ``aside``.
        """
        now_ms = self.log.now_ms
        pin = pin_of(self.view, record, now_ms)
        if pin is None:
            return
        gone_ms = cleared_ms(self.view, record, now_ms)
        if gone_ms is not None and gone_ms > pin.start_ms:
            clearing.append((record, pin, gone_ms))
            return
        is_standing = record.by_conflict or stands(self.profile, pin)
        self._put_pin(pin)
        if is_standing:
            return
        late, has_executor = self._overstayers(), self.log.has_executor
        if not can_stay(self.profile, record, pin, late, has_executor=has_executor):
            self._lift_pin(pin)
            aside.append((record, pin))

    def _causes(self, pins: Sequence[Entry]) -> list[MoveCause]:
        """Return why each of ``pins``, which are not put in, does not fit any more."""
        if not pins:
            return []
        now_ms = self.log.now_ms
        overdue = [
            self.pins[record.made.run]
            for record in self.view.reservations.values()
            if (record.planned_start_ms or now_ms) < now_ms and record.made.run in self.pins
        ]
        causes = [cause_of(self.profile, pin, overdue, self.log.events) for pin in pins]
        pools = [("pool", e.pool.name) for e in self.log.events if isinstance(e, PoolApplied)]
        if not pools:
            return causes
        # A pool takes nodes from another when its selector changes.
        moved = MoveCause(MoveCode.POOL_CHANGED, tuple(pools))
        return [moved if cause.code is MoveCode.NODES_CHANGED else cause for cause in causes]

    def _overstayers(self) -> list[Overstayer]:
        """Return the backfill that has outstayed its declared end; found when it is first asked."""
        if self._late is None:
            self._late = overstayers(self.view, self.log.now_ms)
        return self._late

    def _wait_for_cuts(self, record: ReservationRecord, pin: Entry, gone_ms: int) -> None:
        """Move a start to ``gone_ms``, when the leases cut for it are expected to be gone.

        If it has no room then, it is planned anew from there on, around the firm places.
        """
        cause = MoveCause(MoveCode.CONFLICT_CLEARING, (("conflict", record.conflict),))
        run = self.view.runs[record.made.run].spec
        later = place_of(self.view, run, gone_ms, pin.slice, pin.shares, is_firm=True)
        later = replace(counted(self.view, later), by_conflict=True, keeps=())
        if not stands(self.profile, later):
            self._hold_hours(pin, -1)
            self._move_to(record, gone_ms, cause)
            return
        move_firm(
            self.log,
            record,
            later,
            ReservationStatus.CLEARING,
            cause,
            natural_ms=record.natural_start_ms,
            by_conflict=True,
        )
        self._put_pin(later)

    def _move(self, record: ReservationRecord, pin: Entry, cause: MoveCause) -> None:
        """Move a reservation that does not fit to its next start around all that is put in."""
        self._hold_hours(pin, -1)
        self._move_to(record, pin.start_ms, cause)

    def _move_to(self, record: ReservationRecord, from_ms: int | None, cause: MoveCause) -> None:
        """Move a reservation, whose place is not put in, to its first start from ``from_ms`` on.

        It is blocked where there is none, or ``from_ms`` is None.
        """
        run = self.view.runs[record.made.run].spec
        entry = None if from_ms is None else self._promisable(run, from_ms)
        status = ReservationStatus.BLOCKED if entry is None else ReservationStatus.DEFERRED
        move_firm(self.log, record, entry, status, cause)
        if entry is not None:
            self._put_pin(entry)

    def _promisable(self, run: Run, from_ms: int) -> Entry | None:
        """Return the first start of ``run`` that can be promised, of the first few; None: none."""
        at_ms: int | None = from_ms
        for _ in range(PROMISES_MAX):
            entry = None if at_ms is None else self.search.find(run, at_ms)
            if entry is None:
                return None
            found = promised(self.profile, entry)
            if found is not None:
                return found
            at_ms = self._promisable_from_ms(entry)
        return None

    def _promisable_from_ms(self, entry: Entry) -> int | None:
        """Return from when to look for the next start, as ``entry`` cannot be promised, or None."""
        at_ms = kept_from_ms(self.profile, entry)
        if at_ms is not None and at_ms > entry.start_ms:
            return at_ms
        return self.search.next_change_ms(self.view.runs[entry.run].spec, entry.start_ms)

    def _put_pin(self, pin: Entry) -> None:
        self.profile.put(pin)
        self.pins[pin.run] = pin

    def _lift_pin(self, pin: Entry) -> None:
        self.profile.lift(pin)
        del self.pins[pin.run]

    def _hold_hours(self, pin: Entry, sign: int) -> None:
        """Count the GPU-hours that a firm place holds as free (``sign`` -1), or held again (1)."""
        if pin.is_firm:
            self.profile.count_hours(pin.shares, sign)

    def call_due_conflicts(self) -> bool:
        """Call the conflicts that due firm starts count on; return whether one was moved instead.

        After a move no more conflicts are called, as it may leave room to others.
        """
        for name, _ in in_order(self.view):
            record = self.log.view.reservations.get(name)
            if record is None or not record.by_conflict:
                continue
            look = look_ms(self.log.view, record, has_executor=self.log.has_executor)
            if look is None or look > self.log.now_ms:
                continue
            if cleared_ms(self.log.view, record, self.log.now_ms) is not None:
                continue
            cause = call_conflict(self.log, record)
            if cause is not None:
                pin = self.pins[record.made.run]
                self._lift_pin(pin)
                for entry in self.entries.values():
                    self.profile.lift(entry)  # The moved start goes around firm places only.
                self.entries.clear()
                self._move(record, pin, cause)
                return True
        return False

    # --- The queue ---

    def run(self, *, is_last: bool = False) -> None:
        """Start and plan the waiting runs, in queue order.

        The walk ends early when a firm run leaves its promised place, which runs before it in the
        queue could use. With ``is_last`` it goes on, and runs behind the firm run may be planned in
        that place.
        """
        for _, promise in in_order(self.view):
            # Leases that were cut for this start may lie outside of its place: it goes first.
            pin = self.pins.get(promise.made.run) if promise.by_conflict else None
            if pin is not None and promise.conflict and pin.start_ms <= self.log.now_ms:
                self._visit(self.view.runs[promise.made.run])
        self.ranked = ranked_lines(self.view, self.log.now_ms)
        queue = self._queue()
        self._close_full(queue)
        for name in queue.turns():
            self._visit(self.view.runs[name])
            if self._has_reached(name) or (self.has_left_place and not is_last):
                return
            self._close_full(queue)
        firm = [r.made.run for r in self.view.reservations.values() if r.made.run not in self.seen]
        for name in in_turn(self.view, firm, self.scores):
            self._visit(self.view.runs[name])
            if self.has_left_place and not is_last:
                return
        start_beyond(self)
        for event in tuple(self.log.events):
            if isinstance(event, RunSubmitted | RunRequeued):
                self._told(event.run if isinstance(event, RunRequeued) else event.run.name)

    def keep(self) -> None:
        """Leave the starts that were found to the next walk."""
        if self._kept is not None:
            self._kept.keep()

    def _queue(self) -> Queue:
        """Return the queue from which the waiting runs are called up."""
        late, lines = self._followers(), self.view.waiting.lines
        ranked = self.ranked
        if late:
            ranked = [(rank, late.get(line, [first])[0], line) for rank, first, line in ranked]
            ranked.sort()

        def skip(line: Line, places: Sequence[Place], at: int) -> int:
            # Where followers change the order of a line, its runs are looked at one by one.
            return at if line in late else self._fruitless.skip(line, places, at)

        return Queue(
            ranked,
            lambda line: late.get(line) or lines[line].places,
            self.scores,
            skip=skip if self._reach is None else None,
        )

    def _followers(self) -> dict[Line, list[Place]]:
        """Return the lines whose order followers change, each with its places in the new order.

        A follower's age counts from when the last of its upstreams completed. A
        follower whose wait for an upstream is recorded already is not looked at.
        """
        view, found = self.view, dict[Line, list[Place]]()
        waits_for: dict[Follow | None, Refusal | None] = {}
        for name in view.followers:
            if name in view.in_rounds:
                continue  # A run in rounds is in no line.
            record = view.runs[name]
            follow = record.spec.follow
            if follow not in waits_for:
                waits_for[follow] = waits_for_upstream(view, record.spec)
            waits = waits_for[follow]
            if waits is not None:
                if not is_news(record.refusal, waits):
                    self.seen.add(name)
                continue
            line = line_of(record.spec)
            since_ms = eligible_since_ms(view, record)
            if since_ms is None or since_ms == record.submitted_ms:
                continue
            places = found.setdefault(line, view.waiting.lines[line].places.copy())
            places.remove((record.submitted_ms, record.seq, name))
            insort(places, (since_ms, record.seq, name))
        return found

    def _close_full(self, queue: Queue) -> None:
        """Close the pools in which as many runs are planned as their depth, not ``Reach.pool``."""
        closed, planned = queue.closed, self._planned
        open_pool = "" if self._reach is None else self._reach.pool
        for name, depth in self._depths:
            if planned.get(name, 0) >= depth and name != open_pool:
                closed.add(name)
        queue.is_closed = len(closed) == len(self._depths)

    def _is_full(self, pool: str) -> bool:
        """Return whether as many runs of ``pool`` are planned as its depth says."""
        return self._planned.get(pool, 0) >= self.view.pools[pool].reservation_depth

    def _is_beyond(self, pool: str) -> bool:
        """Return whether this walk has gone on beyond the depth of ``pool``."""
        return self._reach is not None and self._reach.pool == pool and self._is_full(pool)

    def _has_reached(self, name: str) -> bool:
        """Return whether ``name`` is the last run of a walk that goes on beyond the depth."""
        reach = self._reach
        return reach is not None and (name == reach.run or len(self.seen) >= reach.runs_max)

    def _visit(self, record: RunRecord) -> None:
        """Start or plan one run within the depth, or a firm one."""
        run = record.spec
        if run.name in self.seen:
            return
        self.seen.add(run.name)
        if run.sensitive:
            if record.refusal is None:  # A claim is granted when it is asked for, or not at all.
                grant_claim(self.log, run)
            return
        waits = waits_for_upstream(self.view, run)
        if waits is not None:
            self.tell(record, waits)
        elif record.reservation is not None:
            self._firm(record, self.view.reservations[record.reservation])
        else:
            self._next(record)

    def _told(self, name: str) -> None:
        """Write why a run waits that began to wait in this decision and was not looked at."""
        record = self.view.runs.get(name)
        if record is None or name in self.seen or name not in self.view.pending:
            return
        if record.spec.sensitive:
            if record.refusal is None:
                grant_claim(self.log, record.spec)
            return
        waits = waits_for_upstream(self.view, record.spec) or held_back(
            self.view, name, self.log.now_ms
        )
        if waits is not None:
            self.tell(record, waits)
        else:
            self.refuse(record)

    def _firm(self, record: RunRecord, promise: ReservationRecord) -> None:
        """Start a firm run, at its turn in the queue, if it can; else keep or move its place."""
        pin = self.pins.get(record.spec.name)
        if pin is None:
            self._next(record)
            return
        held = held_back(self.view, record.spec.name, self.log.now_ms)
        if held is not None:
            self._counted(pin)
            self.tell(record, held)
            return
        is_due = pin.start_ms <= self.log.now_ms
        if not is_due and self._has_no_chance(record.spec):
            self.pins[pin.run] = self.pins.pop(pin.run)  # In the order in which they are tried.
            self._counted(pin)
            self.refuse(record)
            return
        self._lift_pin(pin)
        self._hold_hours(pin, -1)
        if self._start_firm(record, promise, pin):
            self._leave(pin)
            return
        is_late = is_due and (promise.planned_start_ms or 0) < self.log.now_ms
        waits_for_ends = is_late and self.search.counts_on_ends_now(record.spec)
        if is_late and not promise.by_conflict and not waits_for_ends:
            # Its place is free by counting, but the run cannot really start there.
            later_ms = self.search.next_change_ms(record.spec, self.log.now_ms)
            self._move_to(promise, later_ms, cause_of(self.profile, pin, (), self.log.events))
            self.refuse(record)
            return
        if not is_due and self._recall(record, pin):
            return
        self._hold_hours(pin, 1)
        self._put_pin(pin)
        self._counted(pin)
        self.refuse(record)

    def _leave(self, pin: Entry) -> None:
        """Note that a firm run started outside its place, if runs before it could use the place."""
        started = self._started_runs[pin.run]
        took = (started.start_ms, started.slice, started.shares)
        if took != (pin.start_ms, pin.slice, pin.shares):
            self.has_left_place |= self._is_waiting or bool(self._fruitless_runs)

    def _has_no_chance(self, run: Run) -> bool:
        """Return whether ``run`` cannot start now: no room, no spares, no loans of its owner."""
        view = self.log.view
        return not (view.spares or self.search.now.has_free(run) or has_loans(view, run.owner))

    def _start_firm(self, record: RunRecord, promise: ReservationRecord, pin: Entry) -> bool:
        """Start a firm run, whose place is not put in, if it can now; return whether it did."""
        is_due = pin.start_ms <= self.log.now_ms
        until_ms = pin.end_ms if is_due else self._until_ms(record.spec)
        # For a due run other firm places keep only what they need, else all that they take.
        with self.profile.opened() if is_due else nullcontext():
            if not self._may_start(record.spec, until_ms):
                return False
            answer = self._admit_due(record, promise, pin) if is_due else None
        room = self._room(record, promise.made.reservation)
        if not isinstance(answer, Admitted):
            answer = self._admit(record.spec, room)
        if isinstance(answer, Admitted):
            self._start(record, answer)
            return True
        return self._fill(record, room, answer)

    def _next(self, record: RunRecord) -> None:
        """Start a run now, or plan it for the earliest start that it has."""
        run, now_ms = record.spec, self.log.now_ms
        if self._reach is None and self._fruitless.is_given_up(run):
            # It may start in what is left when all others are planned.
            self.seen.discard(run.name)
            return
        held = held_back(self.view, run.name, now_ms)
        if held is not None:
            self._plan(record, self.search.find(run, held_until_ms(self.view, record) or now_ms))
            self.tell(record, held)
            return
        kept = self._kept
        entry = self.search.find(run, now_ms) if kept is None else kept.find(run)
        refusal: Refusal | None = None
        if entry is not None and entry.start_ms == now_ms:
            if self._may_start(run, self._until_ms(run)):
                answer = self._admit(run, self._room(record))
                if isinstance(answer, Admitted):
                    self._start(record, answer)
                    return
                refusal = answer
            # The run fits by counting but cannot start: look again from the next change on, unless
            # a lease that is expected to end at this very instant may still do so.
            if entry.is_choosy or not self.search.counts_on_ends_now(run):
                later_ms = self.search.next_change_ms(run, now_ms)
                entry = None if later_ms is None else self.search.find(run, later_ms)
        if self.log.view.spares:
            room = self._room(record)
            if self._fill(record, room, refusal):
                return
        if self._recall(record, entry):
            return
        self._plan(record, entry)
        self.refuse(record)

    def _recall(self, record: RunRecord, natural: Entry | None) -> bool:
        """Recall loans for a run that waits for nothing else; return whether it did so.

        The run starts at once where other payers take all these loans over, and otherwise when
        their notice is over. ``natural`` is its start without the recall, which is not put in.
        """
        log, run, own = self.log, record.spec, record.reservation or ""
        if self._is_beyond(run.pool) or (natural is None and self.search.is_hopeless(run)):
            return False
        if not recallable(log.view, run, log.now_ms, has_executor=log.has_executor):
            return False
        natural_ms = None if natural is None else natural.start_ms
        planned = Planned(tuple(self.pins), tuple(self.entries.values()))
        recall = plan_recall(log, run, planned, natural_ms, own)
        if recall is None:
            return False
        write_recall(log, recall, run.name)
        self.view = log.frozen()
        self.profile, self.pins = planned.profile(self.view, log.now_ms)
        self.ranked = ranked_lines(self.view, log.now_ms)
        self.search = Searcher(self.profile, has_executor=log.has_executor)
        self._kept = None
        record = self.view.runs[run.name]
        if natural is not None:
            self._hold_hours(natural, -1)
        answer = None if recall.told else self._admit(run, self._room(record, own))
        if isinstance(answer, Admitted):
            self._start(record, answer)
            return True
        entry = self.search.find(run, log.now_ms)
        if natural is not None and own and (entry is None or not promised(self.profile, entry)):
            self._hold_hours(natural, 1)
            self._put_pin(natural)
            self._counted(natural)
            self.refuse(record)
            return True
        objects = dict.fromkeys(("run", loan.run) for loan in recall.told)
        self._plan(record, entry, MoveCause(MoveCode.LOANS_RECALLED, tuple(objects)))
        self.refuse(record)
        return True

    def _plan(
        self, record: RunRecord, entry: Entry | None, recalled: MoveCause | None = None
    ) -> None:
        """Put the start of a run in; make it firm where it is near, or by a conflict.

        ``recalled`` is set where loans were recalled for the run: its start is firm then, and if
        its reservation moves, this is the cause.
        """
        run = record.spec
        if entry is None:
            self._fruitless.note(run)
            self._fruitless_runs.add(run.name)
            return
        is_beyond = self._is_beyond(run.pool)
        is_asked = recalled is None and not is_beyond
        by_conflict = self._by_conflict(record, entry.start_ms) if is_asked else None
        natural_ms, entry = entry.start_ms, by_conflict or entry
        near_ms = self.log.now_ms + self.view.pools[run.pool].firm_horizon_ms
        found, later = by_conflict or promised(self.profile, entry), None
        if found is None:
            later = self._kept_later(entry)
            if later is not None and (later.start_ms <= near_ms or recalled is not None):
                natural_ms, found, later = later.start_ms, later, None
        can_promise, entry = found is not None, found or entry
        is_near = not is_beyond and entry.start_ms <= near_ms
        is_wanted = is_near or by_conflict is not None or recalled is not None
        is_firm = is_wanted and can_promise
        blocked = self.view.reservations.get(record.reservation or "") if can_promise else None
        if blocked is not None:
            cause = recalled or MoveCause(MoveCode.FOUND_AGAIN)
            move_firm(
                self.log,
                blocked,
                entry,
                ReservationStatus.PLANNED,
                cause,
                natural_ms=natural_ms,
                by_conflict=by_conflict is not None,
            )
        elif is_firm:
            make_firm(self.log, entry, natural_ms=natural_ms, by_conflict=by_conflict is not None)
        if is_firm or blocked is not None:
            self.pins[run.name] = entry
        else:
            # A tentative start keeps room but no GPU-hours, as it may be far away.
            self.entries[run.name] = entry = replace(entry, is_tentative=True)
        self.profile.put(entry)
        if later is not None:
            # ``entry`` cannot be promised; room is kept for this later start, which can.
            self.profile.put(replace(later, is_tentative=True))
        self._counted(entry)

    def _kept_later(self, entry: Entry) -> Entry | None:
        """Return a later start than ``entry`` that can be promised; None where there is none.

        Node quotas forbid promising ``entry``. Room is kept for the later start, so that the nodes
        it needs come free however GPUs are spread. The run still starts sooner where, at its turn,
        enough GPUs are really free on few nodes.
        """
        at_ms = self._promisable_from_ms(entry)
        run = self.view.runs[entry.run].spec
        return None if at_ms is None else self._promisable(run, at_ms)

    def _by_conflict(self, record: RunRecord, natural_ms: int) -> Entry | None:
        """Return the start of a run by a conflict, or None; each walk tries a few runs only.

        These are its first few runs, and some of the others, which change each minute. For a run
        that has just begun to wait it is looked for at once; for the others in the first decision
        of a minute, or after an event that is not ``_ROUTINE``.
        """
        if natural_ms <= self.log.now_ms + self.view.pools[record.spec.pool].notice_ms:
            return None
        number, self._conflicts = self._conflicts, self._conflicts + 1
        turn = self.log.now_ms // MINUTE_MS
        if number >= CONFLICTS_MAX and (number - turn) % CONFLICTS_TURN:
            return None
        if not self._looks_for_conflicts and record.spec.name not in self._new_runs:
            return None
        return start_by_conflict(self.log, record, natural_ms)

    def _counted(self, entry: Entry) -> None:
        """Count a planned run: it is one of its pool's depth, and part of its owner's share."""
        self._planned[entry.pool] = self._planned.get(entry.pool, 0) + 1
        self.scores.plan(entry.owner, entry.slice.flavor, entry.slice.gpus)
        self._is_waiting = True

    def try_beyond(self, record: RunRecord) -> bool:
        """Start a run beyond the depth in what is left now; return whether it did."""
        run = record.spec
        waits = waits_for_upstream(self.view, run) or held_back(
            self.view, run.name, self.log.now_ms
        )
        if waits is not None or run.sensitive:
            return False  # It was not looked at: if it is new, it is granted or told below.
        self.seen.add(run.name)
        room = self._room(record)
        answer = self._admit(run, room)
        if isinstance(answer, Admitted):
            self._start(record, answer)
            return True
        if self._fill(record, room, answer):
            return True
        self.refuse(record)
        return False

    # --- Starting ---

    def _room(self, record: RunRecord, reservation: str = "") -> StateView:
        """Return a view of what the plan leaves a run now, without the hold of ``reservation``."""
        log, run = self.log, record.spec
        view = without_hold(log.view, reservation) if reservation else log.view
        payers, until_ms = self.search.asks.payers_of(run), self._until_ms(run)
        return room_beside(view, self.profile, run, log.now_ms, until_ms, payers=payers)

    def _may_start(self, run: Run, until_ms: int) -> bool:
        """Return whether admission may find room for a start now: on spares, or what is free."""
        view = self.log.view
        return bool(view.spares) or self.search.now.may_have_room(view, run, until_ms)

    def _until_ms(self, run: Run) -> int:
        """Return until when a run that starts now is paid for."""
        return self.log.now_ms + hold_duration_ms(run, self.view.pools[run.pool])

    def _admit(self, run: Run, room: StateView) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now, or why it cannot."""
        now_ms, has_executor = self.log.now_ms, self.log.has_executor
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = admit(room, run, now_ms, has_executor=has_executor, steps=short)
        if short.exhausted and isinstance(answer, Refusal) and not self._long_search.exhausted:
            steps = self._long_search
            answer = admit(room, run, now_ms, has_executor=has_executor, steps=steps)
        return answer

    def _admit_as_promised(self, run: Run, room: StateView, pin: Entry) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now; if the search is too long, as promised.

        Other payers and widths make it long; the payers and the width of ``pin`` are known.
        """
        answer = self._admit(run, room)
        if isinstance(answer, Admitted) or answer.code is not RefusalCode.SEARCH_LIMIT:
            return answer
        widths = run.widths()
        return admit(
            room,
            run,
            self.log.now_ms,
            has_executor=self.log.has_executor,
            steps=SearchBudget(),
            width=pin.slice.gpus if pin.slice.gpus in widths else widths[-1],
            barred=payers_of(self.view, run, pin.slice.flavor) - {e.payer for e in pin.shares},
        )

    def _admit_due(
        self, record: RunRecord, promise: ReservationRecord, pin: Entry
    ) -> Admitted | Refusal:
        """Return how a run that is due starts in its own place, or why it cannot.

        It needs the place only until its declared end: others are planned from then on.
        """
        view, run = without_hold(self.log.view, promise.made.reservation), record.spec
        now_ms, until_ms = self.log.now_ms, pin.end_ms
        room = room_beside(view, self.profile, run, now_ms, until_ms, whole_last=True)
        if not pin.is_choosy:
            return self._admit_as_promised(run, only_slice(room, run.pool, pin.slice), pin)
        # It needs certain GPUs of its domains, and so may other runs that are planned there.
        domains = [domain for domain, _ in pin.slice.domains]
        there = only_domains(room, run.pool, pin.slice.flavor, domains)
        answer = self._admit_as_promised(run, there, pin)
        if isinstance(answer, Refusal):
            room = room_beside(view, self.profile, run, now_ms, until_ms)
            there = only_domains(room, run.pool, pin.slice.flavor, domains)
            answer = self._admit_as_promised(run, there, pin)
        return answer

    def _start(self, record: RunRecord, admitted: Admitted) -> None:
        log, run = self.log, record.spec
        if record.reservation is not None:
            close_firm(log, record.reservation, ReservationOutcome.ACTIVATED)
        leases_ever, backfill = record.leases_ever, self.is_out_of_order
        write_start(log, run, admitted, leases_ever=leases_ever, backfill=backfill)
        self._started(run, admitted)
        self.has_new_spares |= run.spares_per_group > 0

    def _started(self, run: Run, admitted: Admitted) -> None:
        """Put a run that has just started into the profile, until its expected end."""
        now_ms, legs = self.log.now_ms, admitted.legs
        entry = place_of(self.view, run, now_ms, slice_of(admitted), shares_of(legs))
        self.profile.put(entry)
        self.profile.hold_nodes(run.owner, admitted.plan.nodes, now_ms, entry.end_ms)
        self._started_runs[run.name] = entry
        self.scores.plan(run.owner, entry.slice.flavor, entry.slice.gpus)

    @property
    def started(self) -> int:
        """How many runs have started in this walk."""
        return len(self._started_runs)

    def started_entry(self, run: str) -> Entry | None:
        """Return the place of a run that started in this walk; None for one that did not."""
        return self._started_runs.get(run)

    def has_started(self, run: str) -> bool:
        """Return whether ``run`` started in this walk."""
        return run in self._started_runs

    def is_fruitless(self, run: str) -> bool:
        """Return whether ``run`` was looked at and no start was found for it."""
        return run in self._fruitless_runs

    def _fill(self, record: RunRecord, room: StateView, answer: Refusal | None) -> bool:
        """Start a run on spares, if there are any and no quota forbids; return whether it did."""
        log, run = self.log, record.spec
        if not log.view.spares or (answer is not None and answer.code in HARD):
            return False
        kept = kept_from_fill(log.view, run, log.now_ms, exempt=record.reservation or "")
        filled = admit_on_spares(room, run, log.now_ms, has_executor=log.has_executor, kept=kept)
        if filled is None:
            return False
        if record.reservation is not None:
            close_firm(log, record.reservation, ReservationOutcome.ACTIVATED)
        backfill = self.is_out_of_order
        write_fill(log, run, filled, leases_ever=record.leases_ever, backfill=backfill)
        self._started(run, filled.admitted)
        return True

    @property
    def is_out_of_order(self) -> bool:
        """Whether a firm run, or an earlier one with a start, waits, so a start is backfill."""
        return self._is_waiting or bool(self.pins)

    # --- Why a run waits ---

    def refuse(self, record: RunRecord) -> None:
        """Write why a run waits, if that has changed; it is computed only where it may have."""
        if self._is_beyond(record.spec.pool):
            return
        known, view = record.refusal, self.log.view
        if known is None or self.search.now.lacks(view, record.spec) is not _LACKS.get(known.code):
            self.tell(record, self._why(record))

    def tell(self, record: RunRecord, refusal: Refusal) -> None:
        """Write ``refusal``, unless it says the same as the last refusal of the run."""
        if refusal.code in HARD:
            refusal = waiting(self.log.view, record.spec, refusal)
        if is_news(record.refusal, refusal):
            log, name = self.log, record.spec.name
            log.write(RunRefused(at_ms=log.now_ms, actor=log.actor, run=name, refusal=refusal))

    def why(self, record: RunRecord) -> Refusal:
        """Return why a run that waits does not start now beside everything that is planned."""
        waits = waits_for_upstream(self.view, record.spec) or held_back(
            self.view, record.spec.name, self.log.now_ms
        )
        if waits is not None:
            return waits
        planned = self.pins.get(record.spec.name) or self.entries.get(record.spec.name)
        if planned is not None:
            self.profile.lift(planned)
        refusal = self._why(record)
        if planned is not None:
            self.profile.put(planned)
        view, run = self.log.view, record.spec
        return waiting(view, run, refusal) if refusal.code in HARD else refusal

    def _why(self, record: RunRecord) -> Refusal:
        """Return why a run does not start now: what is short in itself, or else beside the plan."""
        log, run = self.log, record.spec
        own = record.reservation or ""
        if own not in log.view.reservations:
            own = ""
        view = without_hold(log.view, own) if own else log.view
        answer = self._admit(run, view)
        if isinstance(answer, Refusal):
            return answer
        answer = self._admit(run, self._room(record, own))
        if isinstance(answer, Refusal):
            return (
                answer if answer.code in HARD else reserved(run, answer, self._planned_before(run))
            )
        # What is left is enough now, but that room was made after the run's turn.
        short = Refusal(code=RefusalCode.RESERVED, wanted=run.widths()[-1])
        return reserved(run, short, self._planned_before(run))

    def _planned_before(self, run: Run) -> list[str]:
        """Return what keeps room or money that ``run`` could use: reservations, then runs."""
        view = self.log.view
        return [
            view.runs[entry.run].reservation or entry.run
            for entry in (*self.pins.values(), *self.entries.values())
            if entry.run != run.name
            and entry.pool == run.pool
            and entry.slice.flavor in run.flavors
        ]


def is_news(known: Refusal | None, refusal: Refusal) -> bool:
    """Return whether ``refusal`` says something else than ``known``.

    That is another code or, where both wait for a quota, another owner's quota, or that there are
    shortages where there were none, or none where there were.
    """
    if known is None or known.code is not refusal.code:
        return True
    if refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        return False
    return known.subject != refusal.subject or bool(known.shortages) != bool(refusal.shortages)
