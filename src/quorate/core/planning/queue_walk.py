"""The walk: one pass over the firm starts and the queue, which starts or plans the waiting runs.

First the walk puts firm starts into the profile. Starts that no longer fit are planned again around
the other firm starts, and the cause is recorded. Then the walk visits the waiting runs in queue
order: the first ``reservationDepth`` of each pool, and every run with a firm start. For each run,
the walk searches for the earliest start that quotas, payers, room and the entries so far allow. A
run that can start now is started. A start within the pool's horizon becomes firm; a later start is
a forecast and is not recorded. Beyond the depth, a bounded number of runs are started in the
remaining room. See docs/adr/0025-planning.md.

For a reader, the walk may continue beyond the depth, up to a given run (``Reach``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quorate.core.admission.admit import Admitted
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.follow import names_of, waits_for_upstream, woken_by
from quorate.core.lifecycle.held_back import held_back, held_until_ms
from quorate.core.lifecycle.run_phases import grant_claim
from quorate.core.planning.beyond_depth import start_beyond
from quorate.core.planning.conflict_starts import goes_first
from quorate.core.planning.firm_or_tentative import PlannedStarts
from quorate.core.planning.firm_walk import FirmWalk
from quorate.core.planning.kept_starts import KeptStarts
from quorate.core.planning.left_places import LeftPlaces
from quorate.core.planning.move_causes import cause_of
from quorate.core.planning.recall import Planned, plan_recall, write_recall
from quorate.core.planning.start_now import StartNow
from quorate.core.planning.walk_plan import Reach, WalkPlan
from quorate.core.planning.why_waiting import WhyWaiting
from quorate.core.profile.firm_places import in_order
from quorate.core.profile.node_quota import promised
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.recallable_loans import has_loans, recallable
from quorate.core.tenancy.queue_order import in_turn, ranked_lines
from quorate.model.events import MoveCause, MoveCode, RunEnded, RunRequeued, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.line_ranks import Ranked
from quorate.model.state.records import ReservationRecord, RunRecord


class Walk:
    """One walk of one decision. After the walk, ``plan`` has all planned starts."""

    __slots__ = (
        "_is_rough",
        "_kept",
        "_left",
        "_planned",
        "_reorders",
        "_starts_anew",
        "firm",
        "has_left_place",
        "plan",
        "ranked",
        "reasons",
        "starts",
    )

    def __init__(self, log: DecisionLog, *, reach: Reach | None = None) -> None:
        self.plan = plan = WalkPlan(log, reach)
        self.firm = FirmWalk(plan)
        self.starts = StartNow(plan)
        self.reasons = WhyWaiting(plan, self.starts)
        self._planned = PlannedStarts(plan)
        self._kept: KeptStarts | None = None if reach else KeptStarts(plan.profile, plan.search)
        """Starts kept from the previous walk; None if this walk keeps no starts for the next."""
        self._left = LeftPlaces(self.firm, self._planned, self.starts, self.reasons)
        self._starts_anew = 0
        """How often this decision may still walk the queue again."""
        self._reorders = False
        """Whether an examined run may start now because starts have changed the queue order."""
        self._is_rough = False
        """Whether another walk may find a better start of a run than the search of this walk.

        There are three cases:

        - The search counted the GPUs of started runs, but not the nodes that they are on.
        - A start at this instant became firm although admission refused the run now. The next walk
          tries this start as one that is due.
        - A start became firm although tentative starts of other pools are earlier. The next walk
          plans these tentative starts after the firm one.
        """
        self.ranked: list[Ranked] = []
        """The lines of waiting runs, in their order before the walk plans a start."""
        self.has_left_place = False
        """Whether a firm start has moved, or its run has started without all that was kept for it.

        Waiting runs that come earlier in the queue were planned around the firm start. They may
        find an earlier start now.
        """

    def run(self, *, starts_anew: int = 0) -> int:
        """Start and plan the waiting runs, in queue order.

        Return how often the queue may still be walked again, which is ``starts_anew`` at first. The
        walk ends early in three cases, and the caller then walks the queue again:

        - A run starts otherwise than its firm start was planned, and runs that come earlier in the
          queue could gain by this.
        - A firm start moves.
        - A run starts on spares.

        If the queue may not be walked again, the walk does not end early. Later runs may then be
        planned on GPUs that a firm start has left.
        """
        self._starts_anew = starts_anew
        self._run()
        if self._starts_anew and self.plan.started_runs:
            self._reorders = self._may_overtake()
        return self._starts_anew

    @property
    def leaves_more(self) -> bool:
        """Whether another walk may find starts that this walk did not find."""
        starts = self.starts
        is_incomplete = self.has_left_place or self._reorders or self._is_rough
        return is_incomplete or starts.has_filled or starts.has_new_spares

    @property
    def _ends_early(self) -> bool:
        return self._starts_anew > 0 and (self.has_left_place or self.starts.has_filled)

    def _run(self) -> None:
        plan = self.plan
        for _, promise in in_order(plan.view):
            # Leases that were cut for this start may be outside its domains.
            name = promise.made.run
            if name in plan.pins and goes_first(plan.view, promise, plan.log.now_ms):
                self._visit(plan.view.runs[name])
        self.ranked = ranked_lines(plan.view, plan.log.now_ms)
        queue = plan.queue_of(self.ranked)
        plan.close_full(queue)
        for name in queue.turns():
            self._visit(plan.view.runs[name])
            if self._has_reached(name) or self._ends_early:
                return
            plan.close_full(queue)
        firm = [r.made.run for r in plan.view.reservations.values() if r.made.run not in plan.seen]
        for name in in_turn(plan.view, firm, plan.scores):
            self._visit(plan.view.runs[name])
            if self._ends_early:
                return
        start_beyond(plan, self.starts, self.reasons, self.ranked)
        self._tell_again()
        self._tell_others()

    def keep(self) -> None:
        """Keep the starts that this walk has found, for the next walk."""
        if self._kept is not None:
            self._kept.keep()

    def _has_reached(self, name: str) -> bool:
        """Return whether ``name`` is the last run of a walk that continues beyond the depth."""
        reach = self.plan.reach
        return reach is not None and (name == reach.run or len(self.plan.seen) >= reach.runs_max)

    def _visit(self, record: RunRecord) -> None:
        """Start or plan one run that is within its pool's depth or has a firm start."""
        plan = self.plan
        run = record.spec
        if run.name in plan.seen:
            return
        plan.seen.add(run.name)
        self._left.looked_at.append(run.name)
        if run.sensitive:
            if record.refusal is None:  # A claim is granted at its submission, or never.
                grant_claim(plan.log, run)
            return
        if record.reservation is not None:
            self._firm(record, plan.view.reservations[record.reservation])
        else:
            self._next(record)

    def _tell_again(self) -> None:
        """If runs have started, compute again the refusals that say that room is reserved.

        Only the refusals of examined runs are computed again.
        """
        plan = self.plan
        if not plan.started:
            return
        view = plan.log.view  # This view has the refusals that this walk has written.
        for name in self._left.looked_at:
            if name in view.pending:
                self.reasons.refuse_reserved(view.runs[name])

    def _tell_others(self) -> None:
        """Write why unexamined runs wait, if this decision may have changed the reason."""
        plan = self.plan
        ended: dict[str, None] = {}
        for event in tuple(plan.log.events):
            match event:
                case RunSubmitted():
                    self._told(event.run.name)
                case RunRequeued():
                    self._told(event.run)
                case RunEnded():
                    ended |= dict.fromkeys(names_of(plan.view.runs[event.run].spec))
                case _:
                    pass
        self._tell_followers(ended)

    def _told(self, name: str) -> None:
        """Write why a run waits if it began to wait in this decision and was not examined."""
        plan = self.plan
        record = plan.view.runs.get(name)
        if record is None or name in plan.seen or name not in plan.view.pending:
            return
        if record.spec.sensitive:
            if record.refusal is None:
                grant_claim(plan.log, record.spec)
            return
        waits = waits_for_upstream(plan.view, record.spec) or held_back(
            plan.view, record, plan.log.now_ms
        )
        if waits is not None:
            self.reasons.tell(record, waits)
        else:
            self.reasons.refuse(record)

    def _tell_followers(self, ended: Iterable[str]) -> None:
        """Write why the followers of the runs and arrays in ``ended`` wait."""
        plan = self.plan
        view = plan.log.view  # This view has the starts and refusals that this walk has written.
        followers = (each for name in ended for each in woken_by(view, name, plan.log.now_ms))
        for name in dict.fromkeys(followers):
            record = view.runs[name]
            if record.spec.rounds is not None or name not in view.pending:
                continue
            waits = waits_for_upstream(view, record.spec)
            if waits is not None:
                self.reasons.tell(record, waits)
            elif name not in plan.seen:
                self.reasons.refuse(record)

    def _firm(self, record: RunRecord, promise: ReservationRecord) -> None:
        """Start a run with a firm start if it can start now; else keep or move the firm start."""
        plan = self.plan
        pin = plan.pins.get(record.spec.name)
        if pin is None:
            self._next(record)
            return
        held = held_back(plan.view, record, plan.log.now_ms)
        if held is not None:
            plan.count(pin)
            self.reasons.tell(record, held)
            return
        is_due = pin.start_ms <= plan.log.now_ms
        if not is_due and self._has_no_chance(record.spec):
            plan.pins[pin.run] = plan.pins.pop(pin.run)  # Keep the pins in queue order.
            self._keep_firm(record, promise, pin)
            return
        plan.lift_pin(pin)
        plan.hold_hours(pin, -1)
        if self.starts.start_firm(record, promise, pin):
            self._leave(pin)
            return
        is_late = is_due and (promise.planned_start_ms or 0) < plan.log.now_ms
        waits_for_ends = is_late and plan.search.counts_on_ends_now(record.spec)
        if is_late and not promise.by_conflict and not waits_for_ends:
            # By counting, the firm start fits, but admission finds no start in its domains.
            later_ms = plan.search.next_change_ms(record.spec, plan.log.now_ms)
            self.firm.move_to(promise, later_ms, cause_of(plan.profile, pin, (), plan.log.events))
            self.reasons.refuse(record)
            self.has_left_place = True
            return
        if not is_due and self._recall(record, pin):
            return
        plan.hold_hours(pin, 1)
        plan.put_pin(pin)
        self._keep_firm(record, promise, pin)

    def _keep_firm(self, record: RunRecord, promise: ReservationRecord, pin: Entry) -> None:
        """Keep the firm start ``pin``, or move it to a sooner start by a conflict."""
        plan = self.plan
        is_due = pin.start_ms <= plan.log.now_ms
        if not is_due and self._planned.moves_to_conflict(record, promise, pin):
            self.has_left_place = True
        else:
            plan.count(pin)
        self.reasons.refuse(record)

    def _leave(self, pin: Entry) -> None:
        """Note that a run has left GPUs of its firm start, if earlier runs in the queue could gain.

        In the plan, a start that needs specific racks or node sizes takes its whole domains. So its
        run may leave GPUs even if the run starts as planned.
        """
        plan = self.plan
        started = plan.started_runs[pin.run]
        took = (started.start_ms, started.slice, started.shares)
        # Whether a run can fill a spare depends on which nodes other runs have taken.
        may_free_more = pin.is_choosy or bool(plan.log.view.spares)
        if not may_free_more and took == (pin.start_ms, pin.slice, pin.shares):
            return
        if not plan.is_waiting and not plan.fruitless_runs:
            return
        kept = self._kept
        if kept is None or not self._starts_anew or not self._left.goes_on(pin, kept.found):
            self.has_left_place = True
        else:
            self._starts_anew -= 1  # From here on, this walk counts as a new one.

    def _has_no_chance(self, run: Run) -> bool:
        """Return whether ``run`` certainly cannot start now.

        The run has a chance if it may fill spares or recall loans. Otherwise it has a chance only
        if there may be room for it, and its payers may pay.
        """
        view = self.plan.log.view
        if view.spares or has_loans(view, run.owner):
            return False
        return not self.plan.search.now.has_free(run) or not self.starts.may_be_paid(run)

    def _may_overtake(self) -> bool:
        """Return whether a waiting run may start now because starts changed the queue order."""
        plan, view = self.plan, self.plan.log.view
        tentative, behind = self._left.overtaken()
        if not tentative:
            return False
        for entry in tentative:
            plan.profile.lift(entry)
        runs = [view.runs[name].spec for name in behind]
        may = any(
            has_loans(view, run.owner) or self.starts.may_start(run, self.starts.until_ms(run))
            for run in runs
        )
        for entry in reversed(tentative):
            plan.profile.put(entry)
        return may

    def _next(self, record: RunRecord) -> None:
        """Start a run now, or plan its earliest start."""
        plan = self.plan
        run, now_ms = record.spec, plan.log.now_ms
        if plan.reach is None and plan.fruitless.is_given_up(run):
            # ``start_beyond`` may start the run in the room that remains when the others are
            # planned.
            plan.seen.discard(run.name)
            return
        held = held_back(plan.view, record, now_ms)
        if held is not None:
            if held.code is not RefusalCode.START_REFUSED:
                until_ms = held_until_ms(plan.view, record) or now_ms
                self._planned.put(record, plan.search.find(run, until_ms))
            # No room is kept for a run whose start was refused: the next start may be refused too.
            self.reasons.tell(record, held)
            return
        kept = self._kept
        entry = plan.search.find(run, now_ms) if kept is None else kept.find(run)
        fits_now = entry is not None and entry.start_ms == now_ms
        refusal: Refusal | None = None
        if fits_now or plan.search.may_be_divided(run):
            answer = self._start_beside(record)
            if isinstance(answer, Admitted):
                return
            refusal = answer if fits_now else None
        if entry is not None and fits_now:
            entry = self._next_start(run, entry)
        if plan.log.view.spares:
            room = self.starts.room(record)
            if self.starts.fill(record, room, refusal):
                return
        if self._recall(record, entry):
            return
        self._plan_later(record, entry)
        self.reasons.refuse(record)

    def _plan_later(self, record: RunRecord, entry: Entry | None) -> None:
        """Plan the start of a run at ``entry``; note if another walk may find a better start."""
        plan, run = self.plan, record.spec
        self._is_rough |= bool(plan.started_runs) and plan.search.is_choosy(run)
        self._planned.put(record, entry)
        firm = plan.pins.get(run.name)
        if firm is not None:
            is_last = all(e.start_ms >= firm.start_ms for e in self._tentative_elsewhere(run.pool))
            self._is_rough |= firm.start_ms <= plan.log.now_ms or not is_last

    def _tentative_elsewhere(self, pool: str) -> Iterator[Entry]:
        """Yield the tentative starts of runs in other pools than ``pool``."""
        plan = self.plan
        if len(plan.depths) > 1:
            yield from (entry for entry in plan.entries.values() if entry.pool != pool)

    def _start_beside(self, record: RunRecord) -> Admitted | Refusal | None:
        """Start a run now if the plan leaves room for it.

        Return how the run starts, or its refusal; None if there is certainly no room. The caller
        calls this method if counting finds a start now, or if counting does not try all divisions
        of the run among domains.
        """
        run = record.spec
        if not self.starts.may_start(run, self.starts.until_ms(run)):
            return None
        answer = self.starts.admit(run, self.starts.room(record))
        if isinstance(answer, Admitted):
            self.starts.start(record, answer)
        return answer

    def _next_start(self, run: Run, entry: Entry) -> Entry | None:
        """Return the next start of a run that fits now by counting but cannot be admitted now.

        The search begins at the next change of a resource. But if a lease is expected to end at
        this very instant, ``entry`` is returned, because the lease may still end.
        """
        search, now_ms = self.plan.search, self.plan.log.now_ms
        if not entry.is_choosy and search.counts_on_ends_now(run):
            return entry
        later_ms = search.next_change_ms(run, now_ms)
        return None if later_ms is None else search.find(run, later_ms)

    def _recall(self, record: RunRecord, natural: Entry | None) -> bool:
        """Recall or hand over loans if a run waits only for them; return whether this was done.

        The run starts at once if other payers take over all these loans, or if the run lacked only
        GPU-hours that the recalled loans no longer need. In other cases the run starts when the
        notice of the recalled loans is over. ``natural`` is the run's start without the recall.
        This start is not in the profile.
        """
        plan = self.plan
        log, run, own = plan.log, record.spec, record.reservation or ""
        if plan.is_beyond(run.pool) or (natural is None and plan.search.is_hopeless(run)):
            return False
        if not recallable(log.view, run, log.now_ms, has_executor=log.has_executor):
            return False
        natural_ms = None if natural is None else natural.start_ms
        planned = Planned(tuple(plan.pins), tuple(plan.entries.values()))
        recall = plan_recall(log, run, planned, natural_ms, own)
        if recall is None:
            return False
        write_recall(log, recall, run.name)
        plan.begin_again(planned)
        self.ranked = ranked_lines(plan.view, log.now_ms)
        self._kept = None
        record = plan.view.runs[run.name]
        if natural is not None:
            plan.hold_hours(natural, -1)
        entry = plan.search.find(run, log.now_ms)
        # The run may start now with the GPU-hours that the recalled loans will not use.
        if not recall.told or (entry is not None and entry.start_ms == log.now_ms):
            answer = self.starts.admit(run, self.starts.room(record, own))
            if isinstance(answer, Admitted):
                self.starts.start(record, answer)
                return True
        if (
            natural is not None
            and own
            and (
                entry is None
                or entry.start_ms >= natural.start_ms
                or not promised(plan.profile, entry)
            )
        ):
            plan.hold_hours(natural, 1)
            plan.put_pin(natural)
            plan.count(natural)
            self.reasons.refuse(record)
            return True
        objects = dict.fromkeys(("run", loan.run) for loan in recall.told)
        self._planned.put(record, entry, MoveCause(MoveCode.LOANS_RECALLED, tuple(objects)))
        self.reasons.refuse(record)
        return True
